/* The compressor makes columns of rows, at once, and compresses the recorder's blocks and passes
 * them to the writer: under load, if more than one processor is available, by a thread that does
 * nothing else and blocks all signals; otherwise by the caller.
 *
 * Jobs are done in order. They are in a ring of fixed length, and there are two sets of columns: a
 * caller that finds the ring full, or has filled one set while the other is not written yet, waits,
 * so that memory is bounded and a slow disk slows the caller down. Call from one thread only. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_COMPRESSOR_H
#define LIMPET_COLLECTOR_RECORD_TRACE_COMPRESSOR_H

#include <stdint.h>

#include "collector/record/accounting.h"
#include "collector/record/trace_writer.h"
#include "common/bytes.h"
#include "common/trace_format.h"

struct limpet_trace_compressor;

/* The writer must outlive the compressor. Between the first job and _wait() it may not be used
 * otherwise, except to read its figures. NULL: no memory. */
struct limpet_trace_compressor *limpet_trace_compressor_new(struct limpet_trace_writer *writer);
/* Call before the first rows: keeps their addresses, too. */
void limpet_trace_compressor_keep_addresses(struct limpet_trace_compressor *compressor);
/* Does the remaining jobs first. */
void limpet_trace_compressor_free(struct limpet_trace_compressor *compressor);

/* Adds rows to the next EVENTS block: at once, by the caller. */
void limpet_trace_compressor_append_rows(struct limpet_trace_compressor *compressor,
					 const struct limpet_accounting_rows *rows);
/* Number of rows since the last EVENTS block. */
uint32_t limpet_trace_compressor_rows(const struct limpet_trace_compressor *compressor);
/* Makes an EVENTS block of these rows. Returns its sequence number. */
uint32_t limpet_trace_compressor_append_events(struct limpet_trace_compressor *compressor,
					       uint64_t first_ns, uint64_t last_ns);
/* Forgets these rows. Returns their number. */
uint32_t limpet_trace_compressor_drop_rows(struct limpet_trace_compressor *compressor);
/* A GAP in place of an EVENTS block. Returns its sequence number. */
uint32_t limpet_trace_compressor_append_gap(struct limpet_trace_compressor *compressor);
/* An empty content, to which sections can be appended. The compressor owns it; valid until it is
 * put. */
struct limpet_bytes *limpet_trace_compressor_content(struct limpet_trace_compressor *compressor);
/* Makes a block of that content. */
void limpet_trace_compressor_append(struct limpet_trace_compressor *compressor,
				    enum limpet_trace_block_type type, uint64_t first_ns,
				    uint64_t last_ns);
/* Sequence number of the next block. */
uint32_t limpet_trace_compressor_sequence(const struct limpet_trace_compressor *compressor);
/* The next batch replaces all that was flushed since the last replacement, or since the first
 * flush. It begins with a GAP for the numbers from `sequence` to here. */
void limpet_trace_compressor_replace(struct limpet_trace_compressor *compressor, uint32_t sequence);
/* Writes the blocks so far to the file, as one batch. */
void limpet_trace_compressor_flush(struct limpet_trace_compressor *compressor);
/* Waits until all jobs are done. Returns the writer's error, or 0. */
int limpet_trace_compressor_wait(struct limpet_trace_compressor *compressor);

#endif
