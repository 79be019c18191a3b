/* A limpet that captures one child of the captured process: how it is started, and what it said.
 *
 * It is `limpet attach` like any other, with two descriptors more. The lifeline: a pipe whose other
 * end we hold; when that closes, at our end too, its capture ends. The permit: see followers.h. It
 * is a process group of its own: a terminal's signals are for the first limpet. Main thread only.
 */
#ifndef LIMPET_CLI_FOLLOWER_H
#define LIMPET_CLI_FOLLOWER_H

#include "cli/capture_options.h"

/* What it finds its descriptors under, and a number beyond them. */
enum {
	LIMPET_FOLLOWER_LIFELINE_FD = 3,
	LIMPET_FOLLOWER_PERMIT_FD = 4,
	LIMPET_FOLLOWER_FREE_FD = 10
};

struct limpet_follower {
	struct limpet_fork fork;
	pid_t limpet; /* 0: ended */
	int lifeline; /* -1: let go */
	int out, err; /* memory files: what it says */
	int status;   /* of exit(3) */
	char *trace;  /* once it has ended, NULL: none was written */
	char *words;  /* why not */
};

/* In a limpet that was started so: takes over the descriptors. Answers the lifeline. */
int limpet_follower_lifeline(void);

/* Starts one for a child of a process that is captured with these options. `trace` (malloc'ed) and
 * `permit`, or the error that stands for it, become its own. 0 or -errno. */
int limpet_follower_start(const struct limpet_capture_options *options,
			  const struct limpet_fork *fork, char *trace, int permit,
			  struct limpet_follower *ret) LIMPET_MUST_CHECK;
/* Has its capture end. */
void limpet_follower_let_go(struct limpet_follower *follower);
/* Whether it has ended; if so, takes what it said. */
bool limpet_follower_has_ended(struct limpet_follower *follower);
/* It wrote no trace, for the reason that there was nothing left to capture. */
bool limpet_follower_came_late(const struct limpet_follower *follower);
/* What became of it, in words. */
void limpet_follower_say(const struct limpet_follower *follower);
void limpet_follower_done(struct limpet_follower *follower);

#endif
