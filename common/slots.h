/* Allocator slots of a module: the relocations through which it calls a member of the allocation
 * family, or stores its address. Freestanding; the injector uses it on copies from the target, and
 * the agent on modules that are loaded later.
 *
 * The tables are hostile if they come from a target: every index is checked. */
#ifndef LIMPET_COMMON_SLOTS_H
#define LIMPET_COMMON_SLOTS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

/* Another name under which a library has a function of the family: the same address. */
struct limpet_slot_alias {
	char *name;
	uint64_t address;
	uint32_t symbol; /* index into limpet_family */
};

struct limpet_slot_tables {
	const Elf64_Rela *rela[2]; /* DT_RELA, DT_JMPREL; NULL: none */
	uint64_t rela_count[2];
	const Elf64_Sym *symbols;
	uint64_t symbol_count;
	const char *strings;
	uint64_t string_bytes;
	const struct limpet_slot_alias *aliases;
	size_t alias_count;
	/* For a slot by another name: the member of limpet_family to which its word leads, or -1.
	 * NULL: only names count. Gets the context of limpet_slots_scan(). */
	int (*by_word)(uint64_t offset, void *context);
};

struct limpet_slot_found {
	uint64_t offset; /* address minus load bias */
	uint32_t type; /* R_X86_64_JUMP_SLOT, _GLOB_DAT or _64; or one that is not a slot, but calls
			* the function all the same: LIMPET_ARCH_RELOCATION_IS_IN_CODE */
	uint32_t symbol; /* index into limpet_family */
	uint64_t symbol_value;
	bool defined;                          /* by this module itself */
	const struct limpet_slot_alias *alias; /* by this name; NULL: by that of the family */
};

/* `type`: of a relocation that is a slot. */
enum limpet_slot_kind limpet_slot_kind(uint32_t type);

/* Calls `found` for each slot; a nonzero result ends the scan and is returned. */
int limpet_slots_scan(const struct limpet_slot_tables *tables,
		      int (*found)(const struct limpet_slot_found *slot, void *context),
		      void *context);

#endif
