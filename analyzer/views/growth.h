/* What grew in a heap and stayed, and under which function.
 *
 * A stack has grown by what it holds at the end, if it held some of that for a good part of the
 * window's last quarter. What goes up and down has grown by its lowest points. Pages of a trace of
 * pages count as blocks. */
#ifndef LIMPET_ANALYZER_VIEWS_GROWTH_H
#define LIMPET_ANALYZER_VIEWS_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/views/culprit.h"
#include "analyzer/views/view.h"
#include "common/err.h"

enum limpet_growth_of {
	LIMPET_GROWTH_KEPT, /* stacks that grow to the end, hardly any of whose blocks was freed,
			       and not by a few blocks that are reallocated */
	LIMPET_GROWTH_ON,   /* all that grow to the end */
	LIMPET_GROWTH_ALL,
	LIMPET_GROWTH_SUMS
};
#define LIMPET_GROWTH_LEAST_S 4u      /* a shorter capture does not tell what happened when */
#define LIMPET_GROWTH_KEPT_BLOCKS 16u /* fewer blocks that are kept are no evidence */
/* Stacks that grew, together. */
struct limpet_growth_sum {
	double bytes;
	uint64_t began_ns, ended_ns; /* when a tenth of it was there, and nine tenths */
	/* A block that is reallocated is one block, which is not freed. */
	uint64_t blocks, freed_blocks, live_blocks, reallocations;
	size_t stack_count;
	struct limpet_culprit_stack *stacks; /* by what each has grown; of each site of the view */
};
struct limpet_growth {
	bool judged; /* false: the trace does not tell what happened when: all is in ALL */
	struct limpet_growth_sum sums[LIMPET_GROWTH_SUMS];
	double swing_bytes; /* of all live bytes: their deepest fall */
	/* Internal. */
	struct limpet_culprit_stack *stacks;
	struct limpet_growth_series *series; /* of each site */
};

/* `view`: unfiltered, it must outlive the growth; `history`: of the whole capture. -ENOMEM. */
int limpet_growth_find(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_growth *ret_growth) LIMPET_MUST_CHECK;
void limpet_growth_done(struct limpet_growth *growth);

/* Takes the stacks that a culprit is on out of all sums, and adds them up
 * (without their list). *ret_of: KEPT or ON, if
 * most of what they have grown by is of that sum. -ENOMEM. */
int limpet_growth_extract(struct limpet_growth *growth, const struct limpet_view *view,
			  const struct limpet_culprit *culprit,
			  struct limpet_growth_sum *ret_extracted,
			  enum limpet_growth_of *ret_of) LIMPET_MUST_CHECK;

#endif
