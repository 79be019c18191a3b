/* The compressor: encodes and compresses blocks of what the recorder hands it, and gives them to
 * the writer.
 *
 * Under load, where there is more than one processor to run on, it does so in a thread of its own,
 * which takes part in nothing else and takes no signals; else in the caller's. Jobs are done in the
 * order in which they come. They stand in a ring of fixed length: who finds it full waits, so that
 * memory stays bounded and a slow disk is felt. Calls come from one thread. */
#ifndef LIMPET_RECORDER_TRACE_COMPRESSOR_H
#define LIMPET_RECORDER_TRACE_COMPRESSOR_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/trace_format.h"
#include "recorder/accounting.h"
#include "recorder/trace_writer.h"

struct limpet_trace_compressor;

/* The writer must outlive it; between the first job and _wait() nobody else may use it, but for its
 * figures. NULL: no memory. */
struct limpet_trace_compressor *limpet_trace_compressor_new(struct limpet_trace_writer *writer);
/* Before the first rows: their addresses are kept, too. */
void limpet_trace_compressor_keep_addresses(struct limpet_trace_compressor *compressor);
/* The version that marks from here on carry. */
void limpet_trace_compressor_set_version(struct limpet_trace_compressor *compressor,
					 uint16_t version);
/* What it was given is done first. */
void limpet_trace_compressor_free(struct limpet_trace_compressor *compressor);

/* Rows for the next EVENTS block; leaves an empty list in exchange. */
void limpet_trace_compressor_put_rows(struct limpet_trace_compressor *compressor,
				      struct limpet_accounting_rows *rows);
/* Rows that came since the last EVENTS block. */
uint32_t limpet_trace_compressor_rows(const struct limpet_trace_compressor *compressor);
/* An EVENTS block of them. Answers its sequence number. */
uint32_t limpet_trace_compressor_put_events(struct limpet_trace_compressor *compressor,
					    uint64_t first_ns, uint64_t last_ns);
/* An empty content to put sections into; the compressor's own, valid until it is put. */
struct limpet_bytes *limpet_trace_compressor_content(struct limpet_trace_compressor *compressor);
/* A block of that content. */
void limpet_trace_compressor_put(struct limpet_trace_compressor *compressor,
				 enum limpet_trace_block_type type, uint64_t first_ns,
				 uint64_t last_ns);
/* Of the next block. */
uint32_t limpet_trace_compressor_sequence(const struct limpet_trace_compressor *compressor);
/* The next batch takes the place of all that was flushed since the last that did, or since the
 * first flush; it begins by saying that the numbers from `sequence` to here are not there. */
void limpet_trace_compressor_replace(struct limpet_trace_compressor *compressor, uint32_t sequence);
/* The blocks so far go to the file, as one batch. */
void limpet_trace_compressor_flush(struct limpet_trace_compressor *compressor);
/* Until all that was given is done. Answers the writer's error, or 0. */
int limpet_trace_compressor_wait(struct limpet_trace_compressor *compressor);

#endif
