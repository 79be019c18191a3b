/* Names, files and lines for variables of a live process's modules, from the modules' files
 * (analyzer/symbols). Main thread. */
#ifndef LIMPET_CLI_VARIABLE_NAMES_H
#define LIMPET_CLI_VARIABLE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/symbols/symbolize.h"
#include "collector/capture/leak_search.h"

struct limpet_module;
struct limpet_target;

#define LIMPET_VARIABLE_MODULES 4u

/* Begins as all zeros but the target. */
struct limpet_variable_names {
	const struct limpet_target *target; /* borrowed, as the modules */
	struct {
		const struct limpet_module *module;
		struct limpet_symbolizer *symbolizer; /* NULL: none could be opened */
	} list[LIMPET_VARIABLE_MODULES];
	size_t count;
};
void limpet_variable_names_done(struct limpet_variable_names *names);
/* The variable at this address of the process, whose `start` is one of the process, too. False: not
 * known. Strings live as long as `names`. */
bool limpet_variable_names_find(struct limpet_variable_names *names,
				const struct limpet_module *module, uint64_t address,
				struct limpet_symbol_variable *ret_variable);
/* "registry (server.c:31)"; malloc'ed, or NULL. */
char *limpet_variable_words(const struct limpet_symbol_variable *variable);
/* The same for a capture (leak_search.h): a limpet_name_variable_fn for one target. */
bool limpet_variable_name(const struct limpet_target *target, const struct limpet_module *module,
			  uint64_t address, struct limpet_leak_variable *ret);

#endif
