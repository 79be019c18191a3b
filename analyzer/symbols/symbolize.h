/* Resolves an address in a module's file to functions, files and lines.
 *
 * One symbolizer is for one module. Debug information is searched for as GDB does: in the file,
 * beside it (.gnu_debuglink), by build-id and path under the debug directories, and in
 * .gnu_debugdata. Nothing is fetched from a network unless a debuginfod is given. A file is used
 * only if its build-id is the required one, or, without one, if it is the captured file.
 *
 * Files are hostile input. They are found and opened here, and read by a process of the
 * symbolizer's own that may do nothing else (symbol_worker.h): if it ends, for whatever reason,
 * there are no more names from this module. Not thread-safe; two symbolizers may be used by two
 * threads, each by the one that opened it. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOLIZE_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOLIZE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/symbols/symbol.h"
#include "common/err.h"
#include "common/file_identity.h"

struct limpet_symbolizer;

struct limpet_debuginfod;
struct limpet_symbolizer_options {
	const char *path;        /* of the module as its process saw it */
	int fd;                  /* the open file, borrowed, or -1: `root` + `path` is opened */
	const uint8_t *build_id; /* NULL: unknown */
	size_t build_id_bytes;
	/* Without a build-id: of the module's file, borrowed while opening only. NULL: any file is
	 * accepted. */
	const struct limpet_file_identity *identity;
	const char *root; /* prefix of `path` and /usr/lib/debug: "/proc/4711/root", NULL */
	const char *const *debug_dirs;        /* searched first; ends with NULL; may be NULL */
	struct limpet_debuginfod *debuginfod; /* asked last; NULL: nothing is fetched */
	/* Once it is non-zero, waiting ends. NULL: waits as long as necessary. */
	const volatile sig_atomic_t *cancel;
};

/* Path, root and build-id are copied; the rest of `options` is borrowed until the symbolizer is
 * closed. Returns 0, or: -ENOENT no file, -ESTALE only files of another build, -ENODATA it is
 * unknown which build is meant, -ENOEXEC not an ELF file, -EPROTO it could not be read or there is
 * no process to read it, -EINTR cancelled, other -errno of opening it. */
int limpet_symbolizer_open(const struct limpet_symbolizer_options *options,
			   struct limpet_symbolizer **ret,
			   struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_symbolizer_close(struct limpet_symbolizer *symbolizer);

/* The same for a perf map (perfmap.h), open at `fd`, which is borrowed. `addresses` must ascend,
 * and are all that will be resolved. Returns 0, -ENOMEM, -EPROTO or -EINTR. */
int limpet_symbolizer_read_map(int fd, const uint64_t *addresses, size_t count,
			       const volatile sig_atomic_t *cancel,
			       struct limpet_symbolizer **ret) LIMPET_MUST_CHECK;

/* The same for places of a script (source_map.h): its source map is looked for as the script says.
 * `path`: as its process saw it, below `root`; `places` must ascend. An answer has a file and a
 * line. Returns also -ENOENT: there is no script or no map. */
int limpet_symbolizer_read_script(const char *root, const char *path, const uint64_t *places,
				  size_t count, const volatile sig_atomic_t *cancel,
				  struct limpet_symbolizer **ret) LIMPET_MUST_CHECK;

/* What was found, for messages. */
bool limpet_symbolizer_has_lines(const struct limpet_symbolizer *symbolizer);
/* A debug file that has the right name but is of another build, or NULL. */
const char *limpet_symbolizer_refused(const struct limpet_symbolizer *symbolizer);

/* Why debug information that is there could not be read, in words, as far as it is known; NULL: all
 * was. */
const char *limpet_symbolizer_unread(const struct limpet_symbolizer *symbolizer);

/* 0, or why there are no more names: -EPROTO its process ended or was ended, because its answer was
 * invalid, it computed for longer than LIMPET_SYMBOL_WORKER_CPU_S or took too long to answer;
 * -EINTR; -ENOMEM. */
int limpet_symbolizer_failure(const struct limpet_symbolizer *symbolizer);

/* Looks up several at once, which is cheaper: limpet_symbolizer_resolve() then returns them without
 * waiting, fastest in this order, until this is called again or another address is resolved.
 * Addresses after the first LIMPET_SYMBOLIZER_BATCH are ignored. */
void limpet_symbolizer_prepare(struct limpet_symbolizer *symbolizer, const uint64_t *addresses,
			       size_t count);

/* Innermost first: functions inlined at `address` (an address as in the file's headers; the caller
 * must subtract 1 from a return address), then the function itself. Returns their number, 0 if
 * nothing covers the address, at most LIMPET_SYMBOL_MAX_INLINED. *ret_list is valid until the next
 * call of this or limpet_symbolizer_prepare(). */
int limpet_symbolizer_resolve(struct limpet_symbolizer *symbolizer, uint64_t address,
			      const struct limpet_symbol **ret_list);

/* The variable with static storage at this address, as in the file's headers. False: none is known.
 * Its strings live as long as the symbolizer. Takes a walk over the debug information. */
bool limpet_symbolizer_variable(struct limpet_symbolizer *symbolizer, uint64_t address,
				struct limpet_symbol_variable *ret_variable);

#endif
