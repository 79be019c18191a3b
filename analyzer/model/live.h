/* A trace that is still being written, followed: its figures now, and of the last while.
 *
 * What it costs is what is new: PERIOD blocks are added up, EVENTS are read only where a period
 * does not say enough (samples, threads that are asked for). One thread. */
#ifndef LIMPET_ANALYZER_MODEL_LIVE_H
#define LIMPET_ANALYZER_MODEL_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/namer.h"
#include "analyzer/model/replay.h"
#include "common/err.h"

struct limpet_live;

/* The errors of limpet_trace_reader_open. */
int limpet_live_open(const char *path, struct limpet_live **ret_live,
		     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_live_free(struct limpet_live *live);

/* Names are looked up from now on; the namer becomes its own. */
void limpet_live_take_namer(struct limpet_live *live, struct limpet_namer *namer);

/* Reads what is new. 1: something; 0: nothing; or the errors of reading. */
int limpet_live_update(struct limpet_live *live, struct limpet_err *err) LIMPET_MUST_CHECK;

/* From now on an update ends once it has taken so many sums of sites, or rows of events, and the
 * next one goes on from there; 0, the default: it takes all there is. What is written anew (a
 * bounded or compact trace) is taken at once. */
void limpet_live_bound(struct limpet_live *live, size_t most);
/* The last update did not take all that it found. */
bool limpet_live_is_behind(const struct limpet_live *live);

/* The longest that figures can be had of, beside the whole. */
#define LIMPET_LIVE_WINDOW_MAX_NS 60000000000ull
/* From now on the model's figures are of the last `window_ns`, as of a window there (model.h); 0:
 * of the whole capture. What sites held at the peak is not known, and the timeline is of the whole.
 */
void limpet_live_window(struct limpet_live *live, uint64_t window_ns);

/* As of the last update; valid until the next. NULL: no memory. */
const struct limpet_model *limpet_live_model(struct limpet_live *live);
/* Changes whenever nodes or their names did: places are to be made anew then. */
uint64_t limpet_live_generation(const struct limpet_live *live);
/* Nobody writes the trace any more. */
bool limpet_live_is_over(const struct limpet_live *live);

/* What threads did in the window: their own calls. At most a bounded part of the events is read at
 * a time, the newest first: *ret_ns is how much of the window it is of. *ret_list is malloc'ed, by
 * bytes allocated; answers their number. -ENODATA: the trace has no single events. */
int64_t limpet_live_threads(struct limpet_live *live, struct limpet_replay_thread **ret_list,
			    uint64_t *ret_ns) LIMPET_MUST_CHECK;

#endif
