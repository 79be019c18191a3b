/* The sums that a PERIOD or SUMS block has: of one period, or of several. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_ROLLUP_H
#define LIMPET_COLLECTOR_RECORD_ROLLUP_H

#include "collector/record/accounting.h"
#include "common/site_counts.h"

/* Zero-initialised is empty and valid. */
struct limpet_rollup {
	struct limpet_site_counts sites;
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS];
	struct limpet_accounting_peak peak; /* the highest; `rows` within its own period */
	bool any;
};

void limpet_rollup_done(struct limpet_rollup *rollup);
/* Adds the accounting's period; call before it ends. 0, or -ENOMEM: some of it is missing. */
int limpet_rollup_add(struct limpet_rollup *rollup, struct limpet_accounting *accounting);
/* Forgets everything. */
void limpet_rollup_clear(struct limpet_rollup *rollup);

#endif
