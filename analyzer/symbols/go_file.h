/* Finds in the file of a Go program the table from which Go prints its own tracebacks
 * (.gopclntab), which stripping leaves there, and its parts.
 *
 * The file is hostile input: every part that is returned lies within it. Pure functions; nothing is
 * allocated. 64-bit, little-endian files, of Go 1.2 or later.
 * Sources: Go's debug/gosym/pclntab.go, runtime/symtab.go and cmd/link/internal/ld/pcln.go. */
#ifndef LIMPET_ANALYZER_SYMBOLS_GO_FILE_H
#define LIMPET_ANALYZER_SYMBOLS_GO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"

/* The first release with a format of the table. */
enum limpet_go_format { LIMPET_GO_2, LIMPET_GO_16, LIMPET_GO_18, LIMPET_GO_20 };

struct limpet_go_bytes {
	const uint8_t *at;
	size_t left;
};

/* Parts extend to the end of the table, or of the segment. */
struct limpet_go_file {
	enum limpet_go_format format;
	uint8_t quantum;               /* bytes; addresses in `values` are in units of it */
	uint64_t count;                /* of functions; there is one entry more, for their end */
	struct limpet_go_bytes table;  /* the whole */
	struct limpet_go_bytes starts; /* each function's address and the place of its record */
	struct limpet_go_bytes records, names, values;
	struct limpet_go_bytes units; /* `left` 0 in LIMPET_GO_2 */
	struct limpet_go_bytes files;
	uint64_t text;                /* that the addresses are relative to; 0: they are absolute */
	struct limpet_go_bytes trees; /* of inlined calls; `left` 0: unknown */
};

/* 0, or -ENOENT: there is no such table, or no Go program; then *ret is undefined. Pointers of *ret
 * are into `file`. */
int limpet_go_file_find(const uint8_t *file, size_t bytes,
			struct limpet_go_file *ret) LIMPET_MUST_CHECK;

/* Copies a number; false: it is not within `bytes`. */
static inline bool limpet_go_read(struct limpet_go_bytes bytes, uint64_t offset, void *to,
				  size_t width)
{
	if (bytes.left < width || offset > bytes.left - width)
		return false;
	memcpy(to, bytes.at + offset, width);
	return true;
}

#endif
