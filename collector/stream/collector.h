/* The collector: reads what the agent writes to shared memory, puts the records into the order of
 * their counters, and passes them to the recorder.
 *
 * The shared memory is hostile: each value is copied once and checked, and the copy is used; which
 * thread owns which chunk is kept in private memory. One thread; never blocks; never prints. */
#ifndef LIMPET_COLLECTOR_STREAM_COLLECTOR_H
#define LIMPET_COLLECTOR_STREAM_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/lost_stacks.h"
#include "collector/stream/module_table.h"
#include "common/err.h"
#include "injector/session/session.h"

struct limpet_collector;

/* To be called before limpet_session_attach(). Both must outlive it. */
int limpet_collector_new(struct limpet_session *session, struct limpet_recorder *recorder,
			 struct limpet_collector **ret) LIMPET_MUST_CHECK;
void limpet_collector_free(struct limpet_collector *collector);
/* The agent is switched on: this is time 0 of the capture. */
void limpet_collector_begin(struct limpet_collector *collector);
/* The capture ends here: what the agent records from now on, while limpet detaches, is read but is
 * not in the trace. Threads that find no room stop recording. */
void limpet_collector_end(struct limpet_collector *collector);
/* Nanoseconds since the beginning, up to the end. */
uint64_t limpet_collector_time_ns(const struct limpet_collector *collector);
/* Sets the time with which the agent stamps records until the next call. A drain sets it, too. */
void limpet_collector_publish_time(struct limpet_collector *collector);

/* The same, with a time that no record has yet: a little ahead, by LIMPET_TIME_UNIT_NS. Returns it:
 * calls that begin later have it or a later one. */
uint64_t limpet_collector_begin_time(struct limpet_collector *collector);

/* Reads everything that is published, and records what is in order. Returns the number of events
 * recorded, or the recorder's -errno (it reads on nevertheless). */
int64_t limpet_collector_drain(struct limpet_collector *collector);
/* Call when no thread writes any more: records the rest. */
int64_t limpet_collector_drain_all(struct limpet_collector *collector);
/* Housekeeping, a few times a second: dead threads, modules, bounds of stacks. */
void limpet_collector_housekeep(struct limpet_collector *collector);
/* Records the names that threads have now; housekeeping does so for new ones. Not after the target
 * executed another program. */
void limpet_collector_name_threads(struct limpet_collector *collector);
/* Number of threads for which the agent has kept a state; threads that used the same state one
 * after the other count once. */
uint32_t limpet_collector_thread_states(const struct limpet_collector *collector);
/* Fills in its part of a tick for the recorder. */
void limpet_collector_fill_tick(struct limpet_collector *collector,
				struct limpet_recorder_tick *ret_tick);
/* Events that came when a later one of their address may already have been recorded: their thread
 * spent seconds in the middle of a call, or too many records waited, so the collector no longer
 * waited for them. They may be in the wrong order for their block. */
uint64_t limpet_collector_late_events(const struct limpet_collector *collector);
/* Events whose stack is unknown, by the reason. */
uint64_t limpet_collector_lost_stacks(const struct limpet_collector *collector,
				      enum limpet_lost_stacks why);
/* The memory that stacks may take; LIMPET_STACK_TREE_BYTES unless set. */
void limpet_collector_set_stack_memory(struct limpet_collector *collector, uint64_t bytes);
/* Records, or what the agent counts, made no sense: the program overwrote them, and it is unknown
 * how many are lost. */
bool limpet_collector_is_broken(const struct limpet_collector *collector);
/* Pointers to an allocator that the agent left alone, as of the last tick. */
uint64_t limpet_collector_slots_unhooked(const struct limpet_collector *collector);
/* Modules that were loaded meanwhile, and may have called allocators before these calls were
 * hooked; as of the last tick. */
uint64_t limpet_collector_late_modules(const struct limpet_collector *collector);
/* LIMPET_NOTED_*: which of the functions were called that the agent only notes. */
uint32_t limpet_collector_noted(const struct limpet_collector *collector);
/* The last drain left some records unread: it takes a limited number of chunks of each thread. */
bool limpet_collector_has_more(const struct limpet_collector *collector);
/* Before the last drain the agent had rung the bell: there was something to do. */
bool limpet_collector_was_called(const struct limpet_collector *collector);
/* A poll between drains: tells the agent the time, by which it stamps its records. Whether it has
 * rung the bell since the last drain: there is something to do. */
bool limpet_collector_poll(struct limpet_collector *collector);
/* For --on-overload wait: how long a thread without room waits for a sign of life; 0: it does not
 * wait. */
void limpet_collector_set_patience(struct limpet_collector *collector, uint64_t patience_ns);
/* How many records may wait for earlier ones of their addresses, before they are passed on without
 * these; a million unless set. */
void limpet_collector_set_most_kept(struct limpet_collector *collector, size_t records);
/* What functions that the user named did that no process can have done: see plausible.h. */
void limpet_collector_judge_named(const struct limpet_collector *collector, char *ret_words,
				  size_t bytes);
/* Some slot lost its hook, or the loader's list has a module that the agent has not seen. */
bool limpet_collector_needs_rescan(struct limpet_collector *collector);

/* "one stack of libz.so.1.2.13": the module of a node's innermost frame outside of allocators and
 * of the library of operator new; false: unknown. */
bool limpet_collector_describe_site(const struct limpet_collector *collector, uint32_t node,
				    char *ret, size_t bytes);

/* See limpet_module_table_identify(). */
void limpet_collector_identify_modules(struct limpet_collector *collector);

/* Owned by the collector. */
size_t limpet_collector_sources(const struct limpet_collector *collector,
				const struct limpet_collector_source **ret);

#endif
