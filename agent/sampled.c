#include "agent/sampled.h"

#include "agent/hook_frame.h"

#define BUCKET_SLOTS 8u /* a cache line */
#define COUNTER_FULL UINT8_MAX

static uint64_t *bucket_at(uint64_t hash)
{
	uint64_t *table = limpet_shm_at(limpet_shm->layout.sample_table_offset);
	uint32_t buckets = limpet_shm->layout.sample_table_count / BUCKET_SLOTS;

	return table + (hash & (buckets - 1)) * BUCKET_SLOTS;
}

/* The two buckets of an address: by hash bits that the filter does not use, and by these mixed once
 * more. */
static void find_buckets(uint64_t address, uint64_t *ret_buckets[2])
{
	uint64_t hash = limpet_sample_hash(address);

	ret_buckets[0] = bucket_at(hash >> 16);
	ret_buckets[1] = bucket_at((hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ull >> 32);
}

/* A counter that was once saturated stays so: how much it missed is unknown. */
static void count(uint64_t address, int step)
{
	uint8_t *counter = limpet_sample_counter(address);
	uint8_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);

	while (old != COUNTER_FULL && (step > 0 || old) &&
	       !__atomic_compare_exchange_n(counter, &old, (uint8_t)(old + step), true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static uint64_t *find(uint64_t address)
{
	uint64_t *buckets[2];

	find_buckets(address, buckets);
	for (unsigned i = 0; i < 2 * BUCKET_SLOTS; i++) {
		uint64_t *slot = &buckets[i / BUCKET_SLOTS][i % BUCKET_SLOTS];

		if (__atomic_load_n(slot, __ATOMIC_RELAXED) == LIMPET_HIDDEN(address))
			return slot;
	}
	return NULL;
}

bool limpet_sample_enter(uint64_t address)
{
	uint64_t *buckets[2];

	/* Its free was not seen, and the address was allocated again. */
	if (limpet_sample_may_know(address) && find(address))
		return true;
	find_buckets(address, buckets);
	/* Counted first: what is in the table always passes the filter. */
	count(address, 1);
	for (unsigned i = 0; i < 2 * BUCKET_SLOTS; i++) {
		uint64_t *slot = &buckets[i / BUCKET_SLOTS][i % BUCKET_SLOTS];
		uint64_t seen = __atomic_load_n(slot, __ATOMIC_RELAXED);

		if (!seen && __atomic_compare_exchange_n(slot, &seen, LIMPET_HIDDEN(address), false,
							 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	}
	count(address, -1);
	if (limpet_is_alive())
		__atomic_fetch_add(&limpet_shm->lost_no_sample, 1, __ATOMIC_RELAXED);
	return false;
}

bool limpet_sample_remove(uint64_t address)
{
	uint64_t *slot;

	if (!limpet_sample_may_know(address))
		return false;
	slot = find(address);
	if (!slot)
		return false;
	__atomic_store_n(slot, 0, __ATOMIC_RELEASE);
	count(address, -1);
	return true;
}

/* ------------------------------------------------------------------ overload */

/* 0: no entry can hold the address: it is not aligned to 8 bytes, or not in the lower half of the
 * 48-bit range. */
static uint64_t overload_entry(uint64_t address, uint32_t overload)
{
	const unsigned free_bits = 3; /* of an aligned address */

	if (address & 7 || address >> (64 - LIMPET_OVERLOAD_TAG_BITS + free_bits))
		return 0;
	return address >> free_bits | (uint64_t)(overload / 2 + 1)
					      << (64 - LIMPET_OVERLOAD_TAG_BITS);
}

static bool is_of(uint64_t entry, uint32_t overload)
{
	return entry >> (64 - LIMPET_OVERLOAD_TAG_BITS) == overload / 2 + 1;
}

/* A single bucket, so one cache line per call: if it is full, the block is not added. */
void limpet_overload_note(uint64_t address, uint32_t overload)
{
	uint64_t entry = overload_entry(address, overload);
	uint64_t *bucket = bucket_at(limpet_sample_hash(address) >> 16), *room = NULL, seen;

	if (!entry)
		return;
	for (unsigned i = BUCKET_SLOTS; i-- > 0;) {
		seen = __atomic_load_n(&bucket[i], __ATOMIC_RELAXED);
		/* Its free passed unchecked, through a slot that is not patched. */
		if (seen == entry)
			return;
		if (!is_of(seen, overload))
			room = &bucket[i];
	}
	if (!room)
		return;
	/* If another thread was faster, this block is not added. */
	seen = __atomic_load_n(room, __ATOMIC_RELAXED);
	if (!is_of(seen, overload))
		__atomic_compare_exchange_n(room, &seen, entry, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

bool limpet_overload_remove(uint64_t address, uint32_t overload)
{
	uint64_t entry = overload_entry(address, overload);
	uint64_t *bucket = bucket_at(limpet_sample_hash(address) >> 16);

	for (unsigned i = 0; entry && i < BUCKET_SLOTS; i++) {
		if (__atomic_load_n(&bucket[i], __ATOMIC_RELAXED) != entry)
			continue;
		__atomic_store_n(&bucket[i], 0, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------ a call */

static uint64_t new_of(struct limpet_thread *thread, uint64_t size)
{
	uint64_t period = limpet_shm->sample_bytes | limpet_shm->overload_bytes;

	return limpet_sample_selects(thread, size, period) ? LIMPET_WANTED_NEW : 0;
}

/* In an overload, a block without an entry was recorded. */
static uint64_t old_of(uint64_t block, bool overload)
{
	return block && (overload || limpet_sample_remove(block)) ? LIMPET_WANTED_OLD : 0;
}

static uint64_t choose(struct limpet_thread *thread, uint32_t op, const uint64_t *args,
		       bool overload)
{
	uint64_t size;

	switch (op) {
	case LIMPET_OP_MALLOC:
		return new_of(thread, args[0]);
	case LIMPET_OP_CALLOC:
		return __builtin_mul_overflow(args[0], args[1], &size) ? 0 : new_of(thread, size);
	case LIMPET_OP_REALLOC:
	case LIMPET_OP_REALLOCF:
	case LIMPET_OP_RESIZE:
		return old_of(args[0], overload) | new_of(thread, args[1]);
	case LIMPET_OP_REALLOCARRAY:
		if (__builtin_mul_overflow(args[1], args[2], &size))
			return 0;
		return old_of(args[0], overload) | new_of(thread, size);
	case LIMPET_OP_FREE:
		return old_of(args[0], overload);
	case LIMPET_OP_POSIX_MEMALIGN:
		return new_of(thread, args[2]);
	case LIMPET_OP_MEMALIGN:
		return new_of(thread, args[1]);
	default: /* mappings: all of them */
		return LIMPET_WANTED_NEW | LIMPET_WANTED_OLD;
	}
}

uint64_t limpet_sample_choose(struct limpet_thread *thread, uint32_t op, const uint64_t *args)
{
	uint32_t overload;

	if (limpet_shm->sample_bytes)
		return choose(thread, op, args, false);
	/* Before anything is chosen: this call is then recorded in full. */
	if (__atomic_load_n(&limpet_shm->overload_room, __ATOMIC_RELAXED)) {
		overload = limpet_overload_now();
		if (overload)
			limpet_record_end_overload(thread, overload);
	}
	overload = limpet_overload_now();
	if (!overload)
		return LIMPET_WANTED_NEW | LIMPET_WANTED_OLD;
	return choose(thread, op, args, true) | (uint64_t)overload << 32;
}
