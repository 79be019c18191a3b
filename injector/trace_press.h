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
/* The blocks so far go to the file, as one batch. */
void limpet_trace_press_flush(struct limpet_trace_press *press);
/* Until all that was given is done. Answers the writer's error, or 0. */
int limpet_trace_press_wait(struct limpet_trace_press *press);

#endif
