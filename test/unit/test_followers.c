/* Which limpet of a family may capture the next child. No limpet is started here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "cli/follower.h"
#include "cli/followers.h"
#include "test/unit/target_of.h"

/* Where a limpet that was started for a child finds the permits of its family. */
static void open_permits(void)
{
	int fd = memfd_create("permits", MFD_CLOEXEC);

	assert_true(fd >= 0);
	if (fd != LIMPET_FOLLOWER_PERMIT_FD) {
		assert_int_equal(dup2(fd, LIMPET_FOLLOWER_PERMIT_FD), LIMPET_FOLLOWER_PERMIT_FD);
		close(fd);
	}
}

static struct limpet_followers *new_followers(void)
{
	static const struct limpet_capture_options options = {.forked = {.start_ticks = 1}};
	struct limpet_followers *followers = limpet_followers_new(&options, target_of(getpid()));

	assert_non_null(followers);
	return followers;
}

/* Each limpet of the family looks for room while others do. What one was told is free, no other may
 * take before the child is started. */
static void test_the_last_permit_is_for_one(void **state)
{
	struct limpet_followers *list[LIMPET_FOLLOWERS_MAX + 1];

	(void)state;
	open_permits();
	for (unsigned i = 0; i < LIMPET_FOLLOWERS_MAX; i++) {
		list[i] = new_followers();
		assert_true(limpet_followers_reserve(list[i]));
		assert_true(limpet_followers_reserve(list[i]));
	}
	list[LIMPET_FOLLOWERS_MAX] = new_followers();
	assert_false(limpet_followers_reserve(list[LIMPET_FOLLOWERS_MAX]));
	/* Its child has ended. */
	limpet_followers_start(list[3], NULL);
	assert_true(limpet_followers_reserve(list[LIMPET_FOLLOWERS_MAX]));
	assert_false(limpet_followers_reserve(list[3]));
	/* Its capture has ended. */
	limpet_followers_free(list[5]);
	assert_true(limpet_followers_reserve(list[3]));
	for (unsigned i = 0; i <= LIMPET_FOLLOWERS_MAX; i++)
		if (i != 5)
			limpet_followers_free(list[i]);
	close(LIMPET_FOLLOWER_PERMIT_FD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_permit_is_for_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
