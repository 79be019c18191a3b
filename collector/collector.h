/* The collector: takes what the agent writes into shared memory, puts the records into the order
 * of their counters, and feeds the recorder.
 *
 * The shared memory is hostile: each value is copied once, checked, and the copy used; what owns
 * which chunk is kept here, privately. One thread; never blocks; never prints. */
#ifndef LIMPET_COLLECTOR_COLLECTOR_H
#define LIMPET_COLLECTOR_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/session.h"
#include "recorder/recorder.h"

struct limpet_collector;

/* Before limpet_session_enter(). Both must outlive it. */
int limpet_collector_new(struct limpet_session *session, struct limpet_recorder *recorder,
			 struct limpet_collector **ret) LIMPET_MUST_CHECK;
void limpet_collector_free(struct limpet_collector *collector);
/* The agent is on: time 0 of the capture. */
void limpet_collector_begin(struct limpet_collector *collector);
/* Nanoseconds since then. */
uint64_t limpet_collector_time_ns(const struct limpet_collector *collector);
/* Gives the agent the time, by which it stamps records until it is told again. A drain does, too.
 */
void limpet_collector_tell_time(struct limpet_collector *collector);

/* Reads all that is published and records what is in order. Returns the number of events recorded,
 * or the recorder's -errno (reading goes on all the same). */
int64_t limpet_collector_drain(struct limpet_collector *collector);
/* Nobody writes any more: records the rest. */
int64_t limpet_collector_drain_all(struct limpet_collector *collector);
/* Housekeeping, a few times a second: dead threads, modules, stacks' extents. */
void limpet_collector_housekeep(struct limpet_collector *collector);
/* Threads that the agent has kept a state for, one after the other in the same place counted once.
 */
uint32_t limpet_collector_thread_states(const struct limpet_collector *collector);
/* Puts what it knows into a tick for the recorder. */
void limpet_collector_fill_tick(struct limpet_collector *collector,
				struct limpet_recorder_tick *ret_tick);
/* Events that came when a later one of their address may have been recorded: of a thread that was
 * not waited for any more, as it stood still for seconds in the middle of a call, or too many
 * waited. What they say of a block may be in the wrong order. */
uint64_t limpet_collector_late_events(const struct limpet_collector *collector);
/* Events that have no stack: the agent had no room to describe it or no number left, or the
 * collector has no room for it (or was never told of it). */
enum limpet_lost_stacks { LIMPET_LOST_BY_AGENT, LIMPET_LOST_BY_COLLECTOR };
uint64_t limpet_collector_lost_stacks(const struct limpet_collector *collector,
				      enum limpet_lost_stacks whose);
/* What stacks may take; LIMPET_STACK_TREE_BYTES unless set. */
void limpet_collector_set_stack_memory(struct limpet_collector *collector, uint64_t bytes);
/* A thread's records led nowhere: the program wrote over them, and nobody knows how many are lost.
 */
bool limpet_collector_is_broken(const struct limpet_collector *collector);
/* Places that call an allocator and were left alone by the agent. */
uint32_t limpet_collector_slots_not_taken(const struct limpet_collector *collector);
/* Modules that came meanwhile, and may have called allocators before these calls were hooked. */
uint32_t limpet_collector_late_modules(const struct limpet_collector *collector);
/* The program closed its end of the socket, or is gone, or is another one. */
bool limpet_collector_channel_ended(const struct limpet_collector *collector);
/* The last drain left some unread: it takes a bounded number of chunks of each thread. */
bool limpet_collector_has_more(const struct limpet_collector *collector);
/* Before the last drain the agent had said that there was something to do. */
bool limpet_collector_was_called(const struct limpet_collector *collector);
/* Since the last drain the agent has said that there is something to do. */
bool limpet_collector_is_called(const struct limpet_collector *collector);
/* For --on-overload wait: how long a thread without room waits for a sign of life; 0: not at all.
 */
void limpet_collector_set_patience(struct limpet_collector *collector, uint64_t patience_ns);
/* How many records wait for earlier ones of their addresses at most, before they go on without
 * these; a million unless set. */
void limpet_collector_set_most_kept(struct limpet_collector *collector, size_t records);
/* What no process can have done, if functions that the user named did it: see plausible.h. */
void limpet_collector_judge_named(const struct limpet_collector *collector, char *ret_words,
				  size_t bytes);
/* Some slot lost its hook, or a module is in the loader's list that the agent has not seen. */
bool limpet_collector_wants_rescan(struct limpet_collector *collector);

/* "libz.so.1.2.13+0x1a2b" for a node's innermost frame outside of libc; false: unknown. */
bool limpet_collector_describe_site(const struct limpet_collector *collector, uint32_t node,
				    char *ret, size_t bytes);

/* Files of the target's modules, opened while they were sure to be the right ones. */
struct limpet_collector_source {
	uint32_t module; /* number in the trace */
	int fd;          /* -1: could not be opened; owned by the collector */
};
size_t limpet_collector_sources(const struct limpet_collector *collector,
				const struct limpet_collector_source **ret);

#endif
