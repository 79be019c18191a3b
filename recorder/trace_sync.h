/* Has what was written to a file brought to the disk now and then, so that a loss of power costs no
 * more than what came since.
 *
 * A disk may take its time: a thread of its own waits for it, which takes part in nothing else and
 * takes no signals. It begins with the first sync that is due. Calls come from one thread. */
#ifndef LIMPET_RECORDER_TRACE_SYNC_H
#define LIMPET_RECORDER_TRACE_SYNC_H

#include <stdint.h>

struct limpet_trace_sync;

/* Of `fd`, which is borrowed and must outlive it; from `interval_ns` after now, with as much time
 * between any two. NULL: no memory. */
struct limpet_trace_sync *limpet_trace_sync_new(int fd, uint64_t interval_ns);
/* Waits for a sync that is under way. */
void limpet_trace_sync_free(struct limpet_trace_sync *sync);

/* Something was written. Where one is due and none under way, a sync begins. Answers 0, or the
 * error of one before: what it was to keep may be lost. */
int limpet_trace_sync_wrote(struct limpet_trace_sync *sync);

#endif
