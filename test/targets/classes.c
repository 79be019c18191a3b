/* classes: blocks of sizes that it is told, freed by threads that it is told, and how many of each
 * usable size it holds, whichever malloc it is run with.
 *
 * Commands: "make BYTES N": N blocks; "thread BYTES N": by a thread that stays; "leave BYTES N": by
 * a thread that ends; "drop N": every Nth block is freed; "elsewhere N": by another thread, which
 * stays; "held": the blocks by usable size, as JSON; "quit". */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>

#include "test/targets/target.h"

enum { BLOCKS = 1 << 20, SIZES = 32 };

static void **blocks;
static size_t block_count;
static sem_t done;

/* What a thread does. */
struct task {
	size_t bytes;
	unsigned long number;
	bool frees, stays;
};

static void make(size_t bytes, unsigned long number)
{
	for (unsigned long i = 0; i < number && block_count < BLOCKS; i++) {
		void *block = malloc(bytes);

		if (!block)
			target_broken("no memory");
		memset(block, 1, bytes < 100 ? bytes : 100);
		blocks[block_count++] = block;
	}
}

static void drop(unsigned long step)
{
	size_t kept = 0;

	for (size_t i = 0; i < block_count; i++)
		if (step && i % step == 0)
			free(blocks[i]);
		else
			blocks[kept++] = blocks[i];
	block_count = kept;
}

static void *work(void *context)
{
	const struct task task = *(struct task *)context;

	if (task.frees)
		drop(task.number);
	else
		make(task.bytes, task.number);
	sem_post(&done);
	while (task.stays)
		pause();
	return NULL;
}

static void run(struct task task)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, &task) != 0)
		target_broken("no thread");
	sem_wait(&done);
	if (!task.stays)
		pthread_join(thread, NULL);
}

static void say_held(void)
{
	size_t sizes[SIZES], counts[SIZES], count = 0, used = 0;
	char text[900] = "";

	for (size_t i = 0; i < block_count; i++) {
		const size_t size = malloc_usable_size(blocks[i]);
		size_t k = 0;

		while (k < count && sizes[k] != size)
			k++;
		if (k == SIZES)
			target_broken("too many sizes");
		if (k == count) {
			sizes[count] = size;
			counts[count++] = 0;
		}
		counts[k]++;
	}
	for (size_t k = 0; k < count; k++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\"%zu\":%zu",
					 k ? "," : "", sizes[k], counts[k]);
	target_say("held {%s}", text);
}

static bool take(const char *line)
{
	struct task task = {0};
	char word[16];

	if (sscanf(line, "%15s %zu %lu", word, &task.bytes, &task.number) < 2)
		return false;
	if (!strcmp(word, "make")) {
		make(task.bytes, task.number);
		return true;
	}
	if (!strcmp(word, "drop")) {
		drop(task.bytes);
		return true;
	}
	task.frees = !strcmp(word, "elsewhere");
	task.stays = strcmp(word, "leave") != 0;
	if (task.frees)
		task.number = task.bytes;
	else if (task.stays && strcmp(word, "thread") != 0)
		return false;
	run(task);
	return true;
}

int main(void)
{
	char line[64];

	blocks = mmap(NULL, BLOCKS * sizeof(*blocks), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED || sem_init(&done, 0, 0) < 0)
		target_broken("no memory");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "held"))
			say_held();
		else if (take(line))
			target_say("done");
		else
			break;
	}
	return 0;
}
