/* Functions, files and lines of a Go program's code, from the table that Go prints its own
 * tracebacks from, and that stripping leaves in the file (go_file.h).
 *
 * The file is hostile input; each look-up takes a bounded time. Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_GOPCLNTAB_H
#define LIMPET_ANALYZER_SYMBOLS_GOPCLNTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_gopclntab;
struct limpet_symbol;

/* `file` is borrowed until the table is freed. Returns 0; -ENOENT: it is no Go program with such a
 * table; -ENOMEM. */
int limpet_gopclntab_new(const uint8_t *file, size_t bytes,
			 struct limpet_gopclntab **ret) LIMPET_MUST_CHECK;
void limpet_gopclntab_free(struct limpet_gopclntab *table);

/* Whether the code at `address`, an address as in the file's headers, is Go's. */
bool limpet_gopclntab_covers(const struct limpet_gopclntab *table, uint64_t address);

/* As limpet_symbolizer_resolve(): returns the number of frames, at most `limit`, 0 if the table has
 * no name for the address. Names are as in the file, to which they point. A function that others
 * are inlined in has no line if the table of these is unknown: the line is theirs. */
int limpet_gopclntab_find(const struct limpet_gopclntab *table, uint64_t address,
			  struct limpet_symbol *list, int limit);

#endif
