/* Collects rows for three seconds, writes them, and frees them all, again and again. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct row {
	struct row *next;
	char columns[488];
};

static struct row *batch;
static size_t rows, most, batches;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) void collect_row(unsigned number)
{
	struct row *row = malloc(sizeof(*row));

	memset(row->columns, (int)number, sizeof(row->columns));
	row->next = batch;
	batch = row;
	if (++rows > most)
		most = rows;
}

static __attribute__((noinline)) void write_batch(void)
{
	char *page = malloc(1 << 20);
	size_t used = 0;

	while (batch) {
		struct row *row = batch;

		memcpy(page + used % ((1 << 20) - 512), row->columns, sizeof(row->columns));
		used += 488;
		batch = row->next;
		free(row);
		rows--;
	}
	free(page);
	batches++;
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		for (int i = 0; i < 100; i++)
			collect_row(number);
		if (number % 600 == 599)
			write_batch();
		if (number == 700) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 5000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%zu batches, at most %zu rows of %zu bytes, now %zu\n", batches, most,
		sizeof(struct row), rows);
	return 0;
}
