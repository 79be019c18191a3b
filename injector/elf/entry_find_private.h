/* The search for allocators in one module, step by step. Private to injector/elf/entry_*.c. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_FIND_PRIVATE_H
#define LIMPET_INJECTOR_ELF_ENTRY_FIND_PRIVATE_H

#include "common/family.h"
#include "injector/elf/code_reader.h"
#include "injector/elf/entry_find.h"

#define MAX_FUNCTION_BYTES 65536u
/* By this function an unwinder finds the tables of an address (agent/finder.c). */
#define TABLES_FUNCTION "_dl_find_object"

struct limpet_entry_finder {
	struct limpet_modules *modules;
	const struct limpet_entry_list *list; /* NULL: none */
	struct limpet_module *module;
	struct limpet_entries *entries;
	struct limpet_code_reader *reader;
	struct limpet_entry *found; /* of this module, LIMPET_MAX_ENTRIES */
	size_t count;
	bool is_cut; /* it has more functions than `found` has room for */
	uint64_t usable[LIMPET_ENTRY_FAMILIES];
	uint64_t to_mib[LIMPET_ENTRY_FAMILIES]; /* jemalloc's mallctlnametomib; 0: none */
	bool has_slot[LIMPET_FAMILY_COUNT];
	bool is_allocator;                     /* a library that contains nothing else */
	bool is_proven[LIMPET_ENTRY_FAMILIES]; /* limpet_entry_name_proves() */
	const char *inside; /* the allocator whose internal functions are there; NULL: none */
	uint64_t tables, tables_bytes; /* _dl_find_object of a static program; 0: none */
	bool is_instrumented;
	bool failed;
};

/* Counts functions that cannot be hooked; `why`: NULL if there are no words for it. */
void limpet_entry_refuse(struct limpet_entries *entries, unsigned count, const char *why);
/* entry_collect.c: finds functions by their names. */
void limpet_entry_collect(struct limpet_entry_finder *finder);
/* Notes code of the allocator: a thread in it may hold its locks. */
void limpet_entry_note_inside(struct limpet_entry_finder *finder, uint64_t address, uint64_t bytes);
/* entry_check.c: drops functions that cannot be hooked. `place`: address of the module's
 * hook area. 0; -ENOENT: nothing is left; -ENOTSUP: a function cannot be hooked without which the
 * others would give wrong figures; -errno. */
int limpet_entry_check(struct limpet_entry_finder *finder, uint64_t place);

#endif
