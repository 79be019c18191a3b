/* Views as JSON, for programs: exact numbers, stable keys (cli/limpet.schema.json lists them),
 * unknown is null. Trees are lists of nodes that name their parent, since nesting would exceed
 * readers' limits. */
#ifndef LIMPET_ANALYZER_TEXT_VIEW_JSON_H
#define LIMPET_ANALYZER_TEXT_VIEW_JSON_H

#include <stdio.h>

#include "analyzer/text/view_text.h"

/* One object and a newline. Errors as of limpet_view_text_print(). */
int limpet_view_json_print(struct limpet_analysis *analysis,
			   const struct limpet_view_options *options, FILE *file,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
