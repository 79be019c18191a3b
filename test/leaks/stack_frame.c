/* Held only by a frame of a sleeping thread. */
#include "planted.h"

PLANTED_FRAME static void *make_job(void)
{
	return block(104);
}

static void *work(void *unused)
{
	void *volatile jobs[10];

	(void)unused;
	for (int i = 0; i < 10; i++)
		jobs[i] = make_job();
	__asm__ volatile("" : : "r"(jobs) : "memory");
	pause_here();
}

void plant(void)
{
	start_thread(work);
}
