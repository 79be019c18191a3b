/* A server that takes connections and never answers: a socket of this process that listens. */
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
#include <time.h>
#include <unistd.h>

#include "analyzer/debuginfod.h"
#include "common/err.h"

static const uint8_t build_id[20] = {1, 2, 3};
static char folder[] = "/tmp/limpet-debuginfod.XXXXXX";
static int server = -1;

static int setup(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	char url[64];

	(void)state;
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!mkdtemp(folder) || server < 0 ||
	    bind(server, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(server, 16) < 0 || getsockname(server, (struct sockaddr *)&address, &length) < 0)
		return -1;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	return setenv("DEBUGINFOD_CACHE_PATH", folder, 1) || setenv("DEBUGINFOD_URLS", url, 1);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	close(server);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static uint64_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static int fetch(struct limpet_debuginfod *debuginfod)
{
	char *path = NULL;
	int result = limpet_debuginfod_fetch(debuginfod, build_id, sizeof(build_id), &path);

	if (result >= 0)
		fail_msg("something was fetched: %s", path);
	return result;
}

static void test_a_limit_of_time(void **state)
{
	struct limpet_debuginfod *debuginfod =
		limpet_debuginfod_new(&(struct limpet_debuginfod_options){.limit_seconds = 1});
	uint64_t start = seconds_now();

	(void)state;
	assert_non_null(debuginfod);
	assert_int_equal(limpet_debuginfod_error(debuginfod), 0);
	assert_int_equal(fetch(debuginfod), -ETIME);
	/* The library's own limit is 90 seconds. */
	assert_true(seconds_now() - start < 30);
	/* And that is that: what comes after is not asked for. */
	start = seconds_now();
	for (int i = 0; i < 100; i++)
		assert_int_equal(fetch(debuginfod), -ETIME);
	assert_true(seconds_now() - start < 10);
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
	uint64_t start = seconds_now();

	(void)state;
	assert_non_null(debuginfod);
	assert_int_equal(fetch(debuginfod), -EINTR);
	assert_true(seconds_now() - start < 30);
	assert_true(waits > 0);
	assert_int_equal(fetch(debuginfod), -EINTR);
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
