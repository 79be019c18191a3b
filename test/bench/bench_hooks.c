/* What the agent's hooks cost the thread that allocates, without a collector beside it: the agent
 * in our own process, its chunks emptied by resetting them. For each case the least and the median
 * of many short rounds, bare and hooked in turn: the least is what the code costs, the median what
 * a shared machine makes of it.
 *
 *     bench_hooks [ROUNDS [FILTER]] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/record.h"
#include "injector/elf/modules.h"
#include "test/unit/agent_fixture.h"
#include "test/unit/target_of.h"
#include "test/unit/unwind_fixture.h"

#define FRAME __attribute__((noinline, noclone))
enum { MAX_ROUNDS = 1000, CALLS = 4096, LOWEST_LEVEL = 2 };

typedef void *malloc_fn(size_t bytes);
typedef void free_fn(void *block);

static struct agent_fixture fixture;
static struct limpet_thread *thread;
static malloc_fn *volatile allocate;
static free_fn *volatile release;
static uint64_t path, turn;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

FRAME static void pair(void)
{
	char *block = allocate(64 + turn % 64);

	*(volatile char *)block = 1;
	release(block);
	turn++;
	__asm__ volatile("" ::: "memory");
}

static void down_left(int level);

FRAME static void down_right(int level)
{
	if (level <= 1)
		pair();
	else if (path >> (level % 20) & 1)
		down_right(level - 1);
	else
		down_left(level - 1);
	__asm__ volatile("" ::: "memory");
}

FRAME static void down_left(int level)
{
	if (level <= 1)
		pair();
	else if (path >> (level % 20) & 1)
		down_right(level - 1);
	else
		down_left(level - 1);
	__asm__ volatile("" ::: "memory");
}

/* Empties the chunk as if the collector had taken it. */
static void empty(void)
{
	struct limpet_own *own = limpet_own(thread);

	if (!own->chunk)
		return;
	__atomic_store_n(&fixture_chunk(&fixture, own->chunk)->committed, 0, __ATOMIC_RELEASE);
	own->at = own->end - LIMPET_CHUNK_BYTES + sizeof(struct limpet_chunk);
	/* Those before it are as good as read, too. */
	limpet_segment_free_all(fixture.segment);
	fixture_chunk_map(&fixture)[(own->chunk - 1) / 64] &= ~(1ull << (own->chunk - 1) % 64);
}

struct bench_case {
	const char *name;
	int depth;
	uint64_t stacks; /* in rotation; 0: another one at random each time */
};

static uint64_t mix(uint64_t value)
{
	value *= 0x9e3779b97f4a7c15ull;
	return value ^ value >> 31;
}

static double round_of(const struct bench_case *one, bool hooked)
{
	static uint64_t turns[2]; /* each walks through all stacks */
	uint64_t begun, pairs = 0, *at = &turns[hooked];

	allocate = hooked ? (malloc_fn *)(uintptr_t)limpet_thunk(FIXTURE_MALLOC) : malloc;
	release = hooked ? (free_fn *)(uintptr_t)limpet_thunk(FIXTURE_FREE) : free;
	begun = now_ns();
	while (pairs < CALLS) {
		for (int i = 0; i < 128; i++, pairs++) {
			++*at;
			path = one->stacks ? *at % one->stacks << LOWEST_LEVEL : mix(*at);
			down_left(one->depth - 3);
		}
		if (thread)
			empty();
	}
	return (double)(now_ns() - begun) / (double)pairs;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const struct bench_case *one, int rounds)
{
	static double bare[MAX_ROUNDS], hooked[MAX_ROUNDS];
	int warm = one->stacks > 1 ? (int)(one->stacks / CALLS) + 2 : 2;
	uint32_t described = 0;

	/* From the same place: the caller is a part of the stack. */
	for (int i = -warm; i < rounds; i++) {
		double without = round_of(one, false), with = round_of(one, true);

		if (i < 0)
			continue;
		if (!i)
			described = limpet_shm->next_stack;
		bare[i] = without;
		hooked[i] = with;
	}
	qsort(bare, (size_t)rounds, sizeof(*bare), by_value);
	qsort(hooked, (size_t)rounds, sizeof(*hooked), by_value);
	printf("%-24s %8.1f %8.1f %8.1f   %8.1f %8" PRIu32 "\n", one->name, bare[0], hooked[0],
	       hooked[0] - bare[0], hooked[rounds / 2] - bare[rounds / 2],
	       limpet_shm->next_stack - described);
	fflush(stdout);
}

static void set_hook(enum fixture_hook index, enum limpet_op op, uint64_t original)
{
	const struct limpet_hook hook = {.original = original,
					 .usable_size = (uint64_t)(uintptr_t)malloc_usable_size,
					 .op = op,
					 .flags = LIMPET_HOOK_LEAF,
					 .symbol = limpet_hooks[index].symbol};

	limpet_hook_set(index, &hook);
}

static void begin(void)
{
	struct limpet_modules modules;
	struct limpet_err err;
	uint64_t low, high;

	agent_fixture_begin(&fixture, 64u << 20, NULL);
	set_hook(FIXTURE_MALLOC, LIMPET_OP_MALLOC, (uint64_t)(uintptr_t)malloc);
	set_hook(FIXTURE_FREE, LIMPET_OP_FREE, (uint64_t)(uintptr_t)free);
	if (limpet_modules_read(target_of(getpid()), &modules, &err) < 0 ||
	    limpet_segment_update_tables(fixture.segment, &modules, 0) <= 0) {
		fprintf(stderr, "bench_hooks: no tables of our own modules\n");
		exit(1);
	}
	limpet_modules_done(&modules);
	/* Where the injector would have found it. */
	while (*(const uint32_t *)(uintptr_t)(limpet_thread_pointer() + limpet_hot.tid_offset) !=
	       (uint32_t)getpid())
		limpet_hot.tid_offset += 4;
	fixture_stack(&low, &high);
	thread = limpet_thread_self(low);
	thread->stack_low = low;
	thread->stack_high = high;
}

int main(int argc, char **argv)
{
	static const struct bench_case cases[] = {
		{"depth 5", 5, 1},
		{"depth 20", 20, 1},
		{"depth 40", 40, 1},
		{"depth 20, 2 stacks", 20, 2},
		{"depth 20, 1,000 stacks", 20, 1000},
		{"depth 20, 100,000 stacks", 20, 100000},
		{"depth 20, random stacks", 20, 0},
	};
	int rounds = argc > 1 ? atoi(argv[1]) : 50;

	if (rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: bench_hooks [ROUNDS [FILTER]]\n");
		return 2;
	}
	begin();
	printf("%-24s %8s %8s %8s   %8s %8s\n", "nanoseconds per pair", "bare", "hooked", "added",
	       "median", "stacks");
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++)
		if (argc < 3 || strstr(cases[i].name, argv[2]))
			measure(&cases[i], rounds);
	agent_fixture_end(&fixture);
	return 0;
}
