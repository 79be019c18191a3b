/* Which blocks the agent has recorded, under sampling: a free is recorded if its allocation was.
 *
 * A filter of counters answers for most blocks by one load; behind it stands a table of addresses,
 * buckets of a cache line, two for each address. Both lie in the shared memory and are bounded;
 * what does not fit is counted there. No locks: any thread at any time, signal handlers included.
 * An address has one owner at a time, who alone enters or takes it: the program's own order of
 * allocation and free makes its entry visible to whoever may free it. */
#ifndef LIMPET_AGENT_SAMPLED_H
#define LIMPET_AGENT_SAMPLED_H

#include "agent/agent.h"
#include "agent/record.h"

/* Under --on-overload sample it is the other way round, and the table knows what was not recorded:
 * SAMPLING.md says why that is enough. An entry is an address and the number of its overload; when
 * that is over it is nothing any more. */
#define LIMPET_OVERLOAD_TAG_BITS 20
#define LIMPET_OVERLOAD_TAGS (1u << LIMPET_OVERLOAD_TAG_BITS)

static inline uint64_t limpet_sample_hash(uint64_t address)
{
	return (address >> 4) * LIMPET_GOLDEN;
}

static inline uint8_t *limpet_sample_counter(uint64_t address)
{
	return &limpet_hot.sample_counters[limpet_sample_hash(address) >> limpet_hot.sample_shift];
}

/* Before the original is called: whether this allocation is recorded. */
static inline bool limpet_sample_wants(struct limpet_thread *thread, uint64_t size, uint64_t period)
{
	uint64_t charge = limpet_sample_charge(size);

	if (__builtin_expect(limpet_sample_passes(&thread->sample, charge), 1))
		return false;
	return limpet_sample_take(&thread->sample, charge, period,
				  limpet_shm->sample_seed ^ limpet_thread_index(thread) ^
					  (uint64_t)thread->generation << 32);
}

/* False: this block was not recorded. True: perhaps. */
static inline bool limpet_sample_may_know(uint64_t address)
{
	return __atomic_load_n(limpet_sample_counter(address), __ATOMIC_RELAXED) != 0;
}

/* After the original answered: notes a block that is recorded. False: there is no room; it must not
 * be recorded, and has been counted. */
bool limpet_sample_enter(uint64_t address);
/* Before the block is given back: whether it was noted; it no longer is. A call that fails in the
 * end (realloc) enters it again. */
bool limpet_sample_take_out(uint64_t address);

/* Of an overload that lasts, or did when the call began: after the original answered, notes a block
 * that is not recorded (without room it does not: its free will be recorded, and find nothing)...
 */
void limpet_overload_note(uint64_t address, uint32_t overload);
/* ...and before the block is given back, or when a sample gets its address, takes the note out.
 * False: there was none; the block may have been recorded. */
bool limpet_overload_take_out(uint64_t address, uint32_t overload);

/* The overload that lasts, or 0. */
static inline uint32_t limpet_overload_now(void)
{
	uint32_t overload = __atomic_load_n(&limpet_hot.overload, __ATOMIC_ACQUIRE);

	return overload & 1 ? overload : 0;
}

/* Before the original, under --sample or in an overload: what of this call is to be recorded,
 * LIMPET_WANTED_*, and the overload's number in the high half. Under --sample, a block that is
 * given back is no longer noted: whoever gets its address next may be sampled before this call is
 * over; in an overload the caller has seen to that. */
uint64_t limpet_sample_choose(struct limpet_thread *thread, uint32_t op, const uint64_t *args);

#endif
