/* What threads did over time, and how long the blocks of each site lived: a replay, in the steps of
 * a history, so that a page can look at any part of the time.
 *
 * Plain structs; everything belongs to the course. */
#ifndef LIMPET_ANALYZER_COURSE_H
#define LIMPET_ANALYZER_COURSE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/history.h"
#include "analyzer/replay.h"

/* Of one thread in one step: of the blocks that it allocated, whoever freed them, but for
 * own_frees: calls that it made. */
struct limpet_course_step {
	uint32_t tid, step;
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary, own_frees;
};
/* Blocks of one site that were freed in one step at one age, as limpet_replay_age_limits_ns. */
struct limpet_course_life {
	uint32_t node, step, age;
	uint64_t blocks, bytes;
};
/* About so many moments has the replay, or as many as there are steps if these are more. */
#define LIMPET_COURSE_MOMENTS 240u

struct limpet_course {
	struct limpet_course_step *steps; /* by thread and step */
	size_t step_count;
	struct limpet_course_life *lives; /* by node, step and age */
	size_t life_count;
	/* Of the whole capture. Its moments are parts of steps; none where the oldest
	 * events were given up, as nobody knows what was live then. */
	struct limpet_replay *replay;
};

/* The model is of the whole capture. -ENOMEM, -ENODATA (a trace of sums alone), or the error of a
 * read. selection: what a filter keeps, and the progress; its `parts` are not looked at. */
int limpet_course_build(struct limpet_trace_reader *reader, const struct limpet_model *model,
			const struct limpet_history *history,
			const struct limpet_replay_options *selection,
			struct limpet_course **ret_course) LIMPET_MUST_CHECK;
void limpet_course_free(struct limpet_course *course);

/* The steps of a thread, and the lives of a site. Answer their number. */
size_t limpet_course_thread(const struct limpet_course *course, uint32_t tid,
			    const struct limpet_course_step **ret_steps);
size_t limpet_course_site(const struct limpet_course *course, uint32_t node,
			  const struct limpet_course_life **ret_lives);

#endif
