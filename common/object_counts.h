/* Objects of a managed language's heap by what they are, as `limpet explain --objects` counts them:
 * a trace has them from before and after the capture. */
#ifndef LIMPET_COMMON_OBJECT_COUNTS_H
#define LIMPET_COMMON_OBJECT_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A trace with more rows, or longer texts, is damaged. */
#define LIMPET_OBJECT_ROWS_MAX 512u
#define LIMPET_OBJECT_NAME_BYTES 160u
#define LIMPET_OBJECT_SCRIPT_BYTES 256u

enum limpet_object_kind {
	LIMPET_OBJECT_INSTANCES, /* of a constructor */
	LIMPET_OBJECT_CLOSURES,  /* of a function */
	LIMPET_OBJECT_STRINGS,
	LIMPET_OBJECT_INTERNAL, /* what the runtime needs beside */
	LIMPET_OBJECT_KINDS
};

struct limpet_object_row {
	enum limpet_object_kind kind;
	char name[LIMPET_OBJECT_NAME_BYTES];     /* the program may have chosen it */
	char script[LIMPET_OBJECT_SCRIPT_BYTES]; /* of the function; "": not known */
	uint32_t line;                           /* 0: not known */
	uint64_t count, bytes;
	uint64_t outside_bytes; /* that they hold outside of the heap */
};

struct limpet_object_counts {
	bool known;
	struct limpet_object_row *rows; /* owned; the largest first */
	size_t count;
};

#endif
