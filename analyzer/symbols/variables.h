/* The variables with static storage of a module: by its symbol table, and where they are defined by
 * its DWARF. Both are walked for each question: few are asked. Addresses are those of the file.
 * Files are hostile input; only for the confined process. */
#ifndef LIMPET_ANALYZER_SYMBOLS_VARIABLES_H
#define LIMPET_ANALYZER_SYMBOLS_VARIABLES_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

struct limpet_variable {
	uint64_t start, bytes;
	const char *symbol; /* as it is in the file; lives as long as the module */
	const char *file;   /* the same; NULL unknown */
	uint32_t line;      /* 0 unknown */
};

/* The object whose symbol covers the address; of several the shortest name. Without file and line.
 */
bool limpet_variables_find(Dwfl_Module *module, uint64_t address,
			   struct limpet_variable *ret_variable);
/* Adds file and line to one that was found, if the DWARF has a variable at `start`, an address of
 * its own. `dwarf` NULL: there is none. */
void limpet_variables_find_line(Dwarf *dwarf, uint64_t start, struct limpet_variable *variable);

#endif
