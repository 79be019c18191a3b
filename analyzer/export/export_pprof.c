/* profile.proto of pprof (github.com/google/pprof). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "analyzer/export/export_strings.h"
#include "analyzer/export/protobuf.h"
#include "common/labels.h"

/* Fields of Profile, and of the messages in it. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9,
	PROFILE_DURATION_NS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
	SAMPLE_LOCATIONS = 1,
	SAMPLE_VALUES = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STRING = 2,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILES = 8,
	MAPPING_HAS_LINES = 9,
	MAPPING_HAS_INLINED = 10,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
};

static const char *const types[][2] = {
	{"alloc_objects", "count"},     {"alloc_space", "bytes"},  {"inuse_objects", "count"},
	{"inuse_space", "bytes"},       {"peak_objects", "count"}, {"peak_space", "bytes"},
	{"temporary_objects", "count"}, /* the last: unknown for samples */
};

struct writer {
	const struct limpet_analysis *analysis;
	FILE *file;
	struct limpet_export_strings strings;
	struct limpet_bytes text, message, inner;
	bool *written; /* by location */
	bool failed;
};

static size_t type_count(const struct writer *writer)
{
	return LIMPET_COUNT_OF(types) - (writer->analysis->model->sample_bytes != 0);
}

/* ------------------------------------------------------------------ encoding */

/* Writes the current message as a field of the profile. */
static void flush_message(struct writer *writer, unsigned field)
{
	writer->failed |= !limpet_protobuf_write(writer->file, field, &writer->message);
}

/* Number in the string table, which is written as it grows. */
static uint64_t string_number(struct writer *writer, const char *text)
{
	const uint32_t before = writer->strings.count;
	const struct limpet_export_string *string =
		limpet_export_strings_add(&writer->strings, text);

	if (!string) {
		writer->failed = true;
		return 0;
	}
	if (writer->strings.count > before) {
		limpet_bytes_append(&writer->text, string->text, strlen(string->text));
		writer->failed |=
			!limpet_protobuf_write(writer->file, PROFILE_STRING, &writer->text);
	}
	return string->number;
}

/* ------------------------------------------------------------------ contents of a profile */

static void write_types(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;
	LIMPET_FREE char *title =
		model->born ? limpet_export_title(model, model->target->comm) : NULL;

	writer->failed |= model->born && !title;
	for (size_t i = 0; i < type_count(writer); i++) {
		uint64_t type = string_number(writer, types[i][0]);
		uint64_t unit = string_number(writer, types[i][1]);

		limpet_protobuf_append_number(&writer->message, TYPE_TYPE, type);
		limpet_protobuf_append_number(&writer->message, TYPE_UNIT, unit);
		flush_message(writer, PROFILE_SAMPLE_TYPE);
	}
	if (title)
		limpet_protobuf_append_number(&writer->message, PROFILE_COMMENT,
					      string_number(writer, title));
	limpet_protobuf_append_number(&writer->message, PROFILE_DEFAULT_TYPE,
				      string_number(writer, "inuse_space"));
	limpet_protobuf_append_number(&writer->message, PROFILE_TIME_NS,
				      writer->analysis->model->target->wall_ns +
					      writer->analysis->model->from_ns);
	limpet_protobuf_append_number(&writer->message, PROFILE_DURATION_NS,
				      writer->analysis->model->to_ns -
					      writer->analysis->model->from_ns);
	if (writer->analysis->model->sample_bytes) {
		limpet_protobuf_append_number(&writer->inner, TYPE_TYPE,
					      string_number(writer, "space"));
		limpet_protobuf_append_number(&writer->inner, TYPE_UNIT,
					      string_number(writer, "bytes"));
		limpet_protobuf_append_message(&writer->message, PROFILE_PERIOD_TYPE,
					       &writer->inner);
		limpet_protobuf_append_number(&writer->message, PROFILE_PERIOD,
					      writer->analysis->model->sample_bytes);
	}
	/* The profile's own fields: no message around them. */
	fwrite(writer->message.data, 1, writer->message.count, writer->file);
	writer->failed |= writer->message.failed;
	limpet_bytes_clear(&writer->message);
}

static void write_mappings(struct writer *writer)
{
	const struct limpet_model *model = writer->analysis->model;

	for (uint32_t i = 1; i < model->module_count; i++) {
		const struct limpet_trace_module *module = &model->modules[i];
		char build_id[LIMPET_EXPORT_BUILD_ID_TEXT];
		uint64_t file, id;

		limpet_export_build_id(module, build_id);
		file = string_number(writer, module->path ? module->path : "");
		id = string_number(writer, build_id);
		limpet_protobuf_append_number(&writer->message, MAPPING_ID, i);
		limpet_protobuf_append_number(&writer->message, MAPPING_START, module->start);
		limpet_protobuf_append_number(&writer->message, MAPPING_LIMIT, module->end);
		limpet_protobuf_append_number(&writer->message, MAPPING_OFFSET,
					      module->start - module->bias);
		limpet_protobuf_append_number(&writer->message, MAPPING_FILE, file);
		limpet_protobuf_append_number(&writer->message, MAPPING_BUILD_ID, id);
		/* A sealed trace leaves nothing to look up: a frame without a name has none. */
		limpet_protobuf_append_number(&writer->message, MAPPING_HAS_FUNCTIONS,
					      model->sealed);
		limpet_protobuf_append_number(&writer->message, MAPPING_HAS_FILES, model->sealed);
		limpet_protobuf_append_number(&writer->message, MAPPING_HAS_LINES, model->sealed);
		limpet_protobuf_append_number(&writer->message, MAPPING_HAS_INLINED, model->sealed);
		flush_message(writer, PROFILE_MAPPING);
	}
}

static void write_functions(struct writer *writer)
{
	const struct limpet_locations *locations = writer->analysis->locations;

	for (uint32_t i = 0; i < locations->function_count; i++) {
		const struct limpet_function *function = &locations->functions[i];
		uint64_t name = string_number(writer, function->name);
		uint64_t file = string_number(writer, function->file);

		limpet_protobuf_append_number(&writer->message, FUNCTION_ID, i + 1ull);
		limpet_protobuf_append_number(&writer->message, FUNCTION_NAME, name);
		limpet_protobuf_append_number(&writer->message, FUNCTION_SYSTEM_NAME, name);
		limpet_protobuf_append_number(&writer->message, FUNCTION_FILE, file);
		flush_message(writer, PROFILE_FUNCTION);
	}
}

static void write_location(struct writer *writer, uint32_t node)
{
	const struct limpet_locations *locations = writer->analysis->locations;
	const struct limpet_trace_node *at = &writer->analysis->model->nodes[node];
	uint32_t location = limpet_locations_address_number(locations, node);
	const uint32_t *list = NULL;
	uint32_t count = limpet_locations_of_node(locations, node, &list);

	if (writer->written[location])
		return;
	writer->written[location] = true;
	limpet_protobuf_append_number(&writer->message, LOCATION_ID, location);
	limpet_protobuf_append_number(&writer->message, LOCATION_MAPPING, at->module);
	limpet_protobuf_append_number(&writer->message, LOCATION_ADDRESS, at->address - 1);
	for (uint32_t i = 0; i < count; i++) {
		const struct limpet_location *place = &locations->locations[list[i]];

		limpet_protobuf_append_number(&writer->inner, LINE_FUNCTION,
					      place->function + 1ull);
		limpet_protobuf_append_number(&writer->inner, LINE_LINE, place->line);
		limpet_protobuf_append_message(&writer->message, LOCATION_LINE, &writer->inner);
	}
	flush_message(writer, PROFILE_LOCATION);
}

/* A location without a mapping or an address, for an unknown stack. */
static void write_unknown(struct writer *writer)
{
	limpet_protobuf_append_number(&writer->message, LOCATION_ID,
				      writer->analysis->locations->address_count + 1ull);
	limpet_protobuf_append_number(&writer->inner, LINE_FUNCTION,
				      LIMPET_LOCATION_UNKNOWN + 1ull);
	limpet_protobuf_append_message(&writer->message, LOCATION_LINE, &writer->inner);
	flush_message(writer, PROFILE_LOCATION);
}

/* The same for each sample; strings are messages of their own, written at their first use. */
static void write_labels(struct writer *writer)
{
	const char *at = writer->analysis->model->target->labels;
	struct limpet_label label;
	unsigned read = 0;

	while (limpet_labels_next(&at, &read, &label)) {
		limpet_protobuf_append_number(&writer->inner, LABEL_KEY,
					      string_number(writer, label.name));
		limpet_protobuf_append_number(&writer->inner, LABEL_STRING,
					      string_number(writer, label.value));
		limpet_protobuf_append_message(&writer->message, SAMPLE_LABEL, &writer->inner);
	}
}

static void write_sample(struct writer *writer, const struct limpet_model_site *site)
{
	const struct limpet_model *model = writer->analysis->model;
	const uint64_t values[LIMPET_COUNT_OF(types)] = {
		site->allocations,           site->allocated_bytes,
		site->live_allocations,      site->live_bytes,
		site->peak_allocations,      site->peak_bytes,
		site->temporary_allocations,
	};
	bool any = false;

	for (uint32_t at = site->node; at && !model->nodes[at].lost; at = model->nodes[at].parent)
		write_location(writer, at);
	for (uint32_t at = site->node; at && !model->nodes[at].lost; at = model->nodes[at].parent) {
		limpet_bytes_append_varint(
			&writer->inner,
			limpet_locations_address_number(writer->analysis->locations, at));
		any = true;
	}
	if (!any)
		limpet_bytes_append_varint(&writer->inner,
					   writer->analysis->locations->address_count + 1ull);
	limpet_protobuf_append_message(&writer->message, SAMPLE_LOCATIONS, &writer->inner);
	for (size_t i = 0; i < type_count(writer); i++)
		limpet_bytes_append_varint(&writer->inner, values[i]);
	limpet_protobuf_append_message(&writer->message, SAMPLE_VALUES, &writer->inner);
	write_labels(writer);
	flush_message(writer, PROFILE_SAMPLE);
}

static int write_pprof(struct limpet_analysis *analysis, const struct limpet_export_part *part,
		       FILE *file)
{
	struct writer writer = {.analysis = analysis, .file = file};

	(void)part;
	writer.written = calloc(analysis->locations->address_count + 2ul, sizeof(*writer.written));
	if (!writer.written)
		return -ENOMEM;
	string_number(&writer, ""); /* the first must be empty */
	write_types(&writer);
	write_mappings(&writer);
	write_functions(&writer);
	write_unknown(&writer);
	for (size_t i = 0; i < analysis->view.site_count && !writer.failed && !ferror(file); i++)
		write_sample(&writer, &analysis->view.sites[i]);
	limpet_export_strings_done(&writer.strings);
	limpet_bytes_done(&writer.text);
	limpet_bytes_done(&writer.message);
	limpet_bytes_done(&writer.inner);
	free(writer.written);
	return writer.failed ? -ENOMEM : 0;
}

const struct limpet_export_format limpet_export_pprof = {
	.name = "pprof",
	.write = write_pprof,
	.binary = ".pb.gz",
};
