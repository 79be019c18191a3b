/* clang-format off */
/* habits: allocates by habits that a report has to tell apart.
 *
 *	habits HABIT...	leak: blocks that nobody frees. cache: fills up, then each new block takes
 *			the place of an old one. churn: blocks that are freed at once. load: blocks
 *			of the first round, kept.
 *
 * A round a millisecond. Commands: "go" begins; "rise" allocates 48 MiB in small blocks, "fall"
 * frees them but for one in each page, so that the allocator can give nothing back; "map" maps 20
 * times 1 MiB by mmap; "rounds" answers how many there were; "quit" ends with 0. */
/* clang-format on */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "test/targets/target.h"

enum {
	LEAK_BYTES = 700,
	CACHE_BYTES = 3000,
	CACHE_BLOCKS = 400,
	CHURN_BLOCKS = 40,
	LOAD_BLOCKS = 500,
	FALL_BLOCKS = 48 << 10
};

static atomic_bool going, over;
static atomic_ulong rounds;
static bool leaks, caches, churns, loads;

/* Written to, so that it is resident. */
static void *take(size_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	memset(block, 1, bytes);
	return block;
}

TARGET_FRAME static void habit_leak(void)
{
	__asm__ volatile("" ::"r"(take(LEAK_BYTES)) : "memory");
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void habit_cache(unsigned long round)
{
	static void *blocks[CACHE_BLOCKS];

	free(blocks[round % CACHE_BLOCKS]);
	blocks[round % CACHE_BLOCKS] = take(CACHE_BYTES);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void habit_churn(void)
{
	for (unsigned i = 0; i < CHURN_BLOCKS; i++)
		free(take(100));
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void habit_load(void)
{
	for (unsigned i = 0; i < LOAD_BLOCKS; i++)
		__asm__ volatile("" ::"r"(take(4000)) : "memory");
	TARGET_KEEP_FRAME();
}

static void *fallen[FALL_BLOCKS];

TARGET_FRAME static void habit_rise(void)
{
	for (unsigned i = 0; i < FALL_BLOCKS; i++)
		fallen[i] = take(1000);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void habit_fall(void)
{
	for (unsigned i = 0; i < FALL_BLOCKS; i++)
		if (i % 4)
			free(fallen[i]);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void habit_map(void)
{
	for (unsigned i = 0; i < 20; i++) {
		char *piece = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (piece == MAP_FAILED)
			target_broken("no memory");
		memset(piece, 1, 1 << 20);
	}
	TARGET_KEEP_FRAME();
}

static void *work(void *unused)
{
	(void)unused;
	while (!over) {
		const struct timespec pause = {.tv_nsec = 1000000};

		nanosleep(&pause, NULL);
		if (!going)
			continue;
		if (leaks)
			habit_leak();
		if (caches)
			habit_cache(rounds);
		if (churns)
			habit_churn();
		if (loads && !rounds)
			habit_load();
		rounds++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char line[64];

	for (int i = 1; i < argc; i++) {
		leaks |= !strcmp(argv[i], "leak");
		caches |= !strcmp(argv[i], "cache");
		churns |= !strcmp(argv[i], "churn");
		loads |= !strcmp(argv[i], "load");
	}
	if (pthread_create(&thread, NULL, work, NULL))
		target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "go")) {
			going = true;
			target_say("going");
		} else if (!strcmp(line, "rise")) {
			habit_rise();
			target_say("risen");
		} else if (!strcmp(line, "fall")) {
			habit_fall();
			target_say("fell");
		} else if (!strcmp(line, "map")) {
			habit_map();
			target_say("mapped");
		} else if (!strcmp(line, "rounds")) {
			target_say("%lu rounds", (unsigned long)rounds);
		} else if (!strcmp(line, "quit")) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	pthread_join(thread, NULL);
	return 0;
}
