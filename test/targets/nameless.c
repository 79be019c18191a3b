/* nameless: a stripped program with an allocator inside that it calls through slots of its own,
 *from many places, as programs in Rust do.
 *
 *	nameless
 *
 * Its worker allocates, moves and frees all the while, once "work" was said; "rest" ends that, and
 * frees what the worker has. "keep N" keeps N blocks of 5000 bytes, which were smaller before;
 * "zero N" N of 3000; "drop" frees all of these. "blocks" answers how many there are in all.
 * "idle N" starts N threads that do nothing.
 * Started as `nameless still`, the worker does not move blocks. */
#include <pthread.h>
#include <stdatomic.h>

#include "test/targets/nameless.h"
#include "test/targets/target.h"

enum { SITES = 100, SLOTS = 64, KEPT = 4096, SMALL = 100, LARGE = 5000, ZEROED = 3000 };

#define TEN(of, n) \
	of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7) of(n##8) of(n##9)
#define HUNDRED(of) \
	TEN(of, 1)  \
	TEN(of, 2)  \
	TEN(of, 3) TEN(of, 4) TEN(of, 5) TEN(of, 6) TEN(of, 7) TEN(of, 8) TEN(of, 9) TEN(of, 10)

#define ALLOCATE(n)                                              \
	static TARGET_FRAME void *allocate_##n(void)             \
	{                                                        \
		void *block = slot_malloc(16 + 8 * (n % 40), 8); \
		if (!block)                                      \
			target_broken("no block");               \
		return block;                                    \
	}                                                        \
	static TARGET_FRAME void release_##n(void *block)        \
	{                                                        \
		slot_free(block);                                \
		TARGET_KEEP_FRAME();                             \
	}
HUNDRED(ALLOCATE)
#define MOVE(n)                                                            \
	static TARGET_FRAME void *move_##n(void *block)                    \
	{                                                                  \
		void *moved = slot_realloc(block, 400 + 16 * (n % 30), 8); \
		if (!moved)                                                \
			target_broken("no block");                         \
		return moved;                                              \
	}                                                                  \
	static TARGET_FRAME void *allocate_zeroed_##n(void)                \
	{                                                                  \
		void *block = slot_zalloc(24 + 8 * (n % 30), 8);           \
		if (!block)                                                \
			target_broken("no block");                         \
		if (slot_usable(block) < 24)                               \
			target_broken("too small a block");                \
		return block;                                              \
	}
TEN(MOVE, 1)

#define NAME_ALLOCATE(n) allocate_##n,
#define NAME_RELEASE(n) release_##n,
#define NAME_MOVE(n) move_##n,
#define NAME_ZERO(n) allocate_zeroed_##n,
static void *(*const allocate[])(void) = {HUNDRED(NAME_ALLOCATE)};
static void (*const release[])(void *) = {HUNDRED(NAME_RELEASE)};
static void *(*const move[])(void *) = {TEN(NAME_MOVE, 1)};
static void *(*const allocate_zeroed[])(void) = {TEN(NAME_ZERO, 1)};

static _Atomic bool working, at_rest = true, quitting;
static bool still;
static void *kept[KEPT];
static size_t kept_count;

static void work_once(void **slots, uint64_t *seed)
{
	const uint64_t random = target_random(seed);
	void **slot = &slots[random % SLOTS];
	const size_t site = random >> 8 & 0xffff;

	if (*slot && !still && site % 4 == 0) {
		*slot = move[site % 10](*slot);
		return;
	}
	if (*slot) {
		release[site % SITES](*slot);
		*slot = NULL;
		return;
	}
	*slot = site % 8 ? allocate[site % SITES]() : allocate_zeroed[site % 10]();
}

static void *work(void *unused)
{
	void *slots[SLOTS] = {NULL};
	uint64_t seed = 1;

	while (!quitting) {
		if (working) {
			at_rest = false;
			for (unsigned i = 0; i < 1000; i++)
				work_once(slots, &seed);
		}
		if (!working) {
			for (unsigned i = 0; i < SLOTS; i++) {
				if (slots[i])
					slot_free(slots[i]);
				slots[i] = NULL;
			}
			at_rest = true;
		}
		/* A program that does something else, too. */
		usleep(1000);
	}
	return unused;
}

static void keep(unsigned long count, bool zeroed)
{
	for (unsigned long i = 0; i < count && kept_count < KEPT; i++) {
		void *block = zeroed ? slot_zalloc(ZEROED, 8) : slot_malloc(SMALL, 8);

		if (block && !zeroed)
			block = slot_realloc(block, LARGE, 8);
		if (!block)
			target_broken("no block");
		kept[kept_count++] = block;
	}
}

static void *do_nothing(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void start_idle(unsigned long count)
{
	pthread_t thread;

	for (unsigned long i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, do_nothing, NULL))
			target_broken("no thread");
}

static void command(const char *line)
{
	unsigned long n;

	if (target_word(line, "work", &n)) {
		working = true;
	} else if (target_word(line, "rest", &n)) {
		working = false;
		while (!at_rest)
			usleep(1000);
	} else if (target_word(line, "keep", &n)) {
		keep(n, false);
	} else if (target_word(line, "zero", &n)) {
		keep(n, true);
	} else if (target_word(line, "idle", &n)) {
		start_idle(n);
	} else if (target_word(line, "drop", &n)) {
		while (kept_count)
			slot_free(kept[--kept_count]);
	} else if (target_word(line, "blocks", &n)) {
		target_say("blocks %zu", heap_blocks());
		return;
	} else {
		target_broken("unknown command '%s'", line);
	}
	target_say("done");
}

int main(int argc, char **argv)
{
	pthread_t worker;
	char line[128];

	still = argc == 2 && !strcmp(argv[1], "still");
	if (pthread_create(&worker, NULL, work, NULL))
		target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0)
		command(line);
	quitting = true;
	pthread_join(worker, NULL);
	return 0;
}
