/* The heaps of glibc's malloc in a process, read from outside while it runs: of each arena, what is
 * in use and what is free. */
#ifndef LIMPET_EXPLAIN_GLIBC_HEAPS_H
#define LIMPET_EXPLAIN_GLIBC_HEAPS_H

#include <sys/types.h>

#include "explain/glibc_walk.h"
#include "injector/proc/proc.h"

struct limpet_target;

enum limpet_unread {
	LIMPET_UNREAD_CHANGED, /* too fast; or the chunks did not make sense */
	LIMPET_UNREAD_BROKEN,  /* they did not, and did not change where they did not */
	LIMPET_UNREAD_ABSENT,  /* pages are swapped out */
	LIMPET_UNREAD_LATE     /* the budget of the reader was spent */
};

struct limpet_glibc_arena {
	struct limpet_glibc_state state; /* its address 0: not even that is known */
	bool is_main;
	/* What is free was found: `figures` is complete. Otherwise only its bytes of regions and of
	 * resident memory are known. */
	bool known;
	bool fast_whole; /* and every list of fastbins was followed to its end */
	/* By mlock(2), of what is resident; set by limpet_mappings_account(): */
	uint64_t locked_bytes;
	uint64_t locked_returned_bytes;      /* of what malloc_trim(3) would return otherwise */
	struct limpet_glibc_returns returns; /* what is neither is left */
	enum limpet_unread unread;           /* why it is not known */
	bool is_steady;         /* and nothing changed where the walk failed, again and again */
	size_t regions;         /* of memory: heaps */
	uint64_t counted_bytes; /* of resident memory, as far as the kernel's figures of its
				   mappings allow; set by limpet_mappings_account() */
	struct limpet_glibc_figures figures;
};

/* A range of memory that belongs to an arena. */
struct limpet_glibc_range {
	uint64_t start, end; /* from the beginning of a page on */
	uint64_t chunks;     /* where chunks begin, at or before `start` or in its page */
	uint64_t resident_bytes;
	size_t arena;
};

/* Begins as all zeros. */
struct limpet_glibc_heaps {
	struct limpet_glibc_arena *list;
	size_t count, capacity;
	struct limpet_glibc_range *ranges; /* sorted by address */
	size_t range_count, range_capacity;
	bool is_cut;      /* there are arenas that are not in the list, or not as such */
	bool has_library; /* the process has glibc's library, and memory from brk(2) */
	bool uses_brk;    /* a main arena has memory from brk(2) */
	/* Where that arena may have grown by brk(2) since it was read: in mappings named [heap]. */
	uint64_t grown_start, grown_end;
	bool mmapped_known;     /* whether glibc's own sum was found: */
	uint64_t mmapped_bytes; /* of blocks with a mapping of their own */
};
void limpet_glibc_heaps_done(struct limpet_glibc_heaps *heaps);
/* [start, end) of the arena is locked: madvise(2) returns nothing of it, and nothing that follows
 * in the same call. */
void limpet_glibc_arena_lock(struct limpet_glibc_arena *arena, uint64_t start, uint64_t end);

/* 0, also if the process does not use glibc's malloc (count 0); -errno of /proc, -ENOMEM. If
 * glibc's own data is swapped out, there is an arena for what brk(2) gave and one for each heap,
 * none of them known. `pages` must leave out swapped pages. `used`: gets the chunks in use of all
 * arenas that are known; NULL: they are not listed. */
int limpet_glibc_heaps_read(const struct limpet_target *target,
			    const struct limpet_memory_reader *memory,
			    const struct limpet_maps *maps, struct limpet_pages *pages,
			    struct limpet_glibc_chunks *used,
			    struct limpet_glibc_heaps *ret_heaps) LIMPET_MUST_CHECK;
/* Looks again up to where the main arena has grown, so that later figures of the mappings can be
 * told from memory that others got by brk(2). */
void limpet_glibc_heaps_refresh(const struct limpet_memory_reader *memory,
				struct limpet_glibc_heaps *heaps);
/* Bytes of [start, end) on pages that ranges have. */
uint64_t limpet_glibc_heaps_bytes(const struct limpet_glibc_heaps *heaps, uint64_t start,
				  uint64_t end);
/* The range that holds this address, or NULL. */
const struct limpet_glibc_range *limpet_glibc_heaps_find(const struct limpet_glibc_heaps *heaps,
							 uint64_t address);

#endif
