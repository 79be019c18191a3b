/* Reads a corpus: each line makes words and a few terms. Lines are then dropped; the terms between
 * them stay. */
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 60000, WORDS = 24 };

static char *words[LINES][WORDS];
static char *terms[LINES];
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}
static int is_captured(void)
{
	static int captured;
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	if (!captured && poll(&input, 1, 0) > 0)
		captured = read(STDIN_FILENO, &byte, 1) == 1;
	return captured;
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

static __attribute__((noinline)) char *copy_word(unsigned line, unsigned word)
{
	char *copy = malloc(80);

	snprintf(copy, 80, "word %u of line %u", word, line);
	memset(copy + 40, 'w', 40);
	return copy;
}

static __attribute__((noinline)) char *intern_term(unsigned line)
{
	char *term = malloc(48);

	snprintf(term, 48, "term-%u", line);
	return term;
}

static __attribute__((noinline)) void read_line(unsigned line)
{
	for (unsigned word = 0; word < WORDS; word++)
		words[line][word] = copy_word(line, word);
	terms[line] = intern_term(line);
}

static __attribute__((noinline)) void drop_lines(void)
{
	for (unsigned line = 0; line < LINES; line++)
		for (unsigned word = 0; word < WORDS; word++)
			free(words[line][word]);
}

int main(void)
{
	struct timespec next;
	struct mallinfo2 info;
	unsigned line = 0;
	int waits = 0;

	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!ended) {
		for (int i = 0; i < 150 && is_captured() && line < LINES; i++)
			read_line(line++);
		if (line == LINES && waits++ == 100) {
			drop_lines();
			malloc_trim(0);
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
	return terms[0] == NULL;
}
