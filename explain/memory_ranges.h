/* Present ranges of private anonymous memory, each with what it was recognized as. */
#ifndef LIMPET_EXPLAIN_MEMORY_RANGES_H
#define LIMPET_EXPLAIN_MEMORY_RANGES_H

#include "explain/glibc_heaps.h"
#include "injector/elf/memory_owners.h"
#include "injector/elf/modules.h"
#include "injector/elf/thread_stacks.h"

struct limpet_target;

struct limpet_memory_range {
	uint64_t start, end;
	enum limpet_memory_account account;
	/* Of UNKNOWN ones: recognized by the structures of a language's runtime. Static texts;
	 * NULL: not recognized. */
	const char *kind, *owner;
};

struct limpet_memory_ranges {
	struct limpet_memory_range *list; /* sorted by address */
	size_t count, capacity;
	int error;                          /* -ENOMEM, or 0 */
	struct limpet_thread_stacks stacks; /* in STACKS ranges; there may be others */
};
void limpet_memory_ranges_done(struct limpet_memory_ranges *ranges);
/* Adds a range, in any order; merges it with the last one if it continues it. */
void limpet_memory_ranges_add(struct limpet_memory_ranges *ranges,
			      const struct limpet_memory_range *range);
/* The first range that ends above `address`. */
size_t limpet_memory_ranges_from(const struct limpet_memory_ranges *ranges, uint64_t address);

/* All ranges of a process with these heaps of glibc's malloc. 0 or -errno. */
int limpet_memory_ranges_read(const struct limpet_target *target,
			      const struct limpet_modules *modules,
			      const struct limpet_glibc_heaps *heaps,
			      struct limpet_memory_ranges *ret_ranges) LIMPET_MUST_CHECK;

#endif
