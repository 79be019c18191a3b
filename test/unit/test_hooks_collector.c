/* The death of the collector; and hooks, which make no system call at all. */
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/record.h"
#include "common/err.h"
#include "injector/ptrace/robust_word.h"
#include "test/call_filter.h"
#include "test/unit/hooks_fixture.h"

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
		limpet_robust_word_register(word);
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
		WITH_AGENT(test_the_collector_has_died),
		WITH_AGENT(test_the_kernel_tells_of_a_death),
		WITH_AGENT(test_hooks_make_no_system_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
