/* clang-format off */
/* registers: threads that keep known values in everything a thread has, and look all the while.
 *
 *	registers spin         no thread ever sleeps: whoever is hijacked is hijacked from its own
 *                         code
 *	registers block        threads sleep in system calls of 2 ms with live registers; the main
 *                         thread waits in epoll_wait, and is the last to be hijacked
 *	registers main         one thread, which waits for its input with live registers
 *	registers rseq         threads that count by restartable sequences, and do not sleep
 *
 * Kept: general and vector registers up to what the processor has (SSE, AVX, AVX-512 with its
 * masks, AMX tiles), x87 stack and control word, MXCSR, direction flag, red zone, errno, GS base,
 * signal mask, alternate stack, robust list (and a robust mutex that is held), registration of
 * rseq.
 *
 * "ready PID KINDS"; "check" answers "fine N" with the looks so far; "interrupted" allows calls to
 * end with EINTR from now on, and is answered by "noted"; "quit" ends it: rseq's counts have to add
 * up, and the robust mutex of a thread that has ended is handed on. A difference ends it with 70.
 */
/* clang-format on */
#include <cpuid.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include "test/targets/registers.h"
#include "test/targets/target.h"

#define ARCH_SET_GS 0x1001
#define ARCH_GET_GS 0x1004
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_TILEDATA 18
#define KERNEL_SIGSET_BYTES 8
#define DIRECTION_FLAG 0x400u
#define MXCSR_PLAIN 0x1f80u
#define MAX_CPUS 1024
#define MAX_THREADS 16
#define NAP_NS 2000000

enum general { RAX, RBX, RCX, RDX, RSI, RDI, RBP, R8, R9, R10, R11 };

struct registers_state {
	uint64_t general_in[16], general_out[16];
	uint64_t red_in[16], red_out[16];
	uint64_t sp_in, sp_out, flags_out, spins, direction, level;
	uint64_t control_in, control_out, status_out, mxcsr_in, mxcsr_out, mxcsr_plain;
	uint64_t unused[4];
	uint64_t mask_in[8], mask_out[8];
	uint8_t x87_in[8][16], x87_out[8][16];
	uint8_t vector_in[32][64], vector_out[32][64];
	uint8_t tile_config[64];
	uint8_t tile_in[8][1024], tile_out[8][1024];
};
#define PLACE(field, offset) _Static_assert(offsetof(struct registers_state, field) == (offset), "")
PLACE(general_out, REGISTERS_GENERAL_OUT);
PLACE(red_in, REGISTERS_RED_IN);
PLACE(red_out, REGISTERS_RED_OUT);
PLACE(sp_in, REGISTERS_SP_IN);
PLACE(level, REGISTERS_LEVEL);
PLACE(control_in, REGISTERS_CONTROL_IN);
PLACE(mxcsr_plain, REGISTERS_MXCSR_PLAIN);
PLACE(mask_in, REGISTERS_MASK_IN);
PLACE(x87_in, REGISTERS_X87_IN);
PLACE(x87_out, REGISTERS_X87_OUT);
PLACE(vector_in, REGISTERS_VECTOR_IN);
PLACE(vector_out, REGISTERS_VECTOR_OUT);
PLACE(tile_config, REGISTERS_TILE_CONFIG);
PLACE(tile_in, REGISTERS_TILE_IN);
PLACE(tile_out, REGISTERS_TILE_OUT);
_Static_assert(sizeof(struct registers_state) == REGISTERS_BYTES, "");

void registers_hold(struct registers_state *state);

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t random;
	uint64_t signal_mask;
	stack_t alternate;
	void *robust_list;
	uint64_t gs_base;
	struct registers_state state;
};

static unsigned best_level;
static bool may_interrupt; /* limpet was killed in a call: it may end with EINTR */
static atomic_bool over;
static atomic_ulong looks;
static struct worker workers[MAX_THREADS];
static pthread_mutex_t held;

static struct rseq *own_rseq(void)
{
	return (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* ------------------------------------------------------------------ what a thread keeps */

static void keep_kernel_state(struct worker *worker)
{
	size_t robust_bytes;

	/* SIGKILL and SIGSTOP cannot be blocked, 32 and 33 are the C library's. */
	worker->signal_mask = (target_random(&worker->random) | 1u << (SIGUSR1 - 1)) &
			      ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) |
				1ull << (SIGTERM - 1) | 3ull << 31);
	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &worker->signal_mask, NULL,
		    KERNEL_SIGSET_BYTES))
		target_broken("sigprocmask: %s", strerror(errno));
	worker->alternate.ss_size = 65536 + 4096 * worker->number;
	worker->alternate.ss_sp = malloc(worker->alternate.ss_size);
	if (!worker->alternate.ss_sp || sigaltstack(&worker->alternate, NULL))
		target_broken("sigaltstack: %s", strerror(errno));
	if (syscall(SYS_get_robust_list, 0, &worker->robust_list, &robust_bytes))
		target_broken("get_robust_list: %s", strerror(errno));
	worker->gs_base = (uint64_t)(uintptr_t)worker;
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, worker->gs_base))
		target_broken("arch_prctl: %s", strerror(errno));
}

static void look_at_kernel_state(const struct worker *worker)
{
	uint64_t mask, gs_base;
	size_t robust_bytes;
	void *robust_list;
	stack_t alternate;

	if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, KERNEL_SIGSET_BYTES) ||
	    mask != worker->signal_mask)
		target_broken("thread %u: signal mask %#lx instead of %#lx", worker->number, mask,
			      worker->signal_mask);
	if (sigaltstack(NULL, &alternate) || alternate.ss_sp != worker->alternate.ss_sp ||
	    alternate.ss_size != worker->alternate.ss_size || alternate.ss_flags)
		target_broken("thread %u: another alternate stack", worker->number);
	if (syscall(SYS_get_robust_list, 0, &robust_list, &robust_bytes) ||
	    robust_list != worker->robust_list)
		target_broken("thread %u: another robust list", worker->number);
	if (syscall(SYS_arch_prctl, ARCH_GET_GS, &gs_base) || gs_base != worker->gs_base)
		target_broken("thread %u: GS base %#lx", worker->number, gs_base);
	/* What is registered cannot be registered again: the kernel says so. */
	if (__rseq_size && syscall(SYS_rseq, own_rseq(), sizeof(struct rseq), 0, RSEQ_SIG) == 0)
		target_broken("thread %u: rseq was not registered any more", worker->number);
}

/* ------------------------------------------------------------------ what a processor keeps */

static void fill(struct worker *worker, void *bytes, size_t count)
{
	uint64_t *words = bytes;

	for (size_t i = 0; i < count / sizeof(*words); i++)
		words[i] = target_random(&worker->random);
}

static void fill_state(struct worker *worker)
{
	static const uint64_t roundings[] = {0x0000, 0x2000, 0x4000, 0x6000};
	struct registers_state *state = &worker->state;
	uint64_t random = target_random(&worker->random);

	fill(worker, state->general_in, sizeof(state->general_in));
	fill(worker, state->red_in, sizeof(state->red_in));
	fill(worker, state->mask_in, sizeof(state->mask_in));
	fill(worker, state->vector_in, sizeof(state->vector_in));
	for (unsigned i = 0; i < 8; i++) {
		const long double value = (long double)(int64_t)target_random(&worker->random);

		memcpy(state->x87_in[i], &value, 10);
	}
	state->level = random % (best_level + 1);
	state->direction = random >> 8 & 1;
	/* All exceptions masked; rounding and precision of its own, subnormals flushed at times. */
	state->control_in = 0x007f | (random >> 16 & 3) << 8 | (random >> 18 & 3) << 10;
	state->mxcsr_in = MXCSR_PLAIN | roundings[random >> 20 & 3] | (random >> 22 & 1) << 15 |
			  (random >> 23 & 1) << 6;
	state->mxcsr_plain = MXCSR_PLAIN;
	if (state->level == REGISTERS_LEVEL_AMX)
		fill(worker, state->tile_in, sizeof(state->tile_in));
}

static void expect(const struct worker *worker, const char *what, const void *in, const void *out,
		   size_t bytes)
{
	const uint8_t *a = in, *b = out;
	size_t i = 0;

	while (i < bytes && a[i] == b[i])
		i++;
	if (i < bytes)
		target_broken("thread %u: %s differs at byte %zu: %02x instead of %02x (%s)",
			      worker->number, what, i, b[i], a[i],
			      worker->state.spins ? "counting" : "in a system call");
}

static void look_at_state(const struct worker *worker)
{
	static const size_t vector_bytes[] = {16, 32, 64, 64};
	const struct registers_state *state = &worker->state;
	const unsigned vectors = state->level >= REGISTERS_LEVEL_AVX512 ? 32 : 16;
	char name[16];

	for (unsigned i = RAX; i <= R11 + 4; i++) {
		/* rax is a call's answer; the kernel puts address and flags into rcx and r11. */
		if (i == RCX || (!state->spins && (i == RAX || i == R11)))
			continue;
		snprintf(name, sizeof(name), "general %u", i);
		expect(worker, name, &state->general_in[i], &state->general_out[i], 8);
	}
	expect(worker, "rsp", &state->sp_in, &state->sp_out, 8);
	expect(worker, "red zone", state->red_in, state->red_out, sizeof(state->red_in));
	for (unsigned i = 0; i < vectors; i++) {
		snprintf(name, sizeof(name), "vector %u", i);
		expect(worker, name, state->vector_in[i], state->vector_out[i],
		       vector_bytes[state->level]);
	}
	if (state->level >= REGISTERS_LEVEL_AVX512)
		expect(worker, "mask", state->mask_in, state->mask_out, sizeof(state->mask_in));
	if (state->level == REGISTERS_LEVEL_AMX)
		expect(worker, "tile", state->tile_in, state->tile_out, sizeof(state->tile_in));
	for (unsigned i = 0; i < 8; i++)
		expect(worker, "x87", state->x87_in[i], state->x87_out[i], 10);
	expect(worker, "x87 control word", &state->control_in, &state->control_out, 2);
	if (state->status_out >> 11 & 7)
		target_broken("thread %u: x87 status %#lx", worker->number, state->status_out);
	expect(worker, "MXCSR", &state->mxcsr_in, &state->mxcsr_out, 4);
	if (!(state->flags_out & DIRECTION_FLAG) != !state->direction)
		target_broken("thread %u: direction flag %#lx", worker->number, state->flags_out);
}

static void spin(struct worker *worker, uint64_t spins)
{
	fill_state(worker);
	worker->state.spins = worker->state.general_in[RCX] = spins;
	registers_hold(&worker->state);
	look_at_state(worker);
}

static int64_t call(struct worker *worker, long number, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d)
{
	struct registers_state *state = &worker->state;

	fill_state(worker);
	state->spins = 0;
	state->general_in[RAX] = (uint64_t)number;
	state->general_in[RDI] = a;
	state->general_in[RSI] = b;
	state->general_in[RDX] = c;
	state->general_in[R10] = d;
	registers_hold(state);
	look_at_state(worker);
	return (int64_t)state->general_out[RAX];
}

/* ------------------------------------------------------------------ threads */

static void sleep_in_a_call(struct worker *worker)
{
	const struct timespec nap = {0, NAP_NS};
	const uint64_t nap_address = (uint64_t)(uintptr_t)&nap;
	uint32_t word = 1;
	int64_t answer, wanted = 0;

	switch (target_random(&worker->random) % 3) {
	case 0:
		answer = call(worker, SYS_nanosleep, nap_address, 0, 0, 0);
		break;
	case 1:
		answer = call(worker, SYS_futex, (uint64_t)(uintptr_t)&word,
			      FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, nap_address);
		wanted = -ETIMEDOUT;
		break;
	default:
		answer = call(worker, SYS_poll, 0, 0, NAP_NS / 1000000, 0);
		break;
	}
	if (answer != wanted && !(answer == -EINTR && may_interrupt))
		target_broken("thread %u: the call answered %ld instead of %ld", worker->number,
			      answer, wanted);
}

/* A thread with an arena, whose work is seen. */
static void allocate(struct worker *worker)
{
	const size_t bytes = 16 + target_random(&worker->random) % 500;
	uint8_t *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	memset(block, (int)bytes, bytes);
	free(block);
}

static void one_look(struct worker *worker, bool blocks)
{
	const int known_errno = 1000 + (int)(target_random(&worker->random) % 1000);

	errno = known_errno;
	if (blocks)
		sleep_in_a_call(worker);
	else
		spin(worker, 100000);
	allocate(worker);
	if (errno != known_errno)
		target_broken("thread %u: errno %d instead of %d", worker->number, errno,
			      known_errno);
	look_at_kernel_state(worker);
	looks++;
}

static void *spinning_main(void *argument)
{
	struct worker *worker = argument;

	keep_kernel_state(worker);
	while (!over)
		one_look(worker, false);
	return NULL;
}

static void *blocking_main(void *argument)
{
	struct worker *worker = argument;

	keep_kernel_state(worker);
	/* It ends without letting go: the list that the kernel has must be right to the last. */
	if (worker->number == 1 && pthread_mutex_lock(&held))
		target_broken("no mutex");
	while (!over)
		one_look(worker, true);
	return NULL;
}

/* ------------------------------------------------------------------ restartable sequences */

static struct {
	uint64_t count;
	uint64_t unused[7];
} per_cpu[MAX_CPUS];
static atomic_ulong counted, restarted;

/* Adds one to this processor's count: read, wait, write. Whatever comes between has to begin it
 * anew. False: begun anew. */
static bool count_one(struct rseq *rseq)
{
	const uint32_t cpu = *(volatile uint32_t *)&rseq->cpu_id_start;

	__asm__ goto(".pushsection __rseq_cs, \"aw\"\n\t"
		     ".balign 32\n\t"
		     "3: .long 0, 0\n\t"
		     ".quad 1f, 2f - 1f, 4f\n\t"
		     ".popsection\n\t"
		     "leaq 3b(%%rip), %%rax\n\t"
		     "movq %%rax, %c[section](%[rseq])\n\t"
		     "1:\n\t"
		     "cmpl %[cpu], %c[cpu_id](%[rseq])\n\t"
		     "jne 5f\n\t"
		     "movq (%[count]), %%rax\n\t"
		     "movl $60, %%ecx\n\t"
		     "6: decl %%ecx\n\t"
		     "jnz 6b\n\t"
		     "incq %%rax\n\t"
		     "movq %%rax, (%[count])\n\t"
		     "2:\n\t"
		     ".pushsection __rseq_failure, \"ax\"\n\t"
		     ".byte 0x0f, 0xb9, 0x3d\n\t"
		     ".long %c[signature]\n\t"
		     "4: jmp %l[again]\n\t"
		     "5: jmp %l[again]\n\t"
		     ".popsection\n\t"
		     :
		     : [cpu] "r"(cpu), [rseq] "r"(rseq), [count] "r"(&per_cpu[cpu].count),
		       [section] "i"(offsetof(struct rseq, rseq_cs)),
		       [cpu_id] "i"(offsetof(struct rseq, cpu_id)), [signature] "i"(RSEQ_SIG)
		     : "rax", "rcx", "cc", "memory"
		     : again);
	return true;
again:
	return false;
}

static void *counting_main(void *argument)
{
	struct rseq *rseq = own_rseq();
	struct worker *worker = argument;
	unsigned long mine = 0, again = 0;

	while (!over) {
		if (!count_one(rseq)) {
			again++;
		} else if (++mine % 1024 == 0) {
			allocate(worker);
			looks++;
		}
	}
	counted += mine;
	restarted += again;
	return NULL;
}

static void check_counts(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < MAX_CPUS; i++)
		sum += per_cpu[i].count;
	if (sum != counted)
		target_broken("rseq: %lu counted, %lu are there (%lu begun anew)", counted, sum,
			      restarted);
	target_say("counted %lu, %lu begun anew", counted, restarted);
}

/* ------------------------------------------------------------------ main */

/* A line, byte by byte, as the mode waits for it. */
static bool listen_in_mode(struct worker *worker, const char *mode, char *line, size_t bytes)
{
	/* One for all lines: descriptors are compared while it listens. */
	static int poller = -1;
	struct epoll_event event = {.events = EPOLLIN};
	size_t used = 0;

	if (poller < 0) {
		poller = epoll_create1(EPOLL_CLOEXEC);
		if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &event))
			target_broken("epoll: %s", strerror(errno));
	}
	while (used + 1 < bytes) {
		int64_t got;

		if (!strcmp(mode, "main")) {
			errno = EXDEV;
			got = call(worker, SYS_read, STDIN_FILENO,
				   (uint64_t)(uintptr_t)(line + used), 1, 0);
			if (errno != EXDEV)
				target_broken("errno is %d", errno);
			look_at_kernel_state(worker);
			looks++;
			if (got == -EINTR && may_interrupt)
				continue;
		} else {
			while (epoll_wait(poller, &event, 1, strcmp(mode, "block") ? 0 : -1) != 1)
				if (strcmp(mode, "block"))
					one_look(worker, false);
			got = read(STDIN_FILENO, line + used, 1);
		}
		if (got < 0)
			target_broken("reading: %s", strerror((int)-got));
		if (got == 0 || line[used] == '\n') {
			line[used] = '\0';
			return got > 0;
		}
		used++;
	}
	target_broken("a long line");
}

static void find_level(void)
{
	unsigned a, b, c, d;

	__builtin_cpu_init();
	best_level = __builtin_cpu_supports("avx512bw") ? REGISTERS_LEVEL_AVX512
		     : __builtin_cpu_supports("avx")    ? REGISTERS_LEVEL_AVX
							: REGISTERS_LEVEL_SSE;
	if (best_level == REGISTERS_LEVEL_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	    d >> 24 & 1 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0)
		best_level = REGISTERS_LEVEL_AMX;
}

/* Intel's tile configuration: palette 1, rows of 64 bytes, 16 rows each. */
static void configure_tiles(struct registers_state *state)
{
	state->tile_config[0] = 1;
	for (unsigned i = 0; i < 8; i++) {
		state->tile_config[16 + 2 * i] = 64;
		state->tile_config[48 + i] = 16;
	}
}

static void end_threads(unsigned count)
{
	over = true;
	for (unsigned i = 1; i <= count; i++)
		if (pthread_join(workers[i].thread, NULL))
			target_broken("a thread is lost");
}

int main(int argc, char **argv)
{
	static const char *const level_names[] = {"sse", "sse avx", "sse avx avx-512",
						  "sse avx avx-512 amx"};
	const char *mode = argc == 2 ? argv[1] : "";
	const bool blocks = !strcmp(mode, "block"), counts = !strcmp(mode, "rseq");
	const bool alone = !strcmp(mode, "main");
	const unsigned count = alone ? 0 : blocks ? 6 : 3;
	pthread_mutexattr_t robust;
	unsigned long n;
	char line[256];

	if (!blocks && !counts && !alone && strcmp(mode, "spin"))
		target_broken("usage: registers spin|block|main|rseq");
	find_level();
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&held, &robust);
	for (unsigned i = 0; i <= count; i++) {
		workers[i].number = i;
		workers[i].random = 88172645463325252u + i * 2654435761u;
		configure_tiles(&workers[i].state);
		if (i && pthread_create(&workers[i].thread, NULL,
					counts   ? counting_main
					: blocks ? blocking_main
						 : spinning_main,
					&workers[i]))
			target_broken("no thread");
	}
	keep_kernel_state(&workers[0]);
	target_say("ready %d %s%s", getpid(), level_names[best_level], __rseq_size ? " rseq" : "");
	while (listen_in_mode(&workers[0], mode, line, sizeof(line))) {
		if (target_word(line, "check", &n)) {
			target_say("fine %lu", looks);
		} else if (target_word(line, "interrupted", &n)) {
			may_interrupt = true;
			target_say("noted");
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	end_threads(count);
	if (blocks && pthread_mutex_lock(&held) != EOWNERDEAD)
		target_broken("the robust mutex was not handed on");
	if (counts)
		check_counts();
	return 0;
}
