/* What verdict and findings are made from. Internal to them. */
#ifndef LIMPET_ANALYZER_VIEWS_CANDIDATES_H
#define LIMPET_ANALYZER_VIEWS_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/views/findings.h"
#include "analyzer/views/growth.h"
#include "analyzer/views/lost_sums.h"
#include "analyzer/views/resident_parts.h"
#include "common/err.h"

struct limpet_evidence {
	const struct limpet_view *view;
	const struct limpet_model *model;
	struct limpet_trace_reader *reader; /* NULL: no single blocks */
	struct limpet_growth growth;        /* rules take out what they have found */
	struct limpet_parts parts;
	struct limpet_growth_sum all_growth; /* as it was before; without stacks */
	double live_change;                  /* of all blocks, those from before included */
	double seconds;
};

struct limpet_candidate {
	struct limpet_heap_finding finding;
	double weight;                  /* 0: the verdict is never about it */
	const struct limpet_part *part; /* NULL: it is about blocks */
	bool is_lost;                   /* it says that blocks are lost */
};
struct limpet_candidates {
	struct limpet_candidate *list;
	size_t count, capacity;
};

/* All that the rules find, the heaviest first. -ENOMEM, or the error of a read. */
int limpet_candidates_find(struct limpet_evidence *evidence,
			   struct limpet_candidates *ret_candidates) LIMPET_MUST_CHECK;
void limpet_candidates_done(struct limpet_candidates *candidates);
/* Takes over what the finding owns, also on -ENOMEM. */
int limpet_candidates_add(struct limpet_candidates *candidates,
			  const struct limpet_candidate *candidate) LIMPET_MUST_CHECK;

/* Blocks that keep many pages: sparse_pages.c. */
int limpet_candidates_find_sparse(struct limpet_evidence *evidence, double least_bytes,
				  double least_share,
				  struct limpet_candidates *candidates) LIMPET_MUST_CHECK;

/* Lost blocks, whether something grows or not, unless that says it: lost_blocks.c. One of the
 * limits is enough; the share is of live bytes. `weight`: of a byte, where nothing grows. */
int limpet_candidates_find_lost(struct limpet_evidence *evidence, double least_bytes,
				double least_share, double weight,
				struct limpet_candidates *candidates) LIMPET_MUST_CHECK;
/* Of what has grown under the culprit: `stacks` are of the view's sites, by that. All zeros: not
 * known. -ENOMEM. */
int limpet_evidence_lost(const struct limpet_evidence *evidence,
			 const struct limpet_culprit *culprit,
			 const struct limpet_culprit_stack *stacks,
			 struct limpet_lost *ret_lost) LIMPET_MUST_CHECK;
/* The words of what has grown, and that it is lost; else its holder, and what was `freed`. A long
 * one ends before the last. malloc'ed; NULL: no memory. */
char *limpet_evidence_sentence(const struct limpet_culprit *culprit, const char *words,
			       const char *freed, const struct limpet_lost *lost);

/* Resident memory at the end, or before the capture if it is not known. */
static inline double limpet_evidence_rss(const struct limpet_evidence *evidence)
{
	return (double)(evidence->parts.bytes ? evidence->parts.bytes
					      : evidence->parts.before_bytes);
}
/* Whether blocks replace older ones, by what was freed of these. */
bool limpet_evidence_is_replaced(const struct limpet_evidence *evidence,
				 const struct limpet_growth_sum *sum);
/* Who holds most of what is live, or of what was at the peak. -ENOMEM. */
int limpet_evidence_holder(const struct limpet_evidence *evidence, bool peak,
			   struct limpet_culprit *ret_culprit) LIMPET_MUST_CHECK;

#endif
