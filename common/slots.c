#include "common/slots.h"

#include "common/arch.h"
#include "common/family.h"

enum limpet_slot_kind limpet_slot_kind(uint32_t type)
{
	if (LIMPET_ARCH_RELOCATION_IS_VARIABLE(type))
		return LIMPET_SLOT_OF_VARIABLE;
	return LIMPET_ARCH_RELOCATION_IS_ADDRESS(type) ? LIMPET_SLOT_OF_ADDRESS
						       : LIMPET_SLOT_OF_CALLS;
}

/* A slot with an addend is the address of something else. */
static bool may_call(const Elf64_Rela *rela, uint32_t type)
{
	return LIMPET_ARCH_RELOCATION_IS_SLOT(type) ? !rela->r_addend
						    : LIMPET_ARCH_RELOCATION_IS_IN_CODE(type);
}

static bool is_named(const char *name, uint64_t limit, const char *wanted)
{
	uint64_t at = 0;

	while (at < limit && wanted[at] && wanted[at] == name[at])
		at++;
	return at < limit && !wanted[at] && !name[at];
}

/* -1: it is no function of the family, under any name. */
static int find(const struct limpet_slot_tables *tables, uint64_t at,
		const struct limpet_slot_alias **ret_alias)
{
	const char *name = tables->strings + at;
	const uint64_t limit = tables->string_bytes - at;

	*ret_alias = NULL;
	for (size_t i = 0; i < tables->alias_count; i++)
		if (is_named(name, limit, tables->aliases[i].name)) {
			*ret_alias = &tables->aliases[i];
			return (int)tables->aliases[i].symbol;
		}
	return limpet_family_find(name, limit);
}

static int scan_table(const struct limpet_slot_tables *tables, const Elf64_Rela *rela,
		      uint64_t count,
		      int (*found)(const struct limpet_slot_found *slot, void *context),
		      void *context)
{
	for (uint64_t i = 0; i < count; i++) {
		uint32_t type = (uint32_t)ELF64_R_TYPE(rela[i].r_info);
		uint64_t index = ELF64_R_SYM(rela[i].r_info);
		struct limpet_slot_found slot;
		const Elf64_Sym *symbol;
		int family, answer;

		if (!index || index >= tables->symbol_count || !may_call(&rela[i], type))
			continue;
		symbol = &tables->symbols[index];
		if (symbol->st_name >= tables->string_bytes)
			continue;
		family = find(tables, symbol->st_name, &slot.alias);
		if (family < 0 && tables->by_word && LIMPET_ARCH_RELOCATION_IS_SLOT(type))
			family = tables->by_word(rela[i].r_offset, context);
		if (family < 0)
			continue;
		slot.offset = rela[i].r_offset;
		slot.type = type;
		slot.symbol = (uint32_t)family;
		slot.symbol_value = symbol->st_value;
		slot.defined = symbol->st_shndx != SHN_UNDEF;
		answer = found(&slot, context);
		if (answer)
			return answer;
	}
	return 0;
}

int limpet_slots_scan(const struct limpet_slot_tables *tables,
		      int (*found)(const struct limpet_slot_found *slot, void *context),
		      void *context)
{
	for (int i = 0; i < 2; i++) {
		int answer;

		if (!tables->rela[i])
			continue;
		answer = scan_table(tables, tables->rela[i], tables->rela_count[i], found, context);
		if (answer)
			return answer;
	}
	return 0;
}
