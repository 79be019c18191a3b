/* Which module of the trace an address belongs to: keeps the trace's list of modules in step with
 * the target's, and the files of the modules open for sealing. */
#ifndef LIMPET_COLLECTOR_MODULE_TABLE_H
#define LIMPET_COLLECTOR_MODULE_TABLE_H

#include "collector/collector.h"
#include "injector/session.h"
#include "recorder/recorder.h"

struct limpet_module_table;

int limpet_module_table_new(struct limpet_session *session, struct limpet_recorder *recorder,
			    struct limpet_module_table **ret) LIMPET_MUST_CHECK;
void limpet_module_table_free(struct limpet_module_table *table);
/* Enters modules that are new. `gone_count`: how many had gone, as of when the modules were looked
 * at. False: one more has gone since, and nothing was entered. */
bool limpet_module_table_update(struct limpet_module_table *table, uint32_t gone_count);
/* Enters code of modules that is mapped once more, elsewhere (V8 does so with its builtins, to have
 * them near what it compiles): a module of the same file. `maps`: as they are now. */
void limpet_module_table_add_again(struct limpet_module_table *table,
				   const struct limpet_maps *maps);
/* Number in the trace, 0: none. `gone`: which module had gone from there, as the agent numbers
 * them: one that came to lie there later is not meant, nor one that was there before. */
uint32_t limpet_module_table_find(const struct limpet_module_table *table, uint64_t address,
				  uint32_t gone);
size_t limpet_module_table_sources(const struct limpet_module_table *table,
				   const struct limpet_collector_source **ret);

#endif
