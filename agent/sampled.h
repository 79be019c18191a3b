/* The blocks recorded under sampling: a free is recorded if its allocation was.
 *
 * A filter of counters decides for most blocks with one load; behind it is a table of addresses, in
 * buckets of a cache line, two for each address. Both are in shared memory and bounded; what does
 * not fit is counted there. No locks: any thread may call these at any time, signal handlers
 * included. An address has one owner at a time, the only thread that adds or removes it: the
 * program's own order of allocation and free makes the entry visible to every thread that may free
 * the block. */
#ifndef LIMPET_AGENT_SAMPLED_H
#define LIMPET_AGENT_SAMPLED_H

#include "agent/agent.h"
#include "agent/record.h"

/* Under --on-overload sample the table holds the blocks that were not recorded instead: SAMPLING.md
 * explains why that suffices. An entry is an address and the number of its overload
 * (LIMPET_OVERLOAD_TAG_BITS), and expires with the overload. */

static inline uint64_t limpet_sample_hash(uint64_t address)
{
	return (address >> 4) * LIMPET_GOLDEN;
}

static inline uint8_t *limpet_sample_counter(uint64_t address)
{
	return &limpet_hot.sample_counters[limpet_sample_hash(address) >> limpet_hot.sample_shift];
}

/* Before the original is called: whether to record this allocation. */
static inline bool limpet_sample_selects(struct limpet_thread *thread, uint64_t size,
					 uint64_t period)
{
	uint64_t charge = limpet_sample_charge(size);

	if (__builtin_expect(limpet_sample_passes(&limpet_own(thread)->sample, charge), 1))
		return false;
	return limpet_sample_draw(&limpet_own(thread)->sample, charge, period,
				  limpet_shm->sample_seed ^ limpet_thread_index(thread) ^
					  (uint64_t)thread->generation << 32);
}

/* False: this block was not recorded. True: perhaps. */
static inline bool limpet_sample_may_know(uint64_t address)
{
	return __atomic_load_n(limpet_sample_counter(address), __ATOMIC_RELAXED) != 0;
}

/* After the original returned: adds a recorded block. False: the table is full; the block must not
 * be recorded, and has been counted. */
bool limpet_sample_enter(uint64_t address);
/* Before the block is freed: removes it, and returns whether it was present. A call that fails
 * later (realloc) adds it again. */
bool limpet_sample_remove(uint64_t address);

/* For an overload that was active when the call began: after the original returned, adds a block
 * that is not recorded (unless the table is full: then the free is recorded, and finds no
 * allocation)... */
void limpet_overload_note(uint64_t address, uint32_t overload);
/* ...and before the block is freed, or when a sample gets its address, removes it. False: it was
 * not present; the block may have been recorded. */
bool limpet_overload_remove(uint64_t address, uint32_t overload);

/* The active overload, or 0. */
static inline uint32_t limpet_overload_now(void)
{
	uint32_t overload = __atomic_load_n(&limpet_hot.overload, __ATOMIC_ACQUIRE);

	return overload & 1 ? overload : 0;
}

/* Before the original, under --sample or in an overload: what to record of this call,
 * LIMPET_WANTED_*, with the overload's number in the high half. Under --sample a freed block is
 * removed first, since the next block at its address may be sampled before this call returns; in an
 * overload the caller has done so. */
uint64_t limpet_sample_choose(struct limpet_thread *thread, uint32_t op, const uint64_t *args);

#endif
