/* A store of pages with an allocator of its own, which maps extents of 1 MiB and never unmaps one.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { EXTENT = 1 << 20, PAGE = 8192 };

struct page {
	struct page *next;
	unsigned number;
};

static char *extent;
static size_t used = EXTENT, extents;
static struct page *newest;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) char *extent_new(void)
{
	char *start =
		mmap(NULL, EXTENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		abort();
	extents++;
	return start;
}

static __attribute__((noinline)) struct page *page_alloc(void)
{
	struct page *page;

	if (used + PAGE > EXTENT) {
		extent = extent_new();
		used = 0;
	}
	page = (struct page *)(extent + used);
	used += PAGE;
	return page;
}

static __attribute__((noinline)) void store_version(unsigned number)
{
	struct page *page = page_alloc();
	char *text = malloc(2000);

	memset(page, (int)number, PAGE);
	page->number = number;
	page->next = newest;
	newest = page; /* old versions are never dropped */
	snprintf(text, 2000, "version %u", number);
	free(text);
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		store_version(number);
		if (number == 800) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 2500000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "%zu extents of %d bytes\n", extents, EXTENT);
	return 0;
}
