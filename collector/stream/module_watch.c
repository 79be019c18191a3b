#include "collector/stream/module_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#define CODE_NS 1000000000u
#define SCAN_SHARE 20u /* of the time, at most, for modules that were not reported */

struct limpet_module_watch {
	struct limpet_session *session;
	struct limpet_module_table *table;
	const struct limpet_segment *segment;
	const struct limpet_shm *shm;
	uint32_t modules_seen; /* shm->modules_seen when the modules were last read */
	unsigned rescans;
	uint32_t set_back;     /* the most variables that the program had set back at once */
	uint64_t next_scan_ns; /* for a module that the agent did not report */
	/* Anonymous executable memory: JIT-compiled code, at the last scan. */
	struct range {
		uint64_t low, high;
	} * code;
	size_t code_count;
	uint64_t code_ns;
};

int limpet_module_watch_new(struct limpet_session *session, struct limpet_recorder *recorder,
			    struct limpet_module_watch **ret)
{
	struct limpet_module_watch *watch = calloc(1, sizeof(*watch));
	int error;

	if (!watch)
		return -ENOMEM;
	watch->session = session;
	watch->segment = limpet_session_segment(session);
	watch->shm = watch->segment->shm;
	error = limpet_module_table_new(limpet_session_modules(session), watch->shm, recorder,
					&watch->table);
	if (error) {
		free(watch);
		return error;
	}
	(void)limpet_module_table_update(watch->table, 0);
	*ret = watch;
	return 0;
}

void limpet_module_watch_free(struct limpet_module_watch *watch)
{
	if (!watch)
		return;
	limpet_module_table_free(watch->table);
	free(watch->code);
	free(watch);
}

struct limpet_module_table *limpet_module_watch_table(const struct limpet_module_watch *watch)
{
	return watch->table;
}

/* Reads the list of modules, and how many had been unloaded by then: none may be unloaded in
 * between. Returns whether anything is new. */
static bool read_modules(struct limpet_module_watch *watch)
{
	const unsigned enough = 4;
	bool changed = false;

	for (unsigned i = 0; i < enough; i++) {
		uint32_t gone = __atomic_load_n(&watch->shm->gone_count, __ATOMIC_ACQUIRE);

		changed |= limpet_session_refresh_modules(watch->session) == 1;
		if (gone != __atomic_load_n(&watch->shm->gone_count, __ATOMIC_ACQUIRE))
			continue;
		if (!changed || limpet_module_table_update(watch->table, gone))
			break;
	}
	return changed;
}

bool limpet_module_watch_update(struct limpet_module_watch *watch)
{
	bool changed;

	watch->modules_seen = __atomic_load_n(&watch->shm->modules_seen, __ATOMIC_ACQUIRE);
	changed = read_modules(watch);
	if (changed)
		watch->rescans = 0;
	return changed;
}

bool limpet_module_watch_is_called(const struct limpet_module_watch *watch)
{
	return __atomic_load_n(&watch->shm->modules_seen, __ATOMIC_ACQUIRE) != watch->modules_seen;
}

static bool is_made_code(const struct limpet_map *map)
{
	return map->perms[2] == 'x' && !map->inode &&
	       (!map->path[0] || !strncmp(map->path, "[anon:", strlen("[anon:")));
}

static void read_code(struct limpet_module_watch *watch)
{
	struct limpet_maps maps;
	struct range *code;
	size_t count = 0;

	if (limpet_proc_maps_read(limpet_session_target(watch->session)->pid, &maps) < 0)
		return;
	code = calloc(maps.count + 1, sizeof(*code));
	for (size_t i = 0; code && i < maps.count; i++)
		if (is_made_code(&maps.list[i]))
			code[count++] = (struct range){maps.list[i].start, maps.list[i].end};
	limpet_module_table_add_again(watch->table, &maps);
	limpet_proc_maps_done(&maps);
	free(watch->code);
	watch->code = code;
	watch->code_count = count;
	watch->code_ns = limpet_monotonic_ns();
}

/* Whether an address is in JIT-compiled code: in anonymous executable memory from which no module
 * was unloaded since the stack was recorded. */
static bool was_made(const struct limpet_module_watch *watch, uint64_t address, uint32_t gone)
{
	const struct limpet_shm *shm = watch->shm;
	size_t low = 0, high = watch->code_count;
	uint32_t count = __atomic_load_n(&shm->gone_places, __ATOMIC_ACQUIRE);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address < watch->code[middle].low)
			high = middle;
		else if (address >= watch->code[middle].high)
			low = middle + 1;
		else
			return limpet_gone_find(shm->gone, count, address) == gone;
	}
	return false;
}

/* Finds the module of a frame. A module that was not reported yet may be unloaded before it is, so
 * the modules are read at once; but not each time, since code that the program generates is in no
 * module. */
uint32_t limpet_module_watch_find(struct limpet_module_watch *watch,
				  const struct limpet_stack_node *node, bool *ret_made)
{
	uint32_t number = LIMPET_STACK_NODE_GONE(node->flags);
	uint32_t gone = number & LIMPET_GONE_MOVED ? 0 : number;
	uint64_t address = node->address - 1, now_ns;
	uint32_t module = limpet_module_table_find(watch->table, address, gone);

	*ret_made = false;
	if (module)
		return module;
	now_ns = limpet_monotonic_ns();
	if (now_ns >= watch->next_scan_ns || limpet_module_watch_is_called(watch)) {
		if (limpet_module_watch_update(watch) || !was_made(watch, address, gone) ||
		    now_ns - watch->code_ns > CODE_NS)
			read_code(watch);
		watch->next_scan_ns = now_ns + (limpet_monotonic_ns() - now_ns) * SCAN_SHARE;
		module = limpet_module_table_find(watch->table, address, gone);
	}
	if (!module)
		module = limpet_module_table_find_late(watch->table, address, gone);
	*ret_made = !module && was_made(watch, address, gone);
	return module;
}

/* Whether a slot of calls holds the original again, as after a lazy binding. Notes how many
 * variables do: these the program itself has set back. */
static bool slot_lost_its_hook(struct limpet_module_watch *watch)
{
	const struct limpet_slot *slots = limpet_segment_slots(watch->segment);
	uint32_t count = __atomic_load_n(&watch->shm->slot_count, __ATOMIC_ACQUIRE), set_back = 0;
	bool lost = false;

	for (uint32_t i = 0; i < count && i < LIMPET_MAX_SLOTS; i++) {
		struct limpet_slot slot;
		uint64_t value;

		limpet_shared_copy(&slot, &slots[i], sizeof(slot));
		if (slot.state != LIMPET_SLOT_PATCHED ||
		    (slot.kind != LIMPET_SLOT_OF_CALLS && slot.kind != LIMPET_SLOT_OF_VARIABLE) ||
		    limpet_memory_read(limpet_session_target(watch->session)->pid, slot.address,
				       &value, sizeof(value)) < 0 ||
		    value != limpet_session_original(watch->session, slot.hook))
			continue;
		set_back += slot.kind == LIMPET_SLOT_OF_VARIABLE;
		lost |= slot.kind == LIMPET_SLOT_OF_CALLS;
	}
	if (set_back > watch->set_back)
		watch->set_back = set_back;
	return lost;
}

static bool module_is_unseen(const struct limpet_module_watch *watch)
{
	const struct limpet_modules *modules = limpet_session_modules(watch->session);
	const struct limpet_known_module *known = limpet_segment_known_modules(watch->segment);
	uint32_t count = __atomic_load_n(&watch->shm->module_count, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < modules->count; i++) {
		const struct limpet_module *module = &modules->list[i];
		bool seen = !module->in_list || module->agent || module->loader || module->vdso;

		for (uint32_t k = 0; k < count && k < LIMPET_MAX_KNOWN_MODULES && !seen; k++)
			seen = known[k].bias == module->bias && known[k].phdr == module->phdr;
		if (!seen)
			return true;
	}
	return false;
}

bool limpet_module_watch_needs_rescan(struct limpet_module_watch *watch)
{
	const unsigned enough = 3; /* for one change of the list */

	if (watch->rescans >= enough || (!slot_lost_its_hook(watch) && !module_is_unseen(watch)))
		return false;
	watch->rescans++;
	return true;
}

uint32_t limpet_module_watch_set_back(struct limpet_module_watch *watch)
{
	(void)slot_lost_its_hook(watch);
	return watch->set_back;
}
