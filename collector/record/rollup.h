/* Rollup: the combined sums of several periods, by site. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_ROLLUP_H
#define LIMPET_COLLECTOR_RECORD_ROLLUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/accounting.h"

struct limpet_rollup;

/* NULL: no memory. */
struct limpet_rollup *limpet_rollup_new(void);
void limpet_rollup_free(struct limpet_rollup *rollup);

/* Adds the accounting's period; call before it ends. 0, or -ENOMEM: some of it is missing. */
int limpet_rollup_add(struct limpet_rollup *rollup, struct limpet_accounting *accounting);
/* Forgets everything. */
void limpet_rollup_clear(struct limpet_rollup *rollup);

/* Sorts the sites by node. Returns their number. */
size_t limpet_rollup_sort(struct limpet_rollup *rollup);
/* One of these, in that order; only its figures of a period are valid. */
const struct limpet_site *limpet_rollup_at(const struct limpet_rollup *rollup, size_t index);
const struct limpet_accounting_size *limpet_rollup_sizes(const struct limpet_rollup *rollup);
/* The highest peak of the periods that were added; its `rows` is 0. */
struct limpet_accounting_peak limpet_rollup_peak(const struct limpet_rollup *rollup);

#endif
