/* What all waits for the target have in common: a deadline, what to do meanwhile, and a check that
 * the target still exists. */
#ifndef LIMPET_INJECTOR_WAIT_H
#define LIMPET_INJECTOR_WAIT_H

#include <stdint.h>

#include "common/err.h"

struct limpet_tracer;

struct limpet_wait {
	struct limpet_tracer *tracer; /* who stops threads in between; NULL: nobody */
	uint64_t deadline_ns;         /* monotonic */
	void (*idle)(void *context);  /* lets the collector work; NULL: nothing */
	void *idle_context;
	/* As limpet_target_check(): its failure ends the wait. NULL: no check. */
	int (*check)(const void *context);
	const void *check_context;
};

/* Lets the collector work, and the tracer do what it has to meanwhile (limpet_tracer_idle). */
void limpet_wait_idle(const struct limpet_wait *wait);
int limpet_wait_check(const struct limpet_wait *wait) LIMPET_MUST_CHECK;
/* Pauses between two tries, while no thread of the target is held. Each pause is twice as long as
 * the last, but `longest_ns` at most. -EBUSY: the deadline has passed; or the result of `check`. */
int limpet_wait_pause(const struct limpet_wait *wait, uint64_t *pause_ns,
		      uint64_t longest_ns) LIMPET_MUST_CHECK;

#endif
