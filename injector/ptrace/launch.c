#include "injector/ptrace/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/own_stack.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"

struct pipes {
	int go[2];     /* parent to child: the child is traced and may call exec */
	int failed[2]; /* child to parent: errno of exec; a successful exec closes it */
};

static void child_main(char *const argv[], const struct pipes *pipes)
{
	char byte;
	int error;

	close(pipes->go[1]);
	close(pipes->failed[0]);
	while (read(pipes->go[0], &byte, 1) < 0 && errno == EINTR)
		;
	limpet_own_stack_restore();
	execvp(argv[0], argv);
	error = errno;
	if (write(pipes->failed[1], &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* One of the processor changes no code. There are virtual machines whose hypervisor does not
 * deliver them: the registers can be set, and nothing happens. There an instruction takes the place
 * of the first one of the program; what it replaced is written back, into the program's own copy of
 * that page. */
struct breakpoint {
	uint64_t address;
	bool by_processor;
	uint8_t replaced; /* the byte at the address, if it is not */
};

/* Writes the byte back, unless the program has written there itself. */
static int restore_byte(pid_t pid, const struct breakpoint *breakpoint)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, (void *)breakpoint->address, NULL);
	if (errno)
		return -errno;
	if ((uint8_t)word != LIMPET_ARCH_BREAKPOINT)
		return 0;
	word = (word & ~0xffl) | breakpoint->replaced;
	return ptrace(PTRACE_POKETEXT, pid, (void *)breakpoint->address, (void *)word) < 0 ? -errno
											   : 0;
}

/* A constructor has forked: the new process has a copy of the breakpoint, and nobody who waits for
 * it. */
static int let_child_go(pid_t pid, const struct breakpoint *breakpoint)
{
	unsigned long child;
	int status;

	if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child) < 0)
		return -errno;
	while (waitpid((pid_t)child, &status, __WALL) < 0)
		if (errno != EINTR)
			return 0; /* it is gone */
	if (!WIFSTOPPED(status))
		return 0;
	if (breakpoint && !breakpoint->by_processor)
		(void)restore_byte((pid_t)child, breakpoint);
	(void)ptrace(PTRACE_DETACH, (pid_t)child, NULL, NULL);
	return 0;
}

/* Waits for the next stop of the child; other signals than `wanted` (0: an event) are delivered to
 * it. `breakpoint`: that is set, or NULL. -EAGAIN: it has executed another program. */
static int wait_for(pid_t pid, int wanted_signal, int wanted_event,
		    const struct breakpoint *breakpoint)
{
	for (;;) {
		int status;

		if (waitpid(pid, &status, __WALL) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!WIFSTOPPED(status))
			return -ECHILD;
		if (wanted_event && status >> 8 == (SIGTRAP | wanted_event << 8))
			return 0;
		if (!wanted_event && !(status >> 16) && WSTOPSIG(status) == wanted_signal)
			return 0;
		/* What was set up for this program is gone. */
		if (!wanted_event && status >> 16 == PTRACE_EVENT_EXEC)
			return -EAGAIN;
		if (status >> 16 == PTRACE_EVENT_FORK && let_child_go(pid, breakpoint) < 0)
			return -errno;
		/* A stop of the whole process, which lasts until SIGCONT. */
		if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
			if (ptrace(PTRACE_LISTEN, pid, NULL, NULL) < 0)
				return -errno;
			continue;
		}
		if (ptrace(PTRACE_CONT, pid, NULL,
			   (void *)(intptr_t)(status >> 16 ? 0 : WSTOPSIG(status))) < 0)
			return -errno;
	}
}

static int poke_debug_register(pid_t pid, unsigned number, uint64_t value)
{
	size_t offset = offsetof(struct user, u_debugreg) + number * sizeof(uint64_t);

	return ptrace(PTRACE_POKEUSER, pid, (void *)offset, (void *)(uintptr_t)value) < 0 ? -errno
											  : 0;
}

void limpet_launch_end(pid_t pid)
{
	siginfo_t info;
	int status = 0;
	pid_t got;

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return;
	kill(pid, SIGKILL);
	/* stops from before that come first */
	do
		got = waitpid(pid, &status, __WALL);
	while ((got == pid && WIFSTOPPED(status)) || (got < 0 && errno == EINTR));
}

/* ------------------------------------------------------------------ breakpoints */

/* Until the entry point the options are these, too: a child that a constructor forks is let go, and
 * a program with a breakpoint in its code does not outlive limpet. */
#define MOST_EXECS 100u
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)
#define OPTIONS_IN_CODE (OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL)

static void reached(void)
{
	__asm__ volatile("" ::: "memory");
}
/* A call through it is made, whatever the compiler knows of the function. */
static void (*volatile call_reached)(void) = reached;

static int wait_stopped(pid_t pid, int signal_number)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(status) && WSTOPSIG(status) == signal_number ? 0 : -ECHILD;
}

static int set_by_processor(pid_t pid, uint64_t address)
{
	int error = poke_debug_register(pid, 0, address);

	return error ? error : poke_debug_register(pid, 7, LIMPET_ARCH_DEBUG_ENABLE_0);
}

/* Tried in a child, some milliseconds. */
static bool has_breakpoints(void)
{
	pid_t child = fork();
	bool has;

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0)
			call_reached();
		_exit(0);
	}
	if (child < 0)
		return false;
	has = wait_stopped(child, SIGSTOP) == 0 &&
	      set_by_processor(child, (uint64_t)(uintptr_t)reached) == 0 &&
	      ptrace(PTRACE_CONT, child, NULL, NULL) == 0 && wait_stopped(child, SIGTRAP) == 0;
	limpet_launch_end(child);
	return has;
}

static int set_breakpoint(pid_t pid, uint64_t address, struct breakpoint *ret)
{
	long word;

	*ret = (struct breakpoint){.address = address, .by_processor = has_breakpoints()};
	if (ret->by_processor)
		return set_by_processor(pid, address);
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, (void *)address, NULL);
	if (errno || ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)OPTIONS_IN_CODE) < 0)
		return -errno;
	ret->replaced = (uint8_t)word;
	word = (word & ~0xffl) | LIMPET_ARCH_BREAKPOINT;
	return ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)word) < 0 ? -errno : 0;
}

/* Also sets the program counter back to the instruction that was replaced. */
static int clear_breakpoint(pid_t pid, const struct breakpoint *breakpoint)
{
	struct user_regs_struct regs;
	int error;

	if (breakpoint->by_processor) {
		error = poke_debug_register(pid, 7, 0);
		return error ? error : poke_debug_register(pid, 0, 0);
	}
	error = restore_byte(pid, breakpoint);
	if (error)
		return error;
	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return -errno;
	regs.rip = breakpoint->address;
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)OPTIONS) < 0)
		return -errno;
	return 0;
}

/* Other traps before are the program's own. */
static int wait_for_breakpoint(pid_t pid, const struct breakpoint *breakpoint)
{
	const uint64_t wanted = breakpoint->by_processor
					? breakpoint->address
					: breakpoint->address + LIMPET_ARCH_BREAKPOINT_BYTES;

	for (;;) {
		struct user_regs_struct regs;
		int error = wait_for(pid, SIGTRAP, 0, breakpoint);

		if (error)
			return error;
		if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
			return -errno;
		if (regs.rip == wanted)
			return 0;
		if (ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)SIGTRAP) < 0)
			return -errno;
	}
}

/* Where a signal is in the mask that ptrace(2) takes. */
#define MASK_OF(number) (UINT64_C(1) << ((number)-1))

static int run_to(pid_t pid, uint64_t entry)
{
	struct breakpoint breakpoint;
	uint64_t before, mask;
	int error;

	if (ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof(before), &before) < 0)
		return -errno;
	error = set_breakpoint(pid, entry, &breakpoint);
	if (error)
		return error;
	if (ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
		return -errno;
	error = wait_for_breakpoint(pid, &breakpoint);
	if (!error)
		error = clear_breakpoint(pid, &breakpoint);
	if (error)
		return error;
	/* The kernel has unblocked a blocked SIGTRAP. */
	if (ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof(mask), &mask) < 0)
		return -errno;
	mask |= before & MASK_OF(SIGTRAP);
	return ptrace(PTRACE_SETSIGMASK, pid, (void *)sizeof(mask), &mask) < 0 ? -errno : 0;
}

/* Continues from the exec stop to the entry point. A constructor may execute another program, or
 * the same one again. */
static int run_to_entry(pid_t pid)
{
	for (unsigned i = 0;; i++) {
		uint64_t entry;
		int error = limpet_proc_auxv(pid, AT_ENTRY, &entry);

		if (!error)
			error = run_to(pid, entry);
		if (error != -EAGAIN || i == MOST_EXECS)
			return error;
	}
}

static int explain_exec(const char *name, int error, struct limpet_err *err)
{
	limpet_err_set(err, -error, "cannot run '%s': %s", name, strerror(error));
	if (error == ENOENT)
		limpet_err_hint(err, "give its path, or look at PATH");
	return -error;
}

static int start_child(pid_t pid, const struct pipes *pipes, char *const argv[],
		       struct limpet_err *err)
{
	int error = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)OPTIONS) < 0)
		return limpet_err_set(err, -errno, "cannot trace the new process: %s",
				      strerror(errno));
	if (write(pipes->go[1], "", 1) != 1)
		return limpet_err_set(err, -EPIPE, "the new process ended at once");
	if (wait_for(pid, 0, PTRACE_EVENT_EXEC, NULL) < 0) {
		if (read(pipes->failed[0], &error, sizeof(error)) == (ssize_t)sizeof(error))
			return explain_exec(argv[0], error, err);
		return limpet_err_set(err, -ECHILD, "the new process ended at once");
	}
	error = run_to_entry(pid);
	/* A 32-bit program: preflight has the message for it. */
	if (error == -ENOENT)
		return 0;
	if (error)
		return limpet_err_set(err, error, "'%s' did not come to its entry point: %s",
				      argv[0], strerror(-error));
	return 0;
}

int limpet_launch(char *const argv[], pid_t *ret_pid, struct limpet_err *err)
{
	struct pipes pipes;
	pid_t pid;
	int error;

	if (pipe2(pipes.go, O_CLOEXEC) < 0)
		return limpet_err_set(err, -EMFILE, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(pipes.failed, O_CLOEXEC) < 0) {
		error = limpet_err_set(err, -EMFILE, "cannot make a pipe: %s", strerror(errno));
		close(pipes.go[0]);
		close(pipes.go[1]);
		return error;
	}
	pid = fork();
	if (pid == 0)
		child_main(argv, &pipes);
	close(pipes.go[0]);
	close(pipes.failed[1]);
	if (pid < 0)
		error = limpet_err_set(err, -EAGAIN, "cannot start a process: %s", strerror(errno));
	else
		error = start_child(pid, &pipes, argv, err);
	close(pipes.go[1]);
	close(pipes.failed[0]);
	if (error && pid > 0)
		limpet_launch_end(pid);
	if (!error)
		*ret_pid = pid;
	return error;
}
