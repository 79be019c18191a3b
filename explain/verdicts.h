/* What the accounts mean, in sentences. */
#ifndef LIMPET_EXPLAIN_VERDICTS_H
#define LIMPET_EXPLAIN_VERDICTS_H

#include "explain/explain.h"

/* Judges a complete list of accounts; the most important verdict comes first, and there is at least
 * one. 0 or -ENOMEM. */
int limpet_verdicts_make(struct limpet_explanation *explanation) LIMPET_MUST_CHECK;

#endif
