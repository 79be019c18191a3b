#include "analyzer/export/export_stacks.h"

#include <stdlib.h>

#include "common/array.h"

/* Instead of an address: the frame is one of the locations that every trace has. */
#define NO_ADDRESS UINT32_MAX

/* 0: out of memory. */
static uint32_t frame_number(struct limpet_export_stacks *stacks, uint32_t address,
			     const struct limpet_export_frame *frame)
{
	/* Without an address there is no inlining. */
	const uint32_t which = address == NO_ADDRESS ? frame->location : frame->depth;
	const uint32_t number =
		limpet_number_table_of(&stacks->frame_numbers, (uint64_t)address << 32 | which);

	if (!number || number <= stacks->frame_count)
		return number;
	if (limpet_reserve(&stacks->frames, &stacks->frame_capacity, number + 1ul,
			   sizeof(*stacks->frames)) < 0)
		return 0;
	stacks->frames[number] = *frame;
	return stacks->frame_count = number;
}

/* The stack of a frame in front of its caller's; 0: out of memory. */
static uint32_t add_frame(struct limpet_export_stacks *stacks, uint32_t parent, uint32_t address,
			  const struct limpet_export_frame *frame)
{
	const uint32_t of_frame = frame_number(stacks, address, frame);
	uint32_t number;

	if (!of_frame)
		return 0;
	number = limpet_number_table_of(&stacks->stack_numbers, (uint64_t)parent << 32 | of_frame);
	if (!number || number <= stacks->stack_count)
		return number;
	if (limpet_reserve(&stacks->stacks, &stacks->stack_capacity, number + 1ul,
			   sizeof(*stacks->stacks)) < 0)
		return 0;
	stacks->stacks[number] = (struct limpet_export_stack){.parent = parent, .frame = of_frame};
	return stacks->stack_count = number;
}

/* A stack of one frame that has no address. */
static uint32_t add_special(struct limpet_export_stacks *stacks, uint32_t location)
{
	return add_frame(stacks, 0, NO_ADDRESS,
			 &(struct limpet_export_frame){.location = location});
}

/* The frames of one node, above the stack of its caller; false: out of memory. */
static bool add_node(struct limpet_export_stacks *stacks, uint32_t node, uint32_t *number)
{
	const uint32_t address = limpet_locations_address_number(stacks->locations, node);
	const uint32_t *list = NULL;
	const uint32_t count = limpet_locations_of_node(stacks->locations, node, &list);

	for (uint32_t depth = 0; depth < count; depth++) {
		const struct limpet_export_frame frame = {
			.node = node, .location = list[count - 1 - depth], .depth = depth};

		*number = add_frame(stacks, *number, address, &frame);
		if (!*number)
			return false;
	}
	return true;
}

static bool reserve_tables(struct limpet_export_stacks *stacks)
{
	if (!stacks->number_of_node)
		stacks->number_of_node = calloc(stacks->locations->model->node_count + 1ul,
						sizeof(*stacks->number_of_node));
	return stacks->number_of_node;
}

uint32_t limpet_export_stacks_number(struct limpet_export_stacks *stacks, uint32_t node)
{
	const struct limpet_model *model = stacks->locations->model;
	const struct limpet_trace_node *nodes = model->nodes;
	uint32_t at = node < model->node_count ? node : 0, number = 0;
	size_t length = 0;

	if (!reserve_tables(stacks))
		return 0;
	for (; at && !stacks->number_of_node[at] && !nodes[at].lost; at = nodes[at].parent) {
		if (limpet_reserve(&stacks->chain, &stacks->chain_capacity, length + 1,
				   sizeof(*stacks->chain)) < 0)
			return 0;
		stacks->chain[length++] = at;
	}
	if (at && !nodes[at].lost)
		number = stacks->number_of_node[at];
	else if (at || (length && nodes[stacks->chain[length - 1]].truncated))
		number = add_special(stacks, LIMPET_LOCATION_CUT);
	if (at && !number)
		return 0;
	while (length--) {
		at = stacks->chain[length];
		if (!add_node(stacks, at, &number))
			return 0;
		stacks->number_of_node[at] = number;
	}
	if (number)
		return number;
	return add_special(stacks, limpet_model_is_unfaulted(model, node)
					   ? LIMPET_LOCATION_UNFAULTED
					   : LIMPET_LOCATION_UNKNOWN);
}

void limpet_export_stacks_done(struct limpet_export_stacks *stacks)
{
	limpet_number_table_done(&stacks->frame_numbers);
	limpet_number_table_done(&stacks->stack_numbers);
	free(stacks->frames);
	free(stacks->stacks);
	free(stacks->number_of_node);
	free(stacks->chain);
	*stacks = (struct limpet_export_stacks){0};
}
