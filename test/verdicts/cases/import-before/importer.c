/* Imports a catalogue of 140 MiB when it starts, keeps a summary of it, and then answers requests.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORDS = 900000 };

struct record {
	unsigned id;
	char text[136];
};

static char *summary;
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

static __attribute__((noinline)) void import_catalogue(void)
{
	struct record **records = malloc(RECORDS * sizeof(struct record *));
	unsigned sum = 0;

	for (unsigned i = 0; i < RECORDS; i++) {
		records[i] = malloc(sizeof(struct record));
		memset(records[i], (int)i, sizeof(struct record));
		sum += records[i]->id;
	}
	summary = malloc(100); /* above all of them */
	snprintf(summary, 100, "%u records, sum %u", RECORDS, sum);
	for (unsigned i = 0; i < RECORDS; i++)
		free(records[i]);
	free(records);
}

static __attribute__((noinline)) void answer(unsigned number)
{
	char *response = malloc(800 + number % 8 * 100);

	snprintf(response, 800, "%s; request %u", summary, number);
	free(response);
}

int main(void)
{
	struct timespec next;
	struct mallinfo2 info;

	signal(SIGTERM, end);
	import_catalogue();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		answer(number);
		if (number == 20) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 10000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	info = mallinfo2();
	fprintf(stderr, "RSS %ld KiB; glibc: %zu bytes used, %zu free\n", rss_kib(), info.uordblks,
		info.fordblks);
	return 0;
}
