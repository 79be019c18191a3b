#include "analyzer/views/nameless_modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SHARE 10u /* one such part of all bytes */

enum { UNKNOWN = 0, HIDDEN, NAMED, NAMELESS };

struct search {
	const struct limpet_model *model;
	uint8_t *states;   /* by node: asked once */
	uint64_t *bytes;   /* by module */
	uint32_t *counted; /* by module: number of the last site that was added */
};

/* Frames that a report does not show, those of libc, say, count as neither. */
static uint8_t state_of(const struct limpet_model *model, const struct limpet_trace_node *node)
{
	struct limpet_frame frames[LIMPET_NODE_FRAMES_MAX];

	if (node->lost || node->made || !node->module ||
	    model->modules[node->module].path[0] == '[')
		return HIDDEN;
	limpet_node_frames(model, node, frames, LIMPET_NODE_FRAMES_MAX);
	if (frames[0].kind != LIMPET_FRAME_PROGRAM)
		return HIDDEN;
	return frames[0].function ? NAMED : NAMELESS;
}

/* Whether names are missed in the stack: the function that it is told by has none, or no more of
 * the module's functions have one than have none. Those that a stripped program exports have. */
static bool is_missed(const struct search *search, uint32_t node, uint32_t module)
{
	uint8_t first = UNKNOWN;
	int balance = 0;

	for (; node; node = search->model->nodes[node].parent) {
		const uint8_t state = search->states[node];

		if (state == HIDDEN)
			continue;
		if (first == UNKNOWN) {
			first = state;
			if (state == NAMELESS && search->model->nodes[node].module == module)
				return true;
		}
		if (search->model->nodes[node].module == module)
			balance += state == NAMELESS ? 1 : -1;
	}
	return balance >= 0;
}

static void add_site(struct search *search, uint32_t number, uint32_t leaf, uint64_t bytes)
{
	const struct limpet_trace_node *nodes = search->model->nodes;

	for (uint32_t node = leaf; node; node = nodes[node].parent)
		if (search->states[node] == UNKNOWN)
			search->states[node] = state_of(search->model, &nodes[node]);
	for (uint32_t node = leaf; node; node = nodes[node].parent) {
		const uint32_t module = nodes[node].module;

		if (search->states[node] != NAMELESS || search->counted[module] == number)
			continue;
		search->counted[module] = number;
		if (is_missed(search, leaf, module))
			search->bytes[module] += bytes;
	}
}

static uint64_t bytes_of(const struct limpet_model_site *site, enum limpet_report_sort sort)
{
	switch (sort) {
	case LIMPET_REPORT_PEAK:
		return site->peak_bytes;
	case LIMPET_REPORT_LIVE:
	case LIMPET_REPORT_GROWTH:
		return site->live_bytes;
	case LIMPET_REPORT_ALLOCATIONS:
	case LIMPET_REPORT_ALLOCATED:
	case LIMPET_REPORT_TEMPORARY:
	case LIMPET_REPORT_SORT_COUNT:
		break;
	}
	return site->allocated_bytes;
}

static void keep_largest(struct limpet_nameless *found, uint32_t module, uint64_t bytes)
{
	size_t at =
		found->count < LIMPET_NAMELESS_MODULES ? found->count++ : LIMPET_NAMELESS_MODULES;

	for (; at && found->list[at - 1].bytes < bytes; at--)
		if (at < LIMPET_NAMELESS_MODULES)
			found->list[at] = found->list[at - 1];
	if (at < LIMPET_NAMELESS_MODULES)
		found->list[at] = (struct limpet_nameless_module){module, bytes};
}

static void search_all(struct search *search, enum limpet_report_sort sort,
		       struct limpet_nameless *ret)
{
	const struct limpet_model *model = search->model;

	for (size_t i = 0; i < model->site_count; i++) {
		const uint64_t bytes = bytes_of(&model->sites[i], sort);

		ret->all_bytes += bytes;
		if (bytes && model->sites[i].node < model->node_count)
			add_site(search, (uint32_t)i + 1, model->sites[i].node, bytes);
	}
	for (uint32_t i = 1; i < model->module_count; i++)
		if (search->bytes[i] && search->bytes[i] >= ret->all_bytes / LEAST_SHARE)
			keep_largest(ret, i, search->bytes[i]);
}

int limpet_nameless_find(const struct limpet_model *model, enum limpet_report_sort sort,
			 struct limpet_nameless *ret)
{
	struct search search = {.model = model,
				.states = calloc(model->node_count + 1ul, 1),
				.bytes = calloc(model->module_count + 1ul, sizeof(*search.bytes)),
				.counted =
					calloc(model->module_count + 1ul, sizeof(*search.counted))};
	const bool final = model->names_looked_up ? !model->names_left : model->symbols_complete;
	int code = search.states && search.bytes && search.counted ? 0 : -ENOMEM;

	memset(ret, 0, sizeof(*ret));
	if (code == 0 && final)
		search_all(&search, sort, ret);
	free(search.states);
	free(search.bytes);
	free(search.counted);
	return code;
}
