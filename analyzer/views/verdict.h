/* What a capture says before all else: how much memory is in question and whose it is, what
 * resident memory is made of, and what to type next. Every report, page and `top` has these
 * sentences. */
#ifndef LIMPET_ANALYZER_VIEWS_VERDICT_H
#define LIMPET_ANALYZER_VIEWS_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/views/findings.h"
#include "analyzer/views/view.h"
#include "common/err.h"

enum { LIMPET_VERDICT_SENTENCES = 3 };

struct limpet_verdict {
	char *sentences[LIMPET_VERDICT_SENTENCES]; /* safe to show; NULL after the last */
	struct limpet_heap_finding about;          /* its text is NULL: it is the first sentence */
	struct limpet_heap_findings findings;      /* the others */
	const char *part; /* of resident memory that it is about; NULL: blocks, or nothing */
	bool judged;      /* the trace tells what grew */
	bool changed;     /* what it is about came in the window; else it lies there */
};

/* `view`: the capture or a window of it, unfiltered; `history`: the whole capture. `reader`: for
 * single blocks; NULL: they are not read. `file`: the trace, as it is to be typed; NULL: there is
 * none. -ENOMEM, or the error of a read. */
int limpet_verdict_new(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_trace_reader *reader, const char *file,
		       struct limpet_verdict *ret_verdict) LIMPET_MUST_CHECK;
void limpet_verdict_done(struct limpet_verdict *verdict);

#endif
