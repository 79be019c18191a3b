/* Sorts a batch in eight threads when it starts, each in an arena of its own. Then it serves from
 * the results. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, RECORDS = 150000 };

static char *results[THREADS][RECORDS / 500];
static pthread_barrier_t sorted;
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

static __attribute__((noinline)) char *load_record(unsigned number)
{
	char *record = malloc(100 + number % 30);

	snprintf(record, 100, "record %u", number * 2654435761u);
	return record;
}

static void *sort_batch(void *closure)
{
	char ***mine = malloc(sizeof(*mine)), **records = malloc(RECORDS * sizeof(*records));
	size_t thread = (size_t)closure;

	*mine = records;
	for (unsigned i = 0; i < RECORDS; i++)
		records[i] = load_record(i);
	pthread_barrier_wait(&sorted);
	for (unsigned i = 0; i < RECORDS; i++)
		if (i % 500)
			free(records[i]);
		else
			results[thread][i / 500] = records[i];
	free(records);
	free(mine);
	return NULL;
}

static __attribute__((noinline)) size_t answer(unsigned number)
{
	char *response = malloc(600);
	size_t length;

	snprintf(response, 600, "%s", results[number % THREADS][number % (RECORDS / 500)]);
	length = strlen(response);
	free(response);
	return length;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct timespec next;
	struct mallinfo2 info;
	size_t sum = 0;

	signal(SIGTERM, end);
	pthread_barrier_init(&sorted, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, sort_batch, (void *)i);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		sum += answer(number);
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
	fprintf(stderr, "RSS %ld KiB; glibc: %zu bytes used, %zu free (%zu)\n", rss_kib(),
		info.uordblks, info.fordblks, sum);
	return 0;
}
