#include "analyzer/views/resident_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/kept_pages.h"
#include "common/array.h"
#include "common/begins.h"
#include "common/units.h"

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

static int compare(const void *a, const void *b)
{
	const struct limpet_part *x = a, *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

void limpet_parts_between(const struct limpet_resident_account *before,
			  const struct limpet_resident_account *after, struct limpet_parts *ret)
{
	struct limpet_parts parts = {.known = after->known,
				     .has_before = after->known && before && before->known,
				     .trimmed_bytes = after->trimmed_bytes};

	if (parts.has_before)
		add_rows(&parts, before, true);
	add_rows(&parts, after, false);
	qsort(parts.list, parts.count, sizeof(*parts.list), compare);
	*ret = parts;
}

const char *limpet_part_name(const struct limpet_part *part)
{
	const char *colon = part->name ? strstr(part->name, ": ") : NULL;

	return colon ? colon + 2 : part->name ?: part->words;
}

void limpet_parts_of(const struct limpet_model *model, struct limpet_parts *ret)
{
	const enum limpet_end end = model->end->end;

	limpet_parts_between(&model->target->account, &model->end->account, ret);
	/* A program that has ended has nothing left. */
	if (!ret->known && model->end->known && !model->target->pages &&
	    (end < LIMPET_END_TARGET_EXIT || end > LIMPET_END_TARGET_KILLED))
		ret->unknown_bytes = limpet_kept_pages_rss(model);
}

void limpet_parts_last(const struct limpet_model *model, struct limpet_parts *ret)
{
	limpet_parts_of(model, ret);
	if (ret->known || !model->target->account.known)
		return;
	limpet_parts_between(NULL, &model->target->account, ret);
	ret->is_before = true;
}

/* ------------------------------------------------------------------ in words */

void limpet_part_format(const struct limpet_parts *parts, const struct limpet_part *part,
			char ret[LIMPET_PART_TEXT])
{
	const int64_t change = limpet_part_change(part);
	char bytes[LIMPET_UNITS_TEXT], more[LIMPET_UNITS_TEXT];
	int used = snprintf(ret, LIMPET_PART_TEXT, "%s %s", part->words,
			    limpet_units_format_bytes(bytes, part->bytes));

	if (parts->has_before && (uint64_t)llabs(change) >= parts->bytes / 100 && change)
		used += snprintf(ret + used, LIMPET_PART_TEXT - (size_t)used, " (%s)",
				 limpet_units_format_bytes_change(more, change));
	if (part->free_known && part->free_bytes >= parts->bytes / 20)
		snprintf(ret + used, LIMPET_PART_TEXT - (size_t)used, ", %s free",
			 limpet_units_format_bytes(more, part->free_bytes));
}

int limpet_parts_sentence(const struct limpet_parts *parts, char **ret)
{
	enum { SAID = 4 };
	const uint64_t least = parts->bytes / 20;
	char text[LIMPET_PART_TEXT], others[LIMPET_UNITS_TEXT];
	uint64_t left = parts->bytes;
	size_t bytes, i;
	FILE *file;

	if (parts->unknown_bytes)
		return asprintf(ret, "%s resident; of what, the trace does not say%s.",
				limpet_units_format_bytes(text, parts->unknown_bytes),
				parts->unknown_bytes > LIMPET_RESIDENT_BYTES_MAX
					? ": it is more than 4 GiB"
					: "") < 0
			       ? -ENOMEM
			       : 0;
	if (!parts->known || !parts->bytes)
		return 0;
	file = open_memstream(ret, &bytes);
	if (!file)
		return -ENOMEM;
	fprintf(file, "%s resident%s: ", limpet_units_format_bytes(text, parts->bytes),
		parts->is_before ? " before the capture" : "");
	for (i = 0; i < parts->count && i < SAID && parts->list[i].bytes >= least; i++) {
		limpet_part_format(parts, &parts->list[i], text);
		fprintf(file, "%s%s", i ? "; " : "", text);
		left -= parts->list[i].bytes;
	}
	if (left)
		fprintf(file, "%sothers %s", i ? "; " : "",
			limpet_units_format_bytes(others, left));
	fputs(".", file);
	return fclose(file) ? -ENOMEM : 0;
}
