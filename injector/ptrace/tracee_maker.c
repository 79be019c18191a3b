#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "common/clock.h"
#include "injector/proc/memory.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee_private.h"

#define ERESTARTNOINTR 513 /* include/linux/errno.h; no program sees it */
#define MAX_CALLS 6u       /* of a maker, on its own */

/* A frame at `home`, by which a thread goes on with `regs`, whichever code there is for it. Returns
 * the address to which its stack pointer has to point. */
static uint64_t frame_to(const struct limpet_tracee_gadgets *gadgets,
			 const struct user_regs_struct *regs, uint64_t home,
			 uint8_t ret_image[LIMPET_CALL_FRAME_BYTES])
{
	const uint64_t words[] = {gadgets->pop_rax, SYS_rt_sigreturn};

	memcpy(ret_image, words, sizeof(words));
	limpet_sigreturn_frame_bare(regs, gadgets->restorer ?: gadgets->syscall,
				    ret_image + sizeof(words));
	return gadgets->restorer ? home + sizeof(words) : home;
}

static const struct limpet_tracee_call to_exit = {SYS_exit, {0}};

/* The way of a maker that nobody traces any more: from any system call to its end. */
static int write_end(const struct limpet_tracee *tracee, uint64_t *ret_home)
{
	const uint64_t address = (tracee->spare - LIMPET_CALL_FRAME_BYTES) & ~15ull;
	uint8_t image[LIMPET_CALL_FRAME_BYTES];
	struct user_regs_struct regs;
	struct limpet_step step;
	uint64_t home;
	int error;

	limpet_tracee_prepare_syscall(tracee, to_exit.number, to_exit.args, &regs);
	regs.rsp = address;
	home = frame_to(&tracee->gadgets, &regs, address, image);
	step = limpet_step_begin(LIMPET_STEP_WRITE_END, tracee->tid, 0);
	error = limpet_memory_write(tracee->pid, address, image, sizeof(image));
	limpet_step_end(&step, error);
	if (!error)
		*ret_home = home;
	return error;
}

static int set_options(const struct limpet_tracee *tracee, unsigned options)
{
	return limpet_ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL,
			     (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | options)) < 0
		       ? -errno
		       : 0;
}

/* What an event tells. A lost answer would leave a thread that nobody knows of. */
static int get_message(const struct limpet_tracee *tracee, unsigned long *ret)
{
	const unsigned tries = 2;
	unsigned long message = 0;
	long answer = -1;

	for (unsigned i = 0; i < tries && answer < 0; i++)
		answer = limpet_ptrace(PTRACE_GETEVENTMSG, tracee->tid, NULL, &message);
	if (answer < 0)
		return -errno;
	*ret = message;
	return 0;
}

/* Resumes the thread until an event that was asked for, or, by PTRACE_SYSCALL, a syscall stop. */
static int to_stop(struct limpet_tracee *tracee, int request, uint64_t deadline_ns,
		   enum limpet_stop_kind *ret_kind)
{
	int signal_number = 0, pass = 0;

	for (;;) {
		int error = limpet_tracee_resume(tracee, request, pass);

		if (!error)
			error = limpet_tracee_wait_stop(tracee, deadline_ns, ret_kind,
							&signal_number);
		if (error)
			return error;
		if (*ret_kind == LIMPET_STOP_KIND_OTHER || *ret_kind == LIMPET_STOP_KIND_SYSCALL)
			return 0;
		pass = limpet_tracee_signal_to_pass(*ret_kind, signal_number);
		if (pass < 0)
			return pass;
	}
}

/* Continues from the entry stop of clone(2). *ret_tid: the new thread, in the midst of the call; 0:
 * there is none, and *ret_answer says why. */
static int to_new_thread(struct limpet_tracee *tracee, uint64_t deadline_ns, pid_t *ret_tid,
			 int64_t *ret_answer)
{
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	struct user_regs_struct regs;
	struct iovec vector = {&regs, sizeof(regs)};
	unsigned long tid = 0;
	int error = to_stop(tracee, PTRACE_SYSCALL, deadline_ns, &kind);

	if (error)
		return error;
	if (kind == LIMPET_STOP_KIND_OTHER) {
		tracee->at_clone = true;
		error = get_message(tracee, &tid);
		if (!error)
			*ret_tid = (pid_t)tid;
		return error;
	}
	tracee->at_entry = false;
	tracee->at_syscall = true;
	if (limpet_ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	*ret_tid = 0;
	*ret_answer = (int64_t)regs.rax;
	return 0;
}

/* The new thread, which has not executed an instruction. It was woken before the stop of the thread
 * that made it, and so waits for nobody. */
static int adopt_maker(struct limpet_tracee *tracee, pid_t tid, uint64_t home, uint64_t deadline_ns,
		       struct limpet_tracee **ret)
{
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	struct limpet_tracee *maker;
	int error = limpet_tracee_new(tracee->tracer, tracee->pid, tid, &maker), signal_number;

	if (error) {
		limpet_tracer_add_stray(tracee->tracer,
					&(struct limpet_stray){.pid = tracee->pid, .tid = tid});
		return error;
	}
	maker->running = true;
	maker->made_by = tracee;
	maker->gadgets = tracee->gadgets;
	maker->home = home;
	maker->spare = (home & ~15ull) - LIMPET_SPARE_BYTES;
	error = limpet_tracee_await_stop(maker, deadline_ns, &kind, &signal_number);
	if (!error)
		error = kind == LIMPET_STOP_KIND_EVENT ? limpet_tracee_read_registers(maker)
						       : -EPROTO;
	if (error) {
		limpet_tracee_release(maker);
		return error;
	}
	*ret = maker;
	return 0;
}

/* One clone(2). *ret_tid: 0 if it has failed, with *ret_answer. */
static int try_to_clone(struct limpet_tracee *tracee, const uint64_t args[6], uint64_t deadline_ns,
			pid_t *ret_tid, int64_t *ret_answer)
{
	struct user_regs_struct regs;
	int error;

	limpet_tracee_prepare_syscall(tracee, SYS_clone, args, &regs);
	error = limpet_tracee_enter_syscall(tracee, &regs, deadline_ns);
	/* A thread that it makes is traced from its first instruction on. Left for longer, the
	 * option would do nothing. */
	if (!error)
		error = set_options(tracee, PTRACE_O_TRACEVFORK);
	if (!error)
		error = to_new_thread(tracee, deadline_ns, ret_tid, ret_answer);
	if (!tracee->running)
		(void)set_options(tracee, 0);
	return error;
}

int limpet_tracee_begin_maker(struct limpet_tracee *tracee, uint64_t deadline_ns,
			      struct limpet_tracee **ret, int64_t *ret_answer)
{
	uint64_t args[6] = {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			    CLONE_VFORK};
	int64_t answer = 0;
	pid_t tid = 0;
	int error = tracee->at_entry ? limpet_tracee_end_call(tracee, deadline_ns) : 0;

	if (!error)
		error = write_end(tracee, &args[1]);
	if (!error)
		error = try_to_clone(tracee, args, deadline_ns, &tid, &answer);
	/* The kernel makes no thread while something is to be dealt with first: a SIGCONT's news, a
	 * stop of the whole process, a freeze (copy_process() in kernel/fork.c). */
	while (!error && answer == -ERESTARTNOINTR && limpet_monotonic_ns() < deadline_ns) {
		answer = 0;
		error = limpet_tracee_leave_syscall_stop(tracee, deadline_ns);
		if (!error)
			error = try_to_clone(tracee, args, deadline_ns, &tid, &answer);
	}
	if (!error && !tid)
		*ret_answer = answer == -ERESTARTNOINTR ? -EAGAIN : answer;
	if (error || !tid)
		return error;
	return adopt_maker(tracee, tid, args[1], deadline_ns, ret);
}

/* Each call but the first by a frame, to which the call before returns; after the last one the
 * maker ends. *ret_regs: with which it begins. */
static int write_calls(const struct limpet_tracee *maker, const struct limpet_tracee_call *calls,
		       size_t count, struct user_regs_struct *ret_regs)
{
	uint8_t images[MAX_CALLS][LIMPET_CALL_FRAME_BYTES];
	uint64_t at = maker->spare, next = maker->home;
	struct limpet_step step;
	int error;

	for (size_t i = count; i-- > 0;) {
		limpet_tracee_prepare_syscall(maker, calls[i].number, calls[i].args, ret_regs);
		ret_regs->rsp = next;
		if (!i)
			break;
		at -= LIMPET_CALL_FRAME_BYTES;
		next = frame_to(&maker->gadgets, ret_regs, at, images[i]);
	}
	step = limpet_step_begin(LIMPET_STEP_WRITE_CALLS, maker->tid, 0);
	error = count < 2 ? 0
			  : limpet_memory_write(maker->pid, at, images[1],
						(count - 1) * LIMPET_CALL_FRAME_BYTES);
	return limpet_step_end(&step, error);
}

/* Their arguments are addresses of memory of ours, for which the program is searched at the end. */
static void wipe_calls(const struct limpet_tracee *maker, size_t count)
{
	static const uint8_t zeros[MAX_CALLS * LIMPET_CALL_FRAME_BYTES];
	const uint64_t bytes = count < 2 ? 0 : (count - 1) * LIMPET_CALL_FRAME_BYTES;

	if (bytes)
		(void)!limpet_memory_write(maker->pid, maker->spare - bytes, zeros, bytes);
}

int limpet_tracee_maker_calls(struct limpet_tracee *maker, const struct limpet_tracee_call *calls,
			      size_t count, uint64_t deadline_ns)
{
	int error = maker->at_entry ? limpet_tracee_end_call(maker, deadline_ns) : 0;
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	struct user_regs_struct regs;
	unsigned long status = 0;

	if (count > MAX_CALLS)
		return -E2BIG;
	if (!error)
		error = count ? write_calls(maker, calls, count, &regs)
			      : write_calls(maker, &to_exit, 1, &regs);
	if (!error)
		error = set_options(maker, PTRACE_O_TRACEEXIT);
	if (!error)
		error = limpet_tracee_write_registers(maker, &regs);
	if (!error)
		error = to_stop(maker, PTRACE_CONT, deadline_ns, &kind);
	if (error)
		return error;
	maker->at_exit = true;
	limpet_tracee_count_faults(maker);
	wipe_calls(maker, count);
	error = get_message(maker, &status);
	/* Something else ends it, and the process with it. */
	return error ?: status ? -ESRCH : 0;
}

int limpet_tracee_let_end(struct limpet_tracee *maker, uint64_t deadline_ns)
{
	int error = maker->at_exit ? 0 : limpet_tracee_maker_calls(maker, NULL, 0, deadline_ns);

	if (!maker->at_exit)
		return error;
	limpet_boost_raise_last(maker->tid);
	return maker->running ? 0 : limpet_tracee_resume(maker, PTRACE_CONT, 0);
}

int limpet_tracee_end_maker(struct limpet_tracee *maker, uint64_t deadline_ns)
{
	enum limpet_stop_kind kind;
	int error = limpet_tracee_let_end(maker, deadline_ns), signal_number;

	/* Until it is reaped, and so in no list of threads. */
	if (!error)
		error = limpet_tracee_await_stop(maker, deadline_ns, &kind, &signal_number);
	if (error != -ESRCH)
		return limpet_tracee_release(maker) ?: error ?: -EPROTO;
	limpet_tracee_detach(maker, error);
	return 0;
}
