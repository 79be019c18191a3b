#include "collector/stream/other_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/wire.h"
#include "injector/proc/proc.h"

#define SCAN_SHARE 20u /* of the time, at most, for reading the mappings */
#define RANGES_NS 200000000u

struct limpet_other_stacks {
	struct limpet_session *session;
	struct limpet_shm *shm;
	/* The ranges by which the agent reads other stacks: a private copy, since the target can
	 * write to the shared one. */
	struct range {
		uint64_t low, high; /* high 0: free */
	} ranges[LIMPET_STACK_RANGES];
	uint32_t next_range; /* the next to be replaced */
	uint64_t ranges_ns, next_ranges_ns;
	uint32_t unknown_count; /* stack pointers that were looked up, of shm->unknown */
};

struct limpet_other_stacks *limpet_other_stacks_new(struct limpet_session *session)
{
	struct limpet_other_stacks *stacks = calloc(1, sizeof(*stacks));

	if (!stacks)
		return NULL;
	stacks->session = session;
	stacks->shm = limpet_session_segment(session)->shm;
	return stacks;
}

void limpet_other_stacks_free(struct limpet_other_stacks *stacks)
{
	free(stacks);
}

static void set_range(struct limpet_stack_range *range, uint64_t low, uint64_t high)
{
	/* Pairs with the agent's loads of the version before and after it reads the range. */
	__atomic_fetch_add(&range->version, 1, __ATOMIC_ACQ_REL);
	__atomic_store_n(&range->low, low, __ATOMIC_RELAXED);
	__atomic_store_n(&range->high, high, __ATOMIC_RELAXED);
	__atomic_fetch_add(&range->version, 1, __ATOMIC_RELEASE);
}

/* Memory that may be the stack of a fibre or a signal handler. */
static bool may_be_a_stack(const struct limpet_map *map)
{
	return map && map->perms[0] == 'r' && map->perms[1] == 'w';
}

static void publish_range(struct limpet_other_stacks *stacks, const struct limpet_map *map)
{
	uint32_t at = stacks->next_range;

	if (!may_be_a_stack(map))
		return;
	for (uint32_t i = 0; i < LIMPET_STACK_RANGES; i++) {
		const struct range *range = &stacks->ranges[i];

		if (range->low == map->start && range->high == map->end)
			return;
		if (!range->high)
			at = i;
	}
	if (at == stacks->next_range)
		stacks->next_range = (at + 1) % LIMPET_STACK_RANGES;
	stacks->ranges[at] = (struct range){map->start, map->end};
	set_range(&stacks->shm->ranges[at], map->start, map->end);
}

void limpet_other_stacks_begin(struct limpet_other_stacks *stacks)
{
	const struct limpet_maps *maps = &limpet_session_modules(stacks->session)->maps;

	for (size_t i = 0, count = 0; i < maps->count && count < LIMPET_STACK_RANGES; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (!map->inode && strcmp(map->path, "[stack]") != 0 && may_be_a_stack(map) &&
		    ++count)
			publish_range(stacks, map);
	}
}

/* Drops the ranges whose mapping is gone, or has changed. */
static void drop_ranges(struct limpet_other_stacks *stacks, const struct limpet_maps *maps)
{
	for (uint32_t i = 0; i < LIMPET_STACK_RANGES; i++) {
		struct range *range = &stacks->ranges[i];
		const struct limpet_map *map =
			range->high ? limpet_proc_maps_find(maps, range->low) : NULL;

		if (!range->high ||
		    (may_be_a_stack(map) && map->start == range->low && map->end == range->high))
			continue;
		*range = (struct range){0, 0};
		set_range(&stacks->shm->ranges[i], 0, 0);
	}
}

void limpet_other_stacks_publish(struct limpet_other_stacks *stacks, uint64_t now_ns)
{
	uint32_t count = __atomic_load_n(&stacks->shm->unknown_count, __ATOMIC_RELAXED);
	bool used = __atomic_load_n(&stacks->shm->ranges_used, __ATOMIC_RELAXED);
	struct limpet_maps maps;
	uint64_t began_ns;

	if (now_ns < stacks->next_ranges_ns ||
	    (count == stacks->unknown_count && (!used || now_ns - stacks->ranges_ns < RANGES_NS)))
		return;
	began_ns = limpet_monotonic_ns();
	__atomic_store_n(&stacks->shm->ranges_used, 0, __ATOMIC_RELAXED);
	stacks->ranges_ns = now_ns;
	if (limpet_proc_maps_read(limpet_session_target(stacks->session)->pid, &maps) < 0)
		return;
	drop_ranges(stacks, &maps);
	if (count - stacks->unknown_count > LIMPET_UNKNOWN_STACKS)
		stacks->unknown_count = count - LIMPET_UNKNOWN_STACKS;
	for (; stacks->unknown_count != count; stacks->unknown_count++) {
		uint32_t at = stacks->unknown_count % LIMPET_UNKNOWN_STACKS;
		uint64_t sp = __atomic_load_n(&stacks->shm->unknown[at], __ATOMIC_RELAXED);

		publish_range(stacks, limpet_proc_maps_find(&maps, sp));
	}
	limpet_proc_maps_done(&maps);
	stacks->next_ranges_ns = now_ns + (limpet_monotonic_ns() - began_ns) * SCAN_SHARE;
}
