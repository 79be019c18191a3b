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

/* A sleep that nothing else ends ends after that time, or sooner. */
#define LIMPET_TICK_NS 200000u

enum limpet_tick {
	LIMPET_TICK_NONE,  /* there is no timer, and nobody has slept */
	LIMPET_TICK_CHILD, /* SIGCHLD; the stop that it reports may be known already */
	LIMPET_TICK_TICK   /* also if a SIGCHLD has come since, of which one is pending at most */
};

/* Sleeps until SIGCHLD, or the next tick. */
enum limpet_tick limpet_tick_sleep(void);
/* No thread is stopped any more. */
void limpet_tick_end(void);

#endif
