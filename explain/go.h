/* The heap of a Go program, and what its runtime needs beside it, read from outside: by the
 * structures in which the runtime looks up to which span a page belongs. They are found by what
 * they say of each other, without symbols, wherever the heap begins. */
#ifndef LIMPET_EXPLAIN_GO_H
#define LIMPET_EXPLAIN_GO_H

#include <stdbool.h>

#include "explain/heap_ranges.h"
#include "injector/elf/modules.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"

#define LIMPET_GO_ARENA_BYTES ((uint64_t)64 << 20)

/* Begins as all zeros. */
struct limpet_go {
	bool is_there; /* the executable is a Go program */
	struct limpet_heap_ranges
		ranges; /* sorted, without overlaps: arenas, the runtime's tables */
};
void limpet_go_done(struct limpet_go *go);

/* 0, also if nothing is found; -ENOMEM. */
int limpet_go_read(const struct limpet_memory_reader *memory, struct limpet_modules *modules,
		   struct limpet_pages *pages, struct limpet_go *go) LIMPET_MUST_CHECK;

/* What is found by these words of the program's data, which are starts of pages. Public for tests.
 * 0 or -ENOMEM. */
int limpet_go_read_tables(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			  struct limpet_pages *pages, const uint64_t *pointers, size_t count,
			  struct limpet_go *go) LIMPET_MUST_CHECK;

#endif
