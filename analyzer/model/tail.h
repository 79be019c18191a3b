/* Follows a trace that is still being written: its figures now, and those of a window up to now.
 *
 * An update costs only what is new: PERIOD blocks are added up, EVENTS are read only if a period is
 * not enough (samples, figures of threads). For one thread. */
#ifndef LIMPET_ANALYZER_MODEL_TAIL_H
#define LIMPET_ANALYZER_MODEL_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/namer.h"
#include "analyzer/model/replay.h"
#include "common/err.h"

struct limpet_tail;

/* The errors of limpet_trace_reader_open. */
int limpet_tail_open(const char *path, struct limpet_tail **ret_tail,
		     struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_tail_free(struct limpet_tail *tail);

/* Names are looked up from now on; takes the namer over. */
void limpet_tail_set_namer(struct limpet_tail *tail, struct limpet_namer *namer);

/* Reads what is new. 1: something; 0: nothing; or the errors of reading. */
int limpet_tail_update(struct limpet_tail *tail, struct limpet_err *err) LIMPET_MUST_CHECK;

/* From now on an update ends once it has read `most` sums of sites or rows of events, and the next
 * one continues there; 0, the default: it reads all there is. A trace that is rewritten (a bounded
 * or compact one) is read at once. */
void limpet_tail_bound(struct limpet_tail *tail, size_t most);
/* Whether the last update did not read all that it found. */
bool limpet_tail_is_behind(const struct limpet_tail *tail);

/* The longest window, except for the whole capture. */
#define LIMPET_TAIL_WINDOW_MAX_NS 60000000000ull
/* From now on the model's figures are those of a window (model.h), the last `window_ns`; 0: of the
 * whole capture. What sites held at the peak is unknown, and the timeline is of the whole
 * capture. */
void limpet_tail_window(struct limpet_tail *tail, uint64_t window_ns);

/* After the last update; valid until the next. NULL: out of memory. */
const struct limpet_model *limpet_tail_model(struct limpet_tail *tail);
/* Changes whenever nodes or their names have changed: locations must then be made again. */
uint64_t limpet_tail_generation(const struct limpet_tail *tail);
/* Whether the trace has no writer any more. */
bool limpet_tail_is_over(const struct limpet_tail *tail);

/* The own calls of threads in the window. A call reads a bounded number of events, the newest
 * first: *ret_ns is the part of the window that they cover. *ret_list is malloc'ed, sorted by bytes
 * allocated; returns its length. -ENODATA: the trace has no single events. */
int64_t limpet_tail_threads(struct limpet_tail *tail, struct limpet_replay_thread **ret_list,
			    uint64_t *ret_ns) LIMPET_MUST_CHECK;

#endif
