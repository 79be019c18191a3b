/* The heap of the tcmalloc of gperftools, 2.6 to 2.18, read from outside: its spans, by the map in
 * which it looks up to which span a page belongs. The map is found by its structure, without
 * symbols, and so is the table of size classes. */
#ifndef LIMPET_EXPLAIN_GPERFTOOLS_H
#define LIMPET_EXPLAIN_GPERFTOOLS_H

#include <stdbool.h>

#include "explain/class_tally.h"
#include "explain/heap_ranges.h"
#include "explain/memory_ranges.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

enum limpet_gperftools_state {
	LIMPET_GPERFTOOLS_IN_USE,
	LIMPET_GPERFTOOLS_FREE,
	LIMPET_GPERFTOOLS_RETURNED /* free, and given back to the system */
};

struct limpet_gperftools_span {
	uint64_t start, end;
	uint8_t state;  /* enum limpet_gperftools_state */
	uint8_t class;  /* in use: of its blocks; 0: it is one block */
	uint16_t count; /* of its blocks those in use or in a cache, if it has a class */
};

#define LIMPET_GPERFTOOLS_CLASSES 128u
/* By number, from 1 on; `count` numbers. Ascending sizes, and the pages of a span. */
struct limpet_gperftools_classes {
	uint32_t bytes[LIMPET_GPERFTOOLS_CLASSES];
	uint32_t pages[LIMPET_GPERFTOOLS_CLASSES];
	uint32_t count; /* 0: they are not known */
};

/* Begins as all zeros. */
struct limpet_gperftools {
	struct limpet_gperftools_span *list; /* sorted by address */
	size_t count, capacity;
	bool is_cut;   /* there are more, which are not in the list, or may be */
	bool missed;   /* some that are or may be in use are not: they were changing */
	bool is_whole; /* all spans together are as large as the heap says itself */
	uint64_t root; /* of the map; 0: none was found */
	struct limpet_gperftools_classes classes;
	struct limpet_heap_ranges tables; /* sorted: the leaves of the map */
};
void limpet_gperftools_done(struct limpet_gperftools *gperftools);

/* Looks for the map among the data of the process's modules, by ranges of no known owner and those
 * of the program break. Leaves the list empty if there is none. 0 or -ENOMEM. */
int limpet_gperftools_read(const struct limpet_memory_reader *memory,
			   const struct limpet_maps *maps, struct limpet_pages *pages,
			   const struct limpet_memory_ranges *ranges,
			   struct limpet_gperftools *gperftools) LIMPET_MUST_CHECK;
/* The spans of the map with this root. 0 or -ENOMEM. */
int limpet_gperftools_read_map(const struct limpet_memory_reader *memory,
			       struct limpet_pages *pages, uint64_t root,
			       struct limpet_gperftools *gperftools) LIMPET_MUST_CHECK;
/* The span that holds this address, or NULL. */
const struct limpet_gperftools_span *limpet_gperftools_find(
	const struct limpet_gperftools *gperftools, uint64_t address);
/* The bytes of a span's blocks in use; of all of a span in use if that is not known. */
uint64_t limpet_gperftools_used_bytes(const struct limpet_gperftools_classes *classes,
				      const struct limpet_gperftools_span *span);
/* Counts the blocks of all spans in use by these classes. What is not counted is cut. */
void limpet_gperftools_count(const struct limpet_gperftools *gperftools,
			     const struct limpet_gperftools_classes *classes,
			     struct limpet_class_tally *tally);

#endif
