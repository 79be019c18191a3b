/* Files of a file system that a program serves, and that does not answer: limpet goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mounts.h"
#include "common/open_file.h"
#include "common/subprocess.h"
#include "test/unit/served_fixture.h"
#include "test/unit/skip_reason.h"

/* Of a tenth of a second, after which a work is left behind. */
#define LOOKS 50u
#define CALL(opcode) (UINT64_C(1) << (opcode))

static char directory[] = "/tmp/test-served-files.XXXXXX";
static const char *why_not; /* nothing can be mounted here */
static struct served *served;

/* ------------------------------------------------------------------ time */

int __real_poll(struct pollfd *fds, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *fds, nfds_t count, int milliseconds);

static uint32_t came_before;
static int tokens = -1,
	   growing = -1; /* at each look one token is sent, for which that file grows */
static off_t sent;

static uint32_t count_silent(void)
{
	uint32_t count = 0;

	for (unsigned i = 0; i < SERVED_CALLS; i++)
		if (served->silent >> i & 1)
			count += served->came[i];
	return count;
}

static off_t size_of(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return status.st_size;
}

/* A look that sees nothing: once the server has been asked what it does not answer. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	(void)milliseconds;
	if (tokens >= 0) {
		assert_int_equal(write(tokens, "", 1), 1);
		sent++;
	}
	for (;;) {
		int ready = __real_poll(fds, count, 1);

		if (ready || (tokens >= 0 ? growing < 0 || size_of(growing) >= sent
					  : count_silent() > came_before))
			return ready;
	}
}

/* ------------------------------------------------------------------ the files */

static void run(const char *command)
{
	if (system(command))
		fail_msg("failed: %s", command);
}

static int set_up(void **state)
{
	(void)state;
	served = served_new();
	if (!served || !mkdtemp(directory) || chdir(directory))
		return -1;
	run("mkdir root root/served root/plain root/over files && echo text >files/file && echo "
	    "plain >root/plain/file");
	run("ln -s /served/file root/link && ln -s /plain/../plain root/plain/directory");
	run("ln -s \"$PWD/root/served/file\" out");
	if (served_unshare(geteuid() != 0) < 0 || mount("none", "root/plain", "tmpfs", 0, NULL) < 0)
		why_not = "no file system can be mounted here";
	else
		run("echo plain >root/plain/file && ln -s /plain/../plain root/plain/directory");
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	umount2("root/plain", MNT_DETACH);
	umount2("root/proc", MNT_DETACH);
	snprintf(command, sizeof(command), "rm -rf --one-file-system %s", directory);
	served_free(served);
	return chdir("/") || system(command) ? -1 : 0;
}

static int begin(void **state)
{
	(void)state;
	memset(served, 0, sizeof(*served));
	came_before = 0;
	limpet_subprocess_patience.left = 0;
	limpet_subprocess_patience.waited_ns = 0;
	if (!why_not && served_begin(served, "files", "root/served") < 0)
		why_not = "FUSE is not to be had here";
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (served->server)
		served_end(served);
	umount2("root/served", MNT_DETACH);
	return 0;
}

static void need_mounts(void)
{
	if (why_not)
		limpet_skip(why_not);
}

static void assert_reads(int fd, const char *text)
{
	char got[16] = "";

	if (fd < 0)
		fail_msg("%s", strerror(-fd));
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(pread(fd, got, sizeof(got) - 1, 0) > 0);
	assert_string_equal(got, text);
	close(fd);
}

static bool is_copy(int fd)
{
	return fcntl(fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
}

static void test_answers(void **state)
{
	struct stat status;
	int fd;

	(void)state;
	need_mounts();
	fd = limpet_open_regular("root", "/served/file", 0, &status);
	assert_true(fd >= 0);
	assert_true(is_copy(fd));
	assert_int_equal(status.st_ino, 2);
	assert_int_equal(status.st_size, 5);
	assert_reads(fd, "text\n");
	assert_reads(limpet_open_regular("root", "/link", 0, NULL), "text\n");
	assert_reads(limpet_open_regular(NULL, "out", 0, NULL), "text\n");
	assert_reads(limpet_open_regular(NULL, "root/served/../served/file", 0, NULL), "text\n");
	assert_int_equal(limpet_open_regular("root", "/served/other", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular("root", "/served", 0, NULL), -EINVAL);
	assert_int_equal(limpet_subprocess_patience.left, 0);
}

/* Where nobody can let us wait nobody else is asked. */
static void test_other_mounts(void **state)
{
	int fd;

	(void)state;
	need_mounts();
	fd = limpet_open_regular("root", "/plain/file", 0, NULL);
	assert_false(is_copy(fd));
	assert_reads(fd, "plain\n");
	assert_reads(limpet_open_regular("root", "/plain/directory/file", 0, NULL), "plain\n");
	assert_reads(limpet_open_regular("root", "/plain/directory/../../plain/./file", 0, NULL),
		     "plain\n");
	assert_reads(limpet_open_regular("root", "../../plain/file", LIMPET_OPEN_NO_LINKS, NULL),
		     "plain\n");
	assert_int_equal(
		limpet_open_regular("root", "/plain/directory/file", LIMPET_OPEN_NO_LINKS, NULL),
		-ELOOP);
	assert_int_equal(limpet_open_regular("root", "/plain/none", 0, NULL), -ENOENT);
	assert_int_equal(limpet_open_regular("root", "/plain/file/none", 0, NULL), -ENOTDIR);
	assert_int_equal(served->came[FUSE_LOOKUP], 0);
	assert_int_equal(served->came[FUSE_GETATTR], 0);
}

/* As the kernel says where nobody is to be waited for. */
static void assert_same_way(const char *path)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
				     .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	LIMPET_CLOSE int root = open("root", O_PATH | O_CLOEXEC);
	LIMPET_CLOSE int wanted = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	int code = wanted < 0 ? -errno : 0;
	LIMPET_CLOSE int found = limpet_open_name("root", path, 0);
	struct stat is, was;

	if (wanted < 0 || found < 0) {
		if ((found < 0 ? found : 0) != code)
			fail_msg("%s: %d instead of %d", path, found, code);
		return;
	}
	assert_int_equal(fstat(wanted, &was) | fstat(found, &is), 0);
	if (is.st_dev != was.st_dev || is.st_ino != was.st_ino)
		fail_msg("%s: another file", path);
}

static void test_ways_through_mounts(void **state)
{
	static const char *const names[] = {"plain", "file", "directory", "..",   ".",    "link",
					    "none",  "deep", "back",      "loop", "here", ""};
	char path[256];
	unsigned seed = 1;

	(void)state;
	need_mounts();
	run("mkdir -p root/plain/deep && ln -sf /plain/deep/../file root/plain/deep/link && ln "
	    "-sfn "
	    "../../plain root/plain/deep/back && ln -sf loop root/plain/loop && ln -sfn . "
	    "root/plain/here");
	for (unsigned i = 0; i < 3000; i++) {
		size_t length = 0;

		for (int parts = 1 + rand_r(&seed) % 6; parts > 0; parts--)
			length += (size_t)snprintf(
				path + length, sizeof(path) - length, "%s%s",
				length || rand_r(&seed) % 2 ? "/" : "",
				names[(unsigned)rand_r(&seed) % LIMPET_COUNT_OF(names)]);
		if (length)
			assert_same_way(path);
	}
}

/* Within its /proc the target may have mounted what leads out of its root: a link, and a file
 * system of its own. */
static void test_mounts_in_proc(void **state)
{
	char path[64];
	LIMPET_CLOSE int link = -1;

	(void)state;
	need_mounts();
	run("mkdir -p root/proc && mount -t proc proc root/proc && ln -sf /etc/passwd root/lead");
	link = (int)syscall(SYS_open_tree, AT_FDCWD, "root/lead",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (link < 0 || syscall(SYS_move_mount, link, "", AT_FDCWD, "root/proc/version",
				MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		umount2("root/proc", MNT_DETACH);
		limpet_skip("this kernel mounts no links");
	}
	assert_int_equal(limpet_open_regular("root", "/proc/version", 0, NULL), -ENOENT);
	assert_same_way("proc/self/../version");
	assert_same_way("proc/net");
	assert_int_equal(limpet_open_regular("root", "/proc/uptime", 0, NULL), -EINVAL);
	assert_int_equal(limpet_open_regular("root", "/proc/self/exe", 0, NULL), -ELOOP);
	/* /proc/net is self/net, and that is where it lies now. */
	snprintf(path, sizeof(path), "root/proc/%d", getpid());
	assert_int_equal(mount("root/served", path, NULL, MS_BIND, NULL), 0);
	assert_int_equal(limpet_open_regular("root", "/proc/net", LIMPET_OPEN_IN_PLACE, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(served->came[FUSE_LOOKUP], 0);
	assert_int_equal(umount2("root/proc", MNT_DETACH), 0);
}

/* A long way past mounts would have tables read for each. */
static void test_many_mounts(void **state)
{
	char path[600] = "plain";

	(void)state;
	need_mounts();
	for (unsigned i = 0; i < 20; i++)
		strcat(path, "/../plain");
	strcat(path, "/file");
	assert_int_equal(limpet_open_regular("root", path, LIMPET_OPEN_IN_PLACE, NULL),
			 -EOPNOTSUPP);
	assert_reads(limpet_open_regular("root", path, 0, NULL), "plain\n");
}

static void test_in_place(void **state)
{
	(void)state;
	need_mounts();
	assert_int_equal(limpet_open_regular("root", "/served/file", LIMPET_OPEN_IN_PLACE, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(limpet_open_regular("root/served", "/file", LIMPET_OPEN_IN_PLACE, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(served->came[FUSE_LOOKUP], 0);
	assert_reads(limpet_open_regular("root", "/plain/file", LIMPET_OPEN_IN_PLACE, NULL),
		     "plain\n");
}

/* A descriptor that names it asks nobody; its contents are a copy. */
static void test_named(void **state)
{
	LIMPET_CLOSE int named = -1;
	LIMPET_CLOSE int open_already = open("root/plain/file", O_RDONLY | O_CLOEXEC);
	uint32_t before;
	int fd;

	(void)state;
	need_mounts();
	named = limpet_open_name("root", "/served/file", 0);
	assert_true(named >= 0);
	before = served->came[FUSE_GETATTR];
	assert_int_equal(limpet_open_named(named, NULL, LIMPET_OPEN_IN_PLACE, NULL), -EOPNOTSUPP);
	assert_int_equal(served->came[FUSE_GETATTR], before);
	assert_int_equal(served->came[FUSE_OPEN], 0);
	fd = limpet_open_named(named, NULL, 0, NULL);
	assert_true(is_copy(fd));
	assert_reads(fd, "text\n");
	assert_reads(limpet_open_named(open_already, NULL, LIMPET_OPEN_IN_PLACE, NULL), "plain\n");
}

static void be_silent(uint64_t calls)
{
	served->silent = calls;
	came_before = count_silent();
}

static void assert_left_behind(uint64_t calls, const char *path)
{
	uint32_t left = limpet_subprocess_patience.left;

	be_silent(calls);
	assert_int_equal(limpet_open_regular("root", path, 0, NULL), -ETIMEDOUT);
	assert_int_equal(limpet_subprocess_patience.left, left + 1);
	be_silent(0);
}

static void test_no_answer(void **state)
{
	static const uint32_t calls[] = {FUSE_LOOKUP, FUSE_GETATTR, FUSE_STATFS, FUSE_OPEN,
					 FUSE_READ};

	(void)state;
	need_mounts();
	for (size_t i = 0; i < LIMPET_COUNT_OF(calls); i++) {
		assert_left_behind(CALL(calls[i]), "/served/file");
		end(NULL);
		begin(NULL);
	}
	/* The copy is there: only its process does not end. */
	be_silent(CALL(FUSE_FLUSH));
	assert_reads(limpet_open_regular("root", "/served/file", 0, NULL), "text\n");
	assert_int_equal(limpet_subprocess_patience.left, 1);
	be_silent(0);
}

static void test_never_again(void **state)
{
	uint32_t came;

	(void)state;
	need_mounts();
	/* Who looks for the same name waits for the kernel. */
	assert_left_behind(CALL(FUSE_LOOKUP), "/served/1");
	assert_left_behind(CALL(FUSE_LOOKUP), "/served/2");
	assert_left_behind(CALL(FUSE_LOOKUP), "/served/3");
	came = served->came[FUSE_LOOKUP];
	assert_int_equal(limpet_open_regular("root", "/served/file", 0, NULL), -ETIMEDOUT);
	assert_int_equal(served->came[FUSE_LOOKUP], came);
	assert_reads(limpet_open_regular("root", "/plain/file", 0, NULL), "plain\n");
}

/* A process that is root among its own users only: it serves files, and lays an overlay over them,
 * past which it can be asked by anybody. */
static _Noreturn void hide_below(int ready, int ended)
{
	char end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (served_unshare(true) < 0 || served_begin(served, "files", "root/served") < 0 ||
	    mount("none", "root/over", "overlay", 0, "lowerdir=root/served:root/plain,userxattr") <
		    0)
		_exit(77);
	if (write(ready, "", 1) != 1 || read(ended, &end, 1) < 0)
		_exit(1);
	served_end(served);
	_exit(0);
}

static void test_below_an_overlay(void **state)
{
	struct limpet_mount found;
	char root[64], process[32], path[256], byte;
	int ready[2], ended[2], status, named, fd;
	pid_t child;

	(void)state;
	need_mounts();
	served_end(served);
	umount2("root/served", MNT_DETACH);
	memset(served, 0, sizeof(*served));
	assert_int_equal(pipe2(ready, O_CLOEXEC) | pipe2(ended, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		close(ready[0]);
		close(ended[1]);
		hide_below(ready[1], ended[0]);
	}
	close(ready[1]);
	close(ended[0]);
	if (read(ready[0], &byte, 1) == 1) {
		snprintf(process, sizeof(process), "/proc/%d", child);
		snprintf(root, sizeof(root), "%s/root", process);
		snprintf(path, sizeof(path), "%s/root/over/file", directory);
		named = limpet_open_name(root, path, 0);
		assert_true(named >= 0);
		assert_int_equal(limpet_mount_of(named, process, &found), 0);
		assert_string_equal(found.type, "overlay");
		assert_true(found.is_served);
		close(named);
		assert_int_equal(limpet_open_regular(root, path, LIMPET_OPEN_IN_PLACE, NULL),
				 -EOPNOTSUPP);
		fd = limpet_open_regular(root, path, 0, NULL);
		assert_true(is_copy(fd));
		assert_reads(fd, "text\n");
		be_silent(CALL(FUSE_OPEN));
		assert_int_equal(limpet_open_regular(root, path, 0, NULL), -ETIMEDOUT);
		be_silent(0);
	}
	close(ended[1]);
	close(ready[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	served->server = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		limpet_skip("users may not mount FUSE and overlays here");
	assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------ work apart */

struct steps {
	int tokens, file;
	unsigned count;
	bool grows;
};

static int work_in_steps(void *argument)
{
	const struct steps *steps = argument;
	char token;

	for (unsigned i = 0; i < steps->count; i++)
		if (read(steps->tokens, &token, 1) != 1 ||
		    (steps->grows && write(steps->file, "", 1) != 1))
			return -EPIPE;
	return 0;
}
static int work_with_steps(unsigned count, bool grows)
{
	int pipe_ends[2], code;
	LIMPET_CLOSE int file = memfd_create("test", MFD_CLOEXEC);
	struct steps steps = {.file = file, .count = count, .grows = grows};
	const struct limpet_subprocess_job apart = {
		.work = work_in_steps, .argument = &steps, .bytes = sizeof(steps), .grows = file};
	struct limpet_subprocess_job with_fds = apart;

	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	steps.tokens = pipe_ends[0];
	with_fds.fds[0] = pipe_ends[0];
	with_fds.fds[1] = file;
	tokens = pipe_ends[1];
	growing = grows ? file : -1;
	sent = 0;
	code = limpet_subprocess_run(&with_fds);
	tokens = growing = -1;
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	return code;
}

static int answer_twice(void *argument)
{
	*(int *)argument *= 2;
	return *(int *)argument == 42 ? 0 : -EDOM;
}

static int hand_over(void *argument)
{
	(void)argument;
	return open("/", O_PATH | O_CLOEXEC);
}

static int end_early(void *argument)
{
	(void)argument;
	_exit(0);
}

/* Nothing else of ours is open there. */
static int count_open(void *argument)
{
	int count = 0;

	for (int fd = 0; fd < 1000; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	*(int *)argument = count;
	return 0;
}

static int apart(int (*work)(void *argument), int *number)
{
	const struct limpet_subprocess_job wanted = {.work = work,
						     .argument = number,
						     .bytes = sizeof(*number),
						     .fds = {-1, -1},
						     .grows = -1};

	return limpet_subprocess_run(&wanted);
}

static void test_work_apart(void **state)
{
	int number = 21, fd;

	(void)state;
	limpet_subprocess_patience.left = 0;
	limpet_subprocess_patience.waited_ns = 0;
	assert_int_equal(apart(answer_twice, &number), 0);
	assert_int_equal(number, 42);
	assert_int_equal(apart(answer_twice, &number), -EDOM);
	fd = apart(hand_over, &number);
	assert_true(fd > 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	assert_int_equal(apart(end_early, &number), -EIO);
	/* The three that are always taken, and the one it answers by. */
	assert_int_equal(apart(count_open, &number), 0);
	assert_int_equal(number, 4);
	assert_int_equal(limpet_subprocess_patience.left, 0);
}

/* What goes on may take long, but not for good. */
static void test_work_that_goes_on(void **state)
{
	(void)state;
	limpet_subprocess_patience.left = 0;
	limpet_subprocess_patience.waited_ns = 0;
	assert_int_equal(work_with_steps(LOOKS / 2, false), 0);
	assert_int_equal(work_with_steps(LOOKS * 3, true), 0);
	assert_int_equal(limpet_subprocess_patience.left, 0);
	assert_int_equal(work_with_steps(LOOKS * 3, false), -ETIMEDOUT);
	assert_int_equal(work_with_steps(LOOKS * 20, true), -ETIMEDOUT);
	assert_int_equal(limpet_subprocess_patience.left, 2);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_SERVER(test_answers),
		WITH_SERVER(test_other_mounts),
		WITH_SERVER(test_ways_through_mounts),
		WITH_SERVER(test_mounts_in_proc),
		WITH_SERVER(test_many_mounts),
		WITH_SERVER(test_in_place),
		WITH_SERVER(test_named),
		WITH_SERVER(test_no_answer),
		WITH_SERVER(test_never_again),
		WITH_SERVER(test_below_an_overlay),
		cmocka_unit_test(test_work_apart),
		cmocka_unit_test(test_work_that_goes_on),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
