/* The signal frame that brings a hijacked thread home, tried on a child: everything that the thread
 * had in its registers is there again, whatever we left in them.
 *
 * The frame's layout is the kernel's; only the kernel can say that it is right. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cpuid.h>
#include <elf.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/tracee.h"

#define RED_ZONE 128u
#define SW_RESERVED 464u
#define XSAVE_HEADER 512u
#define FEATURE_TILE_CONFIG 17
#define FEATURE_TILE_DATA 18
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define REGSET_ROOM 65536u

/* ------------------------------------------------------------------ the child's registers */

enum vector_width { WIDTH_SSE = 0, WIDTH_AVX = 1, WIDTH_AVX512 = 2 };

struct pattern {
	uint64_t general[14]; /* rax rbx rcx rdx rsi rbp r8..r15 */
	uint64_t rdi;
	uint64_t flags;
	double x87[2];
	uint32_t mxcsr;
	uint32_t width;
	uint64_t masks[8];
	uint8_t vectors[32][64];
};
_Static_assert(offsetof(struct pattern, rdi) == 112, "known to fill_and_spin");
_Static_assert(offsetof(struct pattern, x87) == 128, "known to fill_and_spin");
_Static_assert(offsetof(struct pattern, mxcsr) == 144, "known to fill_and_spin");
_Static_assert(offsetof(struct pattern, masks) == 152, "known to fill_and_spin");
_Static_assert(offsetof(struct pattern, vectors) == 216, "known to fill_and_spin");

/* clang-format off */
__asm__(".text\n"
	".balign 16\n"
	"home_test_fill_and_spin:\n"
	"	fninit\n"
	"	fldl 128(%rdi)\n"
	"	fldl 136(%rdi)\n"
	"	ldmxcsr 144(%rdi)\n"
	"	cmpl $1, 148(%rdi)\n"
	"	ja 2f\n"
	"	je 1f\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	movdqu 216+64*\\n(%rdi), %xmm\\n\n"
	".endr\n"
	"	jmp 3f\n"
	"1:\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"	vmovdqu 216+64*\\n(%rdi), %ymm\\n\n"
	".endr\n"
	"	jmp 3f\n"
	"2:\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, "
	"23, 24, 25, 26, 27, 28, 29, 30, 31\n"
	"	vmovdqu64 216+64*\\n(%rdi), %zmm\\n\n"
	".endr\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n"
	"	kmovw 152+8*\\n(%rdi), %k\\n\n"
	".endr\n"
	"3:\n"
	"	movq 0(%rdi), %rax\n"
	"	movq 8(%rdi), %rbx\n"
	"	movq 16(%rdi), %rcx\n"
	"	movq 24(%rdi), %rdx\n"
	"	movq 32(%rdi), %rsi\n"
	"	movq 40(%rdi), %rbp\n"
	"	movq 48(%rdi), %r8\n"
	"	movq 56(%rdi), %r9\n"
	"	movq 64(%rdi), %r10\n"
	"	movq 72(%rdi), %r11\n"
	"	movq 80(%rdi), %r12\n"
	"	movq 88(%rdi), %r13\n"
	"	movq 96(%rdi), %r14\n"
	"	movq 104(%rdi), %r15\n"
	"	pushq 120(%rdi)\n"
	"	popfq\n"
	"	movq 112(%rdi), %rdi\n"
	"home_test_spin:\n"
	"	jmp home_test_spin\n"
	"home_test_return:\n"
	"	ret\n"
	"home_test_restorer:\n"
	"	movl $15, %eax\n"
	"	syscall\n"
	"	ud2\n"
	"home_test_call:\n"
	"	syscall\n"
	"	ret\n");
/* clang-format on */
extern __attribute__((visibility("hidden"), noreturn)) void home_test_fill_and_spin(
	const struct pattern *pattern);
extern __attribute__((visibility("hidden"))) const char home_test_spin[], home_test_return[],
	home_test_restorer[], home_test_call[];

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

static enum vector_width widest(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		return WIDTH_AVX512;
	return __builtin_cpu_supports("avx") ? WIDTH_AVX : WIDTH_SSE;
}

static void make_pattern(struct pattern *pattern)
{
	uint8_t *bytes = (uint8_t *)pattern;

	for (size_t i = 0; i < sizeof(*pattern); i++)
		bytes[i] = (uint8_t)(random_word() >> 56) | 1; /* no piece of it is an init state */
	pattern->flags = 0xed7; /* all status flags and the direction flag; interrupts on */
	pattern->x87[0] = 3.25;
	pattern->x87[1] = -1e100;
	pattern->mxcsr = 0x7f80; /* all masked, rounding toward zero */
	pattern->width = widest();
}

/* Tiles of a thread that was granted them: their state makes the frame four times as long. */
static void fill_tiles(void)
{
	static const uint8_t config[64]
		__attribute__((aligned(64))) = {1, [16] = 64, 0, 64, 0, [48] = 16, 16};
	static uint8_t data[2][1024] __attribute__((aligned(64)));
	uint32_t a, b, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) ||
	    syscall(SYS_arch_prctl, REQUEST_PERMISSION, FEATURE_TILE_DATA) != 0)
		return;
	for (size_t i = 0; i < sizeof(data); i++)
		((uint8_t *)data)[i] = (uint8_t)(i * 7 + 3);
	__asm__ volatile("ldtilecfg %0" : : "m"(config));
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(data[0]), "r"(64l) : "memory");
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(data[1]), "r"(64l) : "memory");
}

/* ------------------------------------------------------------------ tracing it */

struct state {
	struct user_regs_struct regs;
	uint8_t xstate[REGSET_ROOM];
	size_t xstate_bytes;
	uint64_t mask;
};

static void wait_for_stop(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	if (!WIFSTOPPED(status) || status >> 16 != PTRACE_EVENT_STOP)
		fail_msg("the child did not stop: status 0x%x", status);
}

static void interrupt(pid_t pid)
{
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	wait_for_stop(pid);
}

static void read_state(pid_t pid, struct state *state)
{
	struct iovec vector = {state->xstate, sizeof(state->xstate)};

	assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &state->regs), 0);
	assert_int_equal(ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &vector), 0);
	state->xstate_bytes = vector.iov_len;
	assert_int_equal(ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof(state->mask), &state->mask),
			 0);
}

/* What a hijacked thread may leave behind, at worst: other registers, empty vectors, all blocked.
 */
static void ruin_state(pid_t pid, const struct state *state, uint64_t pc, uint64_t sp)
{
	static uint8_t xstate[REGSET_ROOM];
	struct iovec vector = {xstate, state->xstate_bytes};
	struct user_regs_struct regs = state->regs;
	uint64_t everything = ~0ull;

	memcpy(xstate, state->xstate, state->xstate_bytes);
	memset(xstate + XSAVE_HEADER, 0,
	       8); /* nothing in use: all components in their init state */
	assert_int_equal(ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &vector), 0);
	assert_int_equal(ptrace(PTRACE_SETSIGMASK, pid, (void *)sizeof(everything), &everything),
			 0);
	regs.rax = regs.rbx = regs.rcx = regs.rdx = regs.rsi = regs.rdi = regs.rbp = 0xbad;
	regs.r8 = regs.r9 = regs.r10 = regs.r11 = regs.r12 = regs.r13 = regs.r14 = regs.r15 = 0xbad;
	regs.eflags = 0x202;
	regs.orig_rax = (unsigned long long)-1;
	regs.rip = pc;
	regs.rsp = sp;
	assert_int_equal(ptrace(PTRACE_SETREGS, pid, NULL, &regs), 0);
}

/* Prepares the frame, spoils the thread, and lets it find its way: `request` sets it going. */
static void send_home(pid_t pid, const struct state *state, int request)
{
	const struct limpet_sigreturn_state wanted = {&state->regs, state->xstate,
						      state->xstate_bytes, state->mask};
	const uint64_t top = state->regs.rsp - RED_ZONE;
	struct limpet_sigreturn_frame frame;
	uint64_t address;

	assert_int_equal(limpet_sigreturn_frame_build(
				 &wanted, (uint64_t)(uintptr_t)home_test_restorer, top, &frame),
			 0);
	address = frame.address;
	/* Nothing above `top` belongs to us. */
	assert_true(address + frame.bytes <= top);
	assert_int_equal(address % 16, 8);
	assert_int_equal(limpet_memory_write(pid, address, frame.image, frame.bytes), 0);
	free(frame.image);
	ruin_state(pid, state, (uint64_t)(uintptr_t)home_test_return, address);
	assert_int_equal(ptrace(request, pid, NULL, NULL), 0);
}

static pid_t start_child(void (*body)(void *), void *context)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(99);
	body(context);
	_exit(98);
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
}

static void pause_a_moment(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	nanosleep(&moment, NULL);
}

/* Stopped, and with its registers full. */
static void stop_in_spin(pid_t pid, struct state *state)
{
	for (;;) {
		interrupt(pid);
		read_state(pid, state);
		if (state->regs.rip == (uint64_t)(uintptr_t)home_test_spin)
			return;
		assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
		pause_a_moment();
	}
}

static void fill_and_spin(void *context)
{
	fill_tiles();
	home_test_fill_and_spin(context);
}

static void assert_same_xstate(const struct state *was, const struct state *is)
{
	uint64_t in_use_was, in_use_is;

	assert_int_equal(is->xstate_bytes, was->xstate_bytes);
	memcpy(&in_use_was, was->xstate + XSAVE_HEADER, 8);
	memcpy(&in_use_is, is->xstate + XSAVE_HEADER, 8);
	assert_int_equal(in_use_is & in_use_was, in_use_was);
	/* x87 and SSE: the legacy area without the software's bytes. */
	assert_memory_equal(is->xstate, was->xstate, SW_RESERVED);
	for (uint32_t i = 2; i < 63; i++) {
		uint32_t bytes, offset, c, d;

		if (!(in_use_was >> i & 1))
			continue;
		__cpuid_count(0xd, i, bytes, offset, c, d);
		assert_true(offset + bytes <= was->xstate_bytes);
		if (memcmp(is->xstate + offset, was->xstate + offset, bytes) != 0)
			fail_msg("extended state %u did not come home", i);
	}
}

static void assert_same_registers(const struct state *was, const struct state *is)
{
	const struct user_regs_struct *a = &was->regs, *b = &is->regs;

	assert_int_equal(b->rax, a->rax);
	assert_int_equal(b->rbx, a->rbx);
	assert_int_equal(b->rcx, a->rcx);
	assert_int_equal(b->rdx, a->rdx);
	assert_int_equal(b->rsi, a->rsi);
	assert_int_equal(b->rdi, a->rdi);
	assert_int_equal(b->rbp, a->rbp);
	assert_int_equal(b->rsp, a->rsp);
	assert_int_equal(b->r8, a->r8);
	assert_int_equal(b->r9, a->r9);
	assert_int_equal(b->r10, a->r10);
	assert_int_equal(b->r11, a->r11);
	assert_int_equal(b->r12, a->r12);
	assert_int_equal(b->r13, a->r13);
	assert_int_equal(b->r14, a->r14);
	assert_int_equal(b->r15, a->r15);
	assert_int_equal(b->rip, a->rip);
	assert_int_equal(b->eflags, a->eflags);
	assert_int_equal(b->cs, a->cs);
	assert_int_equal(b->ss, a->ss);
	assert_int_equal(b->fs_base, a->fs_base);
	assert_int_equal(b->gs_base, a->gs_base);
	assert_int_equal(is->mask, was->mask);
}

static struct state before, after;

static void test_every_register_comes_home(void **state)
{
	static struct pattern pattern;
	sigset_t some, old;

	(void)state;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR2);
	sigaddset(&some, SIGRTMIN + 3);
	for (int round = 0; round < 5; round++) {
		pid_t pid;

		make_pattern(&pattern);
		sigprocmask(SIG_BLOCK, &some, &old);
		pid = start_child(fill_and_spin, &pattern);
		sigprocmask(SIG_SETMASK, &old, NULL);
		assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
		stop_in_spin(pid, &before);
		/* What the child was told to hold, so that two wrongs do not agree. */
		assert_int_equal(before.regs.rax, pattern.general[0]);
		assert_int_equal(before.regs.r15, pattern.general[13]);
		assert_int_equal(before.regs.eflags & 0xcd5, pattern.flags & 0xcd5);
		assert_memory_equal(before.xstate + 160, pattern.vectors[0], 16);
		if (pattern.width >= WIDTH_AVX)
			assert_memory_equal(before.xstate + 576, pattern.vectors[0] + 16, 16);
		assert_int_not_equal(before.mask, 0);

		send_home(pid, &before, PTRACE_CONT);
		stop_in_spin(pid, &after);
		assert_same_registers(&before, &after);
		assert_same_xstate(&before, &after);
		end_child(pid);
	}
}

/* ------------------------------------------------------------------ interrupted system calls */

enum call { CALL_READ, CALL_FUTEX, CALL_PAUSE, CALL_NANOSLEEP };

struct caller {
	enum call call;
	int pipe[2];
	int futex;
};

static char alternate_stack[65536];
static volatile sig_atomic_t handled_on_alternate;

static void on_signal(int number)
{
	char here;

	(void)number;
	handled_on_alternate =
		(uintptr_t)&here - (uintptr_t)alternate_stack < sizeof(alternate_stack);
}

/* Exits with 0 if the call ended as it should and the thread is what it was. */
static void make_call(void *context)
{
	struct caller *caller = context;
	const stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack)};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	const struct timespec long_time = {.tv_sec = 3600};
	char text[4] = "";
	stack_t now;
	long answer;

	if (sigaltstack(&stack, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0)
		_exit(1);
	errno = 0;
	switch (caller->call) {
	case CALL_READ:
		answer = read(caller->pipe[0], text, sizeof(text));
		if (answer != 4 || memcmp(text, "home", 4) != 0)
			_exit(2);
		break;
	case CALL_FUTEX:
		answer = syscall(SYS_futex, &caller->futex, FUTEX_WAIT, 0, NULL, NULL, 0);
		if (answer != 0)
			_exit(3);
		break;
	case CALL_PAUSE:
		answer = syscall(SYS_pause);
		if (answer != -1 || errno != EINTR || !handled_on_alternate)
			_exit(4);
		break;
	case CALL_NANOSLEEP:
		/* Its restart block is lost: it ends, as after a signal. */
		answer = nanosleep(&long_time, NULL);
		if (answer != -1 || errno != EINTR)
			_exit(5);
		break;
	}
	if (sigaltstack(NULL, &now) < 0 || now.ss_sp != alternate_stack ||
	    now.ss_size != sizeof(alternate_stack) || now.ss_flags != 0)
		_exit(6);
	_exit(0);
}

static void wait_until_blocked(pid_t pid, long number, struct limpet_proc_syscall *ret)
{
	for (;;) {
		if (limpet_proc_syscall_read(pid, pid, ret) == 0 && !ret->running &&
		    ret->number == number)
			return;
		pause_a_moment();
	}
}

static void wake(pid_t pid, struct caller *caller)
{
	switch (caller->call) {
	case CALL_READ:
		assert_int_equal(write(caller->pipe[1], "home", 4), 4);
		break;
	case CALL_FUTEX:
		while (syscall(SYS_futex, &caller->futex, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
			pause_a_moment();
		break;
	case CALL_PAUSE:
		kill(pid, SIGUSR1);
		break;
	case CALL_NANOSLEEP:
		break;
	}
}

static void go_home_from(enum call call, long number, int64_t interrupted)
{
	struct caller *caller =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct limpet_proc_syscall blocked, again;
	int status = 0;
	pid_t pid;

	assert_true(caller != MAP_FAILED);
	caller->call = call;
	assert_int_equal(pipe(caller->pipe), 0);
	pid = start_child(make_call, caller);
	wait_until_blocked(pid, number, &blocked);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	interrupt(pid);
	read_state(pid, &before);
	assert_int_equal(before.regs.orig_rax, number);
	assert_int_equal((int64_t)before.regs.rax, interrupted);
	send_home(pid, &before, PTRACE_DETACH);
	if (call != CALL_NANOSLEEP) {
		/* In the same call again, by itself. */
		wait_until_blocked(pid, number, &again);
		assert_memory_equal(again.args, blocked.args, sizeof(blocked.args));
		assert_int_equal(again.sp, blocked.sp);
		assert_int_equal(again.pc, blocked.pc);
	}
	wake(pid, caller);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(caller->pipe[0]);
	close(caller->pipe[1]);
	munmap(caller, 4096);
}

static void test_read_goes_on(void **state)
{
	(void)state;
	go_home_from(CALL_READ, SYS_read, -512);
}

static void test_futex_goes_on(void **state)
{
	(void)state;
	go_home_from(CALL_FUTEX, SYS_futex, -512);
}

static void test_pause_goes_on(void **state)
{
	(void)state;
	go_home_from(CALL_PAUSE, SYS_pause, -514);
}

static void test_sleep_ends_with_eintr(void **state)
{
	(void)state;
	go_home_from(CALL_NANOSLEEP, SYS_clock_nanosleep, -516);
}

/* ------------------------------------------------------------------ given up */

static void note_handler(int number)
{
	(void)number;
}

static void pause_once(void *context)
{
	const struct sigaction action = {.sa_handler = context, .sa_flags = SA_RESTART};

	if (sigaction(SIGUSR1, &action, NULL) < 0)
		_exit(1);
	_exit(syscall(SYS_pause) == -1 && errno == EINTR ? 0 : 2);
}

/* Hijacks the child in pause(), and gives it up after the signal has come. */
static pid_t give_up_in_pause(void (*handler)(int))
{
	const uint64_t second_ns = 1000000000u;
	struct limpet_tracee_gadgets gadgets = {.syscall = (uintptr_t)home_test_call,
						.restorer = (uintptr_t)home_test_restorer};
	pid_t pid = start_child(pause_once, (void *)(uintptr_t)handler);
	struct limpet_proc_syscall blocked;
	struct limpet_tracer *tracer;
	struct limpet_tracee *tracee;

	wait_until_blocked(pid, SYS_pause, &blocked);
	assert_int_equal(limpet_tracer_new(&tracer), 0);
	assert_int_equal(limpet_tracee_stop(tracer, pid, pid,
					    limpet_monotonic_ns() + 60 * second_ns, &tracee),
			 0);
	assert_int_equal(
		limpet_tracee_hijack(tracee, &gadgets, limpet_tracee_regs(tracee)->rsp - 65536), 0);
	kill(pid, SIGUSR1);
	assert_int_equal(limpet_tracee_abandon(tracee), 0);
	limpet_tracer_free(tracer);
	return pid;
}

static void test_a_handler_ends_a_call_that_is_given_up(void **state)
{
	struct limpet_proc_syscall again;
	int status = 0;
	pid_t pid;

	(void)state;
	pid = give_up_in_pause(note_handler);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* Nothing else does. */
	pid = give_up_in_pause(SIG_IGN);
	wait_until_blocked(pid, SYS_pause, &again);
	end_child(pid);
}

/* ------------------------------------------------------------------ the image alone */

#define OFFSET_RAX (8 + 40 + 8 * 13)
#define OFFSET_RIP (8 + 40 + 8 * 16)

static void build(const struct user_regs_struct *regs, uint64_t *ret_rax, uint64_t *ret_rip)
{
	static uint8_t xstate[4096];
	const uint64_t top = 0x7ffff0000000, plain = 3; /* x87 and SSE */
	const struct limpet_sigreturn_state state = {regs, xstate, sizeof(xstate), 0};
	struct limpet_sigreturn_frame frame;

	memset(xstate, 0, sizeof(xstate));
	memcpy(xstate + SW_RESERVED, &plain, 8);
	assert_int_equal(limpet_sigreturn_frame_build(&state, 0x1000, top, &frame), 0);
	memcpy(ret_rax, frame.image + OFFSET_RAX, 8);
	memcpy(ret_rip, frame.image + OFFSET_RIP, 8);
	free(frame.image);
}

/* arch_do_signal_or_restart() of the kernel, for each way in which a call may have been left. */
static void test_restart_rules(void **state)
{
	static const struct {
		int64_t orig_rax, rax, rax_home, rip_home;
	} cases[] = {
		{0, -512, 0, -2},       /* ERESTARTSYS: read */
		{57, -513, 57, -2},     /* ERESTARTNOINTR: fork */
		{34, -514, 34, -2},     /* ERESTARTNOHAND: pause */
		{230, -516, -EINTR, 0}, /* ERESTART_RESTARTBLOCK: clock_nanosleep */
		{0, -EINTR, -EINTR, 0}, /* over, whatever it answered */
		{0, 17, 17, 0},         {0, -515, -515, 0}, /* no such way out of a call */
		{-1, -512, -512, 0}, /* not in a call: rax is the program's own */
		{-1, 1234, 1234, 0},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		struct user_regs_struct regs = {.rip = 0x400100,
						.rax = (uint64_t)cases[i].rax,
						.orig_rax = (uint64_t)cases[i].orig_rax};
		uint64_t rax, rip;

		build(&regs, &rax, &rip);
		assert_int_equal((int64_t)rax, cases[i].rax_home);
		assert_int_equal((int64_t)(rip - 0x400100), cases[i].rip_home);
	}
}

/* The first component behind SSE is no reason to believe in bytes that are not there. */
static void test_too_little_state_is_refused(void **state)
{
	static uint8_t xstate[1024];
	const uint64_t features = ~0ull;
	struct user_regs_struct regs = {.rip = 1};
	struct limpet_sigreturn_state wanted = {&regs, xstate, 0, 0};
	struct limpet_sigreturn_frame frame = {2, (uint8_t *)1, 3};

	(void)state;
	memcpy(xstate + SW_RESERVED, &features, 8);
	for (; wanted.xstate_bytes < 576; wanted.xstate_bytes += 64)
		assert_int_equal(limpet_sigreturn_frame_build(&wanted, 0, 1 << 20, &frame),
				 -ENOTSUP);
	wanted.xstate_bytes = 600;
	if (widest() > WIDTH_SSE)
		assert_int_equal(limpet_sigreturn_frame_build(&wanted, 0, 1 << 20, &frame),
				 -ENOTSUP);
	assert_ptr_equal(frame.image, (uint8_t *)1);
	assert_int_equal(frame.address, 2);
	assert_int_equal(frame.bytes, 3);
}

/* Where PKRU lies is the processor's choice. */
static void test_rights_by_protection_keys(void **state)
{
	enum { PKRU = 9, OFFSET = 832, BYTES = OFFSET + 8 };
	static uint8_t xstate[BYTES];
	uint64_t features = 1u << PKRU | 7;
	static const struct {
		uint32_t pkru;
		bool denies;
	} values[] = {{0, false},         {1, true},           {2, true},
		      {3, true},          {0x55555554, false}, {0xfffffffc, false},
		      {0x55555555, true}, {0x55555556, true}};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(values); i++) {
		memcpy(xstate + SW_RESERVED, &features, sizeof(features));
		memcpy(xstate + OFFSET, &values[i].pkru, sizeof(values[i].pkru));
		assert_int_equal(limpet_xstate_denies_key_0(xstate, BYTES, OFFSET),
				 values[i].denies);
	}
	/* A processor, a kernel or a thread without keys. */
	assert_false(limpet_xstate_denies_key_0(xstate, BYTES, 0));
	assert_false(limpet_xstate_denies_key_0(xstate, OFFSET + 3, OFFSET));
	features = 7;
	memcpy(xstate + SW_RESERVED, &features, sizeof(features));
	assert_false(limpet_xstate_denies_key_0(xstate, BYTES, OFFSET));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_register_comes_home),
		cmocka_unit_test(test_read_goes_on),
		cmocka_unit_test(test_futex_goes_on),
		cmocka_unit_test(test_pause_goes_on),
		cmocka_unit_test(test_sleep_ends_with_eintr),
		cmocka_unit_test(test_a_handler_ends_a_call_that_is_given_up),
		cmocka_unit_test(test_restart_rules),
		cmocka_unit_test(test_too_little_state_is_refused),
		cmocka_unit_test(test_rights_by_protection_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
