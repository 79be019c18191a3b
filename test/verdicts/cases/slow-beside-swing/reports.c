/* Builds a report of 100 MiB every few seconds and frees it; and writes an audit trail that nobody
 * empties. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGES = 1600, PAGE = 65536 };

struct entry {
	struct entry *next;
	char text[248];
};

static struct entry *trail;
static size_t entries;
static char *pages[PAGES];
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) void audit_append(unsigned number)
{
	struct entry *entry = malloc(sizeof(*entry));

	snprintf(entry->text, sizeof(entry->text), "user %u read account %u", number % 100, number);
	entry->next = trail;
	trail = entry;
	entries++;
}

static __attribute__((noinline)) void render_page(unsigned page)
{
	pages[page] = malloc(PAGE);
	memset(pages[page], (int)page, PAGE);
}

static __attribute__((noinline)) void drop_report(void)
{
	for (unsigned page = 0; page < PAGES; page++) {
		free(pages[page]);
		pages[page] = NULL;
	}
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned tick = 0; !ended; tick++) {
		unsigned phase = tick % 600; /* of 5 ms: a report every 3 s */

		audit_append(tick);
		if (phase < 400)
			for (unsigned page = phase * 4; page < phase * 4 + 4; page++)
				render_page(page);
		if (phase == 450)
			drop_report();
		if (tick == 600) {
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
	fprintf(stderr, "%zu entries of %zu bytes in the trail\n", entries, sizeof(struct entry));
	return 0;
}
