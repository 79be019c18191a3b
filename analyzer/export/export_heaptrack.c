/* The format that heaptrack_interpret writes and heaptrack_print and heaptrack_gui read, version 3,
 * of heaptrack 1.3 and later. Lines of hexadecimal numbers:
 *
 * - v VERSION 3, X COMMAND, I PAGE_BYTES PAGES
 * - s LENGTH STRING: numbered from 1
 * - i ADDRESS MODULE [FUNCTION [FILE LINE]], and three more for each function it was inlined into
 * - t IP PARENT: numbered from 1, 0 is none
 * - a SIZE TRACE: numbered from 0
 * - c MILLISECONDS; R RSS_PAGES; + and - and the number of an `a` */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/export/export_formats.h"

struct number {
	uint32_t number;
	UT_hash_handle hh;
	union {
		char text[1];
		uint64_t pair[2];
	} key;
};

/* Deeper than any stack walk. */
#define CHAIN_MAX 4096u

struct writer {
	const struct limpet_analysis *analysis;
	FILE *file;
	struct number *strings, *allocations;
	uint32_t string_count, ip_count, trace_count, allocation_count;
	uint32_t *ip_of_location; /* 0: not written */
	uint32_t *chain;          /* room for CHAIN_MAX */
	uint32_t *trace_of_node;  /* 0: not written */
	uint64_t ms;              /* last written */
	size_t point;
	bool failed; /* no memory */
};

/* Returns true if the key is new; its number is then `next`. */
static bool find_number(struct writer *writer, struct number **table, const void *key, size_t bytes,
			uint32_t next, uint32_t *ret_number)
{
	struct number *entry;

	HASH_FIND(hh, *table, key, bytes, entry);
	if (entry) {
		*ret_number = entry->number;
		return false;
	}
	entry = calloc(1, sizeof(*entry) + bytes);
	if (!entry) {
		writer->failed = true;
		return false;
	}
	memcpy(&entry->key, key, bytes);
	entry->number = next;
	HASH_ADD_KEYPTR(hh, *table, &entry->key, bytes, entry);
	*ret_number = next;
	return true;
}

static void free_numbers(struct number **table)
{
	struct number *entry = *table;

	HASH_CLEAR(hh, *table);
	while (entry) {
		struct number *next = entry->hh.next;

		free(entry);
		entry = next;
	}
}

/* 0: no string. */
static uint32_t write_string(struct writer *writer, const char *string)
{
	LIMPET_FREE char *clean = NULL;
	uint32_t number = 0;

	if (!string || !string[0])
		return 0;
	clean = limpet_export_name(string, "", ' ');
	if (clean && find_number(writer, &writer->strings, clean, strlen(clean),
				 writer->string_count + 1, &number)) {
		writer->string_count++;
		fprintf(writer->file, "s %zx %s\n", strlen(clean), clean);
	}
	writer->failed |= !clean;
	return number;
}

static uint32_t write_ip(struct writer *writer, uint32_t node)
{
	const struct limpet_model *model = writer->analysis->model;
	const struct limpet_locations *locations = writer->analysis->locations;
	const struct limpet_trace_node *at = &model->nodes[node];
	uint32_t location = limpet_locations_address_number(locations, node);
	uint32_t module, numbers[3 * LIMPET_NODE_FRAMES_MAX] = {0};
	const uint32_t *list = NULL;
	uint32_t count = limpet_locations_of_node(locations, node, &list);

	if (writer->ip_of_location[location])
		return writer->ip_of_location[location];
	module = write_string(writer, at->module ? model->modules[at->module].path : NULL);
	for (uint32_t i = 0; i < count; i++) {
		const struct limpet_location *place = &locations->locations[list[i]];
		const struct limpet_function *function = &locations->functions[place->function];

		numbers[3ul * i] = write_string(writer, function->named ? function->name : NULL);
		numbers[3ul * i + 1] = write_string(writer, place->file);
		numbers[3ul * i + 2] = place->line;
	}
	fprintf(writer->file, "i %" PRIx64 " %x", at->address - 1, module);
	for (uint32_t i = 0; i < count && numbers[3ul * i]; i++) {
		fprintf(writer->file, " %x", numbers[3ul * i]);
		/* Each inlined frame has three numbers. */
		if (numbers[3ul * i + 1] || count > 1)
			fprintf(writer->file, " %x %x", numbers[3ul * i + 1], numbers[3ul * i + 2]);
	}
	fputc('\n', writer->file);
	return writer->ip_of_location[location] = ++writer->ip_count;
}

/* Parents come first: the nodes of a chain that are not written yet are written outermost first. */
static void write_trace(struct writer *writer, uint32_t node)
{
	const struct limpet_model *model = writer->analysis->model;
	uint32_t *const chain = writer->chain, length = 0;

	/* A chain deeper than any walk is cut at its outer end. */
	for (uint32_t at = node;
	     at && !writer->trace_of_node[at] && !model->nodes[at].lost && length < CHAIN_MAX;
	     at = model->nodes[at].parent)
		chain[length++] = at;
	while (length--) {
		uint32_t at = chain[length], ip = write_ip(writer, at);

		fprintf(writer->file, "t %x %x\n", ip,
			writer->trace_of_node[model->nodes[at].parent]);
		writer->trace_of_node[at] = ++writer->trace_count;
	}
}

static uint32_t write_allocation(struct writer *writer, const struct limpet_trace_event *row)
{
	const uint64_t pair[2] = {row->node, row->size};
	uint32_t number = 0;

	if (find_number(writer, &writer->allocations, pair, sizeof(pair), writer->allocation_count,
			&number)) {
		write_trace(writer, row->node);
		writer->allocation_count++;
		fprintf(writer->file, "a %" PRIx64 " %x\n", row->size,
			writer->trace_of_node[row->node]);
	}
	return number;
}

static void write_time(struct writer *writer, uint64_t time_ns)
{
	const struct limpet_model *model = writer->analysis->model;
	const uint64_t page_bytes = model->target->page_bytes ? model->target->page_bytes : 4096;

	if (time_ns / 1000000 != writer->ms) {
		writer->ms = time_ns / 1000000;
		fprintf(writer->file, "c %" PRIx64 "\n", writer->ms);
	}
	for (; writer->point < model->timeline_count &&
	       model->timeline[writer->point].time_ns <= time_ns;
	     writer->point++)
		if (model->timeline[writer->point].rss_bytes)
			fprintf(writer->file, "R %" PRIx64 "\n",
				model->timeline[writer->point].rss_bytes / page_bytes);
}

static void write_row(struct writer *writer, const struct limpet_trace_event *row)
{
	const bool frees = row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE;
	const bool allocates = row->kind == LIMPET_ROW_ALLOC || row->kind == LIMPET_ROW_UNTRACKED;
	uint32_t number;

	if ((!frees && !allocates) ||
	    (writer->analysis->kept && !writer->analysis->kept[row->node]))
		return;
	number = write_allocation(writer, row);
	write_time(writer, row->time_ns);
	if (allocates)
		fprintf(writer->file, "+ %x\n", number);
	/* A block that did not fit the collector's table was never live. */
	if (frees || row->kind == LIMPET_ROW_UNTRACKED)
		fprintf(writer->file, "- %x\n", number);
}

static void write_head(const struct writer *writer)
{
	const struct limpet_trace_target *target = writer->analysis->model->target;
	LIMPET_FREE char *command = limpet_export_name(target->command, "", ' ');

	fprintf(writer->file, "v 10400 3\nX %s\nI %" PRIx64 " 0\n",
		command && command[0] ? command : "?",
		target->page_bytes ? target->page_bytes : UINT64_C(4096));
}

/* heaptrack expects the program as the first string. */
static int write_all(struct writer *writer)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(writer->analysis->reader, &blocks);
	const char *executable = writer->analysis->model->target->executable;
	int code = 0;

	write_head(writer);
	write_string(writer, executable[0] ? executable : "?");
	for (size_t i = 0; i < count && code >= 0 && !writer->failed && !ferror(writer->file);
	     i++) {
		struct limpet_trace_events *events;
		struct limpet_trace_event row;

		if (blocks[i].type != LIMPET_TRACE_EVENTS || blocks[i].damaged)
			continue;
		code = limpet_trace_events_open(writer->analysis->reader, i, &events);
		if (code == 0) {
			while (!writer->failed &&
			       (code = limpet_trace_events_next(events, &row)) == 1)
				write_row(writer, &row);
			limpet_trace_events_free(events);
		}
		/* A damaged block is lost: the report says so. */
		if (code == -EBADMSG)
			code = 0;
	}
	write_time(writer, writer->analysis->model->duration_ns);
	if (writer->failed)
		return -ENOMEM;
	return code < 0 ? code : 0;
}

static int write_heaptrack(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			   FILE *file)
{
	struct writer writer = {.analysis = analysis, .file = file};
	int code = -ENOMEM;

	(void)part;
	writer.ip_of_location =
		calloc(analysis->locations->address_count + 2ul, sizeof(*writer.ip_of_location));
	writer.trace_of_node =
		calloc(analysis->model->node_count + 1ul, sizeof(*writer.trace_of_node));
	writer.chain = calloc(CHAIN_MAX, sizeof(*writer.chain));
	if (writer.ip_of_location && writer.trace_of_node && writer.chain)
		code = write_all(&writer);
	free_numbers(&writer.strings);
	free_numbers(&writer.allocations);
	free(writer.ip_of_location);
	free(writer.trace_of_node);
	free(writer.chain);
	return code;
}

const struct limpet_export_format limpet_export_heaptrack = {
	.name = "heaptrack",
	.needs = LIMPET_EXPORT_WHOLE | LIMPET_EXPORT_EVENTS | LIMPET_EXPORT_BEGINNING |
		 LIMPET_EXPORT_EXACT,
	.write = write_heaptrack,
};
