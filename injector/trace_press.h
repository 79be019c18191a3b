/* The press: makes blocks of what the recorder hands it, and has them written.
 *
 * Under load, where there is more than one processor to run on, it does so in a thread of its own,
 * which takes part in nothing else and takes no signals; else in the caller's. Jobs are done in the
 * order in which they come. They stand in a ring of fixed length: who finds it full waits, so that
 * memory stays bounded and a slow disk is felt. Calls come from one thread. */
#ifndef LIMPET_INJECTOR_TRACE_PRESS_H
#define LIMPET_INJECTOR_TRACE_PRESS_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/trace_format.h"
#include "injector/ledger.h"
#include "injector/trace_writer.h"

struct limpet_trace_press;

/* The writer must outlive it; between the first job and _wait() nobody else may use it, but for its
 * figures. NULL: no memory. */
struct limpet_trace_press *limpet_trace_press_new(struct limpet_trace_writer *writer);
/* Before the first rows: their addresses are kept, too. */
void limpet_trace_press_keep_addresses(struct limpet_trace_press *press);
/* The version that marks from here on carry. */
void limpet_trace_press_set_version(struct limpet_trace_press *press, uint16_t version);
/* What it was given is done first. */
void limpet_trace_press_free(struct limpet_trace_press *press);

/* Rows for the next EVENTS block; leaves an empty list in exchange. */
void limpet_trace_press_put_rows(struct limpet_trace_press *press, struct limpet_ledger_rows *rows);
/* Rows that came since the last EVENTS block. */
uint32_t limpet_trace_press_rows(const struct limpet_trace_press *press);
/* An EVENTS block of them. Answers its sequence number. */
uint32_t limpet_trace_press_put_events(struct limpet_trace_press *press, uint64_t first_ns,
				       uint64_t last_ns);
/* An empty content to put sections into; the press's own, valid until it is put. */
struct limpet_bytes *limpet_trace_press_content(struct limpet_trace_press *press);
/* A block of that content. */
void limpet_trace_press_put(struct limpet_trace_press *press, enum limpet_trace_block_type type,
			    uint64_t first_ns, uint64_t last_ns);
/* Of the next block. */
uint32_t limpet_trace_press_sequence(const struct limpet_trace_press *press);
/* The next batch takes the place of all that was flushed since the last that did, or since the
 * first flush; it begins by saying that the numbers from `sequence` to here are not there. */
void limpet_trace_press_replace(struct limpet_trace_press *press, uint32_t sequence);
/* The blocks so far go to the file, as one batch. */
void limpet_trace_press_flush(struct limpet_trace_press *press);
/* Until all that was given is done. Answers the writer's error, or 0. */
int limpet_trace_press_wait(struct limpet_trace_press *press);

#endif
