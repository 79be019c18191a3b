/* Opening files by names that somebody else has chosen: nothing outside of the root, nothing that
 * notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/open_file.h"
#include "test/unit/skip_reason.h"

static char directory[] = "/tmp/test-open-file.XXXXXX";
static char root[64];

static void run(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(directory) || chdir(directory))
		return -1;
	snprintf(root, sizeof(root), "%s/root", directory);
	run("mkdir -p root/usr/lib root/proc && echo outside >outside && echo inside "
	    ">root/usr/lib/file");
	run("ln -s /usr/lib/file root/absolute && ln -s usr/lib/../lib/file root/relative");
	run("ln -s /usr/lib root/directory && ln -s ../../../../../../../../outside root/up");
	run("ln -s \"$PWD/outside\" root/out");
	run("ln -s loop root/loop && ln -s nowhere root/nothing && mkfifo root/fifo");
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return chdir("/") || system(command) ? -1 : 0;
}

static void assert_reads(const char *in, const char *path, unsigned flags, const char *text)
{
	LIMPET_CLOSE int fd = limpet_open_regular(in, path, flags, NULL);
	char got[16] = "";

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(-fd));
	assert_true(read(fd, got, sizeof(got) - 1) > 0);
	assert_string_equal(got, text);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
}

static void test_inside(void **state)
{
	(void)state;
	assert_reads(root, "/usr/lib/file", 0, "inside\n");
	assert_reads(root, "usr/lib/file", LIMPET_OPEN_NO_LINKS, "inside\n");
	assert_reads(root, "/absolute", 0, "inside\n");
	assert_reads(root, "/relative", 0, "inside\n");
	assert_reads(root, "/directory/file", 0, "inside\n");
	assert_reads(root, "/../../usr/lib/file", 0, "inside\n");
	assert_reads(NULL, "outside", 0, "outside\n");
	assert_reads(NULL, "root/out", 0, "outside\n");
}

static void test_not_outside(void **state)
{
	(void)state;
	assert_int_equal(limpet_open_regular(root, "/out", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular(root, "/up", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular(root, "/../outside", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular(root, "/nothing", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular(root, "/loop", 0, NULL), -ELOOP);
	assert_int_equal(limpet_open_regular(root, "/usr/lib", 0, NULL), -EINVAL);
	assert_int_equal(limpet_open_regular("/nowhere", "/usr/lib/file", 0, NULL), -ENOENT);
}

static void assert_is_file(int fd)
{
	assert_true(fd >= 0);
	close(fd);
}

/* The links of /proc lead past every root; those of a process that is given as the root may. */
static void test_links_of_proc(void **state)
{
	(void)state;
	assert_int_equal(limpet_open_regular("/", "/proc/self/root/etc/passwd", 0, NULL), -ELOOP);
	assert_int_equal(limpet_open_regular("/", "/proc/self/exe", 0, NULL), -ELOOP);
	assert_is_file(limpet_open_regular("/proc/self/root", "/etc/passwd", 0, NULL));
}

static void test_no_links(void **state)
{
	(void)state;
	assert_int_equal(limpet_open_regular(root, "/absolute", LIMPET_OPEN_NO_LINKS, NULL),
			 -ELOOP);
	assert_int_equal(limpet_open_regular(root, "/directory/file", LIMPET_OPEN_NO_LINKS, NULL),
			 -ELOOP);
	assert_int_equal(limpet_open_regular(NULL, "root/out", LIMPET_OPEN_NO_LINKS, NULL), -ELOOP);
}

/* What looks regular there may be none: to read /proc/kmsg takes away what it says. */
static void test_files_of_the_kernel(void **state)
{
	(void)state;
	assert_int_equal(limpet_open_regular("/", "/proc/version", 0, NULL), -EINVAL);
	assert_int_equal(limpet_open_regular(NULL, "/proc/version", 0, NULL), -EINVAL);
	assert_int_equal(limpet_open_regular("/", "/sys/kernel/notes", 0, NULL), -EINVAL);
}

/* Our own files are found all the same. */
static void without_proc(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) < 0)
		_exit(77);
	_exit(limpet_open_regular(NULL, "outside", 0, NULL) < 0);
}

static void test_without_proc(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child)
		without_proc();
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		limpet_skip("no file system can be mounted here");
	assert_int_equal(status, 0);
}

/* Opening has effects: a FIFO's writer goes on, a tape winds. */
static void test_nothing_else_is_opened(void **state)
{
	char events[4096];
	int notices = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	(void)state;
	assert_true(inotify_add_watch(notices, "root/fifo", IN_OPEN) >= 0);
	assert_int_equal(limpet_open_regular(root, "/fifo", 0, NULL), -EINVAL);
	assert_int_equal(limpet_open_regular(NULL, "root/fifo", 0, NULL), -EINVAL);
	assert_int_equal(read(notices, events, sizeof(events)), -1);
	close(open("root/fifo", O_RDONLY | O_NONBLOCK));
	assert_true(read(notices, events, sizeof(events)) > 0);
	close(notices);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_not_outside),
		cmocka_unit_test(test_links_of_proc),
		cmocka_unit_test(test_no_links),
		cmocka_unit_test(test_files_of_the_kernel),
		cmocka_unit_test(test_without_proc),
		cmocka_unit_test(test_nothing_else_is_opened),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
