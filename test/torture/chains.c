/* chains [--seconds S] [--notes FILE] [--spoil memos|prints|tables] [--collector PID] [--name NAME]
 *        [--verbose] PID COUNT
 * chains --trace TRACE --notes FILE
 *
 * Beside a running capture of PID: stops its threads at every call of an allocating hook and takes
 * the stack there by an unwinder of its own; stops them again when that call returns, and holds the
 * stack against the one that the hook has just recorded. After COUNT recorded allocations it lets
 * go. Says each stack that differs, and in the end the figures, as JSON.
 *
 * They stop at an int3 in the agent's own code, where a hook begins and where it returns: on any
 * machine, also where the processor's breakpoints are not delivered. The program must not fork
 * meanwhile, since a child would have a copy of them; and if it blocks or ignores SIGTRAP, it no
 * longer does afterwards.
 *
 * --verbose: each that is not whole, too. Ends with 0, or 3 if any stack differed, or 1.
 *
 * A stack counts as
 *   whole   both reached the root, by the same return addresses, or our own word for an
 *           interpreted function in place of one into the interpreter;
 *   cut     ours has as many frames as are kept, and these are the innermost of the other;
 *   part    the other ended early, for want of a description; what it has is the innermost part;
 *   short   ours ended early, and says so; what it has is the innermost part;
 *   differs anything else.
 *
 * With --trace: every allocation that was noted has to be in the trace, with the same thread, size
 * and stack. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/trace/trace_reader.h"
#include "common/unwind_walk.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "test/torture/chains_agent.h"
#include "test/torture/chains_unwind.h"

#define THREADS 1024u
#define NESTED 4u /* calls of one thread that are waited for */
#define SHOWN 5u
#define SPOIL_EVERY 16u

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_DIFFERS = 3 };

/* A call of a hook that has not returned yet. */
struct call {
	uint64_t return_pc, return_sp;
	uint64_t size, result_at; /* posix_memalign: where the block's address will be */
	uint64_t place;           /* of the thread's next record */
	uint32_t op;
	struct chain chain; /* by the other unwinder */
};

struct thread {
	pid_t tid; /* 0: free */
	bool seized;
	int index; /* of its state in the agent; < 0: not known yet */
	uint32_t depth;
	struct call *calls; /* NESTED */
};

enum spoil { SPOIL_NOTHING, SPOIL_MEMOS, SPOIL_PRINTS, SPOIL_TABLES };

static struct {
	uint64_t compared, whole, cut, part, shorter, differs;
	uint64_t frames, deepest, distinct;
	uint64_t passed;   /* calls that the agent let pass, inner ones, or that never returned */
	uint64_t failed;   /* calls that got no block */
	uint64_t nested;   /* calls under too many others to be waited for */
	uint64_t no_stack; /* recorded without a stack, and counted as such by the agent */
	uint64_t spoiled;
} figures;

static struct thread threads[THREADS];
static struct agent agent;
static struct other_unwinder *other;
static enum spoil spoil;
static pid_t target;
static uint64_t wanted;
static FILE *notes;
static bool verbose;
static volatile sig_atomic_t over;

static void end(int number)
{
	(void)number;
	over = 1;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "chains: %s: %s\n", what, strerror(-error));
	return EXIT_FAILED;
}

/* ------------------------------------------------------------------ notes */

static uint64_t hash_add(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 31;
}

static uint64_t hash_event(pid_t tid, uint64_t size, uint64_t chain_hash)
{
	return hash_add(hash_add(hash_add(1, (uint64_t)tid), size), chain_hash);
}

/* From the root inwards, as the trace lists its nodes. */
static uint64_t hash_chain(const struct chain *chain)
{
	uint64_t hash = 0;

	for (uint32_t i = chain->count; i-- > 0;)
		hash = hash_add(hash, chain->pcs[i]);
	return hash;
}

/* ------------------------------------------------------------------ comparing */

/* Of an interpreted function ours has its bytecode, where the other has the interpreter. */
static bool is_same_frame(uint64_t ours, uint64_t theirs)
{
	return ours == theirs || (ours & LIMPET_FRAME_INTERPRETED &&
				  limpet_walk_is_interpreter(&agent.shm.interpreter, theirs));
}

static void show(const struct call *call, const struct chain *ours, pid_t tid)
{
	const struct chain *theirs = &call->chain;
	uint32_t count = ours->count > theirs->count ? ours->count : theirs->count, first = 0;

	while (first < ours->count && first < theirs->count &&
	       is_same_frame(ours->pcs[first], theirs->pcs[first]))
		first++;
	fprintf(stderr, "chains: thread %d, size %" PRIu64 ": ours %u frames%s, the other %u%s\n",
		(int)tid, call->size, ours->count, ours->whole ? "" : " (cut)", theirs->count,
		theirs->whole ? "" : " (cut)");
	for (uint32_t i = first > 2 ? first - 2 : 0; i < count && i < first + 4; i++) {
		char our_name[256] = "-", their_name[256] = "-";

		if (i < ours->count)
			other_unwinder_name(other, ours->pcs[i], our_name, sizeof(our_name));
		if (i < theirs->count)
			other_unwinder_name(other, theirs->pcs[i], their_name, sizeof(their_name));
		fprintf(stderr, "  %4u %s | %s\n", i, our_name, their_name);
	}
}

/* Answers whether they agree. */
static bool compare(const struct chain *ours, const struct chain *theirs)
{
	uint32_t both = ours->count < theirs->count ? ours->count : theirs->count;
	bool our_end = ours->count <= theirs->count, their_end = theirs->count <= ours->count;

	for (uint32_t i = 0; i < both; i++)
		if (!is_same_frame(ours->pcs[i], theirs->pcs[i]))
			return false;
	figures.frames += both;
	if (our_end && their_end && ours->whole && theirs->whole)
		figures.whole++;
	else if (!ours->whole && our_end && ours->count == agent.shm.max_depth && !their_end)
		figures.cut++;
	else if (!theirs->whole && their_end)
		figures.part++;
	else if (!ours->whole && our_end)
		figures.shorter++;
	else
		return false;
	return true;
}

static void spoil_more(const struct thread *thread, const struct record *record)
{
	int answer = 0;

	if (spoil == SPOIL_MEMOS)
		answer = spoil_stack_caches(&agent, thread->index);
	else if (spoil == SPOIL_PRINTS && figures.compared % SPOIL_EVERY == 0)
		answer = spoil_fingerprints(&agent, record->stack);
	if (answer > 0)
		figures.spoiled += (uint64_t)answer;
}

static void hold_against(const struct thread *thread, const struct call *call,
			 const struct record *record)
{
	struct chain ours;
	int answer = agent_chain(&agent, record->stack, &ours);
	uint64_t incomplete;
	bool same;

	if (answer == -ENODATA) {
		figures.no_stack++;
		if (record->stack)
			(void)agent_forget(&agent);
		return;
	}
	figures.compared++;
	figures.distinct += answer > 0;
	incomplete = figures.part + figures.shorter;
	same = answer >= 0 && record->size == call->size && compare(&ours, &call->chain);
	if (verbose && figures.part + figures.shorter != incomplete)
		show(call, &ours, thread->tid);
	if (ours.count > figures.deepest)
		figures.deepest = ours.count;
	if (!same && figures.differs++ < SHOWN)
		show(call, &ours, thread->tid);
	if (notes)
		fprintf(notes, "%016" PRIx64 "\n",
			hash_event(thread->tid, record->size, hash_chain(&ours)));
	spoil_more(thread, record);
}

/* ------------------------------------------------------------------ at the traps */

/* What a call asks for; false: the hook records no stack. */
static bool read_request(const struct user_regs_struct *r, struct call *call)
{
	call->result_at = 0;
	switch (call->op) {
	case LIMPET_OP_MALLOC:
		call->size = r->rdi;
		return true;
	case LIMPET_OP_CALLOC:
		call->size = r->rdi * r->rsi;
		return true;
	case LIMPET_OP_REALLOC:
	case LIMPET_OP_MEMALIGN:
	case LIMPET_OP_MMAP:
		call->size = r->rsi;
		return true;
	case LIMPET_OP_REALLOCARRAY:
		call->size = r->rsi * r->rdx;
		return true;
	case LIMPET_OP_POSIX_MEMALIGN:
		call->result_at = r->rdi;
		call->size = r->rdx;
		return true;
	case LIMPET_OP_MREMAP:
		call->size = r->rdx;
		return true;
	default:
		return false;
	}
}

static int on_call(struct thread *thread, const struct user_regs_struct *registers)
{
	const uint64_t return_sp = registers->rsp + sizeof(uint64_t);
	struct call *call;

	/* What an exception or longjmp has left does not come back, nor what the agent let pass. */
	while (thread->depth && thread->calls[thread->depth - 1].return_sp <= return_sp &&
	       return_sp - thread->calls[thread->depth - 1].return_sp < 1u << 20) {
		thread->depth--;
		figures.passed++;
	}
	if (thread->depth == NESTED) {
		figures.nested++;
		return 0;
	}
	call = &thread->calls[thread->depth];
	call->op = agent_op(&agent, (uint32_t)registers->r11);
	if (!read_request(registers, call))
		return 0;
	if (limpet_memory_read(target, registers->rsp, &call->return_pc, sizeof(call->return_pc)))
		return -EFAULT;
	call->return_sp = return_sp;
	if (thread->index < 0)
		thread->index = agent_thread(&agent, thread->tid);
	call->place = agent_place(&agent, thread->index);
	other_unwinder_walk(other, registers, agent.shm.max_depth + 1, &call->chain);
	thread->depth++;
	return 0;
}

static void on_result(struct thread *thread, const struct user_regs_struct *registers,
		      const struct call *call)
{
	uint64_t address = registers->rax, place;
	struct record record;

	if (call->op == LIMPET_OP_POSIX_MEMALIGN &&
	    ((uint32_t)address ||
	     limpet_memory_read(target, call->result_at, &address, sizeof(address))))
		address = 0;
	if (!address || address > UINT64_MAX - 4095) {
		figures.failed++;
		return;
	}
	if (thread->index < 0)
		thread->index = agent_thread(&agent, thread->tid);
	place = agent_place(&agent, thread->index);
	if (thread->index >= 0)
		(void)agent_learn(&agent, thread->index);
	if (!place || place == call->place || !agent_record(&agent, place, address, &record)) {
		figures.passed++;
		return;
	}
	hold_against(thread, call, &record);
}

/* Back in the caller. */
static void on_return(struct thread *thread, const struct user_regs_struct *registers)
{
	uint32_t i = thread->depth;

	while (i && (thread->calls[i - 1].return_pc != registers->rip ||
		     thread->calls[i - 1].return_sp != registers->rsp))
		i--;
	if (!i)
		return; /* one that records no stack, or that is not waited for */
	figures.passed += thread->depth - i;
	on_result(thread, registers, &thread->calls[i - 1]);
	thread->depth = i - 1;
}

static int on_trap(struct thread *thread, bool leaving)
{
	struct user_regs_struct registers;
	enum trap trap;
	int error = 0;

	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &registers) < 0)
		return -errno;
	trap = agent_pass_trap(&agent, &registers);
	if (trap == TRAP_NONE)
		return -EBADMSG;
	if (!leaving && trap == TRAP_IN)
		error = on_call(thread, &registers);
	else if (!leaving)
		on_return(thread, &registers);
	if (ptrace(PTRACE_SETREGS, thread->tid, NULL, &registers) < 0)
		return -errno;
	return error;
}

/* ------------------------------------------------------------------ threads */

static struct thread *find(pid_t tid)
{
	struct thread *free_one = NULL;

	for (uint32_t i = 0; i < THREADS; i++) {
		if (threads[i].tid == tid)
			return &threads[i];
		if (!threads[i].tid && !free_one)
			free_one = &threads[i];
	}
	return free_one;
}

static struct thread *adopt(pid_t tid)
{
	struct thread *thread = find(tid);

	if (!thread || thread->tid)
		return thread;
	if (!thread->calls)
		thread->calls = calloc(NESTED, sizeof(*thread->calls));
	if (!thread->calls)
		return NULL;
	thread->tid = tid;
	thread->seized = false;
	thread->index = -1;
	thread->depth = 0;
	return thread;
}

static bool is_any_left(void)
{
	for (uint32_t i = 0; i < THREADS; i++)
		if (threads[i].tid)
			return true;
	return false;
}

/* Threads may appear meanwhile. */
static int seize_all(void)
{
	for (bool again = true; again;) {
		LIMPET_FREE pid_t *tids = NULL;
		int count = limpet_proc_tasks(target, &tids);

		if (count < 0)
			return count;
		again = false;
		for (int i = 0; i < count; i++) {
			struct thread *thread = adopt(tids[i]);

			if (!thread)
				return -ENOSPC;
			if (thread->seized)
				continue;
			if (ptrace(PTRACE_SEIZE, tids[i], NULL, PTRACE_O_TRACECLONE) < 0) {
				/* Gone, or a new one that its creator's seizure brought along. */
				if (errno != EPERM)
					thread->tid = 0;
				continue;
			}
			again = true;
			if (ptrace(PTRACE_INTERRUPT, tids[i], NULL, NULL) < 0)
				return -errno;
			thread->seized = true;
		}
	}
	return 0;
}

static bool is_of_int3(const siginfo_t *info)
{
	return info->si_signo == SIGTRAP && info->si_code == SI_KERNEL;
}

static bool is_trap(pid_t tid)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0 && is_of_int3(&info);
}

/* One that it has run into, while it was to stop for something else. */
static bool is_trap_pending(pid_t tid)
{
	siginfo_t list[32];
	struct __ptrace_peeksiginfo_args which = {.nr = sizeof(list) / sizeof(list[0])};
	long count = ptrace(PTRACE_PEEKSIGINFO, tid, &which, list);

	for (long i = 0; i < count; i++)
		if (is_of_int3(&list[i]))
			return true;
	return false;
}

static void let_go(struct thread *thread, int number)
{
	/* It would be killed by what nobody takes from it any more. */
	if (is_trap_pending(thread->tid)) {
		ptrace(PTRACE_CONT, thread->tid, NULL, number);
		return;
	}
	ptrace(PTRACE_DETACH, thread->tid, NULL, number);
	thread->tid = 0;
}

static int on_stop(pid_t tid, int status, bool leaving)
{
	struct thread *thread = adopt(tid);
	int event = status >> 16, number = WSTOPSIG(status), error = 0;
	bool group = event == PTRACE_EVENT_STOP && number != SIGTRAP;

	if (!thread)
		return -ENOSPC;
	if (event == PTRACE_EVENT_CLONE) {
		unsigned long child;

		if (ptrace(PTRACE_GETEVENTMSG, tid, NULL, &child) == 0 && !adopt((pid_t)child))
			return -ENOSPC;
	}
	if (!event && number == SIGTRAP && is_trap(tid)) {
		number = 0;
		error = on_trap(thread, leaving);
	} else if (event) {
		number = 0;
	}
	if (leaving) {
		let_go(thread, number);
		return 0;
	}
	if (ptrace(group ? PTRACE_LISTEN : PTRACE_CONT, tid, NULL, number) < 0)
		return errno == ESRCH ? 0 : -errno;
	return error == -ESRCH ? 0 : error;
}

/* Until all is compared; or, leaving, until no thread is traced. */
static int go_on(bool leaving)
{
	int error = 0, status;

	while (!error && is_any_left() && (leaving || (figures.compared < wanted && !over))) {
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == ECHILD)
			break;
		if (tid < 0 && errno != EINTR)
			error = -errno;
		if (tid <= 0)
			continue;
		if (WIFSTOPPED(status))
			error = on_stop(tid, status, leaving);
		else
			find(tid)->tid = 0;
	}
	return error;
}

static int leave(void)
{
	int error = agent_set_traps(&agent, false), answer;

	for (uint32_t i = 0; i < THREADS; i++)
		if (threads[i].tid)
			ptrace(PTRACE_INTERRUPT, threads[i].tid, NULL, NULL);
	answer = go_on(true);
	return error ? error : answer;
}

static void fingerprint_figures(const char *name)
{
	printf("{\"name\":\"%s\",\"stacks\":%" PRIu64 ",\"whole\":%" PRIu64 ",\"cut\":%" PRIu64
	       ",\"part\":%" PRIu64 ",\"short\":%" PRIu64 ",\"differs\":%" PRIu64
	       ",\"frames\":%" PRIu64 ",\"deepest\":%" PRIu64 ",\"distinct\":%" PRIu64
	       ",\"passed\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"nested\":%" PRIu64
	       ",\"no_stack\":%" PRIu64 ",\"spoiled\":%" PRIu64 "}\n",
	       name, figures.compared, figures.whole, figures.cut, figures.part, figures.shorter,
	       figures.differs, figures.frames, figures.deepest, figures.distinct, figures.passed,
	       figures.failed, figures.nested, figures.no_stack, figures.spoiled);
}

static int run(const char *name, pid_t collector, unsigned seconds)
{
	const struct itimerval limit = {.it_value.tv_sec = seconds};
	const struct sigaction action = {.sa_handler = end};
	int error = agent_find(target, &agent), answer;

	if (error)
		return fail("no agent", error);
	error = other_unwinder_new(target, &other);
	if (error)
		return fail("libdwfl", error);
	if (spoil == SPOIL_TABLES) {
		answer = spoil_tables(&agent, collector, 8);
		if (answer < 0)
			return fail("tables", answer);
		figures.spoiled = (uint64_t)answer;
	}
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	setitimer(ITIMER_REAL, &limit, NULL);
	error = seize_all();
	if (!error)
		error = agent_forget(&agent);
	if (!error)
		error = agent_set_traps(&agent, true);
	fprintf(stderr, "chains: ready\n");
	if (!error)
		error = go_on(false);
	answer = leave();
	if (!error)
		error = answer;
	/* The collector goes by them when it leaves. */
	if (spoil == SPOIL_TABLES && spoil_tables(&agent, collector, -8) < 0)
		return fail("tables", -EIO);
	fingerprint_figures(name);
	other_unwinder_free(other);
	agent_done(&agent);
	for (uint32_t i = 0; i < THREADS; i++)
		free(threads[i].calls);
	if (error)
		return fail("tracing", error);
	if (figures.compared < wanted)
		return fail("too few allocations", -ETIMEDOUT);
	return figures.differs ? EXIT_DIFFERS : EXIT_GOOD;
}

/* ------------------------------------------------------------------ the trace */

struct hashes {
	uint64_t *list;
	size_t count, room;
};

static void hashes_add(struct hashes *hashes, uint64_t hash)
{
	if (hashes->count == hashes->room) {
		hashes->room = hashes->room ? hashes->room * 2 : 4096;
		hashes->list = reallocarray(hashes->list, hashes->room, sizeof(hashes->list[0]));
		if (!hashes->list)
			abort();
	}
	hashes->list[hashes->count++] = hash;
}

static int compare_hashes(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void hashes_sort(struct hashes *hashes)
{
	if (hashes->count)
		qsort(hashes->list, hashes->count, sizeof(hashes->list[0]), compare_hashes);
}

static int read_notes(const char *path, struct hashes *ret)
{
	FILE *file = fopen(path, "re");
	uint64_t hash;

	if (!file)
		return -errno;
	while (fscanf(file, "%" SCNx64, &hash) == 1)
		hashes_add(ret, hash);
	fclose(file);
	return 0;
}

static int read_trace(const char *path, struct hashes *ret)
{
	const struct limpet_trace_node *nodes;
	const struct limpet_trace_block *blocks;
	struct limpet_trace_reader *reader;
	struct limpet_err err = {0};
	uint64_t *chains;
	uint32_t node_count;
	size_t block_count;
	int error = limpet_trace_reader_open(path, &reader, &err);

	if (error)
		return error;
	node_count = limpet_trace_reader_nodes(reader, &nodes);
	block_count = limpet_trace_reader_blocks(reader, &blocks);
	chains = calloc(node_count, sizeof(*chains));
	for (uint32_t i = 1; chains && i < node_count; i++)
		chains[i] = hash_add(chains[nodes[i].parent], nodes[i].address);
	for (size_t i = 0; chains && i < block_count && !error; i++) {
		struct limpet_trace_event event;
		struct limpet_trace_events *events;

		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		error = limpet_trace_events_open(reader, i, &events);
		if (error)
			break;
		while ((error = limpet_trace_events_next(events, &event)) == 1)
			if (event.kind == LIMPET_ROW_ALLOC || event.kind == LIMPET_ROW_MMAP ||
			    event.kind == LIMPET_ROW_UNTRACKED)
				hashes_add(ret, hash_event((pid_t)event.tid, event.size,
							   chains[event.node]));
		limpet_trace_events_free(events);
	}
	free(chains);
	limpet_trace_reader_free(reader);
	return error;
}

static int check_trace(const char *trace, const char *notes_path)
{
	struct hashes noted = {0}, there = {0};
	uint64_t missing = 0;
	int error = read_notes(notes_path, &noted);

	if (!error)
		error = read_trace(trace, &there);
	if (error)
		return fail("trace", error);
	hashes_sort(&noted);
	hashes_sort(&there);
	for (size_t i = 0, j = 0; i < noted.count; i++) {
		while (j < there.count && there.list[j] < noted.list[i])
			j++;
		if (j < there.count && there.list[j] == noted.list[i])
			j++;
		else
			missing++;
	}
	printf("{\"noted\":%zu,\"in_trace\":%zu,\"missing\":%" PRIu64 "}\n", noted.count,
	       there.count, missing);
	free(noted.list);
	free(there.list);
	return missing || !noted.count ? EXIT_DIFFERS : EXIT_GOOD;
}

static int usage(void)
{
	fputs("usage: chains [--seconds S] [--notes FILE] [--spoil memos|prints|tables] "
	      "[--collector PID]\n"
	      "              [--name NAME] [--verbose] PID COUNT\n"
	      "       chains --trace TRACE --notes FILE\n",
	      stderr);
	return 2;
}

int main(int argc, char *argv[])
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"notes", required_argument, NULL, 'n'},
		{"spoil", required_argument, NULL, 'p'},
		{"trace", required_argument, NULL, 't'},
		{"name", required_argument, NULL, 'm'},
		{"collector", required_argument, NULL, 'c'},
		{"verbose", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	static const char *const words[] = {"nothing", "memos", "prints", "tables"};
	const char *name = "", *notes_path = NULL, *trace = NULL;
	unsigned seconds = 120;
	pid_t collector = 0;
	int option, status;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		if (option == 's')
			seconds = (unsigned)atoi(optarg);
		else if (option == 'n')
			notes_path = optarg;
		else if (option == 't')
			trace = optarg;
		else if (option == 'm')
			name = optarg;
		else if (option == 'c')
			collector = atoi(optarg);
		else if (option == 'v')
			verbose = true;
		else if (option == 'p')
			while (spoil < 4 && strcmp(words[spoil], optarg) != 0)
				spoil++;
		else
			return usage();
	if (trace && notes_path)
		return check_trace(trace, notes_path);
	if (optind + 2 != argc || spoil == 4)
		return usage();
	target = atoi(argv[optind]);
	wanted = strtoull(argv[optind + 1], NULL, 10);
	if (notes_path) {
		notes = fopen(notes_path, "we");
		if (!notes)
			return fail(notes_path, -errno);
	}
	status = run(name, collector, seconds);
	if (notes && fclose(notes) != 0)
		return fail("notes", -errno);
	return status;
}
