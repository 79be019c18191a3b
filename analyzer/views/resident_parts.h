/* Resident memory in parts that people know, before and after a capture: one account for verdicts,
 * reports and pages. Parts add up to the whole. */
#ifndef LIMPET_ANALYZER_VIEWS_RESIDENT_PARTS_H
#define LIMPET_ANALYZER_VIEWS_RESIDENT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"

enum limpet_part_class {
	LIMPET_PART_ALLOCATOR, /* of C: blocks, and what the allocator keeps free */
	LIMPET_PART_RUNTIME,   /* the heap of a language's runtime */
	LIMPET_PART_STACKS,
	LIMPET_PART_CODE,     /* pages of programs and libraries, with their data */
	LIMPET_PART_MAPPED,   /* other files, and shared memory */
	LIMPET_PART_ANONYMOUS /* mapped by the program itself, or of no known owner */
};

struct limpet_part {
	enum limpet_part_class class;
	const char *words; /* "V8's heap"; static */
	const char *name;  /* of its largest row, such as a file's; borrowed from the trace */
	uint64_t before_bytes, bytes;
	bool free_known;                        /* at the end */
	uint64_t free_before_bytes, free_bytes; /* of `bytes`: kept by the allocator */
	const char *idle;                       /* of stacks: whose they were; NULL: none */
	uint64_t idle_count;
	uint64_t count; /* of stacks, mappings...; 0: does not apply */
};
enum { LIMPET_PARTS_MAX = 20 };

struct limpet_parts {
	bool known, has_before; /* the former: at the end */
	bool is_before;         /* what is there is of before the capture */
	uint64_t before_bytes, bytes, trimmed_bytes;
	uint64_t unknown_bytes; /* resident at the end, of a trace that has no account of it */
	struct limpet_part list[LIMPET_PARTS_MAX]; /* the largest first */
	size_t count;
};

/* `before`: NULL or not known: nothing is said of changes. Borrows from `after`. */
void limpet_parts_between(const struct limpet_resident_account *before,
			  const struct limpet_resident_account *after, struct limpet_parts *ret);
/* Of the whole capture. Traces of programs that ended by themselves or had more than 4 GiB have no
 * accounts. */
void limpet_parts_of(const struct limpet_model *model, struct limpet_parts *ret);
/* The same; or, where that is not known, of before the capture. */
void limpet_parts_last(const struct limpet_model *model, struct limpet_parts *ret);

/* "glibc's heap 23.4 MiB (+20.1 MiB), 3.0 MiB free": every output spells a part so. Changes of less
 * than 1 % of the whole, and less than 5 % that are free, are left out. */
#define LIMPET_PART_TEXT 128
void limpet_part_format(const struct limpet_parts *parts, const struct limpet_part *part,
			char ret[LIMPET_PART_TEXT]);
/* "128.3 MiB resident: ..., others 3.1 MiB." to be freed; NULL as it was: not known. -ENOMEM. */
int limpet_parts_sentence(const struct limpet_parts *parts, char **ret) LIMPET_MUST_CHECK;

/* Of its largest row: "file data.mdb", "POSIX, /dev/shm". */
const char *limpet_part_name(const struct limpet_part *part);

static inline int64_t limpet_part_change(const struct limpet_part *part)
{
	return (int64_t)(part->bytes - part->before_bytes);
}

#endif
