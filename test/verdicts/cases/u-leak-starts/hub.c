#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A message hub. Six seconds into the capture a client comes that subscribes again and again. */
struct subscription {
	struct subscription *next;
	char topic[64];
	unsigned char filter[4000];
};

static struct subscription *subscriptions;
static unsigned long count;

static void pace(long ms)
{
	static struct timespec next;

	if (next.tv_sec == 0)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += ms * 1000000;
	while (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		continue;
}

static void wait_for_line(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		continue;
}

__attribute__((noinline)) void topic_subscribe(const char *topic)
{
	struct subscription *made = malloc(sizeof(*made));

	snprintf(made->topic, sizeof(made->topic), "%s", topic);
	memset(made->filter, 0xff, sizeof(made->filter));
	made->next = subscriptions;
	subscriptions = made;
	count++;
}

__attribute__((noinline)) void message_route(unsigned id)
{
	char *message = malloc(300 + id % 1000), *reply = malloc(100 + id % 50);

	memset(message, 'm', 300);
	memset(reply, 'r', 100);
	free(message);
	free(reply);
}

int main(void)
{
	for (int i = 0; i < 3000; i++)
		topic_subscribe("status/boot");
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned tick = 0;; tick++) {
		for (int i = 0; i < 20; i++)
			message_route(tick * 20 + i);
		if (tick > 300)
			for (int i = 0; i < 3; i++)
				topic_subscribe("alerts/all");
		if (tick % 100 == 0)
			fprintf(stderr, "tick %u: %lu subscriptions, %lu bytes\n", tick, count,
				count * sizeof(struct subscription));
		pace(20);
	}
}
