/* Finds and reads an allocator's map of its pages: a radix tree, whose root is a table of pointers
 * in the data of some module. Nobody says where, so each table counts of which one word leads to
 * what explains pages of no known owner; the one that explains most is taken. */
#ifndef LIMPET_EXPLAIN_PAGE_MAP_H
#define LIMPET_EXPLAIN_PAGE_MAP_H

#include "explain/samples.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

struct limpet_page_map_search;

struct limpet_page_map_kind {
	uint64_t root_bytes;
	unsigned root_shift; /* of an address, to the number of its word in the root */
	unsigned least;      /* so many must be explained */
	uint64_t reads;      /* of memory, at most */
	/* Whether data[at] may be such a word: by what it leads to, and by its neighbours. Cheap.
	 */
	bool (*may_be_of_root)(const struct limpet_page_map_search *search, const uint64_t *data,
			       size_t words, size_t at);
	/* Of the samples, or what else the kind counts, by the table to which that word leads. */
	unsigned (*explained)(const struct limpet_page_map_search *search, uint64_t table);
};

/* `samples` are all below one word of the root; borrowed, as are the others. */
struct limpet_page_map_search {
	const struct limpet_page_map_kind *kind;
	const struct limpet_memory_reader *memory; /* in the functions above: with a limit */
	const struct limpet_maps *maps;
	const struct limpet_samples *samples;
	void *context; /* of these functions */
};

/* *ret_root: 0: none was found; *ret_cut: then, the limit was reached before all was read. 0 or
 * -ENOMEM. */
int limpet_page_map_find(const struct limpet_page_map_search *search, struct limpet_pages *pages,
			 uint64_t *ret_root, bool *ret_cut) LIMPET_MUST_CHECK;

/* How tables are read; borrowed. */
struct limpet_page_map_reader {
	const struct limpet_memory_reader *memory;
	struct limpet_pages *pages; /* NULL: a page that is not present costs a read */
	bool *is_cut, *missed;      /* set: there was no time; a page could not be read */
};
#define LIMPET_PAGE_MAP_END INT64_MAX
/* Some words of a table, from number `first` on, all of one page. Answers how many of those behind
 * them need not be read, LIMPET_PAGE_MAP_END, or -ENOMEM. */
typedef int64_t limpet_page_map_visit_fn(void *context, const uint64_t *words, size_t count,
					 size_t first);
/* Takes the words of a table that are present, until there is no time. 0 or -ENOMEM. */
int limpet_page_map_read(const struct limpet_page_map_reader *reader, uint64_t table, size_t words,
			 limpet_page_map_visit_fn *visit, void *context) LIMPET_MUST_CHECK;

#endif
