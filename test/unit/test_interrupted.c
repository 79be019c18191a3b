/* A call that ended with EINTR because of a stop, and nothing else: it is made again, in the time
 * that it was given; with a handler, or what else makes the kernel say EINTR, it says so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/bpf.h>
#include <linux/falloc.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/ptrace/timed_wait.h"
#include "injector/ptrace/tracee.h"
#include "test/unit/skip_reason.h"

#define SECOND_NS 1000000000u
#define OLD_PAUSE 29 /* asm/unistd_32.h */

/* ------------------------------------------------------------------ which calls */

static enum limpet_stop_limit limit(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				    uint64_t e)
{
	const uint64_t args[6] = {a, b, c, d, e, 0};

	return limpet_stop_limit_of(number, args);
}

static void test_which_calls_are_made_again(void **state)
{
	(void)state;
	assert_int_equal(limit(SYS_epoll_wait, 3, 0, 1, UINT32_MAX, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_epoll_pwait, 3, 0, 1, UINT64_MAX, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_epoll_wait, 3, 0, 1, 1000, 0), LIMPET_LIMIT_IN_REGISTER);
	assert_int_equal(limit(SYS_epoll_pwait2, 3, 0, 1, 0, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_epoll_pwait2, 3, 0, 1, 0x1000, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_semop, 3, 0, 1, 7, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_semtimedop, 3, 0, 1, 0, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_semtimedop, 3, 0, 1, 0x1000, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_rt_sigtimedwait, 1, 0, 0, 8, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_rt_sigtimedwait, 1, 0, 0x1000, 8, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_io_getevents, 1, 1, 1, 1, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_io_getevents, 1, 1, 1, 1, 0x1000), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_io_uring_enter, 3, 0, 1, IORING_ENTER_GETEVENTS, 0),
			 LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_io_uring_enter, 3, 0, 1,
			       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, 0x1000),
			 LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_fallocate, 3, FALLOC_FL_KEEP_SIZE, 0, 4096, 0),
			 LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_fallocate, 3, FALLOC_FL_INSERT_RANGE, 0, 4096, 0),
			 LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_bpf, BPF_PROG_LOAD, 0x1000, 128, 0, 0), LIMPET_LIMIT_NONE);
	assert_int_equal(limit(SYS_bpf, BPF_PROG_TEST_RUN, 0x1000, 128, 0, 0),
			 LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_close, 3, 0, 0, 0, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_dup2, 3, 4, 0, 0, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_recvfrom, 3, 0, 5, 0, 0), LIMPET_LIMIT_UNKNOWN);
	assert_int_equal(limit(SYS_connect, 3, 0, 5, 0, 0), LIMPET_LIMIT_UNKNOWN);
}

/* ------------------------------------------------------------------ whether a register is read */

/* What a function written by hand may do: make the call again with what it left in the register. */
/* clang-format off */
__asm__(".text\n"
	"interrupted_test_loop:\n"
	"	syscall\n"
	"interrupted_test_after_loop_call:\n"
	"	cmp $-4, %rax\n"
	"	mov $232, %eax\n"
	"	je interrupted_test_loop\n"
	"	ret\n"
	"interrupted_test_after_far_read:\n"
	"	test %rax, %rax\n"
	"	js 1f\n"
	"	ret\n"
	"1:	mov %r10d, %eax\n"
	"	ret\n"
	"interrupted_test_after_plain:\n"
	"	cmp $-4096, %rax\n"
	"	ja 1f\n"
	"	ret\n"
	"1:	neg %eax\n"
	"	mov $5, %r10d\n"
	"	mov %r10d, %eax\n"
	"	ret\n"
	"interrupted_test_after_tail:\n"
	"	jmp *%rax\n");
/* clang-format on */
extern __attribute__((visibility("hidden"))) const char interrupted_test_after_loop_call[],
	interrupted_test_after_far_read[], interrupted_test_after_plain[],
	interrupted_test_after_tail[];

static bool spares(const void *code)
{
	return limpet_interrupted_spares_limit(getpid(), (uintptr_t)code);
}

static void test_a_register_that_is_read_is_left(void **state)
{
	(void)state;
	assert_false(spares(interrupted_test_after_loop_call));
	assert_false(spares(interrupted_test_after_far_read));
	assert_false(spares(interrupted_test_after_tail));
	assert_true(spares(interrupted_test_after_plain));
}

/* ------------------------------------------------------------------ calls that are interrupted */

struct caller {
	int limit_ms;
	_Atomic int answer, error, handled;
};
static struct caller *caller;

static void on_signal(int number)
{
	(void)number;
	caller->handled++;
}

/* Nothing ever becomes ready. */
static void wait_for_events(int limit_ms)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	sigaction(SIGUSR1, &action, NULL);
	errno = 0;
	caller->answer = epoll_wait(fd, &event, 1, limit_ms);
	caller->error = errno;
}

/* int $0x80: of the other table, where the same number is another call. pause(2), as epoll_wait. */
static void pause_by_the_old_way(int limit_ms)
{
	long answer;

	(void)limit_ms;
	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(OLD_PAUSE) : "memory");
	caller->answer = answer < 0 ? -1 : 0;
	caller->error = (int)-answer;
}

static void wait_until_blocked(pid_t pid, long number)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct limpet_proc_syscall call;

	while (limpet_proc_syscall_read(pid, pid, &call) < 0 || call.running ||
	       call.number != number)
		nanosleep(&moment, NULL);
}

static pid_t start(void (*call)(int limit_ms), long number, int limit_ms)
{
	pid_t parent = getpid(), pid;

	memset(caller, 0, sizeof(*caller));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(99);
		call(limit_ms);
		_exit(0);
	}
	wait_until_blocked(pid, number);
	return pid;
}

static struct limpet_tracer *tracer;

static struct limpet_tracee *stop(pid_t pid)
{
	struct limpet_tracee *tracee;

	assert_int_equal(limpet_tracee_stop(tracer, pid, pid,
					    limpet_monotonic_ns() + 60ull * SECOND_NS, &tracee),
			 0);
	return tracee;
}

static void finish(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_no_stop_ends_a_wait(void **state)
{
	pid_t pid = start(wait_for_events, SYS_epoll_wait, -1);

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct limpet_tracee *tracee = stop(pid);

		assert_int_equal(limpet_tracee_regs(tracee)->orig_rax, SYS_epoll_wait);
		assert_int_equal(limpet_tracee_release(tracee), 0);
	}
	wait_until_blocked(pid, SYS_epoll_wait);
	assert_int_equal(caller->error, 0);
	end(pid);
}

/* While we hold it, and afterwards. */
static void test_a_handler_ends_a_wait(void **state)
{
	(void)state;
	for (int held = 0; held < 2; held++) {
		pid_t pid = start(wait_for_events, SYS_epoll_wait, -1);
		struct limpet_tracee *tracee = stop(pid);

		if (held)
			kill(pid, SIGUSR1);
		assert_int_equal(limpet_tracee_release(tracee), 0);
		if (!held)
			kill(pid, SIGUSR1);
		finish(pid);
		assert_int_equal(caller->handled, 1);
		assert_int_equal(caller->answer, -1);
		assert_int_equal(caller->error, EINTR);
	}
}

static void test_an_ignored_signal_does_not(void **state)
{
	pid_t pid = start(wait_for_events, SYS_epoll_wait, -1);
	struct limpet_tracee *tracee = stop(pid);

	(void)state;
	kill(pid, SIGWINCH);
	assert_int_equal(limpet_tracee_release(tracee), 0);
	tracee = stop(pid);
	assert_int_equal(limpet_tracee_release(tracee), 0);
	wait_until_blocked(pid, SYS_epoll_wait);
	assert_int_equal(caller->error, 0);
	end(pid);
}

/* SIGSTOP and SIGCONT end the wait (signal(7)), with us or without. */
static void test_a_group_stop_ends_a_wait(void **state)
{
	pid_t pid = start(wait_for_events, SYS_epoll_wait, -1);
	struct limpet_tracee *tracee;
	siginfo_t info;

	(void)state;
	kill(pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	tracee = stop(pid);
	assert_int_equal((int64_t)limpet_tracee_regs(tracee)->rax, -EINTR);
	assert_int_equal(limpet_tracee_release(tracee), 0);
	kill(pid, SIGCONT);
	finish(pid);
	assert_int_equal(caller->error, EINTR);
}

/* A kernel without 32-bit programs has no such gate. */
static bool has_old_table(void)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		long answer;

		/* cmocka's handler would go on with the tests in here. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGILL, SIG_DFL);
		/* getpid */
		__asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory");
		_exit(answer != (long)getpid());
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void test_calls_of_another_table_are_left(void **state)
{
	struct user_regs_struct regs;
	struct limpet_tracee *tracee;
	pid_t pid;

	(void)state;
	if (!has_old_table())
		limpet_skip("the kernel runs no 32-bit programs");
	pid = start(pause_by_the_old_way, OLD_PAUSE, 0);
	tracee = stop(pid);
	regs = *limpet_tracee_regs(tracee);
	/* As if that call had ended so: the number is the one of epoll_wait with syscall. */
	regs.orig_rax = SYS_epoll_wait;
	regs.rax = (uint64_t)(int64_t)-EINTR;
	regs.r10 = UINT64_MAX;
	assert_false(limpet_interrupted_again(pid, pid, NULL, &regs));
	assert_int_equal(limpet_tracee_release(tracee), 0);
	end(pid);
}

/* As if the call had been that one, and had ended so. */
static bool is_made_again(pid_t pid, long number, uint64_t first, int error)
{
	struct limpet_tracee *tracee = stop(pid);
	struct user_regs_struct regs = *limpet_tracee_regs(tracee);
	bool again;

	regs.orig_rax = (uint64_t)number;
	regs.rdi = first;
	regs.r10 = UINT64_MAX;
	regs.rax = (uint64_t)(int64_t)-error;
	again = limpet_interrupted_again(pid, pid, NULL, &regs);
	assert_int_equal(limpet_tracee_release(tracee), 0);
	return again;
}

static void test_bpf_says_eagain(void **state)
{
	const pid_t pid = start(wait_for_events, SYS_epoll_wait, -1);

	(void)state;
	assert_true(is_made_again(pid, SYS_bpf, BPF_PROG_LOAD, EAGAIN));
	assert_false(is_made_again(pid, SYS_bpf, BPF_PROG_TEST_RUN, EINTR));
	assert_true(is_made_again(pid, SYS_epoll_wait, 3, EINTR));
	assert_false(is_made_again(pid, SYS_epoll_wait, 3, EAGAIN));
	end(pid);
}

/* ------------------------------------------------------------------ what is left of the time */

static void test_what_is_left(void **state)
{
	struct limpet_timed_wait wait = {.limit_ms = 600000};
	int32_t left;

	(void)state;
	wait.begun_ns = limpet_monotonic_ns() - 300ull * SECOND_NS;
	left = limpet_timed_wait_left(&wait);
	assert_in_range(left, 1, 300000);
	wait.begun_ns = limpet_monotonic_ns() - 700ull * SECOND_NS;
	assert_int_equal(limpet_timed_wait_left(&wait), 0);
	wait.begun_ns = limpet_monotonic_ns() + 700ull * SECOND_NS;
	assert_int_equal(limpet_timed_wait_left(&wait), 600000);
}

/* By clocks that are read before the child begins and after it has stopped: what it is said to have
 * waited, and so what is left, lies between. Rounding adds a millisecond. */
static void test_a_limit_is_shortened_by_what_was_waited(void **state)
{
	const struct timespec moment = {.tv_nsec = 50000000};
	const int32_t limit_ms = 600000;
	struct limpet_proc_sched sched;

	(void)state;
	if (limpet_proc_sched_read(getpid(), getpid(), &sched) < 0)
		skip();
	for (int tries = 0; tries < 100; tries++) {
		const uint64_t started_ns = limpet_monotonic_ns();
		pid_t pid = start(wait_for_events, SYS_epoll_wait, limit_ms);
		const uint64_t blocked_ns = limpet_monotonic_ns();
		const struct user_regs_struct *regs;
		struct limpet_tracee *tracee;
		uint64_t before_ns, after_ns;
		int64_t least_ms, most_ms;
		bool again;

		nanosleep(&moment, NULL);
		before_ns = limpet_monotonic_ns();
		tracee = stop(pid);
		after_ns = limpet_monotonic_ns();
		regs = limpet_tracee_regs(tracee);
		again = (int64_t)regs->rax != -EINTR;
		least_ms = limit_ms - (int64_t)((after_ns - started_ns) / 1000000u);
		most_ms = limit_ms - (int64_t)((before_ns - blocked_ns) / 1000000u) + 1;
		if (again)
			assert_in_range(regs->r10, least_ms, most_ms);
		assert_int_equal(limpet_tracee_release(tracee), 0);
		end(pid);
		/* Unknown if it was woken meanwhile, or our processor is not to be had. */
		if (again)
			return;
	}
	fail_msg("the time was never known");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_calls_are_made_again),
		cmocka_unit_test(test_a_register_that_is_read_is_left),
		cmocka_unit_test(test_no_stop_ends_a_wait),
		cmocka_unit_test(test_a_handler_ends_a_wait),
		cmocka_unit_test(test_an_ignored_signal_does_not),
		cmocka_unit_test(test_a_group_stop_ends_a_wait),
		cmocka_unit_test(test_calls_of_another_table_are_left),
		cmocka_unit_test(test_bpf_says_eagain),
		cmocka_unit_test(test_what_is_left),
		cmocka_unit_test(test_a_limit_is_shortened_by_what_was_waited),
	};

	assert_int_equal(limpet_tracer_new(&tracer), 0);
	caller = mmap(NULL, sizeof(*caller), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(caller != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
