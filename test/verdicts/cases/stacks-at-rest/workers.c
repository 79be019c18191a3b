/* A pool of 150 threads whose stacks were used deeply once, and which now wait for work that hardly
 * comes. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 150 };

static sem_t work, warm;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}
static long rss_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

static __attribute__((noinline)) unsigned evaluate(unsigned depth)
{
	volatile unsigned char frame[4096];

	for (size_t i = 0; i < sizeof(frame); i += 64)
		frame[i] = (unsigned char)(depth + i);
	return depth ? evaluate(depth - 1) + frame[depth % sizeof(frame)] : frame[0];
}

static void *run_worker(void *closure)
{
	volatile unsigned sum = evaluate(100);

	sem_post(&warm);
	for (;;) {
		char *task;

		sem_wait(&work);
		task = malloc(500);
		snprintf(task, 500, "sum %u", sum);
		sum += evaluate(2) + (unsigned char)task[4];
		free(task);
	}
	return closure;
}

int main(void)
{
	pthread_t thread;
	struct timespec next;

	signal(SIGTERM, end);
	sem_init(&work, 0, 0);
	sem_init(&warm, 0, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, run_worker, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		sem_wait(&warm);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sem_post(&work);
		if (number == 10) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 50000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%d threads, RSS %ld KiB\n", THREADS, rss_kib());
	return 0;
}
