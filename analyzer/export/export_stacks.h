/* The stacks of a heap as a tree of frames, for formats that number both. Each inlined function is
 * a frame. Stacks with the same frames have one number, whatever their nodes. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_STACKS_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/source_locations.h"
#include "common/number_table.h"

struct limpet_export_frame {
	uint32_t node;     /* one with the frame's address; 0: it has none */
	uint32_t location; /* index */
	uint32_t depth;    /* of inlining; 0: outermost */
};
struct limpet_export_stack {
	uint32_t parent; /* its number, less than that of this one; 0: none */
	uint32_t frame;  /* its number */
};
/* Entry 0 of each is a dummy. */
struct limpet_export_stacks {
	const struct limpet_locations *locations; /* set by the caller; all else begins as zero */
	struct limpet_export_frame *frames;
	struct limpet_export_stack *stacks;
	uint32_t frame_count, stack_count; /* the last number of each */
	size_t frame_capacity, stack_capacity, chain_capacity;
	struct limpet_number_table frame_numbers, stack_numbers;
	uint32_t *number_of_node, *chain;
};

/* The number of the node's stack, from 1; 0: out of memory. */
uint32_t limpet_export_stacks_number(struct limpet_export_stacks *stacks, uint32_t node);
void limpet_export_stacks_done(struct limpet_export_stacks *stacks);

#endif
