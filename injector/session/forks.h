/* Finds, from outside, the children that the target forks during the capture, and their children.
 *
 * No process is traced for this, and nothing runs in a child. Each new process of the machine is
 * looked at once: a forked one has the agent's control page, and reads zeros there. One that shares
 * its parent's memory (vfork, posix_spawn) reads what the parent reads, and is left alone; after it
 * executes another program it has no such page. To be called from one thread. */
#ifndef LIMPET_INJECTOR_SESSION_FORKS_H
#define LIMPET_INJECTOR_SESSION_FORKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

struct limpet_forks;

struct limpet_fork {
	pid_t pid;
	uint64_t start_ticks;  /* together with the pid, identifies the process for good */
	uint64_t control_page; /* of the agent of which it has a copy */
	uint64_t image_inode;  /* the same */
};

struct limpet_forks_stats {
	uint64_t found; /* children that were seen */
	uint64_t lost;  /* of these: ended, or executed another program, before they were taken */
};

int limpet_forks_new(struct limpet_forks **ret) LIMPET_MUST_CHECK;
/* Starts to look for children of the target, whose agent has its control page there. */
void limpet_forks_begin(struct limpet_forks *forks, const struct limpet_target *target,
			uint64_t control_page);
void limpet_forks_free(struct limpet_forks *forks);

/* Looks for new children if it is time to and any process was created, or `at_once`. */
void limpet_forks_scan(struct limpet_forks *forks, uint64_t now_ns, bool at_once);
/* Whether a child has lived long enough not to be about to execute a program. */
bool limpet_forks_is_due(const struct limpet_forks *forks, uint64_t now_ns);
/* Returns the next such child that still has its copy of the agent, or false if there is none yet.
 * Each child is returned once. */
bool limpet_forks_claim(struct limpet_forks *forks, uint64_t now_ns, struct limpet_fork *ret);
/* Whether some were found and not yet taken. */
bool limpet_forks_wait(const struct limpet_forks *forks);
/* Whether a process with this pid was claimed: for a scan of all of them. */
bool limpet_forks_was_claimed(const struct limpet_forks *forks, pid_t pid);
void limpet_forks_stats_read(const struct limpet_forks *forks, struct limpet_forks_stats *ret);

/* Whether it is still the same process, and executes the program of the one it was forked from. */
bool limpet_fork_runs_on(const struct limpet_fork *fork);
/* Whether it is still the same process and still has its silent copy of the agent, from which
 * nobody collects. */
bool limpet_fork_is_silent(const struct limpet_fork *fork);

#endif
