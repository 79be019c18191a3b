/* What changed between two heaps, in one sentence, from the verdicts of both. */
#ifndef LIMPET_ANALYZER_VIEWS_DIFF_VERDICT_H
#define LIMPET_ANALYZER_VIEWS_DIFF_VERDICT_H

#include "analyzer/views/diff.h"

/* "Memory grows by 60.0 MiB a minute under load_tile; before, it did not grow." Where the verdicts
 * do not say what grows, or are NULL, live bytes are compared, with the function under which most
 * of the difference is. The rows have their figures. -ENOMEM. */
int limpet_diff_judge(const struct limpet_diff *diff,
		      const struct limpet_verdict *const verdicts[2],
		      char **ret_sentence) LIMPET_MUST_CHECK;

#endif
