#define _GNU_SOURCE
#include "xalloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A mail gateway. Each message's envelope is freed, but not the addresses of its recipients. */
struct header {
	struct header *next;
	char *name, *value;
};

struct envelope {
	char **recipients;
	int count;
	struct header *headers;
	char *body;
};

static unsigned long messages, lost;

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

__attribute__((noinline)) void envelope_add_recipient(struct envelope *envelope,
						      const char *address)
{
	envelope->recipients =
		xrealloc(envelope->recipients, (envelope->count + 1) * sizeof(char *));
	envelope->recipients[envelope->count++] = xstrdup(address);
	lost += strlen(address) + 1;
}

__attribute__((noinline)) void envelope_add_header(struct envelope *envelope, const char *name,
						   const char *value)
{
	struct header *header = xmalloc(sizeof(*header));

	header->name = xstrdup(name);
	header->value = xstrdup(value);
	header->next = envelope->headers;
	envelope->headers = header;
}

__attribute__((noinline)) void envelope_free(struct envelope *envelope)
{
	while (envelope->headers != NULL) {
		struct header *next = envelope->headers->next;

		free(envelope->headers->name);
		free(envelope->headers->value);
		free(envelope->headers);
		envelope->headers = next;
	}
	free(envelope->recipients);
	free(envelope->body);
	free(envelope);
}

__attribute__((noinline)) struct envelope *message_parse(unsigned long id)
{
	struct envelope *envelope = xmalloc(sizeof(*envelope));
	char text[600];

	memset(envelope, 0, sizeof(*envelope));
	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "user%lu.%d@%0*d.example.org", id, i, 380, i);
		envelope_add_recipient(envelope, text);
	}
	for (int i = 0; i < 12; i++) {
		snprintf(text, sizeof(text), "by relay%d.example.org with ESMTP id %lu; %0*d", i,
			 id, 300, i);
		envelope_add_header(envelope, "Received", text);
	}
	envelope->body = xmalloc(20000);
	memset(envelope->body, 'x', 20000);
	return envelope;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct envelope *envelope = message_parse(messages++);

		envelope_free(envelope);
		pace(20);
		if (messages % 100 == 0)
			fprintf(stderr, "%lu messages, %lu bytes of addresses\n", messages, lost);
	}
}
