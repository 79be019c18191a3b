/* Makes blocks, and passes them in whole batches to where the trace goes.
 *
 * The first error is permanent; later batches are dropped together with their numbers, so that a
 * reader sees the gap. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_WRITER_H
#define LIMPET_COLLECTOR_RECORD_TRACE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record/trace_sink.h"
#include "common/bytes.h"
#include "common/trace_block.h"

struct limpet_trace_writer;

/* Takes the sink over, also on failure. NULL: no memory. */
struct limpet_trace_writer *limpet_trace_writer_new(struct limpet_trace_sink *sink);
/* What was not flushed is dropped. */
void limpet_trace_writer_free(struct limpet_trace_writer *writer);
/* The same, and removes a file: a capture that never began leaves none. */
void limpet_trace_writer_discard(struct limpet_trace_writer *writer);

const char *limpet_trace_writer_path(const struct limpet_trace_writer *writer);
/* Bytes written. May be called from other threads than the writing one. */
uint64_t limpet_trace_writer_bytes(const struct limpet_trace_writer *writer);
/* The first error, or 0. May be called from other threads, too. */
int limpet_trace_writer_error(const struct limpet_trace_writer *writer);

/* As of struct limpet_trace_sink_kind. */
bool limpet_trace_writer_appends(const struct limpet_trace_writer *writer);
bool limpet_trace_writer_disk_is_low(struct limpet_trace_writer *writer, uint64_t more);
bool limpet_trace_writer_is_behind(const struct limpet_trace_writer *writer);
void limpet_trace_writer_begin_end(struct limpet_trace_writer *writer);

/* Makes a block of that content and adds it to the batch. `mark` names type, sequence number and
 * times. */
int limpet_trace_writer_append(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			       struct limpet_bytes *content);
/* Adds a GAP: blocks with these numbers are not in the trace. */
int limpet_trace_writer_append_gap(struct limpet_trace_writer *writer, uint32_t sequence,
				   uint32_t count);
/* The batch replaces all that was written since the last replacement, or since the first batch. Not
 * together with a bound, nor where the sink only appends. */
void limpet_trace_writer_replace(struct limpet_trace_writer *writer);
/* Writes the batch. */
int limpet_trace_writer_flush(struct limpet_trace_writer *writer);
/* From here on batches are written in spite of an error, into the reserved space. */
void limpet_trace_writer_use_reserve(struct limpet_trace_writer *writer);
/* All is written: what is left to do for the file. */
int limpet_trace_writer_finish(struct limpet_trace_writer *writer);

#endif
