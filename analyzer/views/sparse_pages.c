/* Pages that only a few live blocks keep. */
#include <errno.h>
#include <stdlib.h>

#include "analyzer/model/page_shares.h"
#include "analyzer/views/candidates.h"
#include "analyzer/views/findings_groups.h"
#include "analyzer/views/kept_pages.h"
#include "analyzer/views/resident_parts.h"
#include "common/units.h"

struct sparse {
	const struct limpet_evidence *evidence;
	double least_bytes, least_share; /* the latter: of RSS */
	uint32_t *group_of_node;
	struct limpet_page_shares *shares;
	uint32_t *nodes;       /* of each group: the site that has the most live bytes */
	uint64_t *most;        /* these */
	uint64_t before_bytes; /* of the pages, older blocks may lie on so many; UINT64_MAX: on all
				*/
};

/* In an attached capture, pages from before it may be full of blocks that are not recorded. */
static uint64_t old_pages(const struct limpet_model *model)
{
	struct limpet_parts parts;
	uint64_t bytes = 0;

	if (model->target->mode == LIMPET_MODE_RUN)
		return 0;
	limpet_parts_of(model, &parts);
	for (size_t i = 0; i < parts.count; i++)
		if (parts.list[i].class == LIMPET_PART_ALLOCATOR ||
		    parts.list[i].class == LIMPET_PART_ANONYMOUS)
			bytes += parts.list[i].before_bytes;
	if (parts.has_before)
		return bytes;
	for (size_t i = 0; i < model->timeline_count; i++)
		if (model->timeline[i].rss_bytes)
			return model->timeline[i].rss_bytes;
	return UINT64_MAX;
}

/* What neither the blocks themselves, nor an allocator's rounding, nor older blocks explain. */
static uint64_t sparse_bytes(const struct sparse *sparse, const struct limpet_page_share *share)
{
	const uint64_t used = share->needed_bytes + sparse->before_bytes;

	return used >= share->needed_bytes && share->held_bytes > used ? share->held_bytes - used
								       : 0;
}

static int group_sites(struct sparse *sparse, struct limpet_trace_reader *reader)
{
	const struct limpet_model *model = sparse->evidence->model;
	const struct limpet_trace_node *nodes;
	const uint32_t node_count = limpet_trace_reader_nodes(reader, &nodes);
	struct limpet_findings_groups *groups;
	int code = limpet_findings_groups_new(sparse->evidence->view->locations, &groups);

	if (code < 0)
		return code;
	sparse->group_of_node = calloc(node_count + 1ul, sizeof(*sparse->group_of_node));
	sparse->nodes = calloc(model->site_count + 1, sizeof(*sparse->nodes));
	sparse->most = calloc(model->site_count + 1, sizeof(*sparse->most));
	if (!sparse->group_of_node || !sparse->nodes || !sparse->most)
		code = -ENOMEM;
	/* The last group is for stacks without a site. */
	for (uint32_t i = 0; code == 0 && i < node_count; i++)
		sparse->group_of_node[i] = (uint32_t)model->site_count;
	for (size_t i = 0; i < model->site_count && code == 0; i++) {
		const struct limpet_model_site *site = &model->sites[i];
		uint32_t group;

		if (!site->live_bytes || site->node >= node_count)
			continue;
		code = limpet_findings_groups_find(groups, site->node, &group);
		if (code < 0)
			break;
		sparse->group_of_node[site->node] = group;
		if (site->live_bytes > sparse->most[group]) {
			sparse->most[group] = site->live_bytes;
			sparse->nodes[group] = site->node;
		}
	}
	limpet_findings_groups_free(groups);
	return code;
}

/* The function that the site with most of the group's live bytes is called by. */
static int name_group(const struct sparse *sparse, uint32_t node, struct limpet_culprit *ret)
{
	const struct limpet_culprit_stack stack = {node, 1, 1};

	return limpet_culprit_find(sparse->evidence->view->locations, &stack, 1, ret);
}

static int add_candidate(const struct sparse *sparse, const struct limpet_page_share *share,
			 uint32_t node, uint64_t rss_bytes, struct limpet_candidates *candidates)
{
	const bool attached = sparse->evidence->model->target->mode == LIMPET_MODE_ATTACH;
	struct limpet_candidate one = {
		.finding = {.kind = LIMPET_HEAP_SPARSE,
			    .bytes = share->held_bytes,
			    .share = (double)share->held_bytes / (double)rss_bytes}};
	char live[LIMPET_UNITS_TEXT], held[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *who = NULL;
	char *text = NULL;
	int code = name_group(sparse, node, &one.finding.culprit);

	if (code < 0)
		return code;
	who = limpet_culprit_words(&one.finding.culprit, false);
	if (who &&
	    asprintf(&text,
		     "Blocks of %s, %s in all, keep %s of pages; the rest of these is free%s.", who,
		     limpet_units_format_bytes(live, share->live_bytes),
		     limpet_units_format_bytes(held, share->held_bytes),
		     attached ? ", or holds older blocks" : "") < 0)
		text = NULL;
	one.finding.text = text;
	return limpet_candidates_add(candidates, &one);
}

static int find_sparse(struct sparse *sparse, uint64_t rss_bytes,
		       struct limpet_candidates *candidates)
{
	const struct limpet_page_share *best = NULL;
	size_t at = 0;
	uint64_t bytes;

	for (size_t i = 0; i + 1 < sparse->shares->count; i++)
		if (!best ||
		    sparse_bytes(sparse, &sparse->shares->groups[i]) > sparse_bytes(sparse, best)) {
			best = &sparse->shares->groups[i];
			at = i;
		}
	bytes = best ? sparse_bytes(sparse, best) : 0;
	if (!best || (double)bytes < sparse->least_bytes ||
	    (double)bytes < sparse->least_share * (double)rss_bytes)
		return 0;
	return add_candidate(sparse, best, sparse->nodes[at], rss_bytes, candidates);
}

int limpet_candidates_find_sparse(struct limpet_evidence *evidence, double least_bytes,
				  double least_share, struct limpet_candidates *candidates)
{
	const struct limpet_model *model = evidence->model;
	struct sparse sparse = {.evidence = evidence,
				.least_bytes = least_bytes,
				.least_share = least_share,
				.before_bytes = old_pages(model)};
	const uint64_t rss_bytes = limpet_kept_pages_rss(model);
	int code;

	/* The blocks at the end are those of the whole capture. */
	if (!evidence->reader || model->windowed || model->target->pages ||
	    (double)rss_bytes < least_bytes)
		return 0;
	code = group_sites(&sparse, evidence->reader);
	if (code == 0)
		code = limpet_page_shares_new(evidence->reader, model, sparse.group_of_node,
					      model->site_count + 1, &sparse.shares);
	if (code == 0)
		code = find_sparse(&sparse, rss_bytes, candidates);
	free(sparse.group_of_node);
	free(sparse.nodes);
	free(sparse.most);
	limpet_page_shares_free(sparse.shares);
	return code == -ENODATA ? 0 : code;
}
