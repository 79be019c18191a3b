#include "analyzer/symbols/symtab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A symbol without a size (hand-written assembly) is assumed to end here at the latest: in stripped
 * modules the next known symbol may be megabytes away, and its name would be wrong. */
#define UNSIZED_REACH_BYTES 4096

struct symbol {
	uint64_t address;
	uint64_t bytes;   /* 0: unknown */
	const char *name; /* in the ELF file's string table */
	uint64_t reach;   /* highest end of the symbols up to here */
	uint8_t rank;     /* among symbols of one address: the lowest wins */
};

struct limpet_symtab {
	Dwfl_Module *module;
	struct symbol *list;
	size_t count;
};

/* Aliases share an address: of malloc, __malloc and __libc_malloc, the first is the best known. */
static uint8_t rank_symbol(const char *name, const GElf_Sym *sym)
{
	size_t underscores = 0;
	uint8_t rank = 0;

	if (strncmp(name, "_Z", 2) && strncmp(name, "_R", 2))
		underscores = strspn(name, "_");
	rank += (uint8_t)((underscores > 3 ? 3 : underscores) * 4);
	if (GELF_ST_BIND(sym->st_info) == STB_WEAK)
		rank += 1;
	if (GELF_ST_BIND(sym->st_info) == STB_LOCAL)
		rank += 2;
	if (GELF_ST_TYPE(sym->st_info) == STT_NOTYPE)
		rank += 32;
	if (!sym->st_size)
		rank += 64;
	return rank;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	size_t x_length, y_length;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	x_length = strlen(x->name);
	y_length = strlen(y->name);
	if (x_length != y_length)
		return x_length < y_length ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool is_function(const char *name, const GElf_Sym *sym, GElf_Word section)
{
	int type = GELF_ST_TYPE(sym->st_info);

	if (!name || !name[0] || section == SHN_UNDEF || section == SHN_ABS ||
	    section == SHN_COMMON)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	/* Assembly without .type; mapping symbols and section marks ($x, .text) are no
	 * functions. */
	return type == STT_NOTYPE && name[0] != '$' && name[0] != '.';
}

static int load(struct limpet_symtab *symtab)
{
	int count = dwfl_module_getsymtab(symtab->module);
	size_t used = 0, kept = 0;
	uint64_t reach = 0;

	if (count <= 0)
		return 0;
	symtab->list = calloc((size_t)count, sizeof(*symtab->list));
	if (!symtab->list)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		GElf_Word section = SHN_UNDEF;
		GElf_Addr address;
		GElf_Sym sym;
		const char *name = dwfl_module_getsym_info(symtab->module, i, &sym, &address,
							   &section, NULL, NULL);

		/* (GElf_Word)-1: in a section that is not loaded. */
		if (section == (GElf_Word)-1 || !is_function(name, &sym, section))
			continue;
		symtab->list[used++] = (struct symbol){.address = address,
						       .bytes = sym.st_size,
						       .name = name,
						       .rank = rank_symbol(name, &sym)};
	}
	qsort(symtab->list, used, sizeof(*symtab->list), compare_symbols);
	for (size_t i = 0; i < used; i++) {
		struct symbol *symbol = &symtab->list[i];

		if (kept && symtab->list[kept - 1].address == symbol->address)
			continue;
		if (symbol->address + symbol->bytes > reach)
			reach = symbol->address + symbol->bytes;
		symtab->list[kept] = *symbol;
		symtab->list[kept++].reach = reach;
	}
	symtab->count = kept;
	return 0;
}

static bool same_section(struct limpet_symtab *symtab, uint64_t a, uint64_t b)
{
	GElf_Addr bias;
	Elf_Scn *x = dwfl_module_address_section(symtab->module, &a, &bias);
	Elf_Scn *y = dwfl_module_address_section(symtab->module, &b, &bias);

	return x && x == y;
}

const char *limpet_symtab_find(struct limpet_symtab *symtab, uint64_t address)
{
	size_t low = 0, high = symtab->count;
	struct symbol *nearest;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symtab->list[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	nearest = &symtab->list[low - 1];
	if (!nearest->bytes && address - nearest->address < UNSIZED_REACH_BYTES &&
	    nearest->reach <= address && same_section(symtab, nearest->address, address))
		return nearest->name;
	while (low-- > 0 && symtab->list[low].reach > address) {
		if (symtab->list[low].address + symtab->list[low].bytes > address)
			return symtab->list[low].name;
	}
	return NULL;
}

int limpet_symtab_new(Dwfl_Module *module, struct limpet_symtab **ret)
{
	struct limpet_symtab *symtab = calloc(1, sizeof(*symtab));
	int result;

	if (!symtab)
		return -ENOMEM;
	symtab->module = module;
	result = load(symtab);
	if (result < 0) {
		limpet_symtab_free(symtab);
		return result;
	}
	*ret = symtab;
	return 0;
}

void limpet_symtab_free(struct limpet_symtab *symtab)
{
	if (!symtab)
		return;
	free(symtab->list);
	free(symtab);
}
