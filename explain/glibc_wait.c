#include "explain/glibc_wait.h"

#include <time.h>

bool limpet_glibc_wait(struct limpet_glibc_wait *wait, const struct limpet_memory_reader *memory)
{
	const uint64_t ns = wait->next_ns < wait->left_ns ? wait->next_ns : wait->left_ns;
	const struct timespec time = {.tv_nsec = (long)ns};

	if (!ns || limpet_memory_reader_is_spent(memory))
		return false;
	nanosleep(&time, NULL);
	wait->left_ns -= ns;
	wait->next_ns *= 2;
	return true;
}
