#include "injector/stacks/stack_copier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/ptrace/tracee.h"
#include "injector/stacks/stop_signals.h"

#define STOP_PATIENCE_NS 100000000u

/* Before any stop. */
static int examine_thread(const struct limpet_stack_copier *copier, pid_t tid,
			  struct limpet_stack_thread *ret, struct limpet_proc_syscall *ret_call)
{
	struct limpet_proc_status status;
	int error = limpet_proc_status_read(tid, &status);

	*ret_call = (struct limpet_proc_syscall){.running = true, .number = -1};
	if (error)
		return error;
	*ret = (struct limpet_stack_thread){.tid = tid, .state = status.state, .system_call = -1};
	if (limpet_proc_thread_name(copier->target, tid, ret->name) < 0)
		ret->name[0] = '\0';
	if (status.kernel_thread)
		ret->missing = LIMPET_STACK_OF_KERNEL;
	else if (status.state == 'Z' || status.state == 'X')
		ret->missing = LIMPET_STACK_ENDED;
	if (ret->missing || limpet_proc_syscall_read(copier->target->pid, tid, ret_call) < 0)
		return 0;
	if (!ret_call->running)
		ret->system_call = ret_call->number;
	if (status.state == 'D')
		ret->missing = LIMPET_STACK_UNINTERRUPTIBLE;
	/* What a stopped thread was in has been interrupted already. */
	else if (status.state != 'T' && !ret_call->running &&
		 limpet_stop_disturbs(copier->target->pid, tid, status.seccomp, ret_call))
		ret->missing = LIMPET_STACK_DISTURBED;
	return 0;
}

/* It may have run between the look and the stop. */
static void correct_state(const struct user_regs_struct *regs,
			  const struct limpet_proc_syscall *call,
			  struct limpet_stack_thread *thread)
{
	if (thread->state == 'T' || (!call->running && call->sp == regs->rsp))
		return;
	thread->state = 'R';
	thread->system_call = (int64_t)regs->orig_rax >= 0 ? (long)regs->orig_rax : -1;
}

static ssize_t stop_and_copy(const struct limpet_stack_copier *copier,
			     const struct limpet_proc_syscall *call,
			     struct limpet_stack_thread *thread, struct limpet_stack_copy *copy)
{
	struct limpet_tracee *tracee;
	const struct user_regs_struct *regs;
	ssize_t got = limpet_tracee_stop(copier->tracer, copier->target->pid, thread->tid,
					 limpet_monotonic_ns() + STOP_PATIENCE_NS, &tracee);

	if (got < 0)
		return got;
	regs = limpet_tracee_regs(tracee);
	got = limpet_stack_read(copier->target->pid, &copier->maps, regs->rsp, copier->room,
				LIMPET_STACKS_BYTES);
	limpet_arch_unwind_registers(regs, copy->registers);
	correct_state(regs, call, thread);
	limpet_tracee_release(tracee);
	thread->stop_ns = limpet_tracer_pop_longest_stop_ns(copier->tracer);
	return got < 0 ? 0 : got;
}

static int explain(ssize_t error, struct limpet_stack_thread *thread)
{
	if (error == -EPERM)
		thread->missing = LIMPET_STACK_TRACED;
	else if (error == -ETIMEDOUT)
		thread->missing = LIMPET_STACK_LATE;
	else
		return (int)error;
	return 0;
}

/* Of all threads as much as limpet copies. */
static int keep(struct limpet_stack_copier *copier, size_t bytes,
		struct limpet_stack_thread *thread, struct limpet_stack_copy *copy)
{
	if (!bytes || bytes > copier->bytes_left) {
		thread->missing = bytes ? LIMPET_STACK_NO_ROOM : LIMPET_STACK_UNREADABLE;
		return 0;
	}
	copy->stack = malloc(bytes);
	if (!copy->stack)
		return -ENOMEM;
	memcpy(copy->stack, copier->room, bytes);
	copy->bytes = bytes;
	copier->bytes_left -= bytes;
	return 0;
}

int limpet_stack_copier_copy(struct limpet_stack_copier *copier, pid_t tid,
			     struct limpet_stack_thread *ret_thread,
			     struct limpet_stack_copy *ret_copy)
{
	struct limpet_proc_syscall call;
	struct limpet_priority priority;
	sigset_t before;
	ssize_t got;
	int error;

	*ret_copy = (struct limpet_stack_copy){.stack = NULL};
	error = examine_thread(copier, tid, ret_thread, &call);
	if (error || ret_thread->missing)
		return error;
	limpet_stop_signals_block(&before);
	priority = limpet_tracer_raise(copier->tracer);
	got = stop_and_copy(copier, &call, ret_thread, ret_copy);
	limpet_tracer_lower(copier->tracer, priority);
	limpet_stop_signals_restore(&before);
	limpet_step_note(tid, "%zd bytes of its stack copied", got);
	return got < 0 ? explain(got, ret_thread) : keep(copier, (size_t)got, ret_thread, ret_copy);
}
