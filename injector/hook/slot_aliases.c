#include "injector/hook/slot_aliases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/family.h"

static bool is_function(const struct limpet_module *module, uint64_t index)
{
	const Elf64_Sym *symbol = &module->symbols[index];

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       symbol->st_name < module->string_bytes && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
}

/* Index of the member of the family that has its name, or -1. */
static int member_of(const struct limpet_module *module, uint64_t index)
{
	const Elf64_Sym *symbol = &module->symbols[index];

	return limpet_family_find(module->strings + symbol->st_name,
				  module->string_bytes - symbol->st_name);
}

static bool is_allocators(int member)
{
	const uint32_t others = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER;

	return member >= 0 && !(limpet_family[member].flags & others);
}

static int add(struct limpet_slot_aliases *aliases, const struct limpet_module *module,
	       uint64_t index, uint32_t member)
{
	const Elf64_Sym *symbol = &module->symbols[index];
	const char *text = module->strings + symbol->st_name;
	char *name;

	if (aliases->count == LIMPET_SLOT_ALIASES_MAX ||
	    strnlen(text, LIMPET_SLOT_ALIAS_BYTES) == LIMPET_SLOT_ALIAS_BYTES) {
		aliases->left_out = true;
		return 0;
	}
	name = strdup(text);
	if (!name || limpet_reserve(&aliases->list, &aliases->capacity, aliases->count + 1,
				    sizeof(*aliases->list)) < 0) {
		free(name);
		return -ENOMEM;
	}
	aliases->list[aliases->count++] =
		(struct limpet_slot_alias){name, module->bias + symbol->st_value, member};
	return 0;
}

static int find_in(struct limpet_slot_aliases *aliases, const struct limpet_module *module)
{
	uint64_t values[LIMPET_FAMILY_COUNT] = {0};
	int error = 0;

	for (uint64_t i = 1; i < module->symbol_count; i++) {
		int member = is_function(module, i) ? member_of(module, i) : -1;

		if (is_allocators(member))
			values[member] = module->symbols[i].st_value;
	}
	for (uint64_t i = 1; i < module->symbol_count && !error; i++) {
		uint32_t k = 0;

		while (k < LIMPET_FAMILY_COUNT && values[k] != module->symbols[i].st_value)
			k++;
		if (k < LIMPET_FAMILY_COUNT && is_function(module, i) && member_of(module, i) < 0)
			error = add(aliases, module, i, k);
	}
	return error;
}

int limpet_slot_aliases_find(struct limpet_modules *modules, struct limpet_slot_aliases *ret)
{
	int error = 0;

	for (size_t i = 0; i < modules->count && !error; i++) {
		struct limpet_module *module = &modules->list[i];

		if (module->in_list && !module->loader && !module->agent &&
		    limpet_module_has_malloc(modules->target, module))
			error = find_in(ret, module);
	}
	return error;
}

void limpet_slot_aliases_done(struct limpet_slot_aliases *aliases)
{
	for (size_t i = 0; i < aliases->count; i++)
		free(aliases->list[i].name);
	free(aliases->list);
	memset(aliases, 0, sizeof(*aliases));
}
