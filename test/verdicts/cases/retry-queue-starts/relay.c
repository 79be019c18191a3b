/* A relay of mail. Six seconds into the capture the next hop fails, and messages for it pile up. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct message {
	struct message *next;
	size_t size;
	char body[];
};

static struct message *retries;
static size_t queued, queued_bytes;
static int captured;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) struct message *receive_message(unsigned number)
{
	size_t size = 2000 + number % 9 * 300;
	struct message *message = malloc(sizeof(*message) + size);

	message->size = size;
	memset(message->body, 'x', size);
	return message;
}

static __attribute__((noinline)) void queue_retry(struct message *message)
{
	struct message *copy = malloc(sizeof(*copy) + message->size);

	memcpy(copy, message, sizeof(*copy) + message->size);
	copy->next = retries;
	retries = copy;
	queued++;
	queued_bytes += sizeof(*copy) + message->size;
}

static __attribute__((noinline)) int deliver(const struct message *message, int is_down)
{
	char *wire = malloc(message->size * 2);

	memset(wire, message->body[0], message->size * 2);
	free(wire);
	return !is_down;
}

static int is_captured(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;

	if (!captured && poll(&input, 1, 0) > 0)
		captured = read(STDIN_FILENO, &byte, 1) == 1;
	return captured;
}

int main(void)
{
	struct timespec next;
	unsigned since = 0;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		struct message *message = receive_message(number);

		since += (unsigned)is_captured();
		if (!deliver(message, since > 1200))
			queue_retry(message);
		free(message);
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
	fprintf(stderr, "%zu messages of %zu bytes in the queue\n", queued, queued_bytes);
	return 0;
}
