/* Lending a real-time priority to a thread of the target that limpet waits for.
 *
 * A thread that is to stop, or that makes a call for limpet, competes for a processor with its own
 * siblings and with other programs. While limpet waits for it, a thread of limpet (the lender)
 * blocks on it by FUTEX_LOCK_PI, as if it held a lock with priority inheritance: the kernel runs it
 * at the lender's priority meanwhile. The lock's word is limpet's own and contains the thread's id;
 * nothing is set in the target, and what was lent ends with the wait, or with limpet.
 *
 * While the thread that it lends to has a processor, the kernel makes the lender spin, without
 * regard to time-outs and signals, until it has to yield its own. So there is a second thread (the
 * guard), with a higher priority and on the same processor, which wakes when a turn is over, when
 * the thread that waits says so, or when limpet is killed or stopped: then the lender has to yield,
 * and looks for signals. What it lends is no less than what it has itself: the thread that it lends
 * to, if it came to that processor, would not let it in. So it may go to another one as well, where
 * the third thread is in place of the guard.
 *
 * What the thread waits for itself, a lock of its program's or the kernel's lock on its mappings,
 * may be held by a sibling that has no processor. While it sleeps, those of its siblings that could
 * run have turns: the lender lends to one after the other, for a moment each, and looks in between
 * whether the thread still sleeps. A sibling that is
 * ending takes that lock, too, and nothing can be lent to it: it gets the priority itself, for its
 * last moments or until limpet goes back to its own.
 *
 * The thread that waits may also wait in the kernel itself, for the lock on the target's mappings,
 * to read or write its memory. The third thread (the watcher) looks at it a thousand times a
 * second, and where one such call takes that long the siblings have turns as well.
 *
 * What a thread does with what was lent counts for its limit on real-time (RLIMIT_RTTIME): a
 * program that has one is lent nothing.
 *
 * Only one thread of limpet may call these, the one that waits. Where it has no real-time priority
 * itself, or the kernel has no FUTEX_LOCK_PI2 (Linux 5.14), they do nothing. */
#ifndef LIMPET_INJECTOR_PTRACE_BOOST_H
#define LIMPET_INJECTOR_PTRACE_BOOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The lender's. The guard, and the thread that waits, have a higher one. */
#define LIMPET_BOOST_PRIORITY 1
#define LIMPET_BOOST_ABOVE (LIMPET_BOOST_PRIORITY + 1)

/* Starts the threads, before any thread of the target stands. */
void limpet_boost_begin(void);
/* Before a sleep until thread `tid` of process `pid` stops or answers, for which the caller has
 * waited for `waited_ns`, not counting the time that such an answer usually takes. Returns whether
 * it lends, and in *ret_sleep_ns for how long to sleep at most; UINT64_MAX: nothing is lent in
 * this wait, and any time will do. At first nothing is lent, as on an idle machine an answer comes
 * sooner than that is done, unless no answer came so soon in the last second. Between _begin and
 * _end it lends for a tenth of a second, in all for half a second, and from then on for a tenth of
 * the time; who takes longer waits for something else. */
bool limpet_boost_lend(pid_t pid, pid_t tid, uint64_t waited_ns, uint64_t *ret_sleep_ns);
/* After the sleep. On return all threads have their own priorities again. */
void limpet_boost_return(void);
/* Gives the lender's priority to a thread of limpet's own in the target that is about to end:
 * nothing can be lent to it when it does. */
void limpet_boost_raise_last(pid_t tid);
/* When the thread that waits goes back to that nice value: the other threads do, too. */
void limpet_boost_end(int nice);

#endif
