/* regions: memory of all kinds, and an allocator that nobody knows: it cuts its blocks from address
 * space that it has set aside before.
 *
 * Commands: "take N": N MiB more of its blocks; "heap N": N MiB by malloc, in blocks of some sizes;
 * "arena N": the same, by a thread with an arena of its own; "threads N": N threads, which wait on
 * stacks of which they have used half a MiB; "map N": N MiB by mmap; "raw N": the same, without
 * libc; "quit". */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

#define MIB ((size_t)1 << 20)
#define RESERVED (512 * MIB)

/* It mentions allocators, and none of them is inside. */
const char *const mentions[] = {"mimalloc: warning: we tried it",
				"mimalloc",
				"rpmalloc, snmalloc",
				"<jemalloc>: see its manual",
				"<jemalloc>: Malformed conf string\n",
				"tcmalloc: large alloc ",
				"jemalloc-5.3.0"};

static char *at;
static pthread_barrier_t barrier;

/* Blocks are never given back. */
TARGET_FRAME static void *take(size_t bytes)
{
	char *block = at;

	at += (bytes + 15) & ~(size_t)15;
	return block;
}

static void take_many(size_t bytes)
{
	for (size_t done = 0; done < bytes; done += 4096)
		memset(take(4096), 1, 4096);
}

static void *allocate(void *argument)
{
	static const size_t sizes[] = {40, 1000, 30000, 300000, 5000000};
	size_t left = *(size_t *)argument;

	for (size_t i = 0; left; i++) {
		size_t bytes = sizes[i % 5] < left ? sizes[i % 5] : left;
		char *block = malloc(bytes);

		if (!block)
			target_broken("no memory");
		memset(block, 1, bytes);
		left -= bytes;
	}
	return NULL;
}

static void *wait_for_ever(void *argument)
{
	volatile char used[MIB / 2];

	(void)argument;
	for (size_t i = 0; i < sizeof(used); i += 64)
		used[i] = 1;
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void start_threads(unsigned long count)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
	for (unsigned long i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, wait_for_ever, NULL))
			target_broken("no thread");
	pthread_barrier_wait(&barrier);
}

static void run_thread(size_t bytes)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, allocate, &bytes) || pthread_join(thread, NULL))
		target_broken("no thread");
}

static void map(size_t bytes, bool raw)
{
	const int access = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS;
	void *memory = raw ? (void *)syscall(SYS_mmap, NULL, bytes, access, how, -1, 0)
			   : mmap(NULL, bytes, access, how, -1, 0);

	if (memory == MAP_FAILED)
		target_broken("no memory");
	memset(memory, 1, bytes);
}

int main(void)
{
	char line[128];
	unsigned long n;
	size_t bytes;

	at = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || madvise(at, RESERVED, MADV_NOHUGEPAGE))
		target_broken("no memory");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "take", &n)) {
			take_many(n * MIB);
		} else if (target_word(line, "heap", &n)) {
			bytes = n * MIB;
			allocate(&bytes);
		} else if (target_word(line, "arena", &n)) {
			run_thread(n * MIB);
		} else if (target_word(line, "threads", &n)) {
			start_threads(n);
		} else if (target_word(line, "map", &n)) {
			map(n * MIB, false);
		} else if (target_word(line, "raw", &n)) {
			map(n * MIB, true);
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
		target_say("done");
	}
	return 0;
}
