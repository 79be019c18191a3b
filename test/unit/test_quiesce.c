/* The proof that the agent may be unmapped, tried on children whose threads stand in known places:
 * in the agent's code (a page of ours plays it), in a hook, in a signal handler above it, or
 * outside. The clock is the test's own: a proof is given up after a number of rounds.
 *
 * time-limit: 120 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/quiesce.h"
#include "test/unit/clock_fixture.h"
#include "test/unit/skip_reason.h"

#define THREADS 4u
#define PATIENCE_NS 150000000ull
/* After so many rounds the deadline has come: one more, in which it is seen. */
#define ROUNDS 4u

/* In the agent's page: *rdi = 1; until *rsi is set; return. And: pause(); return. */
static const uint8_t spin_code[] = {0xc7, 0x07, 1, 0, 0, 0, 0x83, 0x3e, 0, 0x74, 0xfb, 0xc3};
static const uint8_t block_code[] = {0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xc3};
#define SPIN_AT 64u
#define BLOCK_AT 128u
#define THUNKS_AT 1024u

enum role {
	ROLE_BLOCKS,          /* in a system call, outside */
	ROLE_SPINS,           /* outside */
	ROLE_SPINS_IN_AGENT,  /* as a hook's own code would */
	ROLE_BLOCKS_IN_AGENT, /* its pc is the agent's, in a system call */
	ROLE_IN_HOOK,         /* blocks outside, below an unfinished hook */
	ROLE_HOOK_BELOW,      /* the same, of a handler whose stack lies above the hook */
	ROLE_POPPED,          /* the hook was left by longjmp */
	ROLE_RETURN_PROBE,    /* the kernel has replaced the hook's return address by its own */
	ROLE_PAGE,            /* left, and there is the start of a page of another kind */
	ROLE_HANDLER,         /* a handler blocks outside; it interrupted the agent */
	ROLE_STALE,           /* dead words on the stack lead into the agent */
	ROLE_HOLDS_THUNK      /* spins outside with a hook's address in a register */
};

/* Shared with the child. */
struct stage {
	int ready, go;
	bool has_probes;
	uint32_t tid;
	enum role role;
	struct limpet_shm shm; /* what the agent's would hold */
	struct limpet_thread states[2];
};
static struct stage *stage;
static uint8_t *agent_page;
static struct limpet_agent_place place;

typedef void spin_fn(int *ready, int *go);
typedef void block_fn(void);

static void set_ready(void)
{
	__atomic_store_n(&stage->ready, 1, __ATOMIC_RELEASE);
}

static void spin_outside(void)
{
	set_ready();
	while (!__atomic_load_n(&stage->go, __ATOMIC_ACQUIRE))
		;
}

/* A handler may have a large frame: what it interrupted lies above all of it. */
static void block_in_handler(int number)
{
	char frame[1 << 20];

	(void)number;
	__asm__ volatile("" : : "r"(frame) : "memory");
	while (!__atomic_load_n(&stage->go, __ATOMIC_ACQUIRE))
		syscall(SYS_pause);
}

static void block_outside(void)
{
	set_ready();
	while (!__atomic_load_n(&stage->go, __ATOMIC_ACQUIRE))
		syscall(SYS_pause);
}

/* Words that nobody will read again lie above the stack pointer, as after a deep call. */
static void block_above_dead_words(void)
{
	uint64_t words[64];

	for (unsigned i = 0; i < 64; i++)
		words[i] = (uint64_t)(uintptr_t)agent_page + SPIN_AT + i;
	__asm__ volatile("" ::"r"(words) : "memory");
	block_outside();
	__asm__ volatile("" ::"r"(words) : "memory");
}

/* A program that loads a function's address long before it calls it: in that one register only, and
 * all the time until it may go. */
static void spin_with_thunk(void)
{
	static uint64_t value;

	value = place.thunks;
	__asm__ volatile("movq %[value], %%r11\n\taddq $32, %%r11\n\tmovl $1, %[ready]\n"
			 "1:\tpause\n\tcmpl $0, %[go]\n\tje 1b\n\txorl %%r11d, %%r11d"
			 : [ready] "=m"(stage->ready)
			 : [value] "m"(value), [go] "m"(stage->go)
			 : "r11", "cc", "memory");
}

static void note_state(uint64_t entry_sp)
{
	stage->states[1] = (struct limpet_thread){.thread_pointer = 0x7f0000001000,
						  .tid = stage->tid,
						  .depth = 1,
						  .entry_sp = entry_sp};
	stage->shm.states_used[0] = 1u << 1;
}

static __attribute__((noinline, noclone, noipa)) void watched(void)
{
	__asm__ volatile("");
}

/* Where the kernel lets functions return that another tool watches; 0: it has no such probes, or
 * not for us. */
static uint64_t return_probe(void)
{
	uint64_t start, end, offset, page = 0;
	const uint64_t function = (uint64_t)(uintptr_t)watched;
	struct perf_event_attr attr = {.size = sizeof(attr), .config = 1};
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	char line[512], name[256];

	if (!file)
		return 0;
	if (fscanf(file, "%u", &attr.type) != 1)
		attr.type = 0;
	fclose(file);
	for (int round = 0; round < 2 && !page; round++) {
		file = fopen("/proc/self/maps", "re");
		while (file && fgets(line, sizeof(line), file)) {
			name[0] = '\0';
			if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &start, &end, &offset,
				   name) < 3)
				continue;
			if (!strcmp(name, "[uprobes]"))
				page = start;
			if (function >= start && function < end)
				attr.config2 = function - start + offset;
		}
		if (file)
			fclose(file);
		attr.config1 = (uint64_t)(uintptr_t) "/proc/self/exe";
		if (!page && syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0)
			watched();
	}
	return page;
}

static void *act(void *context)
{
	/* Of a way that called an original: its return address, then its frame. */
	uint64_t hook[32] = {(uint64_t)(uintptr_t)agent_page + SPIN_AT};
	volatile uintptr_t below = (uintptr_t)hook - 65536; /* as nobody uses that memory */

	(void)context;
	stage->tid = (uint32_t)syscall(SYS_gettid);
	switch (stage->role) {
	case ROLE_BLOCKS:
		block_outside();
		break;
	case ROLE_SPINS:
		spin_outside();
		break;
	case ROLE_SPINS_IN_AGENT:
	case ROLE_HANDLER:
		((spin_fn *)(uintptr_t)(agent_page + SPIN_AT))(&stage->ready, &stage->go);
		break;
	case ROLE_BLOCKS_IN_AGENT:
		set_ready();
		((block_fn *)(uintptr_t)(agent_page + BLOCK_AT))();
		break;
	case ROLE_IN_HOOK:
		note_state((uintptr_t)&hook[1]);
		block_outside();
		break;
	case ROLE_HOOK_BELOW:
		memcpy((void *)below, hook, sizeof(hook));
		note_state(below + sizeof(hook[0]));
		block_outside();
		break;
	case ROLE_POPPED:
		hook[0] = 0;
		note_state((uintptr_t)&hook[1]);
		block_outside();
		break;
	case ROLE_RETURN_PROBE:
		hook[0] = return_probe();
		stage->has_probes = hook[0] != 0;
		note_state((uintptr_t)&hook[1]);
		block_outside();
		break;
	case ROLE_PAGE:
		hook[0] = (uint64_t)(uintptr_t)stage;
		note_state((uintptr_t)&hook[1]);
		block_outside();
		break;
	case ROLE_STALE:
		block_above_dead_words();
		break;
	case ROLE_HOLDS_THUNK:
		spin_with_thunk();
		break;
	}
	/* Over: outside, whatever it was before. */
	for (;;)
		syscall(SYS_pause);
	return NULL;
}

static void wake(int number)
{
	(void)number;
}

static void *wait_for_ever(void *context)
{
	(void)context;
	for (;;)
		pause();
	return NULL;
}

static void run_child(void)
{
	/* Not deferred: the second signal wakes the handler of the first. */
	struct sigaction action = {.sa_handler = block_in_handler, .sa_flags = SA_NODEFER};
	pthread_t thread;

	if (stage->role != ROLE_HANDLER)
		action.sa_handler = wake;
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, wait_for_ever, NULL);
	pthread_create(&thread, NULL, act, NULL);
	wait_for_ever(NULL);
}

static void pause_a_moment(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	nanosleep(&moment, NULL);
}

static void wait_until_blocked(pid_t pid, pid_t tid)
{
	struct limpet_proc_syscall call;

	for (;;) {
		if (limpet_proc_syscall_read(pid, tid, &call) == 0 && !call.running &&
		    call.number == SYS_pause)
			return;
		pause_a_moment();
	}
	fail_msg("thread %d does not block", tid);
}

/* Those that were started before the one that plays. */
static void wait_for_sleepers(pid_t pid)
{
	pid_t *tids = NULL;
	int count = limpet_proc_tasks(pid, &tids);

	assert_int_equal(count, THREADS + 2);
	for (int i = 0; i < count; i++)
		if (tids[i] != (pid_t)stage->tid)
			wait_until_blocked(pid, tids[i]);
	free(tids);
}

/* A child whose thread plays the role, and stands where it should, as all others do. */
static pid_t start_child(enum role role)
{
	pid_t parent = getpid(), pid;

	memset(stage, 0, sizeof(*stage));
	stage->role = role;
	stage->shm.magic = LIMPET_SHM_MAGIC;
	stage->shm.abi = LIMPET_AGENT_ABI;
	stage->shm.layout.thread_count = LIMPET_COUNT_OF(stage->states);
	stage->shm.layout.threads_offset =
		offsetof(struct stage, states) - offsetof(struct stage, shm);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			run_child();
		_exit(0);
	}
	while (!__atomic_load_n(&stage->ready, __ATOMIC_ACQUIRE))
		pause_a_moment();
	wait_for_sleepers(pid);
	switch (role) {
	case ROLE_HANDLER:
		syscall(SYS_tgkill, pid, stage->tid, SIGUSR1);
		/* fall through */
	case ROLE_BLOCKS:
	case ROLE_BLOCKS_IN_AGENT:
	case ROLE_IN_HOOK:
	case ROLE_HOOK_BELOW:
	case ROLE_POPPED:
	case ROLE_RETURN_PROBE:
	case ROLE_PAGE:
	case ROLE_STALE:
		wait_until_blocked(pid, (pid_t)stage->tid);
		break;
	default:
		break;
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct limpet_tracer *tracer;

/* Rounds after which the deadline has come; 0: it never does. */
static unsigned rounds_left;

static void count_round(void *context)
{
	(void)context;
	if (rounds_left && !--rounds_left)
		clock_fixture_move(PATIENCE_NS + 1);
}

/* What each read of a status answers; 0: what there is. */
static int status_error;

int __real_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret);
int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret);
int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret)
{
	return status_error ? status_error : __real_limpet_proc_status_read(pid, ret);
}

static int prove_in(unsigned rounds, pid_t pid, bool stop_all, struct limpet_quiesce_stats *stats)
{
	const struct limpet_quiesce_options options = {.stop_all = stop_all,
						       .wait.tracer = tracer,
						       .wait.deadline_ns =
							       clock_fixture_ns() + PATIENCE_NS,
						       .wait.idle = count_round};

	rounds_left = rounds;
	return limpet_quiesce_prove(pid, &place, &options, stats);
}

static int prove(pid_t pid, bool stop_all, struct limpet_quiesce_stats *stats)
{
	return prove_in(0, pid, stop_all, stats);
}

/* Never: each round is one in vain, and the one that sees the deadline is the last. */
static void expect_none(pid_t pid, bool stop_all)
{
	struct limpet_quiesce_stats stats;

	assert_int_equal(prove_in(ROUNDS, pid, stop_all, &stats), -EBUSY);
	assert_int_equal(stats.rounds, ROUNDS + 1);
	assert_int_equal(rounds_left, 0);
}

/* No thread is left stopped, and none traced. */
static void assert_untouched(pid_t pid)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(pid, &tids);

	assert_int_equal(count, THREADS + 2);
	for (int i = 0; i < count; i++) {
		struct limpet_proc_status status;

		assert_int_equal(limpet_proc_status_read(tids[i], &status), 0);
		assert_int_equal(status.tracer, 0);
		assert_true(status.state == 'S' || status.state == 'R');
	}
}

static void expect_proof(enum role role, bool stop_all, unsigned stopped_at_least)
{
	pid_t pid = start_child(role);
	struct limpet_quiesce_stats stats;

	assert_int_equal(prove(pid, stop_all, &stats), 0);
	assert_int_equal(stats.threads, THREADS + 2);
	assert_true(stats.peeked + stats.stopped >= THREADS + 2);
	assert_true(stats.stopped >= stopped_at_least);
	assert_untouched(pid);
	end_child(pid);
}

/* Not while the thread is there; once it has gone on, yes. */
static void expect_refusal(enum role role, bool stop_all)
{
	pid_t pid = start_child(role);
	struct limpet_quiesce_stats stats;

	expect_none(pid, stop_all);
	assert_untouched(pid);
	stage->states[1].depth = 0;
	__atomic_store_n(&stage->go, 1, __ATOMIC_RELEASE);
	syscall(SYS_tgkill, pid, stage->tid, SIGUSR1);
	assert_int_equal(prove(pid, stop_all, &stats), 0);
	assert_untouched(pid);
	end_child(pid);
}

static void test_threads_that_sleep_are_not_stopped(void **state)
{
	pid_t pid = start_child(ROLE_BLOCKS);
	struct limpet_quiesce_stats stats;

	(void)state;
	assert_int_equal(prove(pid, false, &stats), 0);
	assert_int_equal(stats.peeked, THREADS + 2);
	assert_int_equal(stats.stopped, 0);
	assert_untouched(pid);
	end_child(pid);
	expect_proof(ROLE_BLOCKS, true, THREADS + 2);
}

static void test_a_thread_that_runs_is_stopped_once(void **state)
{
	(void)state;
	expect_proof(ROLE_SPINS, false, 1);
}

/* What the kernel says of the time that threads have had on a processor: that, and more each time.
 */
static bool own_run_time;
static uint64_t run_ns, more_ns;

int __real_limpet_proc_run_time(pid_t pid, pid_t tid, uint64_t *ret_ns);
int __wrap_limpet_proc_run_time(pid_t pid, pid_t tid, uint64_t *ret_ns);
int __wrap_limpet_proc_run_time(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
	if (!own_run_time)
		return __real_limpet_proc_run_time(pid, tid, ret_ns);
	*ret_ns = run_ns += more_ns;
	return 0;
}

static unsigned stops_in_the_agent(uint64_t more_each_time_ns)
{
	pid_t pid = start_child(ROLE_SPINS_IN_AGENT);
	struct limpet_quiesce_stats stats;

	own_run_time = true;
	more_ns = more_each_time_ns;
	assert_int_equal(prove_in(ROUNDS, pid, false, &stats), -EBUSY);
	own_run_time = false;
	assert_untouched(pid);
	end_child(pid);
	return stats.stopped;
}

static void test_a_thread_that_gets_no_processor_is_stopped_once(void **state)
{
	(void)state;
	assert_int_equal(stops_in_the_agent(0), 1);
	assert_int_equal(stops_in_the_agent(1000000), ROUNDS + 1);
}

static void test_a_thread_in_the_agent(void **state)
{
	(void)state;
	expect_refusal(ROLE_SPINS_IN_AGENT, false);
	expect_refusal(ROLE_SPINS_IN_AGENT, true);
	expect_refusal(ROLE_BLOCKS_IN_AGENT, false);
}

static void test_a_thread_in_a_hook(void **state)
{
	(void)state;
	expect_refusal(ROLE_IN_HOOK, false);
	expect_refusal(ROLE_IN_HOOK, true);
	expect_refusal(ROLE_HOOK_BELOW, false);
	expect_refusal(ROLE_HOOK_BELOW, true);
	expect_proof(ROLE_POPPED, false, 0);
	expect_proof(ROLE_POPPED, true, 0);
}

/* A hook is taken for one that a dead thread has left only if no thread can be its owner. */
static void test_a_thread_that_cannot_be_read_is_in_its_hook(void **state)
{
	const int errors[] = {-EMFILE, -ENFILE, -ENOMEM};
	pid_t pid = start_child(ROLE_IN_HOOK);

	(void)state;
	assert_true(limpet_quiesce_in_hook(pid, &place));
	for (size_t i = 0; i < LIMPET_COUNT_OF(errors); i++) {
		status_error = errors[i];
		assert_true(limpet_quiesce_in_hook(pid, &place));
	}
	status_error = -ESRCH;
	assert_false(limpet_quiesce_in_hook(pid, &place));
	status_error = 0;
	stage->states[1].tid = 1; /* no thread of the child has that number */
	assert_false(limpet_quiesce_in_hook(pid, &place));
	end_child(pid);
}

static void test_a_return_probe_hides_no_hook(void **state)
{
	(void)state;
	expect_proof(ROLE_PAGE, false, 0);
	end_child(start_child(ROLE_RETURN_PROBE));
	if (!stage->has_probes)
		limpet_skip("needs the kernel's uprobes, and root");
	expect_refusal(ROLE_RETURN_PROBE, false);
	expect_refusal(ROLE_RETURN_PROBE, true);
}

static void test_a_handler_above_the_agent(void **state)
{
	(void)state;
	expect_refusal(ROLE_HANDLER, false);
	expect_refusal(ROLE_HANDLER, true);
}

static void test_dead_words_do_not_count(void **state)
{
	(void)state;
	expect_proof(ROLE_STALE, false, 0);
}

static void test_a_hook_in_a_register(void **state)
{
	(void)state;
	expect_refusal(ROLE_HOLDS_THUNK, true);
}

/* Shared memory is the target's to write to: what is absurd proves nothing, and harms nobody. */
static void test_states_that_lie(void **state)
{
	pid_t pid = start_child(ROLE_BLOCKS);
	const struct limpet_shm good = stage->shm;

	(void)state;
	/* Waiting would not help. */
	stage->shm.layout.thread_count = UINT32_MAX;
	assert_int_equal(prove(pid, false, NULL), -EBADMSG);
	stage->shm = good;
	stage->shm.magic++;
	assert_int_equal(prove(pid, false, NULL), -EBADMSG);
	stage->shm = good;
	stage->shm.layout.threads_offset = 1ull << 46;
	stage->shm.states_used[0] = 1;
	expect_none(pid, false);
	stage->shm = good;
	stage->shm.layout.thread_count = 0;
	assert_int_equal(prove(pid, false, NULL), 0);
	/* Of an older agent: each is looked at, and none is unfinished. */
	stage->shm = good;
	stage->shm.abi--;
	stage->shm.states_used[0] = 0;
	assert_int_equal(prove(pid, false, NULL), 0);
	/* Not mapped (any more). */
	stage->shm = good;
	place.shm = 8;
	expect_none(pid, false);
	place.shm = (uint64_t)(uintptr_t)&stage->shm;
	assert_int_equal(prove(pid, false, NULL), 0);
	assert_untouched(pid);
	end_child(pid);
}

/* What the target does before each look at its memory. */
static void (*before_read)(void);

int __real_limpet_memory_read(pid_t pid, uint64_t address, void *ret, size_t bytes);
int __wrap_limpet_memory_read(pid_t pid, uint64_t address, void *ret, size_t bytes);
int __wrap_limpet_memory_read(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	if (before_read)
		before_read();
	return __real_limpet_memory_read(pid, address, ret, bytes);
}

int __real_limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes);
int __wrap_limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes);
int __wrap_limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	if (before_read)
		before_read();
	return __real_limpet_memory_read_own(pid, address, ret, bytes);
}

/* Grows while it is looked at, as a lying target's would. */
static unsigned flips;

static void flip_count(void)
{
	static const uint32_t counts[] = {1, 60000, 2, UINT32_MAX, 0, 60000, 60000};

	stage->shm.layout.thread_count = counts[flips++ % LIMPET_COUNT_OF(counts)];
}

static void test_states_that_change(void **state)
{
	pid_t pid = start_child(ROLE_BLOCKS);
	const struct limpet_shm good = stage->shm;

	(void)state;
	before_read = flip_count;
	for (unsigned i = 0; i < 20; i++) {
		/* Beginning with another one each time. */
		flips = i;
		prove_in(ROUNDS, pid, i % 2, NULL);
		assert_true(flips > i);
	}
	before_read = NULL;
	stage->shm = good;
	assert_int_equal(prove(pid, false, NULL), 0);
	assert_untouched(pid);
	end_child(pid);
}

static void test_a_target_that_ends(void **state)
{
	pid_t pid = start_child(ROLE_SPINS_IN_AGENT);

	(void)state;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(prove(pid, false, NULL), -ESRCH);
}

static int make_stage(void **state)
{
	(void)state;
	if (limpet_tracer_new(&tracer) < 0)
		return -1;
	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	agent_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stage == MAP_FAILED || agent_page == MAP_FAILED)
		return -1;
	memcpy(agent_page + SPIN_AT, spin_code, sizeof(spin_code));
	memcpy(agent_page + BLOCK_AT, block_code, sizeof(block_code));
	place = (struct limpet_agent_place){
		.start = (uint64_t)(uintptr_t)agent_page,
		.end = (uint64_t)(uintptr_t)agent_page + 4096,
		.thunks = (uint64_t)(uintptr_t)agent_page + THUNKS_AT,
		.thunks_end = (uint64_t)(uintptr_t)agent_page + THUNKS_AT + 2048,
		.shm = (uint64_t)(uintptr_t)&stage->shm,
	};
	return mprotect(agent_page, 4096, PROT_READ | PROT_EXEC);
}

/* ------------------------------------------------------------------ stops of many */

/* One that is held has stopped already when another's end is seen to, as happens while a third is
 * seized: the stop must still be told. */
static void test_a_stop_outlives_the_end_of_others(void **state)
{
	pid_t pid = start_child(ROLE_BLOCKS), *tids = NULL;
	struct limpet_tracee *first, *second;
	struct limpet_proc_status status = {0};
	const uint64_t deadline_ns = CLOCK_FIXTURE_NEVER;

	(void)state;
	assert_int_equal(limpet_proc_tasks(pid, &tids), THREADS + 2);
	limpet_tracer_many(tracer, true);
	assert_int_equal(limpet_tracee_request_stop(tracer, pid, tids[1], NULL, &first), 0);
	for (; status.state != 't'; pause_a_moment())
		assert_int_equal(limpet_proc_status_read(tids[1], &status), 0);
	/* As of an end. Blocked until the next is seized. */
	kill(getpid(), SIGCHLD);
	assert_int_equal(limpet_tracee_request_stop(tracer, pid, tids[2], NULL, &second), 0);
	limpet_tracer_many(tracer, false);
	assert_int_equal(limpet_tracee_await(first, deadline_ns), 0);
	assert_int_equal(limpet_tracee_await(second, deadline_ns), 0);
	assert_int_equal(limpet_tracee_release(second), 0);
	assert_int_equal(limpet_tracee_release(first), 0);
	assert_int_equal(limpet_tracer_strays(tracer), 0);
	free(tids);
	end_child(pid);
}

/* Pipes, and the threads that wait for the end of a vfork child each: the first one's child ends at
 * a word of the test's, the second one's when the first thread goes on. */
static struct {
	int to_first[2], to_second[2];
	volatile pid_t *tids; /* shared: of the two threads */
	volatile bool
		*vforked; /* shared: each has its child, and cannot be stopped before its end */
} chain;

static void *wait_first(void *context)
{
	char byte = 0;

	chain.tids[0] = gettid();
	if (!vfork()) {
		chain.vforked[0] = true;
		_exit(read(chain.to_first[0], &byte, 1) != 1);
	}
	if (write(chain.to_second[1], &byte, 1) != 1)
		_exit(1);
	return wait_for_ever(context);
}

static void *wait_second(void *context)
{
	char byte;

	chain.tids[1] = gettid();
	if (!vfork()) {
		chain.vforked[1] = true;
		_exit(read(chain.to_second[0], &byte, 1) != 1);
	}
	return wait_for_ever(context);
}

static void wait_for_state(pid_t tid, char state)
{
	struct limpet_proc_status status = {0};

	for (; status.state != state; pause_a_moment())
		assert_int_equal(limpet_proc_status_read(tid, &status), 0);
}

static pid_t start_chain(void)
{
	pthread_t thread;
	pid_t pid;

	assert_int_equal(pipe(chain.to_first) | pipe(chain.to_second), 0);
	chain.tids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(chain.tids, MAP_FAILED);
	chain.vforked = (volatile bool *)(chain.tids + 2);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, wait_first, NULL);
		pthread_create(&thread, NULL, wait_second, NULL);
		wait_for_ever(NULL);
	}
	while (!chain.vforked[0] || !chain.vforked[1])
		pause_a_moment();
	wait_for_state(chain.tids[0], 'D');
	wait_for_state(chain.tids[1], 'D');
	return pid;
}

static void end_chain(void)
{
	for (unsigned i = 0; i < 2; i++) {
		close(chain.to_first[i]);
		close(chain.to_second[i]);
	}
	munmap((void *)(uintptr_t)chain.tids, 4096);
}

/* A thread that stops after limpet has given it up does not stand while another is waited for that
 * waits for it. */
static void test_a_late_stop_holds_up_no_other(void **state)
{
	const uint64_t second_ns = 1000000000;
	pid_t pid = start_chain();
	struct limpet_tracee *first, *second;

	(void)state;
	clock_fixture_step(1000000);
	assert_int_equal(limpet_tracee_stop(tracer, pid, chain.tids[0],
					    clock_fixture_ns() + second_ns / 10, &first),
			 -ETIMEDOUT);
	assert_int_equal(limpet_tracer_strays(tracer), 1);
	assert_int_equal(limpet_tracee_request_stop(tracer, pid, chain.tids[1], NULL, &second), 0);
	assert_int_equal(write(chain.to_first[1], "", 1), 1);
	wait_for_state(chain.tids[0], 't');
	assert_int_equal(limpet_tracee_await(second, clock_fixture_ns() + second_ns), 0);
	assert_int_equal(limpet_tracer_strays(tracer), 0);
	assert_int_equal(limpet_tracee_release(second), 0);
	clock_fixture_step(0);
	end_child(pid);
	end_chain();
}

/* While limpet does something else, too. */
static void test_a_late_stop_in_the_middle_of_what_takes_long(void **state)
{
	const uint64_t tenth_ns = 100000000;
	pid_t pid = start_chain();
	struct limpet_tracee *first;
	bool begun;

	(void)state;
	assert_false(limpet_tracer_begin_long(tracer));
	clock_fixture_step(1000000);
	assert_int_equal(limpet_tracee_stop(tracer, pid, chain.tids[0],
					    clock_fixture_ns() + tenth_ns, &first),
			 -ETIMEDOUT);
	begun = limpet_tracer_begin_long(tracer);
	assert_true(begun);
	assert_int_equal(write(chain.to_first[1], "", 1), 1);
	while (limpet_tracer_strays(tracer))
		pause_a_moment();
	limpet_tracer_end_long(tracer, begun);
	/* It went on, and the other one after it. */
	wait_for_state(chain.tids[1], 'S');
	wait_for_state(chain.tids[0], 'S');
	clock_fixture_step(0);
	end_child(pid);
	end_chain();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_that_sleep_are_not_stopped),
		cmocka_unit_test(test_a_thread_that_runs_is_stopped_once),
		cmocka_unit_test(test_a_thread_that_gets_no_processor_is_stopped_once),
		cmocka_unit_test(test_a_thread_in_the_agent),
		cmocka_unit_test(test_a_thread_in_a_hook),
		cmocka_unit_test(test_a_thread_that_cannot_be_read_is_in_its_hook),
		cmocka_unit_test(test_a_return_probe_hides_no_hook),
		cmocka_unit_test(test_a_handler_above_the_agent),
		cmocka_unit_test(test_dead_words_do_not_count),
		cmocka_unit_test(test_a_hook_in_a_register),
		cmocka_unit_test(test_states_that_lie),
		cmocka_unit_test(test_states_that_change),
		cmocka_unit_test(test_a_target_that_ends),
		cmocka_unit_test(test_a_stop_outlives_the_end_of_others),
		cmocka_unit_test(test_a_late_stop_holds_up_no_other),
		cmocka_unit_test(test_a_late_stop_in_the_middle_of_what_takes_long),
	};

	return cmocka_run_group_tests(tests, make_stage, NULL);
}
