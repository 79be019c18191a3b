/* A host of filters that loads its filter again for each job, and unloads it after. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct filter {
	void *(*open)(int strength);
	int (*apply)(void *state, int value);
	void (*close)(void *state);
};

static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) int run_job(const char *path, int number)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct filter filter;
	void *state;
	int result = 0;

	if (!library)
		abort();
	filter.open = (void *(*)(int))dlsym(library, "filter_open");
	filter.apply = (int (*)(void *, int))dlsym(library, "filter_apply");
	filter.close = (void (*)(void *))dlsym(library, "filter_close");
	state = filter.open(number % 7);
	for (int i = 0; i < 200; i++)
		result += filter.apply(state, i);
	filter.close(state);
	dlclose(library);
	return result;
}

int main(int argc, char **argv)
{
	struct timespec next;
	int sum = 0, jobs = 0;

	(void)argc;
	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (; !ended; jobs++) {
		sum += run_job(argv[1], jobs);
		if (jobs == 20) {
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
	fprintf(stderr, "%d jobs, each lost a table of 16384 bytes\n", jobs);
	return sum == 1;
}
