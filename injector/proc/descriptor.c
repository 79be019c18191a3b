#include "injector/proc/descriptor.h"

#include <sys/resource.h>

void limpet_descriptor_raise_limit(uint64_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= count ||
	    limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
	setrlimit(RLIMIT_NOFILE, &limit);
}
