/* What is written is brought to the disk in time, and a slow disk holds nobody up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "injector/trace_sync.h"

#define FD 4711
#define SOON_NS 1000000u
#define LONG_NS 1000000000000ull
#define PATIENCE_S 30

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
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&lock);
	while (*count < value)
		assert_int_equal(pthread_cond_timedwait(&turn, &lock, &until), 0);
	pthread_mutex_unlock(&lock);
}

/* Writes until a sync begins. */
static void write_until(struct limpet_trace_sync *sync, const unsigned *count, unsigned value)
{
	const struct timespec moment = {.tv_nsec = SOON_NS};
	time_t until = time(NULL) + PATIENCE_S;
	bool there;

	do {
		assert_int_equal(limpet_trace_sync_wrote(sync), 0);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&lock);
		there = *count >= value;
		pthread_mutex_unlock(&lock);
		assert_true(time(NULL) < until);
	} while (!there);
}

static void test_every_interval(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, SOON_NS);

	(void)state;
	assert_non_null(sync);
	write_until(sync, &ended, 5);
	limpet_trace_sync_free(sync);
	assert_int_equal(begun, ended);
}

static void test_not_before_it_is_due(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, LONG_NS);

	(void)state;
	assert_non_null(sync);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(limpet_trace_sync_wrote(sync), 0);
	limpet_trace_sync_free(sync);
	assert_int_equal(begun, 0);
}

static void test_a_slow_disk_is_not_waited_for(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, SOON_NS);

	(void)state;
	assert_non_null(sync);
	set_slow(true);
	write_until(sync, &begun, 1);
	/* more than one is due meanwhile, and none of them waits */
	for (unsigned i = 0; i < 20; i++) {
		const struct timespec moment = {.tv_nsec = SOON_NS};

		assert_int_equal(limpet_trace_sync_wrote(sync), 0);
		nanosleep(&moment, NULL);
	}
	assert_int_equal(begun, 1);
	assert_int_equal(ended, 0);
	set_slow(false);
	wait_for(&ended, 1);
	write_until(sync, &begun, 2);
	limpet_trace_sync_free(sync);
}

static void test_a_broken_disk_shows(void **state)
{
	struct limpet_trace_sync *sync = limpet_trace_sync_new(FD, SOON_NS);
	time_t until = time(NULL) + PATIENCE_S;
	int code;

	(void)state;
	assert_non_null(sync);
	answer = EIO;
	while ((code = limpet_trace_sync_wrote(sync)) == 0)
		assert_true(time(NULL) < until);
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
