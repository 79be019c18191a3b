/* Bounds of the most bytes that were live at once, where the order of threads is not known.
 *
 * Events are read in passes, thread after thread: those of one thread come in its order, those of
 * different threads do not. At any moment each thread stood somewhere in its own events. A pass
 * begins when the one before ends, and ends once each thread was, at some moment in it, read up to
 * where it was. So at a moment in pass k all events of the passes before k had happened, and none
 * of those after k + 1 had been published. Hence
 *
 * - the peak is at most the largest, over k, of what was live before pass k, plus for each thread
 *   the most that it can have added in passes k and k + 1;
 * - it is at least what was live before pass k, plus for each thread the least that it can have
 *   added in that pass: when pass k began, each thread was somewhere in it;
 * - it is at least what one thread had at its highest in pass k, while the others were anywhere
 *   from the beginning of pass k - 1 to the end of pass k + 1.
 *
 * A call counts from its record on. But a block can be freed, and allocated by another thread whose
 * record is read, before the free's record is written: for the least, a thread may also be one
 * event further than was read.
 *
 * Records that wait for others (collector/stream/reorder.h) come late, at the latest in the pass
 * after the one in which they were read: each has a place in the order of reading.
 *
 * One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_PEAK_BOUNDS_H
#define LIMPET_COLLECTOR_RECORD_PEAK_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Public only for the inline functions below, which are called for each event: the run of events
 * of one thread, one after the other as they were read, that goes on now. */
struct limpet_peak_now {
	uint64_t tid;        /* NONE: there is none */
	uint32_t next;       /* place of the event that would continue it */
	int64_t most, least; /* live bytes: since its first event; the same, and before */
	int64_t base;        /* live bytes before it, if nothing else had happened since */
};
#define LIMPET_PEAK_NO_TID UINT64_MAX

struct limpet_peak_bounds {
	struct limpet_peak_now now;
	struct limpet_peak_hidden *hidden;
};

/* NULL: no memory. */
struct limpet_peak_bounds *limpet_peak_bounds_new(void);
void limpet_peak_bounds_free(struct limpet_peak_bounds *bounds);

/* Call before an event. Whether it continues the run; otherwise call _begin(), and after the event
 * _began(). */
static inline bool limpet_peak_bounds_continue(struct limpet_peak_bounds *bounds, uint32_t place,
					       uint32_t tid)
{
	struct limpet_peak_now *now = &bounds->now;

	if (place != now->next || tid != now->tid)
		return false;
	now->next++;
	return true;
}
/* `thread`: its dense number; `live`: all bytes before the event. */
void limpet_peak_bounds_begin(struct limpet_peak_bounds *bounds, uint32_t place, uint32_t tid,
			      uint32_t thread, uint64_t live);

/* After each event, and within one that is two. */
static inline void limpet_peak_bounds_see(struct limpet_peak_bounds *bounds, uint64_t live)
{
	struct limpet_peak_now *now = &bounds->now;

	if ((int64_t)live > now->most)
		now->most = (int64_t)live;
	if ((int64_t)live < now->least)
		now->least = (int64_t)live;
}
void limpet_peak_bounds_began(struct limpet_peak_bounds *bounds, uint64_t live);

/* Ends a pass: all events with a place before `place`, which is no event's, were read in it or
 * before, and those of the passes before have been added. */
void limpet_peak_bounds_end_pass(struct limpet_peak_bounds *bounds, uint32_t place, uint64_t live);
/* No event comes any more. Whether events of several threads were read in passes that touch;
 * otherwise the order was known. */
bool limpet_peak_bounds_finish(struct limpet_peak_bounds *bounds, uint64_t live, uint64_t *ret_min,
			       uint64_t *ret_max);

#endif
