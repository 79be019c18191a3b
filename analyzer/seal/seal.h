/* Adds symbols to a trace, so that it can be read on a machine that has none of the binaries.
 *
 * Works module by module, so that only one module's debug information is in memory at a time. May
 * be run again: what was found is kept, unless something is found again. */
#ifndef LIMPET_ANALYZER_SEAL_SEAL_H
#define LIMPET_ANALYZER_SEAL_SEAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* A file opened while the target ran: for the case that its path is gone or is another file now. */
struct limpet_seal_source {
	uint32_t module; /* its number in the trace */
	int fd;          /* borrowed */
};

struct limpet_debuginfod;
struct limpet_seal_options {
	const struct limpet_seal_source *sources;
	size_t source_count;
	const char *root; /* prefix of the paths of modules: "/proc/4711/root"; or NULL */
	const char *const *debug_dirs; /* ends with NULL; or NULL */
	/* Once it is non-zero (a signal handler may set it), the remaining addresses are skipped,
	 * and what was resolved is written. NULL: cannot be cancelled. */
	const volatile sig_atomic_t *cancel;
	/* Called now and then and at the end of each module, from this thread. NULL: none. */
	void (*progress)(void *context, uint64_t done, uint64_t total);
	/* Called for each module without a usable file that has addresses. NULL: none. */
	void (*missing)(void *context, const char *path, uint64_t addresses,
			const struct limpet_err *err);
	/* Called for a debug file that has a module's name but is of another build. NULL: none. */
	void (*refused)(void *context, const char *path, const char *file);
	/* Called for each module with debug information that could not be read. NULL: none. */
	void (*unread)(void *context, const char *path, const char *why);
	struct limpet_debuginfod *debuginfod; /* asked last; NULL: nothing is fetched */
	/* The map of the target's JIT-compiled code, borrowed, if it has one: see perfmap.h. What a
	 * former seal found is kept: it was closer to the capture. */
	bool has_perf_map;
	int perf_map_fd;
	void *context;
};

struct limpet_seal_result {
	uint64_t addresses;                /* distinct (module, address) of the stacks, in files */
	uint64_t resolved;                 /* with a function's name, also by former seals */
	uint64_t lines;                    /* of these with file and line */
	uint64_t skipped;                  /* not looked up: cancelled */
	uint64_t made;                     /* addresses in no file that were looked up in a map */
	uint64_t made_named;               /* of these with a name now */
	uint32_t modules, modules_missing; /* that contain such addresses */
	bool cancelled;
};

/* `options` may be NULL. -EBUSY: the capture, or another seal, is still running; else the errors of
 * limpet_trace_reader_open and of writing. After a failure the trace is as readable as before. */
int limpet_seal(const char *path, const struct limpet_seal_options *options,
		struct limpet_seal_result *ret_result, struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
