/* What is live at the end of a capture, by stack and by the step of a history in which it was
 * allocated: a leak has survivors of every step, a full cache those of its first steps.
 *
 * Plain structs; everything belongs to the survivors. */
#ifndef LIMPET_ANALYZER_VIEWS_SURVIVORS_H
#define LIMPET_ANALYZER_VIEWS_SURVIVORS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "common/err.h"

struct limpet_survivor {
	uint32_t node, step;
	double blocks, bytes; /* a sample counts fractions; when finished: whole */
};
struct limpet_survivors {
	const struct limpet_history *history;
	struct limpet_survivor *list; /* when finished: by node and step */
	size_t count, capacity;
};

/* For each block of a replay that is not freed; `survivors` is zeros but for `history`. -ENOMEM. */
int limpet_survivors_add(struct limpet_survivors *survivors,
			 const struct limpet_replay_block *block) LIMPET_MUST_CHECK;
/* After the last. What else is live of a site is older than the trace's events: it was allocated in
 * the history's first step, which is what was discarded. -ENOMEM. */
int limpet_survivors_finish(struct limpet_survivors *survivors,
			    const struct limpet_model *model) LIMPET_MUST_CHECK;
void limpet_survivors_done(struct limpet_survivors *survivors);

/* The entries of a stack. Returns their number. */
size_t limpet_survivors_of_site(const struct limpet_survivors *survivors, uint32_t node,
				const struct limpet_survivor **ret_list);

#endif
