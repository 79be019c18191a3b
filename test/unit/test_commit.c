/* Memory that must be there before somebody touches it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/commit.h"
#include "test/unit/proc_fixture.h"

#define BYTES (1u << 20)

static unsigned interrupts;
static int error_of_all;

int __real_fallocate(int file, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes)
{
	if (!interrupts && !error_of_all)
		return __real_fallocate(file, mode, offset, bytes);
	errno = interrupts ? EINTR : error_of_all;
	interrupts -= interrupts > 0;
	return -1;
}

static uint64_t pages_bytes(int file)
{
	struct stat status;

	assert_int_equal(fstat(file, &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

/* What a file of no pages has afterwards, in such a mode; "": it cannot be read. */
static uint64_t committed_in(const char *mode, int expected)
{
	LIMPET_CLOSE int file = memfd_create("commit", MFD_CLOEXEC);

	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, BYTES), 0);
	proc_fixture_write("sys/vm/overcommit_memory", "%s", mode);
	assert_int_equal(limpet_commit_file(file, BYTES), expected);
	return pages_bytes(file);
}

static void test_a_file_has_its_pages(void **state)
{
	(void)state;
	assert_int_equal(committed_in("2\n", 0), BYTES);
	assert_int_equal(committed_in("", 0), BYTES);
	interrupts = 3;
	assert_int_equal(committed_in("2\n", 0), BYTES);
	/* Elsewhere only what is touched takes memory. */
	assert_int_equal(committed_in("0\n", 0), 0);
	assert_int_equal(committed_in("1\n", 0), 0);
}

static void test_what_may_not_be_committed(void **state)
{
	(void)state;
	error_of_all = ENOSPC;
	assert_int_equal(committed_in("2\n", -ENOSPC), 0);
	assert_int_equal(committed_in("0\n", 0), 0);
	error_of_all = 0;
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
		cmocka_unit_test_setup_teardown(test_a_file_has_its_pages, begin, end),
		cmocka_unit_test_setup_teardown(test_what_may_not_be_committed, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
