/* Follows a log by mapping windows of it. A window without a match is never unmapped. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 256 * 1024, WINDOWS = 256 };

static int log_fd;
static unsigned lost;
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

static void write_log(const char *path)
{
	char *line = malloc(WINDOW);

	log_fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (int i = 0; i < WINDOWS; i++) {
		memset(line, 'a' + i % 8, WINDOW);
		if (write(log_fd, line, WINDOW) != WINDOW)
			abort();
	}
	free(line);
}

static __attribute__((noinline)) char *map_window(unsigned number)
{
	char *window = mmap(NULL, WINDOW, PROT_READ, MAP_SHARED, log_fd,
			    (off_t)(number % WINDOWS) * WINDOW);

	if (window == MAP_FAILED)
		abort();
	return window;
}

static __attribute__((noinline)) char *search_window(unsigned number, int wanted)
{
	char *window = map_window(number), *match = NULL;
	size_t matches = 0;

	for (size_t i = 0; i < WINDOW; i += 64)
		matches += window[i] == wanted;
	if (!matches) {
		lost++;
		return NULL;
	}
	match = malloc(200);
	memcpy(match, window, 199);
	match[199] = 0;
	munmap(window, WINDOW);
	return match;
}

int main(int argc, char **argv)
{
	struct timespec next;

	(void)argc;
	signal(SIGTERM, end);
	write_log(argv[1]);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		free(search_window(number, number % 2 ? 'z' : 'a' + (int)(number % 8)));
		if (number == 20) {
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
	fprintf(stderr, "%u windows of %d bytes lost, RSS %ld KiB\n", lost, WINDOW, rss_kib());
	return 0;
}
