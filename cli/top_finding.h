/* The line of `limpet top` that judges: of a finished trace the verdict's first sentence, of a
 * running capture, for which that would take too long, what grew most in the window. */
#ifndef LIMPET_CLI_TOP_FINDING_H
#define LIMPET_CLI_TOP_FINDING_H

#include <stdint.h>

#include "analyzer/views/analysis.h"
#include "analyzer/views/view.h"
#include "common/err.h"

/* *ret_text: a sentence, safe to show, malloc'ed; NULL: there is none. The errors of reading. */
int limpet_top_finding_first(const struct limpet_analysis *analysis, char **ret_text,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* The function and its caller that grew most, with a rate, or with a sum if `window_ns` is 0; NULL:
 * nothing grew. -ENOMEM. */
int limpet_top_finding_growing(const struct limpet_view *view, uint64_t window_ns,
			       char **ret_text) LIMPET_MUST_CHECK;

#endif
