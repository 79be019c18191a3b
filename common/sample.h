/* Sampling: which allocations are recorded. SAMPLING.md beside this file has the derivation.
 *
 * Each allocation is charged its size and a little more; a thread counts these bytes down from a
 * distance that is drawn after each sample. The distance has a geometric distribution, so that an
 * allocation of `size` is sampled with probability 1 - exp(-charge / period), whatever came before
 * it. Freestanding, integers only: the agent has no floating point. */
#ifndef LIMPET_COMMON_SAMPLE_H
#define LIMPET_COMMON_SAMPLE_H

#include <stdint.h>

/* Charged in addition to the size: the allocator's own overhead, which also gives malloc(0) a
 * chance. No allocation represents more than period / LIMPET_SAMPLE_EXTRA_BYTES others. */
#define LIMPET_SAMPLE_EXTRA_BYTES 16u
#define LIMPET_SAMPLE_MAX_BYTES (1ull << 40)
/* The period of --on-overload sample. */
#define LIMPET_SAMPLE_OVERLOAD_BYTES (512ull << 10)

/* The periods of a capture; at most one of them is not 0. */
struct limpet_sampling {
	uint64_t bytes;          /* 0: everything is recorded... */
	uint64_t overload_bytes; /* ...except in an overload; 0: events without room are lost */
};

/* State of one thread, which alone writes it. */
struct limpet_sample_state {
	uint64_t left;   /* bytes up to the next sample; 0: not drawn yet */
	uint64_t random; /* any value will do */
};

static inline uint64_t limpet_sample_charge(uint64_t size)
{
	uint64_t charge = size + LIMPET_SAMPLE_EXTRA_BYTES;

	return charge < size ? UINT64_MAX : charge;
}

/* 2^64 divided by the golden ratio: the increment of SplitMix64, and a multiplier that hashes well
 * (Knuth, The Art of Computer Programming, 6.4). */
#define LIMPET_GOLDEN 0x9e3779b97f4a7c15ull

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one word of state, no value of which is bad. */
static inline uint64_t limpet_sample_random(uint64_t *state)
{
	uint64_t z = *state += LIMPET_GOLDEN;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* -ln(number / 2^64) in units of 2^-48, bit by bit: squaring a mantissa doubles its logarithm. The
 * error is below 2^-46, of which truncated squares are the smaller part. number is not 0. */
#define LIMPET_SAMPLE_LOG_BITS 48
static inline uint64_t limpet_sample_minus_log(uint64_t number)
{
	const uint64_t ln_2 = 0xb17217f7d1cf79acull; /* in units of 2^-64 */
	int zeros = __builtin_clzll(number);
	uint64_t mantissa = number << zeros; /* [1, 2) in units of 2^-63 */
	uint64_t log_2 = (uint64_t)(63 - zeros);

	for (int i = 0; i < LIMPET_SAMPLE_LOG_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)mantissa * mantissa;
		uint64_t bit = (uint64_t)(square >> 127);

		mantissa = (uint64_t)(square >> (63 + bit));
		log_2 = log_2 << 1 | bit;
	}
	log_2 = (64ull << LIMPET_SAMPLE_LOG_BITS) - log_2;
	return (uint64_t)((unsigned __int128)log_2 * ln_2 >> 64);
}

/* Bytes up to the next sample, at least 1: P(more than n) = exp(-n / period) for whole n. */
static inline uint64_t limpet_sample_distance(uint64_t *random, uint64_t period)
{
	uint64_t number = limpet_sample_random(random);
	uint64_t nats = limpet_sample_minus_log(number ? number : 1);

	return (uint64_t)((unsigned __int128)nats * period >> LIMPET_SAMPLE_LOG_BITS) + 1;
}

/* The common case, inlined into a hook: 1: not sampled, and counted. */
static inline int limpet_sample_passes(struct limpet_sample_state *state, uint64_t charge)
{
	uint64_t left = state->left;

	if (charge >= left)
		return 0;
	state->left = left - charge;
	return 1;
}

/* The other case, after limpet_sample_passes() returned 0: whether to sample the allocation. `seed`
 * starts the thread's sequence. */
static inline int limpet_sample_draw(struct limpet_sample_state *state, uint64_t charge,
				     uint64_t period, uint64_t seed)
{
	if (!state->left) {
		state->random = seed;
		state->left = limpet_sample_distance(&state->random, period);
		if (limpet_sample_passes(state, charge))
			return 0;
	}
	/* Geometric distances are memoryless: the rest of this allocation does not matter. */
	state->left = limpet_sample_distance(&state->random, period);
	return 1;
}

#endif
