/* Names of allocators' functions that are called without a slot: linked into the program. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_NAMES_H
#define LIMPET_INJECTOR_ELF_ENTRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"
#include "injector/elf/allocators.h"

struct limpet_entry_name {
	enum limpet_entry_family family;
	enum limpet_op op;   /* LIMPET_OP_NONE: malloc_usable_size's */
	uint16_t hook_flags; /* LIMPET_HOOK_* of common/wire.h */
	uint32_t symbol;     /* the member of common/family.h to which it corresponds */
	bool only_exported;  /* a program may also give this name to a function of its own */
};

/* Describes a defined function by its name; false: it does not matter to limpet. */
bool limpet_entry_name_find(const char *name, struct limpet_entry_name *ret);

/* Whether a module with a function of this name has the allocator of that family, which has a
 * prefix. Others of its functions' names may be any program's, for another purpose: mi_new,
 * je_free. */
bool limpet_entry_name_proves(const char *name, enum limpet_entry_family *ret);

/* Whether an allocator's library has a function of this name that only jumps to one of its own. In
 * a program it may be anything. */
bool limpet_entry_name_is_forwarded(const char *name);

/* Whether a function of this name is internal to a linked-in allocator: a thread inside it may hold
 * the allocator's locks. */
bool limpet_entry_name_is_inside(const char *name);
/* The name of the allocator to which such a function belongs; NULL: unknown. */
const char *limpet_entry_name_allocator(const char *name);

/* For a function of LIMPET_ENTRY_POOL: the name of the pool, not terminated by a NUL. */
const char *limpet_entry_name_pool(const char *name, size_t *ret_length);

#endif
