/* Holds 200 MiB of places that were loaded long ago, and answers a question now and then. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLACES = 600000 };

struct place {
	double latitude, longitude;
	char *name;
};

static struct place *places;
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

static __attribute__((noinline)) void load_places(void)
{
	places = malloc(PLACES * sizeof(*places));
	for (unsigned i = 0; i < PLACES; i++) {
		places[i] = (struct place){i * 0.001, i * 0.002, malloc(300)};
		memset(places[i].name, 'n', 300);
	}
}

static __attribute__((noinline)) double nearest(double latitude)
{
	double *distances = malloc(1000 * sizeof(double)), best = 1e9;

	for (int i = 0; i < 1000; i++) {
		distances[i] = places[i * 600].latitude - latitude;
		if (distances[i] * distances[i] < best)
			best = distances[i] * distances[i];
	}
	free(distances);
	return best;
}

int main(void)
{
	struct timespec next;
	double sum = 0;

	signal(SIGTERM, end);
	load_places();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sum += nearest(number);
		if (number == 2) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 500000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%d places, RSS %ld KiB\n", PLACES, rss_kib());
	return sum < 0;
}
