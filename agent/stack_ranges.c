#include "agent/stack_ranges.h"

#include "agent/record.h"

/* Pairs with the collector's changes. */
uint64_t limpet_stack_range_end(uint64_t sp)
{
	for (unsigned i = 0; i < LIMPET_STACK_RANGES; i++) {
		const struct limpet_stack_range *range = &limpet_shm->ranges[i];
		uint32_t version = __atomic_load_n(&range->version, __ATOMIC_ACQUIRE);
		uint64_t low = __atomic_load_n(&range->low, __ATOMIC_RELAXED);
		uint64_t high = __atomic_load_n(&range->high, __ATOMIC_RELAXED);

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (sp >= low && sp < high && !(version & 1) &&
		    __atomic_load_n(&range->version, __ATOMIC_RELAXED) == version)
			return high;
	}
	return 0;
}

void limpet_stack_range_request(uint64_t sp)
{
	uint32_t number = __atomic_fetch_add(&limpet_shm->unknown_count, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&limpet_shm->unknown[number % LIMPET_UNKNOWN_STACKS], sp,
			 __ATOMIC_RELAXED);
	limpet_record_ring();
}

void limpet_stack_ranges_note_use(void)
{
	if (!__atomic_load_n(&limpet_shm->ranges_used, __ATOMIC_RELAXED))
		__atomic_store_n(&limpet_shm->ranges_used, 1, __ATOMIC_RELAXED);
}
