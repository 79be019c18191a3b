/* Callgrind's format, for callgrind_annotate and KCachegrind: for each function and line the memory
 * it allocated itself, and for each call the memory allocated below it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/export/export_formats.h"

/* A line's own cost, or the cost of its calls of one function. */
struct cost {
	uint64_t key; /* place, and the callee + 1; 0: itself */
	struct limpet_model_site figures;
	size_t seen; /* the site that counted last */
	UT_hash_handle hh;
};

struct writer {
	const struct limpet_analysis *analysis;
	FILE *file;
	struct cost *costs;
	bool failed; /* no memory */
};

static int add_cost(struct writer *writer, uint32_t place, uint64_t callee, size_t site)
{
	const uint64_t key = (uint64_t)place << 32 | callee;
	struct cost *cost;

	HASH_FIND(hh, writer->costs, &key, sizeof(key), cost);
	if (!cost) {
		cost = calloc(1, sizeof(*cost));
		if (!cost)
			return -ENOMEM;
		cost->key = key;
		HASH_ADD(hh, writer->costs, key, sizeof(cost->key), cost);
	}
	/* A recursive stack contains a line more than once, but counts once. */
	if (cost->seen != site + 1)
		limpet_view_add_figures(&cost->figures, &writer->analysis->view.sites[site]);
	cost->seen = site + 1;
	return 0;
}

static int add_costs(struct writer *writer)
{
	const struct limpet_view *view = &writer->analysis->view;
	int code = 0;

	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		struct limpet_location_stack stack;

		code = limpet_locations_stack(view->locations, view->sites[i].node, view->full,
					      &stack);
		if (code == 0)
			code = add_cost(writer, stack.list[0], 0, i);
		for (size_t k = 1; k < stack.count && code == 0; k++)
			code = add_cost(
				writer, stack.list[k],
				view->locations->locations[stack.list[k - 1]].function + 1ull, i);
	}
	return code;
}

static int compare_costs(const void *a, const void *b, void *context)
{
	const struct limpet_location *locations = context;
	const struct cost *x = *(const struct cost *const *)a, *y = *(const struct cost *const *)b;
	uint32_t p = locations[x->key >> 32].function, q = locations[y->key >> 32].function;

	if (p != q)
		return p < q ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/* Samples do not say which allocations are temporary. */
static void print_figures(const struct writer *writer, const struct limpet_model_site *figures)
{
	fprintf(writer->file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		figures->live_bytes, figures->live_allocations, figures->peak_bytes,
		figures->allocated_bytes, figures->allocations);
	if (!writer->analysis->model->sample_bytes)
		fprintf(writer->file, " %" PRIu64, figures->temporary_allocations);
	fputc('\n', writer->file);
}

static void print_position(struct writer *writer, const char *keyword, const char *name)
{
	LIMPET_FREE char *clean = limpet_export_name(name && name[0] ? name : "???", "", ' ');

	if (clean)
		fprintf(writer->file, "%s=%s\n", keyword, clean);
	else
		writer->failed = true;
}

/* The object distinguishes functions of the same name in several modules. */
static void print_function(struct writer *writer, uint32_t number, bool called)
{
	const struct limpet_function *function = &writer->analysis->locations->functions[number];

	print_position(writer, called ? "cob" : "ob", function->module);
	print_position(writer, called ? "cfi" : "fl", function->file);
	print_position(writer, called ? "cfn" : "fn", function->name);
}

static void print_costs(struct writer *writer, struct cost *const *list, size_t count)
{
	const struct limpet_location *locations = writer->analysis->locations->locations;
	uint32_t before = UINT32_MAX;
	const char *file = NULL;

	for (size_t i = 0; i < count && !writer->failed && !ferror(writer->file); i++) {
		const struct limpet_location *place = &locations[list[i]->key >> 32];
		uint32_t callee = (uint32_t)list[i]->key;

		if (place->function != before) {
			fputc('\n', writer->file);
			print_function(writer, place->function, false);
			file = writer->analysis->locations->functions[place->function].file;
		}
		before = place->function;
		if (place->file != file)
			print_position(writer, "fe", place->file);
		file = place->file;
		if (callee) {
			print_function(writer, callee - 1, true);
			fprintf(writer->file, "calls=%" PRIu64 " 0\n",
				list[i]->figures.allocations);
		}
		fprintf(writer->file, "%u ", place->line);
		print_figures(writer, &list[i]->figures);
	}
}

static int write_callgrind(struct limpet_analysis *analysis, const struct limpet_export_part *part,
			   FILE *file)
{
	struct writer writer = {.analysis = analysis, .file = file};
	LIMPET_FREE char *command = limpet_export_name(analysis->model->target->command, "", ' ');
	LIMPET_FREE char *title = limpet_export_title(analysis->model, "limpet");
	LIMPET_FREE struct cost **list = NULL;
	const bool born = analysis->model->born;
	struct cost *cost;
	size_t count = 0;
	int code = add_costs(&writer);

	(void)part;
	fprintf(file,
		"# callgrind format\nversion: 1\ncreator: limpet\npid: %u\ncmd: %s\n"
		"%s%s%spositions: line\nevents: Live LiveBlocks Peak Allocated "
		"Allocations%s\nsummary: ",
		analysis->model->target->pid, command && command[0] ? command : "?",
		born ? "desc: Data: " : "", born && title ? title : "", born ? "\n" : "",
		analysis->model->sample_bytes ? "" : " Temporary");
	print_figures(&writer, &analysis->view.totals);
	list = calloc(HASH_COUNT(writer.costs) + 1ul, sizeof(*list));
	if (!list || !title)
		code = -ENOMEM;
	for (cost = writer.costs; list && cost; cost = cost->hh.next)
		list[count++] = cost;
	if (code == 0) {
		qsort_r(list, count, sizeof(struct cost *), compare_costs,
			analysis->locations->locations);
		print_costs(&writer, list, count);
	}
	cost = writer.costs;
	HASH_CLEAR(hh, writer.costs);
	while (cost) {
		struct cost *next = cost->hh.next;

		free(cost);
		cost = next;
	}
	return writer.failed ? -ENOMEM : code;
}

const struct limpet_export_format limpet_export_callgrind = {
	.name = "callgrind",
	.write = write_callgrind,
};
