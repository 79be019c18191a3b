/* The directory of received traces, bounded by their sizes: the oldest is removed for the newest.
 *
 * A file is the store's own if it has the name that the store gives to a trace of its head:
 * COMM.PID.HOST.limpet, perhaps with a number. All others are left alone and not counted. One store
 * at a time uses a directory. One thread. */
#ifndef LIMPET_COLLECTOR_RECEIVE_TRACE_STORE_H
#define LIMPET_COLLECTOR_RECEIVE_TRACE_STORE_H

#include <stdint.h>

#include "collector/record/trace_name.h"
#include "common/err.h"

struct limpet_trace_store;

/* Locks the directory: -EBUSY, if another store has it. `removed` is called for each trace that is
 * removed; may be NULL. */
int limpet_trace_store_open(const char *directory, uint64_t keep_bytes,
			    void (*removed)(void *context, const char *name), void *context,
			    struct limpet_trace_store **ret_store,
			    struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_trace_store_free(struct limpet_trace_store *store);

/* A new file, locked as by a capture that writes it, so that it is not removed and readers see that
 * it grows. Returns a descriptor, or -errno. */
int limpet_trace_store_create(struct limpet_trace_store *store, const char *stem,
			      char ret_name[LIMPET_TRACE_NAME_BYTES]) LIMPET_MUST_CHECK;
/* To be called before `bytes` are written to any of these: removes finished traces. -EFBIG: there
 * is no room beside those that are being received. */
int limpet_trace_store_reserve(struct limpet_trace_store *store, uint64_t bytes) LIMPET_MUST_CHECK;
/* They were not written. */
void limpet_trace_store_release(struct limpet_trace_store *store, uint64_t bytes);
/* Closes a file that has `bytes`: it may be removed from now on. An empty one is removed at once.
 */
void limpet_trace_store_close(struct limpet_trace_store *store, int fd, const char *name,
			      uint64_t bytes);

#endif
