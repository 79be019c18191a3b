#include "collector/capture/own_priority.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"

#define CAPTURE_NICE (-20)

void limpet_own_priority_lower(struct limpet_priority before)
{
	const int who_process = 1, best_effort_lowest = 2 << 13 | 7;
	LIMPET_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "1000", 4);
	syscall(SYS_ioprio_set, who_process, 0, best_effort_lowest);
	limpet_own_priority_set(before, LIMPET_URGENCY_LOAD);
}

void limpet_own_priority_set(struct limpet_priority before, enum limpet_urgency urgency)
{
	static const struct sched_param none;
	const int flag = sched_getscheduler(0) & SCHED_RESET_ON_FORK;

	if (before.nice <= 0 && before.nice > CAPTURE_NICE)
		limpet_priority_set_nice(urgency == LIMPET_URGENCY_NONE ? before.nice
									: CAPTURE_NICE);
	if ((before.policy & ~SCHED_RESET_ON_FORK) == SCHED_OTHER)
		sched_setscheduler(
			0, (urgency == LIMPET_URGENCY_LOAD ? SCHED_OTHER : SCHED_BATCH) | flag,
			&none);
}
