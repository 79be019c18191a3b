/* Sleeps until a stop, without a time-out for each.
 *
 * Limpet and the thread that it has stopped wake each other eight times in an attach. A sleep
 * with a time-out sets a timer and removes it again, which takes 17 microseconds on a virtual
 * machine, where the stop that is waited for takes 4. So one timer (timerfd_create(2)) goes on for
 * many sleeps, and ends one that nothing else ends.
 *
 * For the one thread that stops others, which has SIGCHLD blocked; only limpet_tick_end() is for
 * signal handlers, too. A child of fork(2) gets a timer of its own. */
#ifndef LIMPET_INJECTOR_PTRACE_TICK_H
#define LIMPET_INJECTOR_PTRACE_TICK_H

/* A sleep lasts no longer. */
#define LIMPET_TICK_NS 200000u

enum limpet_tick {
	LIMPET_TICK_NONE,  /* there are no descriptors for it, and nobody has slept */
	LIMPET_TICK_CHILD, /* a SIGCHLD is pending */
	LIMPET_TICK_TICK
};

/* Sleeps until a SIGCHLD is pending, or the next tick, which may come at once. Changes errno. */
enum limpet_tick limpet_tick_sleep(void);
/* Stops the timer, until the next sleep. */
void limpet_tick_end(void);

#endif
