/* Who holds blocks of a graph: shortest ways to them from outside of blocks, and what would become
 * unreachable without them. */
#ifndef LIMPET_EXPLAIN_REACH_HOLDER_SEARCH_H
#define LIMPET_EXPLAIN_REACH_HOLDER_SEARCH_H

#include "explain/reach/reach_graph.h"

/* Edges that are no longer there, of one search; so many, and the search ends. */
#define LIMPET_HOLDER_GONE_LIMIT 64u

struct limpet_holder_edge {
	uint32_t from, to;
};
struct limpet_holder_amount {
	uint64_t blocks, bytes; /* usable */
};
/* Begins as all zeros. 9 bytes a block. */
struct limpet_holder_search {
	struct limpet_reach_graph *graph; /* borrowed; its holds are marked */
	uint8_t *marks;                   /* of each block; see holder_search.c */
	uint32_t *parents, *queue;
	struct limpet_holder_edge gone[LIMPET_HOLDER_GONE_LIMIT];
	size_t gone_count;
	uint64_t target_count, target_bytes;
	struct limpet_holder_amount retained_targets; /* of what was last found to be retained */
};
void limpet_holder_search_done(struct limpet_holder_search *search);
/* Of a graph that keeps all holds. 0 or -ENOMEM. */
int limpet_holder_search_begin(struct limpet_holder_search *search,
			       struct limpet_reach_graph *graph) LIMPET_MUST_CHECK;
/* One of the blocks whose holders are wanted. */
void limpet_holder_search_add(struct limpet_holder_search *search, uint32_t block);
bool limpet_holder_search_is_target(const struct limpet_holder_search *search, uint32_t block);

/* A way: a word outside of blocks, and the blocks from there on, the last of which is a target. */
struct limpet_holder_way {
	size_t hold;      /* index in the graph's holds */
	uint32_t *blocks; /* owned */
	size_t count;     /* 1 or more */
};
/* A shortest way, of the best kind that there is: from other memory than stacks, over pointers to
 * starts of blocks; over interior pointers, too; from stacks. It leads through no other target. 1;
 * 0: there is none; -ENOMEM. */
int limpet_holder_search_next(struct limpet_holder_search *search,
			      struct limpet_holder_way *ret_way) LIMPET_MUST_CHECK;
/* Later ways end with another link: not with one from this word, or from this block, to a target.
 */
void limpet_holder_search_leave_out_word(struct limpet_holder_search *search, size_t hold);
void limpet_holder_search_leave_out_block(struct limpet_holder_search *search, uint32_t block);
/* The same for all words of [start, end). */
void limpet_holder_search_leave_out(struct limpet_holder_search *search, uint64_t start,
				    uint64_t end);
/* Later ways do not use this word, or this edge, which is gone. False: too many edges are. */
void limpet_holder_search_word_is_gone(struct limpet_holder_search *search, size_t hold);
bool limpet_holder_search_is_gone(struct limpet_holder_search *search, uint32_t from, uint32_t to);

/* Blocks of one C++ type. */
struct limpet_holder_type {
	const char *symbol;
	struct limpet_holder_amount amount;
};
/* The targets, and what only they lead to. */
struct limpet_holder_amount limpet_holder_search_retained(struct limpet_holder_search *search);
/* What only the words of [start, end) lead to; or they and stacks, if these do not count. */
struct limpet_holder_amount limpet_holder_search_retained_by(struct limpet_holder_search *search,
							     uint64_t start, uint64_t end,
							     bool stacks_count);

#endif
