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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
