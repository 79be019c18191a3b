/* Counts objects of V8's heap: by the function that constructed them, closures by their function,
 * strings by how they are kept, and all others by their class in V8. Of strings nothing but the
 * names of functions and scripts is read. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_TALLY_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_objects.h"
#include "explain/runtimes/v8_walk.h"

enum limpet_v8_kind {
	LIMPET_V8_INSTANCES, /* of a constructor */
	LIMPET_V8_CLOSURES,  /* of a function */
	LIMPET_V8_STRINGS,
	LIMPET_V8_INTERNAL, /* what V8 needs beside: elements, maps, contexts, code */
	LIMPET_V8_KINDS
};

struct limpet_v8_row {
	uint32_t kind;
	uint32_t line;           /* of the function in its script; 0: not known */
	int32_t position;        /* the same in characters; -1: not known */
	uint64_t script_address; /* of the Script object; 0: none */
	uint64_t shared_address; /* of the SharedFunctionInfo; 0: none */
	uint64_t count, bytes;
	uint64_t outside_bytes; /* what they hold outside of the heap */
	char name[LIMPET_V8_NAME_BYTES];
	char script[LIMPET_V8_SCRIPT_BYTES]; /* of the function; "": none */
};

/* For qsort(3): by kind, name and place. */
int limpet_v8_row_order(const void *a, const void *b);

struct limpet_v8_totals {
	uint64_t count, bytes, outside_bytes;
	uint64_t free_bytes; /* in pages, held by nothing */
};

/* What the counting has to know of the process beside its memory. */
struct limpet_v8_around {
	/* Whether an address is of memory that the process has got for itself: not of a file, nor
	 * of the heap. */
	bool (*is_outside)(void *context, uint64_t address);
	/* From here on memory is read anew. NULL: it always is. */
	void (*forget)(void *context);
	void *context;
};

struct limpet_v8_tally;
/* `v8` is borrowed. */
int limpet_v8_tally_new(const struct limpet_v8 *v8, const struct limpet_v8_around *around,
			struct limpet_v8_tally **ret) LIMPET_MUST_CHECK;
void limpet_v8_tally_free(struct limpet_v8_tally *tally);
/* Counts an object: `visit` of limpet_v8_walk_area(). */
void limpet_v8_tally_note(void *tally, const struct limpet_v8_walked *walked);
/* Names of functions are read once more, anew: one that is another by then, since the collector has
 * moved what it was read from, is left out.
 *
 * The rows, the largest first, one for each kind, name and place; those beyond `limit` are summed
 * up in rows without a name. Ends the counting. 0 or -ENOMEM, also if memory was short before. */
int limpet_v8_tally_rows(struct limpet_v8_tally *tally, size_t limit,
			 const struct limpet_v8_row **ret_rows,
			 size_t *ret_count) LIMPET_MUST_CHECK;
const struct limpet_v8_totals *limpet_v8_tally_totals(const struct limpet_v8_tally *tally);

#endif
