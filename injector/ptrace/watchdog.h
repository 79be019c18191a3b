/* A process beside limpet, in a session of its own, that guards against a limpet that is stopped
 * while it holds threads of the target: after SIGSTOP to limpet these would stand as long as limpet
 * does. The watchdog wakes limpet, and if that does not help, kills it: then the kernel detaches
 * the threads, and a hijacked one resumes by its sigreturn frame.
 *
 * A limpet that only waits for a processor is left alone, and so is one that a debugger stops. In a
 * frozen cgroup the watchdog is frozen, too. If it cannot be started limpet runs without it. */
#ifndef LIMPET_INJECTOR_PTRACE_WATCHDOG_H
#define LIMPET_INJECTOR_PTRACE_WATCHDOG_H

#include <stdbool.h>

#define LIMPET_WATCHDOG_NAME "limpet-watchdog"

/* To be called by the thread that traces. There is at most one watchdog: further calls do nothing.
 */
void limpet_watchdog_begin(void);
/* Tells it whether any thread is held. */
void limpet_watchdog_hold(bool held);
/* Tells it to end. limpet_watchdog_bury() checks whether it has ended, or waits for that: it must
 * be reaped before limpet ends, or another process would have to. */
void limpet_watchdog_end(void);
void limpet_watchdog_bury(bool wait);

#endif
