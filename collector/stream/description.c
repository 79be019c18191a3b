#include "collector/stream/description.h"

#include "injector/remote/segment.h"

uint32_t limpet_description_read(const uint8_t *at, uint32_t bytes, struct limpet_description *ret)
{
	uint64_t head[LIMPET_STACK_HEAD_WORDS];
	uint32_t count, all;

	if (bytes < limpet_stack_bytes(0))
		return 0;
	limpet_shared_copy(head, at, sizeof(head));
	count = LIMPET_STACK_COUNT(head[0]);
	if (LIMPET_EVENT_TYPE(head[0]) != LIMPET_EVENT_STACK || count > LIMPET_COUNT_OF(ret->words))
		return 0;
	all = limpet_stack_bytes(count);
	if (all > bytes)
		return 0;
	ret->number = LIMPET_STACK_NUMBER(head[0]);
	ret->count = count;
	ret->shared = (uint32_t)head[1];
	ret->flags = (uint32_t)(head[1] >> 32);
	limpet_shared_copy(ret->words, at + sizeof(head), count * sizeof(ret->words[0]));
	return all;
}

uint32_t limpet_description_below(const struct limpet_description *description)
{
	return description->flags == LIMPET_STACK_OWNER && description->count == 1 &&
			       description->words[0] <= LIMPET_STACKS_MAX
		       ? (uint32_t)description->words[0]
		       : 0;
}

static bool is_number(uint32_t number)
{
	return number && number <= LIMPET_STACKS_MAX;
}

/* Stacks of allocators are no base: the agent describes them by another stack's number. */
static bool enter_owner(const struct limpet_description *description,
			struct limpet_stack_tree *tree)
{
	uint32_t below = limpet_stack_tree_find(tree, limpet_description_below(description));
	const struct limpet_stack_node *node = limpet_stack_tree_node(tree, below);

	if (!limpet_description_below(description) || description->shared > LIMPET_HOOK_OWNERS ||
	    (node && node->flags & LIMPET_STACK_NODE_OWNER))
		return false;
	limpet_stack_tree_enter(tree, description->number,
				node ? limpet_stack_tree_child(tree, below, description->shared,
							       LIMPET_STACK_NODE_OWNER)
				     : 0);
	return true;
}

static uint32_t enter_frames(const struct limpet_description *description, uint32_t words,
			     struct limpet_stack_tree *tree, uint32_t node)
{
	const bool gone = description->flags & LIMPET_STACK_GONE;
	bool truncated = description->flags & LIMPET_STACK_TRUNCATED && !description->shared;

	for (uint32_t i = 0; i < words; i += gone ? 2 : 1) {
		uint32_t flags = truncated ? LIMPET_STACK_NODE_TRUNCATED : 0;

		if (gone)
			flags |= LIMPET_STACK_NODE_GONE_FLAG(description->words[i + 1] &
							     LIMPET_MAX_GONE_NUMBER);
		node = limpet_stack_tree_child(tree, node, description->words[i], flags);
		if (!node)
			return 0;
		truncated = false;
	}
	return node;
}

/* Passes on which functions the frames of the stack are of. */
static void notify_functions(const struct limpet_description *description, uint32_t words,
			     const struct limpet_stack_tree *tree, uint32_t innermost)
{
	for (uint32_t i = words; i < description->count; i++) {
		const uint64_t word = description->words[i];
		const uint32_t node =
			limpet_stack_tree_outwards(tree, innermost, LIMPET_FUNCTION_FRAME(word));

		if (node)
			tree->on_function(tree->context, limpet_stack_tree_node(tree, node),
					  LIMPET_FUNCTION_SLOT(word));
	}
}

bool limpet_description_enter(const struct limpet_description *description,
			      struct limpet_stack_tree *tree, struct limpet_description_base *base)
{
	const uint32_t functions = LIMPET_STACK_FUNCTIONS(description->flags);
	const uint32_t words = description->count - functions;
	const uint32_t words_a_frame = description->flags & LIMPET_STACK_GONE ? 2 : 1;
	const uint32_t depth = description->shared + words / words_a_frame;
	uint32_t node = 0;

	if (!is_number(description->number))
		return false;
	if (description->flags & LIMPET_STACK_OWNER)
		return enter_owner(description, tree);
	if (description->flags & ~(LIMPET_STACK_TRUNCATED | LIMPET_STACK_GONE |
				   LIMPET_STACK_FUNCTIONS_FLAG(0xff)) ||
	    functions > LIMPET_STACK_FUNCTIONS_MAX || functions > description->count ||
	    words % words_a_frame || description->shared > base->depth || !depth ||
	    depth > LIMPET_STACK_FRAMES)
		return false;
	if (description->shared)
		node = limpet_stack_tree_outwards(tree, base->node,
						  base->depth - description->shared);
	if (node || !description->shared)
		node = enter_frames(description, words, tree, node);
	limpet_stack_tree_enter(tree, description->number, node);
	if (tree->on_function)
		notify_functions(description, words, tree, node);
	*base = (struct limpet_description_base){node, depth};
	return true;
}
