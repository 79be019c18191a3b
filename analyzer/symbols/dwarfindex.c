#include "analyzer/symbols/dwarfindex.h"

#include <dwarf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* DWARF of real programs nests scopes some dozens deep; a crafted file must not exhaust the stack.
 */
#define MAX_DEPTH 200
/* Limit of each list of a module: what is beyond it has no lines. */
#define MAX_RANGES (64u << 20)

struct range {
	uint64_t low, high;
	uint32_t owner; /* unit, or function */
};

struct ranges {
	struct range *list;
	size_t count, capacity;
	uint64_t *reach; /* highest `high` of the entries up to here: where a search may stop */
};

struct function {
	Dwarf_Off die;
	uint32_t first, end; /* inlined scopes below it, including those of nested functions */
};

struct inlined {
	uint64_t low, high;
	Dwarf_Off die;
	uint32_t function;
	uint32_t depth;
};

/* A namespace or type, in the order of the file; its contents are in [start, end). */
struct area {
	Dwarf_Off start, end;
	Dwarf_Off function; /* innermost around: DIE; 0: none */
	uint32_t parent;
	uint32_t lambda;  /* the type of a lambda: its number in that function, from 1 */
	const char *name; /* NULL: it has none */
};

struct unit {
	Dwarf_Die die;     /* that owns the line table */
	Dwarf_Die content; /* that owns the scopes: another one for split DWARF */
	bool walked;
	struct ranges ranges; /* of functions */
	struct function *functions;
	size_t function_count, function_capacity;
	struct inlined *inlined;
	size_t inlined_count, inlined_capacity;
	struct area *areas;
	size_t area_count, area_capacity;
	Dwarf_Off last; /* DIE seen while walking */
	bool damaged;
	uint32_t lambdas; /* outside of any function */
};

struct limpet_dwarfindex {
	struct unit *units;
	size_t unit_count, unit_capacity;
	struct ranges ranges; /* of units */
	unsigned unread;      /* enum limpet_dwarfindex_unread */
};

/* Makes room for one more; false if out of memory or at the limit. */
static bool grow(void *list, size_t *capacity, size_t count, size_t item)
{
	return count < MAX_RANGES && limpet_reserve(list, capacity, count + 1, item) == 0;
}

static void add_range(struct ranges *ranges, uint64_t low, uint64_t high, uint32_t owner)
{
	/* Linkers write 0 (or 1) for discarded code. */
	if (low >= high || low <= 1)
		return;
	if (!grow(&ranges->list, &ranges->capacity, ranges->count, sizeof(*ranges->list)))
		return;
	ranges->list[ranges->count++] = (struct range){low, high, owner};
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	/* The wider one first, so that a search from the end meets the narrower. */
	if (x->high != y->high)
		return x->high > y->high ? -1 : 1;
	return x->owner < y->owner ? -1 : x->owner > y->owner;
}

static bool sort_ranges(struct ranges *ranges)
{
	uint64_t reach = 0;

	if (!ranges->count)
		return true;
	qsort(ranges->list, ranges->count, sizeof(*ranges->list), compare_ranges);
	ranges->reach = calloc(ranges->count, sizeof(*ranges->reach));
	if (!ranges->reach) {
		ranges->count = 0;
		return false;
	}
	for (size_t i = 0; i < ranges->count; i++) {
		if (ranges->list[i].high > reach)
			reach = ranges->list[i].high;
		ranges->reach[i] = reach;
	}
	return true;
}

/* Of the ranges that contain `address`, the one that begins last. */
static const struct range *find_range(const struct ranges *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->list[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	while (low-- > 0 && ranges->reach[low] > address) {
		if (ranges->list[low].high > address)
			return &ranges->list[low];
	}
	return NULL;
}

static void ranges_done(struct ranges *ranges)
{
	free(ranges->list);
	free(ranges->reach);
}

/* ------------------------------------------------------------------ units */

static void add_unit_ranges(struct limpet_dwarfindex *index, uint32_t number)
{
	Dwarf_Die *die = &index->units[number].die;
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		add_range(&index->ranges, low, high, number);
}

struct limpet_dwarfindex *limpet_dwarfindex_new(Dwarf *dwarf)
{
	struct limpet_dwarfindex *index = calloc(1, sizeof(*index));
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, content;
	uint8_t type;
	int result;

	if (!index)
		return NULL;
	while (!(result = dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &content))) {
		struct unit *unit;

		if (type == DW_UT_type || type == DW_UT_split_type || type == DW_UT_partial)
			continue;
		if (dwarf_tag(&die) == DW_TAG_partial_unit)
			continue;
		if (!grow(&index->units, &index->unit_capacity, index->unit_count, sizeof(*unit)))
			break;
		unit = &index->units[index->unit_count];
		memset(unit, 0, sizeof(*unit));
		unit->die = die;
		unit->content = content.addr ? content : die;
		if (type == DW_UT_skeleton && !content.addr)
			index->unread |= LIMPET_DWARFINDEX_PARTS;
		add_unit_ranges(index, (uint32_t)index->unit_count++);
	}
	if (result < 0)
		index->unread |= LIMPET_DWARFINDEX_CONTENTS;
	if (!sort_ranges(&index->ranges)) {
		limpet_dwarfindex_free(index);
		return NULL;
	}
	return index;
}

void limpet_dwarfindex_free(struct limpet_dwarfindex *index)
{
	if (!index)
		return;
	for (size_t i = 0; i < index->unit_count; i++) {
		ranges_done(&index->units[i].ranges);
		free(index->units[i].functions);
		free(index->units[i].inlined);
		free(index->units[i].areas);
	}
	ranges_done(&index->ranges);
	free(index->units);
	free(index);
}

/* ------------------------------------------------------------------ scopes of a unit */

#define NO_FUNCTION UINT32_MAX
#define NO_AREA UINT32_MAX

/* The position of the walk. */
struct place {
	uint32_t function; /* innermost around, or NO_FUNCTION */
	uint32_t depth;    /* of inlining in it */
	uint32_t area;     /* innermost around, or NO_AREA */
	Dwarf_Off in;      /* innermost function around, also if it has no code; 0: none */
	uint32_t *lambdas; /* counted in it so far */
	bool in_area;      /* the area is the parent itself */
	unsigned level;
};

static uint32_t add_function(struct unit *unit, Dwarf_Die *die)
{
	uint32_t number = (uint32_t)unit->function_count;
	Dwarf_Addr base, low, high;
	size_t before = unit->ranges.count;
	ptrdiff_t at = 0;

	if (!grow(&unit->functions, &unit->function_capacity, unit->function_count,
		  sizeof(*unit->functions)))
		return NO_FUNCTION;
	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		add_range(&unit->ranges, low, high, number);
	if (unit->ranges.count == before)
		return NO_FUNCTION; /* a declaration or an abstract instance */
	unit->functions[number] =
		(struct function){dwarf_dieoffset(die), (uint32_t)unit->inlined_count, 0};
	unit->function_count++;
	return number;
}

static void add_inlined(struct unit *unit, Dwarf_Die *die, uint32_t function, uint32_t depth)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		if (low >= high)
			continue;
		if (!grow(&unit->inlined, &unit->inlined_capacity, unit->inlined_count,
			  sizeof(*unit->inlined)))
			return;
		unit->inlined[unit->inlined_count++] =
			(struct inlined){low, high, dwarf_dieoffset(die), function, depth};
	}
}

static uint32_t add_area(struct unit *unit, Dwarf_Die *die, uint32_t parent, Dwarf_Off function)
{
	const char *name = dwarf_diename(die);

	if (!grow(&unit->areas, &unit->area_capacity, unit->area_count, sizeof(*unit->areas)))
		return parent;
	if (!name && dwarf_tag(die) == DW_TAG_namespace)
		name = "(anonymous namespace)";
	unit->areas[unit->area_count] = (struct area){.start = dwarf_dieoffset(die),
						      .function = function,
						      .parent = parent,
						      .name = name};
	return (uint32_t)unit->area_count++;
}

static void walk(struct unit *unit, Dwarf_Die *parent, struct place place);

static void walk_area(struct unit *unit, Dwarf_Die *die, struct place place)
{
	uint32_t around = place.area;

	if (!dwarf_haschildren(die))
		return;
	place.in_area = true;
	place.area = add_area(unit, die, around, place.in);
	walk(unit, die, place);
	if (place.area != around)
		unit->areas[place.area].end = unit->last + 1;
}

/* The body of a lambda has the type without a name that it is in as a parameter of this name. */
static bool is_lambda_body(Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);
	Dwarf_Die child;

	if (!name || strncmp(name, "operator()", 10) != 0 || dwarf_child(die, &child))
		return false;
	do {
		name = dwarf_tag(&child) == DW_TAG_formal_parameter ? dwarf_diename(&child) : NULL;
		if (name && !strcmp(name, "__closure"))
			return true;
	} while (!dwarf_siblingof(&child, &child));
	return false;
}

/* A generic lambda has several bodies. */
static void note_lambda(struct unit *unit, Dwarf_Die *body, const struct place *place)
{
	struct area *area = &unit->areas[place->area];

	if (!area->name && !area->lambda && is_lambda_body(body))
		area->lambda = ++*place->lambdas;
}

static void walk_function(struct unit *unit, Dwarf_Die *die, struct place place)
{
	uint32_t lambdas = 0;

	if (place.in_area && place.area != NO_AREA)
		note_lambda(unit, die, &place);
	place.in_area = false;
	place.lambdas = &lambdas;
	place.function = add_function(unit, die);
	place.depth = 0;
	place.in = dwarf_dieoffset(die);
	walk(unit, die, place);
	if (place.function != NO_FUNCTION)
		unit->functions[place.function].end = (uint32_t)unit->inlined_count;
}

static void walk(struct unit *unit, Dwarf_Die *parent, struct place place)
{
	Dwarf_Die die;
	int result;

	if (place.level++ > MAX_DEPTH)
		return;
	result = dwarf_child(parent, &die);
	while (!result) {
		struct place inner = place;

		unit->last = dwarf_dieoffset(&die);
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			walk_function(unit, &die, place);
			break;
		case DW_TAG_inlined_subroutine:
			if (place.function == NO_FUNCTION)
				break;
			inner.depth++;
			add_inlined(unit, &die, inner.function, inner.depth);
			walk(unit, &die, inner);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			walk(unit, &die, place);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			walk_area(unit, &die, place);
			break;
		default:
			break;
		}
		result = dwarf_siblingof(&die, &die);
	}
	unit->damaged |= result < 0;
}

static void walk_unit(struct limpet_dwarfindex *index, struct unit *unit)
{
	Dwarf_Attribute attribute;
	Dwarf_Lines *lines;
	size_t count;

	unit->walked = true;
	walk(unit, &unit->content,
	     (struct place){.function = NO_FUNCTION, .area = NO_AREA, .lambdas = &unit->lambdas});
	if (!sort_ranges(&unit->ranges))
		unit->function_count = 0;
	if (unit->damaged || (dwarf_attr(&unit->die, DW_AT_stmt_list, &attribute) &&
			      dwarf_getsrclines(&unit->die, &lines, &count)))
		index->unread |= LIMPET_DWARFINDEX_CONTENTS;
}

unsigned limpet_dwarfindex_unread(const struct limpet_dwarfindex *index)
{
	return index->unread;
}

static bool scope_at(const struct unit *unit, Dwarf_Off offset, struct limpet_dwarfindex_scope *ret)
{
	Dwarf_Die content = unit->content;

	return dwarf_offdie(dwarf_cu_getdwarf(content.cu), offset, &ret->die) != NULL;
}

int limpet_dwarfindex_find(struct limpet_dwarfindex *index, uint64_t address,
			   struct limpet_dwarfindex_scope *list, int limit, Dwarf_Die *ret_unit)
{
	const struct range *range = find_range(&index->ranges, address);
	const struct function *function;
	uint32_t number;
	uint32_t below = UINT32_MAX;
	struct unit *unit;
	int count = 0;

	if (!range)
		return -1;
	number = range->owner;
	unit = &index->units[number];
	if (!unit->walked)
		walk_unit(index, unit);
	*ret_unit = unit->die;
	range = find_range(&unit->ranges, address);
	if (!range)
		return 0;
	function = &unit->functions[range->owner];

	/* Parents come before their children: backwards, depth falls along the chain of scopes that
	 * cover the address. */
	for (uint32_t i = function->end; i-- > function->first && count < limit - 1;) {
		const struct inlined *inlined = &unit->inlined[i];

		if (address < inlined->low || address >= inlined->high ||
		    inlined->function != range->owner || inlined->depth >= below)
			continue;
		if (!scope_at(unit, inlined->die, &list[count]))
			continue;
		list[count].unit = number;
		list[count++].inlined = true;
		below = inlined->depth;
	}
	if (count < limit && scope_at(unit, function->die, &list[count])) {
		list[count].unit = number;
		list[count++].inlined = false;
	}
	return count;
}

/* ------------------------------------------------------------------ qualified names */

/* The DIE of the function's declaration, to which the abstract instance and a definition outside of
 * its class refer. */
static Dwarf_Die declaration(Dwarf_Die die)
{
	static const unsigned links[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Attribute attribute;
	Dwarf_Die next;

	/* Each link twice at most, the origin first: a crafted file may have a loop. */
	for (int turn = 0; turn < 4; turn++) {
		if (dwarf_formref_die(dwarf_attr(&die, links[turn % 2], &attribute), &next))
			die = next;
	}
	return die;
}

static uint32_t find_area(const struct unit *unit, Dwarf_Off offset)
{
	size_t low = 0, high = unit->area_count;
	uint32_t area;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (unit->areas[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	area = low ? (uint32_t)(low - 1) : NO_AREA;
	while (area != NO_AREA && unit->areas[area].end <= offset)
		area = unit->areas[area].parent;
	return area;
}

/* No real name has so many scopes. */
#define MAX_AREAS 32

/* The area of the function's declaration; NO_AREA: none. A declaration in another unit was not
 * walked with this one. */
static uint32_t area_of(const struct unit *unit, Dwarf_Die die)
{
	die = declaration(die);
	return die.cu == unit->content.cu ? find_area(unit, dwarf_dieoffset(&die)) : NO_AREA;
}

bool limpet_dwarfindex_is_lambda(const struct limpet_dwarfindex *index,
				 const struct limpet_dwarfindex_scope *scope)
{
	const struct unit *unit = &index->units[scope->unit];
	const uint32_t area = area_of(unit, scope->die);

	return area != NO_AREA && unit->areas[area].lambda;
}

/* *name is malloc'ed; NULL: no memory, before or after. */
static void prepend_scope(char **name, const char *scope)
{
	char *longer = NULL;

	if (!*name || asprintf(&longer, "%s::%s", scope, *name) < 0)
		longer = NULL;
	free(*name);
	*name = longer;
}

char *limpet_dwarfindex_qualify(const struct limpet_dwarfindex *index,
				const struct limpet_dwarfindex_scope *scope, const char *name,
				struct limpet_dwarfindex_scope *ret_around)
{
	const struct unit *unit = &index->units[scope->unit];
	char *whole = strdup(name);
	uint32_t area = area_of(unit, scope->die);
	Dwarf_Off function = area == NO_AREA ? 0 : unit->areas[area].function;

	for (unsigned i = 0; area != NO_AREA && i < MAX_AREAS; i++) {
		const struct area *at = &unit->areas[area];
		char lambda[32];

		/* From here on it is the function's own name that tells. */
		if (at->function != function)
			break;
		snprintf(lambda, sizeof(lambda), "{lambda#%" PRIu32 "}", at->lambda);
		if (at->name || at->lambda)
			prepend_scope(&whole, at->name ? at->name : lambda);
		area = at->parent;
	}
	*ret_around = (struct limpet_dwarfindex_scope){.inlined = true, .unit = scope->unit};
	if (!function ||
	    !dwarf_offdie(dwarf_cu_getdwarf(unit->content.cu), function, &ret_around->die))
		memset(&ret_around->die, 0, sizeof(ret_around->die));
	return whole;
}
