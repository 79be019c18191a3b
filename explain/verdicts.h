/* What the accounts mean, in sentences. */
#ifndef LIMPET_EXPLAIN_VERDICTS_H
#define LIMPET_EXPLAIN_VERDICTS_H

#include "explain/explanation.h"

/* Judges a complete list of accounts. What a remedy returns at once comes first, then the largest
 * amount; there is at least one verdict. 0 or -ENOMEM. */
int limpet_verdicts_make(struct limpet_explanation *explanation) LIMPET_MUST_CHECK;

#endif
