/* --follow-fork: for each child of the captured process, the parent's limpet starts a separate
 * limpet (follower.h).
 *
 * Each has a permit: an open file with a lock on one byte, which is released when the process ends.
 * All limpets of one family, including those for grandchildren, share a fixed number of permits.
 * Main thread only. */
#ifndef LIMPET_CLI_FOLLOWERS_H
#define LIMPET_CLI_FOLLOWERS_H

#include <signal.h>

#include "cli/capture_options.h"
#include "collector/capture/capture.h"

struct limpet_target;

/* Simultaneous captures of children in a family. */
#define LIMPET_FOLLOWERS_MAX 32u

struct limpet_followers;

/* `options` and `pid` of the captured process; keeps a reference to the options. NULL: out of
 * memory, or of descriptors. */
struct limpet_followers *limpet_followers_new(const struct limpet_capture_options *options,
					      const struct limpet_target *target);
/* Sets the trace from whose name those of children are derived. */
void limpet_followers_set_trace(struct limpet_followers *followers, const char *trace);
/* Notes captures that have ended. */
void limpet_followers_reap(struct limpet_followers *followers);
/* Takes a permit for the next child, which no other limpet can take any more. Returns whether there
 * is one. */
bool limpet_followers_reserve(struct limpet_followers *followers);
/* Starts a limpet for a child, which gets the permit that was reserved. NULL: there is no child any
 * more; gives the permit back. */
void limpet_followers_start(struct limpet_followers *followers, const struct limpet_fork *fork);
/* Ends all captures of children. */
void limpet_followers_stop(struct limpet_followers *followers);
/* Waits until all have ended, and calls `serve` meanwhile. `lifeline`: that of this limpet; when it
 * is closed, or at once if it is -1, the lifelines of the children's limpets are closed.
 * *impatient: the same, and these skip sealing. Returns whether an agent stays in one of the
 * children. */
bool limpet_followers_wait(struct limpet_followers *followers, int lifeline,
			   const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			   void *context);
/* Reports which children of the process existed before the capture, and are not captured. */
void limpet_followers_print_earlier(const struct limpet_target *target);
/* Reports their results. */
void limpet_followers_print(const struct limpet_followers *followers,
			    const struct limpet_forks_stats *stats);
void limpet_followers_free(struct limpet_followers *followers);

#endif
