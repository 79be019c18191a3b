/* The only pointers lie on the stack of a thread that has ended, which libc keeps for the next one.
 */
#include "planted.h"

#include <pthread.h>

PLANTED_FRAME static void *make_job(void)
{
	return block(104);
}

static void *work(void *unused)
{
	void *volatile jobs[512];

	(void)unused;
	for (int i = 0; i < 10; i++)
		jobs[i] = make_job();
	for (int i = 10; i < 512; i++)
		jobs[i] = NULL;
	__asm__ volatile("" : : "r"(jobs) : "memory");
	return NULL;
}

void plant(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
		broken("pthread");
}
