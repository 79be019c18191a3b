#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/wait.h>

/* A server that forks a worker for each job. The parent forgets the slot of each worker that has
 * ended. */
struct slot {
	struct slot *next;
	pid_t pid;
	char status[8000];
};

static struct slot *running;
static unsigned long started;

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

__attribute__((noinline)) void worker_main(unsigned long id)
{
	for (unsigned i = 0; i < 200; i++) {
		char *volatile buffer = malloc(5000);

		memset(buffer, (int)id, 5000);
	}
	_exit(0);
}

__attribute__((noinline)) void worker_spawn(void)
{
	struct slot *slot = malloc(sizeof(*slot));

	memset(slot->status, 0, sizeof(slot->status));
	slot->pid = fork();
	if (slot->pid == 0)
		worker_main(started);
	slot->next = running;
	running = slot;
	started++;
}

__attribute__((noinline)) void workers_reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (struct slot **at = &running; *at != NULL; at = &(*at)->next)
			if ((*at)->pid == pid) {
				*at = (*at)->next; /* unlinked, not freed */
				break;
			}
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		worker_spawn();
		workers_reap();
		if (tick % 50 == 0)
			fprintf(stderr, "%lu workers, %lu bytes of slots\n", started,
				started * sizeof(struct slot));
		pace(100);
	}
}
