/* How far memory that grows downwards can grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <unistd.h>

#include "injector/remote/growing.h"
#include "test/unit/proc_fixture.h"

#define MIB (1ull << 20)

static void let_stack_grow(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_STACK, &limit), 0);
}

static void test_what_keeps_it_from_growing(void **state)
{
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
	proc_fixture_write("sys/vm/overcommit_memory", "%s", "0\n");
	proc_fixture_write("cmdline", "%s", "root=/dev/sda1 quiet\n");
	let_stack_grow(MIB);
	assert_true(limpet_growing_reaches(getpid(), MIB));
	/* The kernel keeps no more free. */
	let_stack_grow(4 * MIB);
	assert_true(limpet_growing_reaches(getpid(), MIB));
	assert_false(limpet_growing_reaches(getpid(), MIB + 4096));
	let_stack_grow(MIB - 1);
	assert_false(limpet_growing_reaches(getpid(), MIB));
	let_stack_grow(before.rlim_cur);
	proc_fixture_write("sys/vm/overcommit_memory", "%s", "2\n");
	assert_false(limpet_growing_reaches(getpid(), MIB));
	proc_fixture_write("sys/vm/overcommit_memory", "%s", "1\n");
	proc_fixture_write("cmdline", "%s", "quiet stack_guard_gap=16\n");
	assert_false(limpet_growing_reaches(getpid(), MIB));
	/* What cannot be read may be anything. */
	proc_fixture_write("cmdline", "%s", "");
	assert_false(limpet_growing_reaches(getpid(), MIB));
	proc_fixture_write("cmdline", "%s", "quiet\n");
	assert_true(limpet_growing_reaches(getpid(), MIB));
	proc_fixture_write("sys/vm/overcommit_memory", "%s", "");
	assert_false(limpet_growing_reaches(getpid(), MIB));
}

/* A hole of 16 MiB below memory that could grow, and one of less above it. */
static void write_process(unsigned rss_kilobytes, const char *flags)
{
	static const char map[] = "7f0002000000-7f0002100000 rw-p 00000000 00:00 0\n";

	proc_fixture_write("7/maps",
			   "7f0000000000-7f0001000000 r-xp 00000000 08:01 11 /lib/libc.so.6\n%s"
			   "7f0002200000-7f0002300000 r--p 00000000 08:01 12 /lib/ld.so\n",
			   map);
	proc_fixture_write("7/smaps", "%sRss: 4 kB\nVmFlags: rd wr mr mw me%s ac\n", map, flags);
	for (unsigned i = 0; i < 2; i++)
		proc_fixture_write(i ? "7/task/7/status" : "7/status",
				   "Name:\tgrows\nVmRSS:\t%u kB\n", rss_kilobytes);
}

static bool is_likely(uint64_t bytes)
{
	struct limpet_maps maps;
	bool answer;

	assert_int_equal(limpet_proc_maps_read(7, &maps), 0);
	assert_int_equal(maps.count, 3);
	answer = limpet_growing_likely(7, &maps, bytes);
	limpet_proc_maps_done(&maps);
	return answer;
}

static void test_what_is_likely_to_grow(void **state)
{
	(void)state;
	write_process(10240, " gd");
	assert_true(is_likely(2 * MIB));
	/* The hole above is large enough, and nothing there could grow. */
	assert_false(is_likely(MIB));
	write_process(10240, "");
	assert_false(is_likely(2 * MIB));
	/* In a large process nobody asks. */
	write_process(1u << 20, "");
	assert_true(is_likely(2 * MIB));
}

static int begin(void **state)
{
	(void)state;
	proc_fixture_begin();
	return 0;
}

static int end(void **state)
{
	(void)state;
	proc_fixture_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_keeps_it_from_growing, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_likely_to_grow, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
