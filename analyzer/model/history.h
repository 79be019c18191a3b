/* Each site over time: the aggregates of a trace's periods, in a bounded number of steps, so that
 * they can be viewed together. What a capture discarded is one step, the first, made of its sums.
 * If the steps do not add up to the model's figures of each site (a sampled trace, a damaged one),
 * there is only one step.
 *
 * Plain structs; everything belongs to the history. */
#ifndef LIMPET_ANALYZER_MODEL_HISTORY_H
#define LIMPET_ANALYZER_MODEL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "common/bytes.h"
#include "common/err.h"

struct limpet_history_step {
	uint32_t step;
	struct limpet_counts counts; /* frees include untracked blocks: the rest is live */
};
struct limpet_history_site {
	uint32_t node;
	uint64_t peak_bytes;              /* at the capture's peak, exactly */
	size_t count;                     /* of the steps in which it has events */
	size_t packed_from, packed_bytes; /* these, see limpet_history_steps() */
};
/* The highest number of live bytes within a step, and when. */
struct limpet_history_high {
	uint64_t bytes, at_ns;
	bool known; /* false: something is damaged, or unknown for what a filter keeps */
};
struct limpet_history {
	uint64_t *edges_ns; /* step n is between edges n and n + 1 */
	size_t step_count;
	struct limpet_history_high *highs; /* of each step */
	bool of_sums; /* the first step is what was discarded: times within it are unknown */
	bool in_one;  /* the steps did not add up, or are of samples: there is only one */
	struct limpet_history_site *sites; /* in the order of the model's */
	size_t site_count;
	struct limpet_model_size *sizes; /* of each of the model's sizes, step_count of them */
	struct limpet_bytes packed;      /* the sites' steps */
	uint32_t *step_of_block; /* for the reader's EVENTS with a PERIOD; UINT32_MAX: others */
};

/* The model must be of the whole capture, and of the same reader. `selection`: what a filter keeps;
 * the model then has only the sites and sizes of that (heap.h); its `parts` are ignored; NULL:
 * all. */
int limpet_history_build(struct limpet_trace_reader *reader, const struct limpet_model *model,
			 size_t most_steps, const struct limpet_replay_options *selection,
			 struct limpet_history **ret_history,
			 struct limpet_err *err) LIMPET_MUST_CHECK;
/* The step that contains that time; the last one: later times, too. */
size_t limpet_history_step_of(const struct limpet_history *history, uint64_t time_ns);
/* The step that contains a row of that block, and the time until which it contains later rows too:
 * `find` of struct limpet_replay_parts. */
size_t limpet_history_find_step(const void *history, size_t block, uint64_t time_ns,
				uint64_t *ret_until_ns);
void limpet_history_free(struct limpet_history *history);

/* The site of that node, or NULL. */
const struct limpet_history_site *limpet_history_site_of(const struct limpet_history *history,
							 uint32_t node);
/* The site's steps, ascending. */
struct limpet_cursor limpet_history_steps(const struct limpet_history *history,
					  const struct limpet_history_site *site);
/* false: there is none left. */
bool limpet_history_next(struct limpet_cursor *steps, struct limpet_history_step *ret_step);

#endif
