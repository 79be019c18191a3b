/* What resident memory consists of: parts add up, and have one wording. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "analyzer/views/resident_parts.h"

#define MIB ((uint64_t)1 << 20)

static struct limpet_resident_row rows_before[] = {
	{.kind = "glibc-main-heap", .bytes = 20 * MIB, .free_known = true},
	{.kind = "shm", .owner = "POSIX: /dev/shm/x", .bytes = 12 * MIB},
	{.kind = "file-pages", .bytes = 8 * MIB}};
static struct limpet_resident_row rows_after[] = {
	{.kind = "glibc-main-heap", .bytes = 60 * MIB, .free_known = true, .free_bytes = 9 * MIB},
	{.kind = "file-pages", .bytes = 8 * MIB},
	{.kind = "glibc-arenas", .bytes = 4 * MIB},
	{.kind = "limpet", .bytes = 3 * MIB},
	{.kind = "private-data", .bytes = 2 * MIB},
	{.kind = "a kind of a newer version", .bytes = 1 * MIB},
	{.kind = "unknown", .bytes = 5 * MIB}};
static const struct limpet_resident_account before = {
	.known = true, .rss_bytes = 40 * MIB, .rows = rows_before, .count = 3};
static const struct limpet_resident_account after = {
	.known = true, .rss_bytes = 83 * MIB, .rows = rows_after, .count = 7};

static void assert_sentence(const struct limpet_parts *parts, const char *wanted)
{
	char *said = NULL;

	assert_int_equal(limpet_parts_sentence(parts, &said), 0);
	if (wanted)
		assert_string_equal(said, wanted);
	else
		assert_null(said);
	free(said);
}

static void test_parts_add_up(void **state)
{
	struct limpet_parts parts;
	uint64_t sum = 0, sum_before = 0;

	(void)state;
	limpet_parts_between(&before, &after, &parts);
	for (size_t i = 0; i < parts.count; i++) {
		sum += parts.list[i].bytes;
		sum_before += parts.list[i].before_bytes;
	}
	assert_true(parts.known && parts.has_before && sum == parts.bytes && sum == 80 * MIB);
	assert_true(sum_before == parts.before_bytes && sum_before == 40 * MIB);
	assert_int_equal(parts.list[0].bytes, 64 * MIB);
	assert_int_equal(parts.list[0].free_bytes, 9 * MIB);
}

static void test_their_words(void **state)
{
	static const struct limpet_resident_account none;
	char text[LIMPET_PART_TEXT];
	struct limpet_parts parts;

	(void)state;
	limpet_parts_between(&before, &after, &parts);
	assert_sentence(&parts,
			"80.0 MiB resident: glibc's heap 64.0 MiB (+44.0 MiB), 9.0 MiB free; code "
			"and data of files 10.0 MiB (+2.0 MiB); anonymous mappings 6.0 MiB "
			"(+6.0 MiB).");
	limpet_part_format(&parts, &parts.list[parts.count - 1], text);
	assert_string_equal(text, "shared memory 0 B (-12.0 MiB)");
	limpet_parts_between(NULL, &before, &parts);
	parts.is_before = true;
	assert_sentence(&parts,
			"40.0 MiB resident before the capture: glibc's heap 20.0 MiB; shared "
			"memory 12.0 MiB; code and data of files 8.0 MiB.");
	limpet_parts_between(&before, &none, &parts);
	assert_true(!parts.known && !parts.has_before && !parts.count);
	assert_sentence(&parts, NULL);
	parts.unknown_bytes = 5 << 10;
	assert_sentence(&parts, "5.0 KiB resident; of what, the trace does not say.");
	parts.unknown_bytes = 5120 * MIB;
	assert_sentence(&parts,
			"5.0 GiB resident; of what, the trace does not say: it is more than "
			"4 GiB.");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_add_up),
		cmocka_unit_test(test_their_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
