/* Rollup: the figures of several periods as one, site by site. One thread. */
#ifndef LIMPET_RECORDER_ROLLUP_H
#define LIMPET_RECORDER_ROLLUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/accounting.h"

struct limpet_rollup;

/* NULL: no memory. */
struct limpet_rollup *limpet_rollup_new(void);
void limpet_rollup_free(struct limpet_rollup *rollup);

/* Adds the accounting's period, before its end. 0, or -ENOMEM: some of it is missing. */
int limpet_rollup_add(struct limpet_rollup *rollup, struct limpet_accounting *accounting);
/* Forgets all. */
void limpet_rollup_clear(struct limpet_rollup *rollup);

/* Orders the sites by node. Answers their number. */
size_t limpet_rollup_sort(struct limpet_rollup *rollup);
/* Of these, in that order; of its figures only those of a period mean anything. */
const struct limpet_site *limpet_rollup_at(const struct limpet_rollup *rollup, size_t index);
const struct limpet_accounting_size *limpet_rollup_sizes(const struct limpet_rollup *rollup);
/* The highest point of all that was added; no rows. */
struct limpet_accounting_peak limpet_rollup_peak(const struct limpet_rollup *rollup);

#endif
