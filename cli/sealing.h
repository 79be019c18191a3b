/* Appends symbols to the trace at the end of a capture. Main thread only. */
#ifndef LIMPET_CLI_SEALING_H
#define LIMPET_CLI_SEALING_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/progress.h"
#include "collector/capture/capture.h"

struct limpet_target;

/* Modules whose names could not be read. */
struct limpet_unread {
	unsigned count;
	struct limpet_err first; /* why */
};

struct limpet_sealing {
	const struct limpet_target *target;
	const char *trace;
	bool is_streamed; /* then it is no file: */
	int copy;         /* borrowed: of what names are needed for; or -errno */
	const struct limpet_collector_source *files;
	size_t count;
	int perf_map_fd; /* -1: none */
	struct limpet_progress **progress;
	struct limpet_progress_sample sample;
	/* Called often: answers other terminals. */
	void (*serve)(void *context);
	void *context;
	/* private */
	struct limpet_unread unread;
	char phase[32];
};

/* Prints what could not be read. Signals are unblocked: the target is released, and only names are
 * looked up. */
void limpet_sealing_run(struct limpet_sealing *sealing);
/* Warns that debug information of a module could not be read, `why` in words. */
void limpet_sealing_warn_unread(void *context, const char *path, const char *why);
void limpet_unread_note(struct limpet_unread *unread, const struct limpet_err *err);
/* Whether there are any; then it warns. */
bool limpet_unread_warn(const struct limpet_unread *unread);
/* Whether the trace still has its name; prints an error if not. */
bool limpet_sealing_find_trace(const char *trace);

#endif
