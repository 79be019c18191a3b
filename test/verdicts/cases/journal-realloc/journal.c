/* A journal that is kept in one buffer, which grows by realloc. Its index grows by doubling. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct journal {
	char *text;
	size_t length, capacity;
	size_t *index;
	size_t records, indexed;
};

static struct journal journal;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) void journal_reserve(size_t more)
{
	if (journal.length + more > journal.capacity) {
		journal.capacity += 65536;
		journal.text = realloc(journal.text, journal.capacity);
	}
	if (journal.records == journal.indexed) {
		journal.indexed = journal.indexed ? journal.indexed * 2 : 64;
		journal.index = realloc(journal.index, journal.indexed * sizeof(*journal.index));
	}
}

static __attribute__((noinline)) void journal_append(const char *record, size_t size)
{
	journal_reserve(size);
	memcpy(journal.text + journal.length, record, size);
	journal.index[journal.records++] = journal.length;
	journal.length += size;
}

static void commit(unsigned number)
{
	char *record = malloc(9000);

	memset(record, 'a' + (int)(number % 26), 9000);
	journal_append(record, 8000 + number % 1000);
	free(record);
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		commit(number);
		if (number == 400) {
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
	fprintf(stderr, "%zu records, %zu bytes of journal\n", journal.records, journal.length);
	return 0;
}
