/* One look at all of a process's memory: which blocks there are, and which can be reached. */
#ifndef LIMPET_EXPLAIN_REACH_REACH_ROUND_H
#define LIMPET_EXPLAIN_REACH_REACH_ROUND_H

#include "explain/reach/known_blocks.h"
#include "explain/reach/reach_marks.h"

/* What to read, and how. */
struct limpet_reach_look {
	const struct limpet_target *target;
	const struct limpet_memory_reader *memory;
	struct limpet_pages *pages;
	/* Those outside of glibc's heaps are followed, too. NULL: none are known. */
	const struct limpet_known_blocks *known;
	/* Of a moment in which all threads were stopped: stacks are searched from these addresses
	 * on, sorted, and these words as if they were on a stack. NULL: whole stacks are. */
	const uint64_t *stack_pointers, *registers;
	size_t stack_pointer_count, register_count;
	bool keeps_all_holds; /* of the graph */
	bool heap_first;      /* read the heap before the roots: the other way round than before */
	/* Read the roots before the blocks are listed: what they point to is then listed, however
	 * new it is. Takes 24 bytes for each pointer, and a second list. */
	bool roots_first;
};

/* Begins as all zeros. */
struct limpet_reach_round {
	struct limpet_reach_graph graph;
	struct limpet_heap_ranges heaps; /* of the blocks; see limpet_search_facts */
	struct limpet_search_stacks stacks;
	uint64_t bytes;  /* searched */
	uint64_t missed; /* could not be read */
	bool has_glibc;
	bool is_judged; /* the blocks are known; otherwise there is nothing more, because: */
	bool is_late;   /* there was no time, or there were too many blocks */
	size_t unread_arenas;
};
void limpet_reach_round_done(struct limpet_reach_round *round);
/* Blocks, edges and what points to blocks from elsewhere; no classes yet. 0 or -errno. */
int limpet_reach_round_read(const struct limpet_reach_look *look,
			    struct limpet_reach_round *ret_round) LIMPET_MUST_CHECK;
/* Whether a part of the process is swapped out, which is not searched; true if that is not known.
 */
bool limpet_reach_has_swap(const struct limpet_target *target);
/* In the heap, or where it may grow soon. */
bool limpet_reach_may_be_heap(const struct limpet_reach_round *round, uint64_t address);
/* The ranges of now, by the heaps and stacks of that round. */
int limpet_reach_round_ranges(const struct limpet_reach_round *round,
			      const struct limpet_target *target,
			      struct limpet_search_ranges *ret_ranges) LIMPET_MUST_CHECK;

#endif
