/* Signals that end a capture, and what follows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/capture_signals.h"

/* In a child: the state is the process's. */
static void in_child(bool (*check)(void))
{
	const pid_t child = fork();
	int status;

	if (!child)
		_exit(!check());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool one_press_arrives_twice(void)
{
	limpet_capture_signals_setup(0);
	/* As in a wait for the end. */
	raise(SIGINT);
	sigsuspend(limpet_capture_wait_mask());
	if (!*limpet_capture_interrupted())
		return false;
	/* While the capture ends. */
	raise(SIGINT);
	raise(SIGTERM);
	limpet_capture_signals_end();
	limpet_capture_signals_open();
	if (*limpet_capture_impatient())
		return false;
	/* While the trace is sealed. */
	raise(SIGINT);
	return *limpet_capture_impatient();
}

static void test_one_press_arrives_twice(void **state)
{
	(void)state;
	in_child(one_press_arrives_twice);
}

/* What another process sends to `limpet run` is for the command, also while the capture ends. */
static bool the_command_gets_its_signals(void)
{
	int status;
	const pid_t command = fork();

	if (!command)
		for (;;)
			pause();
	limpet_capture_signals_setup(command);
	kill(getpid(), SIGTERM);
	limpet_capture_signals_end();
	limpet_capture_signals_open();
	return waitpid(command, &status, 0) == command && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGTERM && !*limpet_capture_impatient();
}

static void test_the_command_gets_its_signals(void **state)
{
	(void)state;
	in_child(the_command_gets_its_signals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_press_arrives_twice),
		cmocka_unit_test(test_the_command_gets_its_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
