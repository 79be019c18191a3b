#include "collector/pages/fault_stacks.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "collector/stream/stack_tree.h"
#include "common/clock.h"
#include "injector/proc/target_process.h"
#include "injector/unwind/unwind_set.h"

/* Reserved, and touched as far as tables need it. */
#define TABLES_BYTES (UINT64_C(1) << 30)
#define CACHE_ENTRIES (1u << 15)
#define SCAN_SHARE 20u /* of the time, at most, for modules that were not reported */
#define UNFAULTED_OWNER 1u

struct limpet_fault_stacks {
	const struct limpet_target *target;
	struct limpet_recorder *recorder;
	struct limpet_modules modules;
	struct limpet_module_table *table;
	struct limpet_unwind_set set;
	struct limpet_walk_cache_entry *cache;
	struct limpet_stack_tree *tree;
	uint64_t truncated, lost, fingerprint;
	uint64_t next_scan_ns; /* for a module that was not reported */
	uint32_t unfaulted;    /* node; 0: not made yet */
};

/* ---------------------------------------------------------------- modules */

static uint64_t fingerprint_of(const struct limpet_maps *maps)
{
	uint64_t hash = maps->count;

	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (map->perms[2] != 'x' || !map->inode)
			continue;
		hash = (hash ^ map->start) * 0x9e3779b97f4a7c15ull;
		hash = (hash ^ map->end) * 0xd6e8feb86659fd93ull;
		hash ^= hash >> 29;
		hash = (hash ^ map->inode) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}

static int read_modules(struct limpet_fault_stacks *stacks, struct limpet_err *err)
{
	struct limpet_modules modules;
	int error = limpet_modules_read(stacks->target, &modules, err);

	if (error)
		return error;
	limpet_modules_done(&stacks->modules);
	stacks->modules = modules;
	/* Without a table a module is walked by frame pointer. */
	(void)!limpet_unwind_set_update(&stacks->set, &stacks->modules);
	(void)!limpet_unwind_set_read_frames(&stacks->set, &stacks->modules, true);
	(void)limpet_module_table_update(stacks->table, 0);
	return 0;
}

void limpet_fault_stacks_refresh(struct limpet_fault_stacks *stacks, const struct limpet_maps *maps)
{
	const uint64_t fingerprint = fingerprint_of(maps);

	if (fingerprint == stacks->fingerprint)
		return;
	stacks->fingerprint = fingerprint;
	(void)!read_modules(stacks, NULL);
	limpet_module_table_add_again(stacks->table, maps);
}

int limpet_fault_stacks_new(const struct limpet_target *target, struct limpet_recorder *recorder,
			    uint64_t stack_bytes, struct limpet_fault_stacks **ret,
			    struct limpet_err *err)
{
	struct limpet_fault_stacks *stacks = calloc(1, sizeof(*stacks));
	int error;

	if (!stacks)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	stacks->target = stacks->modules.target = target;
	stacks->recorder = recorder;
	stacks->set = (struct limpet_unwind_set){.arena_bytes = TABLES_BYTES,
						 .arena_used = LIMPET_UNWIND_ALIGN};
	stacks->set.arena = mmap(NULL, TABLES_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks->set.arena == MAP_FAILED)
		stacks->set.arena = NULL;
	stacks->cache = calloc(CACHE_ENTRIES, sizeof(*stacks->cache));
	stacks->tree = limpet_stack_tree_new();
	if (!stacks->set.arena || !stacks->cache || !stacks->tree ||
	    limpet_module_table_new(&stacks->modules, NULL, recorder, &stacks->table) < 0) {
		limpet_fault_stacks_free(stacks);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	limpet_stack_tree_set_most(stacks->tree, stack_bytes);
	error = read_modules(stacks, err);
	if (error) {
		limpet_fault_stacks_free(stacks);
		return error;
	}
	*ret = stacks;
	return 0;
}

void limpet_fault_stacks_free(struct limpet_fault_stacks *stacks)
{
	if (!stacks)
		return;
	limpet_module_table_free(stacks->table);
	limpet_modules_done(&stacks->modules);
	if (stacks->set.arena)
		munmap(stacks->set.arena, TABLES_BYTES);
	limpet_unwind_set_done(&stacks->set);
	limpet_stack_tree_free(stacks->tree);
	free(stacks->cache);
	free(stacks);
}

/* ---------------------------------------------------------------- nodes */

/* A module that was not reported may be unloaded soon, so the modules are read at once; but not
 * each time, since code that the program generates is in no module. */
static uint32_t find_module(struct limpet_fault_stacks *stacks, uint64_t address)
{
	uint32_t module = limpet_module_table_find(stacks->table, address, 0);
	const uint64_t now_ns = module ? 0 : limpet_monotonic_ns();
	struct limpet_maps maps;

	if (module || now_ns < stacks->next_scan_ns)
		return module;
	if (limpet_proc_maps_read(stacks->target->pid, &maps) == 0) {
		limpet_fault_stacks_refresh(stacks, &maps);
		limpet_proc_maps_done(&maps);
		module = limpet_module_table_find(stacks->table, address, 0);
	}
	stacks->next_scan_ns = now_ns + (limpet_monotonic_ns() - now_ns) * SCAN_SHARE;
	return module;
}

static int add_node(struct limpet_fault_stacks *stacks, uint32_t node,
		    const struct limpet_counted_maps *maps)
{
	const struct limpet_stack_node *it = limpet_stack_tree_node(stacks->tree, node);
	const uint32_t cut =
		it->flags & LIMPET_STACK_NODE_TRUNCATED ? LIMPET_TRACE_NODE_TRUNCATED : 0;
	const struct limpet_counted_map *map;
	uint32_t module;

	if (it->flags & LIMPET_STACK_NODE_OWNER)
		return limpet_recorder_add_node(stacks->recorder, node, it->parent, it->address, 0,
						LIMPET_TRACE_NODE_OWNER);
	module = find_module(stacks, it->address - 1);
	map = module ? NULL : limpet_counted_maps_find(maps, it->address - 1);
	return limpet_recorder_add_node(
		stacks->recorder, node, it->parent, it->address, module,
		cut | (map && map->executable ? LIMPET_TRACE_NODE_MADE : 0));
}

/* The child, which is added to the trace if it is new; 0: there is no room. */
static uint32_t child(struct limpet_fault_stacks *stacks, uint32_t parent, uint64_t address,
		      uint32_t flags, const struct limpet_counted_maps *maps)
{
	const uint32_t node = limpet_stack_tree_child(stacks->tree, parent, address, flags);

	if (!node)
		return 0;
	switch (limpet_stack_tree_mark(stacks->tree, node)) {
	case LIMPET_STACK_MARKED:
		return node;
	case LIMPET_STACK_MARK_REFUSED:
		return 0;
	default:
		break;
	}
	if (add_node(stacks, node, maps) == 0)
		return node;
	limpet_stack_tree_refuse(stacks->tree, node);
	return 0;
}

uint32_t limpet_fault_walk(const struct limpet_walk_map *map, const struct limpet_walk_cache *cache,
			   const struct limpet_fault_record *fault, uint64_t *ret_pcs, uint32_t max,
			   bool *ret_cut)
{
	const struct limpet_walk_copy stack = {fault->sp, fault->stack_bytes, fault->stack};
	const struct limpet_walk_frame frame = {
		.pc = fault->pc, .sp = fault->sp, .fp = fault->fp, .flags = LIMPET_FRAME_EXACT};
	enum limpet_walk_end end;
	uint32_t count = limpet_walk(map, cache, limpet_walk_read_copy, &stack, frame,
				     &(struct limpet_walk_result){ret_pcs, max, &end, NULL});

	*ret_cut = end != LIMPET_WALK_COMPLETE;
	return count;
}

uint32_t limpet_fault_stacks_node(struct limpet_fault_stacks *stacks,
				  const struct limpet_fault_record *fault,
				  const struct limpet_counted_maps *maps)
{
	const struct limpet_walk_cache cache = {stacks->cache, CACHE_ENTRIES - 1};
	uint64_t pcs[LIMPET_STACK_FRAMES];
	struct limpet_walk_map map;
	uint32_t count, node = 0;
	bool cut = true;

	if (!fault->has_registers) {
		stacks->truncated++;
		return 0;
	}
	limpet_unwind_set_walk_map(&stacks->set, &map);
	count = limpet_fault_walk(&map, &cache, fault, pcs, LIMPET_STACK_FRAMES, &cut);
	stacks->truncated += cut;
	for (uint32_t i = count; i > 0; i--) {
		const bool outermost = i == count;

		node = child(stacks, node, pcs[i - 1],
			     cut && outermost ? LIMPET_STACK_NODE_TRUNCATED : 0, maps);
		if (node)
			continue;
		stacks->lost++;
		stacks->truncated += !cut;
		return 0;
	}
	return node;
}

uint32_t limpet_fault_stacks_unfaulted(struct limpet_fault_stacks *stacks)
{
	if (stacks->unfaulted)
		return stacks->unfaulted;
	limpet_recorder_name_owner(stacks->recorder, UNFAULTED_OWNER,
				   "came without a fault that was seen");
	stacks->unfaulted = child(stacks, 0, UNFAULTED_OWNER, LIMPET_STACK_NODE_OWNER, NULL);
	return stacks->unfaulted;
}

uint64_t limpet_fault_stacks_truncated(const struct limpet_fault_stacks *stacks)
{
	return stacks->truncated;
}

uint64_t limpet_fault_stacks_lost(const struct limpet_fault_stacks *stacks)
{
	return stacks->lost;
}

void limpet_fault_stacks_identify_modules(struct limpet_fault_stacks *stacks)
{
	limpet_module_table_identify(stacks->table);
}

size_t limpet_fault_stacks_sources(const struct limpet_fault_stacks *stacks,
				   const struct limpet_collector_source **ret)
{
	return limpet_module_table_sources(stacks->table, ret);
}
