/* Which live blocks were lost at the end of a capture that looked for them (`attach --leaks`), by
 * what is listed. */
#ifndef LIMPET_ANALYZER_VIEWS_LOST_SUMS_H
#define LIMPET_ANALYZER_VIEWS_LOST_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/leak_counts.h"

/* NULL: not known. Nobody looked, or the figures are of another moment than the end, or of a part
 * of the blocks (`filtered`). */
const struct limpet_leak_counts *limpet_lost_counts(const struct limpet_model *model,
						    bool filtered);
/* NULL: none of its blocks was judged. */
const struct limpet_leak_site_counts *limpet_lost_of(const struct limpet_leak_counts *counts,
						     uint32_t node);

/* Sums of stacks. Begins as all zeros. */
struct limpet_lost {
	bool known;       /* blocks of theirs were judged */
	bool is_probable; /* those that are lost are so by all that was seen, but not for certain */
	struct limpet_leak_amount lost, judged; /* the latter: whatever their state */
	uint64_t reachable_bytes;
	/* The stack with most that is reachable and whose holder is known; NULL: none. Of the
	 * counts. */
	const struct limpet_leak_site_counts *held;
};
/* `counts` NULL: adds nothing. */
void limpet_lost_add(struct limpet_lost *lost, const struct limpet_leak_counts *counts,
		     uint32_t node);
/* Of the whole capture; without a holder. */
struct limpet_lost limpet_lost_total(const struct limpet_leak_counts *counts);

/* Nothing points to most of the blocks, and of the bytes. */
static inline bool limpet_lost_is_most(const struct limpet_lost *lost)
{
	return lost->lost.blocks > lost->judged.blocks / 2 &&
	       lost->lost.bytes > lost->judged.bytes / 2;
}

#endif
