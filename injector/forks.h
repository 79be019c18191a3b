/* Children that the captured process forks, while it is captured, and theirs: found from outside.
 *
 * Nobody is traced for it and nothing runs in a child. Each process of the machine that is new is
 * looked at once: a forked one has the agent's control page, and reads zeros there. One that shares
 * the memory of its parent (vfork, posix_spawn) reads what the parent reads and is left alone; one
 * that executes another program soon has no such page any more. One thread. */
#ifndef LIMPET_INJECTOR_FORKS_H
#define LIMPET_INJECTOR_FORKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_forks;

struct limpet_fork {
	pid_t pid;
	uint64_t start_ticks;  /* with the pid it names the process for good */
	uint64_t control_page; /* of the agent that it has a copy of */
	uint64_t image_inode;  /* likewise */
};

struct limpet_forks_stats {
	uint64_t found; /* with a copy of the agent */
	uint64_t lost;  /* of these: ended, or executed another program, before they were taken */
};

int limpet_forks_new(struct limpet_forks **ret) LIMPET_MUST_CHECK;
/* Those of a process whose agent has its control page there. */
void limpet_forks_begin(struct limpet_forks *forks, uint64_t control_page);
void limpet_forks_free(struct limpet_forks *forks);

/* Looks for new ones, if it is time to (or `at_once`) and any process was made. */
void limpet_forks_look(struct limpet_forks *forks, uint64_t now_ns, bool at_once);
/* The next one that has lived for long enough to be no child that executes a program at once; false
 * if there is none yet. Each is answered once. */
bool limpet_forks_take(struct limpet_forks *forks, uint64_t now_ns, struct limpet_fork *ret);
/* Whether some were found and not taken yet. */
bool limpet_forks_wait(const struct limpet_forks *forks);
/* Whether a process of that number was taken. */
bool limpet_forks_was_taken(const struct limpet_forks *forks, pid_t pid);
void limpet_forks_stats_read(const struct limpet_forks *forks, struct limpet_forks_stats *ret);

/* Whether it is still that process, and still has its silent copy of the agent: nobody collects
 * from it. */
bool limpet_fork_is_silent(const struct limpet_fork *fork);

#endif
