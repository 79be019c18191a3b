/* --follow-fork: a limpet of its own (follower.h) for each child of the captured process, started
 * by the one that captures the parent.
 *
 * Each has a permit: an open file with a lock on one byte, which is let go of with the process;
 * there are so many for all limpets of one family, grandchildren's included. Main thread only. */
#ifndef LIMPET_CLI_FOLLOWERS_H
#define LIMPET_CLI_FOLLOWERS_H

#include <signal.h>

#include "cli/capture_options.h"
#include "collector/capture.h"

/* Captures of children at a time, of a family. */
#define LIMPET_FOLLOWERS_MAX 32u

struct limpet_followers;

/* `options` and `pid` of the captured process; options are kept by reference. NULL: no memory, or
 * no descriptor. */
struct limpet_followers *limpet_followers_new(const struct limpet_capture_options *options,
					      pid_t pid);
/* The trace from whose name theirs are made. */
void limpet_followers_set_trace(struct limpet_followers *followers, const char *trace);
/* Whether a permit is free. Notes those that have ended. */
bool limpet_followers_have_room(struct limpet_followers *followers);
void limpet_followers_start(struct limpet_followers *followers, const struct limpet_fork *fork);
/* Has all captures of children end. */
void limpet_followers_stop(struct limpet_followers *followers);
/* Until all have ended; `serve` is called meanwhile. `lifeline`: ours; theirs are let go when it
 * is, or at once if it is -1. *impatient: likewise, and they are to skip sealing. Answers whether
 * an agent stays in one of the children. */
bool limpet_followers_wait(struct limpet_followers *followers, int lifeline,
			   const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			   void *context);
/* In words, which children of the process were there before, and are nobody's. */
void limpet_followers_say_earlier(pid_t pid);
/* What became of them, in words. */
void limpet_followers_say(const struct limpet_followers *followers,
			  const struct limpet_forks_stats *stats);
void limpet_followers_free(struct limpet_followers *followers);

#endif
