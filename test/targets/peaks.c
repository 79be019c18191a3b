/* peaks [THREADS]: threads whose highest live bytes are known, whoever reads what they did.
 *
 * "turns N" lets them take turns: one has a block at a time, and each has N. "together N" lets all
 * have a block at the same time, N times. Each answers "ran" and the most bytes that were live at
 * once; "quit" ends with 0. */
#include <pthread.h>

#include "test/targets/target.h"

enum { MAX_THREADS = 32, BLOCK_BYTES = 1 << 20 };

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long rounds;
static bool together, ended;

TARGET_FRAME static void *peaks_make(void)
{
	char *block = malloc(BLOCK_BYTES);

	if (!block)
		target_broken("out of memory");
	*(volatile char *)block = 1;
	return block;
}

static void have_block(void)
{
	void *block;

	if (together) {
		block = peaks_make();
		pthread_barrier_wait(&barrier);
		free(block);
		pthread_barrier_wait(&barrier);
		return;
	}
	pthread_mutex_lock(&mutex);
	block = peaks_make();
	free(block);
	pthread_mutex_unlock(&mutex);
}

static void *run(void *argument)
{
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (ended)
			return argument;
		for (unsigned long i = 0; i < rounds; i++)
			have_block();
		pthread_barrier_wait(&barrier);
	}
}

int main(int argc, char **argv)
{
	const int threads = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t ids[MAX_THREADS];
	char line[64];

	if (threads < 1 || threads > MAX_THREADS)
		target_broken("usage: peaks [THREADS]");
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run, NULL))
			target_broken("no thread");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit")) {
		together = !strncmp(line, "together ", 9);
		if (sscanf(line, together ? "together %lu" : "turns %lu", &rounds) != 1)
			target_broken("unknown command %s", line);
		pthread_barrier_wait(&barrier);
		for (unsigned long i = 0; i < rounds; i++)
			have_block();
		pthread_barrier_wait(&barrier);
		target_say("ran %d", (together ? threads : 1) * BLOCK_BYTES);
	}
	ended = true;
	pthread_barrier_wait(&barrier);
	for (int i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
