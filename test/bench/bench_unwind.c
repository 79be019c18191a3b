/* What a frame costs: the walker with and without its cache, and the others for comparison. For
 * information: numbers of a shared machine prove nothing.
 *
 *     bench_unwind [DEPTH [ROUNDS]] */
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/unit/unwind_fixture.h"

enum { MAX_DEPTH = 1024, CACHE = 1024 };

static struct fixture_process process;
static struct limpet_walk_ranges stack;
static struct limpet_walk_cache_entry entries[CACHE];
static const struct limpet_walk_cache cache = {entries, CACHE - 1};
static uint64_t pcs[MAX_DEPTH];
/* libunwind has one of that name, too */
static int (*glibc_backtrace)(void **buffer, int size);
static unsigned long rounds = 200000;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef uint32_t walk_function(struct limpet_walk_frame frame);

static uint32_t by_table(struct limpet_walk_frame frame)
{
	enum limpet_walk_end end;

	return limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &stack, frame,
			   &(struct limpet_walk_result){pcs, MAX_DEPTH, &end, NULL});
}

static uint32_t by_cache(struct limpet_walk_frame frame)
{
	enum limpet_walk_end end;

	return limpet_walk(&process.map, &cache, limpet_walk_read_ranges, &stack, frame,
			   &(struct limpet_walk_result){pcs, MAX_DEPTH, &end, NULL});
}

static uint32_t by_frame_pointer(struct limpet_walk_frame frame)
{
	static const struct limpet_walk_map nothing;
	enum limpet_walk_end end;

	return limpet_walk(&nothing, NULL, limpet_walk_read_ranges, &stack, frame,
			   &(struct limpet_walk_result){pcs, MAX_DEPTH, &end, NULL});
}

static uint32_t by_libunwind(struct limpet_walk_frame frame)
{
	(void)frame;
	return (uint32_t)unw_backtrace((void **)(void *)pcs, MAX_DEPTH);
}

static uint32_t by_glibc(struct limpet_walk_frame frame)
{
	(void)frame;
	return (uint32_t)glibc_backtrace((void **)(void *)pcs, MAX_DEPTH);
}

static void measure(const char *name, walk_function *walk, struct limpet_walk_frame frame,
		    unsigned long count)
{
	uint64_t frames = 0, start;

	for (int i = 0; i < 100; i++)
		walk(frame);
	start = now_ns();
	for (unsigned long i = 0; i < count; i++)
		frames += walk(frame);
	printf("%-28s %7.2f ns/frame  %4lu frames\n", name,
	       (double)(now_ns() - start) / (double)frames, (unsigned long)(frames / count));
}

__attribute__((noinline)) static void measure_all(void)
{
	struct limpet_walk_frame frame = {
		.pc = (uint64_t)(uintptr_t)__builtin_return_address(0),
		.sp = (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),
		.fp = *(uint64_t *)__builtin_frame_address(0),
	};

	measure("table", by_table, frame, rounds);
	measure("table and cache", by_cache, frame, rounds);
	measure("frame pointers", by_frame_pointer, frame, rounds);
	measure("libunwind unw_backtrace", by_libunwind, frame, rounds);
	measure("glibc backtrace", by_glibc, frame, rounds / 10 + 1);
}

/* Several call sites in turn, so that the frames are not all of one pc. */
__attribute__((noinline)) static int recurse(unsigned depth)
{
	int result = 0;

	if (depth == 0)
		measure_all();
	else if (depth % 3 == 0)
		result = recurse(depth - 1) + 1;
	else if (depth % 3 == 1)
		result = recurse(depth - 1) + 2;
	else
		result = recurse(depth - 1) * 3;
	__asm__ volatile("" ::: "memory");
	return result;
}

int main(int count, char **arguments)
{
	unsigned depth = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 30;
	void *warm[1], *symbol;

	if (count > 2)
		rounds = strtoul(arguments[2], NULL, 10);
	if (depth > MAX_DEPTH - 16 || rounds == 0) {
		fprintf(stderr, "usage: bench_unwind [DEPTH [ROUNDS]]\n");
		return 2;
	}
	symbol = dlsym(dlopen("libc.so.6", RTLD_NOW), "backtrace");
	memcpy(&glibc_backtrace, &symbol, sizeof(symbol));
	if (!glibc_backtrace)
		return 1;
	glibc_backtrace(warm, 1); /* loads libgcc_s, before the tables are made */
	fixture_process_init(&process);
	fixture_stack(&stack.low[0], &stack.high[0]);
	printf("%u modules, %zu bytes of tables\n", process.map.count, process.arena_bytes);
	recurse(depth);
	fixture_process_done(&process);
	return 0;
}
