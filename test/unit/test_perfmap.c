#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/symbols/perfmap.h"
#include "common/err.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/served_fixture.h"
#include "test/unit/skip_reason.h"
#include "test/unit/target_of.h"

/* ------------------------------------------------------------------ lines */

static int map_of(const char *text, size_t bytes)
{
	int fd = (int)memfd_create("map", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	return fd;
}

static struct limpet_perfmap *read_map(int fd, const uint64_t *addresses, size_t count)
{
	struct limpet_perfmap *map = NULL;

	assert_int_equal(limpet_perfmap_read(fd, addresses, count, NULL, &map), 0);
	assert_non_null(map);
	close(fd);
	return map;
}

static void check(const struct limpet_perfmap *map, size_t index, const char *function,
		  const char *file, uint32_t line)
{
	struct limpet_perfmap_name name = limpet_perfmap_at(map, index);

	if (!function)
		assert_null(name.function);
	else
		assert_string_equal(name.function, function);
	if (!file)
		assert_null(name.file);
	else
		assert_string_equal(name.file, file);
	assert_int_equal(name.line, line);
}

static void test_ranges_and_the_last_line_counts(void **state)
{
	static const char text[] = "1000 10 first\n"
				   "2000 100 second with blanks\n"
				   "0x3000 0x20 third\n"
				   "1000 10 again\n" /* the place is used again */
				   "100f 1 last byte\n"
				   "ffffffffffffff00 100 at the end of all\n"
				   "5000 10 no end of line";
	static const uint64_t addresses[] = {0xfff,  0x1000, 0x100e, 0x100f, 0x1010,
					     0x20ff, 0x2100, 0x301f, 0x5008, 0xffffffffffffffffull};
	struct limpet_perfmap *map =
		read_map(map_of(text, sizeof(text) - 1), addresses, LIMPET_COUNT_OF(addresses));

	(void)state;
	check(map, 0, NULL, NULL, 0);
	check(map, 1, "again", NULL, 0);
	check(map, 2, "again", NULL, 0);
	check(map, 3, "last byte", NULL, 0);
	check(map, 4, NULL, NULL, 0);
	check(map, 5, "second with blanks", NULL, 0);
	check(map, 6, NULL, NULL, 0);
	check(map, 7, "third", NULL, 0);
	/* Still being written: half a name would be a wrong one. */
	check(map, 8, NULL, NULL, 0);
	check(map, 9, "at the end of all", NULL, 0);
	limpet_perfmap_free(map);
}

static void test_names_of_v8(void **state)
{
	static const struct {
		const char *text, *function, *file;
		uint32_t line;
	} cases[] = {
		{"JS:*answer /srv/app.js:22:16", "answer", "/srv/app.js", 22},
		{"JS:~emit node:events:466:44", "emit", "node:events", 466},
		{"JS:^get size file:///srv/my app.mjs:7:3", "get size", "file:///srv/my app.mjs",
		 7},
		{"LazyCompile:*f /a b/c.js:1:2", "f", "/a b/c.js", 1},
		{"LazyCompile:~leaky /srv/app.js:2", "leaky", "/srv/app.js", 2},
		{"Function:^ node:internal/timers:536", "(anonymous)", "node:internal/timers", 536},
		{"JS:+ /srv/app.js:44:33", "(anonymous)", "/srv/app.js", 44},
		{"Script:~ [eval]:1:1", "(anonymous)", "[eval]", 1},
		{"JS:*odd", "JS:*odd", NULL, 0},
		{"JS:*odd 12", "JS:*odd 12", NULL, 0},
		{"JS:*a:b:", "JS:*a:b:", NULL, 0},
		{"JS:x:99999999999999999999:1", "JS:x:99999999999999999999:1", NULL, 0},
		{"Builtin:ArrayMap", "Builtin:ArrayMap", NULL, 0},
		{"Ljava/lang/String;::hashCode", "Ljava/lang/String;::hashCode", NULL, 0},
		{"JS:", "JS:", NULL, 0},
	};
	static const uint64_t address = 0x1000;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		char text[256];
		int length = snprintf(text, sizeof(text), "1000 1 %s\n", cases[i].text);
		struct limpet_perfmap *map = read_map(map_of(text, (size_t)length), &address, 1);

		check(map, 0, cases[i].function, cases[i].file, cases[i].line);
		limpet_perfmap_free(map);
	}
}

static void test_lines_that_are_none(void **state)
{
	static const char text[] = "\n"
				   "1000\n"
				   "1000 \n"
				   "1000 10\n"
				   "1000 10 \n"
				   "zz 10 x\n"
				   "1000 zz x\n"
				   "-1000 10 x\n"
				   "11111111111111111 1 too long\n"
				   "1000 0 empty\n"
				   "\0\0\0\0\n"
				   "1000 10 good\r\n";
	static const uint64_t address = 0x1000;
	struct limpet_perfmap *map = read_map(map_of(text, sizeof(text) - 1), &address, 1);

	(void)state;
	check(map, 0, "good", NULL, 0);
	limpet_perfmap_free(map);
}

/* Longer than any buffer, a line is cut, and nothing within it is taken for a line. */
static void test_long_lines(void **state)
{
	const size_t bytes = 5u << 20;
	static const uint64_t addresses[] = {0x1000, 0x2000, 0x3000};
	char *text = malloc(bytes);
	struct limpet_perfmap *map;

	(void)state;
	assert_non_null(text);
	memset(text, 'n', bytes);
	memcpy(text, "1000 1 ", 7);
	for (size_t at = 4000; at + 100 < bytes; at += 4096)
		memcpy(text + at, "2000 1 x", 8);
	memcpy(text + bytes - 10, "\n3000 1 y\n", 10);
	map = read_map(map_of(text, bytes), addresses, 3);
	assert_true(strlen(limpet_perfmap_at(map, 0).function) <= 4096);
	check(map, 1, NULL, NULL, 0);
	check(map, 2, "y", NULL, 0);
	limpet_perfmap_free(map);
	free(text);
}

/* Many addresses in many lines that each cover them all: bounded, whatever the names are. */
static void test_work_is_bounded(void **state)
{
	const size_t count = 20000, lines = 100000;
	uint64_t *addresses = calloc(count, sizeof(*addresses));
	char *text = malloc(lines * 16 + 16);
	struct limpet_perfmap *map;
	size_t used = 0;

	(void)state;
	assert_non_null(addresses);
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		addresses[i] = 0x1000 + i;
	for (size_t i = 0; i < lines; i++)
		used += (size_t)sprintf(text + used, "1000 fffff x\n");
	used += (size_t)sprintf(text + used, "1000 fffff late\n");
	map = read_map(map_of(text, used), addresses, count);
	check(map, count - 1, "x", NULL, 0);
	limpet_perfmap_free(map);
	free(addresses);
	free(text);
}

static void test_ends_when_told_to(void **state)
{
	static const volatile sig_atomic_t cancel = 1;
	static const uint64_t address = 0x1000;
	struct limpet_perfmap *map = NULL;
	int fd = map_of("1000 1 x\n", 9);

	(void)state;
	assert_int_equal(limpet_perfmap_read(fd, &address, 1, &cancel, &map), -EINTR);
	assert_null(map);
	assert_int_equal(limpet_perfmap_read(-1, &address, 1, NULL, &map), -EBADF);
	assert_int_equal(limpet_perfmap_read(fd, &address, 0, NULL, &map), 0);
	limpet_perfmap_free(map);
	close(fd);
}

/* ------------------------------------------------------------------ the file */

#define PID 4711

static void link_to(const char *path, const char *to)
{
	char full[4096];

	snprintf(full, sizeof(full), "%s", proc_fixture_path(to));
	proc_fixture_link(path, full);
}

/* Of a process whose rights on files are those of that user alone. */
static void write_status(uid_t of_files, const char *more)
{
	proc_fixture_write("4711/status",
			   "Name:\tx\nState:\tS (sleeping)\nTgid:\t4711\nUid:\t1\t2\t3\t%u\n"
			   "Gid:\t1\t1\t1\t1\n%s",
			   of_files, more);
}

static int begin(void **state)
{
	(void)state;
	proc_fixture_begin();
	proc_fixture_write("box/tmp/keep", "%s", "");
	link_to("4711/root", "box");
	proc_fixture_stat(PID, "x", 0, 1);
	write_status(geteuid(), "NSpid:\t4711\t33\t7\n");
	return 0;
}

static int end(void **state)
{
	(void)state;
	proc_fixture_end();
	return 0;
}

static void test_file_by_its_own_number(void **state)
{
	struct stat wanted, found;
	int fd;

	(void)state;
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -ENOENT);
	proc_fixture_write("box/tmp/perf-4711.map", "%s", "1000 1 of another\n");
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -ENOENT);
	proc_fixture_write("box/tmp/perf-7.map", "%s", "1000 1 x\n");
	fd = limpet_target_open_perf_map(target_of(PID));
	assert_true(fd >= 0);
	assert_int_equal(stat(proc_fixture_path("box/tmp/perf-7.map"), &wanted), 0);
	assert_int_equal(fstat(fd, &found), 0);
	assert_int_equal(found.st_ino, wanted.st_ino);
	close(fd);
	/* Without namespaces it has one number. */
	write_status(geteuid(), "");
	fd = limpet_target_open_perf_map(target_of(PID));
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(limpet_target_open_perf_map(target_of(4712)), -ESRCH);
}

static void test_file_that_is_none(void **state)
{
	char path[4096];

	(void)state;
	proc_fixture_write("secret", "%s", "1000 1 x\n");
	link_to("box/tmp/perf-7.map", "secret");
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -ELOOP);
	proc_fixture_remove("box/tmp/perf-7.map");
	snprintf(path, sizeof(path), "%s", proc_fixture_path("box/tmp/perf-7.map"));
	/* Nobody writes into it: an open that waits would wait for good. */
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -EINVAL);
	assert_int_equal(rmdir(path), 0);
	/* A directory that is a link is not gone into. */
	proc_fixture_remove("box/tmp/keep");
	snprintf(path, sizeof(path), "%s", proc_fixture_path("box/tmp"));
	assert_int_equal(rmdir(path), 0);
	proc_fixture_write("outside/perf-7.map", "%s", "1000 1 x\n");
	link_to("box/tmp", "outside");
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -ELOOP);
}

/* What has let nobody wait yet may begin to: it is not asked at all. */
static void test_file_system_that_may_not_answer(void **state)
{
	struct served *served = served_new();
	char files[4096], point[4096];
	int fd;

	(void)state;
	assert_non_null(served);
	proc_fixture_write("files/perf-7.map", "%s", "1000 1 x\n");
	proc_fixture_write("box/tmp/perf-7.map", "%s", "1000 1 x\n");
	snprintf(files, sizeof(files), "%s", proc_fixture_path("files"));
	snprintf(point, sizeof(point), "%s", proc_fixture_path("box/tmp"));
	fd = limpet_target_open_perf_map(target_of(PID));
	assert_true(fd >= 0);
	close(fd);
	if (served_unshare(geteuid() != 0) < 0 || served_begin(served, files, point) < 0)
		limpet_skip("FUSE cannot be mounted here");
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -EOPNOTSUPP);
	assert_int_equal(served->came[FUSE_LOOKUP], 0);
	served_end(served);
	assert_int_equal(umount2(point, MNT_DETACH), 0);
	served_free(served);
}

static void test_file_of_another(void **state)
{
	(void)state;
	if (geteuid() != 0)
		limpet_skip("only root gives files away");
	proc_fixture_write("box/tmp/perf-7.map", "%s", "1000 1 x\n");
	assert_int_equal(chown(proc_fixture_path("box/tmp/perf-7.map"), 12345, 12345), 0);
	assert_int_equal(limpet_target_open_perf_map(target_of(PID)), -EPERM);
	write_status(12345, "NSpid:\t4711\t7\n");
	assert_true(limpet_target_open_perf_map(target_of(PID)) >= 0);
	/* Root's are nobody's trick. */
	assert_int_equal(chown(proc_fixture_path("box/tmp/perf-7.map"), 0, 0), 0);
	assert_true(limpet_target_open_perf_map(target_of(PID)) >= 0);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_and_the_last_line_counts),
		cmocka_unit_test(test_names_of_v8),
		cmocka_unit_test(test_lines_that_are_none),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_work_is_bounded),
		cmocka_unit_test(test_ends_when_told_to),
		WITH_ROOT(test_file_by_its_own_number),
		WITH_ROOT(test_file_that_is_none),
		WITH_ROOT(test_file_of_another),
		/* The last: it changes who we are. */
		WITH_ROOT(test_file_system_that_may_not_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
