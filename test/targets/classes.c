/* classes: blocks of sizes that it is told, freed by threads that it is told, and how many of each
 * usable size it holds, whichever malloc it is run with.
 *
 * Commands: "make BYTES N": N blocks; "thread BYTES N": by a thread that stays; "leave BYTES N": by
 * a thread that ends; "drop N": every Nth block is freed; "elsewhere N": by another thread, which
 * stays; "churn N": threads that make and free blocks all the time; "held": the blocks by usable
 * size, as JSON; "bytes": those in use or in caches, as gperftools' tcmalloc says; "release": its
 * free pages; "quit". */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>

#include "test/targets/target.h"

enum { BLOCKS = 1 << 20, SIZES = 32 };

/* gperftools/malloc_extension_c.h, if it is that tcmalloc. */
extern int MallocExtension_GetNumericProperty(const char *property, size_t *value)
	__attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

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

static void say_bytes(void)
{
	static const char *const names[] = {"generic.current_allocated_bytes",
					    "tcmalloc.current_total_thread_cache_bytes",
					    "tcmalloc.transfer_cache_free_bytes"};
	size_t sum = 0, value;

	if (!MallocExtension_GetNumericProperty)
		target_broken("it is another malloc");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!MallocExtension_GetNumericProperty(names[i], &value))
			target_broken("there is no such number");
		sum += value;
	}
	target_say("bytes %zu", sum);
}

static void *churn(void *context)
{
	uint64_t seed = (uintptr_t)context;
	char *own[512] = {NULL};

	sem_post(&done);
	for (;;) {
		const size_t i = target_random(&seed) % 512;

		free(own[i]);
		own[i] = malloc(16 + (target_random(&seed) % 64 ? target_random(&seed) % 3000
								: target_random(&seed) % 600000));
		if (!own[i])
			target_broken("no memory");
		own[i][0] = 1;
	}
	return NULL;
}

static void start_churn(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, churn, (void *)(i + 1)) != 0)
			target_broken("no thread");
		sem_wait(&done);
	}
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
	if (!strcmp(word, "churn")) {
		start_churn(task.bytes);
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
		else if (!strcmp(line, "bytes"))
			say_bytes();
		else if (!strcmp(line, "release") && MallocExtension_ReleaseFreeMemory) {
			MallocExtension_ReleaseFreeMemory();
			target_say("done");
		} else if (take(line))
			target_say("done");
		else
			break;
	}
	return 0;
}
