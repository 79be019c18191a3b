/* The pages that live blocks keep, by site: page_shares.h for stacks that look alike. */
#ifndef LIMPET_ANALYZER_VIEWS_KEPT_PAGES_H
#define LIMPET_ANALYZER_VIEWS_KEPT_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/page_shares.h"
#include "analyzer/views/view.h"

struct limpet_kept_pages_row {
	uint32_t leaf; /* in a tree from the top down */
	struct limpet_page_share share;
};
struct limpet_kept_pages {
	struct limpet_kept_pages_row *rows; /* by pages held less the live bytes on them */
	size_t count;
	struct limpet_page_share all, hidden; /* the rows and `hidden`; blocks of other stacks */
	uint64_t page_bytes;
	uint64_t unexamined_blocks, unexamined_bytes;
	uint64_t rss_bytes; /* at the end, without limpet's own; 0: not known */
};
/* `tree` is of this view. The errors of limpet_page_shares_new(). */
int limpet_kept_pages_new(const struct limpet_view *view, const struct limpet_view_tree *tree,
			  struct limpet_trace_reader *reader,
			  struct limpet_kept_pages **ret_pages) LIMPET_MUST_CHECK;
void limpet_kept_pages_free(struct limpet_kept_pages *pages);

/* Resident memory at the model's end, without limpet's own; 0: not known. */
uint64_t limpet_kept_pages_rss(const struct limpet_model *model);

#endif
