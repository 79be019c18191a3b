/* A pool of threads that works on pictures. Of the three handlers only the one of thumbnails loses
 * something. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, QUEUE = 256, SCRATCH = 1 << 20 };

struct job {
	int kind;
	unsigned number;
};

typedef void (*handler)(const struct job *job);

static struct job queue[QUEUE];
static unsigned head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static _Thread_local unsigned char *scratch;
static size_t lost_bytes;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static unsigned char *read_metadata(unsigned number, size_t *size)
{
	unsigned char *metadata;

	*size = 1500 + number % 7 * 100;
	metadata = malloc(*size);
	memset(metadata, (int)number, *size);
	return metadata;
}

static void handle_thumbnail(const struct job *job)
{
	size_t size;
	unsigned char *metadata = read_metadata(job->number, &size);
	unsigned char *pixels = malloc(160 * 120 * 3);

	memset(pixels, metadata[7], 160 * 120 * 3);
	memcpy(scratch, pixels, 160 * 120 * 3);
	free(pixels);
	if (metadata[0] & 1) { /* a portrait needs no turning; and its metadata is forgotten */
		__atomic_fetch_add(&lost_bytes, size, __ATOMIC_RELAXED);
		return;
	}
	free(metadata);
}

static void handle_resize(const struct job *job)
{
	size_t size = 300000 + job->number % 16 * 20000;
	unsigned char *pixels = malloc(size);

	memset(pixels, 3, size);
	memcpy(scratch, pixels, size);
	free(pixels);
}

static void handle_checksum(const struct job *job)
{
	size_t size;
	unsigned char *metadata = read_metadata(job->number, &size);
	unsigned sum = 0;

	for (size_t i = 0; i < size; i++)
		sum = sum * 31 + metadata[i];
	scratch[0] = (unsigned char)sum;
	free(metadata);
}

static const handler handlers[] = {handle_thumbnail, handle_resize, handle_checksum};

static void *worker(void *unused)
{
	struct job job;

	scratch = malloc(SCRATCH);
	memset(scratch, 0, SCRATCH);
	for (;;) {
		pthread_mutex_lock(&lock);
		while (head == tail)
			pthread_cond_wait(&filled, &lock);
		job = queue[tail++ % QUEUE];
		pthread_mutex_unlock(&lock);
		handlers[job.kind](&job);
	}
	return unused;
}

static void submit(int kind, unsigned number)
{
	pthread_mutex_lock(&lock);
	if (head - tail < QUEUE)
		queue[head++ % QUEUE] = (struct job){kind, number};
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	struct timespec next;
	pthread_t thread;

	signal(SIGTERM, end);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&thread, NULL, worker, NULL);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		submit(number % 4 == 3 ? 1 : number % 2 ? 2 : 0, number / 2);
		if (number == 500) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 2000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "lost %zu bytes of metadata\n", lost_bytes);
	return 0;
}
