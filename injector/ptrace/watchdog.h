/* A process beside limpet, in a session of its own, that looks after limpet while threads of the
 * target may be held: a limpet that somebody stops (SIGSTOP) would have them stand as long as it
 * stands itself. It is woken, and if that does not help it is ended: then the kernel lets the
 * threads go, and a hijacked one finds home by its prepared frame.
 *
 * A limpet that only waits for a processor is left alone, and so is one that a debugger holds. In a
 * frozen cgroup the watchdog is frozen, too. Where it cannot be made limpet goes on without. */
#ifndef LIMPET_INJECTOR_PTRACE_WATCHDOG_H
#define LIMPET_INJECTOR_PTRACE_WATCHDOG_H

#include <stdbool.h>

#define LIMPET_WATCHDOG_NAME "limpet-watchdog"

/* From the thread that traces. There is one at most: again, it does nothing. */
void limpet_watchdog_begin(void);
/* Whether any thread is held. */
void limpet_watchdog_hold(bool held);
/* It is told to go; limpet_watchdog_bury() looks whether it has gone, or waits for that. What is
 * left of it must not be somebody else's to bury when limpet ends. */
void limpet_watchdog_end(void);
void limpet_watchdog_bury(bool wait);

#endif
