/* The live line that shows the progress of a capture.
 *
 * On a terminal it is redrawn in place; otherwise a plain line is written after ten seconds, and
 * each further one after twice the time of the one before, so that a log stays short; with -q
 * nothing. It never blocks: a stopped terminal (Ctrl-S) or a full pipe costs a redraw, not
 * events. Nothing is drawn while limpet is a background job of the terminal. Main thread only. The
 * caller must ignore SIGPIPE. */
#ifndef LIMPET_CLI_PROGRESS_H
#define LIMPET_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct limpet_progress_sample {
	uint64_t elapsed_ns;     /* since the capture's start; never goes back */
	uint64_t duration_ns;    /* 0: no limit */
	uint64_t events;         /* since the start; the rate is computed here */
	uint64_t dropped_events; /* since the start */
	uint64_t lost_stacks;    /* likewise: events whose stack is unknown */
	uint64_t live_bytes;
	bool of_pages;       /* these are resident */
	bool estimated;      /* live and growing bytes are estimated from samples */
	const char *growing; /* name of the site that grew most, or NULL; may contain any bytes */
	uint64_t growing_bytes;
	uint64_t unfollowed_bytes; /* resident memory of no followed allocator; 0: not shown */
	const char
		*phase; /* NULL while capturing; else a word or two: "detaching", "sealing 40 %" */
};

struct limpet_progress;

/* For `fd`, usually stderr. NULL if out of memory: then the calls below do nothing. While it
 * exists, messages of cli/ui.h first erase the line. At most one at a time. */
struct limpet_progress *limpet_progress_new(int fd);

/* May be called often: draws at most five times a second, and at once when the phase changes. */
void limpet_progress_update(struct limpet_progress *progress,
			    const struct limpet_progress_sample *sample);

/* Erases the line. */
void limpet_progress_free(struct limpet_progress *progress);

#endif
