/* A capture must not compete with the programs that it observes: when memory is short it is killed
 * first, and its writes wait for theirs. But it comes before them on the processor, at least while
 * there is much to read: each event costs it less than it costs them, and what it does not read in
 * time is lost. */
#ifndef LIMPET_COLLECTOR_CAPTURE_OWN_PRIORITY_H
#define LIMPET_COLLECTOR_CAPTURE_OWN_PRIORITY_H

#include "injector/ptrace/priority.h"

/* `before`: the priority with which limpet was started; a lower one that the user chose is kept.
 * Failures change nothing for the target. Begins with LIMPET_URGENCY_LOAD. */
void limpet_own_priority_lower(struct limpet_priority before);
/* How a capture is to get a processor. */
enum limpet_urgency {
	/* As others do. When it balances processors, the kernel counts a thread of nice -20 as 87
	 * others, even one that mostly sleeps: node.js lost 3 to 9 % of its rate to one. */
	LIMPET_URGENCY_NONE,
	/* Before others, but without preempting a running thread when it wakes (SCHED_BATCH): the
	 * target was interrupted a quarter as often, and was as fast. LIMPET_URGENCY_NONE has this
	 * policy, too. */
	LIMPET_URGENCY_TIME,
	LIMPET_URGENCY_LOAD, /* before others, at once */
};
/* Sets the nice value of all threads, and the policy of the calling one. Leaves alone what the user
 * had chosen when limpet was started. */
void limpet_own_priority_set(struct limpet_priority before, enum limpet_urgency urgency);

#endif
