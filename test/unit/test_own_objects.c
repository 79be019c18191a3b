#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "injector/remote/own_objects.h"

enum { KEPT = 1024 };

static uint64_t inodes[KEPT + 1];

static void make(size_t i, bool noted)
{
	inodes[i] = 1000 + 7 * i;
	/* Once, however often it is noted. */
	for (int times = 0; noted && times < 2; times++)
		limpet_own_objects_note(inodes[i]);
}

static void test_the_last_thousand_are_kept(void **state)
{
	(void)state;
	make(0, false);
	assert_false(limpet_own_objects_has_inode(inodes[0]));
	for (size_t i = 0; i < KEPT; i++) {
		make(i, true);
		assert_true(limpet_own_objects_has_inode(inodes[i]));
	}
	for (size_t i = 0; i < KEPT; i++)
		assert_true(limpet_own_objects_has_inode(inodes[i]));
	make(KEPT, true);
	assert_true(limpet_own_objects_has_inode(inodes[KEPT]));
	assert_false(limpet_own_objects_has_inode(inodes[0]));
	assert_true(limpet_own_objects_has_inode(inodes[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_thousand_are_kept)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
