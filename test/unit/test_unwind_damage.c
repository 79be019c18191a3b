/* Damaged sections and tables of the unwinder, and what a fuzzer has found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/unwind_check.h"
#include "test/unit/unwind_fixture.h"

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void assert_survives(const struct limpet_unwind_input *input)
{
	void *table, *again;
	size_t bytes, again_bytes;

	assert_int_equal(limpet_unwind_compile(input, &table, &bytes, NULL), 0);
	assert_int_equal(unwind_check(table, bytes), 0);
	assert_int_equal(limpet_unwind_compile(input, &again, &again_bytes, NULL), 0);
	assert_int_equal(bytes, again_bytes);
	assert_memory_equal(table, again, bytes);
	free(table);
	free(again);
}

static void test_damaged_sections(void **state)
{
	(void)state;
	struct fixture_file file;
	struct limpet_unwind_input input;
	uint64_t seed = 0x2545f4914f6cdd1dull;
	uint8_t *bytes;
	size_t count;

	assert_true(fixture_file_open(fixture_own_module("libcmocka"), &file));
	input = file.input;
	count = input.eh_frame_bytes;
	if (count == 0) {
		fail_msg("libcmocka has no .eh_frame");
		return;
	}
	/* A block of its very size, so that a read past the end is seen. */
	for (size_t cut = 1; cut < count; cut += 1 + next_random(&seed) % 61) {
		bytes = malloc(cut);
		assert_non_null(bytes);
		memcpy(bytes, file.input.eh_frame, cut);
		input.eh_frame = bytes;
		input.eh_frame_bytes = cut;
		assert_survives(&input);
		free(bytes);
	}
	bytes = malloc(count);
	assert_non_null(bytes);
	input.eh_frame = bytes;
	input.eh_frame_bytes = count;
	for (int round = 0; round < 1500; round++) {
		memcpy(bytes, file.input.eh_frame, count);
		for (uint64_t i = next_random(&seed) % 24 + 1; i; i--)
			bytes[next_random(&seed) % count] = (uint8_t)next_random(&seed);
		assert_survives(&input);
	}
	free(bytes);
	fixture_file_close(&file);
}

static void test_check_refuses_damaged_tables(void **state)
{
	(void)state;
	struct fixture_file file;
	uint64_t seed = 0x9e3779b97f4a7c15ull;
	size_t bytes;
	uint8_t *copy;
	unsigned refused = 0;

	assert_true(fixture_file_open(fixture_own_module("libcmocka"), &file));
	bytes = file.table->bytes;
	copy = aligned_alloc(16, bytes);
	assert_non_null(copy);
	for (size_t cut = 0; cut < bytes; cut += 16)
		assert_int_equal(unwind_check(file.table, cut), -EBADMSG);
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, file.table, bytes);
		copy[next_random(&seed) % file.table->rules_offset] ^=
			(uint8_t)(1u << next_random(&seed) % 8);
		if (unwind_check(copy, bytes) != 0) {
			refused++;
			continue;
		}
		/* What passes the check is safe to look up in, though maybe wrong. */
		for (uint32_t offset = 0; offset < file.table->covered; offset += 7)
			limpet_unwind_table_find((const void *)copy, offset);
	}
	assert_true(refused > 500);
	free(copy);
	fixture_file_close(&file);
}

#define FUZZ_CORPUS "test/fuzz/corpus/unwind_compile"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a fuzzer has found once stays found. */
static void test_fuzz_corpus(void **state)
{
	(void)state;
	DIR *directory = opendir(FUZZ_CORPUS);
	unsigned replayed = 0;
	struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		char path[512];
		FILE *file;
		uint8_t *data;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", FUZZ_CORPUS, entry->d_name);
		file = fopen(path, "re");
		assert_non_null(file);
		/* A block of its very size again. */
		assert_int_equal(fseek(file, 0, SEEK_END), 0);
		size = (size_t)ftell(file);
		rewind(file);
		data = malloc(size ? size : 1);
		assert_non_null(data);
		assert_int_equal(fread(data, 1, size, file), size);
		fclose(file);
		assert_int_equal(LLVMFuzzerTestOneInput(data, size), 0);
		free(data);
		replayed++;
	}
	closedir(directory);
	assert_true(replayed >= 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_sections),
		cmocka_unit_test(test_check_refuses_damaged_tables),
		cmocka_unit_test(test_fuzz_corpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
