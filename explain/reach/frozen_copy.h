/* A copy of a process's memory of one moment, in which all its threads were stopped: as much of it
 * as there was time for. */
#ifndef LIMPET_EXPLAIN_REACH_FROZEN_COPY_H
#define LIMPET_EXPLAIN_REACH_FROZEN_COPY_H

#include "explain/reach/search_ranges.h"

struct limpet_frozen_part {
	uint64_t start, end;
	size_t at; /* in `bytes` */
};
/* Begins as all zeros. */
struct limpet_frozen_copy {
	struct limpet_frozen_part *list; /* sorted by address once it is complete */
	size_t count, capacity;
	uint8_t *bytes;
	size_t used, room;
	bool is_whole; /* nothing was left out */
	int memory;    /* private: /proc/PID/mem */
	struct limpet_pages *pages;
	struct limpet_memory_reader reader;      /* of the copy; of `live` where it has nothing */
	const struct limpet_memory_reader *live; /* borrowed; to be set before it is read */
};
void limpet_frozen_copy_done(struct limpet_frozen_copy *copy);

/* Room for so many bytes, which is touched now and not while threads stand. -ENOMEM, or -errno of
 * /proc. */
int limpet_frozen_copy_begin(struct limpet_frozen_copy *copy, const struct limpet_target *target,
			     size_t room) LIMPET_MUST_CHECK;
/* While all threads are stopped: copies the present pages of these ranges, until the deadline
 * (CLOCK_MONOTONIC). What fits into little time and decides most comes first: thread-local data,
 * stacks, data of modules, small ranges. `first`: pages that come before all but these. */
void limpet_frozen_copy_take(struct limpet_frozen_copy *copy,
			     const struct limpet_search_ranges *ranges,
			     const struct limpet_search_ranges *first, uint64_t deadline_ns);
/* Afterwards: from now on it can be read. */
void limpet_frozen_copy_end(struct limpet_frozen_copy *copy);
/* Shows the words of these ranges that were copied, as limpet_reach_scan() does. 0, or what `visit`
 * returned. */
int limpet_frozen_copy_visit(const struct limpet_frozen_copy *copy,
			     const struct limpet_search_ranges *ranges,
			     int (*visit)(void *context, const struct limpet_search_range *range,
					  uint64_t address, const uint64_t *words, size_t count),
			     void *context) LIMPET_MUST_CHECK;

#endif
