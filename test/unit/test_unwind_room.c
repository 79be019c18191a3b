/* The unwind-table compiler against sections that would make far more than there is room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/eh_frame_fixture.h"

enum {
	SECTION_BYTES = 32 << 20,
	ROOM = 1 << 20,
	/* Of what is built on the way, for each byte of room: functions, rows, and either twice
	 * while it grows. */
	MOST_FOR_A_BYTE = 40,
};

static struct limpet_unwind_input whole_section(const uint8_t *bytes, size_t count)
{
	return (struct limpet_unwind_input){
		.eh_frame = bytes,
		.eh_frame_bytes = count,
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + (1u << 30),
	};
}

static uint64_t status_bytes(const char *key)
{
	char line[128];
	unsigned long kib = 0;
	FILE *file = fopen("/proc/self/status", "re");

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && !kib)
		if (!strncmp(line, key, strlen(key)))
			kib = strtoul(line + strlen(key), NULL, 10);
	fclose(file);
	return (uint64_t)kib << 10;
}

/* With and without room: refused, or made; and what it takes on the way. */
static void assert_bounded(const uint8_t *bytes, size_t count, int with_room, int without_room)
{
	struct limpet_unwind_input input = whole_section(bytes, count);
	void *table = NULL;
	size_t table_bytes;
	uint64_t before;
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	input.max_table_bytes = ROOM;
	if (fd >= 0)
		assert_int_equal(write(fd, "5", 1), 1); /* the peak begins here */
	before = status_bytes("VmRSS:");
	assert_int_equal(limpet_unwind_compile(&input, &table, &table_bytes, NULL), without_room);
	if (fd >= 0)
		assert_true(status_bytes("VmHWM:") < before + (uint64_t)MOST_FOR_A_BYTE * ROOM);
	close(fd);
	input.max_table_bytes = 0;
	assert_int_equal(limpet_unwind_compile(&input, &table, &table_bytes, NULL), with_room);
	free(table);
}

static uint8_t *section_bytes(void)
{
	uint8_t *bytes = calloc(1, SECTION_BYTES);

	assert_non_null(bytes);
	memset(bytes, 0, SECTION_BYTES);
	return bytes;
}

static void test_functions(void **state)
{
	struct section first = {.count = 0};
	uint8_t *bytes = section_bytes();
	size_t at, entry;
	uint64_t pc = TEXT;

	(void)state;
	put_plain_cie(&first);
	entry = first.count;
	put_fde(&first, TEXT, 8, NULL, 0);
	memcpy(bytes, first.bytes, first.count);
	for (at = entry; at + (first.count - entry) <= SECTION_BYTES; at += first.count - entry) {
		uint32_t cie = (uint32_t)(at + 4), where = (uint32_t)(pc - (SECTION + at + 8));

		memcpy(bytes + at, first.bytes + entry, first.count - entry);
		memcpy(bytes + at + 4, &cie, sizeof(cie));
		memcpy(bytes + at + 8, &where, sizeof(where));
		pc += 8;
	}
	assert_bounded(bytes, at, 0, -ENOSPC);
	free(bytes);
}

static void test_rows(void **state)
{
	struct section first = {.count = 0};
	uint8_t *bytes = section_bytes(),
		row[] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, 8};
	uint32_t length;
	size_t entry, at;

	(void)state;
	put_plain_cie(&first);
	entry = first.count;
	put_fde(&first, TEXT, 1u << 30, NULL, 0);
	memcpy(bytes, first.bytes, first.count);
	for (at = first.count; at + sizeof(row) <= SECTION_BYTES; at += sizeof(row)) {
		row[2] = row[2] == 8 ? 16 : 8;
		memcpy(bytes + at, row, sizeof(row));
	}
	length = (uint32_t)(at - entry - 4);
	memcpy(bytes + entry, &length, sizeof(length));
	assert_bounded(bytes, at, 0, -ENOSPC);
	free(bytes);
}

/* No linker makes so many; each is larger here than in the section. */
static void test_cies(void **state)
{
	struct section first = {.count = 0};
	uint8_t *bytes = section_bytes();
	size_t at = 0;

	(void)state;
	put_plain_cie(&first);
	for (; at + first.count <= SECTION_BYTES; at += first.count)
		memcpy(bytes + at, first.bytes, first.count);
	assert_bounded(bytes, at, -EFBIG, -EFBIG);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_cies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
