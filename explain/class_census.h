/* A census of heaps whose allocators keep blocks of one size together, and how many of them are in
 * use: by size class. Read from outside, as in explain.h; a second reading tells whether the heap
 * was quiet. */
#ifndef LIMPET_EXPLAIN_CLASS_CENSUS_H
#define LIMPET_EXPLAIN_CLASS_CENSUS_H

#include "explain/census.h"
#include "explain/gperftools.h"
#include "explain/mimalloc.h"

struct limpet_target;

/* The heaps that were found, and where. */
struct limpet_class_heaps {
	uint64_t jemalloc_root;               /* of its tree; 0: no such heap */
	struct limpet_mimalloc mimalloc;      /* segments of mimalloc 2 */
	struct limpet_mimalloc_arenas arenas; /* of mimalloc 3 */
	uint64_t gperftools_root;             /* of the map of its tcmalloc; 0: none */
	struct limpet_gperftools_classes gperftools_classes;
	bool has_tcmalloc; /* another one, or one whose classes are not known */
};

struct limpet_class_census {
	const char *allocator; /* static */
	const char *caches;    /* in which what is free counts as in use; static; or NULL */
	bool known;            /* its structures are; otherwise there is nothing more */
	bool whole;            /* nothing was missed; otherwise `high` means nothing */
	bool exact;            /* and both readings found as many in each class */
	struct limpet_census_interval used;
	struct limpet_census_size *sizes; /* only those with blocks, ascending */
	size_t size_count;
};

struct limpet_class_censuses {
	struct limpet_class_census list[5];
	size_t count;
};

/* One of each heap that was found in this program. `is_swapped`: a part of the process is swapped
 * out, so that something may be missed. -errno with a message: -ESRCH, -EACCES, -ESTALE: the
 * process executes another program by now... */
int limpet_class_censuses_read(const struct limpet_target *target,
			       const struct limpet_class_heaps *heaps, bool is_swapped,
			       struct limpet_class_censuses *ret_censuses,
			       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_class_censuses_done(struct limpet_class_censuses *censuses);

#endif
