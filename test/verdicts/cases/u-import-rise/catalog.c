#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A shop's catalog. Four seconds into the capture an import adds 60 MiB that stay. */
struct article {
	struct article *next;
	char *title, *description;
};

static struct article *articles;
static unsigned long count, bytes;

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

__attribute__((noinline)) char *text_new(size_t size, int letter)
{
	char *text = malloc(size);

	memset(text, letter, size - 1);
	text[size - 1] = '\0';
	bytes += size;
	return text;
}

__attribute__((noinline)) void import_catalog(unsigned items)
{
	for (unsigned i = 0; i < items; i++) {
		struct article *article = malloc(sizeof(*article));

		article->title = text_new(80, 'T');
		article->description = text_new(3000, 'd');
		article->next = articles;
		articles = article;
		count++;
		bytes += sizeof(*article);
	}
}

__attribute__((noinline)) void serve_page(unsigned id)
{
	char *page = malloc(10000 + id % 5000);

	memset(page, 'p', 10000);
	free(page);
}

int main(void)
{
	import_catalog(1000);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned tick = 0;; tick++) {
		if (tick == 200)
			import_catalog(20000);
		serve_page(tick);
		if (tick % 100 == 0)
			fprintf(stderr, "tick %u: %lu articles, %lu bytes\n", tick, count, bytes);
		pace(20);
	}
}
