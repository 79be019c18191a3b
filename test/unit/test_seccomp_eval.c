#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/preflight/seccomp_eval.h"
#include "injector/preflight/seccomp_watch.h"
#include "injector/proc/proc.h"
#include "test/unit/docker_profile.h"
#include "test/unit/target_of.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

/* ------------------------------------------------------------------ helpers */

struct one_filter {
	struct limpet_seccomp_filters filters;
	struct sock_filter list[4096];
};

/* Takes the program that libseccomp compiled. */
static void take(scmp_filter_ctx context, struct one_filter *ret)
{
	FILE *file = tmpfile();
	size_t count;

	assert_non_null(file);
	assert_int_equal(seccomp_export_bpf(context, fileno(file)), 0);
	rewind(file);
	count = fread(ret->list, sizeof(ret->list[0]), LIMPET_COUNT_OF(ret->list), file);
	assert_true(count > 0 && count < LIMPET_COUNT_OF(ret->list));
	fclose(file);
	ret->filters.arch = NATIVE_ARCH;
	ret->filters.count = 1;
	ret->filters.list = malloc(sizeof(*ret->filters.list));
	assert_non_null(ret->filters.list);
	ret->filters.list[0].list = ret->list;
	ret->filters.list[0].count = count;
}

static scmp_filter_ctx one_rule(uint32_t usual, uint32_t action, int number)
{
	scmp_filter_ctx context = seccomp_init(usual);

	assert_non_null(context);
	assert_int_equal(seccomp_rule_add(context, action, number, 0), 0);
	return context;
}

static struct limpet_seccomp_verdict verdict_of(scmp_filter_ctx context)
{
	struct limpet_seccomp_verdict verdict;
	struct one_filter filter;

	take(context, &filter);
	limpet_seccomp_judge(&filter.filters, true, &verdict);
	limpet_seccomp_filters_done(&filter.filters);
	return verdict;
}

/* A child under `context` (which may be NULL), blocked in read(2) on the pipe whose other end is
 * *ret_wake; it exits with 0 when that ends, and with 3 if read failed. */
static pid_t child_under(scmp_filter_ctx context, int *ret_wake)
{
	int wake[2], ready[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(wake), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(wake[1]);
		close(ready[0]);
		if (context && seccomp_load(context))
			_exit(2);
		if (write(ready[1], "r", 1) != 1)
			_exit(4);
		_exit(read(wake[0], &byte, 1) == 0 ? 0 : 3);
	}
	close(wake[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_wake = wake[1];
	return child;
}

static void child_ends_well(pid_t child, int wake)
{
	int status;

	close(wake);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static bool may_read_filters(void)
{
	struct limpet_proc_status own;

	assert_int_equal(limpet_proc_status_read(getpid(), &own), 0);
	return (own.cap_effective >> 21 & 1) && own.seccomp == 0; /* CAP_SYS_ADMIN */
}

/* ------------------------------------------------------------------ the machine */

#define FIRST_ARGUMENT offsetof(struct seccomp_data, args[0])
#define SECOND_ARGUMENT offsetof(struct seccomp_data, args[1])

/* Bodies leave a number in A, of which the kernel and we must both see the low 12 bits. */
static const struct body {
	size_t count;
	struct sock_filter list[12];
} bodies[] = {
	{1, {BPF_STMT(BPF_LD | BPF_IMM, 0x123)}},
	{1, {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0)}},
	{2, {BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_MISC | BPF_TXA, 0)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_ADD, 77)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_SUB, 78)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_MUL, 7)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_DIV, 3)}},
	{2,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_AND, 0x55)}},
	{2,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_OR, 0x700)}},
	{2,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_XOR, 0xfff)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_LSH, 3)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_RSH, 4)}},
	{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ALU | BPF_NEG, 0)}},
	/* the high half of an argument; by X; by memory */
	{1, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT + 4)}},
	{4,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SECOND_ARGUMENT), BPF_STMT(BPF_MISC | BPF_TAX, 0),
	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT),
	  BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0)}},
	{4,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SECOND_ARGUMENT), BPF_STMT(BPF_MISC | BPF_TAX, 0),
	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT),
	  BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0)}},
	{3,
	 {BPF_STMT(BPF_LDX | BPF_IMM, 37), BPF_STMT(BPF_LD | BPF_IMM, 1),
	  BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0)}},
	{6,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ST, 3),
	  BPF_STMT(BPF_LDX | BPF_IMM, 9), BPF_STMT(BPF_STX, 15), BPF_STMT(BPF_LD | BPF_MEM, 15),
	  BPF_STMT(BPF_LDX | BPF_MEM, 3)}},
	{4,
	 {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT), BPF_STMT(BPF_ST, 3),
	  BPF_STMT(BPF_LDX | BPF_MEM, 3), BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0)}},
/* jumps, both ways of each, by K and by X */
#define JUMP(op, k)                                                                               \
	{                                                                                         \
		5,                                                                                \
		{                                                                                 \
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST_ARGUMENT),                       \
				BPF_JUMP(BPF_JMP | (op), k, 2, 0), BPF_STMT(BPF_LD | BPF_IMM, 1), \
				BPF_STMT(BPF_JMP | BPF_JA, 1), BPF_STMT(BPF_LD | BPF_IMM, 2)      \
		}                                                                                 \
	}
	JUMP(BPF_JEQ, 0x321),
	JUMP(BPF_JEQ, 0x322),
	JUMP(BPF_JGT, 0x320),
	JUMP(BPF_JGT, 0x321),
	JUMP(BPF_JGE, 0x321),
	JUMP(BPF_JGE, 0x322),
	JUMP(BPF_JSET, 0x20),
	JUMP(BPF_JSET, 0x40),
	JUMP(BPF_JEQ | BPF_X, 0),
	JUMP(BPF_JGT | BPF_X, 0),
};

static const uint64_t probe_arguments[6] = {0x1234500000321ull, 5};

/* getppid() meets the body, everything else passes. */
static size_t program_of(const struct body *body, struct sock_filter ret[32])
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ, SYS_getppid, 1, 0),
		BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW),
	};
	const struct sock_filter tail[] = {
		BPF_STMT(BPF_ALU | BPF_AND, 0x7ff),
		BPF_STMT(BPF_ALU | BPF_OR, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	memcpy(ret, head, sizeof(head));
	memcpy(ret + 3, body->list, body->count * sizeof(ret[0]));
	memcpy(ret + 3 + body->count, tail, sizeof(tail));
	return 6 + body->count;
}

/* What the kernel makes of it: errno of the call, in a child. */
static int kernel_answer(struct sock_filter *list, size_t count)
{
	struct sock_fprog program = {(unsigned short)count, list};
	int *answer = mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, result;
	pid_t child;

	assert_ptr_not_equal(answer, MAP_FAILED);
	*answer = -1;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(1);
		errno = 0;
		*answer = syscall(SYS_getppid, probe_arguments[0], probe_arguments[1], 0, 0, 0,
				  0) == -1
				  ? errno
				  : 0;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	result = *answer;
	munmap(answer, sizeof(*answer));
	return result;
}

static void test_machine_agrees_with_the_kernel(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(bodies); i++) {
		struct seccomp_data data = {.nr = SYS_getppid, .arch = NATIVE_ARCH};
		struct one_filter filter = {.filters = {.arch = NATIVE_ARCH, .count = 1}};
		uint32_t mine;
		int answer;

		for (int k = 0; k < 6; k++)
			data.args[k] = probe_arguments[k];
		filter.filters.list = malloc(sizeof(*filter.filters.list));
		assert_non_null(filter.filters.list);
		filter.filters.list[0].list = filter.list;
		filter.filters.list[0].count = program_of(&bodies[i], filter.list);
		mine = limpet_seccomp_evaluate(&filter.filters, &data);
		answer = kernel_answer(filter.list, filter.filters.list[0].count);
		assert_int_equal(mine & SECCOMP_RET_ACTION_FULL, SECCOMP_RET_ERRNO);
		if ((int)(mine & SECCOMP_RET_DATA) != answer)
			fail_msg("body %zu: %u here, %d in the kernel", i, mine & SECCOMP_RET_DATA,
				 answer);
		/* and what it must not stop */
		data.nr = SYS_getpid;
		assert_int_equal(limpet_seccomp_evaluate(&filter.filters, &data),
				 SECCOMP_RET_ALLOW);
		limpet_seccomp_filters_done(&filter.filters);
	}
}

static void test_broken_programs_count_as_kill(void **state)
{
	static const struct body broken[] = {
		{1, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)}}, /* no end */
		{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_LD | BPF_MEM, 16), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_ST, 0xffffffff), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_JUMP(BPF_JMP | BPF_JEQ, 0, 200, 200), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_ALU | BPF_DIV, 0), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_ALU | 0xf0, 1), BPF_STMT(BPF_RET, 0x7fff0000)}},
		{2, {BPF_STMT(BPF_MISC | 0x40, 1), BPF_STMT(BPF_RET, 0x7fff0000)}},
	};
	struct seccomp_data data = {.nr = 1, .arch = NATIVE_ARCH};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(broken); i++) {
		struct limpet_seccomp_filters filters = {.arch = NATIVE_ARCH, .count = 1};
		uint32_t action;

		filters.list = malloc(sizeof(*filters.list));
		assert_non_null(filters.list);
		filters.list[0].list = broken[i].list;
		filters.list[0].count = broken[i].count;
		action = limpet_seccomp_evaluate(&filters, &data);
		if (action != SECCOMP_RET_KILL_PROCESS && action != SECCOMP_RET_KILL_THREAD)
			fail_msg("program %zu: %#x", i, action);
		limpet_seccomp_filters_done(&filters);
	}
}

static void test_strictest_of_several_wins(void **state)
{
	static const struct sock_filter log[] = {BPF_STMT(BPF_RET, SECCOMP_RET_LOG)};
	static const struct sock_filter first[] = {BPF_STMT(BPF_RET, SECCOMP_RET_ERRNO | 7)};
	static const struct sock_filter second[] = {BPF_STMT(BPF_RET, SECCOMP_RET_ERRNO | 8)};
	static const struct sock_filter thread[] = {BPF_STMT(BPF_RET, SECCOMP_RET_KILL_THREAD)};
	static const struct sock_filter process[] = {BPF_STMT(BPF_RET, SECCOMP_RET_KILL_PROCESS)};
	static const struct sock_filter *const programs[] = {log, second, first, thread, process};
	/* of the first n of them */
	static const uint32_t expected[] = {SECCOMP_RET_ALLOW,       SECCOMP_RET_LOG,
					    SECCOMP_RET_ERRNO | 8,   SECCOMP_RET_ERRNO | 8,
					    SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS};
	struct seccomp_data data = {.nr = 1, .arch = NATIVE_ARCH};
	struct limpet_seccomp_filters filters = {.arch = NATIVE_ARCH};

	(void)state;
	filters.list = calloc(LIMPET_COUNT_OF(programs), sizeof(*filters.list));
	assert_non_null(filters.list);
	for (filters.count = 0; filters.count <= LIMPET_COUNT_OF(programs); filters.count++) {
		assert_int_equal(limpet_seccomp_evaluate(&filters, &data), expected[filters.count]);
		if (filters.count == LIMPET_COUNT_OF(programs))
			break;
		filters.list[filters.count].list = programs[filters.count];
		filters.list[filters.count].count = 1;
	}
	limpet_seccomp_filters_done(&filters);
}

/* ------------------------------------------------------------------ verdicts */

static void test_each_action_on_a_needed_call(void **state)
{
	static const struct {
		uint32_t action;
		bool refused;
		const char *words;
	} cases[] = {
		{SCMP_ACT_KILL_PROCESS, true, "would kill it at"},
		{SCMP_ACT_KILL_THREAD, true, "would kill a thread of it at"},
		{SCMP_ACT_TRAP, true, "would send it SIGSYS at"},
		{SCMP_ACT_ERRNO(EPERM), true, "answers EPERM to"},
		{SCMP_ACT_TRACE(3), true, "asks a tracer about"},
		{SCMP_ACT_NOTIFY, true, "asks a supervisor about"},
		{SCMP_ACT_LOG, false, ""},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		scmp_filter_ctx context =
			one_rule(SCMP_ACT_ALLOW, cases[i].action, SCMP_SYS(memfd_create));
		struct limpet_seccomp_verdict verdict = verdict_of(context);
		char words[64];

		seccomp_release(context);
		if (!cases[i].refused) {
			assert_null(verdict.call);
			continue;
		}
		assert_non_null(verdict.call);
		assert_string_equal(verdict.call->name, "memfd_create");
		assert_string_equal(
			limpet_seccomp_action_words(verdict.action, words, sizeof(words)),
			cases[i].words);
	}
}

static void test_optional_calls_may_fail_but_not_kill(void **state)
{
	scmp_filter_ctx context = one_rule(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(brk));
	struct limpet_seccomp_verdict verdict = verdict_of(context);

	(void)state;
	assert_null(verdict.call);
	seccomp_release(context);
	context = one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, SCMP_SYS(brk));
	verdict = verdict_of(context);
	assert_non_null(verdict.call);
	assert_string_equal(verdict.call->name, "brk");
	seccomp_release(context);
}

/* An allow-list that lacks one call of the table at a time: each must be noticed. */
static void test_every_call_of_the_table_is_asked(void **state)
{
	(void)state;
	assert_true(limpet_seccomp_call_count > 20);
	for (size_t i = 0; i < limpet_seccomp_call_count; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];
		scmp_filter_ctx context =
			one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, call->number);
		struct limpet_seccomp_verdict verdict = verdict_of(context);
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call->number);

		assert_non_null(verdict.call);
		assert_int_equal(verdict.call->number, call->number);
		/* the table's names are those that users look up */
		assert_string_equal(name, call->name);
		free(name);
		seccomp_release(context);
	}
}

static void test_arguments_count(void **state)
{
	scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
	struct limpet_seccomp_verdict verdict;

	(void)state;
	/* what systemd makes of MemoryDenyWriteExecute= */
	assert_int_equal(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE,
						  PROT_EXEC | PROT_WRITE)),
			 0);
	assert_int_equal(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)),
			 0);
	verdict = verdict_of(context);
	assert_null(verdict.call);
	assert_true(verdict.denies_exec);
	/* no executable mapping at all: the agent cannot be loaded */
	assert_int_equal(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
					  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)),
			 0);
	verdict = verdict_of(context);
	assert_non_null(verdict.call);
	assert_string_equal(verdict.call->name, "mmap");
	seccomp_release(context);
	/* as Docker does for socket(): a rule on another family does not concern us */
	context = seccomp_init(SCMP_ACT_ALLOW);
	assert_int_equal(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1,
					  SCMP_A0(SCMP_CMP_NE, 1)),
			 0);
	verdict = verdict_of(context);
	assert_null(verdict.call);
	assert_false(verdict.denies_exec);
	seccomp_release(context);
}

static void test_docker_default_passes(void **state)
{
	scmp_filter_ctx context = docker_profile_make(false);
	struct limpet_seccomp_verdict verdict = verdict_of(context);
	struct one_filter filter;
	struct seccomp_data data = {.nr = SYS_mount, .arch = NATIVE_ARCH};

	(void)state;
	if (verdict.call)
		fail_msg("%s (%s): %#x", verdict.call->name, verdict.call->who, verdict.action);
	assert_false(verdict.denies_exec);
	/* it is a filter, not a sieve */
	take(context, &filter);
	assert_int_equal(limpet_seccomp_evaluate(&filter.filters, &data),
			 SECCOMP_RET_ERRNO | EPERM);
	limpet_seccomp_filters_done(&filter.filters);
	seccomp_release(context);
}

/* ------------------------------------------------------------------ reading */

static void test_filters_are_read_out_of_a_blocked_child(void **state)
{
	scmp_filter_ctx context = docker_profile_make(false);
	struct limpet_seccomp_filters filters;
	struct limpet_seccomp_verdict verdict;
	struct limpet_proc_status status;
	struct one_filter expected;
	int wake;
	pid_t child;

	(void)state;
	if (!may_read_filters()) {
		seccomp_release(context);
		print_message("# needs CAP_SYS_ADMIN and no filter of our own\n");
		skip();
	}
	take(context, &expected);
	child = child_under(context, &wake);
	assert_int_equal(limpet_seccomp_filters_read(child, false, &filters), 0);
	assert_int_equal(filters.arch, NATIVE_ARCH);
	assert_int_equal(filters.count, 1);
	assert_int_equal(filters.list[0].count, expected.filters.list[0].count);
	assert_memory_equal(filters.list[0].list, expected.list,
			    filters.list[0].count * sizeof(struct sock_filter));
	limpet_seccomp_judge(&filters, true, &verdict);
	assert_null(verdict.call);
	assert_int_equal(limpet_proc_status_read(child, &status), 0);
	assert_int_equal(status.tracer, 0);
	limpet_seccomp_filters_done(&filters);
	limpet_seccomp_filters_done(&expected.filters);
	seccomp_release(context);
	child_ends_well(child, wake);
}

static void test_munlock_is_asked_only_where_memory_is_locked(void **state)
{
	scmp_filter_ctx context =
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, SCMP_SYS(munlock));
	struct limpet_seccomp_verdict verdict = verdict_of(context);
	struct one_filter filter;

	(void)state;
	assert_non_null(verdict.call);
	take(context, &filter);
	limpet_seccomp_judge(&filter.filters, false, &verdict);
	assert_null(verdict.call);
	limpet_seccomp_filters_done(&filter.filters);
	seccomp_release(context);
}

static void test_kill_filter_is_found_in_a_child(void **state)
{
	scmp_filter_ctx context =
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, SCMP_SYS(memfd_create));
	scmp_filter_ctx second =
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair));
	struct limpet_seccomp_filters filters;
	struct limpet_seccomp_verdict verdict;
	int wake, ready[2];
	char byte;
	pid_t child;

	(void)state;
	if (!may_read_filters()) {
		seccomp_release(context);
		seccomp_release(second);
		print_message("# needs CAP_SYS_ADMIN and no filter of our own\n");
		skip();
	}
	/* two filters, and stopped by its user all the while */
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (seccomp_load(context) || seccomp_load(second) || write(ready[1], "r", 1) != 1)
			_exit(2);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(waitpid(child, &wake, WUNTRACED), child);
	assert_true(WIFSTOPPED(wake));
	assert_int_equal(limpet_seccomp_filters_read(child, false, &filters), 0);
	assert_int_equal(filters.count, 2);
	limpet_seccomp_judge(&filters, true, &verdict);
	assert_non_null(verdict.call);
	assert_string_equal(verdict.call->name, "memfd_create");
	assert_int_equal(verdict.action, SECCOMP_RET_KILL_PROCESS);
	limpet_seccomp_filters_done(&filters);
	/* the stop that we found is the stop that we leave */
	struct limpet_proc_status status;

	/* on its way from the tracer's stop to its own it is running for a moment */
	do
		assert_int_equal(limpet_proc_status_read(child, &status), 0);
	while (status.state == 'R');
	assert_int_equal(status.state, 'T');
	assert_int_equal(status.tracer, 0);
	kill(child, SIGCONT);
	assert_int_equal(waitpid(child, &wake, 0), child);
	assert_true(WIFEXITED(wake) && WEXITSTATUS(wake) == 0);
	close(ready[0]);
	close(ready[1]);
	seccomp_release(context);
	seccomp_release(second);
}

/* A stop between a program and its signals: none is lost, none is made up. */
static void test_reading_loses_no_signal(void **state)
{
	enum { ROUNDS = 200 };
	scmp_filter_ctx context = one_rule(SCMP_ACT_ALLOW, SCMP_ACT_LOG, SCMP_SYS(acct));
	sigset_t one, old;
	int wake;
	pid_t child;

	(void)state;
	if (!may_read_filters()) {
		seccomp_release(context);
		print_message("# needs CAP_SYS_ADMIN and no filter of our own\n");
		skip();
	}
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	sigprocmask(SIG_BLOCK, &one, &old);
	child = fork();
	if (child == 0) {
		siginfo_t info;
		int got = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (seccomp_load(context))
			_exit(1);
		/* queued by sigqueue() each counts; SIGRTMIN is never merged */
		sigemptyset(&one);
		sigaddset(&one, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &one, NULL);
		kill(getppid(), SIGUSR1);
		while (got < ROUNDS)
			if (sigwaitinfo(&one, &info) == SIGRTMIN && info.si_value.sival_int == got)
				got++;
		_exit(0);
	}
	assert_int_equal(sigwaitinfo(&one, NULL), SIGUSR1);
	sigprocmask(SIG_SETMASK, &old, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		struct limpet_seccomp_filters filters;

		assert_int_equal(sigqueue(child, SIGRTMIN, (union sigval){.sival_int = i}), 0);
		if (i + 1 < ROUNDS) {
			assert_int_equal(limpet_seccomp_filters_read(child, false, &filters), 0);
			assert_int_equal(filters.count, 1);
			limpet_seccomp_filters_done(&filters);
		}
	}
	assert_int_equal(waitpid(child, &wake, 0), child);
	assert_true(WIFEXITED(wake) && WEXITSTATUS(wake) == 0);
	seccomp_release(context);
}

/* One filter each: how many there are does not say which. The last one kills for a call that is
 * made only where memory is locked. */
static void test_as_many_filters_are_not_the_same(void **state)
{
	enum { CHILDREN = 3 };
	const scmp_filter_ctx contexts[CHILDREN] = {
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(reboot)),
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, SCMP_SYS(memfd_create)),
		one_rule(SCMP_ACT_ALLOW, SCMP_ACT_KILL_PROCESS, SCMP_SYS(munlock))};
	struct limpet_seccomp_watch watch = {.count = 0};
	pid_t children[CHILDREN];
	int wakes[CHILDREN], status;

	(void)state;
	if (!may_read_filters()) {
		for (int i = 0; i < CHILDREN; i++)
			seccomp_release(contexts[i]);
		print_message("# needs CAP_SYS_ADMIN and no filter of our own\n");
		skip();
	}
	for (int i = 0; i < CHILDREN; i++)
		children[i] = child_under(contexts[i], &wakes[i]);
	limpet_seccomp_watch_begin(target_of(children[0]), &watch);
	assert_int_equal(watch.count, 1);
	for (int i = 0; i < CHILDREN; i++) {
		assert_int_equal(ptrace(PTRACE_SEIZE, children[i], NULL, NULL), 0);
		assert_int_equal(ptrace(PTRACE_INTERRUPT, children[i], NULL, NULL), 0);
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(
			limpet_seccomp_watch_allows(&watch, target_of(children[i]), children[i]),
			i != 1);
		assert_int_equal(watch.without_munlock, i == CHILDREN - 1);
		assert_int_equal(ptrace(PTRACE_DETACH, children[i], NULL, NULL), 0);
	}
	/* Each has the ends of those before it, too. */
	for (int i = CHILDREN - 1; i >= 0; i--) {
		child_ends_well(children[i], wakes[i]);
		seccomp_release(contexts[i]);
	}
}

static void test_reading_says_why_not(void **state)
{
	struct limpet_seccomp_filters filters = {.count = 99};
	int wake, status;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &wake, 0), child);
	assert_int_equal(limpet_seccomp_filters_read(child, false, &filters), -ESRCH);
	assert_int_equal(filters.count, 99);
	if (geteuid() != 0) {
		print_message("# the other half needs root\n");
		return;
	}
	/* another user: not even seized */
	child = child_under(NULL, &wake);
	pid_t other = fork();

	if (other == 0) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(1);
		_exit(limpet_seccomp_filters_read(child, false, &filters) == -EPERM ? 0 : 2);
	}
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	child_ends_well(child, wake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machine_agrees_with_the_kernel),
		cmocka_unit_test(test_broken_programs_count_as_kill),
		cmocka_unit_test(test_strictest_of_several_wins),
		cmocka_unit_test(test_each_action_on_a_needed_call),
		cmocka_unit_test(test_optional_calls_may_fail_but_not_kill),
		cmocka_unit_test(test_every_call_of_the_table_is_asked),
		cmocka_unit_test(test_munlock_is_asked_only_where_memory_is_locked),
		cmocka_unit_test(test_arguments_count),
		cmocka_unit_test(test_docker_default_passes),
		cmocka_unit_test(test_filters_are_read_out_of_a_blocked_child),
		cmocka_unit_test(test_kill_filter_is_found_in_a_child),
		cmocka_unit_test(test_reading_loses_no_signal),
		cmocka_unit_test(test_as_many_filters_are_not_the_same),
		cmocka_unit_test(test_reading_says_why_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
