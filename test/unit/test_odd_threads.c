/* Threads that stand where they must not be hijacked, tried on children that are stopped there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/rseq.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/ptrace/tracee.h"
#include "test/unit/skip_reason.h"

#define SECOND_NS 1000000000ull
#define PAGE 4096u
#define GET_RSEQ_CONFIGURATION 0x420f

static struct limpet_tracer *tracer;
/* As a kernel that does not know the request. */
static bool kernel_is_old;

long __real_ptrace(int request, ...);
long __wrap_ptrace(int request, pid_t tid, void *address, void *data);
long __wrap_ptrace(int request, pid_t tid, void *address, void *data)
{
	if (request != GET_RSEQ_CONFIGURATION || !kernel_is_old)
		return __real_ptrace(request, tid, address, data);
	errno = EIO;
	return -1;
}

/* ------------------------------------------------------------------ where they stand */

#define CODE_32 0x10000000u

static int *is_there; /* shared with the child, below 4 GiB */

static void stand_in_a_call(void)
{
	*is_there = 1;
	for (;;)
		pause();
}

static void stand_outside(void)
{
	*is_there = 1;
	for (;;)
		__asm__ volatile("");
}

extern const char section_begin[] __attribute__((visibility("hidden"))),
	section_end[] __attribute__((visibility("hidden")));

/* Whatever comes between begins the section anew. */
static __attribute__((noinline)) void stand_in_a_section(void)
{
	struct rseq *rseq =
		(struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t"
			 ".balign 32\n\t"
			 "3: .long 0, 0\n\t"
			 ".quad 1f, 2f - 1f, 4f\n\t"
			 ".popsection\n\t"
			 "jmp 5f\n\t"
			 ".byte 0x0f, 0xb9, 0x3d\n\t"
			 ".long %c[signature]\n\t"
			 "4:\n\t"
			 "5: leaq 3b(%%rip), %%rax\n\t"
			 "movq %%rax, %c[section](%[rseq])\n\t"
			 ".globl section_begin, section_end\n\t"
			 "section_begin:\n\t"
			 "1: movl $1, (%[there])\n\t"
			 "jmp 1b\n\t"
			 "section_end:\n\t"
			 "2:\n\t"
			 :
			 : [rseq] "r"(rseq), [there] "r"(is_there),
			   [section] "i"(offsetof(struct rseq, rseq_cs)), [signature] "i"(RSEQ_SIG)
			 : "rax", "cc", "memory");
}

/* Of a far return: the code's address, and the selector of 32-bit code. */
static const uint32_t code_32[2] = {CODE_32, 0x23};

static void stand_in_32_bit_code(void)
{
	/* until it is killed: *is_there = 1 */
	const uint8_t code[] = {0xc7, 0x05, 0, 0, 0, 0, 1, 0, 0, 0, 0xeb, 0xf4};
	const uint32_t there = (uint32_t)(uintptr_t)is_there;
	uint8_t *at = mmap((void *)(uintptr_t)CODE_32, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (at == MAP_FAILED)
		_exit(1);
	memcpy(at, code, sizeof(code));
	memcpy(at + 2, &there, sizeof(there));
	__asm__ volatile("movl %0, %%ds\n\t"
			 "ljmpl *%1"
			 :
			 : "r"(0x2b), "m"(code_32)
			 : "memory");
}

/* It may write where it says that it is there, and nowhere else. */
static void stand_without_key_0(void)
{
	const int key = pkey_alloc(0, 0);

	if (key < 0 || pkey_mprotect(is_there, PAGE, PROT_READ | PROT_WRITE, key))
		_exit(1);
	__asm__ volatile("wrpkru\n\t"
			 "movl $1, (%[there])\n\t"
			 "1: jmp 1b"
			 :
			 : "a"(3), "c"(0), "d"(0), [there] "r"(is_there)
			 : "memory");
}

static void wait_for(const int *word)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		nanosleep(&moment, NULL);
}

static pid_t start_child(void (*stand)(void))
{
	pid_t parent = getpid(), child;

	*is_there = 0;
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			stand();
		_exit(0);
	}
	wait_for(is_there);
	return child;
}

static void reap(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* What says that it is there is right before the call, and a section may just begin anew. */
static bool stands(const struct limpet_tracee *tracee, void (*stand)(void))
{
	const struct user_regs_struct *regs = limpet_tracee_regs(tracee);

	if (stand == stand_in_a_call)
		return (int64_t)regs->orig_rax >= 0;
	return stand != stand_in_a_section ||
	       (regs->rip >= (uintptr_t)section_begin && regs->rip < (uintptr_t)section_end);
}

static struct limpet_tracee *stop_child(void (*stand)(void))
{
	pid_t child = start_child(stand);

	for (;;) {
		struct limpet_tracee *tracee;

		assert_int_equal(limpet_tracee_stop(tracer, child, child,
						    limpet_monotonic_ns() + 60 * SECOND_NS,
						    &tracee),
				 0);
		if (stands(tracee, stand))
			return tracee;
		assert_int_equal(limpet_tracee_release(tracee), 0);
	}
}

static void end_child(struct limpet_tracee *tracee)
{
	pid_t child = limpet_tracee_tid(tracee);

	assert_int_equal(limpet_tracee_release(tracee), 0);
	reap(child);
}

/* ------------------------------------------------------------------ tests */

static bool is_in_rseq(void (*stand)(void), bool old)
{
	struct limpet_tracee *tracee = stop_child(stand);
	bool answer;

	kernel_is_old = old;
	answer = limpet_tracee_in_rseq(tracee);
	kernel_is_old = false;
	end_child(tracee);
	return answer;
}

static void test_a_restartable_sequence(void **state)
{
	(void)state;
	assert_true(is_in_rseq(stand_outside, true));
	assert_false(is_in_rseq(stand_in_a_call, true));
	if (!__rseq_size)
		limpet_skip("the C library registers no restartable sequences");
	assert_true(is_in_rseq(stand_in_a_section, true));
	assert_true(is_in_rseq(stand_in_a_section, false));
	assert_false(is_in_rseq(stand_outside, false));
	assert_false(is_in_rseq(stand_in_a_call, false));
}

/* A child that tries ends, or is there. */
static bool has_32_bit_code(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	pid_t child;

	*is_there = 0;
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		/* cmocka's handler would go on with the tests in here. */
		signal(SIGSEGV, SIG_DFL);
		stand_in_32_bit_code();
		_exit(0);
	}
	while (!__atomic_load_n(is_there, __ATOMIC_ACQUIRE)) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return false;
		nanosleep(&moment, NULL);
	}
	reap(child);
	return true;
}

static void test_32_bit_code(void **state)
{
	struct limpet_tracee *tracee;

	(void)state;
	if (!has_32_bit_code())
		limpet_skip("the kernel runs no 32-bit programs");
	tracee = stop_child(stand_in_32_bit_code);
	assert_true(limpet_tracee_runs_32_bit(tracee));
	assert_in_range(limpet_tracee_regs(tracee)->rip, CODE_32, CODE_32 + PAGE - 1);
	assert_int_equal(limpet_tracee_regs(tracee)->fs_base,
			 (uintptr_t)__builtin_thread_pointer());
	end_child(tracee);
	tracee = stop_child(stand_outside);
	assert_false(limpet_tracee_runs_32_bit(tracee));
	end_child(tracee);
}

static int hijack(void (*stand)(void))
{
	static const uint8_t code[] = {0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0,
				       0x0f, 0,    0,    0,    0x0f, 0x05};
	struct limpet_tracee_gadgets gadgets = {.syscall = 0};
	struct limpet_tracee *tracee = stop_child(stand);
	int answer;

	assert_true(limpet_tracee_find_gadgets(code, sizeof(code), (uintptr_t)code, &gadgets));
	answer = limpet_tracee_hijack(tracee, &gadgets, limpet_tracee_regs(tracee)->rsp - 65536);
	end_child(tracee);
	return answer;
}

static void test_protection_keys(void **state)
{
	const int key = pkey_alloc(0, 0);

	(void)state;
	assert_int_equal(hijack(stand_outside), 0);
	if (key < 0)
		limpet_skip("the processor, or the kernel, has no protection keys");
	pkey_free(key);
	assert_int_equal(hijack(stand_without_key_0), -EACCES);
}

/* As LeakSanitizer does: a child of the program's traces it. */
static void stand_and_be_traced(void)
{
	const pid_t parent = getpid();

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (fork())
		stand_in_a_call();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ptrace(PTRACE_SEIZE, parent, NULL, NULL))
		_exit(1);
	is_there[1] = getpid();
	for (;;)
		pause();
}

static int try_to_stop(pid_t child)
{
	struct limpet_tracee *tracee;
	int error = limpet_tracee_stop(tracer, child, child, limpet_monotonic_ns() + 60 * SECOND_NS,
				       &tracee);

	if (!error)
		limpet_tracee_release(tracee);
	return error;
}

static void test_a_tracer_of_its_own(void **state)
{
	const pid_t child = start_child(stand_and_be_traced), other = start_child(stand_in_a_call);
	pid_t stranger;

	(void)state;
	wait_for(&is_there[1]);
	assert_int_equal(try_to_stop(child), -ETIMEDOUT);
	assert_int_equal(kill(is_there[1], SIGKILL), 0);
	while (try_to_stop(child) == -ETIMEDOUT)
		;
	assert_int_equal(try_to_stop(child), 0);

	is_there[1] = 0;
	stranger = fork();
	assert_true(stranger >= 0);
	if (!stranger) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		is_there[1] = ptrace(PTRACE_SEIZE, other, NULL, NULL) ? -1 : 1;
		for (;;)
			pause();
	}
	wait_for(&is_there[1]);
	assert_int_equal(is_there[1], 1);
	assert_int_equal(try_to_stop(other), -EPERM);
	reap(stranger);
	reap(other);
	reap(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_restartable_sequence),
		cmocka_unit_test(test_32_bit_code),
		cmocka_unit_test(test_protection_keys),
		cmocka_unit_test(test_a_tracer_of_its_own),
	};

	is_there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_32BIT,
			-1, 0);
	if (is_there == MAP_FAILED || limpet_tracer_new(&tracer))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
