/* Who shares the memory of a process and is none of its threads, of real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/sharers.h"

#define STACK_BYTES (64u << 10)

struct family {
	pid_t program, sharer, forked;
	int ends[2]; /* all of them wait at the first, until the other is closed */
};

static int wait_for_end(void *ends)
{
	char byte;

	syscall(SYS_close, ((int *)ends)[1]);
	syscall(SYS_read, ((int *)ends)[0], &byte, 1);
	syscall(SYS_exit, 0);
	return 0;
}

static _Noreturn void run_program(int answer, int *ends)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	pid_t made[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	made[0] = fork();
	if (made[0] == 0)
		wait_for_end(ends);
	/* Files of its own: what it closes stays open here. */
	made[1] = clone(wait_for_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, ends);
	if (write(answer, made, sizeof(made)) != (ssize_t)sizeof(made))
		_exit(1);
	close(ends[1]);
	while (wait(NULL) > 0)
		;
	_exit(0);
}

static void begin_family(struct family *family)
{
	int answer[2];
	pid_t made[2];

	assert_int_equal(pipe(family->ends), 0);
	assert_int_equal(pipe(answer), 0);
	family->program = fork();
	if (family->program == 0)
		run_program(answer[1], family->ends);
	close(family->ends[0]);
	assert_int_equal(read(answer[0], made, sizeof(made)), sizeof(made));
	close(answer[0]);
	close(answer[1]);
	family->forked = made[0];
	family->sharer = made[1];
	assert_true(family->forked > 0 && family->sharer > 0);
}

static void end_family(struct family *family)
{
	close(family->ends[1]);
	assert_int_equal(waitpid(family->program, NULL, 0), family->program);
}

static void test_who_shares(void **state)
{
	struct limpet_sharer *list = NULL;
	struct family family;

	(void)state;
	begin_family(&family);
	assert_int_equal(limpet_sharers_find(family.program, &list), 1);
	assert_int_equal(list[0].pid, family.sharer);
	free(list);
	/* It is the same from either end; a copy is not one. */
	assert_int_equal(limpet_sharers_find(family.sharer, &list), 1);
	assert_int_equal(list[0].pid, family.program);
	free(list);
	assert_int_equal(limpet_sharers_find(family.forked, &list), 0);
	free(list);
	assert_true(limpet_sharers_share(family.program, family.sharer));
	assert_false(limpet_sharers_share(family.program, family.forked));
	assert_false(limpet_sharers_share(family.program, getpid()));
	end_family(&family);
}

static pid_t to_kill;
static unsigned looks;

static void kill_one(void *context)
{
	(void)context;
	if (looks++ == 2)
		kill(to_kill, SIGKILL);
}

static int say_gone(const void *context)
{
	(void)context;
	return -ESRCH;
}

static void test_they_are_waited_for(void **state)
{
	struct limpet_wait options = {.deadline_ns = 0};
	struct family family;
	pid_t who = 0;

	(void)state;
	begin_family(&family);
	assert_int_equal(limpet_sharers_wait(family.program, &options, &who), -EBUSY);
	assert_int_equal(who, family.sharer);
	options.deadline_ns = UINT64_MAX;
	options.check = say_gone;
	assert_int_equal(limpet_sharers_wait(family.program, &options, &who), -ESRCH);
	options.check = NULL;
	options.idle = kill_one;
	to_kill = family.sharer;
	assert_int_equal(limpet_sharers_wait(family.program, &options, &who), 0);
	assert_true(looks >= 3);
	end_family(&family);
}

static void test_no_such_process(void **state)
{
	struct limpet_sharer *list = NULL;

	(void)state;
	assert_true(limpet_sharers_find(0x7ffffffe, &list) < 0);
	assert_false(limpet_sharers_share(0x7ffffffe, getpid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_shares),
		cmocka_unit_test(test_they_are_waited_for),
		cmocka_unit_test(test_no_such_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
