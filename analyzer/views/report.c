#include "analyzer/views/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/stack_groups.h"
#include "common/array.h"
#include "common/err.h"

const char *const limpet_report_sort_words[LIMPET_REPORT_SORT_COUNT + 1] = {
	"peak", "live", "allocations", "allocated", "temporary", "growth", NULL};

struct limpet_report_private {
	struct limpet_frame *frames;
	size_t frame_capacity;
};

int64_t limpet_report_figure(const struct limpet_model_site *site, enum limpet_report_sort sort)
{
	uint64_t figure = 0;

	switch (sort) {
	case LIMPET_REPORT_PEAK:
		figure = site->peak_bytes;
		break;
	case LIMPET_REPORT_LIVE:
		figure = site->live_bytes;
		break;
	case LIMPET_REPORT_ALLOCATIONS:
		figure = site->allocations;
		break;
	case LIMPET_REPORT_ALLOCATED:
		figure = site->allocated_bytes;
		break;
	case LIMPET_REPORT_TEMPORARY:
		figure = site->temporary_allocations;
		break;
	case LIMPET_REPORT_GROWTH:
		return site->growth_bytes;
	case LIMPET_REPORT_SORT_COUNT:
		break;
	}
	return figure > INT64_MAX ? INT64_MAX : (int64_t)figure;
}

/* ------------------------------------------------------------------ frames */

int limpet_report_expand(struct limpet_report *report, uint32_t node,
			 struct limpet_report_stack *ret_stack)
{
	const struct limpet_model *model = report->model;
	struct limpet_report_private *private = report->private;
	struct limpet_report_stack stack = {0};

	while (node && node < model->node_count) {
		const struct limpet_trace_node *at = &model->nodes[node];

		if (limpet_reserve(&private->frames, &private->frame_capacity,
				   stack.count + LIMPET_NODE_FRAMES_MAX,
				   sizeof(*private->frames)) < 0)
			return -ENOMEM;
		if (at->lost) {
			stack.lost = true;
			break;
		}
		stack.truncated |= at->truncated;
		stack.count += limpet_node_frames(model, at, private->frames + stack.count,
						  LIMPET_NODE_FRAMES_MAX);
		node = at->parent;
	}
	stack.frames = private->frames;
	*ret_stack = stack;
	return 0;
}

/* ------------------------------------------------------------------ sites */

static void add_figures(struct limpet_report_site *to, const struct limpet_model_site *from,
			enum limpet_report_sort sort, int64_t *largest)
{
	int64_t figure = limpet_report_figure(from, sort);

	if (!to->stacks++ || figure > *largest) {
		*largest = figure;
		to->figures.node = from->node;
	}
	to->figures.allocations += from->allocations;
	to->figures.allocated_bytes += from->allocated_bytes;
	to->figures.frees += from->frees;
	to->figures.freed_bytes += from->freed_bytes;
	to->figures.temporary_allocations += from->temporary_allocations;
	to->figures.reallocations += from->reallocations;
	to->figures.live_allocations += from->live_allocations;
	to->figures.live_bytes += from->live_bytes;
	to->figures.peak_allocations += from->peak_allocations;
	to->figures.peak_bytes += from->peak_bytes;
	to->figures.growth_bytes += from->growth_bytes;
}

static int compare_sites(const void *a, const void *b, void *context)
{
	const struct limpet_report_site *x = a, *y = b;
	enum limpet_report_sort sort = *(enum limpet_report_sort *)context;
	int64_t p = limpet_report_figure(&x->figures, sort);
	int64_t q = limpet_report_figure(&y->figures, sort);

	if (p != q)
		return p > q ? -1 : 1;
	if (x->figures.allocated_bytes != y->figures.allocated_bytes)
		return x->figures.allocated_bytes > y->figures.allocated_bytes ? -1 : 1;
	return x->figures.node < y->figures.node ? -1 : x->figures.node > y->figures.node;
}

static int gather_sites(struct limpet_report *report, const struct limpet_stack_groups *groups)
{
	const struct limpet_model *model = report->model;
	LIMPET_FREE size_t *place = calloc((size_t)groups->count + 1, sizeof(*place));
	LIMPET_FREE int64_t *largest = calloc(model->site_count + 1, sizeof(*largest));

	report->sites = calloc(model->site_count + 1, sizeof(*report->sites));
	if (model->sample_bytes)
		report->estimates = calloc(model->site_count + 1, sizeof(*report->estimates));
	if (!place || !largest || !report->sites || (model->sample_bytes && !report->estimates))
		return -ENOMEM;
	for (size_t i = 0; i < model->site_count; i++) {
		const struct limpet_model_site *site = &model->sites[i];
		size_t at = report->site_count;

		/* An unknown stack looks like no other. */
		if (groups->of_node && site->node && groups->of_node[site->node]) {
			size_t *known = &place[groups->of_node[site->node]];

			if (*known)
				at = *known - 1;
			else
				*known = at + 1;
		}
		if (at == report->site_count)
			report->site_count++;
		add_figures(&report->sites[at], site, report->options.sort, &largest[at]);
		report->sites[at].estimates = at;
		limpet_lost_add(&report->sites[at].lost, report->leaks, site->node);
		if (report->estimates)
			limpet_model_estimates_join(&report->estimates[at],
						    &model->site_estimates[i]);
	}
	return 0;
}

static int compare_losers(const void *a, const void *b)
{
	const struct limpet_report_site *x = a, *y = b;

	if (x->lost.lost.bytes != y->lost.lost.bytes)
		return x->lost.lost.bytes > y->lost.lost.bytes ? -1 : 1;
	return x->figures.node < y->figures.node ? -1 : x->figures.node > y->figures.node;
}

/* Before sites are left out. */
static int list_losers(struct limpet_report *report)
{
	size_t count = 0;

	for (size_t i = 0; i < report->site_count; i++)
		count += report->sites[i].lost.lost.blocks != 0;
	report->losers = calloc(count + 1, sizeof(*report->losers));
	if (!report->losers)
		return -ENOMEM;
	for (size_t i = 0; i < report->site_count; i++)
		if (report->sites[i].lost.lost.blocks)
			report->losers[report->loser_count++] = report->sites[i];
	qsort(report->losers, count, sizeof(*report->losers), compare_losers);
	return 0;
}

static void order_sites(struct limpet_report *report)
{
	enum limpet_report_sort sort = report->options.sort;
	size_t kept = 0;

	for (size_t i = 0; i < report->site_count; i++) {
		/* Programs get every site, people only those with a share. */
		if (!report->options.merge ||
		    limpet_report_figure(&report->sites[i].figures, sort) > 0)
			report->sites[kept++] = report->sites[i];
	}
	qsort_r(report->sites, kept, sizeof(*report->sites), compare_sites, &sort);
	report->all_sites = kept;
	report->site_count = kept < report->options.limit ? kept : report->options.limit;
	for (size_t i = 0; i < report->site_count; i++) {
		int64_t figure = limpet_report_figure(&report->sites[i].figures, sort);

		report->shown_figure += figure > 0 ? (uint64_t)figure : 0;
	}
}

static int compare_maps(const void *a, const void *b)
{
	const struct limpet_report_map_site *x = a, *y = b;

	if (x->figures.mapped_bytes != y->figures.mapped_bytes)
		return x->figures.mapped_bytes > y->figures.mapped_bytes ? -1 : 1;
	if (x->figures.mmap_bytes != y->figures.mmap_bytes)
		return x->figures.mmap_bytes > y->figures.mmap_bytes ? -1 : 1;
	return x->figures.node < y->figures.node ? -1 : x->figures.node > y->figures.node;
}

static int gather_maps(struct limpet_report *report, const struct limpet_stack_groups *groups)
{
	const struct limpet_model *model = report->model;
	LIMPET_FREE size_t *place = calloc((size_t)groups->count + 1, sizeof(*place));

	report->maps = calloc(model->map_count + 1, sizeof(*report->maps));
	if (!place || !report->maps)
		return -ENOMEM;
	for (size_t i = 0; i < model->map_count; i++) {
		const struct limpet_model_map_site *site = &model->maps[i];
		struct limpet_report_map_site *to;
		size_t at = report->map_count;

		if (groups->of_node && site->node && groups->of_node[site->node]) {
			size_t *known = &place[groups->of_node[site->node]];

			if (*known)
				at = *known - 1;
			else
				*known = at + 1;
		}
		to = &report->maps[at];
		if (at == report->map_count) {
			report->map_count++;
			to->figures.node = site->node;
		}
		to->stacks++;
		to->figures.mmaps += site->mmaps;
		to->figures.mmap_bytes += site->mmap_bytes;
		to->figures.unmapped_bytes += site->unmapped_bytes;
		to->figures.mapped_bytes += site->mapped_bytes;
	}
	qsort(report->maps, report->map_count, sizeof(*report->maps), compare_maps);
	return 0;
}

void limpet_report_free(struct limpet_report *report)
{
	if (!report)
		return;
	if (report->private)
		free(report->private->frames);
	free(report->private);
	free(report->sites);
	free(report->losers);
	free(report->estimates);
	free(report->maps);
	free(report);
}

int limpet_report_new(const struct limpet_model *model, const struct limpet_report_options *options,
		      struct limpet_report **ret_report)
{
	struct limpet_report *report = calloc(1, sizeof(*report));
	struct limpet_stack_groups groups = {0};
	int result = 0;

	if (!report)
		return -ENOMEM;
	report->model = model;
	report->options = *options;
	report->leaks = limpet_lost_counts(model, options->hidden);
	report->private = calloc(1, sizeof(*report->private));
	if (!report->private)
		result = -ENOMEM;
	if (!result && options->merge)
		result = limpet_stack_groups_init(&groups, model, options->full);
	if (!result)
		result = gather_sites(report, &groups);
	if (!result)
		result = list_losers(report);
	if (!result)
		result = gather_maps(report, &groups);
	limpet_stack_groups_done(&groups);
	if (result) {
		limpet_report_free(report);
		return result;
	}
	order_sites(report);
	*ret_report = report;
	return 0;
}
