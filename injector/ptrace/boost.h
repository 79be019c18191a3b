/* Lending limpet's priority to a thread of the target that limpet waits for.
 *
 * A thread that is to stop, or that makes a call for limpet, competes for a processor with its own
 * siblings. limpet waits for it as if it held a lock with priority inheritance (FUTEX_LOCK_PI): the
 * kernel runs the thread at limpet's real-time priority meanwhile (priority.h). The lock's word is
 * limpet's own and holds the thread's id; the target is not touched, and when limpet stops waiting,
 * or is killed, the thread has its own priority again. Without the right to one, or before Linux
 * 5.14, this is a plain sleep.
 *
 * What a thread of the target waits for itself, a lock of its program's or the kernel's lock on its
 * mappings, may be held by a sibling that has no processor. So those of its siblings that could run
 * are lent the priority in turn, for a moment each.
 *
 * For one thread of limpet, which has blocked SIGCHLD and has limpet_boost_on_child() as its
 * handler. */
#ifndef LIMPET_INJECTOR_PTRACE_BOOST_H
#define LIMPET_INJECTOR_PTRACE_BOOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One wait for a thread. */
struct limpet_boost {
	pid_t pid, tid;
	uint64_t began_ns, turn_ns;
	pid_t *siblings; /* of this round; NULL: none has begun */
	int sibling_count, next;
	pid_t now; /* whose turn it is */
};

void limpet_boost_on_child(int number);
/* Unblocks SIGCHLD, which ends a sleep. Then, again and again: limpet_boost_turn(), a look at what
 * is waited for, limpet_boost_sleep(). */
void limpet_boost_begin(struct limpet_boost *boost, pid_t pid, pid_t tid);
void limpet_boost_turn(struct limpet_boost *boost);
/* Until SIGCHLD has come since limpet_boost_turn(), the turn is over, or that time of
 * CLOCK_MONOTONIC; it may end sooner. Returns whether it has come. */
bool limpet_boost_sleep(const struct limpet_boost *boost, uint64_t until_ns);
/* Blocks SIGCHLD again, and frees. */
void limpet_boost_end(struct limpet_boost *boost);
/* Lends to that thread for so long, whatever it does. */
void limpet_boost_for(pid_t tid, uint64_t ns);

#endif
