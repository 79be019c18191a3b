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
	uint64_t before_bytes, bytes, trimmed_bytes;
	struct limpet_part list[LIMPET_PARTS_MAX]; /* the largest first */
	size_t count;
};

/* Of the whole capture. A trace without accounts has less detail. */
void limpet_parts_of(const struct limpet_model *model, struct limpet_parts *ret);

/* Of its largest row: "file data.mdb", "POSIX, /dev/shm". */
const char *limpet_part_name(const struct limpet_part *part);

static inline int64_t limpet_part_change(const struct limpet_part *part)
{
	return (int64_t)(part->bytes - part->before_bytes);
}

#endif
