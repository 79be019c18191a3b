/* Debug information from the servers that DEBUGINFOD_URLS names, by libdebuginfod. The library is
 * loaded at the first request: without that variable it is not needed, and nothing is sent to a
 * network.
 *
 * A file from a server is checked like any other: it is used only if it has the right build-id.
 * Files are kept in the library's own cache. For one thread. */
#ifndef LIMPET_ANALYZER_SYMBOLS_DEBUGINFOD_H
#define LIMPET_ANALYZER_SYMBOLS_DEBUGINFOD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_debuginfod;

struct limpet_debuginfod_options {
	unsigned limit_seconds;              /* for all files together, from the first on */
	const volatile sig_atomic_t *cancel; /* may be NULL; when set, downloads end in a second */
	/* Called now and then during a fetch; may be NULL. */
	void (*waiting)(void *context);
	void *context;
};

/* NULL: DEBUGINFOD_URLS is not set. */
struct limpet_debuginfod *limpet_debuginfod_new(const struct limpet_debuginfod_options *options);
void limpet_debuginfod_free(struct limpet_debuginfod *debuginfod);

/* The debug file of a build-id: a descriptor and its name in the cache (malloc'ed), or -ENOENT,
 * -EINTR (cancelled), -ETIME, or the error of the connection. After an error other than -ENOENT, no
 * server is asked again. */
int limpet_debuginfod_fetch(struct limpet_debuginfod *debuginfod, const uint8_t *build_id,
			    size_t build_id_bytes, char **ret_path);

/* For messages. Why servers are no longer asked, or never were: 0, -EINTR, -ETIME, -ELIBACC (there
 * is no libdebuginfod.so.1), or the error of the connection. */
int limpet_debuginfod_error(const struct limpet_debuginfod *debuginfod);
const char *limpet_debuginfod_words(int error);
unsigned limpet_debuginfod_fetched(const struct limpet_debuginfod *debuginfod);

#endif
