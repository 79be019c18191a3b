/* A trace as one page: the template (report.html, with the style and the scripts beside it), with
 * the figures in it. The page itself computes every view, for any part of the time. */
#ifndef LIMPET_ANALYZER_HTML_HTML_H
#define LIMPET_ANALYZER_HTML_HTML_H

#include <stdio.h>

#include "analyzer/model/history.h"
#include "analyzer/model/model.h"
#include "analyzer/views/thread_timeline.h"
#include "analyzer/views/verdict.h"
#include "common/err.h"

struct limpet_html_subject {
	const struct limpet_trace_reader *reader;
	const struct limpet_model *model;
	const struct limpet_history *history;
	const struct limpet_thread_timeline
		*thread_timeline;               /* NULL where there are no single events */
	const struct limpet_verdict *verdict;   /* NULL: it was not judged */
	const struct limpet_model_site *hidden; /* by a filter; NULL: nothing was filtered */
	uint64_t events;                        /* of the capture, whatever the filter */
	uint64_t from_ns, to_ns;                /* what is shown first; to_ns 0: to the end */
};

/* -ENOMEM; errors of `file` are found by ferror(). Names are hostile: in the page they are data. */
int limpet_html_print(const struct limpet_html_subject *subject, FILE *file) LIMPET_MUST_CHECK;

#endif
