/* A tick that ends a sleep until SIGCHLD.
 *
 * Limpet and the thread that it has stopped wake each other some twenty times in an attach. A sleep
 * with a time-out sets a timer and removes it again, which takes 17 microseconds on a virtual
 * machine, where the stop that is waited for takes 4. So one timer goes on for all of these sleeps,
 * and sends the SIGCHLD itself if nothing else does.
 *
 * For the one thread that stops others, which has SIGCHLD blocked. A child of fork(2) has no tick.
 */
#ifndef LIMPET_INJECTOR_PTRACE_TICK_H
#define LIMPET_INJECTOR_PTRACE_TICK_H

#include <stdbool.h>

/* A sleep ends so much too late, at most. */
#define LIMPET_TICK_NS 500000u

/* Sleeps until SIGCHLD, or the next tick. False: there is no timer, and it has not slept. */
bool limpet_tick_sleep(void);
/* No thread is stopped any more. */
void limpet_tick_end(void);

#endif
