/* A capture must not compete with the programs that it observes: when memory is short it is killed
 * first, and its writes wait for theirs. But it comes before them on the processor: each event
 * costs it less than it costs them, and what it does not read in time is lost. */
#ifndef LIMPET_COLLECTOR_STEP_BACK_H
#define LIMPET_COLLECTOR_STEP_BACK_H

#include "injector/ptrace/priority.h"

/* `before`: the priority with which limpet was started; a lower one that the user chose is kept.
 * Failures change nothing for the target. */
void limpet_step_back(struct limpet_priority before);

#endif
