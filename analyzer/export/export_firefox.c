/* The processed profile format of the Firefox Profiler (github.com/firefox-devtools/profiler,
 * src/types/profile.ts), version 70; newer viewers upgrade it. A thread's allocations are rows with
 * a time, a number of bytes (negative: freed), a stack, and an address that pairs them. Each entry
 * of firefox_blocks.h is one row, or two if it was freed; its number is the address. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "analyzer/export/export_series.h"
#include "analyzer/export/export_stacks.h"
#include "analyzer/export/export_strings.h"
#include "analyzer/export/firefox_blocks.h"
#include "analyzer/text/json_printer.h"
#include "common/array.h"
#include "common/base_name.h"

#define GECKO_VERSION 36
#define PROCESSED_VERSION 70

struct thread {
	uint32_t tid;
	double bytes; /* allocated */
};
struct writer {
	const struct limpet_analysis *analysis;
	const struct limpet_history *history;
	struct limpet_json_printer printer;
	struct limpet_export_stacks stacks;
	struct limpet_firefox_blocks blocks;
	struct limpet_export_strings strings, sources, libraries;
	bool of_sums; /* no thread is known */
	struct thread *threads;
	uint32_t thread_count;
	uint64_t *rows; /* of a thread, see row_of() */
	size_t row_capacity;
};

/* A column of a table; the arguments after `count` print one value, of row `i`. */
#define COLUMN(writer, key, i, count, ...)                            \
	do {                                                          \
		fprintf((writer)->printer.file, ",\n\"%s\":[", key);  \
		for (size_t i = 0; i < (count); i++) {                \
			if (i)                                        \
				fputc(',', (writer)->printer.file);   \
			fprintf((writer)->printer.file, __VA_ARGS__); \
		}                                                     \
		fputc(']', (writer)->printer.file);                   \
	} while (0)

#define MILLISECONDS "%" PRIu64 ".%06u"
#define MILLISECONDS_OF(ns) (uint64_t)(ns) / 1000000, (unsigned)((uint64_t)(ns) % 1000000)

/* ------------------------------------------------------------------ strings */

static size_t string_in(struct writer *writer, struct limpet_export_strings *strings,
			const char *text)
{
	const struct limpet_export_string *string = limpet_export_strings_add(strings, text);

	limpet_json_check(&writer->printer, string ? 0 : -ENOMEM);
	return string ? string->number : 0;
}

static size_t string_number(struct writer *writer, const char *text)
{
	return string_in(writer, &writer->strings, text);
}

/* -1: in no module. */
static long library_number(struct writer *writer, const char *path)
{
	return path ? (long)string_in(writer, &writer->libraries, path) : -1;
}

/* Or "null". */
static const char *number_or_null(char text[24], bool known, uint64_t number)
{
	snprintf(text, 24, known ? "%" PRIu64 : "null", number);
	return text;
}

/* ------------------------------------------------------------------ head */

/* The viewer expects text: "" if there is none. */
static json_t *text_of(const char *string)
{
	return string[0] ? limpet_json_text(string) : json_string("");
}

static json_t *meta(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_trace_target *target = model->target;
	json_t *visible = json_array();
	LIMPET_FREE char *title = limpet_export_title(model, target->comm);
	uint32_t selected = 0;

	for (uint32_t i = 0; i < writer->thread_count; i++) {
		visible = limpet_json_append(visible, json_integer(i));
		if (writer->threads[i].bytes > writer->threads[selected].bytes)
			selected = i;
	}
	return json_pack(
		"{s:f,s:f,s:i,s:f,s:i,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:s,s:b,s:b,s:b,s:b,s:b,"
		"s:[],s:[{s:s,s:s,s:[s]}],s:o,s:[i]}",
		"interval", (double)writer->blocks.step_ns / 1e6, "startTime",
		(double)target->wall_ns / 1e6, "profilingStartTime", 0, "profilingEndTime",
		(double)model->duration_ns / 1e6, "processType", 0, "product",
		title ? text_of(title) : NULL, "arguments", text_of(target->command), "oscpu",
		text_of(target->kernel), "abi", text_of(target->machine), "stackwalk", 1, "version",
		GECKO_VERSION, "preprocessedProfileVersion", PROCESSED_VERSION, "importedFrom",
		"limpet", "symbolicated", 1, "symbolicationNotSupported", 1, "usesOnlyOneStackType",
		1, "sourceCodeIsNotOnSearchfox", 1, "keepProfileThreadOrder", 1, "markerSchema",
		"categories", "name", "Other", "color", "grey", "subcategories", "Other",
		"initialVisibleThreads", visible, "initialSelectedThreads", (int)selected);
}

/* Its build-id as Breakpad writes it: a GUID, whose first three fields are little-endian, and an
 * age of 0. "": none. */
static void breakpad_id(const struct limpet_trace_module *module, char ret_text[2 * 16 + 2])
{
	static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};

	ret_text[0] = '\0';
	for (unsigned i = 0; i < 16 && module->build_id_bytes; i++)
		snprintf(ret_text + 2ul * i, 3, "%02X",
			 order[i] < module->build_id_bytes ? module->build_id[order[i]] : 0);
	if (module->build_id_bytes)
		strcat(ret_text, "0");
}

static json_t *library(struct writer *writer, const struct limpet_trace_module *module)
{
	const char *path = module->path ? module->path : "";
	LIMPET_FREE char *name = limpet_export_name(limpet_base_name(path), "", ' ');
	LIMPET_FREE char *whole = limpet_export_name(path, "", ' ');
	char code_id[LIMPET_EXPORT_BUILD_ID_TEXT], debug_id[2 * 16 + 2];

	if (!name || !whole)
		return NULL;
	breakpad_id(module, debug_id);
	limpet_export_build_id(module, code_id);
	return json_pack("{s:o,s:s,s:s,s:s,s:s,s:s,s:s?}", "arch",
			 text_of(writer->analysis->model->target->machine), "name", name, "path",
			 whole, "debugName", name, "debugPath", whole, "breakpadId", debug_id,
			 "codeId", code_id[0] ? code_id : NULL);
}

static void print_head(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;

	fputs("{\"pages\":[]", writer->printer.file);
	limpet_json_member(&writer->printer, "meta", meta(writer));
	limpet_json_begin_list(&writer->printer, "libs");
	for (uint32_t i = 1; i < model->module_count; i++)
		limpet_json_item(&writer->printer, library(writer, &model->modules[i]));
	limpet_json_end_list(&writer->printer);
}

/* ------------------------------------------------------------------ counters */

/* A counter is shown as the sum of its values: each but the first is a difference. */
static void print_values(struct writer *writer, enum limpet_export_series series)
{
	const struct limpet_model *model = writer->analysis->model;
	const char *comma = "";
	uint64_t value, before = 0, count = 0;

	fputs("\"samples\":{\"time\":[", writer->printer.file);
	for (size_t i = 0; i < model->timeline_count; i++) {
		if (!limpet_export_series_value(&model->timeline[i], series, &value))
			continue;
		fprintf(writer->printer.file, "%s" MILLISECONDS, comma,
			MILLISECONDS_OF(model->timeline[i].time_ns));
		comma = ",";
		count++;
	}
	fputs("],\n\"count\":[", writer->printer.file);
	comma = "";
	for (size_t i = 0; i < model->timeline_count; i++) {
		if (!limpet_export_series_value(&model->timeline[i], series, &value))
			continue;
		fprintf(writer->printer.file, "%s%" PRId64, comma, (int64_t)(value - before));
		comma = ",";
		before = value;
	}
	fprintf(writer->printer.file, "],\n\"length\":%" PRIu64 "}", count);
}

static void print_counter(struct writer *writer, enum limpet_export_series series)
{
	static const char *const colours[LIMPET_EXPORT_SERIES_COUNT] = {"orange", "blue", "green"};
	const char *name = limpet_export_series_name(writer->analysis->model, series);

	fprintf(writer->printer.file,
		"{\"name\":\"%s\",\"category\":\"Memory\",\"description\":\"%s\",\"pid\":\"%u\","
		"\"mainThreadIndex\":0,\n\"display\":{\"graphType\":\"line-accumulated\","
		"\"unit\":\"bytes\",\"color\":\"%s\",\"markerSchemaLocation\":null,"
		"\"sortWeight\":%u,\"label\":\"%s\",\"tooltipRows\":[{\"type\":\"value\","
		"\"source\":\"accumulated\",\"format\":{\"unit\":\"bytes\"},\"label\":\"%s\"}]},\n",
		name, name, writer->analysis->model->target->pid, colours[series], 10u + series,
		name, name);
	print_values(writer, series);
	fputc('}', writer->printer.file);
}

static void print_counters(struct writer *writer)
{
	fputs(",\n\"counters\":[", writer->printer.file);
	for (unsigned i = 0; i < LIMPET_EXPORT_SERIES_COUNT; i++) {
		if (i)
			fputs(",\n", writer->printer.file);
		print_counter(writer, (enum limpet_export_series)i);
	}
	fputc(']', writer->printer.file);
}

/* ------------------------------------------------------------------ tables */

static void begin_table(struct writer *writer, const char *before, const char *name, size_t length)
{
	fprintf(writer->printer.file, "%s\"%s\":{\"length\":%zu", before, name, length);
}

static void end_table(struct writer *writer)
{
	fputc('}', writer->printer.file);
}

static void print_stack_table(struct writer *writer)
{
	const struct limpet_export_stack *stacks = writer->stacks.stacks;
	const size_t count = writer->stacks.stack_count;

	begin_table(writer, "", "stackTable", count);
	COLUMN(writer, "frame", i, count, "%u", stacks[i + 1].frame - 1);
	COLUMN(writer, "prefixOffset", i, count, "%zu",
	       stacks[i + 1].parent ? i + 1 - stacks[i + 1].parent : 0);
	end_table(writer);
}

static int64_t frame_address(const struct writer *writer, const struct limpet_export_frame *frame)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_trace_node *node = &model->nodes[frame->node];

	return frame->node && node->module
		       ? (int64_t)((node->address - 1 - model->modules[node->module].bias) &
				   INT64_MAX)
		       : -1;
}

static long frame_library(const struct writer *writer, const struct limpet_export_frame *frame)
{
	return frame->node ? (long)writer->analysis->model->nodes[frame->node].module - 1 : -1;
}

static void print_frame_table(struct writer *writer)
{
	const struct limpet_location *places = writer->analysis->locations->locations;
	const struct limpet_export_frame *frames = writer->stacks.frames;
	const size_t count = writer->stacks.frame_count;
	char text[24];

	begin_table(writer, ",\n", "frameTable", count);
	COLUMN(writer, "func", i, count, "%u", places[frames[i + 1].location].function);
	COLUMN(writer, "line", i, count, "%s",
	       number_or_null(text, places[frames[i + 1].location].line,
			      places[frames[i + 1].location].line));
	COLUMN(writer, "address", i, count, "%" PRId64, frame_address(writer, &frames[i + 1]));
	COLUMN(writer, "lib", i, count, "%ld", frame_library(writer, &frames[i + 1]));
	COLUMN(writer, "inlineDepth", i, count, "%u", frames[i + 1].depth);
	COLUMN(writer, "category", i, count, "0");
	COLUMN(writer, "subcategory", i, count, "0");
	COLUMN(writer, "nativeSymbol", i, count, "null");
	COLUMN(writer, "innerWindowID", i, count, "null");
	COLUMN(writer, "column", i, count, "null");
	COLUMN(writer, "originalLocation", i, count, "null");
	end_table(writer);
}

static const char *source_of(struct writer *writer, const char *file, char text[24])
{
	return number_or_null(text, file, file ? string_in(writer, &writer->sources, file) : 0);
}

static void print_func_table(struct writer *writer)
{
	const struct limpet_function *functions = writer->analysis->locations->functions;
	const size_t count = writer->analysis->locations->function_count;
	char text[24];

	begin_table(writer, ",\n", "funcTable", count);
	COLUMN(writer, "name", i, count, "%zu", string_number(writer, functions[i].name));
	COLUMN(writer, "isJS", i, count, "false");
	COLUMN(writer, "relevantForJS", i, count, "false");
	COLUMN(writer, "resource", i, count, "%ld", library_number(writer, functions[i].module));
	COLUMN(writer, "source", i, count, "%s", source_of(writer, functions[i].file, text));
	COLUMN(writer, "lineNumber", i, count, "null");
	COLUMN(writer, "columnNumber", i, count, "null");
	COLUMN(writer, "originalLocation", i, count, "null");
	end_table(writer);
}

/* The numbers of their names, in the list of all strings. */
static void print_names(struct writer *writer, const char *key,
			const struct limpet_export_strings *strings, bool brief)
{
	const struct limpet_export_string *string = strings->first;

	COLUMN(writer, key, i, strings->count, "%zu", ({
		       const char *name = string->text;

		       string = string->hh.next;
		       string_number(writer, brief ? limpet_base_name(name) : name);
	       }));
}

static void print_shared(struct writer *writer)
{
	FILE *file = writer->printer.file;

	fputs(",\n\"shared\":{\n", file);
	print_stack_table(writer);
	print_frame_table(writer);
	print_func_table(writer);
	begin_table(writer, ",\n", "resourceTable", writer->libraries.count);
	print_names(writer, "name", &writer->libraries, true);
	COLUMN(writer, "host", i, writer->libraries.count, "null");
	COLUMN(writer, "type", i, writer->libraries.count, "1"); /* a library */
	end_table(writer);
	begin_table(writer, ",\n", "sources", writer->sources.count);
	print_names(writer, "filename", &writer->sources, false);
	COLUMN(writer, "id", i, writer->sources.count, "null");
	COLUMN(writer, "startLine", i, writer->sources.count, "1");
	COLUMN(writer, "startColumn", i, writer->sources.count, "1");
	COLUMN(writer, "sourceMapURL", i, writer->sources.count, "null");
	COLUMN(writer, "content", i, writer->sources.count, "null");
	end_table(writer);
	fputs(",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
	      "\"functionSize\":[],\"length\":0},\n\"sourceLocationTable\":{\"source\":[],"
	      "\"line\":[],\"column\":[],\"length\":0}",
	      file);
	/* All strings that follow must be in the list. */
	for (size_t i = 0; i < writer->analysis->model->mark_count; i++)
		string_number(writer, writer->analysis->model->marks[i].name);
	limpet_json_begin_list(&writer->printer, "stringArray");
	for (const struct limpet_export_string *at = writer->strings.first; at; at = at->hh.next)
		limpet_json_item(&writer->printer, json_string(at->text));
	limpet_json_end_list(&writer->printer);
	fputc('}', file);
}

/* ------------------------------------------------------------------ threads */

/* Rows in the order of time; what is allocated and freed in one step is allocated first. */
static uint64_t row_of(uint16_t step, bool freed, size_t entry)
{
	return (uint64_t)step << 48 | (uint64_t)freed << 47 | entry;
}
static uint64_t row_time(const struct writer *writer, uint64_t row)
{
	return (row >> 48) * writer->blocks.step_ns;
}
static bool row_freed(uint64_t row)
{
	return row >> 47 & 1;
}
static size_t row_entry(uint64_t row)
{
	return row & ((UINT64_C(1) << 47) - 1);
}

static int64_t row_bytes(const struct writer *writer, uint64_t row)
{
	const int64_t bytes = (int64_t)limpet_rounded(writer->blocks.entries[row_entry(row)].bytes);

	return row_freed(row) ? -bytes : bytes;
}

static uint32_t row_stack(const struct writer *writer, uint64_t row)
{
	return writer->blocks.origins[writer->blocks.entries[row_entry(row)].origin].stack - 1;
}

static int compare_rows(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the number of the thread's rows. */
static size_t add_rows(struct writer *writer, uint32_t tid)
{
	const struct limpet_firefox_blocks *blocks = &writer->blocks;
	size_t count = 0;

	for (size_t i = 0; i < blocks->entry_count; i++) {
		const struct limpet_firefox_entry *entry = &blocks->entries[i];

		if (blocks->origins[entry->origin].tid != tid || !limpet_rounded(entry->bytes))
			continue;
		if (!limpet_json_check(&writer->printer,
				       limpet_reserve(&writer->rows, &writer->row_capacity,
						      count + 2, sizeof(*writer->rows))))
			return 0;
		writer->rows[count++] = row_of(entry->made, false, i);
		if (entry->freed != LIMPET_FIREFOX_NEVER)
			writer->rows[count++] = row_of(entry->freed, true, i);
	}
	if (count)
		qsort(writer->rows, count, sizeof(*writer->rows), compare_rows);
	return count;
}

static void print_allocations(struct writer *writer, uint32_t tid)
{
	const size_t count = add_rows(writer, tid);
	const uint64_t *rows = writer->rows;

	if (!count)
		return;
	begin_table(writer, ",\n", "nativeAllocations", count);
	fputs(",\"weightType\":\"bytes\"", writer->printer.file);
	COLUMN(writer, "time", i, count, MILLISECONDS, MILLISECONDS_OF(row_time(writer, rows[i])));
	COLUMN(writer, "weight", i, count, "%" PRId64, row_bytes(writer, rows[i]));
	COLUMN(writer, "stack", i, count, "%u", row_stack(writer, rows[i]));
	COLUMN(writer, "memoryAddress", i, count, "%zu", row_entry(rows[i]) + 1);
	COLUMN(writer, "threadId", i, count, "%u", tid);
	end_table(writer);
}

/* Marks are of the whole process: the main thread has them. */
static void print_marks(struct writer *writer, bool any)
{
	const struct limpet_trace_user_mark *marks = writer->analysis->model->marks;
	const size_t count = any ? writer->analysis->model->mark_count : 0;

	begin_table(writer, ",\n", "markers", count);
	COLUMN(writer, "name", i, count, "%zu", string_number(writer, marks[i].name));
	COLUMN(writer, "startTime", i, count, MILLISECONDS, MILLISECONDS_OF(marks[i].time_ns));
	COLUMN(writer, "endTime", i, count, "null");
	COLUMN(writer, "phase", i, count, "0"); /* an instant */
	COLUMN(writer, "category", i, count, "0");
	COLUMN(writer, "data", i, count, "null");
	end_table(writer);
}

static json_t *thread_name(const struct writer *writer, uint32_t tid)
{
	const char *name = limpet_trace_reader_thread_name(writer->analysis->reader, tid);
	char number[32];

	if (writer->of_sums)
		return json_string("all threads");
	if (name[0])
		return limpet_json_text(name);
	if (tid == writer->analysis->model->target->pid && writer->analysis->model->target->comm[0])
		return text_of(writer->analysis->model->target->comm);
	snprintf(number, sizeof(number), "thread %u", tid);
	return json_string(number);
}

static void print_thread(struct writer *writer, uint32_t tid)
{
	FILE *file = writer->printer.file;

	fprintf(file,
		"{\"processType\":\"default\",\"processStartupTime\":0,"
		"\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
		"\"pausedRanges\":[],\"isMainThread\":%s,\"pid\":\"%u\",\"tid\":%u,\n"
		"\"samples\":{\"stack\":[],\"time\":[],\"weight\":null,\"weightType\":\"samples\","
		"\"length\":0}",
		tid == writer->analysis->model->target->pid ? "true" : "false",
		writer->analysis->model->target->pid, tid);
	limpet_json_member(&writer->printer, "name", thread_name(writer, tid));
	limpet_json_member(&writer->printer, "processName",
			   text_of(writer->analysis->model->target->comm));
	print_marks(writer, tid == writer->threads[0].tid);
	print_allocations(writer, tid);
	fputc('}', file);
}

static int compare_threads(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* The main thread, to which the counters belong, and the others by allocated bytes. */
static int add_threads(struct writer *writer)
{
	const struct limpet_firefox_blocks *blocks = &writer->blocks;
	struct limpet_number_table numbers = {0};
	size_t capacity = 0;
	int code = 0;

	for (size_t i = 0; i <= blocks->entry_count && code == 0; i++) {
		const struct limpet_firefox_entry *entry = i ? &blocks->entries[i - 1] : NULL;
		const uint32_t tid = entry ? blocks->origins[entry->origin].tid
					   : writer->analysis->model->target->pid;
		const uint32_t number = limpet_number_table_of(&numbers, tid);

		code = !number ? -ENOMEM
			       : limpet_reserve(&writer->threads, &capacity, number,
						sizeof(*writer->threads));
		if (code == 0 && number > writer->thread_count) {
			writer->threads[number - 1] = (struct thread){.tid = tid};
			writer->thread_count = number;
		}
		if (code == 0 && entry)
			writer->threads[number - 1].bytes += entry->bytes;
	}
	limpet_number_table_done(&numbers);
	if (code == 0)
		qsort(writer->threads + 1, writer->thread_count - 1, sizeof(*writer->threads),
		      compare_threads);
	return code;
}

/* Every event, if there are all; else sums, which are of no thread. */
static int add_blocks(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_replay_options options = {.kept = writer->analysis->kept,
						      .filter = writer->analysis->filter,
						      .on_block = limpet_firefox_blocks_add,
						      .block_context = &writer->blocks};
	struct limpet_replay *replay;
	int code;

	limpet_firefox_blocks_init(&writer->blocks, &writer->stacks, model->duration_ns);
	writer->of_sums = model->compact || model->given_up_ns || limpet_model_is_imported(model);
	if (writer->of_sums)
		return limpet_firefox_blocks_add_sums(&writer->blocks, model->target->pid,
						      writer->history);
	code = limpet_replay_new(writer->analysis->reader, model, &options, &replay);
	if (code == 0)
		limpet_replay_free(replay);
	return code;
}

static int write_firefox(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			 FILE *file)
{
	struct writer writer = {.analysis = analysis,
				.history = part->history,
				.printer = {.file = file},
				.stacks = {.locations = analysis->locations}};
	int code = add_blocks(&writer);

	if (code == 0)
		code = add_threads(&writer);
	if (code == 0) {
		print_head(&writer);
		print_counters(&writer);
		print_shared(&writer);
		fputs(",\n\"threads\":[\n", file);
		for (uint32_t i = 0; i < writer.thread_count && !ferror(file); i++) {
			if (i)
				fputs(",\n", file);
			print_thread(&writer, writer.threads[i].tid);
		}
		fputs("]}\n", file);
		code = writer.printer.error;
	}
	limpet_firefox_blocks_done(&writer.blocks);
	limpet_export_stacks_done(&writer.stacks);
	limpet_export_strings_done(&writer.strings);
	limpet_export_strings_done(&writer.sources);
	limpet_export_strings_done(&writer.libraries);
	free(writer.threads);
	free(writer.rows);
	return code;
}

const struct limpet_export_format limpet_export_firefox = {
	.name = "firefox",
	.needs = LIMPET_EXPORT_WHOLE | LIMPET_EXPORT_HISTORY,
	.write = write_firefox,
};
