/* Three tables for DuckDB and similar tools, RFC 4180 with a header: events (one row each, with the
 * number of its stack), stacks (one row a frame, innermost at depth 0) and frames. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "common/estimate.h"
#include "common/plain_text.h"

static const char *const kind_words[] = {
	[LIMPET_ROW_ALLOC] = "alloc",
	[LIMPET_ROW_FREE] = "free",
	[LIMPET_ROW_FOREIGN_FREE] = "foreign-free",
	[LIMPET_ROW_MMAP] = "mmap",
	[LIMPET_ROW_MUNMAP] = "munmap",
	[LIMPET_ROW_UNMAPPED] = "unmapped",
	[LIMPET_ROW_UNTRACKED] = "untracked",
	[LIMPET_ROW_INFERRED_FREE] = "inferred-free",
};

int limpet_export_csv_text(FILE *file, const char *text)
{
	LIMPET_FREE char *repaired = NULL;

	if (!text || !text[0])
		return 0;
	repaired = limpet_plain_text_repair(text);
	if (!repaired)
		return -ENOMEM;
	fputc('"', file);
	for (const char *at = repaired; *at; at++) {
		if (*at == '"')
			fputc('"', file);
		fputc(*at, file);
	}
	fputc('"', file);
	return 0;
}

/* ------------------------------------------------------------------ events */

static bool has_age(unsigned kind)
{
	return kind == LIMPET_ROW_FREE || kind == LIMPET_ROW_UNMAPPED ||
	       kind == LIMPET_ROW_INFERRED_FREE;
}

/* The number of calls, or blocks, that a row represents. */
static double weight_of(const struct limpet_model *model, const struct limpet_trace_event *row)
{
	const bool is_estimated =
		row->kind == LIMPET_ROW_ALLOC || row->kind == LIMPET_ROW_UNTRACKED ||
		row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE;
	/* If only overloads were sampled, the events between them are exact. */
	const bool is_sample = model->sample_bytes && (model->target->sample_bytes || row->sampled);

	return is_estimated && is_sample ? limpet_weight_of(row->size, model->sample_bytes).weight
					 : 1;
}

static void print_event(const struct limpet_analysis *analysis,
			const struct limpet_trace_event *row, FILE *file)
{
	const bool imported = limpet_model_is_imported(analysis->model);

	if (analysis->kept && !analysis->kept[row->node])
		return;
	fprintf(file, "%" PRIu64 ",%s,", row->time_ns,
		row->kind < LIMPET_COUNT_OF(kind_words) && kind_words[row->kind]
			? kind_words[row->kind]
			: "unknown");
	if (!imported)
		fprintf(file, "%u", row->tid);
	fprintf(file, ",%u,%" PRIu64 ",", row->node, row->size);
	if (has_age(row->kind) && !imported)
		fprintf(file, "%" PRIu64, row->age_ns);
	/* Unknown for samples. 17 digits, so that sums equal the report's. */
	fprintf(file, ",%s,%.17g,%s\n",
		analysis->model->sample_bytes ? ""
		: row->temporary              ? "true"
					      : "false",
		weight_of(analysis->model, row),
		imported       ? ""
		: row->realloc ? "true"
			       : "false");
}

static int print_events(struct limpet_analysis *analysis, FILE *file)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(analysis->reader, &blocks);
	int code = 0;

	fputs("time_ns,kind,thread,stack,bytes,age_ns,temporary,weight,realloc\n", file);
	for (size_t i = 0; i < count && code >= 0 && !ferror(file); i++) {
		struct limpet_trace_events *events;
		struct limpet_trace_event row;

		if (blocks[i].type != LIMPET_TRACE_EVENTS || blocks[i].damaged)
			continue;
		code = limpet_trace_events_open(analysis->reader, i, &events);
		if (code == 0) {
			while ((code = limpet_trace_events_next(events, &row)) == 1)
				print_event(analysis, &row, file);
			limpet_trace_events_free(events);
		}
		/* A damaged block is lost: the report says so. */
		if (code == -EBADMSG)
			code = 0;
	}
	return code < 0 ? code : 0;
}

/* ------------------------------------------------------------------ stacks and frames */

/* A frame's number, from that of its address and its depth among the functions inlined there. */
static void print_frame_number(const struct limpet_locations *locations, uint32_t node,
			       uint32_t inlined, FILE *file)
{
	fprintf(file, "%" PRIu64,
		(uint64_t)limpet_locations_address_number(locations, node) *
				LIMPET_NODE_FRAMES_MAX +
			inlined);
}

static int print_stacks(struct limpet_analysis *analysis, FILE *file)
{
	const struct limpet_model *model = analysis->model;

	fputs("stack,depth,frame\n", file);
	for (uint32_t i = 1; i < model->node_count && !ferror(file); i++) {
		uint32_t depth = 0;

		if (analysis->kept && !analysis->kept[i])
			continue;
		for (uint32_t at = i; at && !model->nodes[at].lost; at = model->nodes[at].parent) {
			const uint32_t *list;
			uint32_t count = limpet_locations_of_node(analysis->locations, at, &list);

			for (uint32_t k = 0; k < count; k++) {
				fprintf(file, "%u,%u,", i, depth++);
				print_frame_number(analysis->locations, at, k, file);
				fputc('\n', file);
			}
		}
	}
	return 0;
}

static int print_frame(const struct limpet_analysis *analysis, uint32_t node, uint32_t number,
		       const struct limpet_location *place, FILE *file)
{
	const struct limpet_function *function = &analysis->locations->functions[place->function];
	int code;

	print_frame_number(analysis->locations, node, number, file);
	fputc(',', file);
	code = limpet_export_csv_text(file, function->named ? function->name : NULL);
	fputc(',', file);
	if (code == 0)
		code = limpet_export_csv_text(file, place->file);
	fputc(',', file);
	if (place->line)
		fprintf(file, "%u", place->line);
	fputc(',', file);
	if (code == 0)
		code = limpet_export_csv_text(file, function->module);
	fprintf(file, ",%" PRIu64 ",%s,%s\n", analysis->model->nodes[node].address - 1,
		place->inlined ? "true" : "false",
		function->kind != LIMPET_FRAME_PROGRAM ? "true" : "false");
	return code;
}

static int print_frames(struct limpet_analysis *analysis, FILE *file)
{
	const struct limpet_locations *locations = analysis->locations;
	LIMPET_FREE bool *written = calloc(locations->address_count + 2ul, sizeof(*written));
	int code = written ? 0 : -ENOMEM;

	fputs("frame,function,file,line,module,address,inlined,noise\n", file);
	for (uint32_t i = 1; i < analysis->model->node_count && code == 0 && !ferror(file); i++) {
		uint32_t location = limpet_locations_address_number(locations, i);
		const uint32_t *list;
		uint32_t count = limpet_locations_of_node(locations, i, &list);

		if (written[location])
			continue;
		written[location] = true;
		for (uint32_t k = 0; k < count && code == 0; k++)
			code = print_frame(analysis, i, k, &locations->locations[list[k]], file);
	}
	return code;
}

static int write_csv(struct limpet_analysis *analysis, const struct limpet_export_part *part,
		     FILE *file)
{
	static int (*const tables[])(struct limpet_analysis *,
				     FILE *) = {print_events, print_stacks, print_frames};

	return part->table < LIMPET_COUNT_OF(tables) ? tables[part->table](analysis, file)
						     : -EINVAL;
}

const struct limpet_export_format limpet_export_csv = {
	.name = "csv",
	.needs = LIMPET_EXPORT_WHOLE | LIMPET_EXPORT_EVENTS,
	.write = write_csv,
	.tables = (const char *const[]){"events", "stacks", "frames", NULL},
};
