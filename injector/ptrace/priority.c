#include "injector/ptrace/priority.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "injector/ptrace/boost.h"

#define HIGHEST (-20)

bool limpet_priority_has_one_processor(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

static bool set_real_time(int priority)
{
	const struct sched_param parameter = {.sched_priority = priority};

	return sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &parameter) == 0;
}

struct limpet_priority limpet_priority_raise(enum limpet_priority_level level)
{
	const struct limpet_priority before = {.policy = sched_getscheduler(0),
					       .nice = getpriority(PRIO_PROCESS, 0)};
	const struct sched_param none = {.sched_priority = 0};
	const int policy = before.policy & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_RR || policy == SCHED_FIFO)
		return before;
	if (level == LIMPET_PRIORITY_STOP && !limpet_priority_has_one_processor() &&
	    (set_real_time(LIMPET_BOOST_ABOVE) || set_real_time(1))) {
		limpet_boost_begin();
		return before;
	}
	if (setpriority(PRIO_PROCESS, 0, HIGHEST) == 0)
		sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none);
	return before;
}

void limpet_priority_restore(struct limpet_priority before)
{
	const struct sched_param none = {.sched_priority = 0};
	const int policy = before.policy & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_RR || policy == SCHED_FIFO)
		return;
	limpet_boost_end(before.nice);
	/* Without the right to it, who has set SCHED_RESET_ON_FORK may not take it away. */
	if (sched_setscheduler(0, before.policy, &none) < 0)
		sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &none);
	setpriority(PRIO_PROCESS, 0, before.nice);
}

void limpet_priority_set_nice(int nice)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *entry;

	while (threads && (entry = readdir(threads)))
		if (entry->d_name[0] != '.')
			setpriority(PRIO_PROCESS, (id_t)strtoul(entry->d_name, NULL, 10), nice);
	if (threads)
		closedir(threads);
}

bool limpet_priority_is_allowed(void)
{
	const struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	const bool allowed = getpriority(PRIO_PROCESS, 0) < 0;

	limpet_priority_restore(before);
	return allowed;
}
