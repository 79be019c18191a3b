/* Names of Go programs without symbols or lines: compared with those of the same program with
 * symbols, and read from tables of all formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/symbols/gopclntab.h"
#include "analyzer/symbols/symbol_reader.h"
#include "analyzer/symbols/symbolize.h"
#include "test/unit/go_fixture.h"

/* ------------------------------------------------------------------ programs */

static struct limpet_symbol_reader *open_program(const char *path)
{
	struct limpet_symbol_reader *reader;
	struct limpet_err err = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	if (limpet_symbol_reader_open(fd, NULL, &reader, &err) < 0)
		fail_msg("%s: %s", path, err.message);
	return reader;
}

static void find_text(const char *path, uint64_t *ret_start, uint64_t *ret_end)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;
	Elf *elf;

	assert_true(fd >= 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_int_equal(elf_getshdrstrndx(elf, &names), 0);
	do {
		section = elf_nextscn(elf, section);
		assert_non_null(gelf_getshdr(section, &header));
	} while (strcmp(elf_strptr(elf, names, header.sh_name), ".text") != 0);
	*ret_start = header.sh_addr;
	*ret_end = header.sh_addr + header.sh_size;
	elf_end(elf);
	close(fd);
}

/* The linker leaves out what is in brackets: `type..eq.[2]runtime.Frame`. */
static bool same_name(const char *with, const char *without)
{
	while (*with && *with == *without) {
		if (*with == '[') {
			with = strchr(with, ']');
			without = strchr(without, ']');
			if (!with || !without)
				return false;
		}
		with++;
		without++;
	}
	return *with == *without;
}

struct tally {
	unsigned long functions, lines, inlined;
	unsigned long other_lines, other_calls; /* than those of the program with symbols */
};

static bool same_calls(const struct limpet_symbol *a, const struct limpet_symbol *b, int count)
{
	for (int i = 0; i < count; i++)
		if (!same_name(a[i].function, b[i].function) || a[i].inlined != b[i].inlined)
			return false;
	return true;
}

/* What a program says of an address, and what the same program says without symbols: the latter
 * may know of more inlined calls. */
static void compare(struct limpet_symbol_reader *with, struct limpet_symbol_reader *without,
		    uint64_t address, struct tally *tally)
{
	const struct limpet_symbol *a, *b;
	int count = limpet_symbol_reader_resolve(with, address, &a), other;

	/* A function of C has no such name; behind the last one of Go there is a mark. */
	if (!count || !a[count - 1].function || !strchr(a[count - 1].function, '.') ||
	    !strcmp(a[count - 1].function, "runtime.etext"))
		return;
	other = limpet_symbol_reader_resolve(without, address, &b);
	if (!other || !same_name(a[count - 1].function, b[other - 1].function))
		fail_msg("%#lx: %s instead of %s", (unsigned long)address,
			 other ? b[other - 1].function : "nothing", a[count - 1].function);
	tally->functions++;
	tally->inlined += count > 1;
	tally->other_calls += other < count || (other == count && !same_calls(a, b, count));
	if (!a[0].file)
		return;
	tally->lines++;
	tally->other_lines +=
		!b[0].file || strcmp(a[0].file, b[0].file) != 0 || a[0].line != b[0].line;
}

static void compare_programs(const char *name, const char *other)
{
	struct limpet_symbol_reader *with, *without;
	struct tally tally = {0};
	uint64_t start, end;
	char path[128];

	snprintf(path, sizeof(path), "build/targets/%s", name);
	with = open_program(path);
	find_text(path, &start, &end);
	snprintf(path, sizeof(path), "build/targets/%s", other);
	without = open_program(path);
	assert_true(limpet_symbol_reader_has_lines(without));
	for (uint64_t at = start; at < end; at += 3)
		compare(with, without, at, &tally);
	print_message("# %s: %lu addresses with a name, %lu with a line, %lu of inlined calls; "
		      "other calls at %lu, other lines at %lu\n",
		      name, tally.functions, tally.lines, tally.inlined, tally.other_calls,
		      tally.other_lines);
	assert_true(tally.functions > 100000);
	assert_true(tally.lines > 100000);
	assert_true(tally.inlined > 5000);
	/* DWARF and Go's table differ where the assembler fills up with instructions that do
	 * nothing. */
	assert_true(tally.other_calls < tally.inlined / 1000);
	assert_true(tally.other_lines < tally.lines / 1000);
	limpet_symbol_reader_close(with);
	limpet_symbol_reader_close(without);
}

static void test_a_static_program(void **state)
{
	(void)state;
	compare_programs("plain-go", "plain-go-stripped");
}

static void test_a_position_independent_program(void **state)
{
	(void)state;
	compare_programs("plain-go-pie", "plain-go-pie-stripped");
}

static void test_a_program_with_symbols_only(void **state)
{
	(void)state;
	compare_programs("plain-go", "plain-go-symbols");
}

/* Its table has no section of its own. */
static void test_a_program_that_c_linked(void **state)
{
	(void)state;
	compare_programs("plain-go-pie-linked", "plain-go-pie-linked-stripped");
}

/* ------------------------------------------------------------------ tables */

struct want {
	uint64_t address;
	const char *function, *file;
	uint32_t line;
	const char *outer; /* that it is inlined in */
	uint32_t outer_line;
};

static void check(const struct limpet_gopclntab *table, const struct want *want)
{
	struct limpet_symbol list[LIMPET_SYMBOL_MAX_INLINED];
	int count = limpet_gopclntab_find(table, want->address, list, LIMPET_SYMBOL_MAX_INLINED);

	if (!want->function) {
		assert_int_equal(count, 0);
		assert_false(limpet_gopclntab_covers(table, want->address));
		return;
	}
	assert_true(limpet_gopclntab_covers(table, want->address));
	assert_int_equal(count, want->outer ? 2 : 1);
	assert_string_equal(list[0].function, want->function);
	assert_int_equal(list[0].line, want->line);
	assert_int_equal(list[0].inlined, want->outer != NULL);
	if (want->file)
		assert_string_equal(list[0].file, want->file);
	else
		assert_null(list[0].file);
	if (want->outer) {
		assert_string_equal(list[1].function, want->outer);
		assert_string_equal(list[1].file, "/src/outer.go");
		assert_int_equal(list[1].line, want->outer_line);
		assert_false(list[1].inlined);
	}
}

static void check_all(enum limpet_go_format format, enum go_fixture_kind kind)
{
	static const struct want usual[] = {
		{GO_FIXTURE_OUTER - 1, NULL, NULL, 0, NULL, 0},
		{GO_FIXTURE_OUTER, "main.outer", "/src/outer.go", 10, NULL, 0},
		{GO_FIXTURE_OUTER + 7, "main.outer", "/src/outer.go", 10, NULL, 0},
		{GO_FIXTURE_OUTER + 8, "main.outer", "/src/outer.go", 11, NULL, 0},
		{GO_FIXTURE_PLAIN - 1, "main.outer", "/src/outer.go", 12, NULL, 0},
		{GO_FIXTURE_PLAIN, "main.(*T).plain", "/src/outer.go", 20, NULL, 0},
		{GO_FIXTURE_END - 1, "main.(*T).plain", "/src/outer.go", 20, NULL, 0},
		{GO_FIXTURE_END, NULL, NULL, 0, NULL, 0},
		{UINT64_MAX, NULL, NULL, 0, NULL, 0},
		{0, NULL, NULL, 0, NULL, 0},
	};
	static const struct want inlined = {
		GO_FIXTURE_INLINED, "main.inner", "/src/inner.go", 5, "main.outer", 11};
	/* The line is that of a function without a name: it is left out. */
	static const struct want unknown = {GO_FIXTURE_INLINED, "main.outer", NULL, 0, NULL, 0};
	bool knows = format >= LIMPET_GO_18 && kind != GO_FIXTURE_NO_MODULE;
	struct limpet_gopclntab *table;
	uint8_t file[GO_FIXTURE_ROOM];
	size_t bytes = go_fixture_make(format, kind, file);

	assert_int_equal(limpet_gopclntab_new(file, bytes, &table), 0);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		check(table, &usual[i]);
	check(table, knows ? &inlined : &unknown);
	limpet_gopclntab_free(table);
}

static void test_every_format(void **state)
{
	(void)state;
	for (unsigned format = LIMPET_GO_2; format <= LIMPET_GO_20; format++)
		check_all(format, GO_FIXTURE_USUAL);
	check_all(LIMPET_GO_18, GO_FIXTURE_NO_MODULE);
	check_all(LIMPET_GO_20, GO_FIXTURE_NO_MODULE);
	check_all(LIMPET_GO_18, GO_FIXTURE_PIE);
	check_all(LIMPET_GO_20, GO_FIXTURE_PIE);
}

static void test_calls_inlined_in_themselves(void **state)
{
	struct limpet_symbol list[LIMPET_SYMBOL_MAX_INLINED];
	struct limpet_gopclntab *table;
	uint8_t file[GO_FIXTURE_ROOM];
	size_t bytes = go_fixture_make(LIMPET_GO_20, GO_FIXTURE_LOOP, file);

	(void)state;
	assert_int_equal(limpet_gopclntab_new(file, bytes, &table), 0);
	assert_int_equal(
		limpet_gopclntab_find(table, GO_FIXTURE_INLINED, list, LIMPET_SYMBOL_MAX_INLINED),
		LIMPET_SYMBOL_MAX_INLINED);
	assert_string_equal(list[0].function, "main.inner");
	assert_true(list[LIMPET_SYMBOL_MAX_INLINED - 2].inlined);
	assert_string_equal(list[LIMPET_SYMBOL_MAX_INLINED - 1].function, "main.outer");
	assert_false(list[LIMPET_SYMBOL_MAX_INLINED - 1].inlined);
	limpet_gopclntab_free(table);
}

/* Of each length, in memory that ends there. */
static void test_cut_files(void **state)
{
	uint8_t file[GO_FIXTURE_ROOM];

	(void)state;
	for (unsigned format = LIMPET_GO_2; format <= LIMPET_GO_20; format++) {
		size_t bytes = go_fixture_make(format, GO_FIXTURE_PIE, file);

		for (size_t length = 0; length < bytes; length++) {
			struct limpet_symbol list[LIMPET_SYMBOL_MAX_INLINED];
			struct limpet_gopclntab *table;
			uint8_t *copy = malloc(length + 1);

			assert_non_null(copy);
			memcpy(copy, file, length);
			if (limpet_gopclntab_new(copy, length, &table) == 0) {
				for (uint64_t at = GO_FIXTURE_OUTER; at < GO_FIXTURE_END; at += 8)
					assert_in_range(
						limpet_gopclntab_find(table, at, list,
								      LIMPET_SYMBOL_MAX_INLINED),
						0, LIMPET_SYMBOL_MAX_INLINED);
				limpet_gopclntab_free(table);
			}
			free(copy);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_static_program),
		cmocka_unit_test(test_a_position_independent_program),
		cmocka_unit_test(test_a_program_with_symbols_only),
		cmocka_unit_test(test_a_program_that_c_linked),
		cmocka_unit_test(test_every_format),
		cmocka_unit_test(test_calls_inlined_in_themselves),
		cmocka_unit_test(test_cut_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
