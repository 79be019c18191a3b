/* The unwind-table compiler on any bytes, then look-ups and walks in what it made of them.
 *
 * Byte 0 holds flags; the rest is the section, and the code that is searched for restorers. For
 * libFuzzer (`make fuzz`), and called by test_unwind_damage on each file of the corpus. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/unwind_walk.h"
#include "injector/unwind/unwind_compile.h"
#include "test/unit/unwind_check.h"

enum { TEXT = 0x10000, TEXT_BYTES = 0x8000, SECTION = 0x50000, DEPTH = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In `make test`: a second's worth. */
extern unsigned long fuzz_mutations;
unsigned long fuzz_mutations = 10000;

static bool read_nothing_new(const void *memory, uint64_t address, uint64_t *ret_word)
{
	const uint64_t *seed = memory;
	uint64_t hash = (address ^ *seed) * 0x9e3779b97f4a7c15ull;

	*ret_word = hash & 1 ? TEXT + (hash >> 20) % TEXT_BYTES : address + (hash >> 50) * 8;
	return hash >> 60 != 0;
}

static void walk(const void *table, size_t bytes, uint64_t seed)
{
	struct limpet_unwind_module module = {
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
		.table = LIMPET_UNWIND_ALIGN,
		.table_bytes = bytes,
		.live = 1,
	};
	uint8_t *arena = aligned_alloc(LIMPET_UNWIND_ALIGN, LIMPET_UNWIND_ALIGN + bytes);
	struct limpet_walk_map map = {.modules = &module, .arena = arena, .sorted = 1, .count = 1};
	uint64_t pcs[DEPTH];

	if (!arena)
		abort();
	memcpy(arena + LIMPET_UNWIND_ALIGN, table, bytes);
	for (uint64_t pc = TEXT; pc < TEXT + TEXT_BYTES; pc += 509) {
		struct limpet_walk_frame frame = {pc, 0x7ffd0000, 0x7ffd0100, 0, 0, 0};
		enum limpet_walk_end end;
		uint32_t count = limpet_walk(&map, NULL, read_nothing_new, &seed, frame,
					     &(struct limpet_walk_result){pcs, DEPTH, &end, NULL});

		if (count == 0 || count > DEPTH || end == LIMPET_WALK_MORE)
			abort();
	}
	free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limpet_unwind_input input = {
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
	};
	struct limpet_unwind_stats stats;
	uint64_t address;
	size_t bytes;
	void *table;

	if (size < 1)
		return 0;
	input.eh_frame = data + 1;
	input.eh_frame_bytes = size - 1;
	input.eh_frame_whole = data[0] & 1;
	input.bias = data[0] & 2 ? TEXT : 0;
	input.text_base = data[0] & 4 ? TEXT : 0;
	input.data_base = data[0] & 8 ? SECTION : 0;
	if (data[0] & 16) {
		input.code = input.eh_frame;
		input.code_bytes = input.eh_frame_bytes;
		input.code_address = TEXT + data[0];
	}
	if (limpet_unwind_find_eh_frame(data, size, SECTION, &address) > 0)
		abort();
	if (limpet_unwind_compile(&input, &table, &bytes, &stats) != 0)
		return 0;
	if (unwind_check(table, bytes) != 0 ||
	    stats.described_bytes + stats.unknown_bytes > TEXT_BYTES)
		abort();
	for (uint32_t offset = 0; offset < TEXT_BYTES; offset += 13)
		limpet_unwind_table_find(table, offset);
	walk(table, bytes, size);
	free(table);
	return 0;
}
