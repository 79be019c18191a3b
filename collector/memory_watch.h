/* What the target's memory belongs to: before the agent comes, during a capture, and at its end.
 *
 * A look takes time in which the target may wait to map memory, and in which nobody drains. During
 * the capture looks are rare and short; one that would take longer is taken before and after it
 * only. One thread. */
#ifndef LIMPET_COLLECTOR_MEMORY_WATCH_H
#define LIMPET_COLLECTOR_MEMORY_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/memory_accounts.h"

struct limpet_collector;
struct limpet_recorder;
struct limpet_session;

struct limpet_memory_watch {
	pid_t pid;
	const char *runtime; /* of a language with a heap of its own; "": none */
	struct limpet_session *session;
	/* Both from the first look after the agent came. */
	struct limpet_recorder *recorder;
	struct limpet_collector *collector;
	struct limpet_memory before, last;
	bool is_new;             /* not taken for a tick yet */
	bool other_allocators;   /* are followed, whose memory cannot be told from any other */
	uint64_t looked_ns;      /* monotonic */
	uint64_t took_ns;        /* processor time of the last look */
	uint64_t look_rss_bytes; /* of the tick before the last look */
	char unfollowed[256];    /* who may have what no followed allocator has; "": not known */
};

/* Before the agent comes; `pid`, `runtime` and `session` are set. A program that has not begun yet
 * has nothing. */
void limpet_memory_watch_begin(struct limpet_memory_watch *watch, bool other_allocators);
/* Looks if it is time and something may have changed: by events, of which the last came at
 * `events_ns`, or by RSS as of the last tick. */
void limpet_memory_watch_tick(struct limpet_memory_watch *watch, uint64_t now_ns,
			      uint64_t events_ns, uint64_t rss_bytes);
/* Once the recorder has all that the target mapped. */
void limpet_memory_watch_end(struct limpet_memory_watch *watch, bool agent_is_there);
/* What was found since the last call, if anything was. */
void limpet_memory_watch_take(struct limpet_memory_watch *watch, struct limpet_memory *ret);
struct limpet_unfollowed limpet_memory_watch_judge(const struct limpet_memory_watch *watch);

#endif
