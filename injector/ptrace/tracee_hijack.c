#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "common/clock.h"
#include "injector/proc/memory.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee_private.h"

#define XSTATE_MAX 65536u
#define RED_ZONE 128u
/* The first remote calls use only the thread's own stack, below the frame by which it resumes: this
 * is what is left of the room that safepoint.c asks for below its stack pointer. */
#define STACK_NEEDED 16384u

bool limpet_tracee_find_gadgets(const uint8_t *code, size_t bytes, uint64_t address,
				struct limpet_tracee_gadgets *gadgets)
{
	for (size_t i = 0; i + 3 <= bytes && !(gadgets->syscall && gadgets->restorer); i++) {
		if (!gadgets->syscall &&
		    !memcmp(code + i, LIMPET_ARCH_SYSCALL_RET, sizeof(LIMPET_ARCH_SYSCALL_RET) - 1))
			gadgets->syscall = address + i;
		if (!gadgets->pop_rax &&
		    !memcmp(code + i, LIMPET_ARCH_POP_RAX_RET, sizeof(LIMPET_ARCH_POP_RAX_RET) - 1))
			gadgets->pop_rax = address + i;
		if (gadgets->restorer)
			continue;
		if (i + 9 <= bytes && !memcmp(code + i, LIMPET_ARCH_RESTORER_LONG,
					      sizeof(LIMPET_ARCH_RESTORER_LONG) - 1))
			gadgets->restorer = address + i;
		else if (i + 7 <= bytes && !memcmp(code + i, LIMPET_ARCH_RESTORER_SHORT,
						   sizeof(LIMPET_ARCH_RESTORER_SHORT) - 1))
			gadgets->restorer = address + i;
	}
	return gadgets->syscall && (gadgets->restorer || gadgets->pop_rax);
}

static uint64_t way_home(const struct limpet_tracee_gadgets *gadgets)
{
	return gadgets->restorer ?: gadgets->pop_rax;
}

static int read_extended_state(struct limpet_tracee *tracee)
{
	struct iovec vector;

	tracee->xstate = malloc(XSTATE_MAX);
	if (!tracee->xstate)
		return -ENOMEM;
	vector = (struct iovec){tracee->xstate, XSTATE_MAX};
	if (limpet_ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_X86_XSTATE, &vector) < 0)
		return -errno;
	tracee->xstate_bytes = vector.iov_len;
	return 0;
}

static int head_home(struct limpet_tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;
	int error;

	regs.orig_rax = ~0ull;
	regs.rip = way_home(&tracee->gadgets);
	regs.rsp = tracee->home + sizeof(uint64_t);
	regs.eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	error = limpet_tracee_write_registers(tracee, &regs);
	if (!error)
		tracee->hijacked = tracee->moved = true;
	return error;
}

/* False after an exec: the addresses belong to the program that was there when they were looked up.
 */
static bool gadgets_are_there(pid_t pid, const struct limpet_tracee_gadgets *gadgets)
{
	struct limpet_tracee_gadgets found = {.syscall = 0};
	uint8_t code[sizeof(LIMPET_ARCH_RESTORER_LONG) - 1];
	ssize_t bytes = limpet_memory_read_some(pid, gadgets->syscall, code, sizeof(code));

	if (bytes > 0)
		limpet_tracee_find_gadgets(code, (size_t)bytes, gadgets->syscall, &found);
	bytes = limpet_memory_read_some(pid, way_home(gadgets), code, sizeof(code));
	found.restorer = found.pop_rax = 0;
	if (found.syscall && bytes > 0)
		limpet_tracee_find_gadgets(code, (size_t)bytes, way_home(gadgets), &found);
	return found.syscall == gadgets->syscall &&
	       (gadgets->restorer ? found.restorer == gadgets->restorer
				  : found.pop_rax == gadgets->pop_rax);
}

int limpet_tracee_touch(const struct limpet_tracee *tracee, uint64_t address)
{
	errno = 0;
	limpet_ptrace(PTRACE_PEEKDATA, tracee->tid, (void *)(uintptr_t)address, NULL);
	return -errno;
}

int limpet_tracee_hijack(struct limpet_tracee *tracee, const struct limpet_tracee_gadgets *gadgets,
			 uint64_t stack_low)
{
	uint64_t all = ~0ull, top = tracee->regs.rsp - RED_ZONE;
	LIMPET_FREE uint8_t *image = NULL;
	struct limpet_sigreturn_state state;
	struct limpet_sigreturn_frame frame;
	struct limpet_step step;
	int error;

	if (top < stack_low || top - stack_low < STACK_NEEDED)
		return -ENOSPC;
	if (!gadgets_are_there(tracee->pid, gadgets))
		return -ESTALE;
	if (!tracee->stopped_since_ns)
		tracee->stopped_since_ns = limpet_monotonic_ns();
	if (limpet_ptrace(PTRACE_GETSIGMASK, tracee->tid, (void *)sizeof(tracee->signal_mask),
			  &tracee->signal_mask) < 0)
		return -errno;
	error = read_extended_state(tracee);
	if (error)
		return error;
	if (limpet_xstate_denies_key_0(tracee->xstate, tracee->xstate_bytes,
				       limpet_xstate_pkru_offset()))
		return -EACCES;
	state = (struct limpet_sigreturn_state){&tracee->regs, tracee->xstate, tracee->xstate_bytes,
						tracee->signal_mask};
	error = limpet_sigreturn_frame_build(&state, gadgets->restorer ?: gadgets->syscall, top,
					     &frame);
	if (error)
		return error;
	image = frame.image;
	tracee->home = frame.address;
	step = limpet_step_begin(LIMPET_STEP_WRITE_WAY_HOME, tracee->tid, 0);
	error = limpet_memory_write(tracee->pid, tracee->home, image, frame.bytes);
	limpet_step_end(&step, error);
	tracee->frame = tracee->home;
	if (!error && !gadgets->restorer) {
		const uint64_t words[] = {gadgets->pop_rax, SYS_rt_sigreturn};

		tracee->home -= sizeof(words);
		error = limpet_memory_write(tracee->pid, tracee->home, words, sizeof(words));
	}
	if (error)
		return error;
	tracee->spare = tracee->home - LIMPET_SPARE_BYTES;
	tracee->gadgets = *gadgets;
	/* First the way home, then the signal mask: if we die between the two, no signal stays
	 * blocked. */
	error = head_home(tracee);
	if (error)
		return error;
	if (limpet_ptrace(PTRACE_SETSIGMASK, tracee->tid, (void *)sizeof(all), &all) < 0)
		return -errno;
	return 0;
}

uint64_t limpet_tracee_sigreturn_sp(const struct limpet_tracee *tracee)
{
	return tracee->home;
}

uint64_t limpet_tracee_spare(const struct limpet_tracee *tracee)
{
	return tracee->spare;
}

int limpet_tracee_resume(struct limpet_tracee *tracee, int request, int signal_number)
{
	if (limpet_ptrace(request, tracee->tid, NULL, (void *)(intptr_t)signal_number) < 0)
		return -errno;
	tracee->running = true;
	return 0;
}

int limpet_tracee_signal_to_pass(enum limpet_stop_kind kind, int signal_number)
{
	if (kind != LIMPET_STOP_KIND_SIGNAL)
		return 0;
	return signal_number == SIGSTOP ? SIGSTOP : -EPROTO;
}

int limpet_tracee_to_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int pass = 0;

	for (;;) {
		enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
		int signal_number = 0, error = limpet_tracee_resume(tracee, PTRACE_SYSCALL, pass);

		if (!error)
			error = limpet_tracee_wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (error)
			return error;
		if (kind == LIMPET_STOP_KIND_SYSCALL)
			return 0;
		pass = limpet_tracee_signal_to_pass(kind, signal_number);
		if (pass < 0)
			return pass;
	}
}

int limpet_tracee_end_call(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error = limpet_tracee_to_syscall_stop(tracee, deadline_ns);

	if (error)
		return error;
	tracee->at_entry = tracee->at_clone = false;
	tracee->at_syscall = true;
	return 0;
}

int limpet_tracee_leave_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error;

	if (!tracee->at_syscall && !tracee->at_entry)
		return 0;
	if (limpet_ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) < 0)
		return -errno;
	error = limpet_tracee_resume(tracee, PTRACE_CONT, 0);
	if (!error)
		error = limpet_tracee_wait_event(tracee, deadline_ns);
	if (!error)
		tracee->at_syscall = tracee->at_entry = tracee->at_clone = false;
	return error;
}

void limpet_tracee_prepare_syscall(const struct limpet_tracee *tracee, long number,
				   const uint64_t args[6], struct user_regs_struct *regs)
{
	*regs = tracee->regs;
	regs->orig_rax = ~0ull; /* the kernel must not restart a system call on the way there */
	regs->rip = tracee->gadgets.syscall;
	regs->rsp = tracee->home;
	regs->eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	regs->rax = (uint64_t)number;
	regs->rdi = args[0];
	regs->rsi = args[1];
	regs->rdx = args[2];
	regs->r10 = args[3];
	regs->r8 = args[4];
	regs->r9 = args[5];
}

int limpet_tracee_enter_syscall(struct limpet_tracee *tracee, struct user_regs_struct *regs,
				uint64_t deadline_ns)
{
	int error = limpet_tracee_write_registers(tracee, regs);

	if (error)
		return error;
	tracee->moved = true;
	error = limpet_tracee_to_syscall_stop(tracee, deadline_ns);
	tracee->at_entry = !error;
	return error;
}

/* Stops the thread after the call: `leaving`, on the way out of the kernel, with a stop less. */
static int do_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
		      bool leaving, uint64_t deadline_ns, int64_t *ret_answer)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_CALL, tracee->tid, number);
	struct user_regs_struct regs;
	struct iovec vector = {&regs, sizeof(regs)};
	/* An earlier call was not finished: registers written now would be taken for its arguments.
	 */
	int error = tracee->at_entry ? limpet_tracee_end_call(tracee, deadline_ns) : 0;

	limpet_tracee_prepare_syscall(tracee, number, args, &regs);
	if (!error)
		error = limpet_tracee_enter_syscall(tracee, &regs, deadline_ns);
	if (!error)
		error = leaving ? limpet_tracee_leave_syscall_stop(tracee, deadline_ns)
				: limpet_tracee_end_call(tracee, deadline_ns);
	if (!error &&
	    limpet_ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		error = -errno;
	if (!error)
		*ret_answer = (int64_t)regs.rax;
	return limpet_step_end(&step, error);
}

int limpet_tracee_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			  uint64_t deadline_ns, int64_t *ret_answer)
{
	return do_syscall(tracee, number, args, false, deadline_ns, ret_answer);
}

int limpet_tracee_last_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			       uint64_t deadline_ns, int64_t *ret_answer)
{
	return do_syscall(tracee, number, args, true, deadline_ns, ret_answer);
}

int limpet_tracee_run(struct limpet_tracee *tracee, uint64_t pc, uint64_t sp, uint64_t argument,
		      uint64_t deadline_ns)
{
	struct user_regs_struct regs = tracee->regs;
	/* As in do_syscall(). In the midst of clone(2) they stay, but for rax. */
	int error = tracee->at_entry && !tracee->at_clone
			    ? limpet_tracee_end_call(tracee, deadline_ns)
			    : 0;

	regs.orig_rax = ~0ull;
	regs.rip = pc;
	regs.rsp = sp;
	regs.rbp = 0;
	regs.rdi = argument;
	regs.eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	if (!error)
		error = limpet_tracee_write_registers(tracee, &regs);
	if (error)
		return error;
	tracee->moved = true;
	/* What is pending tells of stops before this: limpet_tracee_sleep_on() would wake for it.
	 */
	(void)limpet_tracee_consume_signal();
	error = limpet_tracee_resume(tracee, PTRACE_CONT, 0);
	if (error)
		return error;
	tracee->at_syscall = tracee->at_entry = tracee->at_clone = false;
	tracee->exchanges++;
	return 0;
}

bool limpet_tracee_is_running(const struct limpet_tracee *tracee)
{
	return tracee->running;
}

int limpet_tracee_keep_going(struct limpet_tracee *tracee)
{
	enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
	int signal_number = 0, error = limpet_tracee_await_stop(tracee, 0, &kind, &signal_number);

	if (error)
		return error == -ETIMEDOUT ? 0 : error;
	signal_number = limpet_tracee_signal_to_pass(kind, signal_number);
	return signal_number < 0 ? signal_number
				 : limpet_tracee_resume(tracee, PTRACE_CONT, signal_number);
}

int limpet_tracee_halt(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	if (!tracee->running)
		return 0;
	if (limpet_ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) < 0)
		return -errno;
	tracee->at_syscall = tracee->at_entry = tracee->at_clone = false;
	return limpet_tracee_wait_event(tracee, deadline_ns);
}

int limpet_tracee_restore(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	struct iovec vector = {tracee->xstate, tracee->xstate_bytes};
	int first = limpet_tracee_leave_syscall_stop(tracee, deadline_ns), error;

	if (first)
		return first;
	if (limpet_ptrace(PTRACE_SETSIGMASK, tracee->tid, (void *)sizeof(tracee->signal_mask),
			  &tracee->signal_mask) < 0)
		first = -errno;
	if (limpet_ptrace(PTRACE_SETREGSET, tracee->tid, (void *)NT_X86_XSTATE, &vector) < 0 &&
	    !first)
		first = -errno;
	(void)!limpet_tracee_mend_limit(tracee);
	error = limpet_tracee_write_registers(tracee, &tracee->regs);
	if (error)
		return first ? first : error;
	tracee->hijacked = tracee->moved = false;
	return first;
}
