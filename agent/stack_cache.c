#include "agent/stack_cache.h"

/* How often cache entries are replaced before their thread gets a larger room: threads with few
 * stacks leave the memory to others. */
#define REPLACED_ENOUGH 16u
#define REPLACED_MUCH 512u

uint32_t limpet_path_room(const struct limpet_thread *thread)
{
	uint32_t count = limpet_stack_cache_count(thread);

	return count == LIMPET_ROOM_SMALL.cache_entries    ? LIMPET_ROOM_SMALL.path
	       : count == LIMPET_ROOM_MIDDLE.cache_entries ? LIMPET_ROOM_MIDDLE.path
							   : LIMPET_ROOM_LARGE.path;
}

/* Half of all pages is for large rooms, first come, first served; the rest is for middle rooms, so
 * that more threads get one. A thread that leaves this function by longjmp may lose a room, which
 * nobody then uses; memory is bounded. */
static void claim_room(struct limpet_thread *thread)
{
	uint32_t taken = __atomic_load_n(&limpet_shm->room_pages_used, __ATOMIC_RELAXED);
	uint32_t limit = limpet_shm->layout.room_pages, count = limpet_stack_cache_count(thread);
	struct limpet_room room;

	do {
		room = count == LIMPET_ROOM_SMALL.cache_entries ? LIMPET_ROOM_LARGE
								: LIMPET_ROOM_HUGE;
		if (taken + room.pages > limit / 2) {
			if (count != LIMPET_ROOM_SMALL.cache_entries)
				return;
			room = LIMPET_ROOM_MIDDLE;
		}
		if (taken + room.pages > limit)
			return;
	} while (!__atomic_compare_exchange_n(&limpet_shm->room_pages_used, &taken,
					      taken + room.pages, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	limpet_own(thread)->stack_cache =
		(limpet_shm->layout.thread_count + taken) << 8 | room.cache_entries;
}

bool limpet_stack_cache_grow(struct limpet_thread *thread,
			     const struct limpet_stack_cache_entry *cached, uint64_t pc,
			     uint64_t base)
{
	uint32_t count = limpet_stack_cache_count(thread);
	struct limpet_path *path;

	if (count == LIMPET_ROOM_HUGE.cache_entries || !cached->pc ||
	    (cached->pc == pc && cached->base == base))
		return false;
	path = limpet_path_of(thread);
	if (++path->replaced <
	    (count == LIMPET_ROOM_SMALL.cache_entries ? REPLACED_ENOUGH : REPLACED_MUCH))
		return false;
	path->replaced = 0;
	claim_room(thread);
	return limpet_stack_cache_count(thread) != count;
}
