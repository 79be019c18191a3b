/* Who traces: what limpet keeps of all threads of targets that it has under ptrace, while it works
 * on a process.
 *
 * Made once by who begins that work, and passed on; each tracee (tracee.h) knows its tracer. All
 * calls come from the thread that has made it, as ptrace(2) demands. */
#ifndef LIMPET_INJECTOR_PTRACE_TRACER_H
#define LIMPET_INJECTOR_PTRACE_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/ptrace/priority.h"

struct limpet_tracer;

/* Blocks SIGCHLD in the calling thread, which stays so: the kernel tells of stops by it. */
int limpet_tracer_new(struct limpet_tracer **ret) LIMPET_MUST_CHECK;
/* When no thread is held any more. Waits a second for threads that make the rest of a call, which
 * is then cut short after all, unless a frame ends it. Others that are strays still stop for us
 * when they can, and are let go when limpet ends. NULL is allowed. */
void limpet_tracer_free(struct limpet_tracer *tracer);

#define LIMPET_STRAYS_MOST 4096u
/* Threads that could not be stopped in time (in D state, or without a processor) are strays: they
 * stay traced, stop when they run again, and then stand, perhaps with a lock that another thread
 * waits for, until they are released. This is called in each wait for a thread. */
void limpet_tracer_release_strays(struct limpet_tracer *tracer);
/* Waits for them, for two seconds at most. The end of limpet lets go of them, too, but then nobody
 * makes a system call again that the stop has ended. */
void limpet_tracer_await_strays(struct limpet_tracer *tracer);
/* In other waits: the same as limpet_tracer_release_strays(), and lets processors sleep that were
 * kept awake for long (awake.h). */
void limpet_tracer_idle(struct limpet_tracer *tracer);
/* Around what takes long and calls nothing else of this header: meanwhile strays are released by a
 * handler of SIGCHLD, as soon as they stop. System calls are restarted. `begun`: what _begin_long
 * returned. */
bool limpet_tracer_begin_long(struct limpet_tracer *tracer);
void limpet_tracer_end_long(struct limpet_tracer *tracer, bool begun);
/* How many are left. */
size_t limpet_tracer_strays(const struct limpet_tracer *tracer);
/* How long to sleep at most before the next call, if for `wait_ns` at most. */
uint64_t limpet_tracer_bound_sleep_ns(const struct limpet_tracer *tracer, uint64_t wait_ns);
/* To be called before and after several threads are asked while others are stopped: one that still
 * runs may execute another program. The exec waits for the stopped threads to end and to be reaped,
 * and until then no thread can be asked. */
void limpet_tracer_many(struct limpet_tracer *tracer, bool begin);
/* No thread is to be stopped for a while: the watchdog, which was started for the first one, ends
 * as soon as none is held (watchdog.h). */
void limpet_tracer_rest(struct limpet_tracer *tracer);

/* The priority for stopping threads (LIMPET_PRIORITY_STOP), with processors that stay awake, for a
 * moment (awake.h). Such pairs may be nested, also in those of priority.h. */
struct limpet_priority limpet_tracer_raise(struct limpet_tracer *tracer);
void limpet_tracer_lower(struct limpet_tracer *tracer, struct limpet_priority before);

/* No thread of a frozen target (injector/proc/cgroup.h) is waited for after this time, whatever the
 * deadline of the call. The time in which it is seen frozen is no stop of limpet's. */
void limpet_tracer_bound_frozen(struct limpet_tracer *tracer, uint64_t deadline_ns);
/* The longest time from a thread leaving its own code to being back in it, of all that were
 * released since the last call of this function; 0: none. If a thread was stopped again before it
 * could run, the time counts from the first stop to the end of the last. */
uint64_t limpet_tracer_pop_longest_stop_ns(struct limpet_tracer *tracer);
/* Adds a stop that was made by other means. */
void limpet_tracer_note_stop_ns(struct limpet_tracer *tracer, uint64_t stop_ns);

#endif
