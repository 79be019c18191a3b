/* A pool of connections that is filled in the first seconds of the capture and is then only used.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POOL = 500 };

struct connection {
	struct connection *next;
	char *input, *output;
	unsigned uses;
};

static struct connection *idle;
static unsigned made;
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

static __attribute__((noinline)) struct connection *connection_open(void)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	connection->input = malloc(16384);
	connection->output = malloc(16384);
	memset(connection->input, 0, 16384);
	memset(connection->output, 0, 16384);
	made++;
	return connection;
}

static __attribute__((noinline)) void pool_put(struct connection *connection)
{
	connection->next = idle;
	idle = connection;
}

static __attribute__((noinline)) void query(unsigned number)
{
	struct connection *connection = idle;
	char *text;

	if (!connection)
		return;
	idle = connection->next;
	text = malloc(3000);
	snprintf(text, 3000, "SELECT %u", number);
	memcpy(connection->output, text, 20);
	free(text);
	connection->uses++;
	pool_put(connection);
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		if (is_captured() && made < POOL)
			pool_put(connection_open());
		query(number);
		next.tv_nsec += 8000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%u connections of 32 KiB\n", made);
	return 0;
}
