/* What is written is brought to the disk in time, and a slow disk holds nobody up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "collector/record/trace_sync.h"
#include "test/unit/clock_fixture.h"

#define FD 4711
#define INTERVAL_NS 5000000000ull

/* The disk. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static unsigned begun, ended;
static bool slow;
static int answer;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	pthread_mutex_lock(&lock);
	begun++;
	pthread_cond_broadcast(&turn);
	while (slow)
		pthread_cond_wait(&turn, &lock);
	ended += fd == FD;
	pthread_cond_broadcast(&turn);
	pthread_mutex_unlock(&lock);
	errno = answer;
	return answer ? -1 : 0;
}

static int set_disk(void **state)
{
	(void)state;
	begun = ended = 0;
	slow = false;
	answer = 0;
	return 0;
}

static void set_slow(bool value)
{
	pthread_mutex_lock(&lock);
	slow = value;
	pthread_cond_broadcast(&turn);
	pthread_mutex_unlock(&lock);
}

/* Until so many syncs have begun or ended. */
static void wait_for(const unsigned *count, unsigned value)
{
	pthread_mutex_lock(&lock);
	while (*count < value)
		pthread_cond_wait(&turn, &lock);
	assert_int_equal(*count, value);
	pthread_mutex_unlock(&lock);
}

static void test_every_interval(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, INTERVAL_NS);

	(void)state;
	assert_non_null(sync);
	for (unsigned i = 1; i <= 5; i++) {
		/* Not before it is due, and once when it is. */
		clock_fixture_move(INTERVAL_NS - 1);
		for (unsigned k = 0; k < 100; k++)
			assert_int_equal(limpet_trace_sync_wrote(sync), 0);
		wait_for(&begun, i - 1);
		clock_fixture_move(1);
		for (unsigned k = 0; k < 100; k++)
			assert_int_equal(limpet_trace_sync_wrote(sync), 0);
		wait_for(&ended, i);
	}
	limpet_trace_sync_free(sync);
	assert_int_equal(begun, 5);
	assert_int_equal(ended, 5);
}

static void test_not_before_it_is_due(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, INTERVAL_NS);

	(void)state;
	assert_non_null(sync);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(limpet_trace_sync_wrote(sync), 0);
	clock_fixture_move(INTERVAL_NS - 1);
	assert_int_equal(limpet_trace_sync_wrote(sync), 0);
	limpet_trace_sync_free(sync);
	assert_int_equal(begun, 0);
}

static void test_a_slow_disk_is_not_waited_for(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, INTERVAL_NS);

	(void)state;
	assert_non_null(sync);
	set_slow(true);
	clock_fixture_move(INTERVAL_NS);
	assert_int_equal(limpet_trace_sync_wrote(sync), 0);
	wait_for(&begun, 1);
	/* More than one is due meanwhile, and none of them waits. */
	for (unsigned i = 0; i < 20; i++) {
		clock_fixture_move(INTERVAL_NS);
		assert_int_equal(limpet_trace_sync_wrote(sync), 0);
	}
	wait_for(&begun, 1);
	wait_for(&ended, 0);
	/* One more brings all of it to the disk. */
	set_slow(false);
	wait_for(&ended, 2);
	limpet_trace_sync_free(sync);
	assert_int_equal(begun, 2);
}

static void test_a_broken_disk_shows(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, INTERVAL_NS);
	int code;

	(void)state;
	assert_non_null(sync);
	answer = EIO;
	clock_fixture_move(INTERVAL_NS);
	while ((code = limpet_trace_sync_wrote(sync)) == 0)
		sched_yield();
	assert_int_equal(code, -EIO);
	limpet_trace_sync_free(sync);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_interval, set_disk),
		cmocka_unit_test_setup(test_not_before_it_is_due, set_disk),
		cmocka_unit_test_setup(test_a_slow_disk_is_not_waited_for, set_disk),
		cmocka_unit_test_setup(test_a_broken_disk_shows, set_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
