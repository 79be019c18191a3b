/* All vector registers of a thread, of as many as the processor has (vectors_asm.S). */
#ifndef LIMPET_TEST_TARGETS_VECTORS_H
#define LIMPET_TEST_TARGETS_VECTORS_H

#define VECTORS_SSE 0
#define VECTORS_AVX 1
#define VECTORS_AVX512 2

#define VECTORS_LEVEL 0
#define VECTORS_BEST 8
#define VECTORS_FEATURES 16
#define VECTORS_MXCSR 24
#define VECTORS_MASKS 64
#define VECTORS_ALL 128

#ifndef __ASSEMBLER__
#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct vectors {
	uint64_t level;    /* what is in use: the rest is in its first state, 0 */
	uint64_t best;     /* what is stored */
	uint64_t features; /* of the extended state, but for x87 and SSE; 0: no xsave */
	uint64_t mxcsr;
	uint64_t unused[4];
	uint64_t masks[8];
	uint8_t all[32][64];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct vectors, masks) == VECTORS_MASKS, "");
_Static_assert(offsetof(struct vectors, all) == VECTORS_ALL, "");

void vectors_load(const struct vectors *vectors);
/* Loads them, calls the function, and stores what is there then. Returns what it has returned. */
uint64_t vectors_call(struct vectors *vectors, uint64_t function, uint64_t a, uint64_t b,
		      uint64_t c, uint64_t d);

static inline uint64_t vectors_best(void)
{
	return __builtin_cpu_supports("avx512bw") ? VECTORS_AVX512
	       : __builtin_cpu_supports("avx")    ? VECTORS_AVX
						  : VECTORS_SSE;
}

static inline uint64_t vectors_features(void)
{
	const unsigned osxsave = 1u << 27, avx_and_avx512 = 0xe4;
	unsigned a, b, c = 0, d, low;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
		return 0;
	__asm__("xgetbv" : "=a"(low), "=d"(d) : "c"(0));
	return low & avx_and_avx512;
}

/* Random values, up to that level. */
static inline void vectors_fill(struct vectors *vectors, uint64_t level,
				uint64_t (*random)(uint64_t *), uint64_t *seed)
{
	static const struct {
		unsigned registers, bytes, masks;
	} sizes[] = {{16, 16, 0}, {16, 32, 0}, {32, 64, 8}};
	const uint64_t all_masked = 0x1f80, flags = 0x3f;

	memset(vectors, 0, sizeof(*vectors));
	vectors->level = level;
	vectors->best = vectors_best();
	vectors->features = vectors_features();
	vectors->mxcsr = all_masked | (random(seed) & flags);
	for (unsigned i = 0; i < sizes[level].masks; i++)
		vectors->masks[i] = random(seed);
	for (unsigned i = 0; i < sizes[level].registers; i++)
		for (unsigned at = 0; at < sizes[level].bytes; at++)
			vectors->all[i][at] = (uint8_t)random(seed);
}
#endif

#endif
