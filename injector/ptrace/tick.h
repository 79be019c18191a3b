/* Sleeps until a stop, without a time-out for each.
 *
 * Limpet and the thread that it has stopped wake each other eight times in an attach. A sleep
 * with a time-out sets a timer and removes it again, which takes 17 microseconds on a virtual
 * machine, where the stop that is waited for takes 4. So one timer (timerfd_create(2)) goes on for
 * many sleeps, and ends one that nothing else ends.
 *
 * For a thread that has SIGCHLD blocked; only limpet_tick_end() is for signal handlers, too. A
 * child of fork(2) gets a timer of its own. */
#ifndef LIMPET_INJECTOR_PTRACE_TICK_H
#define LIMPET_INJECTOR_PTRACE_TICK_H

#include <stdbool.h>
#include <sys/types.h>

/* A sleep lasts no longer. */
#define LIMPET_TICK_NS 200000u

enum limpet_tick_news {
	LIMPET_TICK_NONE,  /* there are no descriptors for it, and nobody has slept */
	LIMPET_TICK_CHILD, /* a SIGCHLD is pending */
	LIMPET_TICK_TICK
};

/* Zeroed before the first sleep. */
struct limpet_tick {
	pid_t pid; /* whose descriptors they are; 0: nobody's */
	int timer, children;
	bool ticks;
	volatile bool sleeps; /* a handler is not to stop the timer */
};

/* Sleeps until a SIGCHLD is pending, or the next tick, which may come at once. Changes errno. */
enum limpet_tick_news limpet_tick_sleep(struct limpet_tick *tick);
/* Stops the timer, until the next sleep. */
void limpet_tick_end(struct limpet_tick *tick);
/* Closes the descriptors, until the next sleep. */
void limpet_tick_close(struct limpet_tick *tick);

#endif
