#include "explain/mimalloc.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

/* include/mimalloc/types.h: struct mi_segment_s. Its head differs between releases, but the number
 * of slices follows the cookie, in newer ones after two pointers: 512 of 64 KiB, or as many as a
 * huge block needs, which is larger than half of such a segment. */
static const unsigned gaps[] = {1, 3};
#define GAP_LIMIT 3u
#define SLICE_BYTES ((uint64_t)64 << 10)
#define SLICES (LIMPET_MIMALLOC_SEGMENT_BYTES / SLICE_BYTES)
#define SLICES_LIMIT ((uint64_t)1 << 24)
/* arena.c: struct mi_arena_s of mimalloc 3 begins with its memory: base, size, flags. Then there
 * are a pointer, in some releases another one, and numbers: of slices, of those before the first
 * page, and of the NUMA node, -1 for any. */
#define ARENA_LIMIT_BYTES ((uint64_t)1 << 40)
#define NODES_LIMIT 1024u
/* Heads that are compared. */
#define HEADS_LIMIT 64u

/* Smaller ones count only once the secret is known. */
static bool is_number_of_slices(uint64_t number)
{
	return number >= SLICES && number <= SLICES_LIMIT;
}

static bool judge(const struct limpet_mimalloc_head *heads, size_t count, unsigned gap,
		  struct limpet_mimalloc *ret_mimalloc)
{
	for (unsigned i = 0; i + gap < LIMPET_MIMALLOC_HEAD_WORDS; i++)
		for (size_t a = 0; a < count; a++) {
			const uint64_t secret = heads[a].words[i] ^ heads[a].address;
			size_t same = 0;

			/* A pointer or a small number is no cookie. */
			if (!(secret >> 48) || !is_number_of_slices(heads[a].words[i + gap]))
				continue;
			for (size_t b = 0; b < count; b++)
				same += (heads[b].words[i] ^ heads[b].address) == secret &&
					is_number_of_slices(heads[b].words[i + gap]);
			if (same < 2)
				continue;
			*ret_mimalloc = (struct limpet_mimalloc){
				.found = true, .offset = i, .gap = gap, .secret = secret};
			return true;
		}
	return false;
}

bool limpet_mimalloc_judge(const struct limpet_mimalloc_head *heads, size_t count,
			   struct limpet_mimalloc *ret_mimalloc)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(gaps); i++)
		if (judge(heads, count, gaps[i], ret_mimalloc))
			return true;
	return false;
}

int limpet_mimalloc_find(const struct limpet_memory_reader *memory,
			 const struct limpet_memory_ranges *ranges,
			 struct limpet_mimalloc *ret_mimalloc)
{
	LIMPET_FREE struct limpet_mimalloc_head *heads = calloc(HEADS_LIMIT, sizeof(*heads));
	struct limpet_mimalloc mimalloc = {.found = false};
	size_t count = 0;

	if (!heads)
		return -ENOMEM;
	for (size_t i = 0; i < ranges->count && count < HEADS_LIMIT; i++) {
		const struct limpet_memory_range *range = &ranges->list[i];
		uint64_t at = (range->start + LIMPET_MIMALLOC_SEGMENT_BYTES - 1) &
			      ~(LIMPET_MIMALLOC_SEGMENT_BYTES - 1);

		if (range->account != LIMPET_MEMORY_UNKNOWN)
			continue;
		for (; at < range->end && count < HEADS_LIMIT;
		     at += LIMPET_MIMALLOC_SEGMENT_BYTES) {
			heads[count].address = at;
			if (limpet_memory_reader_read(memory, at, heads[count].words,
						      sizeof(heads[count].words)) == 0)
				count++;
		}
	}
	(void)limpet_mimalloc_judge(heads, count, &mimalloc);
	*ret_mimalloc = mimalloc;
	return 0;
}

uint64_t limpet_mimalloc_segment(const struct limpet_memory_reader *memory,
				 const struct limpet_mimalloc *mimalloc, uint64_t address)
{
	const unsigned gap = mimalloc->gap;
	uint64_t words[GAP_LIMIT + 1];

	if (!mimalloc->found || address % LIMPET_MIMALLOC_SEGMENT_BYTES ||
	    limpet_memory_reader_read(memory, address + 8 * (uint64_t)mimalloc->offset, words,
				      sizeof(words)) < 0 ||
	    (words[0] ^ address) != mimalloc->secret || words[gap] <= SLICES / 2 ||
	    words[gap] > SLICES_LIMIT)
		return 0;
	return words[gap] * SLICE_BYTES;
}

uint64_t limpet_mimalloc_judge_arena(uint64_t address,
				     const uint64_t words[LIMPET_MIMALLOC_ARENA_WORDS])
{
	const uint64_t bytes = words[1], slices = bytes / SLICE_BYTES;

	if (words[0] != address || bytes % SLICE_BYTES || slices < 2 || bytes > ARENA_LIMIT_BYTES)
		return 0;
	for (unsigned i = 4; i + 2 < LIMPET_MIMALLOC_ARENA_WORDS; i++) {
		const uint32_t node = (uint32_t)words[i + 2];

		if (words[i] == slices && words[i + 1] && words[i + 1] < slices &&
		    (node < NODES_LIMIT || node == UINT32_MAX))
			return bytes;
	}
	return 0;
}

uint64_t limpet_mimalloc_arena(const struct limpet_memory_reader *memory, uint64_t address)
{
	uint64_t words[LIMPET_MIMALLOC_ARENA_WORDS];

	if (address % LIMPET_MIMALLOC_ARENA_ALIGN_BYTES ||
	    limpet_memory_reader_read(memory, address, words, sizeof(words)) < 0)
		return 0;
	return limpet_mimalloc_judge_arena(address, words);
}

void limpet_mimalloc_arenas_add(struct limpet_mimalloc_arenas *arenas, uint64_t address)
{
	if (arenas->count < LIMPET_COUNT_OF(arenas->list))
		arenas->list[arenas->count++] = address;
	else
		arenas->is_cut = true;
}
