/* The page faults of all threads of a process, from the kernel: perf_event_open(2), without
 * stopping the process or changing anything in it.
 *
 * There is an event for each thread on each processor; the kernel adds those of later threads by
 * itself. Each processor has one ring, so that memory does not grow with the threads. One thread;
 * never blocks. */
#ifndef LIMPET_COLLECTOR_PAGES_FAULT_EVENTS_H
#define LIMPET_COLLECTOR_PAGES_FAULT_EVENTS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/pages/fault_record.h"
#include "common/err.h"

struct limpet_target;

struct limpet_fault_events;

/* Opens the events; nothing is recorded before limpet_fault_events_start(). -EACCES, -EPERM,
 * -ENOSYS, -EMFILE...: refused, with the reason and what helps. */
int limpet_fault_events_open(const struct limpet_target *target, struct limpet_fault_events **ret,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_fault_events_free(struct limpet_fault_events *events);
void limpet_fault_events_start(struct limpet_fault_events *events);
void limpet_fault_events_stop(struct limpet_fault_events *events);

/* Whether faults in system calls are recorded, too: the kernel may forbid that alone. */
bool limpet_fault_events_see_kernel(const struct limpet_fault_events *events);
/* Threads that came while the others were opened, again and again: they may not be recorded. */
bool limpet_fault_events_are_partial(const struct limpet_fault_events *events);

/* The next record: 1, 0: there is none now, or -EBADMSG: records were skipped that made no sense.
 * Records of different processors are in the order of their time as far as they are here. Valid
 * until the next call. */
int limpet_fault_events_next(struct limpet_fault_events *events, struct limpet_fault_record *ret);
/* From here on _next() returns what was recorded up to now, and then 0. */
void limpet_fault_events_refresh(struct limpet_fault_events *events);
/* What was lost up to now and not told by a record is of no interest. */
void limpet_fault_events_forget_lost(struct limpet_fault_events *events);
/* Once they are stopped and all is read: how many were lost that no record told. 1: the kernel does
 * not count them, and some may have been. */
int limpet_fault_events_untold(const struct limpet_fault_events *events, uint64_t *ret_lost);
/* Waits until a ring is filled to a good part, one of `fds` is ready, or the time is over. */
int limpet_fault_events_wait(struct limpet_fault_events *events, struct pollfd *fds, nfds_t count,
			     uint64_t wait_ns, const sigset_t *mask);

/* Why the kernel refused, by what is known: returns `error`, with a message. Pure except for the
 * settings in /proc that it reads; public for tests. */
int limpet_fault_events_explain(const struct limpet_target *target, int error,
				struct limpet_err *err);

#endif
