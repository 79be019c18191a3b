/* The only pointers lie below the stack pointer of a sleeping thread, in a frame that has returned.
 */
#include "planted.h"

PLANTED_FRAME static void *make_job(void)
{
	return block(104);
}

PLANTED_FRAME static void use_jobs(void)
{
	void *volatile jobs[512];

	/* What is called later does not reach down to these. */
	for (int i = 0; i < 10; i++)
		jobs[i] = make_job();
	for (int i = 10; i < 512; i++)
		jobs[i] = NULL;
	__asm__ volatile("" : : "r"(jobs) : "memory");
}

static void *work(void *unused)
{
	(void)unused;
	use_jobs();
	pause_here();
}

void plant(void)
{
	start_thread(work);
}
