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

#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/tracee.h"

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
	execvp(argv[0], argv);
	error = errno;
	if (write(pipes->failed[1], &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* Waits for the next stop of the child; other signals than `wanted` (0: an event) are delivered to
 * it. */
static int wait_for(pid_t pid, int wanted_signal, int wanted_event)
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

/* ------------------------------------------------------------------ breakpoints
 *
 * One of the processor changes no code. There are virtual machines whose hypervisor does not
 * deliver them: the registers can be set, and nothing happens. There an instruction takes the place
 * of the first one of the program; what it replaced is written back, into the program's own copy of
 * that page. */
struct breakpoint {
	uint64_t address;
	bool by_processor;
	long replaced; /* the word at the address, if it is not */
};

static void reached(void)
{
	__asm__ volatile("" ::: "memory");
}

static int set_by_processor(pid_t pid, uint64_t address)
{
	int error = poke_debug_register(pid, 0, address);

	return error ? error : poke_debug_register(pid, 7, LIMPET_ARCH_DEBUG_ENABLE_0);
}

/* Tried in a child of our own, since it cannot be known otherwise. */
static bool processor_has_breakpoints(void)
{
	pid_t child = fork();
	bool has = false;
	int status;

	if (child == 0) {
		(void)signal(SIGTRAP, SIG_DFL);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && raise(SIGSTOP) == 0)
			reached();
		_exit(0);
	}
	if (child < 0)
		return false;
	if (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status) &&
	    set_by_processor(child, (uint64_t)(uintptr_t)reached) == 0 &&
	    ptrace(PTRACE_CONT, child, NULL, NULL) == 0)
		has = waitpid(child, &status, __WALL) == child && WIFSTOPPED(status) &&
		      WSTOPSIG(status) == SIGTRAP;
	limpet_launch_end(child);
	return has;
}

static int set_breakpoint(pid_t pid, uint64_t address, struct breakpoint *ret)
{
	*ret = (struct breakpoint){.address = address, .by_processor = processor_has_breakpoints()};
	if (ret->by_processor)
		return set_by_processor(pid, address);
	errno = 0;
	ret->replaced = ptrace(PTRACE_PEEKTEXT, pid, (void *)address, NULL);
	if (errno)
		return -errno;
	return ptrace(PTRACE_POKETEXT, pid, (void *)address,
		      (void *)LIMPET_ARCH_WITH_BREAKPOINT(ret->replaced)) < 0
		       ? -errno
		       : 0;
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
	if (ptrace(PTRACE_POKETEXT, pid, (void *)breakpoint->address,
		   (void *)breakpoint->replaced) < 0 ||
	    ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return -errno;
	regs.rip = breakpoint->address;
	return ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 ? -errno : 0;
}

/* Other traps before are the program's own. */
static int wait_for_breakpoint(pid_t pid, const struct breakpoint *breakpoint)
{
	const uint64_t wanted = breakpoint->by_processor
					? breakpoint->address
					: breakpoint->address + LIMPET_ARCH_BREAKPOINT_BYTES;

	for (;;) {
		struct user_regs_struct regs;
		int error = wait_for(pid, SIGTRAP, 0);

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

/* Continues from the exec stop to the entry point. */
static int run_to_entry(pid_t pid)
{
	struct breakpoint breakpoint;
	uint64_t entry, mask;
	int error = limpet_proc_auxv(pid, AT_ENTRY, &entry);

	if (error)
		return error;
	if (ptrace(PTRACE_GETSIGMASK, pid, (void *)sizeof(mask), &mask) < 0)
		return -errno;
	error = set_breakpoint(pid, entry, &breakpoint);
	if (error)
		return error;
	if (ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
		return -errno;
	error = wait_for_breakpoint(pid, &breakpoint);
	if (!error)
		error = clear_breakpoint(pid, &breakpoint);
	/* The kernel has unblocked a blocked SIGTRAP. */
	if (!error && ptrace(PTRACE_SETSIGMASK, pid, (void *)sizeof(mask), &mask) < 0)
		error = -errno;
	return error;
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

	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)(PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)) <
	    0)
		return limpet_err_set(err, -errno, "cannot trace the new process: %s",
				      strerror(errno));
	if (write(pipes->go[1], "", 1) != 1)
		return limpet_err_set(err, -EPIPE, "the new process ended at once");
	if (wait_for(pid, 0, PTRACE_EVENT_EXEC) < 0) {
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

int limpet_launch(char *const argv[], pid_t *ret_pid, struct limpet_tracee **ret_tracee,
		  struct limpet_err *err)
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
	if (!error)
		error = limpet_tracee_adopt(pid, pid, ret_tracee);
	close(pipes.go[1]);
	close(pipes.failed[0]);
	if (error && pid > 0)
		limpet_launch_end(pid);
	if (!error)
		*ret_pid = pid;
	return error;
}
