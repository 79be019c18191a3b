/* The owners of the target's memory: before the agent is loaded, during a capture, and at its end.
 *
 * While limpet looks, the target may wait to map memory, and no events are drained. During the
 * capture looks are rare and short; a look that would take longer is made only before and after it.
 * One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_MEMORY_WATCH_H
#define LIMPET_COLLECTOR_CAPTURE_MEMORY_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/memory_accounts.h"
#include "common/object_counts.h"
#include "common/resident_account.h"

struct limpet_target;

struct limpet_recorder;
struct limpet_session;

struct limpet_memory_watch {
	const struct limpet_target *target;
	const char *runtime; /* of a language with a heap of its own; "": none */
	struct limpet_session *session;
	struct limpet_recorder *recorder; /* set for looks after the agent is loaded */
	struct limpet_memory before, last;
	struct limpet_resident_account account_before, account; /* of the end */
	struct limpet_object_counts objects_before, objects;
	bool is_new;           /* not yet put into a tick */
	bool is_new_program;   /* no account is taken of it before the capture */
	bool other_allocators; /* others are followed, whose memory cannot be distinguished from the
				  rest */
	uint64_t looked_ns;    /* monotonic */
	uint64_t took_ns;      /* processor time of the last look */
	uint64_t look_rss_bytes; /* of the tick before the last look */
	char unfollowed[256];    /* names of allocators that may own the rest; "": unknown */
};

/* To be called before the agent is loaded; `target`, `runtime`, `session` and what is known of
 * `unfollowed` are set. A program that
 * has not started yet has no memory. */
void limpet_memory_watch_begin(struct limpet_memory_watch *watch, bool other_allocators);
/* Looks if it is time and something may have changed: there were events, the last at `events_ns`,
 * or RSS changed according to the last tick. */
void limpet_memory_watch_tick(struct limpet_memory_watch *watch, uint64_t now_ns,
			      uint64_t events_ns, uint64_t rss_bytes);
/* To be called when the recorder knows everything that the target mapped. */
void limpet_memory_watch_end(struct limpet_memory_watch *watch, bool agent_is_there);
/* Returns what was found since the last call, if anything. */
void limpet_memory_watch_done(struct limpet_memory_watch *watch);
void limpet_memory_watch_take(struct limpet_memory_watch *watch, struct limpet_memory *ret);
struct limpet_unfollowed limpet_memory_watch_judge(const struct limpet_memory_watch *watch);

#endif
