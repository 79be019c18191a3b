/* The format of Valgrind's massif, for ms_print and massif-visualizer: the heap's size at equal
 * intervals, and trees of its holders at the peak and at the end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"

/* Massif's own threshold: nodes below this share are combined in one line. */
#define LEAST_SHARE 0.01
/* Deeper than any stack walk: a crafted trace must not exhaust limpet's own stack. */
#define DEPTH_MAX 2000u

struct writer {
	const struct limpet_analysis *analysis;
	FILE *file;
	const struct limpet_view_tree *tree;
	enum limpet_report_sort sort;
	uint64_t whole;
	int code; /* the first error; 0: none */
};

static uint64_t bytes_of(const struct writer *writer, uint32_t node)
{
	return (uint64_t)limpet_report_figure(&writer->tree->nodes[node].figures, writer->sort);
}

static bool is_large(const struct writer *writer, uint32_t node)
{
	return bytes_of(writer, node) &&
	       (double)bytes_of(writer, node) >= LEAST_SHARE * (double)writer->whole;
}

/* Each line has the number of its children; those that are too small count as one. */
static void print_node(struct writer *writer, uint32_t node, unsigned depth)
{
	const struct limpet_view_tree *tree = writer->tree;
	unsigned children = 0, small = 0;
	uint64_t small_bytes = 0;

	for (uint32_t at = tree->nodes[node].first_child; at && depth < DEPTH_MAX;
	     at = tree->nodes[at].next) {
		if (is_large(writer, at)) {
			children++;
		} else if (bytes_of(writer, at)) {
			small++;
			small_bytes += bytes_of(writer, at);
		}
	}
	fprintf(writer->file, "%*sn%u: %" PRIu64 " ", (int)depth, "", children + !!small,
		bytes_of(writer, node));
	if (!node) {
		fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n",
		      writer->file);
	} else {
		const struct limpet_function *function =
			&writer->analysis->locations->functions[tree->nodes[node].function];
		LIMPET_FREE char *name = limpet_export_name(function->name, "", ' ');
		LIMPET_FREE char *place = limpet_export_name(function->file     ? function->file
							     : function->module ? function->module
										: "???",
							     "", ' ');

		if (!name || !place) {
			writer->code = -ENOMEM;
			return;
		}
		/* No address: functions are merged. */
		fprintf(writer->file, "0x0: %s (%s%s)\n", name, function->file ? "" : "in ", place);
	}
	for (uint32_t at = tree->nodes[node].first_child; at && !writer->code && depth < DEPTH_MAX;
	     at = tree->nodes[at].next)
		if (is_large(writer, at))
			print_node(writer, at, depth + 1);
	if (small)
		fprintf(writer->file,
			"%*sn0: %" PRIu64 " in %u place%s, %sbelow massif's threshold (%.2f%%)\n",
			(int)depth + 1, "", small_bytes, small, small == 1 ? "" : "s",
			small == 1 ? "" : "all ", 100 * LEAST_SHARE);
}

static void print_snapshot(struct writer *writer, unsigned number, uint64_t time_ns, uint64_t bytes,
			   const char *kind)
{
	fprintf(writer->file,
		"#-----------\nsnapshot=%u\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		number, time_ns / 1000000, bytes, kind);
	if (strcmp(kind, "empty") != 0)
		print_node(writer, 0, 0);
}

/* Builds a tree sorted by the snapshot's figure: massif's readers expect the largest node first. */
static void print_tree_snapshot(struct writer *writer, enum limpet_report_sort sort,
				unsigned number, uint64_t time_ns, const char *kind)
{
	struct limpet_view view = writer->analysis->view;
	struct limpet_view_tree *tree;

	view.sort = sort;
	writer->code = limpet_view_tree_new(&view, true, &tree);
	if (writer->code < 0)
		return;
	writer->tree = tree;
	writer->sort = sort;
	writer->whole = bytes_of(writer, 0);
	print_snapshot(writer, number, time_ns, writer->whole, kind);
	limpet_view_tree_free(tree);
}

static int write_massif(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			FILE *file)
{
	const struct limpet_replay *replay = analysis->replay;
	const struct limpet_model *model = analysis->model;
	struct writer writer = {.analysis = analysis, .file = file};
	LIMPET_FREE char *command = limpet_export_name(model->target->command, "", ' ');
	LIMPET_FREE char *title = NULL;
	char subject[40];
	bool peak_done = false;
	unsigned number = 0;

	(void)part;
	if (!replay)
		return -EINVAL;
	if (limpet_model_is_imported(model))
		snprintf(subject, sizeof(subject), "limpet, recorded by %.16s",
			 model->target->recorder);
	else
		snprintf(subject, sizeof(subject), "limpet, process %u", model->target->pid);
	title = limpet_export_title(model, subject);
	if (!title)
		return -ENOMEM;
	fprintf(file, "desc: %s\ncmd: %s\ntime_unit: ms\n", title,
		command && command[0] ? command : "?");
	for (size_t i = 0; i < replay->moment_count && !writer.code; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];

		if (!peak_done && moment->to_ns >= model->totals.peak_ns) {
			peak_done = true;
			print_tree_snapshot(&writer, LIMPET_REPORT_PEAK, number++,
					    model->totals.peak_ns, "peak");
		}
		if (i + 1 < replay->moment_count)
			print_snapshot(&writer, number++, moment->to_ns, moment->last_bytes,
				       "empty");
	}
	if (!writer.code)
		print_tree_snapshot(&writer, LIMPET_REPORT_LIVE, number, model->to_ns, "detailed");
	return writer.code;
}

const struct limpet_export_format limpet_export_massif = {
	.name = "massif",
	.needs = LIMPET_EXPORT_REPLAY,
	.write = write_massif,
};
