/* The channel of hooks to the collector: closed, taken for something else, or read by nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "test/unit/hooks_fixture.h"

static void close_agents_end(void)
{
	assert_int_equal(close((int)limpet_agent_info.channel), 0);
}

static void assert_passing(void)
{
	assert_int_equal(limpet_control->on, 0);
	assert_int_equal(fixture.shm->channel_lost, 1);
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 5));
}

static void test_the_program_closes_our_descriptor(void **state)
{
	(void)state;
	close_agents_end();
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1); /* a claim would be sent */
	assert_passing();
}

/* Not one byte goes into what the program put there. */
static void test_the_program_reuses_our_descriptor(void **state)
{
	int number = (int)limpet_agent_info.channel, ends[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(dup2(ends[0], number), number);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_passing();
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	/* Nor is it closed by us when we leave. */
	((int (*)(void))(uintptr_t)limpet_agent_info.release)();
	assert_int_equal(fcntl(number, F_GETFD), 0);
	close(number);
	close(ends[0]);
	close(ends[1]);
}

static void test_a_file_under_our_number(void **state)
{
	int number = (int)limpet_agent_info.channel;
	int file = memfd_create("stranger", MFD_CLOEXEC);
	struct stat status;

	(void)state;
	assert_true(file >= 0);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(limpet_control->on, 1);
	assert_int_equal(dup2(file, number), number);
	/* Nothing is sent until chunks are full: up to there it is not noticed, nor needed. */
	for (size_t i = 1; i < LIMPET_DOORBELL_CHUNKS * RECORDS_PER_CHUNK; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A));
	assert_int_equal(limpet_control->on, 1);
	FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	assert_passing();
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_size, 0);
	close(file);
	close(number);
}

static volatile sig_atomic_t pipe_signals;

static void on_pipe(int number)
{
	(void)number;
	pipe_signals++;
}

static void test_the_collector_is_gone(void **state)
{
	struct sigaction action = {.sa_handler = on_pipe}, old;

	(void)state;
	pipe_signals = 0;
	sigaction(SIGPIPE, &action, &old);
	close(fixture.channel);
	fixture.channel = -1;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(limpet_control->on, 0);
	assert_int_equal(pipe_signals, 0);
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	sigaction(SIGPIPE, &old, NULL);
}

/* A full socket loses nothing: the records are in shared memory. */
static void test_a_collector_that_does_not_listen(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t total = 40 * RECORDS_PER_CHUNK;
	struct limpet_msg filler = {0};
	int number = (int)limpet_agent_info.channel;

	(void)state;
	while (send(number, &filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	for (size_t i = 0; i < total; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	assert_int_equal(own_records(&records), total);
	assert_int_equal(limpet_control->on, 1);
	assert_int_equal(fixture.shm->channel_lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_the_program_closes_our_descriptor),
		WITH_AGENT(test_the_program_reuses_our_descriptor),
		WITH_AGENT(test_a_file_under_our_number),
		WITH_AGENT(test_the_collector_is_gone),
		WITH_AGENT(test_a_collector_that_does_not_listen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
