/* Fingerprints of stacks, and two tables that all threads share, from a fingerprint to the number
 * under which the stack was described: one by the words that a walk read, one by its frames.
 *
 * A fingerprint is a 64-bit hash. Among a million stacks, two have the same one with a probability
 * of 3e-8. Entries are evicted: a stack that is not found is walked, or described, once more. A
 * thread that finds a number sees the description, which was committed before: the release of the
 * entry's state pairs with the finder's acquire. */
#ifndef LIMPET_AGENT_STACK_PRINTS_H
#define LIMPET_AGENT_STACK_PRINTS_H

#include "agent/agent.h"

#define LIMPET_FINGERPRINT_WAYS 4u /* a cache line */

/* Uses as much of the tables as there is memory for now. Called before a description. */
void limpet_fingerprints_adjust(void);

/* `hash` must be a constant or itself a result: of two raw words only the xor would count. */
static inline uint64_t limpet_fingerprint_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * LIMPET_GOLDEN;
	return hash << 29 | hash >> 35;
}

/* Of four lanes; never 0. */
static inline uint64_t limpet_fingerprint_finish(const uint64_t lanes[4])
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < 4; i++)
		hash = limpet_fingerprint_mix(hash, lanes[i]);
	hash = limpet_fingerprint_mix(hash, 0xd6e8feb86659fd93ull);
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static inline struct limpet_fingerprint *limpet_fingerprint_set(enum limpet_fingerprint_table table,
								uint64_t fingerprint)
{
	const uint64_t mask =
		__atomic_load_n(&limpet_hot.fingerprint_mask[table], __ATOMIC_RELAXED);

	return limpet_hot.fingerprints[table] +
	       (fingerprint >> 32 & mask & ~(uint64_t)(LIMPET_FINGERPRINT_WAYS - 1));
}

/* The value that was kept for the fingerprint; 0: unknown. */
static inline uint32_t limpet_fingerprint_find(enum limpet_fingerprint_table table,
					       uint64_t fingerprint)
{
	struct limpet_fingerprint *set = limpet_fingerprint_set(table, fingerprint);

	for (uint32_t i = 0; i < LIMPET_FINGERPRINT_WAYS; i++) {
		uint64_t before, after;

		if (__atomic_load_n(&set[i].fingerprint, __ATOMIC_RELAXED) != fingerprint)
			continue;
		before = __atomic_load_n(&set[i].state, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&set[i].fingerprint, __ATOMIC_ACQUIRE) != fingerprint)
			continue;
		after = __atomic_load_n(&set[i].state, __ATOMIC_RELAXED);
		if (before == after && !(before >> 32 & 1))
			return (uint32_t)before;
	}
	return 0;
}

/* `known`: a number, with LIMPET_FINGERPRINT_TRUNCATED if the stack is; not 0. Called after its
 * description was committed. */
void limpet_fingerprint_keep(enum limpet_fingerprint_table table, uint64_t fingerprint,
			     uint32_t known);

#endif
