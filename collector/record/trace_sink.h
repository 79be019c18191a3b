/* Where a trace's batches go: a file (trace_file.h), or a stream that is only appended to
 * (collector/capture/trace_stream.h). The writer passes each batch once, and keeps the first error
 * itself. One thread, if not said otherwise. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_SINK_H
#define LIMPET_COLLECTOR_RECORD_TRACE_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"

struct limpet_trace_batch_block {
	uint64_t bytes;
	uint32_t type, sequence;
};

struct limpet_trace_batch {
	struct limpet_bytes bytes;  /* whole blocks */
	struct limpet_bytes blocks; /* a struct limpet_trace_batch_block for each but GAPs */
	bool replacing; /* replaces what came since the last such batch, or since the first */
	bool last;      /* written in spite of an error, into what is reserved for the end */
};

struct limpet_trace_sink;
struct limpet_trace_sink_kind {
	bool appends; /* and nothing else: batches do not replace */
	/* The batch as a whole, or nothing of it: 0 or -errno. */
	int (*write)(struct limpet_trace_sink *sink, const struct limpet_trace_batch *batch);
	/* Whether it may lack room for what comes before the next call, `more` bytes at the end,
	 * and what others need. NULL: never. */
	bool (*is_low)(struct limpet_trace_sink *sink, uint64_t more);
	/* Whether single events are to be left out of what follows, since nobody takes what is
	 * there. Any thread. NULL: never. */
	bool (*is_behind)(struct limpet_trace_sink *sink);
	/* What follows are the blocks of the end: nothing but limpet waits for them. NULL: no
	 * difference. */
	void (*begin_end)(struct limpet_trace_sink *sink);
	/* All is written. */
	int (*finish)(struct limpet_trace_sink *sink);
	/* `discard`: a capture that never began leaves none. NULL: it belongs to another. */
	void (*free)(struct limpet_trace_sink *sink, bool discard);
};

struct limpet_trace_sink {
	const struct limpet_trace_sink_kind *kind;
	const char *name; /* as messages and `limpet status` have it */
	uint64_t bytes;   /* so far; written by one thread, also read by others */
};

static inline void limpet_trace_sink_set_bytes(struct limpet_trace_sink *sink, uint64_t bytes)
{
	__atomic_store_n(&sink->bytes, bytes, __ATOMIC_RELAXED);
}

#endif
