/* The functions of a module's symbol table, sorted once; dwfl_module_addrinfo() takes 2 ms a
 * look-up on large modules. Addresses are those of the Dwfl's module. Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMTAB_H
#define LIMPET_ANALYZER_SYMBOLS_SYMTAB_H

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_symtab;

/* From .symtab of the module or its debug file, .gnu_debugdata, or .dynsym: what libdwfl finds.
 * `module` must outlive the table. An empty table is no error; -ENOMEM. */
int limpet_symtab_new(Dwfl_Module *module, struct limpet_symtab **ret);
void limpet_symtab_free(struct limpet_symtab *symtab);

/* The name, as it is in the file, of the function that covers `address`, or NULL. Of several
 * aliases, the best known: `malloc` before `__libc_malloc`. */
const char *limpet_symtab_find(struct limpet_symtab *symtab, uint64_t address);

#endif
