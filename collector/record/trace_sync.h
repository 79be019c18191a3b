/* Syncs a file to disk at intervals, so that a power failure costs only what was written since the
 * last one.
 *
 * A sync may take long: a thread waits for it that does nothing else and blocks all signals. It is
 * started for the first sync that is due. Call from one thread only. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_SYNC_H
#define LIMPET_COLLECTOR_RECORD_TRACE_SYNC_H

#include <stdint.h>

struct limpet_trace_sync;

/* `fd` is borrowed and must outlive this. The first sync is due `interval_ns` from now, and any two
 * are at least that far apart. NULL: no memory. */
struct limpet_trace_sync *limpet_trace_sync_new(int fd, uint64_t interval_ns);
/* Waits for a sync in progress. */
void limpet_trace_sync_free(struct limpet_trace_sync *sync);

/* Call after each write. If a sync is due, it begins, after one that is in progress. Returns 0, or
 * the error of an earlier sync: the data that it should have kept may be lost. */
int limpet_trace_sync_wrote(struct limpet_trace_sync *sync);

#endif
