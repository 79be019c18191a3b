/* Resolves an address in a module's file to functions, files and lines, by libdw, libelf and the
 * demanglers; what these do not know of Go's code, by its own table (gopclntab.h). Only for the
 * confined process (symbol_worker.h), which symbolize.h asks.
 *
 * Symbols are sorted once, each unit of the DWARF is walked once when an address falls into it, and
 * every later look-up is a search. Files are hostile input. Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOL_READER_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_symbol_reader;
struct limpet_symbol;
struct limpet_symbol_variable;

/* Other files that are needed: each function returns a new descriptor or -errno. */
struct limpet_symbol_files {
	/* Separate debug information; `link` and `checksum` are those of .gnu_debuglink, or NULL
	 * and 0. */
	int (*open_debug)(void *context, const char *link, uint32_t checksum);
	/* The file to which dwz(1) moved common parts. */
	int (*open_alt)(void *context, const uint8_t *build_id, size_t build_id_bytes,
			const char *name);
	void *context;
};

/* `fd` is the module's file; the reader takes it over, even on failure: -ENOEXEC, -ENOMEM. `files`
 * NULL: there are no others. */
int limpet_symbol_reader_open(int fd, const struct limpet_symbol_files *files,
			      struct limpet_symbol_reader **ret,
			      struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_symbol_reader_close(struct limpet_symbol_reader *reader);

bool limpet_symbol_reader_has_lines(const struct limpet_symbol_reader *reader);

/* Why debug information that is there could not be read, as far as it is known by now; NULL: all
 * was. */
const char *limpet_symbol_reader_unread(const struct limpet_symbol_reader *reader);

/* As limpet_symbolizer_resolve(). */
int limpet_symbol_reader_resolve(struct limpet_symbol_reader *reader, uint64_t address,
				 const struct limpet_symbol **ret_list);

/* The variable at an address; `ret_variable` is untouched if none is known. */
void limpet_symbol_reader_variable(struct limpet_symbol_reader *reader, uint64_t address,
				   struct limpet_symbol_variable *ret_variable);

#endif
