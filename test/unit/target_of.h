/* A process of a test as struct limpet_target, by its number alone: the test itself, a child of its
 * own that it has not collected, or a substitute in /proc. */
#ifndef LIMPET_TEST_TARGET_OF_H
#define LIMPET_TEST_TARGET_OF_H

#include "injector/proc/target_process.h"

/* Valid until the test has asked for 64 others. */
static inline const struct limpet_target *target_of(pid_t pid)
{
	static struct limpet_target targets[64];
	static unsigned next;
	struct limpet_target *target = &targets[next++ % 64];

	*target = (struct limpet_target){.pid = pid, .pidfd = -1, .memory_fd = -1};
	return target;
}

#endif
