/* The target as one reference, and waiting for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/wait.h"

static struct {
	pid_t child;
	int go; /* closed: the child executes another program */
	struct limpet_target target;
} it;

static int begin(void **state)
{
	int go[2], ready[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ready), 0);
	it.child = fork();
	assert_true(it.child >= 0);
	if (it.child == 0) {
		close(go[1]);
		if (write(ready[1], "", 1) == 1 && read(go[0], &byte, 1) == 0) {
			dup2(ready[1], STDOUT_FILENO);
			execl("/bin/sh", "sh", "-c", "echo; exec sleep 600", NULL);
		}
		_exit(1);
	}
	close(go[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	it.go = go[1];
	assert_int_equal(limpet_target_open(it.child, &it.target, NULL), 0);
	*state = (void *)(intptr_t)ready[0];
	return 0;
}

static void end_child(void)
{
	if (it.child > 0) {
		kill(it.child, SIGKILL);
		waitpid(it.child, NULL, 0);
	}
	it.child = 0;
}

static int end(void **state)
{
	end_child();
	limpet_target_close(&it.target);
	close((int)(intptr_t)*state);
	close(it.go);
	return 0;
}

static void test_same(void **state)
{
	struct limpet_err err = {.code = 0};

	(void)state;
	assert_int_equal(it.target.pid, it.child);
	assert_int_equal(limpet_target_check(&it.target), 0);
	assert_int_equal(limpet_target_explain(&it.target, 0, &err), 0);
	assert_int_equal(limpet_target_explain(&it.target, -EIO, &err), -EIO);
	assert_string_equal(err.message, "");
}

static void test_gone(void **state)
{
	struct limpet_err err = {.code = 0};

	(void)state;
	end_child();
	assert_int_equal(limpet_target_check(&it.target), -ESRCH);
	assert_int_equal(limpet_target_explain(&it.target, -EIO, &err), -ESRCH);
	assert_non_null(strstr(err.message, "gone"));
}

/* Its number and its start are still known. */
static void test_zombie(void **state)
{
	siginfo_t ended;

	(void)state;
	assert_int_equal(kill(it.child, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)it.child, &ended, WEXITED | WNOWAIT), 0);
	assert_int_equal(limpet_target_check(&it.target), -ESRCH);
}

/* What another process has under that pid is not the target's. */
static void test_reused_pid(void **state)
{
	char root[LIMPET_TARGET_ROOT_BYTES];
	int *fds = NULL;

	(void)state;
	assert_int_equal(limpet_target_still_has_pid(&it.target), 0);
	end_child();
	it.target.pid = getpid();
	assert_int_equal(limpet_target_still_has_pid(&it.target), -ESRCH);
	assert_int_equal(limpet_target_check(&it.target), -ESRCH);
	assert_int_equal(limpet_proc_open(&it.target, "maps", O_RDONLY), -ESRCH);
	assert_int_equal(limpet_proc_argv0(&it.target, root, sizeof(root)), -ESRCH);
	assert_int_equal(limpet_proc_fds(&it.target, &fds), -ESRCH);
	assert_int_equal(limpet_proc_thread_name(&it.target, getpid(), root), -ESRCH);
	assert_false(limpet_target_root(&it.target, root));
}

static void test_other_program(void **state)
{
	struct limpet_err err = {.code = 0};
	char byte;

	close(it.go);
	it.go = -1;
	assert_int_equal(read((int)(intptr_t)*state, &byte, 1), 1);
	assert_int_equal(limpet_target_check(&it.target), -ESTALE);
	assert_int_equal(limpet_target_explain(&it.target, -ESRCH, &err), -ESTALE);
	assert_non_null(strstr(err.message, "another program"));
}

/* A program may write over the bytes by which it is recognized: it is still the same. */
static void test_mark_written_over(void **state)
{
	const uint64_t other[2] = {0};
	char byte;

	assert_int_equal(limpet_memory_write(it.child, getauxval(AT_RANDOM), other, sizeof(other)),
			 0);
	assert_int_equal(limpet_target_check(&it.target), 0);
	close(it.go);
	it.go = -1;
	assert_int_equal(read((int)(intptr_t)*state, &byte, 1), 1);
	assert_int_equal(limpet_target_check(&it.target), -ESTALE);
}

/* A pid that nobody has any more opens nothing. */
static void test_no_process(void **state)
{
	pid_t pid = it.child;
	struct limpet_target target = {.pidfd = 7};
	struct limpet_err err = {.code = 0};

	(void)state;
	end_child();
	assert_int_equal(limpet_target_open(pid, &target, &err), -ESRCH);
	assert_int_equal(target.pid, pid);
	assert_int_equal(target.pidfd, -1);
	assert_int_equal(limpet_target_check(&target), -ESRCH);
	assert_non_null(strstr(err.message, "gone"));
}

static void count(void *context)
{
	++*(unsigned *)context;
}

static void test_wait(void **state)
{
	unsigned calls = 0;
	uint64_t pause_ns = 1;
	struct limpet_wait wait = {.deadline_ns = UINT64_MAX,
				   .idle = count,
				   .idle_context = &calls,
				   .check = limpet_target_check,
				   .check_context = &it.target};

	(void)state;
	assert_int_equal(limpet_wait_pause(&wait, &pause_ns, 3), 0);
	assert_int_equal(pause_ns, 2);
	assert_int_equal(limpet_wait_pause(&wait, &pause_ns, 3), 0);
	assert_int_equal(pause_ns, 3);
	assert_int_equal(calls, 2);
	end_child();
	assert_int_equal(limpet_wait_pause(&wait, &pause_ns, 3), -ESRCH);
	assert_int_equal(calls, 3);
	wait.deadline_ns = limpet_monotonic_ns();
	assert_int_equal(limpet_wait_pause(&wait, &pause_ns, 3), -EBUSY);
	assert_int_equal(calls, 3);
	/* Who asks for nothing waits for the time alone. */
	wait = (struct limpet_wait){.deadline_ns = UINT64_MAX};
	assert_int_equal(limpet_wait_pause(&wait, &pause_ns, 3), 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_same),       CASE(test_gone),          CASE(test_zombie),
		CASE(test_reused_pid), CASE(test_other_program), CASE(test_mark_written_over),
		CASE(test_no_process), CASE(test_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
