/* A capture must not compete with the programs that it observes: when memory is short it is killed
 * first, and its writes wait for theirs. But it comes before them on the processor while there is
 * much to read: each event costs it less than it costs them, and what it does not read in time is
 * lost. */
#ifndef LIMPET_COLLECTOR_STEP_BACK_H
#define LIMPET_COLLECTOR_STEP_BACK_H

#include "injector/ptrace/priority.h"

/* `before`: the priority with which limpet was started; a lower one that the user chose is kept.
 * Failures change nothing for the target. */
void limpet_step_back(struct limpet_priority before);
/* `aside`: while little is to be read, limpet does not come before the target. For the kernel's
 * balance of processors a thread of nice -20 weighs as much as ninety others, also if it sleeps
 * most of the time: node.js lost 4 to 10 % of its rate to it. The calling thread has SCHED_BATCH
 * then, and does not preempt others when it wakes. Leaves alone what the user chose. */
void limpet_step_aside(struct limpet_priority before, bool aside);

#endif
