#include "explain/reach/holders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/reach/holder_types.h"
#include "explain/reach/reach_round.h"
#include "explain/stack_owners.h"
#include "injector/proc/target_process.h"

/* For the search, and for what is read of the chains. */
#define SEARCH_NS (6 * LIMPET_MEMORY_READER_NS)
#define CHAIN_NS LIMPET_MEMORY_READER_NS
#define PIECE_WORDS 8192u

struct limpet_holders {
	const struct limpet_target *target;
	const struct limpet_known_blocks *known;
	struct limpet_process_reader *process;
	struct limpet_reach_round round;
	struct limpet_modules modules;
	struct limpet_maps maps;
	struct limpet_holder_types types;
	struct limpet_holder_search search;
	struct limpet_holders_facts facts;
	struct limpet_stack_owners threads;
	uint64_t *stack_pointers; /* of those that sleep, sorted */
	size_t stack_pointer_count;
	uint32_t chosen; /* by address */
	uint64_t words[PIECE_WORDS];
};

void limpet_holders_free(struct limpet_holders *holders)
{
	if (!holders)
		return;
	limpet_holder_search_done(&holders->search);
	limpet_holder_types_done(&holders->types);
	limpet_reach_round_done(&holders->round);
	limpet_modules_done(&holders->modules);
	limpet_proc_maps_done(&holders->maps);
	limpet_process_reader_free(holders->process);
	limpet_stack_owners_done(&holders->threads);
	free(holders->stack_pointers);
	free(holders);
}

const struct limpet_holders_facts *limpet_holders_facts(const struct limpet_holders *holders)
{
	return &holders->facts;
}

static const struct limpet_memory_reader *memory_of(const struct limpet_holders *holders)
{
	return limpet_process_reader(holders->process);
}

/* ------------------------------------------------------------------ reading */

static int list_threads(struct limpet_holders *holders)
{
	const struct limpet_stack_owners *threads = &holders->threads;
	int error = limpet_stack_owners_read(holders->target, &holders->threads);

	if (error)
		return error;
	holders->stack_pointers = calloc(threads->count + 1, sizeof(*holders->stack_pointers));
	if (!holders->stack_pointers)
		return -ENOMEM;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->list[i].sp)
			holders->stack_pointers[holders->stack_pointer_count++] =
				threads->list[i].sp;
	qsort(holders->stack_pointers, holders->stack_pointer_count,
	      sizeof(*holders->stack_pointers), limpet_compare_words);
	return 0;
}

static int search_memory(struct limpet_holders *holders)
{
	struct limpet_reach_look look = {.target = holders->target,
					 .known = holders->known,
					 .memory = memory_of(holders),
					 .pages = limpet_process_reader_pages(holders->process),
					 .stack_pointers = holders->stack_pointers,
					 .stack_pointer_count = holders->stack_pointer_count,
					 .keeps_all_holds = true,
					 .roots_first = true};
	const struct limpet_reach_round *round = &holders->round;
	int error = limpet_reach_round_read(&look, &holders->round);

	if (error)
		return error;
	holders->facts = (struct limpet_holders_facts){.has_glibc = round->has_glibc,
						       .is_known = round->is_judged,
						       .is_late = round->is_late,
						       .is_cut = round->graph.is_cut ||
								 round->graph.holds_are_cut,
						       .searched_bytes = round->bytes,
						       .missed_bytes = round->missed,
						       .unread_arenas = round->unread_arenas};
	holders->facts.is_swapped = limpet_reach_has_swap(holders->target);
	return 0;
}

static int read_all(struct limpet_holders *holders)
{
	const struct limpet_target *target = holders->target;
	int error = limpet_process_reader_new(target, &holders->process);

	if (!error)
		error = limpet_process_reader_read_shared(holders->process, target);
	if (error)
		return error;
	limpet_process_reader_limit(holders->process, UINT32_MAX);
	limpet_process_reader_allow(holders->process, SEARCH_NS);
	error = list_threads(holders);
	if (!error)
		error = search_memory(holders);
	if (error || !holders->facts.is_known)
		return error;
	limpet_process_reader_allow(holders->process, CHAIN_NS);
	error = limpet_modules_of_files(target, &holders->modules);
	if (!error)
		error = limpet_proc_maps_read(target->pid, &holders->maps);
	if (!error)
		error = limpet_holder_types_read(&holders->modules, &holders->types);
	if (!error)
		error = limpet_holder_search_begin(&holders->search, &holders->round.graph);
	return error;
}

int limpet_holders_read(const struct limpet_target *target, const struct limpet_known_blocks *known,
			struct limpet_holders **ret_holders, struct limpet_err *err)
{
	struct limpet_holders *holders = calloc(1, sizeof(*holders));
	int identity_error, error = holders ? limpet_target_check(target) : -ENOMEM;

	if (!error) {
		holders->target = target;
		holders->known = known;
		holders->modules.target = target;
		holders->chosen = LIMPET_NO_BLOCK;
		error = read_all(holders);
	}
	/* Whatever was found then, it is of neither program. */
	identity_error = limpet_target_check(target);
	error = identity_error ? identity_error : error;
	if (error) {
		limpet_holders_free(holders);
		return limpet_proc_explain(target->pid, error, "read the memory of", err);
	}
	*ret_holders = holders;
	return 0;
}

/* ------------------------------------------------------------------ places */

static void name_thread(const struct limpet_holders *holders, uint64_t start, uint64_t end,
			struct limpet_holder_root *root)
{
	bool has_ended;
	const struct limpet_stack_owner *thread = limpet_stack_owners_find(
		&holders->threads, memory_of(holders), start, end, &has_ended);

	if (!thread)
		return;
	root->thread = thread->tid;
	snprintf(root->thread_name, sizeof(root->thread_name), "%s", thread->name);
}

static void place_in_map(const struct limpet_holders *holders, const struct limpet_map *map,
			 struct limpet_holder_root *root)
{
	root->kind = LIMPET_PLACE_MAPPING;
	root->mapping = map->path;
	root->mapping_start = map->start;
	root->mapping_end = map->end;
	if (!strcmp(map->path, "[stack]")) {
		root->kind = LIMPET_PLACE_STACK;
		name_thread(holders, map->start, map->end, root);
	}
}

void limpet_holders_place(const struct limpet_holders *holders, uint64_t address,
			  struct limpet_holder_root *ret_root)
{
	const struct limpet_search_stacks *stacks = &holders->round.stacks;
	const struct limpet_heap_range *stack = limpet_heap_ranges_find(&stacks->stacks, address);
	const struct limpet_map *map = limpet_proc_maps_find(&holders->maps, address);
	struct limpet_holder_root root = {.address = address};

	if (stack) {
		root.kind = limpet_heap_ranges_find(&stacks->locals, address) ? LIMPET_PLACE_LOCAL
									      : LIMPET_PLACE_STACK;
		name_thread(holders, stack->start, stack->end, &root);
	} else if (limpet_heap_ranges_find(&holders->round.heaps, address)) {
		root.kind = LIMPET_PLACE_HEAP;
	} else {
		root.module = limpet_modules_find(&holders->modules, address);
		if (root.module)
			root.kind = LIMPET_PLACE_DATA;
		else if (map)
			place_in_map(holders, map, &root);
	}
	*ret_root = root;
}

/* ------------------------------------------------------------------ what is wanted */

int limpet_holders_choose(struct limpet_holders *holders, uint64_t address)
{
	const uint32_t block = limpet_block_table_find(&holders->round.graph.blocks, address);

	if (block == LIMPET_NO_BLOCK)
		return -ENOENT;
	holders->chosen = block;
	limpet_holder_search_add(&holders->search, block);
	return 0;
}

int limpet_holders_choose_blocks(struct limpet_holders *holders,
				 const struct limpet_known_blocks *blocks)
{
	const struct limpet_block_table *table = &holders->round.graph.blocks;
	int error;

	limpet_holder_search_done(&holders->search);
	error = limpet_holder_search_begin(&holders->search, &holders->round.graph);
	for (size_t i = 0; i < blocks->count && !error; i++) {
		const uint32_t block = limpet_block_table_find(table, blocks->list[i].start);

		if (block != LIMPET_NO_BLOCK)
			limpet_holder_search_add(&holders->search, block);
	}
	limpet_process_reader_allow(holders->process, CHAIN_NS);
	return error ? error : holders->search.target_count ? 0 : -ENOENT;
}

int limpet_holders_choose_type(struct limpet_holders *holders,
			       bool (*is_wanted)(void *context, const char *symbol), void *context)
{
	struct limpet_search_ranges ranges = {0};
	int error = limpet_holder_types_select(&holders->types, is_wanted, context);

	if (!error)
		error = limpet_reach_round_ranges(&holders->round, holders->target, &ranges);
	limpet_process_reader_allow(holders->process, SEARCH_NS);
	if (!error)
		error = limpet_holder_types_count(&holders->types, memory_of(holders),
						  limpet_process_reader_pages(holders->process),
						  &ranges, &holders->search);
	limpet_process_reader_allow(holders->process, CHAIN_NS);
	limpet_search_ranges_done(&ranges);
	if (error)
		return error;
	return holders->search.target_count ? 0 : -ENOENT;
}

size_t limpet_holders_types(const struct limpet_holders *holders,
			    const struct limpet_holder_type **ret_list)
{
	*ret_list = holders->types.found;
	return holders->types.found_count;
}

struct limpet_holder_amount limpet_holders_chosen(const struct limpet_holders *holders)
{
	return (struct limpet_holder_amount){holders->search.target_count,
					     holders->search.target_bytes};
}

static void fill_link(const struct limpet_holders *holders, uint32_t block,
		      struct limpet_holder_link *link)
{
	const struct limpet_block_table *blocks = &holders->round.graph.blocks;
	uint64_t word;

	link->address = blocks->starts[block];
	link->bytes = limpet_block_bytes(blocks, block);
	link->type = limpet_memory_reader_read_word(memory_of(holders), link->address, &word)
			     ? limpet_holder_types_at(&holders->types, word)
			     : NULL;
}

void limpet_holders_block(const struct limpet_holders *holders, struct limpet_holder_link *ret_link)
{
	struct limpet_holder_link link = {0};

	if (holders->chosen != LIMPET_NO_BLOCK)
		fill_link(holders, holders->chosen, &link);
	*ret_link = link;
}

/* ------------------------------------------------------------------ chains */

void limpet_holder_chain_done(struct limpet_holder_chain *chain)
{
	free(chain->links);
	*chain = (struct limpet_holder_chain){.count = 0};
}

/* Whether the word points to the block, and where in it. */
static bool points_to(const struct limpet_holders *holders, uint64_t word, uint32_t block,
		      uint64_t *ret_into)
{
	const struct limpet_block_table *blocks = &holders->round.graph.blocks;
	const uint64_t address = word & LIMPET_REACH_ADDRESS_MASK;

	if (address < blocks->starts[block] || address >= limpet_block_end(blocks, block))
		return false;
	*ret_into = address - blocks->starts[block];
	return true;
}

/* The first word of `from` that points to `link`'s block: one to its start rather than into its
 * midst. Reads no more than is present. */
static bool find_pointer(struct limpet_holders *holders, uint32_t from, uint32_t to,
			 struct limpet_holder_link *link)
{
	const struct limpet_block_table *blocks = &holders->round.graph.blocks;
	const uint64_t start = blocks->starts[from], end = limpet_block_end(blocks, from);
	bool found = false;
	uint64_t into;

	for (uint64_t at = start, next; at < end; at = next) {
		next = (at & ~(uint64_t)4095) + 4096;
		next = next < end ? next : end;
		if (limpet_memory_reader_read(memory_of(holders), at, holders->words,
					      (size_t)(next - at)) < 0)
			continue;
		for (size_t i = 0; i < (next - at) / 8; i++) {
			if (!points_to(holders, holders->words[i], to, &into) ||
			    (found && into >= LIMPET_REACH_START_BYTES))
				continue;
			found = true;
			link->offset = at + 8 * i - start;
			link->into = into;
			if (into < LIMPET_REACH_START_BYTES)
				return true;
		}
	}
	return found;
}

/* A variable in which new blocks take the place of older ones, to which they lead: the head of a
 * list. */
static bool points_to_heap(const struct limpet_holders *holders, uint64_t word)
{
	const uint64_t address = word & LIMPET_REACH_ADDRESS_MASK;

	return limpet_reach_may_be_heap(&holders->round, address) ||
	       limpet_block_table_find(&holders->round.graph.blocks, address) != LIMPET_NO_BLOCK;
}

/* Reads each link again. 1; 0: one is gone, and noted; -ENOMEM. */
static int make_chain(struct limpet_holders *holders, const struct limpet_holder_way *way,
		      struct limpet_holder_chain *ret_chain)
{
	const struct limpet_reach_hold *hold = &holders->round.graph.holds[way->hold];
	struct limpet_holder_chain chain = {.count = way->count};
	uint64_t word;

	chain.links = calloc(way->count, sizeof(*chain.links));
	if (!chain.links)
		return -ENOMEM;
	if (!limpet_memory_reader_read_word(memory_of(holders), hold->address, &word) ||
	    (!points_to(holders, word, way->blocks[0], &chain.links[0].into) &&
	     !points_to_heap(holders, word))) {
		limpet_holder_search_word_is_gone(&holders->search, way->hold);
		free(chain.links);
		return 0;
	}
	for (size_t i = 0; i < way->count; i++) {
		if (i &&
		    !find_pointer(holders, way->blocks[i - 1], way->blocks[i], &chain.links[i])) {
			free(chain.links);
			return limpet_holder_search_is_gone(&holders->search, way->blocks[i - 1],
							    way->blocks[i])
				       ? 0
				       : -ELOOP;
		}
		fill_link(holders, way->blocks[i], &chain.links[i]);
	}
	limpet_holders_place(holders, hold->address, &chain.root);
	*ret_chain = chain;
	return 1;
}

/* The same chain must not come again. */
static void leave_out(struct limpet_holders *holders, const struct limpet_holder_way *way)
{
	if (way->count == 1)
		limpet_holder_search_leave_out_word(&holders->search, way->hold);
	else
		limpet_holder_search_leave_out_block(&holders->search, way->blocks[way->count - 2]);
}

int limpet_holders_next(struct limpet_holders *holders, struct limpet_holder_chain *ret_chain)
{
	/* Each try costs a walk over the graph. */
	for (unsigned tries = 0; tries < LIMPET_HOLDER_GONE_LIMIT; tries++) {
		struct limpet_holder_way way;
		int found = limpet_holder_search_next(&holders->search, &way);

		if (found <= 0)
			return found;
		found = make_chain(holders, &way, ret_chain);
		if (found > 0)
			leave_out(holders, &way);
		free(way.blocks);
		if (found)
			return found == -ELOOP ? 0 : found;
	}
	return 0;
}

void limpet_holders_leave_out(struct limpet_holders *holders, uint64_t start, uint64_t end)
{
	limpet_holder_search_leave_out(&holders->search, start, end);
}

struct limpet_holder_amount limpet_holders_retained(struct limpet_holders *holders)
{
	return limpet_holder_search_retained(&holders->search);
}

struct limpet_holder_amount limpet_holders_retained_by(struct limpet_holders *holders,
						       uint64_t start, uint64_t end,
						       bool stacks_count)
{
	return limpet_holder_search_retained_by(&holders->search, start, end, stacks_count);
}

struct limpet_holder_amount limpet_holders_retained_chosen(const struct limpet_holders *holders)
{
	return holders->search.retained_targets;
}
