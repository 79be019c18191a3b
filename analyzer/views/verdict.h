/* What a capture says before all else: one or two sentences, made of the findings that weigh most.
 * The whole of these is in the findings; nothing is judged here. */
#ifndef LIMPET_ANALYZER_VIEWS_VERDICT_H
#define LIMPET_ANALYZER_VIEWS_VERDICT_H

#include <stddef.h>

#include "analyzer/views/findings.h"
#include "analyzer/views/view.h"
#include "common/err.h"

struct limpet_verdict {
	char *text;
	size_t findings[3]; /* those it is made of, as numbers in their list */
	size_t count;       /* of these: 0 if nothing stands out */
};

/* The view is that of the findings. -ENOMEM. */
int limpet_verdict_new(const struct limpet_findings *findings, const struct limpet_view *view,
		       struct limpet_verdict *ret_verdict) LIMPET_MUST_CHECK;
void limpet_verdict_done(struct limpet_verdict *verdict);

#endif
