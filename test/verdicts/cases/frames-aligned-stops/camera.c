/* A recorder whose disk is stuck for the first seven seconds of the capture: frames pile up, then
 * no more. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 1 << 20, ALIGNMENT = 1 << 21 };

struct frame {
	struct frame *next;
	unsigned number;
};

static struct frame *backlog;
static unsigned frames;
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

static __attribute__((noinline)) struct frame *grab_frame(unsigned number)
{
	void *memory;

	if (posix_memalign(&memory, ALIGNMENT, FRAME))
		abort();
	memset(memory, (int)number, FRAME);
	return memory;
}

static __attribute__((noinline)) void record_frame(struct frame *frame, int is_stuck)
{
	if (!is_stuck) {
		free(frame);
		return;
	}
	frame->next = backlog; /* nobody looks into the backlog once the disk is back */
	backlog = frame;
	frames++;
}

int main(void)
{
	struct timespec next;
	unsigned since = 0;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		since += (unsigned)is_captured();
		record_frame(grab_frame(number), since && since <= 70);
		if (number == 20) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 100000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%u frames of %d bytes in the backlog\n", frames, FRAME);
	return 0;
}
