/* The agent of a running capture, seen from outside: where its hooks begin, what they have
 * recorded, and ways to spoil what it remembers. */
#ifndef LIMPET_TEST_TORTURE_CHAINS_AGENT_H
#define LIMPET_TEST_TORTURE_CHAINS_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "collector/stream/stack_tree.h"
#include "common/wire.h"
#include "test/torture/chains_unwind.h"

/* A path of thunks.S. */
struct way {
	uint64_t in;  /* its first instruction, an endbr64: the hook is in r11 */
	uint64_t out; /* its ret, after a call that it made itself */
};

enum { WAYS = 2 };
enum trap { TRAP_NONE, TRAP_IN, TRAP_OUT };

struct agent {
	pid_t pid;
	struct way ways[WAYS]; /* every hook that records takes one of them */
	struct limpet_agent_info info;
	struct limpet_shm shm; /* of its layout; the rest as it was in the beginning */
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	struct limpet_stack_tree *stacks; /* as they were described while we looked */
	uint64_t scratch;                 /* what the threads remember */
};

/* A record of an allocation. */
struct record {
	uint64_t address, size;
	uint32_t stack, type;
};

/* 0 or -errno: -ENOENT no agent, -ENOTUNIQ one of another build. */
int agent_find(pid_t pid, struct agent *ret);
void agent_done(struct agent *agent);

/* Puts an int3 at both ends of each way, in the process's own copy of that page, or takes it from
 * there. Its threads may be running. */
int agent_set_traps(const struct agent *agent, bool on);
/* Which kind a thread has run into that has these registers; they become those after the
 * instruction that the int3 stands for. */
enum trap agent_pass_trap(const struct agent *agent, struct user_regs_struct *registers);

/* enum limpet_op of a hook. */
uint32_t agent_op(struct agent *agent, uint32_t hook);
/* Index of the thread's state, or -ENOENT. */
int agent_thread(struct agent *agent, pid_t tid);
/* Place of the thread's next record; 0: none. */
uint64_t agent_place(struct agent *agent, int thread);
/* The record before that place, if it is one of an allocation at `address`. */
bool agent_record(struct agent *agent, uint64_t place, uint64_t address, struct record *ret);
/* Takes in the descriptions of stacks in the stopped thread's chunk. */
int agent_learn(struct agent *agent, int thread);
/* Has the agent describe all stacks anew: what was described before we came is not known. */
int agent_forget(struct agent *agent);
/* The stack of that number; answers whether it is met for the first time. -ENODATA: there is none,
 * or it is not known. */
int agent_chain(struct agent *agent, uint32_t number, struct chain *ret);
/* Negative controls. The memos of a stopped thread: from now on only the first words are compared,
 * which is what a cache does that has gone stale. */
int spoil_stack_caches(struct agent *agent, int thread);
/* Every stack that is known by its fingerprint: now taken for that one. */
int spoil_fingerprints(struct agent *agent, uint32_t number);
/* Unwind tables, through the collector, which alone can write there: rules that go by the stack
 * pointer are wrong by `bytes` more. */
int spoil_tables(struct agent *agent, pid_t collector, int32_t bytes);

#endif
