/* Which memory of a process is searched for pointers: blocks of the heap, and what pointers start
 * from (roots): data of modules, stacks, thread-local data, and memory of no known owner. */
#ifndef LIMPET_EXPLAIN_REACH_SEARCH_RANGES_H
#define LIMPET_EXPLAIN_REACH_SEARCH_RANGES_H

#include "explain/reach/block_table.h"
#include "explain/used_blocks.h"

enum limpet_searched {
	LIMPET_SEARCHED_HEAP,   /* only where blocks in use are */
	LIMPET_SEARCHED_DATA,   /* of a module; only what was written to */
	LIMPET_SEARCHED_STACK,  /* of a thread, used or not */
	LIMPET_SEARCHED_LOCAL,  /* thread-local data, and what the C library knows of a thread */
	LIMPET_SEARCHED_MEMORY, /* of other allocators, of runtimes, of the program itself */
	LIMPET_SEARCHED_MIXED,  /* the same, with blocks in it that the caller knows */
	LIMPET_SEARCHED_KINDS
};

struct limpet_search_range {
	uint64_t start, end;
	enum limpet_searched kind;
	bool own;    /* of a file that is mapped privately */
	bool shared; /* what is not present may have contents all the same */
};
/* Begins as all zeros. Sorted by address, without overlaps. */
struct limpet_search_ranges {
	struct limpet_search_range *list;
	size_t count, capacity;
	uint64_t secret_bytes; /* that nobody else may read (memfd_secret), not in the list */
};
void limpet_search_ranges_done(struct limpet_search_ranges *ranges);
/* Behind the others. 0 or -ENOMEM. */
int limpet_search_ranges_add(struct limpet_search_ranges *ranges,
			     const struct limpet_search_range *range) LIMPET_MUST_CHECK;

/* What is known of the process. */
struct limpet_search_facts {
	const struct limpet_maps *maps;
	/* Memory of blocks in use, between which nothing is searched, and tables, which are not
	 * searched at all. Sorted, without overlaps. */
	const struct limpet_heap_ranges *heaps;
	/* Stacks and thread-local data. The same. */
	const struct limpet_heap_ranges *stacks, *locals;
	const struct limpet_block_table *blocks; /* all that are followed */
};
/* 0 or -ENOMEM. */
int limpet_search_ranges_make(const struct limpet_search_facts *facts,
			      struct limpet_search_ranges *ret_ranges) LIMPET_MUST_CHECK;

/* The stacks of threads, and in them thread-local data. */
struct limpet_search_stacks {
	struct limpet_heap_ranges stacks, locals;
};
void limpet_search_stacks_done(struct limpet_search_stacks *stacks);
/* 0 or -errno. `pages` must leave out swapped pages. */
int limpet_search_stacks_read(const struct limpet_target *target,
			      const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, struct limpet_pages *pages,
			      struct limpet_search_stacks *ret_stacks) LIMPET_MUST_CHECK;

#endif
