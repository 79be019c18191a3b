/* A trace of Perfetto (perfetto.dev, protos/perfetto/trace): one process with counters over time,
 * and dumps of its heap as heapprofd writes them. A dump has, for each stack that did something
 * since the one before, the sums since the capture's start; the steps are those of a history, so
 * that their number is bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "analyzer/export/export_series.h"
#include "analyzer/export/export_stacks.h"
#include "analyzer/export/export_strings.h"
#include "analyzer/export/protobuf.h"
#include "analyzer/model/history.h"
#include "common/plain_text.h"

/* Fields of Trace, and of the messages in it. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_PROFILE = 37,
	PACKET_TRACK = 60,
	CLOCKS_CLOCK = 1,
	CLOCK_ID = 1,
	CLOCK_TIME = 2,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	COUNTER_UNIT = 3,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_VALUE = 30,
	INTERNED_FUNCTION = 5,
	INTERNED_FRAME = 6,
	INTERNED_CALLSTACK = 7,
	INTERNED_BUILD_ID = 16,
	INTERNED_MAPPING_PATH = 17,
	INTERNED_SOURCE_PATH = 18,
	INTERNED_MAPPING = 19,
	ENTRY_ID = 1, /* of whatever is interned */
	STRING_TEXT = 2,
	MAPPING_BUILD_ID = 2,
	MAPPING_START = 4,
	MAPPING_END = 5,
	MAPPING_PATH = 7,
	FRAME_FUNCTION = 2,
	FRAME_MAPPING = 3,
	FRAME_ADDRESS = 4,
	FRAME_SOURCE_PATH = 5,
	FRAME_LINE = 6,
	CALLSTACK_FRAME = 2,
	PROFILE_PROCESS = 5,
	PROFILE_CONTINUED = 6,
	PROFILE_INDEX = 7,
	DUMP_PID = 1,
	DUMP_SAMPLE = 2,
	DUMP_FROM_STARTUP = 3,
	DUMP_TIME = 9,
	DUMP_HEAP = 11,
	DUMP_SAMPLE_BYTES = 12,
	DUMP_START_TIME = 15,
	SAMPLE_CALLSTACK = 1,
	SAMPLE_ALLOCATED = 2,
	SAMPLE_FREED = 3,
	SAMPLE_ALLOCATIONS = 5,
	SAMPLE_FREES = 6,
};
/* Values of fields. */
enum {
	REALTIME = 1,
	MONOTONIC_COARSE = 4, /* of dumps */
	BOOTTIME = 6,         /* of packets */
	UNIT_BYTES = 3,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4,
	STATE_CLEARED = 1,
	NEEDS_STATE = 2,
	ONLY_SEQUENCE = 1,
	PROCESS_UUID = 1,
};

#define INTERNED_BYTES (1 << 16) /* in one packet, about */
#define SAMPLES_MAX 4096u        /* likewise */

struct sums {
	struct limpet_counts counts;
	uint32_t changed; /* the step in which they did last, + 1 */
};
/* One site, as its steps are read. */
struct steps {
	uint32_t stack;
	struct limpet_cursor cursor;
	struct limpet_history_step next;
	bool has_next;
};
struct writer {
	const struct limpet_analysis *analysis;
	FILE *file;
	struct limpet_export_stacks stacks;
	struct limpet_export_strings sources;
	const struct limpet_history *history;
	struct steps *steps; /* by site of the history */
	struct sums *sums;   /* by stack */
	uint32_t *changed;   /* the stacks of a dump */
	uint64_t dump_count;
	struct limpet_bytes packet, data, entry, part;
	bool begun, failed;
};

static uint64_t trace_time(const struct writer *writer, uint64_t time_ns)
{
	return writer->analysis->model->target->wall_ns + time_ns;
}

/* Writes `packet`, and begins the next. */
static void flush_packet(struct writer *writer)
{
	limpet_protobuf_append_number(&writer->packet, PACKET_SEQUENCE, ONLY_SEQUENCE);
	limpet_protobuf_append_number(&writer->packet, PACKET_FLAGS,
				      writer->begun ? NEEDS_STATE : STATE_CLEARED);
	writer->begun = true;
	writer->failed |= !limpet_protobuf_write(writer->file, TRACE_PACKET, &writer->packet);
}

/* ------------------------------------------------------------------ counters */

static void write_clocks(struct writer *writer)
{
	static const unsigned clocks[] = {REALTIME, MONOTONIC_COARSE, BOOTTIME};

	for (size_t i = 0; i < LIMPET_COUNT_OF(clocks); i++) {
		limpet_protobuf_append_number(&writer->entry, CLOCK_ID, clocks[i]);
		limpet_protobuf_append_value(&writer->entry, CLOCK_TIME, trace_time(writer, 0));
		limpet_protobuf_append_message(&writer->data, CLOCKS_CLOCK, &writer->entry);
	}
	limpet_protobuf_append_message(&writer->packet, PACKET_CLOCKS, &writer->data);
	flush_packet(writer);
}

static void write_process(struct writer *writer)
{
	const struct limpet_trace_target *target = writer->analysis->model->target;
	LIMPET_FREE char *name = limpet_export_title(writer->analysis->model, target->comm);

	writer->failed |= !name;
	limpet_protobuf_append_number(&writer->entry, PROCESS_PID, target->pid);
	limpet_protobuf_append_text(&writer->entry, PROCESS_NAME, name ? name : "");
	limpet_protobuf_append_number(&writer->data, TRACK_UUID, PROCESS_UUID);
	limpet_protobuf_append_message(&writer->data, TRACK_PROCESS, &writer->entry);
	limpet_protobuf_append_message(&writer->packet, PACKET_TRACK, &writer->data);
	flush_packet(writer);
}

static void write_track(struct writer *writer, uint64_t uuid, const char *name)
{
	limpet_protobuf_append_number(&writer->entry, COUNTER_UNIT, UNIT_BYTES);
	limpet_protobuf_append_number(&writer->data, TRACK_UUID, uuid);
	limpet_protobuf_append_number(&writer->data, TRACK_PARENT, PROCESS_UUID);
	limpet_protobuf_append_text(&writer->data, TRACK_NAME, name);
	limpet_protobuf_append_message(&writer->data, TRACK_COUNTER, &writer->entry);
	limpet_protobuf_append_message(&writer->packet, PACKET_TRACK, &writer->data);
	flush_packet(writer);
}

static void write_value(struct writer *writer, uint64_t uuid, uint64_t time_ns, uint64_t value)
{
	limpet_protobuf_append_number(&writer->data, EVENT_TYPE, TYPE_COUNTER);
	limpet_protobuf_append_number(&writer->data, EVENT_TRACK, uuid);
	limpet_protobuf_append_value(&writer->data, EVENT_VALUE, value);
	limpet_protobuf_append_value(&writer->packet, PACKET_TIME, trace_time(writer, time_ns));
	limpet_protobuf_append_message(&writer->packet, PACKET_TRACK_EVENT, &writer->data);
	flush_packet(writer);
}

static void write_counters(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;
	uint64_t values[LIMPET_EXPORT_SERIES_COUNT];

	for (unsigned k = 0; k < LIMPET_EXPORT_SERIES_COUNT; k++)
		write_track(writer, PROCESS_UUID + 1 + k, limpet_export_series_name(model, k));
	for (size_t i = 0; i < model->timeline_count; i++)
		for (unsigned k = 0; k < LIMPET_EXPORT_SERIES_COUNT; k++)
			if (limpet_export_series_value(&model->timeline[i], k, &values[k]))
				write_value(writer, PROCESS_UUID + 1 + k,
					    model->timeline[i].time_ns, values[k]);
}

/* On the track of the process. */
static void write_marks(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;

	for (size_t i = 0; i < model->mark_count; i++) {
		LIMPET_FREE char *name = limpet_plain_text_repair(model->marks[i].name);

		writer->failed |= !name;
		limpet_protobuf_append_number(&writer->data, EVENT_TYPE, TYPE_INSTANT);
		limpet_protobuf_append_number(&writer->data, EVENT_TRACK, PROCESS_UUID);
		limpet_protobuf_append_text(&writer->data, EVENT_NAME, name ? name : "");
		limpet_protobuf_append_value(&writer->packet, PACKET_TIME,
					     trace_time(writer, model->marks[i].time_ns));
		limpet_protobuf_append_message(&writer->packet, PACKET_TRACK_EVENT, &writer->data);
		flush_packet(writer);
	}
}

/* ------------------------------------------------------------------ stacks */

static void flush_interned(struct writer *writer)
{
	if (!writer->data.count)
		return;
	limpet_protobuf_append_message(&writer->packet, PACKET_INTERNED, &writer->data);
	flush_packet(writer);
}

/* Ends the current entry. */
static void append_entry(struct writer *writer, unsigned field)
{
	limpet_protobuf_append_message(&writer->data, field, &writer->entry);
	if (writer->data.count >= INTERNED_BYTES)
		flush_interned(writer);
}

static void append_string(struct writer *writer, unsigned field, uint64_t id, const void *bytes,
			  size_t count)
{
	limpet_protobuf_append_number(&writer->entry, ENTRY_ID, id);
	limpet_protobuf_append_bytes(&writer->entry, STRING_TEXT, bytes, count);
	append_entry(writer, field);
}

/* The number of a source file, from 1, which is written when it is new; 0: none. */
static uint64_t source_number(struct writer *writer, const char *file)
{
	const uint32_t before = writer->sources.count;
	const struct limpet_export_string *string;

	if (!file)
		return 0;
	string = limpet_export_strings_add(&writer->sources, file);
	if (!string) {
		writer->failed = true;
		return 0;
	}
	if (writer->sources.count > before)
		append_string(writer, INTERNED_SOURCE_PATH, string->number + 1ull, string->text,
			      strlen(string->text));
	return string->number + 1ull;
}

/* Code in no module is in a mapping without a place: older readers want one for each frame. */
static uint64_t mapping_number(const struct writer *writer, uint32_t module)
{
	return module ? module : writer->analysis->model->module_count;
}

static void append_text(struct writer *writer, unsigned field, uint64_t id, const char *text)
{
	LIMPET_FREE char *repaired = limpet_plain_text_repair(text);

	if (repaired)
		append_string(writer, field, id, repaired, strlen(repaired));
	writer->failed |= !repaired;
}

static void append_mappings(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_trace_module none = {.path = "[unknown]"};

	for (uint32_t i = 1; i <= model->module_count; i++) {
		const struct limpet_trace_module *module =
			i < model->module_count ? &model->modules[i] : &none;

		append_text(writer, INTERNED_MAPPING_PATH, i, module->path ? module->path : "");
		append_string(writer, INTERNED_BUILD_ID, i, module->build_id,
			      module->build_id_bytes);
		limpet_protobuf_append_number(&writer->entry, ENTRY_ID, i);
		limpet_protobuf_append_number(&writer->entry, MAPPING_BUILD_ID, i);
		limpet_protobuf_append_number(&writer->entry, MAPPING_START, module->start);
		limpet_protobuf_append_number(&writer->entry, MAPPING_END, module->end);
		limpet_protobuf_append_number(&writer->entry, MAPPING_PATH, i);
		append_entry(writer, INTERNED_MAPPING);
	}
}

static void append_functions(struct writer *writer)
{
	const struct limpet_locations *locations = writer->analysis->locations;

	for (uint32_t i = 0; i < locations->function_count; i++)
		append_text(writer, INTERNED_FUNCTION, i + 1ull, locations->functions[i].name);
}

static void append_frame(struct writer *writer, uint32_t number)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_export_frame *frame = &writer->stacks.frames[number];
	const struct limpet_location *place =
		&writer->analysis->locations->locations[frame->location];
	const struct limpet_trace_node *node = &model->nodes[frame->node];
	const uint64_t source = source_number(writer, place->file);
	uint64_t address = number; /* without one: unlike that of any other such frame */

	if (frame->node)
		address =
			node->address - 1 - (node->module ? model->modules[node->module].bias : 0);
	limpet_protobuf_append_number(&writer->entry, ENTRY_ID, number);
	limpet_protobuf_append_number(&writer->entry, FRAME_FUNCTION, place->function + 1ull);
	limpet_protobuf_append_number(&writer->entry, FRAME_MAPPING,
				      mapping_number(writer, frame->node ? node->module : 0));
	limpet_protobuf_append_value(&writer->entry, FRAME_ADDRESS, address);
	limpet_protobuf_append_number(&writer->entry, FRAME_SOURCE_PATH, source);
	limpet_protobuf_append_number(&writer->entry, FRAME_LINE, place->line);
	append_entry(writer, INTERNED_FRAME);
}

/* The frames of a stack, outermost first. */
static void append_stack(struct writer *writer, uint32_t stack, uint32_t *room)
{
	const struct limpet_export_stack *stacks = writer->stacks.stacks;
	uint32_t length = 0;

	for (uint32_t at = stack; at; at = stacks[at].parent)
		room[length++] = stacks[at].frame;
	limpet_protobuf_append_number(&writer->entry, ENTRY_ID, stack);
	while (length--)
		limpet_protobuf_append_value(&writer->entry, CALLSTACK_FRAME, room[length]);
	append_entry(writer, INTERNED_CALLSTACK);
}

/* Mappings, functions, frames and the stacks of all sites; begins to read the sites' steps. */
static int write_stacks(struct writer *writer)
{
	const struct limpet_history *history = writer->history;
	LIMPET_FREE uint32_t *room = NULL;

	for (size_t i = 0; i < history->site_count; i++) {
		struct steps *steps = &writer->steps[i];

		steps->stack = limpet_export_stacks_number(&writer->stacks, history->sites[i].node);
		if (!steps->stack)
			return -ENOMEM;
		steps->cursor = limpet_history_steps(history, &history->sites[i]);
		steps->has_next = limpet_history_next(&steps->cursor, &steps->next);
	}
	writer->sums = calloc(writer->stacks.stack_count + 1ul, sizeof(*writer->sums));
	writer->changed = calloc(writer->stacks.stack_count + 1ul, sizeof(*writer->changed));
	room = calloc(writer->stacks.stack_count + 1ul, sizeof(*room));
	if (!writer->sums || !writer->changed || !room)
		return -ENOMEM;
	append_mappings(writer);
	append_functions(writer);
	for (uint32_t i = 1; i <= writer->stacks.frame_count; i++)
		append_frame(writer, i);
	for (size_t i = 0; i < history->site_count; i++) {
		struct sums *sums = &writer->sums[writer->steps[i].stack];

		if (!sums->changed)
			append_stack(writer, writer->steps[i].stack, room);
		sums->changed = 1;
	}
	for (uint32_t i = 1; i <= writer->stacks.stack_count; i++)
		writer->sums[i].changed = 0;
	flush_interned(writer);
	return 0;
}

/* ------------------------------------------------------------------ dumps */

/* Adds what the sites did in the step. Returns the number of stacks that it changed. */
static uint32_t pass_step(struct writer *writer, uint32_t step)
{
	uint32_t count = 0;

	for (size_t i = 0; i < writer->history->site_count; i++) {
		struct steps *steps = &writer->steps[i];
		struct sums *sums = &writer->sums[steps->stack];

		if (!steps->has_next || steps->next.step != step)
			continue;
		limpet_counts_add(&sums->counts, &steps->next.counts);
		if (sums->changed != step + 1)
			writer->changed[count++] = steps->stack;
		sums->changed = step + 1;
		steps->has_next = limpet_history_next(&steps->cursor, &steps->next);
	}
	return count;
}

static void append_sample(struct writer *writer, uint32_t stack)
{
	const struct limpet_counts *counts = &writer->sums[stack].counts;

	limpet_protobuf_append_number(&writer->part, SAMPLE_CALLSTACK, stack);
	limpet_protobuf_append_number(&writer->part, SAMPLE_ALLOCATED, counts->allocated_bytes);
	limpet_protobuf_append_number(&writer->part, SAMPLE_FREED, counts->freed_bytes);
	limpet_protobuf_append_number(&writer->part, SAMPLE_ALLOCATIONS, counts->allocations);
	limpet_protobuf_append_number(&writer->part, SAMPLE_FREES, counts->frees);
	limpet_protobuf_append_message(&writer->entry, DUMP_SAMPLE, &writer->part);
}

static void append_dump_head(struct writer *writer, uint32_t step)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_history *history = writer->history;

	limpet_protobuf_append_number(&writer->entry, DUMP_PID, model->target->pid);
	limpet_protobuf_append_number(&writer->entry, DUMP_FROM_STARTUP,
				      model->target->mode == LIMPET_MODE_RUN);
	limpet_protobuf_append_text(&writer->entry, DUMP_HEAP,
				    model->target->pages ? "pages" : "malloc");
	limpet_protobuf_append_number(&writer->entry, DUMP_SAMPLE_BYTES, model->sample_bytes);
	limpet_protobuf_append_value(&writer->entry, DUMP_START_TIME,
				     trace_time(writer, history->edges_ns[step]));
	limpet_protobuf_append_value(&writer->entry, DUMP_TIME,
				     trace_time(writer, history->edges_ns[step + 1]));
}

/* In several packets if there are many. */
static void write_dump(struct writer *writer, uint32_t step)
{
	const uint32_t count = pass_step(writer, step);

	for (uint32_t i = 0; i < count;) {
		const uint32_t end = count - i > SAMPLES_MAX ? i + SAMPLES_MAX : count;

		append_dump_head(writer, step);
		for (; i < end; i++)
			append_sample(writer, writer->changed[i]);
		limpet_protobuf_append_message(&writer->data, PROFILE_PROCESS, &writer->entry);
		limpet_protobuf_append_number(&writer->data, PROFILE_CONTINUED, i < count);
		limpet_protobuf_append_value(&writer->data, PROFILE_INDEX, writer->dump_count++);
		limpet_protobuf_append_value(
			&writer->packet, PACKET_TIME,
			trace_time(writer, writer->history->edges_ns[step + 1]));
		limpet_protobuf_append_message(&writer->packet, PACKET_PROFILE, &writer->data);
		flush_packet(writer);
	}
}

static int write_heap(struct writer *writer)
{
	int code;

	writer->steps = calloc(writer->history->site_count + 1, sizeof(*writer->steps));
	code = writer->steps ? write_stacks(writer) : -ENOMEM;
	for (size_t i = 0; code == 0 && i < writer->history->step_count; i++) {
		if (ferror(writer->file))
			break;
		write_dump(writer, (uint32_t)i);
	}
	return code;
}

static int write_perfetto(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			  FILE *file)
{
	struct writer writer = {.analysis = analysis,
				.file = file,
				.history = part->history,
				.stacks = {.locations = analysis->locations}};
	int code;

	write_clocks(&writer);
	write_process(&writer);
	write_counters(&writer);
	write_marks(&writer);
	code = write_heap(&writer);
	limpet_export_stacks_done(&writer.stacks);
	limpet_export_strings_done(&writer.sources);
	limpet_bytes_done(&writer.packet);
	limpet_bytes_done(&writer.data);
	limpet_bytes_done(&writer.entry);
	limpet_bytes_done(&writer.part);
	free(writer.steps);
	free(writer.sums);
	free(writer.changed);
	return writer.failed ? -ENOMEM : code;
}

const struct limpet_export_format limpet_export_perfetto = {
	.name = "perfetto",
	.needs = LIMPET_EXPORT_WHOLE | LIMPET_EXPORT_HISTORY,
	.write = write_perfetto,
	.binary = ".pftrace",
};
