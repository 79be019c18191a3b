#include "analyzer/views/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/array.h"
#include "common/err.h"

const char *const limpet_report_sort_words[LIMPET_REPORT_SORT_COUNT + 1] = {
	"peak", "live", "allocations", "allocated", "temporary", "growth", NULL};

/* Looks: a number for each distinct sequence of shown frames, built from the root outwards, so that
 * every node costs one look-up: (looks of the parent, what this node adds) -> looks. */
struct looks {
	uint64_t key; /* parent and item */
	uint32_t number;
	UT_hash_handle hh;
};

/* What a frame looks like: function, file and line, or module and offset. */
struct item {
	uint32_t number;
	UT_hash_handle hh;
	char key[];
};

struct limpet_report_private {
	struct limpet_report_frame *frames;
	size_t frame_capacity;
	struct looks *looks;
	uint32_t looks_count;
	struct item *items;
	uint32_t item_count;
};

/* Items with a meaning of their own. */
enum { ITEM_NONE = 0, ITEM_JIT = 1, ITEM_UNKNOWN = 2, ITEM_FIRST = 3 };

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
				   stack.count + LIMPET_REPORT_NODE_FRAMES_MAX,
				   sizeof(*private->frames)) < 0)
			return -ENOMEM;
		if (at->lost) {
			stack.lost = true;
			break;
		}
		stack.truncated |= at->truncated;
		stack.count += limpet_report_node_frames(model, at, private->frames + stack.count,
							 LIMPET_REPORT_NODE_FRAMES_MAX);
		node = at->parent;
	}
	stack.frames = private->frames;
	*ret_stack = stack;
	return 0;
}

/* ------------------------------------------------------------------ looks */

static int intern_item(struct limpet_report_private *private,
		       const struct limpet_report_frame *frame, uint32_t *ret_item)
{
	LIMPET_FREE char *key = NULL;
	struct item *item;
	int length;

	/* Unit separators: no name holds one by chance, and a crafted one only merges itself. */
	if (frame->function)
		length = asprintf(&key, "%s\x1f%s\x1f%u", frame->function,
				  frame->file ? frame->file : "", frame->line);
	else
		length = asprintf(&key, "\x1f%s\x1f%llx", frame->module ? frame->module : "",
				  (unsigned long long)frame->offset);
	if (length < 0) {
		key = NULL;
		return -ENOMEM;
	}
	HASH_FIND(hh, private->items, key, (size_t)length, item);
	if (!item) {
		item = malloc(sizeof(*item) + (size_t)length + 1);
		if (!item)
			return -ENOMEM;
		memcpy(item->key, key, (size_t)length + 1);
		item->number = ITEM_FIRST + private->item_count++;
		HASH_ADD_KEYPTR(hh, private->items, item->key, (size_t)length, item);
	}
	*ret_item = item->number;
	return 0;
}

static int intern_looks(struct limpet_report_private *private, uint32_t parent, uint32_t item,
			uint32_t *ret_looks)
{
	const uint64_t key = (uint64_t)parent << 32 | item;
	struct looks *looks;

	HASH_FIND(hh, private->looks, &key, sizeof(key), looks);
	if (!looks) {
		looks = calloc(1, sizeof(*looks));
		if (!looks)
			return -ENOMEM;
		looks->key = key;
		looks->number = ++private->looks_count;
		HASH_ADD(hh, private->looks, key, sizeof(looks->key), looks);
	}
	*ret_looks = looks->number;
	return 0;
}

/* Looks of a node, and what its children need to know of it. */
struct node_looks {
	uint32_t number;
	uint32_t via;  /* item of the library's function that the innermost shown frame called, or 0
			*/
	uint32_t code; /* the innermost shown frame is in no module: ITEM_JIT, ITEM_UNKNOWN */
	bool shown;    /* the innermost frame is a shown one */
};

/* The frame next to the program's innermost: `strdup` and `getline` called at one line are two
 * entries, since the heading says which; malloc and operator new are not told apart. */
static int add_via(struct limpet_report_private *private, const struct limpet_report_frame *frame,
		   struct node_looks *looks)
{
	const struct limpet_report_frame name = {.function = frame->function};

	if (!looks->shown)
		return 0;
	looks->shown = false;
	if (frame->kind != LIMPET_FRAME_LIBRARY || !frame->function)
		return 0;
	return intern_item(private, &name, &looks->via);
}

/* From the looks of its parent. With `noise` every frame counts, without it the program's. */

static int add_node_looks(struct limpet_report_private *private,
			  const struct limpet_report_frame *frames, size_t count, bool noise,
			  struct node_looks *looks)
{
	for (size_t i = count; i-- > 0;) {
		uint32_t code = frames[i].module                       ? ITEM_NONE
				: frames[i].made || frames[i].function ? ITEM_JIT
								       : ITEM_UNKNOWN;
		uint32_t item = code;
		int result = 0;

		if (!noise && frames[i].kind != LIMPET_FRAME_PROGRAM) {
			result = add_via(private, &frames[i], looks);
			if (result)
				return result;
			continue;
		}
		looks->via = ITEM_NONE;
		looks->shown = true;
		/* JIT code moves and multiplies: a run of it looks like one frame. */
		if (code && !noise && looks->code == code)
			continue;
		if (!code || noise)
			result = intern_item(private, &frames[i], &item);
		if (!result)
			result = intern_looks(private, looks->number, item, &looks->number);
		if (result)
			return result;
		looks->code = code;
	}
	return 0;
}

/* Looks of all nodes; number 0 is the empty stack. A stack of noise alone looks as it is. */
static int find_looks(struct limpet_report *report, uint32_t **ret_looks)
{
	const struct limpet_model *model = report->model;
	LIMPET_FREE struct node_looks *folded = calloc(model->node_count + 1, sizeof(*folded));
	LIMPET_FREE struct node_looks *whole = calloc(model->node_count + 1, sizeof(*whole));
	LIMPET_FREE uint32_t *looks = calloc(model->node_count + 1, sizeof(*looks));
	struct limpet_report_frame frames[LIMPET_REPORT_NODE_FRAMES_MAX];

	if (!folded || !whole || !looks)
		return -ENOMEM;
	for (uint32_t i = 1; i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		size_t count;
		int result;

		folded[i] = folded[node->parent];
		whole[i] = whole[node->parent];
		if (node->lost)
			continue;
		count = limpet_report_node_frames(model, node, frames,
						  LIMPET_REPORT_NODE_FRAMES_MAX);
		result = add_node_looks(report->private, frames, count, true, &whole[i]);
		if (!result && !report->options.full)
			result = add_node_looks(report->private, frames, count, false, &folded[i]);
		if (result)
			return result;
		looks[i] = folded[i].number ? folded[i].number : whole[i].number;
		if (folded[i].number && folded[i].via)
			result = intern_looks(report->private, looks[i], folded[i].via, &looks[i]);
		if (result)
			return result;
	}
	*ret_looks = LIMPET_TAKE(looks);
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

static int gather_sites(struct limpet_report *report, const uint32_t *looks)
{
	const struct limpet_model *model = report->model;
	uint32_t kinds = report->private->looks_count + 1;
	LIMPET_FREE size_t *place = calloc(kinds, sizeof(*place));
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
		if (looks && site->node && looks[site->node]) {
			size_t *known = &place[looks[site->node]];

			if (*known)
				at = *known - 1;
			else
				*known = at + 1;
		}
		if (at == report->site_count)
			report->site_count++;
		add_figures(&report->sites[at], site, report->options.sort, &largest[at]);
		report->sites[at].estimates = at;
		if (report->estimates)
			limpet_model_estimates_join(&report->estimates[at],
						    &model->site_estimates[i]);
	}
	return 0;
}

static void order_sites(struct limpet_report *report)
{
	enum limpet_report_sort sort = report->options.sort;
	size_t kept = 0;

	for (size_t i = 0; i < report->site_count; i++) {
		/* Programs are told of every site; people only of those that have a share. */
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

static int gather_maps(struct limpet_report *report, const uint32_t *looks)
{
	const struct limpet_model *model = report->model;
	LIMPET_FREE size_t *place = calloc(report->private->looks_count + 1, sizeof(*place));

	report->maps = calloc(model->map_count + 1, sizeof(*report->maps));
	if (!place || !report->maps)
		return -ENOMEM;
	for (size_t i = 0; i < model->map_count; i++) {
		const struct limpet_model_map_site *site = &model->maps[i];
		struct limpet_report_map_site *to;
		size_t at = report->map_count;

		if (looks && site->node && looks[site->node]) {
			size_t *known = &place[looks[site->node]];

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

static void free_private(struct limpet_report_private *private)
{
	struct looks *looks = private->looks;
	struct item *item = private->items;

	/* Clearing frees the table and leaves its members linked. */
	HASH_CLEAR(hh, private->looks);
	while (looks) {
		struct looks *next = looks->hh.next;

		free(looks);
		looks = next;
	}
	HASH_CLEAR(hh, private->items);
	while (item) {
		struct item *next = item->hh.next;

		free(item);
		item = next;
	}
	free(private->frames);
	free(private);
}

void limpet_report_free(struct limpet_report *report)
{
	if (!report)
		return;
	if (report->private)
		free_private(report->private);
	free(report->sites);
	free(report->estimates);
	free(report->maps);
	free(report);
}

int limpet_report_new(const struct limpet_model *model, const struct limpet_report_options *options,
		      struct limpet_report **ret_report)
{
	struct limpet_report *report = calloc(1, sizeof(*report));
	LIMPET_FREE uint32_t *looks = NULL;
	int result = 0;

	if (!report)
		return -ENOMEM;
	report->model = model;
	report->options = *options;
	report->private = calloc(1, sizeof(*report->private));
	if (!report->private)
		result = -ENOMEM;
	if (!result && options->merge)
		result = find_looks(report, &looks);
	if (!result)
		result = gather_sites(report, looks);
	if (!result)
		result = gather_maps(report, looks);
	if (result) {
		limpet_report_free(report);
		return result;
	}
	order_sites(report);
	*ret_report = report;
	return 0;
}
