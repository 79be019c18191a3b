/* What threads did over time, how long the blocks of each site lived, which of them are left, and
 * which threads allocated by it: a replay in the steps of a history, so that a page can show any
 * part of the time.
 *
 * Plain structs; everything belongs to the timeline. */
#ifndef LIMPET_ANALYZER_VIEWS_THREAD_TIMELINE_H
#define LIMPET_ANALYZER_VIEWS_THREAD_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/history.h"
#include "analyzer/model/replay.h"
#include "analyzer/views/site_threads.h"
#include "analyzer/views/survivors.h"

/* One thread in one step. The counts are of blocks that it allocated, whichever thread freed them;
 * own_frees are the calls that it made itself. */
struct limpet_thread_timeline_step {
	uint32_t tid, step;
	struct limpet_counts counts;
	uint64_t own_frees;
};
/* Blocks of one site that were freed in one step at one age, as limpet_replay_age_limits_ns. */
struct limpet_thread_timeline_life {
	uint32_t node, step, age;
	uint64_t blocks, bytes;
};
/* The replay has about this many moments, or one per step if there are more steps. */
#define LIMPET_TIMELINE_MOMENTS 240u

struct limpet_thread_timeline {
	struct limpet_thread_timeline_step *steps; /* by thread and step */
	size_t step_count;
	struct limpet_thread_timeline_life *lives; /* by node, step and age */
	size_t life_count;
	struct limpet_survivors survivors;
	struct limpet_site_threads site_threads;
	/* Of the whole capture. Its moments are parts of steps; none if the oldest events were
	 * given up, since it is unknown what was live then. */
	struct limpet_replay *replay;
};

/* The model is of the whole capture. -ENOMEM, -ENODATA (a trace of sums alone), or the error of a
 * read. selection: what a filter keeps, and the progress; its `parts` are ignored. */
int limpet_thread_timeline_build(
	struct limpet_trace_reader *reader, const struct limpet_model *model,
	const struct limpet_history *history, const struct limpet_replay_options *selection,
	struct limpet_thread_timeline **ret_thread_timeline) LIMPET_MUST_CHECK;
void limpet_thread_timeline_free(struct limpet_thread_timeline *thread_timeline);

/* The steps of a thread, and the lives of a site. Return their number. */
size_t limpet_thread_timeline_thread(const struct limpet_thread_timeline *thread_timeline,
				     uint32_t tid,
				     const struct limpet_thread_timeline_step **ret_steps);
size_t limpet_thread_timeline_site(const struct limpet_thread_timeline *thread_timeline,
				   uint32_t node,
				   const struct limpet_thread_timeline_life **ret_lives);

#endif
