/* A trace as a stream: the bytes of a file that is only appended to, for standard output or a Unix
 * socket.
 *
 * A thread writes them; what it has not written yet waits in a queue of fixed length. Nothing else
 * waits for the reader as long as the target is captured: when half of the queue is full, the
 * recorder gives up single events, and when all of it is full, the stream has failed (-ENOBUFS).
 * At the end, when only limpet waits, a reader has LIMPET_TRACE_STREAM_PATIENCE_NS for each step.
 *
 * The blocks that names are looked up for are copied into memory (a memfd): the copy is sealed as
 * a file is, and the blocks that sealing has appended are sent. Main thread only. */
#ifndef LIMPET_COLLECTOR_CAPTURE_TRACE_STREAM_H
#define LIMPET_COLLECTOR_CAPTURE_TRACE_STREAM_H

#include <signal.h>
#include <sys/types.h>

#include "common/err.h"

/* limpet-attach(1) names these. */
#define LIMPET_TRACE_STREAM_QUEUE_BYTES (32u << 20)
#define LIMPET_TRACE_STREAM_COPY_BYTES (256u << 20)
#define LIMPET_TRACE_STREAM_PATIENCE_NS 5000000000ull

struct limpet_trace_sink;
struct limpet_trace_stream;

struct limpet_trace_stream_options {
	const char *name; /* of which limpet_is_stream_name() */
	int fd;           /* for "-": borrowed, open as long as the stream */
	uid_t owner;      /* of the trace: besides root and this user, who may receive it */
};

/* Connects to the socket. Nothing is sent before limpet_trace_stream_begin(): of a capture that
 * never began the reader sees nothing. SIGPIPE must be ignored. */
int limpet_trace_stream_open(const struct limpet_trace_stream_options *options,
			     struct limpet_trace_stream **ret_stream,
			     struct limpet_err *err) LIMPET_MUST_CHECK;
/* What was not written yet is dropped. */
void limpet_trace_stream_free(struct limpet_trace_stream *stream);

void limpet_trace_stream_begin(struct limpet_trace_stream *stream);

/* For a recorder: lives as long as the stream. */
struct limpet_trace_sink *limpet_trace_stream_sink(struct limpet_trace_stream *stream);
/* Its first error, or 0. -EPIPE, -ECONNRESET: the reader has gone. */
int limpet_trace_stream_error(struct limpet_trace_stream *stream);
/* An error of a stream in words. */
const char *limpet_trace_stream_words(int error);

/* When the recorder is done: the copy, open, to be sealed; -ENOSPC: the blocks that names are
 * looked up for are more than LIMPET_TRACE_STREAM_COPY_BYTES, or -errno. */
int limpet_trace_stream_copy(const struct limpet_trace_stream *stream);
/* Then: waits until all is written, what was appended to the copy included, and calls `serve` now
 * and then. Stops waiting once *impatient is set: -EINTR; otherwise 0 or the stream's error. */
int limpet_trace_stream_finish(struct limpet_trace_stream *stream,
			       const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			       void *context);

#endif
