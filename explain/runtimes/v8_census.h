/* A census of the objects in V8's heaps of a process: by constructor, closures by function,
 * strings, and what V8 needs beside, with array buffers' backing stores. Read from outside, while
 * the process runs: nothing is stopped, and nothing is changed in it. Objects that nothing holds
 * any more count until the collector has freed them. Contents of strings are not read, but for
 * names of functions, classes and scripts. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_CENSUS_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_tally.h"

struct limpet_target;

/* Texts may contain bytes that the process has chosen: clean them to print. */
struct limpet_v8_census {
	bool has_heap;                /* there are pages of V8; otherwise there is nothing more */
	bool is_known;                /* its layout is; otherwise there is its version alone: */
	unsigned major, minor, build; /* 0: not known, either */
	size_t isolates;
	struct limpet_v8_row *rows; /* the largest first; those without a name are sums of others */
	size_t row_count;
	struct limpet_v8_totals totals;
	uint64_t doubtful_bytes; /* in which no objects were found: it was being written */
	uint64_t absent_bytes;   /* swapped out, or gone */
	bool is_cut;             /* there was no time for all */
};

/* -errno with a message: -ESRCH, -EACCES, -ESTALE: the process executes another program by now...
 */
int limpet_v8_census_read(const struct limpet_target *target, struct limpet_v8_census *ret_census,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_v8_census_done(struct limpet_v8_census *census);

#endif
