/* Names of the target's threads, as it gave them, for the trace. One thread; never blocks. */
#ifndef LIMPET_COLLECTOR_STREAM_THREAD_NAMES_H
#define LIMPET_COLLECTOR_STREAM_THREAD_NAMES_H

#include <stdbool.h>
#include <sys/types.h>

#include "collector/record/recorder.h"

struct limpet_target;

struct limpet_thread_names;

struct limpet_thread_list {
	pid_t *tids; /* as limpet sees them */
	pid_t *own;  /* as the target does */
	int count;
};

/* NULL: no memory. */
struct limpet_thread_names *limpet_thread_names_new(void);
void limpet_thread_names_free(struct limpet_thread_names *names);

/* Looks at the threads of the target and tells the recorder each name that is new, or has changed:
 * of a thread that was not there before, and of another one after twice the rounds since it was
 * first there, since many name themselves a little after their start. A round reads a limited
 * number of names, the next one the others; `all`: every name, as at the end. Threads that cannot
 * be read have no name. */
void limpet_thread_names_refresh(struct limpet_thread_names *names,
				 struct limpet_recorder *recorder,
				 const struct limpet_target *target,
				 const struct limpet_thread_list *list, bool all);

#endif
