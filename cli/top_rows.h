/* The rows of `limpet top`: a view as a list of which parts are folded. Rows have keys that stay
 * the same while figures and order change, so that what is selected or unfolded stays so. */
#ifndef LIMPET_CLI_TOP_ROWS_H
#define LIMPET_CLI_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/view.h"
#include "cli/top_source.h"

enum limpet_top_kind {
	LIMPET_TOP_SITES = 0,
	LIMPET_TOP_CALLERS, /* from the allocation up */
	LIMPET_TOP_CALLEES, /* from main down */
	LIMPET_TOP_MODULES,
	LIMPET_TOP_THREADS,
	LIMPET_TOP_KINDS
};

struct limpet_top_row {
	uint64_t key;
	unsigned depth;
	bool has_children, open;
	bool is_frame; /* of an unfolded stack: no figures of its own */
	bool found;    /* what is searched for is in it */
	struct limpet_model_site figures;
	uint32_t node;    /* of the tree; 0: none */
	const char *name; /* of a module, else NULL */
	uint32_t tid;
};

struct limpet_top_rows;

/* NULL: no memory. */
struct limpet_top_rows *limpet_top_rows_new(void);
void limpet_top_rows_free(struct limpet_top_rows *rows);

/* "" for none. Any case, in names of functions, files and modules. */
int limpet_top_rows_search(struct limpet_top_rows *rows, const char *text);

/* Makes the list anew. -ENOMEM; -ENODATA: there are no threads to be had. */
int limpet_top_rows_fill(struct limpet_top_rows *rows, struct limpet_top_source *source,
			 const struct limpet_view *view,
			 enum limpet_top_kind kind) LIMPET_MUST_CHECK;
size_t limpet_top_rows_list(const struct limpet_top_rows *rows,
			    const struct limpet_top_row **ret_list);
/* Of threads of a running capture: the time that their figures are of; else 0. */
uint64_t limpet_top_rows_threads_ns(const struct limpet_top_rows *rows);

/* The next fill shows it so. Opening goes on down to where the way branches. */
void limpet_top_rows_open(struct limpet_top_rows *rows, uint64_t key, bool open);
/* All that is below it too; key 0: all there is. */
void limpet_top_rows_open_all(struct limpet_top_rows *rows, uint64_t key, bool open);
/* Key of the row that holds it, 0: none. */
uint64_t limpet_top_rows_parent(const struct limpet_top_rows *rows, uint64_t key);
/* The next match after, or before, a row, round the end; opens what holds it. 0: there is none. */
uint64_t limpet_top_rows_find(struct limpet_top_rows *rows, uint64_t key, bool backwards);

/* What a row says beside its figures, safe to show, its function in so many columns at most;
 * malloc'ed, NULL: no memory. */
char *limpet_top_rows_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			   size_t columns);

#endif
