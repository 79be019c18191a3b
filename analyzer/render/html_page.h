/* Pages of figures: the template that the build has made of html/, with the figures in it as JSON.
 * Names are hostile: in a page they are data. */
#ifndef LIMPET_ANALYZER_RENDER_HTML_PAGE_H
#define LIMPET_ANALYZER_RENDER_HTML_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/model.h"
#include "analyzer/render/json_printer.h"
#include "common/err.h"

struct limpet_html_page {
	struct limpet_json_printer printer; /* to a file in which no text ends the page's element */
	json_t *strings;                    /* text to number */
	json_t *frames;                     /* what a frame looks like, to number */
	json_t *columns;                    /* of the frames */
	json_t *known; /* (first node of the model, module, address) to number in `addresses` */
	json_t *addresses;
	json_t *parents, *node_addresses; /* of the nodes */
};

/* Writes the template, and in it what print_data() writes to page->printer. The printer's error, or
 * -ENOMEM; errors of `file` are found by ferror(). */
int limpet_html_page_print(void (*print_data)(struct limpet_html_page *page, void *context),
			   void *context, FILE *file) LIMPET_MUST_CHECK;

/* The value becomes the array's, also after a failure, which is the printer's. */
void limpet_html_add(struct limpet_html_page *page, json_t *array, json_t *value);

/* The stacks of a model's sites. Answers the number that its node 0 has in the page. */
uint32_t limpet_html_add_nodes(struct limpet_html_page *page, const struct limpet_model *model);
/* What was added, as members `nodes`, `addresses`, `frames` and `strings`. */
void limpet_html_print_stacks(struct limpet_html_page *page);

/* Memory over time, as columns. */
json_t *limpet_html_timeline(struct limpet_html_page *page, const struct limpet_model *model);

#endif
