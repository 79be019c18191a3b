#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

/* A flight recorder: segments of shared memory from memfd_create(), which it keeps for readers that
 * never come. */
enum { SEGMENT = 4 << 20 };

static unsigned long segments, records;
static unsigned char *segment;
static size_t used = SEGMENT;

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

__attribute__((noinline)) void segment_new(void)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "recorder-%lu", segments);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, SEGMENT) != 0)
		exit(1);
	segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED)
		exit(1);
	close(fd);
	segments++;
	used = 0;
}

__attribute__((noinline)) void record_write(const char *text, size_t size)
{
	if (used + size > SEGMENT)
		segment_new();
	memcpy(segment + used, text, size);
	used += size;
	records++;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		char *text = malloc(32768);

		memset(text, 'r', 32768);
		for (int i = 0; i < 5; i++)
			record_write(text, 32768);
		free(text);
		if (tick % 100 == 0)
			fprintf(stderr, "%lu records, %lu segments, %lu bytes\n", records, segments,
				records * 32768);
		pace(20);
	}
}
