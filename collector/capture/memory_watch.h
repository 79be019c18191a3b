/* The account of the target's resident memory before the agent is loaded and at the end of a
 * capture, and who owns what no followed allocator has. One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_MEMORY_WATCH_H
#define LIMPET_COLLECTOR_CAPTURE_MEMORY_WATCH_H

#include <stdbool.h>

#include "common/object_counts.h"
#include "common/resident_account.h"
#include "common/unfollowed.h"

struct limpet_target;

struct limpet_session;

struct limpet_memory_watch {
	const struct limpet_target *target;
	const char *runtime; /* of a language with a heap of its own; "": none */
	struct limpet_session *session;
	struct limpet_resident_account before, after;
	struct limpet_object_counts objects_before, objects;
	bool is_new_program;   /* no account is taken of it before the capture */
	bool other_allocators; /* others than glibc's are followed */
	char unfollowed[256];  /* names of allocators that may own the rest; "": unknown */
};

/* To be called before the agent is loaded; all but the accounts is set, `unfollowed` as far as it
 * is known. */
void limpet_memory_watch_begin(struct limpet_memory_watch *watch);
void limpet_memory_watch_end(struct limpet_memory_watch *watch);
void limpet_memory_watch_done(struct limpet_memory_watch *watch);
/* As of the last account. */
struct limpet_unfollowed limpet_memory_watch_judge(const struct limpet_memory_watch *watch);

#endif
