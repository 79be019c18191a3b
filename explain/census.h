/* A census of the blocks that a process has in use in the heaps of glibc's malloc: how many of each
 * size, which are C++ objects and of which type, which are strings, which were never touched. Read
 * from outside, as in explain.h; a second reading tells whether the heap was quiet. */
#ifndef LIMPET_EXPLAIN_CENSUS_H
#define LIMPET_EXPLAIN_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

/* Sizes are usable ones: glibc does not keep what was requested. */
struct limpet_census_amount {
	uint64_t blocks, bytes;
};
/* `low`: what both readings found; `high`: what at least one did. */
struct limpet_census_interval {
	struct limpet_census_amount low, high;
};
struct limpet_census_size {
	uint64_t from_bytes, to_bytes; /* inclusive */
	struct limpet_census_interval used;
};
struct limpet_census_type {
	char *symbol; /* of its vtable: "_ZTV3Foo" */
	struct limpet_census_amount used;
};
struct limpet_census {
	bool has_glibc;
	bool whole; /* nothing was missed; otherwise `high` means nothing */
	bool exact; /* and both readings found the same blocks */
	bool late;  /* the time, or the room for blocks, was too little */
	size_t unread_arenas;
	struct limpet_census_interval used; /* all of them */
	struct limpet_census_size *sizes;   /* only those with blocks, ascending */
	size_t size_count;
	/* What waits in the caches of threads: not in use, though its heads say so. First reading.
	 */
	struct limpet_census_amount cached;
	/* Of the blocks that both readings found. A block is at most one of the first two. */
	struct limpet_census_amount typed, strings, untouched;
	struct limpet_census_type *types; /* by bytes */
	size_t type_count;
};

/* The shortest text that counts as a string; how much of a longer one is looked at. */
#define LIMPET_CENSUS_STRING_LEAST 4u
#define LIMPET_CENSUS_STRING_MOST 4096u

/* Of this program. -errno with a message: -ESRCH, -EACCES, -ESTALE: the process executes another by
 * now... Uses some 1.2 GiB for sixteen million blocks; more are not counted. */
int limpet_census_read(const struct limpet_target *target, struct limpet_census *ret_census,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_census_done(struct limpet_census *census);

#endif
