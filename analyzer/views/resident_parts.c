#include "analyzer/views/resident_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/begins.h"

/* What explain's kinds of rows belong to. Those that are not listed are the rest. */
static const struct kind {
	const char *kind;
	enum limpet_part_class class;
	const char *words;
} kinds[] = {
	{"glibc-main-heap", LIMPET_PART_ALLOCATOR, "glibc's heap"},
	{"glibc-arenas", LIMPET_PART_ALLOCATOR, "glibc's heap"},
	{"glibc-mmapped", LIMPET_PART_ALLOCATOR, "glibc's heap"},
	{"jemalloc-heap", LIMPET_PART_ALLOCATOR, "jemalloc's heap"},
	{"jemalloc-free-pages", LIMPET_PART_ALLOCATOR, "jemalloc's heap"},
	{"jemalloc-locked", LIMPET_PART_ALLOCATOR, "jemalloc's heap"},
	{"jemalloc-retained", LIMPET_PART_ALLOCATOR, "jemalloc's heap"},
	{"mimalloc-heap", LIMPET_PART_ALLOCATOR, "mimalloc's heap"},
	{"tcmalloc-heap", LIMPET_PART_ALLOCATOR, "tcmalloc's heap"},
	{"tcmalloc-free-pages", LIMPET_PART_ALLOCATOR, "tcmalloc's heap"},
	{"v8-heap", LIMPET_PART_RUNTIME, "V8's heap (JavaScript)"},
	{"python-arenas", LIMPET_PART_RUNTIME, "Python's arenas"},
	{"go-heap", LIMPET_PART_RUNTIME, "Go's heap"},
	{"go-tables", LIMPET_PART_RUNTIME, "Go's heap"},
	{"java-heap", LIMPET_PART_RUNTIME, "the Java heap"},
	{"wasm-memory", LIMPET_PART_RUNTIME, "WebAssembly memory"},
	{"nim-heap", LIMPET_PART_ALLOCATOR, "Nim's heap"},
	{"erlang-carriers", LIMPET_PART_RUNTIME, "Erlang's carriers"},
	{"thread-stacks", LIMPET_PART_STACKS, "thread stacks"},
	{"main-stack", LIMPET_PART_STACKS, "thread stacks"},
	{"file-pages", LIMPET_PART_CODE, "code and data of files"},
	{"private-data", LIMPET_PART_CODE, "code and data of files"},
	{"jit-code", LIMPET_PART_CODE, "generated code"},
	{"kernel", LIMPET_PART_CODE, "code and data of files"},
	{"mapped-file", LIMPET_PART_MAPPED, "mapped files"},
	{"memfd", LIMPET_PART_MAPPED, "shared memory"},
	{"shm", LIMPET_PART_MAPPED, "shared memory"},
	{"tmpfs", LIMPET_PART_MAPPED, "shared memory"},
	{"sysv", LIMPET_PART_MAPPED, "shared memory"},
	{"shared-anonymous", LIMPET_PART_MAPPED, "shared memory"},
	{"device", LIMPET_PART_MAPPED, "devices"},
	{"named", LIMPET_PART_ANONYMOUS, "memory named by the program"},
	{"program-break", LIMPET_PART_ANONYMOUS, "the program break"},
};
static const struct kind rest = {NULL, LIMPET_PART_ANONYMOUS, "anonymous mappings"};

/* Those of older traces, and of programs that ended by themselves. */
static const struct kind measured[LIMPET_MEMORY_ACCOUNTS] = {
	[LIMPET_MEMORY_UNKNOWN] = {NULL, LIMPET_PART_ANONYMOUS, "anonymous mappings"},
	[LIMPET_MEMORY_HEAP] = {NULL, LIMPET_PART_ALLOCATOR, "glibc's heap"},
	[LIMPET_MEMORY_MAPPED] = {NULL, LIMPET_PART_ANONYMOUS, "anonymous mappings"},
	[LIMPET_MEMORY_STACKS] = {NULL, LIMPET_PART_STACKS, "thread stacks"},
	[LIMPET_MEMORY_FILES] = {NULL, LIMPET_PART_CODE, "code and data of files"},
	[LIMPET_MEMORY_SHARED] = {NULL, LIMPET_PART_MAPPED, "shared memory"},
	[LIMPET_MEMORY_CODE] = {NULL, LIMPET_PART_CODE, "generated code"},
	[LIMPET_MEMORY_NAMED] = {NULL, LIMPET_PART_ANONYMOUS, "memory named by the program"},
};

static const struct kind *kind_of(const char *name)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		if (!strcmp(kinds[i].kind, name))
			return &kinds[i];
	return &rest;
}

static struct limpet_part *part_of(struct limpet_parts *parts, const struct kind *kind)
{
	struct limpet_part *part = parts->list;

	while (part < parts->list + parts->count && strcmp(part->words, kind->words) != 0)
		part++;
	if (part == parts->list + parts->count) {
		*part = (struct limpet_part){.class = kind->class, .words = kind->words};
		parts->count++;
	}
	return part;
}

static bool is_own(const struct limpet_resident_row *row)
{
	return !strcmp(row->kind, "limpet");
}

static void add_rows(struct limpet_parts *parts, const struct limpet_resident_account *account,
		     bool before)
{
	for (size_t i = 0; i < account->count; i++) {
		const struct limpet_resident_row *row = &account->rows[i];
		struct limpet_part *part;

		if (is_own(row))
			continue;
		part = part_of(parts, kind_of(row->kind));
		if (before) {
			parts->before_bytes += row->bytes;
			part->before_bytes += row->bytes;
			part->free_before_bytes += row->free_bytes;
			continue;
		}
		if (!part->name)
			part->name = row->owner; /* rows are in order of their size */
		parts->bytes += row->bytes;
		part->bytes += row->bytes;
		part->free_known |= row->free_known;
		part->free_bytes += row->free_bytes;
		part->count += row->count;
		if (part->class == LIMPET_PART_STACKS && limpet_begins(row->owner, "stacks of ")) {
			part->idle = row->owner;
			part->idle_count += row->count;
		}
	}
}

static void add_measured(struct limpet_parts *parts, const struct limpet_memory *memory,
			 bool before)
{
	for (unsigned i = LIMPET_MEMORY_UNKNOWN; i < LIMPET_MEMORY_ACCOUNTS; i++) {
		struct limpet_part *part;

		if (!measured[i].words || !memory->bytes[i])
			continue;
		part = part_of(parts, &measured[i]);
		*(before ? &part->before_bytes : &part->bytes) += memory->bytes[i];
		*(before ? &parts->before_bytes : &parts->bytes) += memory->bytes[i];
	}
}

static int compare(const void *a, const void *b)
{
	const struct limpet_part *x = a, *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

void limpet_parts_of(const struct limpet_model *model, struct limpet_parts *ret)
{
	const struct limpet_resident_account *before = &model->target->account;
	const struct limpet_resident_account *after = &model->end->account;
	struct limpet_parts parts = {.known = after->known};

	if (after->known) {
		parts.has_before = before->known;
		parts.trimmed_bytes = after->trimmed_bytes;
		add_rows(&parts, before, true);
		add_rows(&parts, after, false);
	} else {
		parts.known = model->memory.known;
		parts.has_before = model->memory.known && model->target->memory.known;
		if (parts.has_before)
			add_measured(&parts, &model->target->memory, true);
		if (parts.known)
			add_measured(&parts, &model->memory, false);
	}
	qsort(parts.list, parts.count, sizeof(*parts.list), compare);
	*ret = parts;
}

const char *limpet_part_name(const struct limpet_part *part)
{
	const char *colon = part->name ? strstr(part->name, ": ") : NULL;

	return colon ? colon + 2 : part->name ?: part->words;
}
