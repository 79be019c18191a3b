/* Pages that only a few live blocks keep. */
#include <errno.h>
#include <stdlib.h>

#include "analyzer/model/page_shares.h"
#include "analyzer/views/findings_groups.h"
#include "analyzer/views/findings_work.h"
#include "analyzer/views/kept_pages.h"
#include "common/units.h"

/* Less is lost in any heap; a change of the program pays from a tenth of its memory on. */
#define LEAST_SPARSE_BYTES (8u << 20)
#define SPARSE_SHARE 0.1

struct sparse {
	struct limpet_findings_work *work;
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
	const struct limpet_memory *before = &model->target->memory;

	if (model->target->mode == LIMPET_MODE_RUN)
		return 0;
	if (before->known)
		return before->bytes[LIMPET_MEMORY_HEAP] + before->bytes[LIMPET_MEMORY_UNKNOWN];
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
	const struct limpet_model *model = sparse->work->model;
	const struct limpet_trace_node *nodes;
	const uint32_t node_count = limpet_trace_reader_nodes(reader, &nodes);
	struct limpet_findings_groups *groups;
	int code = limpet_findings_groups_new(sparse->work->view->locations, &groups);

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

static int say(const struct sparse *sparse, const struct limpet_page_share *share, uint32_t node,
	       uint64_t rss_bytes)
{
	const bool attached = sparse->work->model->target->mode == LIMPET_MODE_ATTACH;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_SPARSE,
						.bytes = share->held_bytes,
						.share = (double)share->held_bytes /
							 (double)rss_bytes,
						.per_second = -1};
	char live[LIMPET_UNITS_TEXT], held[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	int code = limpet_findings_name(sparse->work, node, &finding, &name);

	if (code < 0)
		return code;
	code = limpet_findings_add(
		sparse->work, &finding,
		"Blocks of %s, %s in all, keep %s of pages, %.0f %% of RSS: the rest of these "
		"pages is free%s.",
		name, limpet_findings_bytes(live, (double)share->live_bytes),
		limpet_findings_bytes(held, (double)share->held_bytes), 100 * finding.share,
		attached ? ", or holds blocks from before the capture" : "");
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

static int find_sparse(struct sparse *sparse, uint64_t rss_bytes)
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
	if (bytes < LEAST_SPARSE_BYTES || (double)bytes < SPARSE_SHARE * (double)rss_bytes)
		return 0;
	return say(sparse, best, sparse->nodes[at], rss_bytes);
}

int limpet_findings_add_pages(struct limpet_findings *findings, const struct limpet_view *view,
			      struct limpet_trace_reader *reader)
{
	struct limpet_findings_work work = {
		.view = view, .model = view->locations->model, .findings = findings};
	struct sparse sparse = {.work = &work, .before_bytes = old_pages(work.model)};
	const uint64_t rss_bytes = limpet_kept_pages_rss(work.model);
	int code;

	/* The blocks at the end are those of the whole capture. */
	if (work.model->windowed || rss_bytes < LEAST_SPARSE_BYTES)
		return 0;
	code = group_sites(&sparse, reader);
	if (code == 0)
		code = limpet_page_shares_new(reader, work.model, sparse.group_of_node,
					      work.model->site_count + 1, &sparse.shares);
	if (code == 0)
		code = find_sparse(&sparse, rss_bytes);
	free(sparse.group_of_node);
	free(sparse.nodes);
	free(sparse.most);
	limpet_page_shares_free(sparse.shares);
	return code == -ENODATA ? 0 : code;
}
