#include "collector/step_back.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"

#define CAPTURE_NICE (-20)

void limpet_step_back(struct limpet_priority before)
{
	const int who_process = 1, best_effort_lowest = 2 << 13 | 7;
	LIMPET_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "1000", 4);
	syscall(SYS_ioprio_set, who_process, 0, best_effort_lowest);
	if (before.nice <= 0 && before.nice > CAPTURE_NICE)
		limpet_priority_set_nice(CAPTURE_NICE);
}
