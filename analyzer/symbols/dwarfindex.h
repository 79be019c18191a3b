/* An index over DWARF: which function, and which functions inlined into it, cover an address. Each
 * unit is walked once, when it is first needed.
 *
 * dwarf_getscopes() walks the whole unit for each address (951 us on a Rust binary); this walks it
 * once and searches. Addresses are those of the Dwarf's own file. Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_DWARFINDEX_H
#define LIMPET_ANALYZER_SYMBOLS_DWARFINDEX_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct limpet_dwarfindex;

/* What could not be read so far. */
enum limpet_dwarfindex_unread {
	LIMPET_DWARFINDEX_PARTS = 1,   /* files of split debug information that were not found */
	LIMPET_DWARFINDEX_CONTENTS = 2 /* units, scopes or lines: damaged, or of a kind that libdw
					  does not know */
};

/* `dwarf` is borrowed and must outlive the index. NULL: out of memory. */
struct limpet_dwarfindex *limpet_dwarfindex_new(Dwarf *dwarf);
void limpet_dwarfindex_free(struct limpet_dwarfindex *index);

/* One scope that covers an address. */
struct limpet_dwarfindex_scope {
	Dwarf_Die die; /* DW_TAG_subprogram or DW_TAG_inlined_subroutine */
	bool inlined;
	uint32_t unit; /* for limpet_dwarfindex_qualify() */
};

/* Innermost first: inlined functions, then the function that contains them. Returns their number,
 * at most `limit` (the function and the innermost are kept), 0 if no function covers `address`, -1
 * if no unit does. Unless -1, *ret_unit is the DIE of the unit whose line table covers the
 * address. */
int limpet_dwarfindex_find(struct limpet_dwarfindex *index, uint64_t address,
			   struct limpet_dwarfindex_scope *list, int limit, Dwarf_Die *ret_unit);

unsigned limpet_dwarfindex_unread(const struct limpet_dwarfindex *index);

/* `name` after the namespaces and classes around the declaration of `scope`: "std::vector<x>::f".
 * For functions without a linkage name: compilers omit it if a type in an anonymous namespace is a
 * template argument, and for lambdas, whose types are "{lambda#1}" and so on, in the order of their
 * function. If all this is in a function, *ret_around is that one, and the name is to be put
 * before; otherwise its `die.addr` is NULL. malloc'ed; NULL: out of memory. */
char *limpet_dwarfindex_qualify(const struct limpet_dwarfindex *index,
				const struct limpet_dwarfindex_scope *scope, const char *name,
				struct limpet_dwarfindex_scope *ret_around);
/* Whether it is a function of the type of a lambda. */
bool limpet_dwarfindex_is_lambda(const struct limpet_dwarfindex *index,
				 const struct limpet_dwarfindex_scope *scope);

#endif
