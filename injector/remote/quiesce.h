/* Proves that the agent may be unmapped: each thread is seen outside of it once.
 *
 * To be called when no slot and no hook pointer leads into the agent any more. A thread that is
 * outside then stays outside, and new threads start outside, so threads are examined one after the
 * other and never all stopped together. A thread that sleeps in a system call is examined without
 * stopping it: its stack is copied, and it has not run if its count of context switches is the same
 * before and after. */
#ifndef LIMPET_INJECTOR_REMOTE_QUIESCE_H
#define LIMPET_INJECTOR_REMOTE_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/ptrace/wait.h"

#define LIMPET_INLINE_HOOK_MAX 16u
struct limpet_inline_hook_range {
	uint64_t start, end;
};

struct limpet_agent_place {
	uint64_t start, end;         /* the agent's mapping */
	uint64_t thunks, thunks_end; /* the entries of its hooks */
	bool thunks_separate;        /* in a mapping of their own */
	uint64_t shm;                /* thread states, as mapped in the target; 0: none */
	struct limpet_inline_hook_range hook_areas[LIMPET_INLINE_HOOK_MAX]; /* inline_hook.h */
	unsigned hook_area_count;
};

struct limpet_quiesce_stats {
	unsigned threads, peeked, stopped, rounds;
};

struct limpet_quiesce_options {
	bool stop_all;    /* registers matter, too (the program loads hook addresses as data): every
			     thread is stopped */
	bool thunks_stay; /* and what points there as data may continue to: no register matters */
	struct limpet_wait wait; /* a failure of its check is returned as -ESRCH */
};

/* 0: proved. -EBUSY: some thread was not seen outside before the deadline. -EBADMSG: the program
 * has written over the shared memory by which that could be known. Else -errno. */
int limpet_quiesce_prove(pid_t pid, const struct limpet_agent_place *place,
			 const struct limpet_quiesce_options *options,
			 struct limpet_quiesce_stats *ret_stats);

/* While all threads are stopped: whether some thread is in a hook, as far as the states tell. True
 * if they cannot be read. */
bool limpet_quiesce_in_hook(pid_t pid, const struct limpet_agent_place *place) LIMPET_MUST_CHECK;

#endif
