/* Finds the file of a module and its separate debug information on this machine.
 *
 * A candidate is used only if its build-id is the module's. If the module has none, its file must
 * be the one that was captured (file_identity.h), and a debug file must have the checksum of the
 * module's .gnu_debuglink. */
#ifndef LIMPET_ANALYZER_SYMBOLS_DEBUGFILE_H
#define LIMPET_ANALYZER_SYMBOLS_DEBUGFILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/file_identity.h"

struct limpet_debuginfod;

struct limpet_debugfile_query {
	const char *path; /* of the module as its process saw it */
	int fd;           /* of the module, open or O_PATH, borrowed; or -1 */
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: unknown */
	/* Without a build-id: of the module's file. NULL: any file is accepted. */
	const struct limpet_file_identity *identity;
	const char *root;                     /* NULL or a prefix: "/proc/4711/root" */
	const char *const *debug_dirs;        /* NULL or a list that ends with NULL */
	struct limpet_debuginfod *debuginfod; /* NULL: nothing is fetched */
};

/* The module itself, or its debug file if the module is gone. Returns a new descriptor, or -ENOENT,
 * -ESTALE (only other builds), -ENODATA (it is unknown which build is meant), -ENOEXEC (not an ELF
 * file), -EPROTO (its file system does not answer), another -errno. */
int limpet_debugfile_open_module(const struct limpet_debugfile_query *query,
				 struct limpet_err *err) LIMPET_MUST_CHECK;

/* Separate debug information. `link` and `checksum` are those of .gnu_debuglink, or NULL and 0.
 * Returns a descriptor and the name of the file (malloc'ed), or -ENOENT. Then *ret_refused, if it
 * was NULL, is the first file that had the right name but was of another build (malloc'ed), if
 * there is one. */
int limpet_debugfile_open_debug(const struct limpet_debugfile_query *query, const char *link,
				uint32_t checksum, char **ret_path,
				char **ret_refused) LIMPET_MUST_CHECK;

/* The file to which dwz(1) moved common parts, by its own build-id; `name` is that of
 * .gnu_debugaltlink, relative to the directory of `debug_path` or absolute. Returns a descriptor,
 * or -ENOENT. */
int limpet_debugfile_open_alt(const struct limpet_debugfile_query *query, const char *debug_path,
			      const char *name, const uint8_t *build_id,
			      size_t build_id_bytes) LIMPET_MUST_CHECK;

#endif
