#include "cli/objects_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/text/json_printer.h"
#include "cli/ui.h"
#include "common/base_name.h"
#include "common/err.h"
#include "common/plain_text.h"
#include "common/units.h"

/* Rows that are listed one by one, and the columns before what they are of. */
enum { ROWS = 25, WHAT_COLUMN = 39 };

static const struct {
	const char *id;    /* in JSON */
	const char *words; /* before a name */
	const char *rest;  /* in place of one */
} kinds[LIMPET_V8_KINDS] = {
	[LIMPET_V8_INSTANCES] = {"instances", "", "other classes"},
	[LIMPET_V8_CLOSURES] = {"closures", "closures of ", "closures of other functions"},
	[LIMPET_V8_STRINGS] = {"strings", "strings: ", "other strings"},
	[LIMPET_V8_INTERNAL] = {"internal", "V8: ", "V8: others"},
};

/* What V8 needs beside, in words; JSON has its own names. */
static const struct {
	const char *class, *group;
} groups[] = {
	{"FixedArray", "elements, properties, contents of Map and Set"},
	{"FixedDoubleArray", "elements, properties, contents of Map and Set"},
	{"PropertyArray", "elements, properties, contents of Map and Set"},
	{"HashTable", "elements, properties, contents of Map and Set"},
	{"SloppyArgumentsElements", "elements, properties, contents of Map and Set"},
	{"ArrayList", "elements, properties, contents of Map and Set"},
	{"WeakFixedArray", "elements, properties, contents of Map and Set"},
	{"WeakArrayList", "elements, properties, contents of Map and Set"},
	{"Context", "contexts: the variables of closures"},
	{"NativeContext", "contexts: the variables of closures"},
	{"HeapNumber", "numbers and symbols"},
	{"BigInt", "numbers and symbols"},
	{"Symbol", "numbers and symbols"},
	{"Map", "shapes of objects"},
	{"DescriptorArray", "shapes of objects"},
	{"StrongDescriptorArray", "shapes of objects"},
	{"TransitionArray", "shapes of objects"},
	{"PrototypeInfo", "shapes of objects"},
	{"EnumCache", "shapes of objects"},
	{"AccessorPair", "shapes of objects"},
	{"prototypes", "shapes of objects"},
	{"BytecodeArray", "functions and code"},
	{"BytecodeWrapper", "functions and code"},
	{"Code", "functions and code"},
	{"CodeWrapper", "functions and code"},
	{"CodeDataContainer", "functions and code"},
	{"InstructionStream", "functions and code"},
	{"SharedFunctionInfo", "functions and code"},
	{"ScopeInfo", "functions and code"},
	{"Script", "functions and code"},
	{"FeedbackCell", "functions and code"},
	{"FeedbackMetadata", "functions and code"},
	{"FeedbackVector", "functions and code"},
	{"ClosureFeedbackCellArray", "functions and code"},
	{"AllocationSite", "functions and code"},
	{"LoadHandler", "functions and code"},
	{"StoreHandler", "functions and code"},
	{"ByteArray", "functions and code"},
	{"TrustedByteArray", "functions and code"},
	{"TrustedFixedArray", "functions and code"},
	{"ProtectedFixedArray", "functions and code"},
	{"PreparseData", "functions and code"},
	{"UncompiledDataWithoutPreparseData", "functions and code"},
	{"UncompiledDataWithPreparseData", "functions and code"},
	{"ObjectBoilerplateDescription", "functions and code"},
	{"ArrayBoilerplateDescription", "functions and code"},
};

static void add_to_group(struct limpet_v8_row *row)
{
	const char *group = "others";

	if (row->kind != LIMPET_V8_INTERNAL)
		return;
	for (size_t i = 0; i < LIMPET_COUNT_OF(groups); i++)
		if (!strcmp(row->name, groups[i].class))
			group = groups[i].group;
	memset(row->name, 0, sizeof(row->name));
	snprintf(row->name, sizeof(row->name), "%s", group);
}

static uint64_t bytes_of(const struct limpet_v8_row *row)
{
	return row->bytes + row->outside_bytes;
}

static int by_bytes(const void *a, const void *b)
{
	const uint64_t one = bytes_of(a), other = bytes_of(b);

	return (one < other) - (one > other);
}

static void add(struct limpet_v8_row *to, const struct limpet_v8_row *row)
{
	to->count += row->count;
	to->bytes += row->bytes;
	to->outside_bytes += row->outside_bytes;
}

/* The same census with such groups; its rows are the caller's. Without memory it has none. */
static struct limpet_v8_census group_rows(const struct limpet_v8_census *census)
{
	struct limpet_v8_census grouped = *census;
	size_t kept = 0;

	grouped.rows = calloc(census->row_count + 1, sizeof(*grouped.rows));
	grouped.row_count = 0;
	if (!grouped.rows || !census->row_count)
		return grouped;
	memcpy(grouped.rows, census->rows, census->row_count * sizeof(*grouped.rows));
	for (size_t i = 0; i < census->row_count; i++)
		add_to_group(&grouped.rows[i]);
	qsort(grouped.rows, census->row_count, sizeof(*grouped.rows), limpet_v8_row_order);
	for (size_t i = 0; i < census->row_count; i++)
		if (kept && !limpet_v8_row_order(&grouped.rows[kept - 1], &grouped.rows[i]))
			add(&grouped.rows[kept - 1], &grouped.rows[i]);
		else
			grouped.rows[kept++] = grouped.rows[i];
	grouped.row_count = kept;
	qsort(grouped.rows, kept, sizeof(*grouped.rows), by_bytes);
	return grouped;
}

/* ------------------------------------------------------------------ two censuses */

struct growth {
	const struct limpet_v8_row *now;
	struct limpet_v8_row before; /* its amounts alone; zeros: it was not there */
	int64_t count, bytes;        /* by which it grew; bytes with those outside */
};

static int by_growth(const void *a, const void *b)
{
	const struct growth *one = a, *other = b;

	return (one->bytes < other->bytes) - (one->bytes > other->bytes);
}

/* For each row of now what it was before; malloc'ed, or NULL. */
static struct growth *compare(const struct limpet_objects *objects)
{
	const struct limpet_v8_census *now = objects->now, *before = objects->before;
	struct growth *list = calloc(now->row_count + 1, sizeof(*list));
	LIMPET_FREE struct limpet_v8_row *sorted =
		calloc((before ? before->row_count : 0) + 1, sizeof(*sorted));

	if (!list || !sorted) {
		free(list);
		return NULL;
	}
	if (before && before->row_count) {
		memcpy(sorted, before->rows, before->row_count * sizeof(*sorted));
		qsort(sorted, before->row_count, sizeof(*sorted), limpet_v8_row_order);
	}
	for (size_t i = 0; i < now->row_count; i++) {
		const struct limpet_v8_row *then =
			before ? bsearch(&now->rows[i], sorted, before->row_count, sizeof(*sorted),
					 limpet_v8_row_order)
			       : NULL;

		list[i].now = &now->rows[i];
		if (then)
			list[i].before = *then;
		list[i].count = (int64_t)(now->rows[i].count - list[i].before.count);
		list[i].bytes = (int64_t)(bytes_of(&now->rows[i]) - bytes_of(&list[i].before));
	}
	return list;
}

/* ------------------------------------------------------------------ text */

/* "closures of remember  chain.js:3" */
static char *words_of(const struct limpet_v8_row *row, char ret[512])
{
	const char *script = row->script[0] == '/' || !strncmp(row->script, "file:", 5)
				     ? limpet_base_name(row->script)
				     : row->script;
	int length = row->name[0] ? snprintf(ret, 512, "%s%s", kinds[row->kind].words, row->name)
				  : snprintf(ret, 512, "%s", kinds[row->kind].rest);

	if (script[0] && length < 256)
		length += snprintf(ret + length, 512 - (size_t)length, "  %.200s", script);
	if (script[0] && row->line)
		snprintf(ret + length, 512 - (size_t)length, ":%" PRIu32, row->line);
	return limpet_plain_text_clean(ret);
}

static void print_row(const struct limpet_v8_row *row, const char *what, int width)
{
	const int room = width > WHAT_COLUMN + 16 ? width - WHAT_COLUMN : 16;
	char count[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT], outside[LIMPET_UNITS_TEXT];
	char text[512];

	snprintf(text, sizeof(text), "%s", what);
	printf("  %10s  %10s  %10s   %s\n", limpet_units_format_count(count, row->count),
	       limpet_units_format_bytes(bytes, row->bytes),
	       row->outside_bytes ? limpet_units_format_bytes(outside, row->outside_bytes) : "-",
	       limpet_ui_cut(text, room));
}

static void print_rows(const struct limpet_v8_census *census, int width)
{
	struct limpet_v8_row all = {.count = 0}, rest = {.count = 0};

	printf("\n%s  %10s  %10s  %10s   %s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "objects",
	       "bytes", "outside", "what", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < census->row_count; i++) {
		char what[512];

		if (i < ROWS)
			print_row(&census->rows[i], words_of(&census->rows[i], what), width);
		else
			add(&rest, &census->rows[i]);
		add(&all, &census->rows[i]);
	}
	if (rest.count)
		print_row(&rest, "others", width);
	print_row(&all, "all of these", width);
}

static void print_growth(const struct limpet_objects *objects, int width)
{
	LIMPET_FREE struct growth *list = compare(objects);
	const size_t count = objects->now->row_count;
	const int room = width > WHAT_COLUMN + 16 ? width - WHAT_COLUMN : 16;
	char interval[LIMPET_UNITS_TEXT];

	if (!list)
		return;
	qsort(list, count, sizeof(*list), by_growth);
	printf("\nWhat grew in %s:\n\n%s  %10s  %10s  %10s   %s%s\n",
	       limpet_units_format_duration(interval, objects->interval_ns),
	       limpet_ui_style(stdout, LIMPET_UI_DIM), "objects", "growth", "bytes now", "what",
	       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	if (!count || list[0].bytes <= 0)
		printf("  nothing\n");
	for (size_t i = 0; i < count && i < ROWS && list[i].bytes > 0; i++) {
		char number[LIMPET_UNITS_TEXT], change[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];
		char sign[LIMPET_UNITS_TEXT + 1], what[512];

		snprintf(sign, sizeof(sign), "%s%s", list[i].count < 0 ? "-" : "+",
			 limpet_units_format_count(
				 number,
				 (uint64_t)(list[i].count < 0 ? -list[i].count : list[i].count)));
		printf("  %10s  %10s  %10s   %s\n", sign,
		       limpet_units_format_bytes_change(change, list[i].bytes),
		       limpet_units_format_bytes(bytes, bytes_of(list[i].now)),
		       limpet_ui_cut(words_of(list[i].now, what), room));
	}
}

static void print_unknown(const struct limpet_v8_census *census, char ret[512])
{
	if (!census->has_heap)
		snprintf(ret, 512, "There is no heap of V8 to count.");
	else if (census->major)
		snprintf(ret, 512,
			 "The objects of V8 %u.%u.%u could not be counted: limpet does not know "
			 "this release, or this build of it.",
			 census->major, census->minor, census->build);
	else
		snprintf(ret, 512,
			 "The objects of V8 could not be counted: limpet does not know this "
			 "release, which does not tell its version.");
}

static void print_counted(const struct limpet_v8_census *census, char ret[512])
{
	const struct limpet_v8_totals *totals = &census->totals;
	char count[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT], outside[LIMPET_UNITS_TEXT];
	char text[LIMPET_UNITS_TEXT];
	int at = snprintf(ret, 512, "In the heap%s of V8 %u.%u.%u: %s objects, %s, with %s outside",
			  census->isolates > 1 ? "s" : "", census->major, census->minor,
			  census->build, limpet_units_format_count(count, totals->count),
			  limpet_units_format_bytes(bytes, totals->bytes),
			  limpet_units_format_bytes(outside, totals->outside_bytes));

	if (census->doubtful_bytes)
		at += snprintf(ret + at, 512 - (size_t)at, "; %s could not be read as objects",
			       limpet_units_format_bytes(text, census->doubtful_bytes));
	if (census->is_cut)
		at += snprintf(ret + at, 512 - (size_t)at, "; there was no time for all of them");
	snprintf(ret + at, 512 - (size_t)at,
		 ". Those that nothing holds any more count until V8 frees them.");
}

static void print_tables(const struct limpet_objects *objects, int width)
{
	struct limpet_v8_census now = group_rows(objects->now), before = {.has_heap = false};
	struct limpet_objects grouped = {.now = &now, .interval_ns = objects->interval_ns};

	print_rows(&now, width);
	if (objects->before) {
		before = group_rows(objects->before);
		grouped.before = &before;
		print_growth(&grouped, width);
	}
	limpet_v8_census_done(&now);
	limpet_v8_census_done(&before);
}

void limpet_objects_print_text(const struct limpet_objects *objects)
{
	const struct limpet_v8_census *now = objects->now;
	const int width = limpet_ui_width(STDOUT_FILENO);
	char line[512];

	if (now->is_known)
		print_counted(now, line);
	else
		print_unknown(now, line);
	printf("\n");
	limpet_ui_wrap(line, 0, width);
	if (!now->is_known)
		return;
	print_tables(objects, width);
}

/* ------------------------------------------------------------------ JSON */

static json_t *set_amounts(json_t *object, uint64_t count, uint64_t bytes, uint64_t outside_bytes,
			   const char *suffix)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"count", count}, {"bytes", bytes}, {"outside_bytes", outside_bytes}};

	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s%s", numbers[i].key, suffix);
		object = limpet_json_set(object, key, limpet_json_number(numbers[i].value));
	}
	return object;
}

static json_t *row_json(const struct growth *row, bool has_before)
{
	const struct limpet_v8_row *now = row->now;
	json_t *object = json_object();

	object = limpet_json_set(object, "kind", json_string(kinds[now->kind].id));
	object = limpet_json_set(object, "name",
				 now->name[0] ? limpet_json_text(now->name) : json_null());
	object = limpet_json_set(object, "script",
				 now->script[0] ? limpet_json_text(now->script) : json_null());
	object = limpet_json_set(object, "line", limpet_json_known(now->line));
	object = set_amounts(object, now->count, now->bytes, now->outside_bytes, "");
	if (has_before)
		object = set_amounts(object, row->before.count, row->before.bytes,
				     row->before.outside_bytes, "_before");
	return object;
}

static json_t *rows_json(const struct limpet_objects *objects)
{
	LIMPET_FREE struct growth *list = compare(objects);
	json_t *rows = json_array();

	for (size_t i = 0; list && i < objects->now->row_count; i++)
		rows = limpet_json_append(rows, row_json(&list[i], objects->before));
	return rows;
}

static json_t *version_json(const struct limpet_v8_census *census)
{
	char text[48];

	if (!census->major)
		return json_null();
	snprintf(text, sizeof(text), "%u.%u.%u", census->major, census->minor, census->build);
	return json_string(text);
}

json_t *limpet_objects_json(const struct limpet_objects *objects)
{
	const struct limpet_v8_census *now = objects->now;
	const struct limpet_v8_totals *totals = &now->totals;
	json_t *object = json_object();

	if (!now->has_heap) {
		json_decref(object);
		return json_null();
	}
	object = limpet_json_set(object, "v8_version", version_json(now));
	object = limpet_json_set(object, "known", json_boolean(now->is_known));
	if (!now->is_known)
		return object;
	object = limpet_json_set(object, "whole",
				 json_boolean(!now->is_cut && !now->doubtful_bytes));
	object = limpet_json_set(object, "isolates", limpet_json_number(now->isolates));
	object = set_amounts(object, totals->count, totals->bytes, totals->outside_bytes, "");
	object = limpet_json_set(object, "free_bytes", limpet_json_number(totals->free_bytes));
	object =
		limpet_json_set(object, "uncounted_bytes", limpet_json_number(now->doubtful_bytes));
	object = limpet_json_set(object, "interval_seconds",
				 objects->before ? limpet_json_seconds(objects->interval_ns)
						 : json_null());
	return limpet_json_set(object, "rows", rows_json(objects));
}
