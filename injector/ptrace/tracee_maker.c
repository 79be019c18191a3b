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
/* Of a maker: the frame by which it ends. */
#define MAKER_BYTES 1024u

/* The way of a maker that nobody traces any more: from any system call to its end. */
static int write_end(const struct limpet_tracee *tracee, uint64_t *ret_home)
{
	const struct limpet_tracee_gadgets *gadgets = &tracee->gadgets;
	uint8_t image[2 * sizeof(uint64_t) + LIMPET_EXIT_FRAME_BYTES];
	uint8_t *frame = image + 2 * sizeof(uint64_t);
	const uint64_t words[] = {gadgets->pop_rax, SYS_rt_sigreturn};
	const uint64_t home =
		limpet_sigreturn_frame_exit(&tracee->regs, gadgets->restorer ?: gadgets->syscall,
					    gadgets->syscall, tracee->spare, frame);
	struct limpet_step step;
	int error;

	memcpy(image, words, sizeof(words));
	step = limpet_step_begin(LIMPET_STEP_WRITE_END, tracee->tid, 0);
	error = limpet_memory_write(tracee->pid, home - sizeof(words), image, sizeof(image));
	limpet_step_end(&step, error);
	if (!error)
		*ret_home = gadgets->restorer ? home : home - sizeof(words);
	return error;
}

static int set_options(const struct limpet_tracee *tracee, unsigned options)
{
	return limpet_ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL,
			     (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | options)) < 0
		       ? -errno
		       : 0;
}

/* A lost answer would leave a thread that nobody knows of. */
static int get_new_tid(const struct limpet_tracee *tracee, pid_t *ret)
{
	const unsigned tries = 2;
	unsigned long tid = 0;
	long answer = -1;

	for (unsigned i = 0; i < tries && answer < 0; i++)
		answer = limpet_ptrace(PTRACE_GETEVENTMSG, tracee->tid, NULL, &tid);
	if (answer < 0)
		return -errno;
	*ret = (pid_t)tid;
	return 0;
}

/* Continues from the entry stop of clone(2). *ret_tid: the new thread, and the call goes on; 0:
 * there is none, and *ret_answer says why. */
static int to_new_thread(struct limpet_tracee *tracee, uint64_t deadline_ns, pid_t *ret_tid,
			 int64_t *ret_answer)
{
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	struct user_regs_struct regs;
	struct iovec vector = {&regs, sizeof(regs)};
	int signal_number = 0, pass = 0, error;

	do {
		error = limpet_tracee_resume(tracee, PTRACE_SYSCALL, pass);
		if (!error)
			error = limpet_tracee_wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (error)
			return error;
		pass = limpet_tracee_signal_to_pass(kind, signal_number);
		if (pass < 0)
			return pass;
	} while (kind != LIMPET_STOP_KIND_OTHER && kind != LIMPET_STOP_KIND_SYSCALL);
	if (kind == LIMPET_STOP_KIND_OTHER)
		return get_new_tid(tracee, ret_tid);
	tracee->at_entry = false;
	tracee->at_syscall = true;
	if (limpet_ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	*ret_tid = 0;
	*ret_answer = (int64_t)regs.rax;
	return 0;
}

/* The new thread, which has not executed an instruction. */
static int adopt_maker(const struct limpet_tracee *tracee, pid_t tid, uint64_t home,
		       uint64_t deadline_ns, struct limpet_tracee **ret)
{
	struct limpet_tracee *maker;
	int error = limpet_tracee_new(tracee->tracer, tracee->pid, tid, &maker);

	if (error) {
		limpet_tracer_add_stray(tracee->tracer,
					&(struct limpet_stray){.pid = tracee->pid, .tid = tid});
		return error;
	}
	maker->running = true;
	maker->gadgets = tracee->gadgets;
	maker->home = home;
	maker->spare = home - MAKER_BYTES;
	error = limpet_tracee_wait_event(maker, deadline_ns);
	if (!error)
		error = limpet_tracee_read_registers(maker);
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
	error = limpet_tracee_write_registers(tracee, &regs);
	if (error)
		return error;
	tracee->moved = true;
	error = limpet_tracee_to_syscall_stop(tracee, deadline_ns);
	tracee->at_entry = !error;
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
	int error = tracee->at_entry ? limpet_tracee_end_call(tracee, deadline_ns) : 0, resumed;

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
	/* From here to the end of the call it is as at its entry: registers that were written now
	 * would be lost. */
	if (error || !tid)
		return error;
	resumed = limpet_tracee_resume(tracee, PTRACE_SYSCALL, 0);
	error = adopt_maker(tracee, tid, args[1], deadline_ns, ret);
	return error ? error : resumed;
}

int limpet_tracee_end_maker(struct limpet_tracee *tracee, struct limpet_tracee *maker,
			    uint64_t deadline_ns)
{
	static const uint64_t none[6];
	struct user_regs_struct regs;
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	int signal_number = 0, pass = 0,
	    error = maker->at_entry ? limpet_tracee_end_call(maker, deadline_ns) : 0;

	limpet_tracee_prepare_syscall(maker, SYS_exit, none, &regs);
	if (!error)
		error = limpet_tracee_write_registers(maker, &regs);
	limpet_boost_raise_last(maker->tid);
	/* Until it is reaped, and so in no list of threads. */
	while (!error) {
		error = limpet_tracee_resume(maker, PTRACE_CONT, pass);
		if (!error)
			error = limpet_tracee_wait_stop(maker, deadline_ns, &kind, &signal_number);
		if (!error)
			pass = limpet_tracee_signal_to_pass(kind, signal_number);
		error = pass < 0 ? pass : error;
	}
	limpet_tracee_release(maker);
	/* The call that made it has an answer now. */
	pass = 0;
	do {
		error = tracee->running ? 0 : limpet_tracee_resume(tracee, PTRACE_SYSCALL, pass);
		if (!error)
			error = limpet_tracee_wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (!error)
			pass = limpet_tracee_signal_to_pass(kind, signal_number);
		if (error || pass < 0)
			return error ?: pass;
	} while (kind != LIMPET_STOP_KIND_SYSCALL);
	tracee->at_entry = false;
	tracee->at_syscall = true;
	return 0;
}
