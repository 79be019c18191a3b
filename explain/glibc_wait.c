#include "explain/glibc_wait.h"

#include <time.h>

bool limpet_glibc_wait(struct limpet_glibc_wait *wait, const struct limpet_source *source)
{
	const uint64_t ns = wait->next_ns < wait->left_ns ? wait->next_ns : wait->left_ns;
	const struct timespec time = {.tv_nsec = (long)ns};

	if (!ns || limpet_source_is_spent(source))
		return false;
	nanosleep(&time, NULL);
	wait->left_ns -= ns;
	wait->next_ns *= 2;
	return true;
}
