/* Pages of figures: the template (report.html, with the style and the scripts beside it), with the
 * figures in it as JSON. Names are hostile: in a page they are data. */
#ifndef LIMPET_ANALYZER_HTML_HTML_PAGE_H
#define LIMPET_ANALYZER_HTML_HTML_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/model.h"
#include "analyzer/text/json_printer.h"
#include "common/bytes.h"
#include "common/err.h"

/* Not JSON values, since large captures have many of these. */
struct limpet_html_node {
	uint32_t parent;
	int32_t address; /* number in `addresses`; -1: none */
};
struct limpet_html_address {
	uint64_t address;
	uint32_t first, module; /* `first`: see limpet_html_add_nodes(); each model numbers its own
				   modules */
	uint32_t number;        /* in `addresses`, + 1; 0: free */
};

struct limpet_html_page {
	struct limpet_json_printer printer; /* to the part that is being printed */
	json_t *strings;                    /* text to number */
	json_t *frames;                     /* a frame's fields, to number */
	json_t *columns;                    /* of the frames */
	json_t *addresses;
	struct limpet_html_address *known; /* open addressing */
	size_t known_capacity;             /* a power of two, or 0 */
	struct limpet_html_node *nodes;
	size_t node_count, node_capacity;
	struct limpet_bytes row; /* see limpet_html_row_begin() */
	bool row_began;          /* it has a member */
};

/* The parts of a page, each a JSON text: the second one is read only when it is looked at. */
enum { LIMPET_HTML_DATA, LIMPET_HTML_LIVES, LIMPET_HTML_PARTS };
typedef void limpet_html_print_fn(struct limpet_html_page *page, void *context);

/* Writes the template, and in it what these functions write to page->printer; NULL: no such part.
 * Returns the printer's error, or -ENOMEM; errors of `file` are found by ferror(). */
int limpet_html_page_print(limpet_html_print_fn *const print[LIMPET_HTML_PARTS], void *context,
			   FILE *file) LIMPET_MUST_CHECK;

/* Takes ownership of `value`, also on failure; the printer has the error. */
void limpet_html_add(struct limpet_html_page *page, json_t *array, json_t *value);

/* An object of numbers and columns of numbers, built without JSON values, since there is one for
 * each site. One at a time. */
void limpet_html_row_begin(struct limpet_html_page *page);
/* The member's value must follow. limpet_html_row_value() takes ownership of it. */
void limpet_html_row_key(struct limpet_html_page *page, const char *key);
void limpet_html_row_value(struct limpet_html_page *page, json_t *value);
void limpet_html_row_number(struct limpet_html_page *page, const char *key, int64_t number);
void limpet_html_row_column(struct limpet_html_page *page, const char *key);
void limpet_html_row_add(struct limpet_html_page *page, int64_t number);
void limpet_html_row_column_end(struct limpet_html_page *page);
/* Writes the object, as an item of the current list, or alone. */
void limpet_html_row_item(struct limpet_html_page *page);
void limpet_html_row_end(struct limpet_html_page *page);

/* Adds the stacks of a model's sites. Returns the number of the model's node 0 in the page. */
uint32_t limpet_html_add_nodes(struct limpet_html_page *page, const struct limpet_model *model);
/* Prints what was added, as members `nodes`, `addresses`, `frames` and `strings`. */
void limpet_html_print_stacks(struct limpet_html_page *page);

/* Memory over time, as columns. */
json_t *limpet_html_timeline(struct limpet_html_page *page, const struct limpet_model *model);

#endif
