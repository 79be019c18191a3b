/* What limpet and the confined process that counts V8's objects say to each other: the process asks
 * for memory, and tells what it counted. It has read hostile memory, and may ask or say anything.
 */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_WIRE_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_WIRE_H

#include <stdint.h>

#include "explain/runtimes/v8_heap.h"
#include "explain/runtimes/v8_tally.h"
#include "injector/proc/proc.h"

#define LIMPET_V8_BLOCK_BYTES ((uint64_t)4096)
/* Of a page with one large object only the beginning is needed. */
#define LIMPET_V8_LARGE_BYTES LIMPET_V8_BLOCK_BYTES
#define LIMPET_V8_ROWS ((size_t)4096)

enum limpet_v8_op {
	LIMPET_V8_READ_BLOCK, /* `number` is its address: answered by an int32_t, and its bytes */
	LIMPET_V8_COPY_AREA,  /* `number` is an index of a page: answered by a limpet_v8_copied, and
				 its bytes */
	LIMPET_V8_COUNTED     /* followed by a limpet_v8_counted, and its rows: the end */
};
struct limpet_v8_request {
	uint32_t op;
	uint32_t reserved;
	uint64_t number;
};

struct limpet_v8_copied {
	uint64_t start, end;   /* of the area; equal: nothing in it is in use */
	uint64_t bytes;        /* that follow */
	uint64_t absent_bytes; /* of these; zeros */
	uint64_t gap_count;
	struct limpet_v8_gap gaps[LIMPET_V8_GAPS];
};

struct limpet_v8_counted {
	int32_t error; /* or 0 */
	uint32_t row_count;
	struct limpet_v8_totals totals;
	uint64_t doubtful_bytes; /* in which no objects were found */
	uint64_t absent_bytes;   /* swapped out, or gone */
};

/* What the process begins with. */
struct limpet_v8_counting {
	const struct limpet_v8_layout *layout;
	const struct limpet_v8_heap *heap;
	const struct limpet_maps *maps;
};

/* The process: `serve` of limpet_subprocess_start(). */
void limpet_v8_count(int socket, void *counting);

#endif
