/* Names of allocators' functions that are called without a slot: linked into the program. */
#ifndef LIMPET_INJECTOR_IMAGE_ENTRY_NAMES_H
#define LIMPET_INJECTOR_IMAGE_ENTRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

enum limpet_entry_family {
	LIMPET_ENTRY_PLAIN,     /* malloc and its kin */
	LIMPET_ENTRY_OPERATORS, /* new and delete, which the program has replaced */
	LIMPET_ENTRY_RUST_JE,   /* _rjem_* */
	LIMPET_ENTRY_JEMALLOC,  /* je_* */
	LIMPET_ENTRY_MIMALLOC,  /* mi_* */
	LIMPET_ENTRY_TCMALLOC,  /* tc_* */
	LIMPET_ENTRY_LISTED,    /* by the user (entry_list.h) */
	LIMPET_ENTRY_POOL,      /* limpet_pool_*, of include/limpet.h */
	LIMPET_ENTRY_NIM,       /* Nim's own allocator (entry_nim.h) */
	LIMPET_ENTRY_FINDER,    /* no allocator's: _dl_find_object, of a static program's libc */
	LIMPET_ENTRY_FAMILIES
};

struct limpet_entry_name {
	enum limpet_entry_family family;
	enum limpet_op op;   /* LIMPET_OP_NONE: malloc_usable_size's */
	uint16_t hook_flags; /* LIMPET_HOOK_* of common/wire.h */
	uint32_t symbol;     /* the member of common/family.h that it is like */
	bool only_exported;  /* a name that a program may also give to something of its own */
};

/* What a defined function of this name is; false: nothing to us. */
bool limpet_entry_name_find(const char *name, struct limpet_entry_name *ret);

/* Whether a function of this name belongs to a linked-in allocator's inside: a thread that stands
 * there may hold its locks. */
bool limpet_entry_name_is_inside(const char *name);
/* The allocator that such a function is of, for people; NULL: none that is known. */
const char *limpet_entry_name_allocator(const char *name);

/* Of a function of LIMPET_ENTRY_POOL: the pool's own name, which is not ended by a 0. */
const char *limpet_entry_name_pool(const char *name, size_t *ret_length);

#endif
