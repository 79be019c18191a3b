#include "analyzer/symbols/variables.h"

#include <dwarf.h>
#include <string.h>

/* Entries that are looked at within functions, for variables that are static there. */
#define WITHIN_LIMIT ((size_t)4 << 20)
#define DEPTH_LIMIT 64u

/* ------------------------------------------------------------------ symbols */

static bool is_better(const struct limpet_variable *found, const struct limpet_variable *than)
{
	if (found->start != than->start)
		return found->start > than->start;
	return strlen(found->symbol) < strlen(than->symbol);
}

bool limpet_variables_find(Dwfl_Module *module, uint64_t address,
			   struct limpet_variable *ret_variable)
{
	const int count = dwfl_module_getsymtab(module);
	struct limpet_variable best = {.symbol = NULL};

	for (int i = 0; i < count; i++) {
		GElf_Word section = SHN_UNDEF;
		GElf_Addr start;
		GElf_Sym sym;
		const char *name =
			dwfl_module_getsym_info(module, i, &sym, &start, &section, NULL, NULL);
		const struct limpet_variable found = {
			.start = start, .bytes = sym.st_size, .symbol = name};

		/* (GElf_Word)-1: in a section that is not loaded. */
		if (!name || !name[0] || GELF_ST_TYPE(sym.st_info) != STT_OBJECT ||
		    section == SHN_UNDEF || section == SHN_ABS || section == (GElf_Word)-1)
			continue;
		if (address >= start && address - start < sym.st_size &&
		    (!best.symbol || is_better(&found, &best)))
			best = found;
	}
	if (!best.symbol)
		return false;
	*ret_variable = best;
	return true;
}

/* ------------------------------------------------------------------ lines */

struct hunt {
	uint64_t start;
	bool within;    /* functions, too */
	size_t entries; /* that were looked at there */
	struct limpet_variable *variable;
};

static bool is_at(Dwarf_Die *die, uint64_t start)
{
	Dwarf_Attribute attribute, address;
	Dwarf_Addr value;
	Dwarf_Op *list;
	size_t count;

	if (!dwarf_attr(die, DW_AT_location, &attribute) ||
	    dwarf_getlocation(&attribute, &list, &count) != 0 || count != 1)
		return false;
	if (list[0].atom == DW_OP_addr)
		return list[0].number == start;
	return (list[0].atom == DW_OP_addrx || list[0].atom == DW_OP_GNU_addr_index) &&
	       dwarf_getlocation_attr(&attribute, list, &address) == 0 &&
	       dwarf_formaddr(&address, &value) == 0 && value == start;
}

static bool note(struct hunt *hunt, Dwarf_Die *die)
{
	const char *file = dwarf_decl_file(die);
	int line = 0;

	if (!is_at(die, hunt->start))
		return false;
	if (file && dwarf_decl_line(die, &line) == 0 && line > 0) {
		hunt->variable->file = file;
		hunt->variable->line = (uint32_t)line;
	}
	return true;
}

static bool is_entered(const struct hunt *hunt, int tag)
{
	if (tag == DW_TAG_namespace || tag == DW_TAG_module)
		return true;
	return hunt->within && (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block);
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_LIMIT */
static bool search_below(struct hunt *hunt, Dwarf_Die *around, unsigned depth)
{
	Dwarf_Die die;
	int more = dwarf_child(around, &die);

	for (; more == 0; more = dwarf_siblingof(&die, &die)) {
		const int tag = dwarf_tag(&die);

		if (hunt->within && hunt->entries++ == WITHIN_LIMIT)
			return true;
		if (tag == DW_TAG_variable ? note(hunt, &die)
					   : is_entered(hunt, tag) && depth < DEPTH_LIMIT &&
						     search_below(hunt, &die, depth + 1))
			return true;
	}
	return false;
}

static bool search_units(struct hunt *hunt, Dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die, content;
	uint8_t type;

	while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, &content) == 0) {
		if (type == DW_UT_type || type == DW_UT_split_type)
			continue;
		if (search_below(hunt, content.addr ? &content : &die, 0))
			return true;
	}
	return false;
}

void limpet_variables_find_line(Dwarf *dwarf, uint64_t start, struct limpet_variable *variable)
{
	struct hunt hunt = {.start = start, .variable = variable};

	if (!dwarf || search_units(&hunt, dwarf))
		return;
	/* GCC's "name.0", or mangled: _ZZ. */
	if (!strchr(variable->symbol, '.') && strncmp(variable->symbol, "_ZZ", 3) != 0)
		return;
	hunt.within = true;
	(void)search_units(&hunt, dwarf);
}
