#include "injector/ptrace/priority.h"

#include <sys/resource.h>

#define HIGHEST (-20)

int limpet_priority_raise(void)
{
	int had = getpriority(PRIO_PROCESS, 0);

	setpriority(PRIO_PROCESS, 0, HIGHEST);
	return had;
}

void limpet_priority_set_back(int had)
{
	setpriority(PRIO_PROCESS, 0, had);
}
