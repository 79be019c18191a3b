#include "injector/image/entry_find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/family.h"
#include "common/open_file.h"
#include "injector/image/code_reader.h"
#include "injector/image/elf_file.h"
#include "injector/image/entry_nim.h"
#include "injector/image/inline_hook_layout.h"
#include "injector/image/preflight_allocators.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#define PAGE 4096u
#define MAX_FUNCTION_BYTES 65536u
#define MAX_INSIDE 65536u
#define PIECE (1u << 20)
/* Between the functions of an allocator lie those that have no names of their kind. */
#define INSIDE_GAP 4096u
/* By which an unwinder finds the tables of an address (agent/finder.c). */
#define TABLES_FUNCTION "_dl_find_object"
/* Nothing is mapped below, on any system (vm.mmap_min_addr). */
#define LOWEST_ADDRESS 65536u
/* Of the distance that a jump can go: operands reach some way into the module. */
#define REACH ((uint64_t)LIMPET_ENTRY_REACH - (64u << 20))

struct finder {
	struct limpet_modules *modules;
	const struct limpet_entry_list *list; /* NULL: none */
	struct limpet_module *module;
	struct limpet_entries *entries;
	struct limpet_code_reader *reader;
	struct limpet_entry *found; /* of this module, LIMPET_MAX_ENTRIES */
	size_t count;
	uint64_t usable[LIMPET_ENTRY_FAMILIES];
	bool has_slot[LIMPET_FAMILY_COUNT];
	bool is_allocator;  /* a library that is nothing else */
	const char *inside; /* the allocator whose own functions are there; NULL: none's */
	uint64_t tables, tables_bytes; /* _dl_find_object of a static program; 0: none */
	bool is_instrumented;
	bool failed;
};

static bool frees(uint32_t op)
{
	return op == LIMPET_OP_FREE || op == LIMPET_OP_REALLOC || op == LIMPET_OP_REALLOCARRAY;
}

/* ---------------------------------------------------------------- by name */

static void note_inside(struct finder *finder, uint64_t address, uint64_t bytes)
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

static bool is_called_directly(const struct finder *finder, const struct limpet_entry_name *name)
{
	/* All or nothing of a library that is called by such names: most are several for one. */
	if (finder->module->executable || !name->only_exported || finder->is_allocator)
		return true;
	/* Calls from elsewhere go through slots, its own too if they do at all. */
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

/* Its functions of an allocator's names stand before the allocator's own. */
static bool is_recorder(const char *path)
{
	return strstr(path, "/libheaptrack_");
}

static bool visit(void *context, const struct limpet_elf_function *function)
{
	struct finder *finder = context;
	const struct limpet_module *module = finder->module;
	uint64_t address = module->bias + function->value;
	struct limpet_entry_name name;
	struct limpet_entry *entry = NULL;
	int listed;

	if (!strncmp(function->name, "__", 2) && strstr(function->name, "san_init"))
		finder->is_instrumented = true;
	if (address < module->text_start || address >= module->text_end || !function->bytes)
		return true;
	if (limpet_entry_name_is_inside(function->name)) {
		finder->inside = limpet_entry_name_allocator(function->name);
		note_inside(finder, address, function->bytes);
	}
	if (finder->modules->fully_static && !strcmp(function->name, TABLES_FUNCTION)) {
		finder->tables = address;
		finder->tables_bytes = function->bytes;
	}
	listed = limpet_entry_list_find(finder->list, function->name);
	if (listed >= 0) {
		name = finder->list->list[listed].what;
		finder->entries->is_there[listed] = true;
	}
	if (listed < 0 && !limpet_entry_name_find(function->name, &name))
		return !finder->failed;
	/* Those of libstdc++ call malloc; linked in they are weak. */
	if (name.family == LIMPET_ENTRY_OPERATORS &&
	    (function->weak || is_cxx_runtime(module->path)))
		return true;
	if (name.op == LIMPET_OP_NONE) {
		finder->usable[name.family] = address;
		return true;
	}
	if (!is_called_directly(finder, &name) || function->bytes > MAX_FUNCTION_BYTES)
		return true;
	for (size_t i = 0; i < finder->count && !entry; i++)
		if (finder->found[i].address == address)
			entry = &finder->found[i];
	/* Of several names the allocator's own says most. */
	if (entry && listed < 0 && (name.only_exported || !entry->is_common))
		return true;
	if (!entry && finder->count == LIMPET_MAX_ENTRIES)
		return false;
	if (!entry)
		entry = &finder->found[finder->count++];
	*entry = (struct limpet_entry){
		.address = address,
		.bytes = function->bytes,
		.what = name,
		.is_common = name.only_exported,
	};
	/* One that is not seen from outside may be something of the program's own. */
	entry->what.only_exported = name.only_exported && function->local;
	snprintf(entry->name, sizeof(entry->name), "%s", function->name);
	entry->listed = listed;
	return !finder->failed;
}

static int note_slot(const struct limpet_slot_found *found, void *context)
{
	struct finder *finder = context;

	finder->has_slot[found->symbol] = true;
	return 0;
}

static int open_file(const struct finder *finder)
{
	pid_t pid = finder->modules->pid;
	char process[PATH_MAX];

	if (!finder->module->executable)
		return limpet_module_open(pid, finder->module);
	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root, limpet_proc_resident(pid));
	return limpet_open_linked(process, "exe", NULL);
}

/* All, or nothing: a part of its releases would show the rest as leaks. */
static void read_nim(struct finder *finder, struct limpet_elf_file *file)
{
	LIMPET_FREE struct limpet_nim_places *places = malloc(sizeof(*places));
	int error = places ? limpet_entry_nim_find(finder->modules->pid, finder->module, file,
						   finder->reader, places)
			   : -ENOMEM;

	if (!error && places->count > LIMPET_MAX_ENTRIES - finder->count) {
		error = -ENOTSUP;
		snprintf(places->why, sizeof(places->why), "too many functions for one process");
	}
	finder->failed = finder->failed || error == -ENOMEM;
	if (error == -ENOTSUP) {
		finder->entries->refused++;
		snprintf(finder->entries->why, sizeof(finder->entries->why), "%s", places->why);
	}
	if (error)
		return;
	finder->entries->refused += places->unseen;
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

static void read_names(struct finder *finder)
{
	LIMPET_CLOSE int fd = open_file(finder);
	struct limpet_slot_tables tables;
	struct limpet_elf_file *file;

	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return;
	if (!finder->module->executable &&
	    limpet_module_tables_read(finder->modules->pid, finder->module, &tables) == 0) {
		limpet_slots_scan(&tables, note_slot, finder);
		limpet_module_tables_done(&tables);
	}
	limpet_elf_file_functions(file, visit, finder);
	read_nim(finder, file);
	limpet_elf_file_free(file);
}

/* ---------------------------------------------------------------- which can be hooked */

static int refuse(struct finder *finder, const struct limpet_entry *entry, const char *why)
{
	finder->entries->refused++;
	if (frees(entry->what.op))
		snprintf(finder->entries->why, sizeof(finder->entries->why), "%s: %.100s",
			 entry->name, why);
	return -ENOTSUP;
}

static int check_code(struct finder *finder, struct limpet_entry *entry, uint64_t place)
{
	LIMPET_FREE uint8_t *code = malloc(entry->bytes);
	struct limpet_err err = {0};
	uint64_t from;

	if (!code)
		return -ENOMEM;
	if (!limpet_module_spend(finder->module, entry->bytes) ||
	    limpet_memory_read(finder->modules->pid, entry->address, code, entry->bytes) < 0)
		return refuse(finder, entry, "its code cannot be read");
	if (limpet_code_reader_entry(finder->reader, entry->code.kind, code, entry->bytes,
				     entry->address, place, &entry->code, &err) < 0)
		return err.code == -ENOMEM ? -ENOMEM : refuse(finder, entry, err.message);
	/* What is written must not come to be half there. */
	from = entry->code.from;
	if (from / PAGE != (from + LIMPET_ENTRY_JUMP_BYTES - 1) / PAGE)
		return refuse(finder, entry, "its beginning goes over the end of a page");
	return 0;
}

static void drop(struct finder *finder, size_t index)
{
	memmove(&finder->found[index], &finder->found[index + 1],
		(--finder->count - index) * sizeof(finder->found[0]));
}

static int compare_entries(const void *a, const void *b)
{
	const struct limpet_entry *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

/* Elsewhere in the module a jump may lead to the middle of what moves: from a part of the function
 * that stands apart, or handwritten code. A byte that only looks like a jump costs an entry. */
static bool is_jumped_into(const struct finder *finder, const uint8_t *at, uint64_t address,
			   size_t *ret_index)
{
	size_t length = 0;
	uint64_t target;
	int32_t away;

	if (at[0] == 0xe9)
		length = 5;
	else if (at[0] == 0x0f && (at[1] & 0xf0) == 0x80)
		length = 6;
	else
		return false;
	memcpy(&away, at + length - sizeof(away), sizeof(away));
	target = address + length + (uint64_t)(int64_t)away;
	if (target <= finder->found[0].address ||
	    target >= finder->found[finder->count - 1].address + LIMPET_ENTRY_MOVED_MAX)
		return false;
	for (size_t i = 0; i < finder->count; i++) {
		const struct limpet_entry_code *code = &finder->found[i].code;

		if (target > code->from && target < code->from + code->original_bytes) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

static int check_jumps(struct finder *finder)
{
	const size_t longest = 6;
	const struct limpet_module *module = finder->module;
	LIMPET_FREE uint8_t *code = malloc(PIECE + longest);

	if (!code)
		return -ENOMEM;
	if (!limpet_module_spend(module, module->text_end - module->text_start))
		return -EFBIG;
	for (uint64_t at = module->text_start; at < module->text_end; at += PIECE) {
		ssize_t got =
			limpet_memory_read_some(finder->modules->pid, at, code, PIECE + longest);

		for (ssize_t i = 0; i + (ssize_t)longest <= got && finder->count; i++) {
			size_t index;

			if (!is_jumped_into(finder, code + i, at + (uint64_t)i, &index))
				continue;
			if (refuse(finder, &finder->found[index],
				   "a jump leads into its beginning") &&
			    frees(finder->found[index].what.op))
				return -ENOTSUP;
			drop(finder, index);
		}
	}
	return 0;
}

/* A fully static program has one malloc: local, unless another has that name, too. */
static bool is_of_libc(const struct finder *finder, size_t index)
{
	if (!finder->modules->fully_static)
		return false;
	for (size_t i = 0; i < finder->count; i++)
		if (i != index && !strcmp(finder->found[i].name, finder->found[index].name))
			return false;
	return true;
}

/* An allocator has many names for one thing; what was listed is apart. */
static unsigned group_of(const struct limpet_entry_name *what)
{
	return what->family < LIMPET_ENTRY_LISTED ? LIMPET_ENTRY_PLAIN : what->family;
}

/* Functions by which nothing can be released, or nothing be made, are something else. */
static void drop_halves(struct finder *finder)
{
	unsigned releases[LIMPET_ENTRY_FAMILIES] = {0}, allocates[LIMPET_ENTRY_FAMILIES] = {0};

	for (size_t i = 0; i < finder->count; i++) {
		const struct limpet_entry_name *what = &finder->found[i].what;

		releases[group_of(what)] += frees(what->op);
		allocates[group_of(what)] +=
			what->op != LIMPET_OP_FREE && what->op != LIMPET_OP_INSIDE;
	}
	for (size_t i = 0; i < finder->count;) {
		unsigned group = group_of(&finder->found[i].what);

		if (releases[group] && allocates[group])
			i++;
		else
			drop(finder, i);
	}
}

/* Without it exceptions do not pass the agent: what throws is left alone then, nothing is missed.
 * 0, -ENOMEM. */
static int add_tables_function(struct finder *finder, uint64_t place)
{
	struct limpet_entry *entry = &finder->found[finder->count];
	unsigned refused = finder->entries->refused;
	int error;

	if (!finder->tables || finder->count == LIMPET_MAX_ENTRIES ||
	    finder->tables_bytes > MAX_FUNCTION_BYTES)
		return 0;
	*entry = (struct limpet_entry){
		.address = finder->tables,
		.bytes = finder->tables_bytes,
		.what = {.family = LIMPET_ENTRY_FINDER,
			 .op = LIMPET_OP_FINDER,
			 .symbol = limpet_family_first(LIMPET_OP_FINDER)},
		.name = TABLES_FUNCTION,
		.listed = -1,
	};
	error = check_code(finder, entry, place);
	finder->entries->refused = refused;
	finder->count += !error;
	return error == -ENOMEM ? error : 0;
}

static int check_all(struct finder *finder, uint64_t place)
{
	int error;

	for (size_t i = 0; i < finder->count;) {
		struct limpet_entry *entry = &finder->found[i];

		/* A static function of the program's that happens to have such a name; but where
		 * libc is linked in, some of its own are seen from nowhere else. */
		if (entry->what.only_exported && !finder->inside && !is_of_libc(finder, i)) {
			drop(finder, i);
			continue;
		}
		error = check_code(finder, entry, place);
		/* Of a pool all: what it has from malloc would be counted, too. */
		if (error == -ENOTSUP && !frees(entry->what.op) &&
		    entry->what.family != LIMPET_ENTRY_POOL) {
			drop(finder, i);
			continue;
		}
		/* All or nothing: what is released unseen would be reported as lost. */
		if (error)
			return error;
		i++;
	}
	drop_halves(finder);
	if (!finder->count)
		return -ENOENT;
	error = add_tables_function(finder, place);
	if (error)
		return error;
	qsort(finder->found, finder->count, sizeof(finder->found[0]), compare_entries);
	return check_jumps(finder);
}

static uint64_t usable_size_of(const struct finder *finder, enum limpet_entry_family family)
{
	if (finder->usable[family] || family > LIMPET_ENTRY_OPERATORS)
		return finder->usable[family];
	for (unsigned i = 0; i < LIMPET_ENTRY_FAMILIES; i++)
		if (finder->usable[i])
			return finder->usable[i];
	return 0;
}

/* Whose blocks these are, for people. */
static void name_owner(const struct finder *finder, struct limpet_entry *entry)
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

static int take_module(struct finder *finder)
{
	struct limpet_entries *entries = finder->entries;
	struct limpet_entry_area *area = &entries->areas[entries->area_count];
	uint64_t place;
	int error;

	*area = (struct limpet_entry_area){.low = finder->module->start,
					   .high = finder->module->end};
	error = limpet_entries_choose_place(&finder->modules->maps, area, &place);
	if (!error)
		error = check_all(finder, place + LIMPET_INLINE_HOOK_CODE_OFFSET);
	if (error == -ERANGE)
		snprintf(entries->why, sizeof(entries->why),
			 "there is no room within reach of its code");
	if (error)
		return error;
	area->bytes = (LIMPET_INLINE_HOOK_BYTES(finder->count) + PAGE - 1) / PAGE * PAGE;
	for (size_t i = 0; i < finder->count && entries->count < LIMPET_MAX_ENTRIES; i++) {
		struct limpet_entry *entry = &entries->list[entries->count++];

		*entry = finder->found[i];
		entry->area = entries->area_count;
		name_owner(finder, entry);
		entries->families[entry->what.family]++;
		if (entry->listed >= 0)
			entries->is_taken[entry->listed] = true;
		entry->own_operator =
			entry->what.family == LIMPET_ENTRY_OPERATORS && !finder->inside;
		/* What the program puts in front of a block, no allocator knows. */
		if (!entry->own_operator)
			entry->usable_size = usable_size_of(finder, entry->what.family);
		note_inside(finder, entry->address, entry->bytes);
	}
	entries->area_count++;
	entries->program = entries->program || finder->module->executable;
	return finder->failed ? -ENOMEM : 0;
}

/* Whether others are bound to names that only an allocator's library has: mi_malloc, mallocx. */
static bool is_imported(struct limpet_modules *modules, const char *library)
{
	const char *allocator = limpet_allocator_of_library(library);

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *own = limpet_allocator_of_library(module->path);
		struct limpet_slot_tables tables;
		struct limpet_entry_name name;

		if (!module->in_list || module->agent || (own && !strcmp(own, allocator)) ||
		    limpet_module_tables_read(modules->pid, module, &tables) < 0)
			continue;
		/* The module keeps its symbols. */
		limpet_module_tables_done(&tables);
		for (uint64_t k = 0; k < module->symbol_count; k++) {
			const Elf64_Sym *symbol = &module->symbols[k];
			const char *text = module->strings + symbol->st_name;

			if (symbol->st_shndx == SHN_UNDEF &&
			    symbol->st_name < module->string_bytes &&
			    limpet_entry_name_find(text, &name) && name.op != LIMPET_OP_NONE &&
			    limpet_family_find(text, module->string_bytes - symbol->st_name) < 0)
				return true;
		}
	}
	return false;
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

/* Of one module: 0 also where there is nothing, -ENOMEM. */
static int find_in(struct limpet_modules *modules, struct limpet_module *module,
		   const struct limpet_entry_list *list, struct limpet_code_reader *reader,
		   struct limpet_entry *found, struct limpet_entries *entries)
{
	struct finder finder = {.modules = modules,
				.list = list,
				.module = module,
				.entries = entries,
				.reader = reader,
				.found = found,
				.is_allocator = limpet_allocator_of_library(module->path)};
	int error = 0;

	/* Its malloc is called through slots, by those who call it so. */
	if (finder.is_allocator && !is_imported(modules, module->path))
		return 0;
	if (entries->count == LIMPET_MAX_ENTRIES || entries->area_count == LIMPET_MAX_ENTRY_AREAS ||
	    !is_wanted(modules, module))
		return 0;
	read_names(&finder);
	if (finder.failed)
		return -ENOMEM;
	if (finder.count && !finder.is_instrumented)
		error = take_module(&finder);
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

const struct limpet_entry *limpet_entries_at(const struct limpet_entries *entries, uint64_t address)
{
	for (size_t i = 0; entries && i < entries->count; i++)
		if (entries->list[i].address == address)
			return &entries->list[i];
	return NULL;
}

/* Below the module, where nothing grows (behind a program lies its heap); else above. */
int limpet_entries_choose_place(const struct limpet_maps *maps,
				const struct limpet_entry_area *area, uint64_t *ret)
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
			/* As close as it gets, with a page between. */
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
