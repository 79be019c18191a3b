/* The blocks of glibc's malloc that a process has in use, all of them, by address: chunks of the
 * arenas without those that wait in the caches of threads, and blocks with mappings of their own.
 */
#ifndef LIMPET_EXPLAIN_USED_BLOCKS_H
#define LIMPET_EXPLAIN_USED_BLOCKS_H

#include <sys/types.h>

#include "explain/glibc_heaps.h"
#include "explain/heap_ranges.h"

struct limpet_target;

struct limpet_used_block {
	uint64_t start; /* of the chunk: the block comes 16 bytes later */
	uint32_t type;  /* for the caller; 0 */
	uint8_t flags;  /* the same */
	bool mmapped;
	uint64_t bytes; /* of the chunk */
};
static inline uint64_t limpet_used_block_usable(const struct limpet_used_block *block)
{
	return block->bytes - (block->mmapped ? 16 : 8);
}
/* What free blocks in the caches of threads have as their second word: one value, or before 2.34
 * one for each thread. The first ones. */
#define LIMPET_CACHE_KEYS 16u
struct limpet_cache_keys {
	uint64_t list[LIMPET_CACHE_KEYS];
	size_t count;
};
static inline bool limpet_cache_keys_have(const struct limpet_cache_keys *keys, uint64_t word)
{
	for (size_t i = 0; i < keys->count; i++)
		if (keys->list[i] == word)
			return true;
	return false;
}

/* Begins as all zeros. */
struct limpet_used_blocks {
	struct limpet_used_block *list; /* sorted by address */
	size_t count, capacity;
	/* If asked for: those of arenas, sorted, which are then not in the list. */
	struct limpet_glibc_chunks chunks;
	bool has_glibc;
	bool is_whole;        /* nothing was missed: no arena, no list of free chunks, no mapping */
	bool is_spent;        /* the budget of the reader was too small */
	bool is_cut;          /* there were more than can be held */
	size_t unread_arenas; /* could not be read, at least */
	bool lists_whole;     /* every list of free chunks was followed: none is among the blocks */
	uint64_t cached, cached_bytes; /* chunks in the caches of threads */
	struct limpet_cache_keys keys;
	struct limpet_present present;    /* pages of the arenas */
	struct limpet_heap_ranges ranges; /* sorted: memory of the arenas that were read; tables:
					     the arenas' own structures */
};
void limpet_used_blocks_done(struct limpet_used_blocks *blocks);

/* 0; -errno of /proc, -ENOMEM. `pages` must leave out swapped pages. */
int limpet_used_blocks_read(const struct limpet_target *target,
			    const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			    struct limpet_used_blocks *ret_blocks) LIMPET_MUST_CHECK;
/* The same with `chunks`, which takes half the memory. */
int limpet_used_blocks_read_chunks(const struct limpet_target *target,
				   const struct limpet_memory_reader *memory,
				   struct limpet_pages *pages,
				   struct limpet_used_blocks *ret_blocks) LIMPET_MUST_CHECK;

#endif
