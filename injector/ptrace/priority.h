/* Raises limpet's own priority. On a machine with more runnable threads than processors limpet
 * would wait for a processor behind all threads of the target; while threads of the target wait for
 * limpet, they would wait as long.
 *
 * Each function acts on the calling thread. Without the right (CAP_SYS_NICE, or limits of
 * setrlimit(2)) nothing changes. Children and new threads start with the default priority. If
 * limpet is killed there is nothing to undo. */
#ifndef LIMPET_INJECTOR_PTRACE_PRIORITY_H
#define LIMPET_INJECTOR_PTRACE_PRIORITY_H

#include <stdbool.h>

enum limpet_priority_level {
	LIMPET_PRIORITY_WORK, /* nice -20: the target runs, and waits for limpet's next step */
	LIMPET_PRIORITY_STOP  /* SCHED_RR: a thread of the target is stopped or hijacked. A nice
				 value has no effect beyond its own autogroup or cgroup. With a
				 single processor this is nice -20: what limpet waits for has to run
				 there. Around stops: limpet_tracer_raise() (tracer.h). */
};

struct limpet_priority {
	int policy, nice;
};

/* Returns the previous priority, for limpet_priority_restore(). Such pairs may be nested. */
struct limpet_priority limpet_priority_raise(enum limpet_priority_level level);
void limpet_priority_restore(struct limpet_priority before);
/* Sets the nice value of all threads of this process, with SCHED_OTHER or SCHED_BATCH. */
void limpet_priority_set_nice(int nice);
/* Whether this process may use one processor only: where only the user waits for limpet, the target
 * is then not to wait, too. */
bool limpet_priority_has_one_processor(void);
/* Whether this thread may have a negative nice value. */
bool limpet_priority_is_allowed(void);

#endif
