/* --debug: what is printed, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/debug.h"
#include "common/clock.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee.h"

static struct limpet_tracer *tracer;
static pid_t child;
static int said = -1, kept_stderr = -1;

static int set_up(void **state)
{
	int ends[2];

	(void)state;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	kept_stderr = dup(STDERR_FILENO);
	if (child < 0 || kept_stderr < 0 || pipe2(ends, O_CLOEXEC) < 0 ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		return -1;
	said = ends[0];
	return dup2(ends[1], STDERR_FILENO) < 0 || close(ends[1]) < 0 ||
	       limpet_tracer_new(&tracer) < 0;
}

static int tear_down(void **state)
{
	(void)state;
	dup2(kept_stderr, STDERR_FILENO);
	kill(child, SIGKILL);
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

/* All that was written since the last call. */
static const char *heard(void)
{
	static char text[4096];
	ssize_t got = read(said, text, sizeof(text) - 1);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

/* A reader of these lines that does not read must not hold a thread. */
static void test_nothing_is_written_while_a_thread_is_held(void **state)
{
	struct limpet_tracee *tracee;
	struct limpet_step outer;
	const char *text;
	char line[64];

	(void)state;
	limpet_debug_begin();
	limpet_step_note(0, "before");
	assert_non_null(strstr(heard(), "before\n"));
	outer = limpet_step_begin(LIMPET_STEP_STOP_ALL, 0, 0);
	assert_int_equal(limpet_tracee_stop(tracer, child, child,
					    limpet_monotonic_ns() + 60000000000u, &tracee),
			 0);
	assert_int_equal(limpet_step_end(&outer, -ETIMEDOUT), -ETIMEDOUT);
	assert_string_equal(heard(), "");
	assert_int_equal(limpet_tracee_release(tracee), 0);
	text = heard();
	snprintf(line, sizeof(line), "%d    PTRACE_SEIZE: ", child);
	assert_non_null(strstr(text, line));
	assert_non_null(strstr(text, "stop all threads: "));
	assert_non_null(strstr(text, " us, Connection timed out\n"));
	assert_non_null(strstr(strstr(text, "stop all threads"), "PTRACE_DETACH: "));
}

static void test_what_fails_says_so(void **state)
{
	struct limpet_tracee *tracee;

	(void)state;
	assert_int_equal(limpet_tracee_stop(tracer, child, getpid(), 0, &tracee), -EPERM);
	assert_non_null(strstr(heard(), "PTRACE_SEIZE: "));
}

static void fill(void)
{
	assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
	while (write(STDERR_FILENO, "x", 1) == 1)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, 0), 0);
}

/* It is waited for by nobody, and what it did not take comes with the next line. */
static void test_a_reader_that_does_not_read(void **state)
{
	const char *text;

	(void)state;
	fill();
	limpet_step_note(0, "first");
	do
		text = heard();
	while (*text && text[strlen(text) - 1] == 'x');
	limpet_step_note(0, "second");
	text = heard();
	assert_non_null(strstr(text, "first\n"));
	assert_non_null(strstr(text, "second\n"));
}

static void test_a_reader_that_is_gone(void **state)
{
	(void)state;
	close(said);
	limpet_step_note(0, "nobody hears this");
	limpet_step_note(0, "nor this");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_written_while_a_thread_is_held),
		cmocka_unit_test(test_what_fails_says_so),
		cmocka_unit_test(test_a_reader_that_does_not_read),
		cmocka_unit_test(test_a_reader_that_is_gone),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
