/* The file of a trace: whose it is, what it is called, who writes, what is none, and no room for
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/seal/trace_append.h"
#include "analyzer/trace/trace_reader.h"
#include "common/trace_block.h"
#include "test/unit/skip_reason.h"
#include "test/unit/trace_fixture.h"

static void test_a_writer_is_seen(void **state)
{
	static struct capture capture;
	struct limpet_trace_append *append = NULL;
	struct limpet_err err = {0};
	struct trace_outcome outcome;

	(void)state;
	capture_begin(&capture, trace_path("running"), TRACE_MEMORY_BYTES, 8);
	assert_int_equal(capture_run(&capture, 1000, 0), 0);
	assert_int_equal(capture_tick(&capture), 0);
	outcome = trace_try(trace_path("running"));
	assert_int_equal(outcome.end, LIMPET_END_RUNNING);
	assert_int_equal(outcome.events, 1000);
	assert_false(outcome.complete);
	assert_int_equal(limpet_trace_append_open(trace_path("running"), &append, &err), -EBUSY);
	/* the collector is gone, and said nothing */
	limpet_recorder_free(capture.recorder);
	outcome = trace_try(trace_path("running"));
	assert_int_equal(outcome.end, LIMPET_END_COLLECTOR_LOST);
	assert_int_equal(outcome.events, 1000);
	assert_int_equal(outcome.duration_ns, capture.time_ns);
	assert_false(outcome.complete);
}

static void test_what_is_no_trace(void **state)
{
	static const uint8_t other[] = {
		0x5c, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd', 0, 0, 0, 0, 0, 0, 0, 0,
		0,    0,    0,    0,    0, 0, 0, 0, 0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0,
		0,    0,    0,    0,    0, 0, 0, 0, 0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0};
	static uint8_t newer[LIMPET_TRACE_MARK_BYTES];
	static const struct {
		const char *name;
		const void *bytes;
		size_t count;
		int code;
		const char *word;
	} files[] = {
		{"nothing", "", 0, -ENODATA, "empty"},
		{"a script", "#!/bin/sh\n", 10, -ENOMSG, "not a limpet trace"},
		{"another's frame", other, sizeof(other), -ENOMSG, "not a limpet trace"},
		{"half a magic number", "\x5c\x2a", 2, -ENODATA, "cut short"},
		{"a newer version", newer, sizeof(newer), -EPROTONOSUPPORT, "newer"},
	};
	static const struct {
		const char *name, *path;
		int code;
	} places[] = {
		{"none", "missing", -ENOENT},
		{"a directory", trace_directory, -EISDIR},
		{"a device", "/dev/zero", -ENOMSG},
	};
	const struct limpet_trace_mark mark = {.type = LIMPET_TRACE_HEADER};
	struct limpet_trace_reader *reader = NULL;
	uint32_t checksum;

	(void)state;
	limpet_trace_mark_encode(&mark, newer);
	newer[12]++; /* the version */
	checksum = htole32((uint32_t)crc32_z(0, newer, LIMPET_TRACE_MARK_BYTES - 4));
	memcpy(newer + LIMPET_TRACE_MARK_BYTES - 4, &checksum, sizeof(checksum));
	for (size_t i = 0; i < LIMPET_COUNT_OF(files); i++) {
		struct limpet_err err = {0};
		int code;

		trace_write_bytes("no-trace", files[i].bytes, files[i].count);
		code = limpet_trace_reader_open("no-trace", &reader, &err);
		if (code != files[i].code || !strstr(err.message, files[i].word))
			fail_msg("%s: %d \"%s\"", files[i].name, code, err.message);
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(places); i++) {
		struct limpet_err err = {0};
		int code = limpet_trace_reader_open(places[i].path, &reader, &err);

		if (code != places[i].code)
			fail_msg("%s: %d \"%s\"", places[i].name, code, err.message);
	}
	assert_null(reader);
}

/* ------------------------------------------------------------------ the file */

static int try_record(const char *path, const char *comm, struct limpet_recorder **ret)
{
	struct limpet_recorder_options options = trace_options(path);
	struct limpet_err err = {0};

	options.pid = 12;
	options.comm = comm;
	return limpet_recorder_open(&options, ret, &err);
}

static void test_the_file_is_new_and_private(void **state)
{
	struct limpet_recorder *recorder = NULL;
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(try_record(trace_path("private"), "x", &recorder), 0);
	umask(mask);
	assert_string_equal(limpet_recorder_path(recorder), trace_path("private"));
	assert_int_equal(stat(trace_path("private"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	limpet_recorder_free(recorder);
	assert_int_equal(try_record(trace_path("private"), "x", &recorder), -EEXIST);
	assert_int_equal(symlink("nowhere", trace_path("link")), 0);
	assert_int_equal(try_record(trace_path("link"), "x", &recorder), -EEXIST);
	assert_int_equal(try_record(trace_path("no/such/directory"), "x", &recorder), -ENOENT);
}

static void test_default_names(void **state)
{
	static const struct {
		const char *comm, *path;
	} list[] = {
		{"node", "node.12.limpet"},   {"node", "node.12.limpet.1"},
		{"node", "node.12.limpet.2"}, {"../../etc/x", "_._.._etc_x.12.limpet"},
		{"-rf", "_rf.12.limpet"},     {"a b\n\033[31m", "a_b___31m.12.limpet"},
		{"", "_.12.limpet"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		struct limpet_recorder *recorder = NULL;

		assert_int_equal(try_record(NULL, list[i].comm, &recorder), 0);
		if (strcmp(limpet_recorder_path(recorder), list[i].path) != 0)
			fail_msg("'%s': %s, not %s", list[i].comm, limpet_recorder_path(recorder),
				 list[i].path);
		limpet_recorder_free(recorder);
	}
}

/* ------------------------------------------------------------------ no room */

/* In a child: the limits and mounts are its own. Exit status 77: cannot be set up here. */
static int in_child(void (*body)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define CHECK_IN_CHILD(condition)                                               \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                               \
		}                                                               \
	} while (0)

static struct capture child_capture;

static void check_full(const char *path, int error, enum limpet_end end)
{
	struct limpet_recorder_stats stats;
	struct trace_outcome outcome;
	int code;

	capture_begin(&child_capture, path, TRACE_MEMORY_BYTES, 9);
	code = capture_run(&child_capture, 1000000, 5000);
	CHECK_IN_CHILD(code == error);
	/* it sticks, and the accounting goes on */
	limpet_recorder_stats_read(child_capture.recorder, &stats);
	CHECK_IN_CHILD(stats.live_bytes == child_capture.live_bytes);
	CHECK_IN_CHILD(capture_run(&child_capture, 10, 0) == error);
	CHECK_IN_CHILD(capture_tick(&child_capture) == error);
	CHECK_IN_CHILD(capture_finish(&child_capture, LIMPET_END_DURATION, true) == error);
	outcome = trace_try(path);
	CHECK_IN_CHILD(outcome.code == 0);
	CHECK_IN_CHILD(outcome.end == end);
	CHECK_IN_CHILD(!outcome.complete);
	CHECK_IN_CHILD(outcome.events >= 5000);
	CHECK_IN_CHILD(outcome.events <= child_capture.totals[LIMPET_TOTAL_EVENTS]);
}

static void fill_disk(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", trace_directory, "tmpfs", 0, "size=512k") < 0)
		_exit(77);
	check_full(trace_path("full"), -ENOSPC, LIMPET_END_DISK_FULL);
}

static void test_a_full_disk(void **state)
{
	int status = in_child(fill_disk);

	(void)state;
	if (status == 77)
		limpet_skip("no file system can be mounted here");
	assert_int_equal(status, 0);
}

static void exceed_limit(void)
{
	struct rlimit limit = {.rlim_cur = 300000, .rlim_max = 300000};

	/* whose default action would end us */
	signal(SIGXFSZ, SIG_DFL);
	CHECK_IN_CHILD(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	check_full(trace_path("limited"), -EFBIG, LIMPET_END_SIZE_LIMIT);
}

static void exceed_limit_of_tmpfs(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", trace_directory, "tmpfs", 0, NULL) < 0)
		_exit(77);
	exceed_limit();
}

static void test_a_file_size_limit(void **state)
{
	(void)state;
	assert_int_equal(in_child(exceed_limit), 0);
}

/* Where to reserve too much raises the signal, too. */
static void test_a_file_size_limit_in_memory(void **state)
{
	int status = in_child(exceed_limit_of_tmpfs);

	(void)state;
	if (status == 77)
		limpet_skip("no file system can be mounted here");
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_writer_is_seen),
		cmocka_unit_test(test_what_is_no_trace),
		cmocka_unit_test(test_the_file_is_new_and_private),
		cmocka_unit_test(test_default_names),
		cmocka_unit_test(test_a_full_disk),
		cmocka_unit_test(test_a_file_size_limit),
		cmocka_unit_test(test_a_file_size_limit_in_memory),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
