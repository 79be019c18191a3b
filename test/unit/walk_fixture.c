#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/unit/walk_fixture.h"

struct fixture_process process;
struct limpet_walk_ranges stack;
unsigned compared;

__attribute__((noinline)) void walk_from(struct limpet_walk_frame frame, struct walk *ret)
{
	ret->count =
		limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &stack, frame,
			    &(struct limpet_walk_result){ret->pcs, MAX_DEPTH, &ret->end, NULL});
}

/* libunwind and the sanitizers have one of that name, too. */
static int (*glibc_backtrace)(void **buffer, int size);

/* The others list the interrupted pc itself. */
static bool same_frame(uint64_t ours, const void *theirs)
{
	return ours == (uint64_t)(uintptr_t)theirs || ours - 1 == (uint64_t)(uintptr_t)theirs;
}

__attribute__((noinline)) void compare(void)
{
	struct limpet_walk_cache_entry entries[64] = {{.rule = 0}};
	struct limpet_walk_cache cache = {entries, 63};
	struct limpet_walk_frame frame = HERE();
	void *theirs[MAX_DEPTH], *glibc[MAX_DEPTH];
	int their_count = unw_backtrace(theirs, MAX_DEPTH);
	int glibc_count = glibc_backtrace(glibc, MAX_DEPTH);
	struct walk ours, again;
	uint64_t bytes = stack.high[0] - frame.sp;
	struct limpet_walk_copy copy = {frame.sp, bytes, NULL};
	int skipped;
	bool on_main = frame.sp >= stack.low[0] && frame.sp < stack.high[0];

	walk_from(frame, &ours);
	assert_int_equal(ours.end, LIMPET_WALK_COMPLETE);
	/* A sanitizer's wrapper may put a frame of its own innermost. */
	skipped = glibc_count - (int)ours.count;
	assert_in_range(skipped, 0, 1);
	for (uint32_t i = 1; i < ours.count; i++)
		assert_true(same_frame(ours.pcs[i], glibc[(int)i + skipped]));
	/* libunwind may stop early (it does in programs linked by LLD), never differ. */
	skipped = same_frame(ours.pcs[1], theirs[1]) ? 0 : 1;
	assert_true(their_count > 1 + skipped && their_count <= (int)ours.count + skipped);
	for (int i = 1; i < their_count - skipped; i++)
		assert_true(same_frame(ours.pcs[i], theirs[i + skipped]));
	for (int round = 0; round < 2; round++) {
		again.count = limpet_walk(
			&process.map, &cache, limpet_walk_read_ranges, &stack, frame,
			&(struct limpet_walk_result){again.pcs, MAX_DEPTH, &again.end, NULL});
		assert_int_equal(again.end, ours.end);
		assert_int_equal(again.count, ours.count);
		assert_memory_equal(again.pcs, ours.pcs, ours.count * sizeof(ours.pcs[0]));
	}
	if (on_main) {
		uint8_t *data = malloc(bytes);

		assert_non_null(data);
		/* by the kernel: a sanitizer forbids to copy what lies between objects */
		assert_int_equal(
			process_vm_readv(getpid(), &(struct iovec){data, bytes}, 1,
					 &(struct iovec){(void *)(uintptr_t)frame.sp, bytes}, 1, 0),
			bytes);
		copy.data = data;
		again.count = limpet_walk(
			&process.map, NULL, limpet_walk_read_copy, &copy, frame,
			&(struct limpet_walk_result){again.pcs, MAX_DEPTH, &again.end, NULL});
		free(data);
		assert_int_equal(again.end, ours.end);
		assert_int_equal(again.count, ours.count);
		assert_memory_equal(again.pcs, ours.pcs, ours.count * sizeof(ours.pcs[0]));
	}
	compared++;
}

int walk_group_begin(void **state)
{
	void *warm[1], *symbol = dlsym(dlopen("libc.so.6", RTLD_NOW), "backtrace");

	(void)state;
	memcpy(&glibc_backtrace, &symbol, sizeof(symbol));
	if (!glibc_backtrace)
		return -1;
	glibc_backtrace(warm, 1); /* loads libgcc_s, before the tables are made */
	fixture_process_init(&process);
	return 0;
}

int walk_group_end(void **state)
{
	(void)state;
	fixture_process_done(&process);
	return 0;
}

int walk_setup(void **state)
{
	(void)state;
	fixture_stack(&stack.low[0], &stack.high[0]);
	stack.low[1] = stack.high[1] = 0;
	compared = 0;
	return 0;
}
