/* A limpet that captures one child of the captured process: starts it, and reads its output.
 *
 * It is an ordinary `limpet attach` with two more descriptors. The lifeline: a pipe whose other end
 * this limpet holds; when that is closed, at the latest when this limpet exits, its capture ends.
 * The permit: see followers.h. It has its own process group: signals from the terminal are for the
 * first limpet. Main thread only. */
#ifndef LIMPET_CLI_FOLLOWER_H
#define LIMPET_CLI_FOLLOWER_H

#include "cli/capture_options.h"

/* The numbers of its descriptors, and the first number after them. */
enum {
	LIMPET_FOLLOWER_LIFELINE_FD = 3,
	LIMPET_FOLLOWER_PERMIT_FD = 4,
	LIMPET_FOLLOWER_FREE_FD = 10
};

struct limpet_follower {
	struct limpet_fork fork;
	pid_t limpet; /* 0: ended */
	int lifeline; /* -1: closed */
	int out, err; /* memory files: its output */
	int status;   /* of exit(3) */
	char *trace;  /* once it has ended; NULL: none was written */
	char *words;  /* the reason, if there is none */
};

/* In a limpet that was started in this way: takes over the descriptors. Returns the lifeline. */
int limpet_follower_lifeline(void);

/* Starts one for a child of a process that is captured with these options. Takes ownership of
 * `trace` (malloc'ed) and `permit`; an error may be passed in place of a permit. 0 or -errno. */
int limpet_follower_start(const struct limpet_capture_options *options,
			  const struct limpet_fork *fork, char *trace, int permit,
			  struct limpet_follower *ret) LIMPET_MUST_CHECK;
/* Closes the lifeline, so that its capture ends. */
void limpet_follower_release(struct limpet_follower *follower);
/* Whether it has ended; if so, reads its output. */
bool limpet_follower_has_ended(struct limpet_follower *follower);
/* Whether it wrote no trace because there was nothing left to capture. */
bool limpet_follower_came_late(const struct limpet_follower *follower);
/* Whether it wrote a whole trace and left nothing in the child. */
bool limpet_follower_is_well(const struct limpet_follower *follower);
/* Reports its result. */
void limpet_follower_print(const struct limpet_follower *follower);
void limpet_follower_done(struct limpet_follower *follower);

#endif
