/* mimalloc's memory, recognized from outside.
 *
 * Segments of mimalloc 2: each begins at a multiple of 32 MiB with a head that holds a cookie, the
 * segment's address exclusive-or a secret number of the process.
 *
 * Arenas of mimalloc 3: each begins with a head that holds its address, its size and the number of
 * its slices. */
#ifndef LIMPET_EXPLAIN_MIMALLOC_H
#define LIMPET_EXPLAIN_MIMALLOC_H

#include <stdbool.h>

#include "explain/memory_ranges.h"
#include "injector/proc/memory_reader.h"

#define LIMPET_MIMALLOC_SEGMENT_BYTES ((uint64_t)32 << 20)
#define LIMPET_MIMALLOC_HEAD_WORDS 64u

/* Where cookies are, and the secret. */
struct limpet_mimalloc {
	bool found;
	unsigned offset; /* word of the head */
	unsigned gap;    /* words from there to the number of slices */
	uint64_t secret;
};

/* One segment's head. */
struct limpet_mimalloc_head {
	uint64_t address;
	uint64_t words[LIMPET_MIMALLOC_HEAD_WORDS];
};

/* Looks for a secret by which UNKNOWN ranges begin with cookies, of two segments at least. 0 or
 * -ENOMEM. */
int limpet_mimalloc_find(const struct limpet_memory_reader *memory,
			 const struct limpet_memory_ranges *ranges,
			 struct limpet_mimalloc *ret_mimalloc) LIMPET_MUST_CHECK;
/* The bytes of the segment that begins at this address; 0: there is none. */
uint64_t limpet_mimalloc_segment(const struct limpet_memory_reader *memory,
				 const struct limpet_mimalloc *mimalloc, uint64_t address);

/* Arenas of mimalloc 3, which has 160 at most for each copy and sub-process (MI_MAX_ARENAS). */
#define LIMPET_MIMALLOC_ARENAS 256u
struct limpet_mimalloc_arenas {
	uint64_t list[LIMPET_MIMALLOC_ARENAS];
	size_t count;
	bool is_cut; /* there are more */
};
/* Adds one, or notes that there are more. */
void limpet_mimalloc_arenas_add(struct limpet_mimalloc_arenas *arenas, uint64_t address);

#define LIMPET_MIMALLOC_ARENA_WORDS 9u
#define LIMPET_MIMALLOC_ARENA_ALIGN_BYTES ((uint64_t)64 << 10)
/* The bytes of the arena that begins at this address; 0: there is none. */
uint64_t limpet_mimalloc_arena(const struct limpet_memory_reader *memory, uint64_t address);

/* The same, judged by copies; public for tests. */
uint64_t limpet_mimalloc_judge_arena(uint64_t address,
				     const uint64_t words[LIMPET_MIMALLOC_ARENA_WORDS]);
bool limpet_mimalloc_judge(const struct limpet_mimalloc_head *heads, size_t count,
			   struct limpet_mimalloc *ret_mimalloc);

#endif
