/* Walks over the objects of a page of V8's heap: each is followed by the next, and its map tells
 * its kind and how long it is. By a copy of the page; maps are read as they are met, by a reader.
 * All of it is hostile, see v8_objects.h: a walk ends at the first word that leads to no map, or at
 * an object that does not fit. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_WALK_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_objects.h"

/* What is known of a map. */
struct limpet_v8_map {
	uint64_t address; /* 0: the slot is empty */
	uint16_t type;
	uint8_t words; /* of each object; 0: they differ */
	uint8_t rule;
	bool is_free; /* its objects fill what is not in use */
	int32_t row;  /* for who counts; begins as -1 */
};

struct limpet_v8_walk;
/* `v8` is borrowed. */
int limpet_v8_walk_new(const struct limpet_v8 *v8, struct limpet_v8_walk **ret) LIMPET_MUST_CHECK;
void limpet_v8_walk_free(struct limpet_v8_walk *walk);

/* A part of the area that is not in use, and not filled: between the top and the limit of where
 * objects are being allocated. */
struct limpet_v8_gap {
	uint64_t top, limit;
};

struct limpet_v8_area {
	const uint8_t *bytes;             /* the copy, from the start on */
	uint64_t copied_bytes;            /* less than the area has: of one large object */
	uint64_t start, end;              /* in the process */
	const struct limpet_v8_gap *gaps; /* sorted */
	size_t gap_count;
	bool is_young; /* nothing above a gap is in use */
};

struct limpet_v8_walked {
	uint64_t address;
	const uint8_t *object; /* its copy */
	uint64_t copied_bytes; /* from there on */
	uint64_t bytes;
	struct limpet_v8_map *map; /* valid as long as nothing is walked */
};
/* Calls `visit`, which may be NULL, for each object from *at on. 0: up to the end; -EBADMSG: what
 * is at *ret_at is no object; -ENOMEM. */
int limpet_v8_walk_area(struct limpet_v8_walk *walk, const struct limpet_v8_area *area,
			uint64_t from,
			void (*visit)(void *context, const struct limpet_v8_walked *walked),
			void *context, uint64_t *ret_at) LIMPET_MUST_CHECK;
/* The next address after `from` from which objects follow each other; the area's end: none. */
uint64_t limpet_v8_walk_next(struct limpet_v8_walk *walk, const struct limpet_v8_area *area,
			     uint64_t from);
/* What a map's address leads to; NULL: no map. Valid until the next one is asked for. */
struct limpet_v8_map *limpet_v8_walk_map(struct limpet_v8_walk *walk, uint64_t address);

#endif
