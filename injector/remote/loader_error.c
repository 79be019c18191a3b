#include "injector/remote/loader_error.h"

#include <string.h>

#include "common/arch.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"

/* Static thread-local storage is below the thread pointer, and is small. */
#define FARTHEST_BYTES (1 << 20)

static bool is_result(const struct limpet_slot_tables *tables, uint64_t index)
{
	static const char name[] = "__libc_dlerror_result";
	const Elf64_Sym *symbol;

	if (!index || index >= tables->symbol_count)
		return false;
	symbol = &tables->symbols[index];
	return ELF64_ST_TYPE(symbol->st_info) == STT_TLS && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_name < tables->string_bytes &&
	       tables->string_bytes - symbol->st_name >= sizeof(name) &&
	       !memcmp(tables->strings + symbol->st_name, name, sizeof(name));
}

static int64_t find_in(const struct limpet_target *target, struct limpet_module *module)
{
	struct limpet_slot_tables tables;
	int64_t found = 0, offset;

	if (limpet_module_tables_read(target, module, &tables) < 0)
		return 0;
	for (uint64_t i = 0; i < tables.rela_count[0] && !found; i++) {
		const Elf64_Rela *rela = &tables.rela[0][i];

		if (!LIMPET_ARCH_RELOCATION_IS_TLS_OFFSET(ELF64_R_TYPE(rela->r_info)) ||
		    !is_result(&tables, ELF64_R_SYM(rela->r_info)))
			continue;
		if (limpet_memory_read(target->pid, module->bias + rela->r_offset, &offset,
				       sizeof(offset)) == 0 &&
		    offset < 0 && offset > -FARTHEST_BYTES && !(offset % (int)sizeof(offset)))
			found = offset;
	}
	limpet_module_tables_done(&tables);
	return found;
}

int64_t limpet_loader_error_find(struct limpet_modules *modules)
{
	int64_t found = 0;

	for (size_t i = 0; i < modules->count && !found; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *slash = module->path ? strrchr(module->path, '/') : NULL;

		if (module->in_list && !module->space && !module->agent && slash &&
		    !strncmp(slash + 1, "libc.so.6", strlen("libc.so.6")))
			found = find_in(modules->target, module);
	}
	return found;
}
