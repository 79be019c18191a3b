/* Appends symbols to a finished trace. No block in the file changes; if limpet is killed meanwhile,
 * readers see the blocks that are whole. */
#ifndef LIMPET_ANALYZER_SEAL_TRACE_APPEND_H
#define LIMPET_ANALYZER_SEAL_TRACE_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "common/err.h"

struct limpet_trace_append;

/* Locks the trace for writing. -EBUSY: its writer, or another seal, is alive; otherwise the errors
 * of limpet_trace_reader_open and open(2). */
int limpet_trace_append_open(const char *path, struct limpet_trace_append **ret_append,
			     struct limpet_err *err) LIMPET_MUST_CHECK;

/* The file whose symbols were used for a module; build_id_bytes 0: it has none. */
int limpet_trace_append_file(struct limpet_trace_append *append, uint32_t module, const char *file,
			     const uint8_t *build_id, uint32_t build_id_bytes);
/* Frames of one address, innermost first, copied. A later entry for the same address replaces an
 * earlier one of this or a former seal. count 0: looked up, nothing found. */
int limpet_trace_append_symbol(struct limpet_trace_append *append, uint32_t module,
			       uint64_t address, const struct limpet_model_frame *frames,
			       uint32_t count);
/* Writes what was appended so far as whole blocks; also done automatically when it is large. */
int limpet_trace_append_flush(struct limpet_trace_append *append);
/* Flushes, records whether every address was looked up, and calls fsync(2). Frees nothing. */
int limpet_trace_append_finish(struct limpet_trace_append *append, bool complete);
/* Discards what was not flushed. */
void limpet_trace_append_free(struct limpet_trace_append *append);

#endif
