#include "collector/record/rollup.h"

#include <errno.h>
#include <string.h>

void limpet_rollup_done(struct limpet_rollup *rollup)
{
	limpet_site_counts_done(&rollup->sites);
	*rollup = (struct limpet_rollup){0};
}

int limpet_rollup_add(struct limpet_rollup *rollup, struct limpet_accounting *accounting)
{
	const struct limpet_size_counts *sizes = limpet_accounting_period_sizes(accounting);
	const struct limpet_accounting_peak peak = limpet_accounting_peak(accounting);
	const size_t count = limpet_accounting_sort_sites(accounting);
	int code = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_site *from = limpet_accounting_site_at(accounting, i);
		struct limpet_site_count *to = limpet_site_counts_at(&rollup->sites, from->node);

		if (to) {
			limpet_counts_add(&to->counts, &from->counts);
			limpet_map_counts_add(&to->maps, &from->maps);
		} else {
			code = -ENOMEM;
		}
	}
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++)
		limpet_size_counts_add(&rollup->sizes[i], &sizes[i]);
	if (!rollup->any || peak.bytes > rollup->peak.bytes)
		rollup->peak = peak;
	rollup->peak.capture_bytes = peak.capture_bytes;
	rollup->peak.capture_ns = peak.capture_ns;
	rollup->any = true;
	return code;
}

void limpet_rollup_clear(struct limpet_rollup *rollup)
{
	limpet_site_counts_clear(&rollup->sites);
	rollup->any = false;
	memset(rollup->sizes, 0, sizeof(rollup->sizes));
}
