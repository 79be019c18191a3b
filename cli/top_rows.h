/* The rows of `limpet top`: a view as a list with folded parts. Rows have keys that stay the same
 * while figures and order change, so that a row stays selected or unfolded. */
#ifndef LIMPET_CLI_TOP_ROWS_H
#define LIMPET_CLI_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/recursion.h"
#include "analyzer/views/view.h"
#include "cli/top_source.h"

enum limpet_top_kind {
	LIMPET_TOP_SITES = 0,
	LIMPET_TOP_CALLERS, /* from the allocation to its callers */
	LIMPET_TOP_CALLEES, /* from main to its callees */
	LIMPET_TOP_MODULES,
	LIMPET_TOP_THREADS,
	LIMPET_TOP_KINDS
};

struct limpet_top_row {
	uint64_t key;
	unsigned depth;
	bool has_children, open;
	bool is_frame; /* of an unfolded stack: no figures of its own */
	bool found;    /* it contains the search text */
	struct limpet_model_site figures;
	uint32_t node; /* of the tree; 0: none */
	struct limpet_recursion
		series;   /* that ends with this row, and is shown once; times 1: none */
	const char *name; /* of a module, else NULL */
	uint32_t tid;
};

struct limpet_top_rows;

/* NULL: out of memory. */
struct limpet_top_rows *limpet_top_rows_new(void);
void limpet_top_rows_free(struct limpet_top_rows *rows);

/* "" for none. Ignores case; searches names of functions, files and modules. */
int limpet_top_rows_search(struct limpet_top_rows *rows, const char *text);

/* Makes a new list. -ENOMEM; -ENODATA: the trace has no threads. */
int limpet_top_rows_fill(struct limpet_top_rows *rows, struct limpet_top_source *source,
			 const struct limpet_view *view,
			 enum limpet_top_kind kind) LIMPET_MUST_CHECK;
size_t limpet_top_rows_list(const struct limpet_top_rows *rows,
			    const struct limpet_top_row **ret_list);
/* For threads of a running capture: the length of the period of their figures; else 0. */
uint64_t limpet_top_rows_threads_ns(const struct limpet_top_rows *rows);

/* Takes effect at the next fill. Opening continues down to the first branch. */
void limpet_top_rows_open(struct limpet_top_rows *rows, uint64_t key, bool open);
/* The same for everything below it; key 0: everything. */
void limpet_top_rows_open_all(struct limpet_top_rows *rows, uint64_t key, bool open);
/* Key of the parent row, 0: none. */
uint64_t limpet_top_rows_parent(const struct limpet_top_rows *rows, uint64_t key);
/* The next match after, or before, a row, wrapping around; opens its parents. 0: there is none. */
uint64_t limpet_top_rows_find(struct limpet_top_rows *rows, uint64_t key, bool backwards);

/* The text of a row, safe to print, its function in at most this many columns; malloc'ed, NULL: out
 * of memory. */
char *limpet_top_rows_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			   size_t columns);
/* A line about a row, in about so many columns: its function, who calls it, and where it is; ""
 * for a module or a thread. malloc'ed, safe to print; NULL: out of memory. */
char *limpet_top_rows_detail(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			     size_t columns);

/* The source of a row's function. */
struct limpet_top_place {
	const struct limpet_function *function; /* NULL: the row is of none */
	const char *file;                       /* path; NULL: unknown */
	/* Of the function's call on the row's largest stack; 0: unknown. */
	uint32_t line;
};
struct limpet_top_place limpet_top_rows_place(const struct limpet_top_rows *rows,
					      const struct limpet_top_row *row);

/* Removes "(anonymous namespace)::", which is of little use where there is little room. */
void limpet_top_rows_drop_nameless(char *name);

#endif
