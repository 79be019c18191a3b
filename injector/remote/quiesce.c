#include "injector/remote/quiesce.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/wire.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/signal_frame.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/ptrace/tracee.h"

#define STOP_PATIENCE_NS 200000000u
/* For a thread that only waits for a processor: limpet does not hold it meanwhile, and it stops as
 * soon as it runs. */
#define RUN_PATIENCE_NS 2000000000u
/* How long limpet waits for the end of a call that a stop would cut short, if the thread has to be
 * stopped at all. */
#define POLITE_NS 1000000000u
/* Threads that were inside when they were stopped: by their number, and the last one of several. */
#define INSIDE 256u
/* What one of them may spend on its way out of a stop, in the kernel alone. */
#define STOP_COST_NS 100000u

struct scan {
	struct limpet_tracer *tracer;
	pid_t pid;
	const struct limpet_agent_place *place;
	struct limpet_thread *states; /* NULL: not read yet */
	uint32_t state_count;
	uint64_t used[LIMPET_THREADS / 64]; /* one bit per state: it has been claimed */
	uint64_t threads_offset, shm_bytes;
	bool knows_used;
	void *stack;
	struct limpet_stack_maps maps; /* of this round */
	uint64_t polite_until_ns;
	struct {
		pid_t tid;
		uint64_t run_ns;
	} inside[INSIDE];
	bool thunks_stay;
	bool broken; /* the states cannot be found: the program has written over their head */
};

static bool in_agent(const void *context, uint64_t address)
{
	const struct limpet_agent_place *place = context;
	bool inside = (address >= place->start && address < place->end) ||
		      (address >= place->thunks && address < place->thunks_end);

	for (unsigned i = 0; i < place->hook_area_count; i++)
		inside = inside || (address >= place->hook_areas[i].start &&
				    address < place->hook_areas[i].end);
	return inside;
}

static int begin_states(struct scan *scan)
{
	struct limpet_shm shm;
	int error = limpet_memory_read_own(scan->pid, scan->place->shm, &shm, sizeof(shm));

	if (error)
		return error;
	if (shm.magic != LIMPET_SHM_MAGIC || shm.layout.thread_count > LIMPET_THREADS)
		return -EBADMSG;
	scan->states = calloc(LIMPET_THREADS, sizeof(*scan->states));
	if (!scan->states)
		return -ENOMEM;
	scan->state_count = shm.layout.thread_count;
	scan->threads_offset = shm.layout.threads_offset;
	scan->shm_bytes = shm.bytes;
	/* An older agent stores this elsewhere, or not at all. */
	scan->knows_used = shm.abi == LIMPET_AGENT_ABI;
	memset(scan->used, 0xff, sizeof(scan->used));
	return 0;
}

/* The shared memory is not where the states were: a forked child has at most private memory there.
 */
static bool is_forked(const struct scan *scan)
{
	const uint64_t start = scan->place->shm + scan->threads_offset;
	const uint64_t bytes = scan->state_count * sizeof(*scan->states), end = start + bytes;
	struct limpet_maps maps;
	bool forked = true;

	if (scan->threads_offset > scan->shm_bytes ||
	    bytes > scan->shm_bytes - scan->threads_offset ||
	    limpet_proc_maps_read(scan->pid, &maps) < 0)
		return false;
	for (size_t i = 0; i < maps.count; i++)
		forked = forked && !(maps.list[i].start < end && maps.list[i].end > start &&
				     limpet_memfd_is_ours(maps.list[i].path));
	limpet_proc_maps_done(&maps);
	return forked;
}

static bool is_used(const struct scan *scan, uint32_t index)
{
	return scan->used[index / 64] >> (index % 64) & 1;
}

/* Takes fresh copies: depth and entry must be of the same moment as the stack. Only states that
 * were ever claimed: the bit is set before the claim. A forked child has none: the states were its
 * parent's, and it does not even have the memory (LIMPET_WINDOW_BYTES). */
static int read_states(struct scan *scan)
{
	int error = 0;

	if (!scan->place->shm)
		return 0;
	if (!scan->states)
		error = begin_states(scan);
	scan->broken = error == -EBADMSG;
	if (!error && scan->knows_used)
		error = limpet_memory_read_own(
			scan->pid, scan->place->shm + offsetof(struct limpet_shm, states_used),
			scan->used, sizeof(scan->used));
	for (uint32_t i = 0, end; i < scan->state_count && !error; i = end) {
		for (end = i + 1; end < scan->state_count && is_used(scan, end) == is_used(scan, i);
		     end++)
			;
		if (is_used(scan, i))
			error = limpet_memory_read_own(
				scan->pid,
				scan->place->shm + scan->threads_offset + i * sizeof(*scan->states),
				&scan->states[i], (end - i) * sizeof(*scan->states));
	}
	if (error == -EFAULT && scan->states && is_forked(scan))
		error = 0;
	return error;
}

/* Whether it is in the page where the kernel returns to first if another tool asks for the return
 * of a function (uretprobe). The page may be younger than the maps of this round. */
static bool in_return_probe(const struct scan *scan, uint64_t address)
{
	const struct limpet_map *map;
	struct limpet_maps maps;
	bool inside;

	if (limpet_proc_maps_read(scan->pid, &maps) < 0)
		return true;
	map = limpet_proc_maps_find(&maps, address);
	inside = map && !strcmp(map->path, "[uprobes]");
	limpet_proc_maps_done(&maps);
	return inside;
}

static bool is_in_use(const struct limpet_thread *state)
{
	return state->depth || state->phase != LIMPET_PHASE_OUTSIDE;
}

/* A hook that the state notes is unfinished unless its return address into the agent is gone; a
 * return probe on the original takes its place. Memory that cannot be read proves nothing, nor does
 * the order of addresses: handlers may run on stacks at higher addresses. */
static bool is_unfinished(const struct scan *scan, const struct limpet_thread *state)
{
	if (!is_in_use(state))
		return false;
	for (unsigned i = 0; i < LIMPET_ENTRY_WITNESSES; i++) {
		uint64_t word;

		if (limpet_memory_read(scan->pid,
				       state->entry_sp + (uint64_t)limpet_entry_witness[i], &word,
				       sizeof(word)) < 0 ||
		    in_agent(scan->place, word) ||
		    (limpet_may_be_return_probe(word) && in_return_probe(scan, word)))
			return true;
	}
	return false;
}

/* On its way through the page of a return probe, a thread has taken the address off its stack. */
static bool in_hook(const struct scan *scan, pid_t ns_tid, uint64_t pc)
{
	for (uint32_t i = 0; i < scan->state_count; i++) {
		const struct limpet_thread *state = &scan->states[i];

		if (state->tid == (uint32_t)ns_tid && state->thread_pointer > 1 &&
		    (is_unfinished(scan, state) || (is_in_use(state) && in_return_probe(scan, pc))))
			return true;
	}
	return false;
}

/* A thread that ended in a hook leaves its state as it was. One that cannot be read exists. */
static bool exists(pid_t pid, uint32_t ns_tid)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(pid, &tids);
	bool found = count < 0;

	for (int i = 0; i < count && !found; i++) {
		struct limpet_proc_status status;
		int error = limpet_proc_status_read(tids[i], &status);

		found = error ? !limpet_proc_is_gone(error) : (uint32_t)status.ns_pid == ns_tid;
	}
	return found;
}

bool limpet_quiesce_in_hook(pid_t pid, const struct limpet_agent_place *place)
{
	struct scan scan = {.pid = pid, .place = place};
	bool found = read_states(&scan) < 0;

	for (uint32_t i = 0; scan.states && i < scan.state_count && !found; i++)
		found = scan.states[i].thread_pointer > 1 &&
			is_unfinished(&scan, &scan.states[i]) && exists(pid, scan.states[i].tid);
	free(scan.states);
	return found;
}

static bool is_outside(struct scan *scan, pid_t ns_tid, uint64_t pc, uint64_t sp)
{
	/* A kernel worker that looks like a thread of the program (vhost): it was never in the
	 * agent. */
	if (!pc && !sp)
		return true;
	/* A thread with its stack pointer in the agent's memory runs the boot stub. An address of
	 * ours on a stack means nothing, since stale words keep return addresses; in a signal frame
	 * it is live. */
	return !in_agent(scan->place, pc) && !in_agent(scan->place, sp) && read_states(scan) == 0 &&
	       !in_hook(scan, ns_tid, pc) &&
	       !limpet_signal_goes_back(scan->pid, &scan->maps, sp, scan->stack, in_agent,
					scan->place);
}

/* 1: outside, 0: not outside, or unknown without a stop. */
static int peek(struct scan *scan, pid_t tid, pid_t ns_tid)
{
	struct limpet_proc_syscall before, after;
	uint64_t switches_before, switches_after;

	if (limpet_proc_switches(scan->pid, tid, &switches_before) < 0 ||
	    limpet_proc_syscall_read(scan->pid, tid, &before) < 0 || before.running)
		return 0;
	if (!is_outside(scan, ns_tid, before.pc, before.sp))
		return 0;
	return limpet_proc_syscall_read(scan->pid, tid, &after) == 0 && !after.running &&
	       after.pc == before.pc && after.sp == before.sp &&
	       limpet_proc_switches(scan->pid, tid, &switches_after) == 0 &&
	       switches_after == switches_before;
}

static bool holds_hook_address(const struct scan *scan, const struct user_regs_struct *regs)
{
	const uint64_t values[] = {regs->rax, regs->rbx, regs->rcx, regs->rdx, regs->rsi,
				   regs->rdi, regs->rbp, regs->r8,  regs->r9,  regs->r10,
				   regs->r11, regs->r12, regs->r13, regs->r14, regs->r15};

	for (size_t i = 0; i < LIMPET_COUNT_OF(values); i++)
		if (values[i] >= scan->place->thunks && values[i] < scan->place->thunks_end)
			return true;
	return false;
}

/* While it stands. */
static void note_inside(struct scan *scan, pid_t tid)
{
	const unsigned i = (unsigned)tid % INSIDE;

	scan->inside[i].tid =
		limpet_proc_run_time(scan->pid, tid, &scan->inside[i].run_ns) < 0 ? 0 : tid;
}

/* It was inside, and has not had a processor since, behind all others that want one: each stop
 * would only take it longer to come out. */
static bool is_still_inside(const struct scan *scan, pid_t tid, char state)
{
	const uint64_t cost_ns = state == 'R' ? STOP_COST_NS : 0;
	const unsigned i = (unsigned)tid % INSIDE;
	uint64_t run_ns;

	return scan->inside[i].tid == tid && limpet_proc_run_time(scan->pid, tid, &run_ns) == 0 &&
	       run_ns - scan->inside[i].run_ns <= cost_ns;
}

/* 1: outside, 0: not outside, or -errno. */
static int stop_and_check(struct scan *scan, pid_t tid, const struct limpet_proc_status *status,
			  struct limpet_quiesce_stats *stats)
{
	const uint64_t patience_ns = status->state == 'R' ? RUN_PATIENCE_NS : STOP_PATIENCE_NS;
	struct limpet_tracee *tracee;
	const struct user_regs_struct *regs;
	const struct limpet_priority before = limpet_tracer_raise(scan->tracer);
	int outside;
	int error = limpet_tracee_stop(scan->tracer, scan->pid, tid,
				       limpet_monotonic_ns() + patience_ns, &tracee);

	if (error) {
		limpet_tracer_lower(scan->tracer, before);
		return error;
	}
	regs = limpet_tracee_regs(tracee);
	outside = (scan->thunks_stay || !holds_hook_address(scan, regs)) &&
		  is_outside(scan, status->ns_pid, regs->rip, regs->rsp);
	if (!outside)
		note_inside(scan, tid);
	limpet_tracee_release(tracee);
	limpet_tracer_lower(scan->tracer, before);
	stats->stopped++;
	return outside;
}

static int check_thread(struct scan *scan, pid_t tid, bool stop_all,
			struct limpet_quiesce_stats *stats)
{
	struct limpet_proc_status status;
	int error = limpet_proc_status_read(tid, &status);

	if (error)
		return limpet_proc_is_gone(error) ? 1 : error;
	if (status.state == 'Z' || status.state == 'X' || status.kernel_thread)
		return 1;
	if (!stop_all && peek(scan, tid, status.ns_pid)) {
		stats->peeked++;
		return 1;
	}
	if (is_still_inside(scan, tid, status.state))
		return 0;
	if (limpet_monotonic_ns() < scan->polite_until_ns &&
	    limpet_stop_cuts(scan->pid, tid, status.seccomp, NULL))
		return 0;
	error = stop_and_check(scan, tid, &status, stats);
	return error == -ESRCH ? 1 : error;
}

static uint64_t polite_until(uint64_t deadline_ns)
{
	uint64_t now_ns = limpet_monotonic_ns();
	uint64_t half_ns = deadline_ns > now_ns ? (deadline_ns - now_ns) / 2 : 0;

	return now_ns + (half_ns < POLITE_NS ? half_ns : POLITE_NS);
}

/* Threads in ascending order, as they are listed. */
struct threads {
	pid_t *list;
	size_t count;
};

/* Keeps in `threads` those that are outside now, or were `seen` outside. Returns whether all are.
 */
static bool check_threads(struct scan *scan, const struct threads *seen, struct threads *threads,
			  bool stop_all, struct limpet_quiesce_stats *stats)
{
	size_t before = 0, kept = 0, count = threads->count;

	for (size_t i = 0; i < count; i++) {
		pid_t tid = threads->list[i];

		while (before < seen->count && seen->list[before] < tid)
			before++;
		if ((before < seen->count && seen->list[before] == tid) ||
		    check_thread(scan, tid, stop_all, stats) == 1)
			threads->list[kept++] = tid;
	}
	threads->count = kept;
	return kept == count;
}

/* Pauses between rounds. -EAGAIN: make another round. */
static int wait_a_moment(const struct limpet_wait *wait, uint64_t *pause_ns)
{
	const uint64_t longest_ns = 20000000;
	int error = limpet_wait_pause(wait, pause_ns, longest_ns);

	return !error ? -EAGAIN : error == -EBUSY ? error : -ESRCH;
}

int limpet_quiesce_prove(pid_t pid, const struct limpet_agent_place *place,
			 const struct limpet_quiesce_options *options,
			 struct limpet_quiesce_stats *ret_stats)
{
	struct limpet_quiesce_stats stats = {0};
	struct scan scan = {.tracer = options->wait.tracer,
			    .pid = pid,
			    .place = place,
			    .stack = malloc(LIMPET_SIGNAL_STACK_BYTES),
			    .maps = {.pagemap = -1},
			    .polite_until_ns = polite_until(options->wait.deadline_ns),
			    .thunks_stay = options->thunks_stay};
	uint64_t pause_ns = 500000;
	struct threads seen = {NULL, 0};
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_PROVE, 0, 0);
	int result = scan.stack ? -EAGAIN : -ENOMEM;

	while (result == -EAGAIN) {
		struct threads now;
		int count = limpet_proc_tasks(pid, &now.list);

		if (count < 0) {
			result = count;
			break;
		}
		now.count = stats.threads = (unsigned)count;
		stats.rounds++;
		limpet_stack_maps_done(&scan.maps);
		limpet_stack_maps_read(pid, &scan.maps);
		if (check_threads(&scan, &seen, &now, options->stop_all, &stats))
			result = 0;
		else
			result = scan.broken ? -EBADMSG : wait_a_moment(&options->wait, &pause_ns);
		free(seen.list);
		seen = now;
	}
	limpet_tracer_release_strays(scan.tracer);
	free(seen.list);
	free(scan.states);
	free(scan.stack);
	limpet_stack_maps_done(&scan.maps);
	if (ret_stats)
		*ret_stats = stats;
	return limpet_step_end(&step, result);
}
