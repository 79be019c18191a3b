#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/err.h"

static void test_set_answers_code_and_clears_hint(void **state)
{
	(void)state;
	struct limpet_err err = {0};

	limpet_err_hint(&err, "old %s", "hint");
	assert_string_equal(err.hint, "old hint");
	assert_int_equal(limpet_err_set(&err, -EPERM, "cannot attach to '%s' (%d)", "node", 4711),
			 -EPERM);
	assert_int_equal(err.code, -EPERM);
	assert_string_equal(err.message, "cannot attach to 'node' (4711)");
	assert_string_equal(err.hint, "");
}

static void test_set_accepts_no_object(void **state)
{
	(void)state;
	assert_int_equal(limpet_err_set(NULL, -ENOENT, "nobody listens"), -ENOENT);
	limpet_err_hint(NULL, "nor here");
}

static void test_long_message_is_cut_and_terminated(void **state)
{
	(void)state;
	struct limpet_err err;
	char text[2 * sizeof(err.message)];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	limpet_err_set(&err, -EIO, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

static void test_cleanup_closes_and_take_keeps(void **state)
{
	(void)state;
	int closed, kept;
	{
		LIMPET_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		LIMPET_CLOSE int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

		assert_true(fd >= 0 && other >= 0);
		closed = fd;
		kept = limpet_take_fd(&other);
		assert_int_equal(other, -1);
	}
	assert_int_equal(fcntl(closed, F_GETFD), -1);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_answers_code_and_clears_hint),
		cmocka_unit_test(test_set_accepts_no_object),
		cmocka_unit_test(test_long_message_is_cut_and_terminated),
		cmocka_unit_test(test_cleanup_closes_and_take_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
