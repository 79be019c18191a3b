/* Finds the module of the trace to which an address belongs: updates the trace's list of modules
 * from the target's, and has their files for sealing.
 *
 * A file that limpet keeps open takes its space after it is deleted, and keeps its file system from
 * being unmounted. So a file is held only while it is mapped, and only on the mounts of the program
 * and of the dynamic linker, which are in use anyway. When the capture ends, those that are mapped
 * then and have no name any more are opened; all others are found by path and build. */
#ifndef LIMPET_COLLECTOR_STREAM_MODULE_TABLE_H
#define LIMPET_COLLECTOR_STREAM_MODULE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "common/err.h"
#include "common/wire.h"
#include "injector/elf/modules.h"

/* Files of the target's modules, opened while they were mapped. */
struct limpet_collector_source {
	uint32_t module; /* number in the trace */
	int fd;          /* -1: to be found by its path; owned by the table */
};

struct limpet_module_table;

/* `modules` is the list that the caller keeps up to date; `shm` has the numbers of unloaded
 * modules, NULL: nobody counts them. All must outlive the table. */
int limpet_module_table_new(struct limpet_modules *modules, const struct limpet_shm *shm,
			    struct limpet_recorder *recorder,
			    struct limpet_module_table **ret) LIMPET_MUST_CHECK;
void limpet_module_table_free(struct limpet_module_table *table);
/* Adds new modules. `gone_count`: how many had been unloaded when the modules were read, 0 without
 * `shm`. False: another was unloaded since, and nothing was added. */
bool limpet_module_table_update(struct limpet_module_table *table, uint32_t gone_count);
/* Adds code of modules that is mapped a second time, elsewhere (V8 does so with its builtins, to
 * have them near the code that it compiles): a module of the same file. `maps`: the present ones.
 */
void limpet_module_table_add_again(struct limpet_module_table *table,
				   const struct limpet_maps *maps);
/* The module's number in the trace, 0: none. `gone`: the number of the last module that had been
 * unloaded from this address, as the agent counts them: a module that was loaded there later is not
 * meant, nor an earlier one. */
uint32_t limpet_module_table_find(const struct limpet_module_table *table, uint64_t address,
				  uint32_t gone);
/* The same, of a module that was unloaded before the list of modules was read: as the agent told of
 * it. Its file is looked for by path and build-id when the trace is sealed. */
uint32_t limpet_module_table_find_late(struct limpet_module_table *table, uint64_t address,
				       uint32_t gone);
/* At the end, when nobody waits for limpet: reads which builds the modules without build-id are. */
void limpet_module_table_identify(struct limpet_module_table *table);
size_t limpet_module_table_sources(const struct limpet_module_table *table,
				   const struct limpet_collector_source **ret);

#endif
