#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

/* Each job gets a thread that is neither joined nor detached: its stack stays when it has ended. */
static unsigned long jobs;

static void pace(long ms)
{
	static struct timespec next;

	if (next.tv_sec == 0)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += ms * 1000000;
	while (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		continue;
}

__attribute__((noinline)) void job_run(unsigned long id)
{
	volatile char scratch[120 * 1024];

	for (size_t i = 0; i < sizeof(scratch); i += 512)
		scratch[i] = (char)id;
}

static void *job_main(void *argument)
{
	job_run((unsigned long)argument);
	return NULL;
}

__attribute__((noinline)) void job_start(unsigned long id)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1 << 20);
	if (pthread_create(&thread, &attributes, job_main, (void *)id) == 0)
		jobs++;
	pthread_attr_destroy(&attributes);
}

int main(void)
{
	for (int i = 0; i < 100; i++)
		job_start(jobs);
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		char *volatile order = malloc(900);

		memset(order, 'o', 900);
		job_start(jobs);
		free(order);
		if (tick % 100 == 0)
			fprintf(stderr, "%lu threads started, none joined\n", jobs);
		pace(50);
	}
}
