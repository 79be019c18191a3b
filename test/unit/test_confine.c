/* What a confined process cannot do any more: each is tried by a child that has given it up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/confine.h"

#define LET_GO 77 /* it could do what it should not */

static struct limpet_confinement confinement = {
	.memory_bytes = 1ull << 30, .cpu_seconds = 60, .descriptors = 32};

/* The exit status, or -number of the signal, of a child that confines itself and calls `try`. */
static int confined(void (*try)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct limpet_err err = {0};

		if (limpet_confine(&confinement, &err) < 0) {
			fprintf(stderr, "%s\n", err.message);
			_exit(2);
		}
		try();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void must_fail(bool failed)
{
	if (!failed)
		_exit(LET_GO);
}

/* ------------------------------------------------------------------ files */

static char own_file[] = "/tmp/limpet-confine.XXXXXX";
static int kept; /* open before */
static bool as_root;

static void try_files(void)
{
	char text[4];
	struct stat status;

	must_fail(open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES);
	must_fail(open(own_file, O_WRONLY) < 0);
	must_fail(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", NULL, 0) < 0);
	must_fail(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0) < 0 && errno == EPERM);
	must_fail(unlink(own_file) < 0 && errno == EPERM);
	must_fail(syscall(SYS_rename, own_file, "/tmp/limpet-confined") < 0 && errno == EPERM);
	must_fail(chdir("..") < 0);
	/* As root there is nothing in the root directory, not even our own descriptors. */
	must_fail(!as_root || fstatat(AT_FDCWD, "/0", &status, AT_EMPTY_PATH) < 0);
	must_fail(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
	must_fail(syscall(SYS_memfd_create, "x", 0) < 0 && errno == EPERM);
	/* What was open is read as before. */
	if (pread(kept, text, sizeof(text), 0) != sizeof(text) || fstat(kept, &status) < 0)
		_exit(3);
}

static void test_no_file_by_name(void **state)
{
	(void)state;
	as_root = geteuid() == 0;
	kept = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	assert_true(kept >= 0);
	close(mkstemp(own_file));
	assert_int_equal(confined(try_files), 0);
	assert_int_equal(unlink(own_file), 0);
	close(kept);
}

static const char *asked_for;

static int open_one(void *context, const char *path)
{
	asked_for = path;
	return strcmp(path, "wanted.dwo") ? -ENOENT : fcntl(*(int *)context, F_DUPFD, 0);
}

static void try_wanted_file(void)
{
	char text[4];
	int fd = open("wanted.dwo", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fd == kept || !asked_for || read(fd, text, sizeof(text)) != sizeof(text))
		_exit(3);
	must_fail(open("/another", O_RDONLY) < 0 && errno == ENOENT);
	must_fail(!strcmp(asked_for, "/another"));
}

static void test_a_library_gets_what_it_is_given(void **state)
{
	(void)state;
	kept = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	confinement.open_file = open_one;
	confinement.context = &kept;
	assert_int_equal(confined(try_wanted_file), 0);
	confinement.open_file = NULL;
	close(kept);
}

/* ------------------------------------------------------------------ others, and code */

static pid_t parent;

static void try_others(void)
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {&byte, 1};

	must_fail(socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
	must_fail(socket(AF_INET, SOCK_DGRAM, 0) < 0 && errno == EPERM);
	must_fail(fork() < 0);
	must_fail(execl("/bin/true", "true", (char *)NULL) < 0 && errno == EPERM);
	must_fail(kill(parent, 0) < 0 && errno == EPERM);
	must_fail(fcntl(kept, F_SETOWN, parent) < 0 && errno == EPERM);
	must_fail(fcntl(kept, F_SETSIG, SIGKILL) < 0 && errno == EPERM);
	must_fail(fcntl(kept, F_SETFL, O_ASYNC) < 0 && errno == EPERM);
	must_fail(syscall(SYS_tgkill, parent, parent, 0) < 0 && errno == EPERM);
	must_fail(ptrace(PTRACE_SEIZE, parent, NULL, NULL) < 0 && errno == EPERM);
	must_fail(syscall(SYS_process_vm_readv, parent, &local, 1, &remote, 1, 0) < 0 &&
		  errno == EPERM);
	must_fail(syscall(SYS_pidfd_open, parent, 0) < 0 && errno == EPERM);
	must_fail(syscall(SYS_setns, 0, 0) < 0 && errno == EPERM);
	must_fail(syscall(SYS_unshare, 0) < 0 && errno == EPERM);
	must_fail(syscall(SYS_bpf, 0, NULL, 0) < 0 && errno == EPERM);
	must_fail(syscall(SYS_prctl, 1, 0) < 0 && errno == EPERM);
}

static void test_nobody_else_is_reached(void **state)
{
	(void)state;
	parent = getpid();
	kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(confined(try_others), 0);
	close(kept);
}

static void try_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		_exit(3);
	must_fail(mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0 && errno == EPERM);
	must_fail(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0) == MAP_FAILED);
}

static void test_no_code_is_made(void **state)
{
	(void)state;
	assert_int_equal(confined(try_code), 0);
}

/* ------------------------------------------------------------------ users, memory, time */

static unsigned lines_of_nobody(pid_t pid)
{
	static const char *const lines[] = {"Seccomp:\t2\n",
					    "NoNewPrivs:\t1\n",
					    "CapEff:\t0000000000000000\n",
					    "CapPrm:\t0000000000000000\n",
					    "Uid:\t65534\t65534\t65534\t65534\n",
					    "Gid:\t65534\t65534\t65534\t65534\n",
					    "Groups:\t \n"};
	const size_t as_user = 4;
	char path[64], line[256];
	unsigned seen = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		for (size_t i = 0; i < (as_root ? LIMPET_COUNT_OF(lines) : as_user); i++)
			seen += !strcmp(line, lines[i]);
	if (file)
		fclose(file);
	return seen;
}

/* As the kernel has it: no privileges, and a user that owns nothing. */
static void test_nobody_without_rights(void **state)
{
	int ready[2], end[2];
	unsigned seen;
	pid_t pid;
	char byte;

	(void)state;
	as_root = geteuid() == 0;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct limpet_err err = {0};

		close(end[1]);
		if (limpet_confine(&confinement, &err) < 0)
			_exit(2);
		/* The other end hears of it by our end of this one. */
		close(ready[1]);
		(void)!read(end[0], &byte, 1);
		_exit(0);
	}
	close(ready[1]);
	(void)!read(ready[0], &byte, 1);
	seen = lines_of_nobody(pid);
	close(end[1]);
	waitpid(pid, NULL, 0);
	close(end[0]);
	close(ready[0]);
	assert_int_equal(seen, as_root ? 7 : 4);
}

static void try_memory(void)
{
	void *volatile block;

	for (unsigned i = 0; i < 1024; i++) {
		block = malloc(64 << 20);
		if (!block)
			return;
	}
	_exit(LET_GO);
}

static void test_memory_ends(void **state)
{
	(void)state;
	assert_int_equal(confined(try_memory), 0);
}

static void try_time(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

static void test_time_ends(void **state)
{
	(void)state;
	confinement.cpu_seconds = 1;
	assert_int_equal(confined(try_time), -SIGKILL);
	confinement.cpu_seconds = 60;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_file_by_name),
		cmocka_unit_test(test_a_library_gets_what_it_is_given),
		cmocka_unit_test(test_nobody_else_is_reached),
		cmocka_unit_test(test_no_code_is_made),
		cmocka_unit_test(test_nobody_without_rights),
		cmocka_unit_test(test_memory_ends),
		cmocka_unit_test(test_time_ends),
	};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	printf("1..0 # skip a variant with sanitizers is only bounded in time\n");
	return 0;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
