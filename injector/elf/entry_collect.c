/* Collects the functions of a module that are an allocator's: by their names, or where they were
 * found without one. */
#include "injector/elf/entry_find_private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch.h"
#include "common/array.h"
#include "common/open_file.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/entry_nim.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define MAX_INSIDE 65536u

void limpet_entry_note_inside(struct limpet_entry_finder *finder, uint64_t address, uint64_t bytes)
{
	struct limpet_entries *entries = finder->entries;

	if (entries->inside_count == MAX_INSIDE || bytes > finder->module->end - address)
		return;
	if (limpet_reserve(&entries->inside, &entries->inside_capacity, entries->inside_count + 1,
			   sizeof(*entries->inside)) < 0) {
		finder->failed = true;
		return;
	}
	entries->inside[entries->inside_count++] =
		(struct limpet_entry_range){address, address + bytes};
}

static bool is_called_directly(const struct limpet_entry_finder *finder,
			       const struct limpet_entry_name *name)
{
	/* A library called by such names is hooked completely or not at all, since most of its
	 * names stand for the same function. */
	if (finder->module->executable || !name->only_exported || finder->is_allocator)
		return true;
	/* Other modules call it through slots; so does its own module if it has a slot at all. */
	return !finder->has_slot[name->symbol];
}

static bool is_cxx_runtime(const char *path)
{
	static const char *const names[] = {"/libstdc++.so", "/libc++.so", "/libc++abi.so"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		if (strstr(path, names[i]))
			return true;
	return false;
}

/* Of the family to which the mallctl with the same prefix belongs. */
static void note_to_mib(struct limpet_entry_finder *finder, uint64_t address, const char *function)
{
	const char *at = strstr(function, LIMPET_NAME_TO_MIB);
	struct limpet_entry_name what;
	char control[32];

	if (!at || (size_t)(at - function) >= sizeof(control) - strlen("mallctl"))
		return;
	snprintf(control, sizeof(control), "%.*smallctl", (int)(at - function), function);
	if (limpet_entry_name_find(control, &what) && what.op == LIMPET_OP_CONTROL)
		finder->to_mib[what.family] = address;
}

static void note_special(struct limpet_entry_finder *finder, uint64_t address,
			 const struct limpet_elf_function *function)
{
	enum limpet_entry_family family;

	if (limpet_entry_name_is_inside(function->name)) {
		finder->inside = limpet_entry_name_allocator(function->name);
		limpet_entry_note_inside(finder, address, function->bytes);
		/* The names that prove it are among these. */
		if (limpet_entry_name_proves(function->name, &family))
			finder->is_proven[family] = true;
	}
	note_to_mib(finder, address, function->name);
	if (finder->modules->fully_static && !strcmp(function->name, TABLES_FUNCTION)) {
		finder->tables = address;
		finder->tables_bytes = function->bytes;
	}
}

/* False: there are too many entries. */
static bool add_entry(struct limpet_entry_finder *finder, uint64_t address,
		      const struct limpet_elf_function *function,
		      const struct limpet_entry_name *name, int listed)
{
	struct limpet_entry *entry = NULL;

	for (size_t i = 0; i < finder->count && !entry; i++)
		if (finder->found[i].address == address)
			entry = &finder->found[i];
	/* Of several names of a function, the allocator's own name is the most specific. */
	if (entry && listed < 0 && (name->only_exported || !entry->is_common))
		return true;
	if (!entry && finder->count == LIMPET_MAX_ENTRIES) {
		finder->is_cut = true;
		return false;
	}
	if (!entry)
		entry = &finder->found[finder->count++];
	*entry = (struct limpet_entry){
		.address = address,
		.bytes = function->bytes,
		.what = *name,
		.is_common = name->only_exported,
		.listed = listed,
	};
	/* A function that is not exported may be the program's own, for another purpose. */
	entry->what.only_exported = name->only_exported && function->local;
	snprintf(entry->name, sizeof(entry->name), "%s", function->name);
	return true;
}

static bool visit(void *context, const struct limpet_elf_function *function)
{
	struct limpet_entry_finder *finder = context;
	const struct limpet_module *module = finder->module;
	uint64_t address = module->bias + function->value;
	struct limpet_entry_name name;
	int listed;

	if (!strncmp(function->name, "__", 2) && strstr(function->name, "san_init"))
		finder->is_instrumented = true;
	if (address < module->text_start || address >= module->text_end || !function->bytes)
		return true;
	note_special(finder, address, function);
	listed = limpet_entry_list_find(finder->list, function->name);
	if (listed >= 0) {
		name = finder->list->list[listed].what;
		finder->entries->is_there[listed] = true;
	}
	if (listed < 0 && !limpet_entry_name_find(function->name, &name))
		return !finder->failed;
	/* The operators of libstdc++ call malloc; linked in they are weak. */
	if (name.family == LIMPET_ENTRY_OPERATORS &&
	    (function->weak || is_cxx_runtime(module->path)))
		return true;
	if (name.op == LIMPET_OP_NONE) {
		finder->usable[name.family] = address;
		return true;
	}
	if (!is_called_directly(finder, &name) || function->bytes > MAX_FUNCTION_BYTES)
		return true;
	return add_entry(finder, address, function, &name, listed) && !finder->failed;
}

/* mallctl without a prefix has to be jemalloc's. */
static bool is_stranger(const struct limpet_entry_finder *finder, const struct limpet_entry *entry)
{
	return (entry->what.op == LIMPET_OP_CONTROL ||
		entry->what.op == LIMPET_OP_CONTROL_BY_MIB) &&
	       entry->what.family == LIMPET_ENTRY_PLAIN && !finder->to_mib[LIMPET_ENTRY_PLAIN];
}

/* Functions with an allocator's prefix that are not known to be that allocator's are left out:
 * nothing is known of their arguments. */
static void drop_unproven(struct limpet_entry_finder *finder)
{
	size_t kept = 0;
	bool any = finder->is_allocator;

	for (unsigned family = 0; family < LIMPET_ENTRY_FAMILIES; family++)
		any = any || finder->is_proven[family];
	if (!any)
		finder->inside = NULL;
	for (size_t i = 0; i < finder->count; i++) {
		const enum limpet_entry_family family = finder->found[i].what.family;
		const bool has_prefix =
			family >= LIMPET_ENTRY_RUST_JE && family <= LIMPET_ENTRY_TCMALLOC;

		if (is_stranger(finder, &finder->found[i]))
			continue;
		if (!has_prefix || finder->is_allocator || finder->is_proven[family])
			finder->found[kept++] = finder->found[i];
	}
	finder->count = kept;
}

static bool is_here(const struct limpet_entry_place *place, const struct limpet_module *module)
{
	return place->inode && place->inode == module->inode &&
	       place->dev_major == module->dev_major && place->dev_minor == module->dev_minor;
}

/* Whether all functions that were found in this file can be added. */
static bool found_fit(const struct limpet_entry_finder *finder)
{
	const struct limpet_module *module = finder->module;
	size_t count = finder->count;

	for (size_t i = 0; i < finder->list->count; i++) {
		const struct limpet_entry_place *place = &finder->list->list[i].place;
		const uint64_t address = module->bias + place->value;

		if (!is_here(place, module))
			continue;
		if (++count > LIMPET_MAX_ENTRIES || address < module->text_start ||
		    address >= module->text_end || place->bytes > MAX_FUNCTION_BYTES ||
		    place->bytes > module->text_end - address)
			return false;
	}
	return true;
}

/* Functions without a name that were found in this file: all or none. One of which the calls told
 * nothing has no operation: blocks that it gives stay unseen. */
static void add_found(struct limpet_entry_finder *finder)
{
	if (!finder->list || !found_fit(finder))
		return;
	for (size_t i = 0; i < finder->list->count; i++) {
		const struct limpet_entry_listed *listed = &finder->list->list[i];
		const struct limpet_elf_function function = {.name = listed->name,
							     .value = listed->place.value,
							     .bytes = listed->place.bytes};

		if (!is_here(&listed->place, finder->module))
			continue;
		finder->entries->is_there[i] = true;
		if (listed->what.op == LIMPET_OP_NONE) {
			limpet_entry_refuse(finder->entries, 1, NULL);
			finder->entries->is_listed[i] = true;
		} else {
			(void)add_entry(finder, finder->module->bias + function.value, &function,
					&listed->what, (int)i);
		}
	}
}

static int note_slot(const struct limpet_slot_found *found, void *context)
{
	struct limpet_entry_finder *finder = context;

	if (LIMPET_ARCH_RELOCATION_IS_SLOT(found->type))
		finder->has_slot[found->symbol] = true;
	return 0;
}

static int open_file(const struct limpet_entry_finder *finder)
{
	const struct limpet_target *target = finder->modules->target;
	char process[PATH_MAX];

	if (!finder->module->executable)
		return limpet_module_open(target, finder->module);
	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root,
		 limpet_proc_resident(target->pid));
	return limpet_open_linked(process, "exe", NULL);
}

/* All or nothing: if some releases were not seen, their blocks would be reported as leaks. */
static void read_nim(struct limpet_entry_finder *finder, struct limpet_elf_file *file)
{
	LIMPET_FREE struct limpet_nim_places *places = malloc(sizeof(*places));
	int error = places ? limpet_entry_nim_find(finder->modules->target, finder->module, file,
						   finder->reader, places)
			   : -ENOMEM;

	if (!error && places->count > LIMPET_MAX_ENTRIES - finder->count) {
		error = -ENOTSUP;
		snprintf(places->why, sizeof(places->why), "too many functions for one process");
	}
	finder->failed = finder->failed || error == -ENOMEM;
	if (error == -ENOTSUP) {
		limpet_entry_refuse(finder->entries, 1, places->why);
		snprintf(finder->entries->why, sizeof(finder->entries->why), "%s", places->why);
	}
	if (error)
		return;
	limpet_entry_refuse(finder->entries, places->unseen, NULL);
	finder->entries->thread_heaps |= places->thread_heaps;
	for (size_t i = 0; i < places->count; i++) {
		const struct limpet_nim_place *place = &places->list[i];
		struct limpet_entry *entry = &finder->found[finder->count++];

		*entry = (struct limpet_entry){
			.address = place->address,
			.bytes = place->bytes,
			.what = {.family = LIMPET_ENTRY_NIM,
				 .op = place->op,
				 .hook_flags = place->hook_flags},
			.listed = -1,
			.code.kind = place->kind,
		};
		snprintf(entry->name, sizeof(entry->name), "%s", place->name);
	}
}

void limpet_entry_collect(struct limpet_entry_finder *finder)
{
	LIMPET_CLOSE int fd = open_file(finder);
	struct limpet_slot_tables tables;
	struct limpet_elf_file *file;

	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return;
	if (!finder->module->executable &&
	    limpet_module_tables_read(finder->modules->target, finder->module, &tables) == 0) {
		limpet_slots_scan(&tables, note_slot, finder);
		limpet_module_tables_done(&tables);
	}
	limpet_elf_file_functions(file, visit, finder);
	drop_unproven(finder);
	add_found(finder);
	read_nim(finder, file);
	limpet_elf_file_free(file);
}
