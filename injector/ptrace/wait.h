/* What all waits for the target have in common: until when, what is done meanwhile, and whether
 * there is still somebody to wait for. */
#ifndef LIMPET_INJECTOR_WAIT_H
#define LIMPET_INJECTOR_WAIT_H

#include <stdint.h>

#include "common/err.h"

struct limpet_wait {
	uint64_t deadline_ns;        /* monotonic */
	void (*idle)(void *context); /* the collector goes on; NULL: nothing does */
	void *idle_context;
	/* As limpet_target_check(): a failure ends the wait with it. NULL: nothing does. */
	int (*check)(const void *context);
	const void *check_context;
};

void limpet_wait_idle(const struct limpet_wait *wait);
int limpet_wait_check(const struct limpet_wait *wait) LIMPET_MUST_CHECK;
/* Between two tries, while no thread of the target is held: pauses, twice as long the next time but
 * `longest_ns` at most. -EBUSY: the deadline is over; or what `check` answers. */
int limpet_wait_pause(const struct limpet_wait *wait, uint64_t *pause_ns,
		      uint64_t longest_ns) LIMPET_MUST_CHECK;

#endif
