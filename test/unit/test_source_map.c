/* Source maps: against an encoder of the test's own, and damaged ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "analyzer/symbols/source_map.h"
#include "analyzer/symbols/symbolize.h"

enum { LINES = 40, SEGMENTS = 200, FILES = 3, PLACES = 300 };

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Lines and columns from 1; file < 0: not mapped. */
struct segment {
	unsigned line, column, source_line;
	int file;
};

static unsigned random_below(unsigned limit)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (state >> 8) % limit;
}

static void put_number(FILE *file, int number)
{
	unsigned value = number < 0 ? (unsigned)-number << 1 | 1 : (unsigned)number << 1;

	do {
		const unsigned low = value & 31;

		value >>= 5;
		putc(digits[low | (value ? 32 : 0)], file);
	} while (value);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static size_t make_segments(struct segment *segments)
{
	uint64_t at[SEGMENTS];
	size_t count = 0;

	for (unsigned i = 0; i < SEGMENTS; i++)
		at[i] = LIMPET_SCRIPT_PLACE(1 + random_below(LINES), 1 + random_below(200));
	qsort(at, SEGMENTS, sizeof(at[0]), compare);
	for (unsigned i = 0; i < SEGMENTS; i++) {
		if (i && at[i] == at[i - 1])
			continue;
		segments[count++] =
			(struct segment){(unsigned)(at[i] >> 32), (uint32_t)at[i],
					 1 + random_below(5000), (int)random_below(FILES + 1) - 1};
	}
	return count;
}

/* From `first` on, as a map of its own that begins at that place. */
static void put_mappings(FILE *file, const struct segment *segments, size_t first, size_t count)
{
	unsigned line = segments[first].line;
	int column = 0, source = 0, source_line = 0;

	for (size_t i = first; i < count; i++) {
		const struct segment *it = &segments[i];
		/* Columns of the first line are from where the map begins. */
		const int begins =
			it->line == segments[first].line && first ? (int)segments[first].column : 1;

		for (; line < it->line; line++, column = 0)
			putc(';', file);
		put_number(file, (int)it->column - begins - column);
		column = (int)it->column - begins;
		if (it->file >= 0) {
			put_number(file, it->file - source);
			put_number(file, (int)it->source_line - 1 - source_line);
			put_number(file, (int)random_below(2)); /* its column */
			source = it->file;
			source_line = (int)it->source_line - 1;
		}
		putc(',', file);
	}
}

static void put_map(FILE *file, const struct segment *segments, size_t first, size_t count)
{
	fputs("{\"version\":3,\"sourceRoot\":\"../src\",\"sources\":[\"0.ts\",\"1.ts\",\"2.ts\"],"
	      "\"names\":[],\"mappings\":\"",
	      file);
	for (unsigned line = 1; !first && line < segments[0].line; line++)
		putc(';', file);
	put_mappings(file, segments, first, count);
	fputs("\"}", file);
}

/* As a map, or one of two sections. */
static char *make_map(const struct segment *segments, size_t count, bool index, size_t *ret_bytes)
{
	const struct segment *half = &segments[count / 2];
	char *text;
	FILE *file = open_memstream(&text, ret_bytes);

	assert_non_null(file);
	if (index)
		fputs("{\"version\":3,\"sections\":[{\"offset\":{\"line\":0,\"column\":0},\"map\":",
		      file);
	put_map(file, segments, 0, index ? count / 2 : count);
	if (index) {
		fprintf(file, "},{\"offset\":{\"line\":%u,\"column\":%u},\"map\":", half->line - 1,
			half->column - 1);
		put_map(file, segments, count / 2, count);
		fputs("}]}", file);
	}
	assert_int_equal(fclose(file), 0);
	return text;
}

static const struct segment *segment_of(const struct segment *segments, size_t count,
					uint64_t place)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < count; i++)
		if (segments[i].line == place >> 32 && segments[i].column <= (uint32_t)place)
			found = &segments[i];
	return found && found->file >= 0 ? found : NULL;
}

static void forget(struct limpet_source_place *places, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(places[i].file);
}

static void test_random(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct segment segments[SEGMENTS];
		const size_t count = make_segments(segments);
		struct limpet_source_place found[PLACES];
		uint64_t places[PLACES];
		size_t bytes;
		char *map = make_map(segments, count, round % 2, &bytes), file[32];

		for (unsigned i = 0; i < PLACES; i++)
			places[i] = LIMPET_SCRIPT_PLACE(1 + random_below(LINES + 2),
							1 + random_below(220));
		qsort(places, PLACES, sizeof(places[0]), compare);
		assert_int_equal(limpet_source_map_look_up(map, bytes, places, PLACES, found), 0);
		for (unsigned i = 0; i < PLACES; i++) {
			const struct segment *it = segment_of(segments, count, places[i]);

			if (!it) {
				assert_null(found[i].file);
				continue;
			}
			snprintf(file, sizeof(file), "../src/%d.ts", it->file);
			assert_non_null(found[i].file);
			assert_string_equal(found[i].file, file);
			assert_int_equal(found[i].line, it->source_line);
		}
		forget(found, PLACES);
		free(map);
	}
}

/* Bytes of a map are changed, or its end is missing: it ends, and is no map, or another. */
static void test_damaged(void **state)
{
	struct segment segments[SEGMENTS];
	const size_t count = make_segments(segments);
	struct limpet_source_place found[2];
	const uint64_t places[2] = {LIMPET_SCRIPT_PLACE(3, 3),
				    LIMPET_SCRIPT_PLACE(UINT32_MAX, UINT32_MAX)};
	size_t bytes;
	char *map = make_map(segments, count, false, &bytes);

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		const size_t at = random_below((unsigned)bytes);
		const char was = map[at];

		map[at] = (char)(i % 3 ? digits[random_below(64)] : (int)random_below(256));
		(void)!limpet_source_map_look_up(map, i % 2 ? bytes : at, places, 2, found);
		forget(found, 2);
		map[at] = was;
	}
	free(map);
}

static void test_refused(void **state)
{
	static const char *const maps[] = {
		"",
		"{",
		"[]",
		"{\"version\":2,\"sources\":[\"a\"],\"mappings\":\"AAAA\"}",
		"{\"version\":3,\"sources\":[\"a\"]}",
		"{\"version\":3,\"sources\":[\"a\"],\"mappings\":\"A!AA\"}",
		"{\"version\":3,\"sources\":[\"a\"],\"mappings\":\"gggggggggggggggggggggggggA\"}",
		"{\"version\":3,\"sources\":[\"a\"],\"mappings\":\"DAAA\"}", /* column -1 */
		"{\"version\":3,\"sections\":[{\"offset\":{\"line\":-1,\"column\":0}}]}",
	};
	const uint64_t place = LIMPET_SCRIPT_PLACE(1, 1);
	struct limpet_source_place found;

	(void)state;
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		if (limpet_source_map_look_up(maps[i], strlen(maps[i]), &place, 1, &found) !=
		    -EBADMSG)
			fail_msg("'%s' is taken", maps[i]);
		forget(&found, 1);
	}
}

static void test_url(void **state)
{
	static const char script[] = "//# sourceMappingURL=old.map\nf();\n"
				     "//# sourceMappingURL=chain.js.map\n";
	static const char data[] = "data:application/json;charset=utf-8;base64,eyJ2IjozfQ==";
	const char *url;
	size_t bytes;
	char *decoded;

	(void)state;
	assert_int_equal(limpet_source_map_url(script, sizeof(script) - 1, &url), 12);
	assert_memory_equal(url, "chain.js.map", 12);
	assert_int_equal(limpet_source_map_url("f();", 4, &url), 0);
	assert_int_equal(limpet_source_map_url("//# sourceMappingURL=", 21, &url), 0);
	decoded = limpet_source_map_inline(data, sizeof(data) - 1, &bytes);
	assert_non_null(decoded);
	assert_int_equal(bytes, 7);
	assert_memory_equal(decoded, "{\"v\":3}", 7);
	free(decoded);
	assert_null(limpet_source_map_inline("chain.js.map", 12, &bytes));
	assert_null(limpet_source_map_inline("data:text/plain,x", 17, &bytes));
}

/* ------------------------------------------------------------------ files */

static char folder[] = "/tmp/limpet-source-map-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const names[] = {"/app/a.js", "/app/a.js.map", "/app", ""};
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", folder, names[i]);
		(void)!remove(path);
	}
	return 0;
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static int look_up(const char *path, uint64_t place, const struct limpet_symbol **ret,
		   struct limpet_symbolizer **ret_symbolizer)
{
	int code = limpet_symbolizer_read_script(folder, path, &place, 1, NULL, ret_symbolizer);

	return code < 0 ? code : limpet_symbolizer_resolve(*ret_symbolizer, place, ret);
}

/* The script's end, and what is found of its first place; NULL: there is no map. */
static void assert_source(const char *end, const char *file)
{
	const struct limpet_symbol *found;
	struct limpet_symbolizer *symbolizer = NULL;
	int count;

	write_file("/app/a.js", end);
	count = look_up("/app/a.js", LIMPET_SCRIPT_PLACE(1, 3), &found, &symbolizer);
	if (!file) {
		assert_int_equal(count, -ENOENT);
		return;
	}
	assert_int_equal(count, 1);
	assert_string_equal(found->file, file);
	assert_int_equal(found->line, 8);
	assert_null(found->function);
	limpet_symbolizer_close(symbolizer);
}

static void test_files(void **state)
{
	static const char map[] =
		"{\"version\":3,\"sources\":[\"../src/./chain.ts\"],\"mappings\":\"AAOA\"}";
	static const char inlined[] =
		"f()\n//# sourceMappingURL=data:application/json;base64,"
		"eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbIi4uL3NyYy8uL2NoYWluLnRzIl0sIm1h"
		"cHBpbmdzIjoiQUFPQSJ9";
	const struct limpet_symbol *found;
	struct limpet_symbolizer *symbolizer;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/app", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file("/app/a.js.map", map);
	assert_source("f()\n//# sourceMappingURL=a.js.map\n", "/src/chain.ts");
	assert_source("f()\n//# sourceMappingURL=/app/a.js.map", "/src/chain.ts");
	assert_source("f()\n//# sourceMappingURL=file:///app/a.js.map", "/src/chain.ts");
	assert_source(inlined, "/src/chain.ts");
	/* A link out of the process's root leads nowhere; only maps are opened. */
	assert_source("f()\n//# sourceMappingURL=../../../../etc/passwd", NULL);
	assert_source("f()\n//# sourceMappingURL=http://host/a.js.map", NULL);
	assert_source("f()\n//# sourceMappingURL=b.js.map", NULL);
	assert_source("f()\n//# sourceMappingURL=.map", NULL);
	assert_source("f()\n", NULL);
	assert_source("", NULL);
	write_file("/app/a.js.map", "{\"version\":3}");
	assert_source("f()\n//# sourceMappingURL=a.js.map\n", NULL);
	write_file("/app/a.js.map", "");
	assert_source("f()\n//# sourceMappingURL=a.js.map\n", NULL);
	assert_int_equal(look_up("/app/none.js", 1, &found, &symbolizer), -ENOENT);
	assert_int_equal(look_up("/app", 1, &found, &symbolizer), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_url),
		cmocka_unit_test_setup_teardown(test_files, make_folder, remove_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
