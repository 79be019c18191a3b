/* A server that takes connections and never answers: a socket of this process that listens. The
 * clock is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "analyzer/symbols/debuginfod.h"
#include "common/err.h"
#include "test/unit/clock_fixture.h"

static const uint8_t build_id[20] = {1, 2, 3};
static char directory[] = "/tmp/limpet-debuginfod.XXXXXX";
static int server = -1;

static int setup(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	char url[64];

	(void)state;
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (!mkdtemp(directory) || server < 0 ||
	    bind(server, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(server, 16) < 0 || getsockname(server, (struct sockaddr *)&address, &length) < 0)
		return -1;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	return setenv("DEBUGINFOD_CACHE_PATH", directory, 1) || setenv("DEBUGINFOD_URLS", url, 1);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	close(server);
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

/* Of clients, since it was last asked. */
static unsigned connections(void)
{
	unsigned count = 0;
	int fd;

	while ((fd = accept4(server, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		close(fd);
		count++;
	}
	assert_int_equal(errno, EAGAIN);
	return count;
}

static int fetch(struct limpet_debuginfod *debuginfod)
{
	char *path = NULL;
	int result = limpet_debuginfod_fetch(debuginfod, build_id, sizeof(build_id), &path);

	if (result >= 0)
		fail_msg("something was fetched: %s", path);
	return result;
}

#define LIMIT_SECONDS 30u

/* Each wait for the server takes ten seconds. */
static void wait_long(void *context)
{
	++*(unsigned *)context;
	clock_fixture_move(10000000000u);
}

static void test_a_limit_of_time(void **state)
{
	unsigned waits = 0;
	struct limpet_debuginfod *debuginfod =
		limpet_debuginfod_new(&(struct limpet_debuginfod_options){
			.limit_seconds = LIMIT_SECONDS, .waiting = wait_long, .context = &waits});

	(void)state;
	assert_non_null(debuginfod);
	assert_int_equal(limpet_debuginfod_error(debuginfod), 0);
	assert_int_equal(fetch(debuginfod), -ETIME);
	assert_int_equal(waits, LIMIT_SECONDS / 10);
	assert_true(connections() > 0);
	/* And that is that: what comes after is not asked for. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(fetch(debuginfod), -ETIME);
	assert_int_equal(waits, LIMIT_SECONDS / 10);
	assert_int_equal(connections(), 0);
	assert_int_equal(limpet_debuginfod_error(debuginfod), -ETIME);
	assert_int_equal(limpet_debuginfod_fetched(debuginfod), 0);
	limpet_debuginfod_free(debuginfod);
}

static volatile sig_atomic_t cancel;

static void cancel_now(void *context)
{
	++*(unsigned *)context;
	cancel = 1;
}

static void test_cancelled_in_a_download(void **state)
{
	unsigned waits = 0;
	struct limpet_debuginfod *debuginfod = limpet_debuginfod_new(&(
		struct limpet_debuginfod_options){
		.limit_seconds = 600, .cancel = &cancel, .waiting = cancel_now, .context = &waits});

	(void)state;
	assert_non_null(debuginfod);
	assert_int_equal(fetch(debuginfod), -EINTR);
	/* At the first look, long before the limit, which never comes: the clock stands still. */
	assert_int_equal(waits, 1);
	connections();
	assert_int_equal(fetch(debuginfod), -EINTR);
	assert_int_equal(waits, 1);
	assert_int_equal(connections(), 0);
	limpet_debuginfod_free(debuginfod);
}

static void test_nobody_is_asked_by_default(void **state)
{
	static const char *const values[] = {"", "  "};
	const struct limpet_debuginfod_options options = {.limit_seconds = 1};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(values); i++) {
		assert_int_equal(setenv("DEBUGINFOD_URLS", values[i], 1), 0);
		assert_null(limpet_debuginfod_new(&options));
	}
	assert_int_equal(unsetenv("DEBUGINFOD_URLS"), 0);
	assert_null(limpet_debuginfod_new(&options));
	assert_int_equal(limpet_debuginfod_error(NULL), 0);
	assert_int_equal(limpet_debuginfod_fetched(NULL), 0);
	limpet_debuginfod_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_limit_of_time),
		cmocka_unit_test(test_cancelled_in_a_download),
		cmocka_unit_test(test_nobody_is_asked_by_default),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
