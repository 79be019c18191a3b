/* The line that says how a capture is doing.
 *
 * On a terminal it is redrawn in place; elsewhere a plain line is written every ten seconds; with
 * -q nothing. It never waits: a terminal that is held (Ctrl-S) or a full pipe costs a redraw, not
 * events. Nothing is drawn while we are a background job of the terminal. Main thread only. The
 * caller ignores SIGPIPE, as a collector must anyway. */
#ifndef LIMPET_CLI_PROGRESS_H
#define LIMPET_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct limpet_progress_sample {
	uint64_t elapsed_ns;     /* since the capture's start; never goes back */
	uint64_t duration_ns;    /* 0: no limit */
	uint64_t events;         /* since the start; the rate is worked out here */
	uint64_t dropped_events; /* since the start */
	uint64_t lost_stacks;    /* likewise: events whose stack is unknown */
	uint64_t live_bytes;
	bool estimated;      /* that, and what grew: from samples */
	const char *growing; /* name of the site that grew most, or NULL; any bytes */
	uint64_t growing_bytes;
	/* resident memory of no allocator that is followed, and its growth; 0: not to be said */
	uint64_t unfollowed_bytes, unfollowed_growth_bytes;
	const char
		*phase; /* NULL while capturing; else a word or two: "detaching", "sealing 40 %" */
};

struct limpet_progress;

/* For `fd`, usually stderr. NULL when memory is short: then the calls below do nothing. While it
 * lives, messages of cli/ui.h take the line off the screen first. One at a time. */
struct limpet_progress *limpet_progress_new(int fd);

/* As often as is handy: draws at most five times a second, and at once when the phase changes. */
void limpet_progress_update(struct limpet_progress *progress,
			    const struct limpet_progress_sample *sample);

/* Takes the line off the screen. */
void limpet_progress_free(struct limpet_progress *progress);

#endif
