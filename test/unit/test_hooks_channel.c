/* The channel to the collector: closed, or taken for something else; its death; and hooks, which
 * make no system call at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/record.h"
#include "common/err.h"
#include "injector/ptrace/last_words.h"
#include "test/call_filter.h"
#include "test/unit/hooks_fixture.h"

/* Hooks do without it. */
static void assert_recording(void)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t total = 4 * RECORDS_PER_CHUNK;

	for (size_t i = 0; i < total; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A));
	assert_int_equal(own_records(&records), total);
	assert_int_equal(limpet_control->on, 1);
}

static void test_the_program_closes_our_descriptor(void **state)
{
	(void)state;
	assert_int_equal(close((int)limpet_agent_info.channel), 0);
	assert_recording();
}

/* Not one byte goes into what the program put there. */
static void test_the_program_reuses_our_descriptor(void **state)
{
	int number = (int)limpet_agent_info.channel, ends[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(dup2(ends[0], number), number);
	assert_recording();
	/* Nor is it closed by us when we detach. */
	((int (*)(void))(uintptr_t)limpet_agent_info.release)();
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
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
	assert_int_equal(dup2(file, number), number);
	assert_recording();
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_size, 0);
	close(file);
	close(number);
}

/* Told by the kernel; noticed where the next chunk is opened. */
static void test_the_collector_has_died(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(limpet_control->on, 1);
	fixture.shm->collector |= LIMPET_COLLECTOR_DIED;
	for (size_t i = 0; i < RECORDS_PER_CHUNK; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	assert_int_equal(limpet_control->on, 0);
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
}

/* Killed as hard as can be: the word says so. */
static void test_the_kernel_tells_of_a_death(void **state)
{
	uint32_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ready[2], status;
	char byte;
	pid_t child;

	(void)state;
	assert_ptr_not_equal(word, MAP_FAILED);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		limpet_last_words_prepare(word);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(__atomic_load_n(word, __ATOMIC_ACQUIRE), child);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(__atomic_load_n(word, __ATOMIC_ACQUIRE), LIMPET_COLLECTOR_DIED);
	munmap(word, 4096);
	close(ready[0]);
	close(ready[1]);
}

static volatile sig_atomic_t calls_made;

static void count_call(int number)
{
	(void)number;
	calls_made++;
}

/* Every call but those that end a thread, or come home from the handler, is told by SIGSYS. */
static void forbid_calls(void)
{
	static const unsigned passed[] = {SYS_exit,      SYS_madvise,        SYS_rt_sigreturn,
					  SYS_munmap,    SYS_rt_sigprocmask, SYS_futex,
					  SYS_exit_group};
	struct call_filter filter = {0};

	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < LIMPET_COUNT_OF(passed); i++)
		call_filter_judge(&filter, passed[i], SECCOMP_RET_ALLOW);
	call_filter_end(&filter, SECCOMP_RET_TRAP);
	assert_int_equal(call_filter_install(&filter, 0), 0);
}

static void *allocate_shut_in(void *context)
{
	static struct fixture_stack its_stack;

	fixture_stack_build(&its_stack, plain_stack, LIMPET_COUNT_OF(plain_stack));
	forbid_calls();
	/* Claims a state, has a stack that nobody knows, and goes from chunk to chunk; then there
	 * are none. */
	for (size_t i = 0; i < 4 * RECORDS_PER_CHUNK; i++)
		FIXTURE_CALL(&its_stack, FIXTURE_MALLOC, BLOCK_A + i * 16, 1);
	take_all_chunks();
	for (size_t i = 0; i < RECORDS_PER_CHUNK; i++)
		FIXTURE_CALL(&its_stack, FIXTURE_MALLOC, BLOCK_A + i * 16, 1);
	return context;
}

static void test_hooks_make_no_system_call(void **state)
{
	struct sigaction action = {.sa_handler = count_call}, old;
	pthread_t thread;

	(void)state;
	fixture.shm->tid_offset = measure_tid_offset();
	limpet_record_configure();
	calls_made = 0;
	sigaction(SIGSYS, &action, &old);
	assert_int_equal(pthread_create(&thread, NULL, allocate_shut_in, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	sigaction(SIGSYS, &old, NULL);
	assert_int_equal(calls_made, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_the_program_closes_our_descriptor),
		WITH_AGENT(test_the_program_reuses_our_descriptor),
		WITH_AGENT(test_a_file_under_our_number),
		WITH_AGENT(test_the_collector_has_died),
		WITH_AGENT(test_the_kernel_tells_of_a_death),
		WITH_AGENT(test_hooks_make_no_system_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
