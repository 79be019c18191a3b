#include "analyzer/views/kept_pages.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

static uint64_t spare(const struct limpet_page_share *share)
{
	return share->held_bytes > share->resident_live_bytes
		       ? share->held_bytes - share->resident_live_bytes
		       : 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct limpet_kept_pages_row *x = a, *y = b;

	if (spare(&x->share) != spare(&y->share))
		return spare(&x->share) > spare(&y->share) ? -1 : 1;
	if (x->share.held_bytes != y->share.held_bytes)
		return x->share.held_bytes > y->share.held_bytes ? -1 : 1;
	return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

/* Numbers the leaves that sites end at; the number after the last is for stacks that the view does
 * not have. *ret_leaves: by number. */
static int number_nodes(const struct limpet_view *view, const struct limpet_view_tree *tree,
			struct limpet_trace_reader *reader, uint32_t **ret_groups,
			uint32_t **ret_leaves, uint32_t *ret_count)
{
	const struct limpet_trace_node *nodes;
	const uint32_t node_count = limpet_trace_reader_nodes(reader, &nodes);
	LIMPET_FREE uint32_t *number_of_leaf = calloc(tree->count + 1ul, sizeof(uint32_t));
	uint32_t *groups = calloc(node_count + 1ul, sizeof(*groups));
	uint32_t *leaves = calloc(view->site_count + 1, sizeof(*leaves));
	uint32_t count = 0;

	*ret_groups = groups;
	*ret_leaves = leaves;
	if (!groups || !leaves || !number_of_leaf)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++) {
		const uint32_t leaf = tree->leaf_of_site[i];

		if (!number_of_leaf[leaf]) {
			leaves[count] = leaf;
			number_of_leaf[leaf] = ++count;
		}
		/* + 1, so that 0 is none. */
		if (view->sites[i].node < node_count)
			groups[view->sites[i].node] = number_of_leaf[leaf];
	}
	for (uint32_t i = 0; i < node_count; i++)
		groups[i] = groups[i] ? groups[i] - 1 : count;
	*ret_count = count;
	return 0;
}

uint64_t limpet_kept_pages_rss(const struct limpet_model *model)
{
	for (size_t i = model->timeline_count; i-- > 0;)
		if (model->timeline[i].rss_bytes)
			return limpet_model_point_rss(&model->timeline[i]);
	return 0;
}

static int fill(struct limpet_kept_pages *pages, const struct limpet_page_shares *shares,
		const uint32_t *leaves)
{
	const size_t groups = shares->count - 1;

	pages->rows = calloc(groups + 1, sizeof(*pages->rows));
	if (!pages->rows)
		return -ENOMEM;
	for (size_t i = 0; i < groups; i++)
		if (shares->groups[i].blocks)
			pages->rows[pages->count++] =
				(struct limpet_kept_pages_row){leaves[i], shares->groups[i]};
	qsort(pages->rows, pages->count, sizeof(*pages->rows), compare_rows);
	pages->all = shares->all;
	pages->hidden = shares->groups[groups];
	pages->page_bytes = shares->page_bytes;
	pages->unexamined_blocks = shares->unexamined_blocks;
	pages->unexamined_bytes = shares->unexamined_bytes;
	return 0;
}

int limpet_kept_pages_new(const struct limpet_view *view, const struct limpet_view_tree *tree,
			  struct limpet_trace_reader *reader, struct limpet_kept_pages **ret_pages)
{
	const struct limpet_model *model = view->locations->model;
	struct limpet_kept_pages *pages = calloc(1, sizeof(*pages));
	LIMPET_FREE uint32_t *groups = NULL;
	LIMPET_FREE uint32_t *leaves = NULL;
	struct limpet_page_shares *shares = NULL;
	uint32_t count;
	int code = pages ? number_nodes(view, tree, reader, &groups, &leaves, &count) : -ENOMEM;

	if (code == 0)
		code = limpet_page_shares_new(reader, model, groups, count + 1ul, &shares);
	if (code == 0) {
		code = fill(pages, shares, leaves);
		pages->rss_bytes = limpet_kept_pages_rss(model);
	}
	limpet_page_shares_free(shares);
	if (code < 0) {
		limpet_kept_pages_free(pages);
		return code;
	}
	*ret_pages = pages;
	return 0;
}

void limpet_kept_pages_free(struct limpet_kept_pages *pages)
{
	if (!pages)
		return;
	free(pages->rows);
	free(pages);
}
