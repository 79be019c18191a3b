/* The symbols of a sealed trace, by (module, address). Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_SYMBOLS_H
#define LIMPET_ANALYZER_MODEL_MODEL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"

struct limpet_model_symbols;

/* Reads all SYMBOLS blocks; a damaged one loses only its own symbols. Returns 0, -ENOMEM, or the
 * error of a read. */
int limpet_model_symbols_new(struct limpet_trace_reader *reader,
			     struct limpet_model_symbols **ret_symbols);
void limpet_model_symbols_free(struct limpet_model_symbols *symbols);

/* Adds those of one block, which is a SYMBOLS block, and settles. The same. */
int limpet_model_symbols_add_block(struct limpet_model_symbols *symbols,
				   struct limpet_trace_reader *reader, size_t block);

/* An empty table, or NULL. */
struct limpet_model_symbols *limpet_model_symbols_none(void);
/* Adds one address; its frames are copied. It is found only after the next settle. -ENOMEM. */
int limpet_model_symbols_add(struct limpet_model_symbols *symbols, uint32_t module,
			     uint64_t address, const struct limpet_model_frame *frames,
			     uint32_t count);
void limpet_model_symbols_settle(struct limpet_model_symbols *symbols);
/* Moves all of `from` to `to`, as if added there; `from` is then empty. -ENOMEM: nothing is
 * moved. */
int limpet_model_symbols_move(struct limpet_model_symbols *to, struct limpet_model_symbols *from);

uint32_t limpet_model_symbols_find(const struct limpet_model_symbols *symbols, uint32_t module,
				   uint64_t address, const struct limpet_model_frame **ret_frames);
/* Addresses that were looked up, found or not: without those of scripts, which the capture names.
 */
size_t limpet_model_symbols_count(const struct limpet_model_symbols *symbols);
/* Whether the last seal looked up every address. */
bool limpet_model_symbols_finished(const struct limpet_model_symbols *symbols);

#endif
