#include "injector/hook/addresses.h"

#include <string.h>

#include "injector/ptrace/arch.h"

#define BLOCK LIMPET_ADDRESSES_BLOCK
#define KEPT ((ptrdiff_t)LIMPET_ADDRESSES_KEPT)
#define PART_BYTES (UINT64_C(1) << 16)
#define ADDRESS_BYTES 6 /* of 8: the others are zeros, or what a program stores there */
#define ADDRESS_MASK ((UINT64_C(1) << 48) - 1)

typedef uint16_t lanes __attribute__((vector_size(16), may_alias));
typedef uint64_t halves __attribute__((vector_size(16), may_alias));

/* Two bytes of each form that are the same for all addresses of one 64 KiB block. */
struct pattern {
	lanes even, odd; /* of a word that begins at an even byte, or at an odd one */
	lanes mangled;
};

static lanes spread(uint64_t value)
{
	const uint16_t lane = (uint16_t)value;

	return (lanes){lane, lane, lane, lane, lane, lane, lane, lane};
}

static inline bool may_hold(const uint8_t *block, const struct pattern *pattern)
{
	const lanes *at = (const lanes *)(const void *)block;
	lanes hits = {0};
	halves any;

#pragma GCC unroll 4
	for (unsigned i = 0; i < BLOCK / sizeof(*at); i++)
		hits |= (lanes)(at[i] == pattern->even) | (lanes)(at[i] == pattern->odd) |
			(lanes)(at[i] == pattern->mangled);
	any = (halves)hits;
	return any[0] | any[1];
}

/* Those of the 64 KiB at `base`. */
static bool is_in(const struct limpet_addresses *addresses, uint64_t base, uint64_t value)
{
	return value - addresses->low < addresses->end - addresses->low &&
	       value - base < PART_BYTES;
}

/* Examines the words of a block that have the two bytes, and the mangled ones in it. `from`: where
 * the memory begins, relative to the block; `left`: where it ends. */
static void scan_block(const struct limpet_addresses *addresses, uint64_t base, uint64_t address,
		       const uint8_t *block, ptrdiff_t from, ptrdiff_t left)
{
	for (ptrdiff_t i = -3; i < (ptrdiff_t)BLOCK - 3; i++) {
		uint64_t word;

		if (i < from || i + ADDRESS_BYTES > left)
			continue;
		memcpy(&word, block + i, sizeof(word));
		if (is_in(addresses, base, word & ADDRESS_MASK))
			addresses->found(addresses->context, LIMPET_ADDRESS_WORD,
					 address + (uint64_t)i, word);
	}
	for (ptrdiff_t i = 0; i < (ptrdiff_t)BLOCK && i < left; i += (ptrdiff_t)sizeof(uint64_t)) {
		uint64_t word;

		if (i < from)
			continue;
		memcpy(&word, block + i, sizeof(word));
		word = limpet_arch_demangle(word, addresses->guard);
		if (is_in(addresses, base, word))
			addresses->found(addresses->context, LIMPET_ADDRESS_MANGLED,
					 address + (uint64_t)i, word);
	}
}

static void find_words(const struct limpet_addresses *addresses, uint64_t base, uint64_t address,
		       const uint8_t *memory, size_t bytes)
{
	const struct pattern pattern = {
		.even = spread(base >> 16),
		.odd = spread(base >> 24),
		.mangled = spread(limpet_arch_mangle(base, addresses->guard) >> 48),
	};

	for (size_t at = 0; at < bytes + BLOCK; at += BLOCK) {
		const uint8_t *block = memory - BLOCK + at;

		if (__builtin_expect(may_hold(block, &pattern), 0))
			scan_block(addresses, base, address - BLOCK + at, block,
				   (ptrdiff_t)(BLOCK - at) - KEPT, (ptrdiff_t)(bytes + BLOCK - at));
	}
}

static void find_distances(const struct limpet_addresses *addresses, uint64_t address,
			   const uint8_t *memory, size_t bytes)
{
	const uint64_t low = addresses->low, range = addresses->end - low;
	const ptrdiff_t size = (ptrdiff_t)sizeof(int32_t), end = (ptrdiff_t)bytes - size;

	for (ptrdiff_t i = 1 - size; i <= end; i++) {
		int32_t distance;
		uint64_t value;

		memcpy(&distance, memory + i, sizeof(distance));
		value = address + (uint64_t)(i + size) + (uint64_t)(int64_t)distance;
		if (value - low < range && limpet_arch_has_distance(memory + i))
			addresses->found(addresses->context, LIMPET_ADDRESS_DISTANCE,
					 address + (uint64_t)i, value);
	}
}

void limpet_addresses_find(const struct limpet_addresses *addresses, uint64_t address,
			   uint8_t *memory, size_t bytes, bool code)
{
	uint64_t base = addresses->low / PART_BYTES * PART_BYTES;

	memset(memory + bytes, 0, BLOCK);
	for (; base < addresses->end; base += PART_BYTES)
		find_words(addresses, base, address, memory, bytes);
	if (code)
		find_distances(addresses, address, memory, bytes);
}
