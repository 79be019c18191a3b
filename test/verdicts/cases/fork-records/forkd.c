/* A server that forks a child for each connection. The record of a child outlives the child. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct child {
	struct child *next;
	pid_t pid;
	int ended;
	char peer[64];
	char environment[6000];
};

static struct child *children;
static size_t tracked, ended_children;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) struct child *track_child(unsigned number)
{
	struct child *child = calloc(1, sizeof(*child));

	snprintf(child->peer, sizeof(child->peer), "127.0.0.1:%u", 20000 + number % 40000);
	memset(child->environment, 'e', sizeof(child->environment));
	child->next = children;
	children = child;
	tracked++;
	return child;
}

static __attribute__((noinline)) void serve(unsigned number)
{
	char *page = malloc(50000);

	memset(page, (int)number, 50000);
	free(page);
	_exit(0);
}

static void reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (struct child *child = children; child; child = child->next)
			if (child->pid == pid) {
				child->ended = 1; /* and it stays in the list */
				child->pid = 0;
				ended_children++;
			}
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		struct child *child = track_child(number);

		child->pid = fork();
		if (!child->pid)
			serve(number);
		reap();
		if (number == 40) {
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
	while (wait(NULL) > 0)
		continue;
	fprintf(stderr, "%zu children tracked, %zu of them have ended; %zu bytes each\n", tracked,
		ended_children, sizeof(struct child));
	return 0;
}
