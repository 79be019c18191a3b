#include "injector/elf/entry_find_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/inline_hook_layout.h"
#include "injector/elf/preflight_allocators.h"

#define PAGE 4096u
/* Between the functions of an allocator are some that have none of its names. */
#define INSIDE_GAP 4096u
/* Nothing is mapped below this on any system (vm.mmap_min_addr). */
#define LOWEST_ADDRESS 65536u
/* A part of a jump's reach: operands refer to addresses some way into the module. */
#define REACH ((uint64_t)LIMPET_ENTRY_REACH - (64u << 20))

/* What the hook of an entry calls besides the function itself; 0: nothing. */
static uint64_t helper_of(const struct limpet_entry_finder *finder,
			  const struct limpet_entry *entry)
{
	const enum limpet_entry_family family = entry->what.family;

	if (entry->what.op >= LIMPET_OP_NOTED)
		return finder->to_mib[family];
	/* No allocator knows what the program puts in front of a block. */
	if (entry->own_operator)
		return 0;
	if (finder->usable[family] || family > LIMPET_ENTRY_OPERATORS)
		return finder->usable[family];
	for (unsigned i = 0; i < LIMPET_ENTRY_FAMILIES; i++)
		if (finder->usable[i])
			return finder->usable[i];
	return 0;
}

/* Notes the allocator's name for reports. */
static void name_owner(const struct limpet_entry_finder *finder, struct limpet_entry *entry)
{
	const char *slash = strrchr(finder->module->path, '/');
	const char *name = "its own malloc", *pool;
	size_t length;

	if (entry->what.family == LIMPET_ENTRY_FINDER)
		return;
	if (entry->listed >= 0) {
		snprintf(entry->owner, sizeof(entry->owner), "%s",
			 finder->list->list[entry->listed].owner);
		return;
	}
	pool = limpet_entry_name_pool(entry->name, &length);
	if (pool) {
		snprintf(entry->owner, sizeof(entry->owner), "%.*s",
			 (int)(length < sizeof(entry->owner) ? length : sizeof(entry->owner) - 1),
			 pool);
		return;
	}
	if (entry->what.family == LIMPET_ENTRY_NIM)
		name = "Nim";
	else if (entry->what.family > LIMPET_ENTRY_OPERATORS)
		name = limpet_entry_name_allocator(entry->name);
	else if (finder->is_allocator)
		name = limpet_allocator_of_library(finder->module->path);
	else if (finder->inside)
		name = finder->inside;
	else if (entry->what.family == LIMPET_ENTRY_OPERATORS)
		name = "its own operator new";
	if (finder->module->executable || finder->is_allocator)
		snprintf(entry->owner, sizeof(entry->owner), "%s", name);
	else
		snprintf(entry->owner, sizeof(entry->owner), "%s in %.24s", name,
			 slash ? slash + 1 : finder->module->path);
}

static int collect_module(struct limpet_entry_finder *finder)
{
	struct limpet_entries *entries = finder->entries;
	struct limpet_hook_area area = {.low = finder->module->start, .high = finder->module->end};
	uint64_t place;
	int error;

	error = limpet_entries_choose_place(&finder->modules->maps, &area, &place);
	if (!error)
		error = limpet_entry_check(finder, place + LIMPET_INLINE_HOOK_CODE_OFFSET);
	/* Not a part of an allocator: what is missing would be live, or foreign. */
	if (!error && (finder->is_cut || finder->count > LIMPET_MAX_ENTRIES - entries->count ||
		       entries->area_count == LIMPET_MAX_HOOK_AREAS)) {
		limpet_entry_refuse(entries, (unsigned)finder->count,
				    "there are too many allocators in one process");
		return -ENOSPC;
	}
	if (error == -ERANGE)
		snprintf(entries->why, sizeof(entries->why),
			 "there is no room within reach of its code");
	if (error)
		return error;
	area.bytes = (LIMPET_INLINE_HOOK_BYTES(finder->count) + PAGE - 1) / PAGE * PAGE;
	for (size_t i = 0; i < finder->count; i++) {
		struct limpet_entry *entry = &entries->list[entries->count++];

		*entry = finder->found[i];
		entry->area = entries->area_count;
		name_owner(finder, entry);
		entries->families[entry->what.family]++;
		if (entry->listed >= 0)
			entries->is_listed[entry->listed] = true;
		entry->own_operator =
			entry->what.family == LIMPET_ENTRY_OPERATORS && !finder->inside;
		entry->usable_size = helper_of(finder, entry);
		limpet_entry_note_inside(finder, entry->address, entry->bytes);
	}
	entries->areas[entries->area_count++] = area;
	entries->program = entries->program || finder->module->executable;
	return finder->failed ? -ENOMEM : 0;
}

/* Whether other modules import names that only an allocator's library has: mi_malloc, mallocx. */
static bool is_imported(struct limpet_modules *modules, const char *library)
{
	const char *allocator = limpet_allocator_of_library(library);

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *own = limpet_allocator_of_library(module->path);
		struct limpet_slot_tables tables;
		struct limpet_entry_name name;

		if (!module->in_list || module->agent || (own && !strcmp(own, allocator)) ||
		    limpet_module_tables_read(modules->target, module, &tables) < 0)
			continue;
		/* The module keeps its symbols. */
		limpet_module_tables_done(&tables);
		for (uint64_t k = 0; k < module->symbol_count; k++) {
			const Elf64_Sym *symbol = &module->symbols[k];
			const char *text = module->strings + symbol->st_name;

			if (symbol->st_shndx != SHN_UNDEF ||
			    symbol->st_name >= module->string_bytes)
				continue;
			if ((!strcmp(allocator, "mimalloc") &&
			     limpet_entry_name_is_forwarded(text)) ||
			    (limpet_entry_name_find(text, &name) && name.op != LIMPET_OP_NONE &&
			     limpet_family_find(text, module->string_bytes - symbol->st_name) < 0))
				return true;
		}
	}
	return false;
}

/* Its functions with an allocator's names call the allocator's own. */
static bool is_recorder(const char *path)
{
	return strstr(path, "/libheaptrack_");
}

static bool is_wanted(struct limpet_modules *modules, struct limpet_module *module)
{
	return module->in_list && !module->loader && !module->vdso && !module->agent &&
	       !is_recorder(module->path) &&
	       (module->executable || !limpet_modules_is_libc(modules, module));
}

/* ---------------------------------------------------------------- all of them */

static int compare_ranges(const void *a, const void *b)
{
	const struct limpet_entry_range *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static void merge_inside(struct limpet_entries *entries)
{
	size_t kept = 0;

	if (!entries->inside_count)
		return;
	qsort(entries->inside, entries->inside_count, sizeof(entries->inside[0]), compare_ranges);
	for (size_t i = 1; i < entries->inside_count; i++) {
		struct limpet_entry_range *last = &entries->inside[kept];
		const struct limpet_entry_range *next = &entries->inside[i];

		if (next->start > last->end + INSIDE_GAP)
			entries->inside[++kept] = *next;
		else if (next->end > last->end)
			last->end = next->end;
	}
	entries->inside_count = kept + 1;
}

/* Searches one module. 0 even if there is nothing, or -ENOMEM. */
static int find_in(struct limpet_modules *modules, struct limpet_module *module,
		   const struct limpet_entry_list *list, struct limpet_code_reader *reader,
		   struct limpet_entry *found, struct limpet_entries *entries)
{
	struct limpet_entry_finder finder = {.modules = modules,
					     .list = list,
					     .module = module,
					     .entries = entries,
					     .reader = reader,
					     .found = found,
					     .is_allocator =
						     limpet_allocator_of_library(module->path)};
	int error = 0;

	/* Callers reach its malloc through slots. */
	if (finder.is_allocator && !is_imported(modules, module->path))
		return 0;
	if (!is_wanted(modules, module))
		return 0;
	limpet_entry_collect(&finder);
	if (finder.failed)
		return -ENOMEM;
	if (finder.count && !finder.is_instrumented)
		error = collect_module(&finder);
	return error == -ENOMEM ? error : 0;
}

static int find_some(struct limpet_modules *modules, size_t first, size_t end,
		     const struct limpet_entry_list *list, struct limpet_entries *ret)
{
	struct limpet_entries entries = {.list = calloc(LIMPET_MAX_ENTRIES, sizeof(*entries.list))};
	LIMPET_FREE struct limpet_entry *found = calloc(LIMPET_MAX_ENTRIES, sizeof(*found));
	struct limpet_code_reader reader;
	int error = entries.list && found ? 0 : -ENOMEM;

	limpet_code_reader_init(&reader);
	for (size_t i = first; i < end && !error; i++)
		error = find_in(modules, &modules->list[i], list, &reader, found, &entries);
	limpet_code_reader_done(&reader);
	if (error) {
		limpet_entries_done(&entries);
		return error;
	}
	merge_inside(&entries);
	*ret = entries;
	return 0;
}

int limpet_entries_find(struct limpet_modules *modules, const struct limpet_entry_list *list,
			struct limpet_entries *ret)
{
	return find_some(modules, 0, modules->count, list, ret);
}

int limpet_entries_find_in(struct limpet_modules *modules, size_t index,
			   const struct limpet_entry_list *list, struct limpet_entries *ret)
{
	return find_some(modules, index, index + 1, list, ret);
}

void limpet_entries_done(struct limpet_entries *entries)
{
	free(entries->list);
	free(entries->inside);
	memset(entries, 0, sizeof(*entries));
}

void limpet_entries_leave_operators(struct limpet_entries *entries)
{
	size_t kept = 0;

	for (size_t i = 0; i < entries->count; i++) {
		if (entries->list[i].own_operator)
			entries->families[LIMPET_ENTRY_OPERATORS]--;
		else
			entries->list[kept++] = entries->list[i];
	}
	entries->count = kept;
}

bool limpet_entries_have_others(const struct limpet_entries *entries,
				const struct limpet_target *target, struct limpet_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];

		if (!module->loader && limpet_module_has_malloc(target, module) &&
		    !limpet_modules_is_libc(modules, module))
			return true;
	}
	return entries->count > entries->families[LIMPET_ENTRY_FINDER];
}

bool limpet_entries_are_in(void *context, const struct limpet_module *module)
{
	const struct limpet_entries *entries = context;

	for (size_t i = 0; i < entries->count; i++)
		if (entries->list[i].address >= module->start &&
		    entries->list[i].address < module->end)
			return true;
	return false;
}

const struct limpet_entry *limpet_entries_at(const struct limpet_entries *entries, uint64_t address)
{
	for (size_t i = 0; entries && i < entries->count; i++)
		if (entries->list[i].address == address)
			return &entries->list[i];
	return NULL;
}

/* Below the module, where nothing grows (the heap follows a program); otherwise above it. */
int limpet_entries_choose_place(const struct limpet_maps *maps, const struct limpet_hook_area *area,
				uint64_t *ret)
{
	uint64_t bytes = LIMPET_INLINE_HOOK_BYTES(LIMPET_MAX_ENTRIES) / PAGE * PAGE + 3 * PAGE;
	uint64_t best = 0, end = LOWEST_ADDRESS;

	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];
		uint64_t start = end;

		if (map->end > end)
			end = map->end;
		if (map->start < start + bytes)
			continue;
		if (map->start <= area->low) {
			/* As close as possible, with one page between. */
			best = map->start - bytes + PAGE;
			if (area->high - best > REACH)
				best = 0;
		} else if (!best && start >= area->high && start + bytes - area->low <= REACH) {
			best = start + PAGE;
		}
	}
	if (!best)
		return -ERANGE;
	*ret = best;
	return 0;
}
