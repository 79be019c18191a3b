/* The C++ types of a process's blocks, by their vtables, and how many blocks there are of each. */
#ifndef LIMPET_EXPLAIN_REACH_HOLDER_TYPES_H
#define LIMPET_EXPLAIN_REACH_HOLDER_TYPES_H

#include "explain/reach/holder_search.h"
#include "explain/reach/reach_scan.h"
#include "explain/vtables.h"

/* Begins as all zeros. */
struct limpet_holder_types {
	struct limpet_vtables vtables;
	bool *wanted;                          /* of each vtable */
	struct limpet_holder_amount *found_of; /* of each vtable */
	struct limpet_holder_type *found;      /* by bytes */
	size_t found_count;
};
void limpet_holder_types_done(struct limpet_holder_types *types);
/* 0 or -ENOMEM. */
int limpet_holder_types_read(const struct limpet_modules *modules,
			     struct limpet_holder_types *types) LIMPET_MUST_CHECK;
/* Symbol of the vtable to which this first word of a block points, borrowed; NULL: to none. */
const char *limpet_holder_types_at(const struct limpet_holder_types *types, uint64_t word);

/* 0 or -ENOMEM. */
int limpet_holder_types_select(struct limpet_holder_types *types,
			       bool (*is_wanted)(void *context, const char *symbol),
			       void *context) LIMPET_MUST_CHECK;
/* Reads the first word of each block of the search: adds those of wanted types, counts all. 0,
 * -ENOMEM, -ETIME. */
int limpet_holder_types_count(struct limpet_holder_types *types,
			      const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			      const struct limpet_search_ranges *ranges,
			      struct limpet_holder_search *search) LIMPET_MUST_CHECK;

#endif
