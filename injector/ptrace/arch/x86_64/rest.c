#include "injector/ptrace/arch/x86_64/rest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch/x86_64/interrupted.h"
#include "injector/ptrace/stop_effect.h"

#define RESTS_MOST 16u
#define PARTS_MOST 64u
#define MOVED_MOST 0x7ffff000u /* MAX_RW_COUNT: no call moves more */
#define SYSCALL_BYTES 2u
/* How long the rest may take: without a frame the thread would get a wrong number if limpet died,
 * and what is received may end early by itself (urgent data), so that the rest would wait for bytes
 * that do not come. Then the thread gets the short number, as after any signal. */
#define FRAMED_NS UINT64_C(5000000000)
#define OTHER_NS UINT64_C(300000000)
#define HARMLESS (MSG_NOSIGNAL | MSG_MORE | MSG_CMSG_CLOEXEC)

struct limpet_rest {
	bool used, entered, receives, asked_to_stop;
	pid_t pid, tid;
	struct user_regs_struct regs; /* the thread's own; rax: moved so far */
	uint64_t until_ns;            /* CLOCK_MONOTONIC */
	uint64_t asked;
	uint64_t part_bytes;   /* of what is being moved */
	uint64_t parts, count; /* a vector of buffers; 0: the call has one */
	uint64_t flags;        /* of a message */
	uint64_t pc, sp;       /* where the call is made */
	uint64_t frame_answer; /* 0: there is no frame */
};
/* Not from the heap: they are freed in handlers. */
static struct limpet_rest rests[RESTS_MOST];

/* ------------------------------------------------------------------ what is left */

/* Nothing here allocates: handlers of signals call it. */
static bool read_link(char *ret, size_t bytes, pid_t pid, pid_t tid, uint64_t fd)
{
	char path[128];
	ssize_t got;

	snprintf(path, sizeof(path), "%s/%d/task/%d/fd/%u", limpet_proc_root, pid, tid,
		 (unsigned)fd);
	got = readlink(path, ret, bytes - 1);
	ret[got > 0 ? got : 0] = 0;
	return got > 0;
}

/* In a table of its own, the number may be that of another file. */
static bool shares_descriptor(pid_t pid, pid_t tid, uint64_t fd)
{
	char own[64], process[64];

	return tid == pid ||
	       (read_link(own, sizeof(own), pid, tid, fd) &&
		read_link(process, sizeof(process), pid, pid, fd) && !strcmp(own, process));
}

/* What was received may end before urgent data. */
static bool is_at_mark(int fd)
{
	int at_mark;

	return ioctl(fd, SIOCATMARK, &at_mark) == 0 && at_mark;
}

/* Whether a call waits there until all is moved: then only a signal makes it shorter, or the other
 * end. Asks pipes and sockets alone: who serves a file might not answer. sendfile(2) does not wait
 * for a pipe, each write to a pipe with O_DIRECT is a packet, and what comes from a socket of this
 * machine's ends behind a message with descriptors. */
static bool moves_all(const struct limpet_rest *rest)
{
	const pid_t pid = rest->pid, tid = rest->tid;
	const uint64_t number = rest->regs.rdi;
	LIMPET_CLOSE int fd = -1;
	int flags, type, domain;
	socklen_t bytes = sizeof(type);

	if (!shares_descriptor(pid, tid, number))
		return false;
	fd = limpet_proc_copy(pid, (unsigned)number);
	if (fd < 0)
		return false;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || flags & O_NONBLOCK)
		return false;
	if (fcntl(fd, F_GETPIPE_SZ) > 0)
		return !(flags & O_DIRECT) && rest->regs.orig_rax != SYS_sendfile;
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
	       (!rest->receives || (domain != AF_UNIX && !is_at_mark(fd))) &&
	       !limpet_stop_socket_has_time_limit(fd);
}

/* The kernel's own devices that have no end. */
static bool is_endless(const struct statx *status)
{
	enum { MEMORY = 1, ZERO = 5, FULL = 7, RANDOM = 8, URANDOM = 9 };
	const unsigned minor = status->stx_rdev_minor;

	return status->stx_rdev_major == MEMORY &&
	       (minor == ZERO || minor == FULL || minor == RANDOM || minor == URANDOM);
}

/* At the limit of a file's size a second call would bring SIGXFSZ. */
static bool has_size_limit(pid_t pid)
{
	struct rlimit limit;

	return prlimit(pid, RLIMIT_FSIZE, NULL, &limit) < 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* Of files: reads of such devices, and sendfile(2) to a file, which is short at the end of the
 * other one as well; then the rest is nothing. */
static bool moves_all_of_file(const struct limpet_rest *rest)
{
	const uint64_t number = rest->regs.rdi;
	struct statx status;
	unsigned type;
	bool moves = false;
	int pinned;

	if (!shares_descriptor(rest->pid, rest->tid, number))
		return false;
	pinned = limpet_proc_pin(rest->pid, (unsigned)number, &type);
	if (pinned < 0)
		return false;
	if (rest->regs.orig_rax == SYS_read && type == S_IFCHR)
		moves = statx(pinned, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
			      &status) == 0 &&
			is_endless(&status);
	else if (rest->regs.orig_rax == SYS_sendfile && type == S_IFREG)
		moves = !has_size_limit(rest->pid);
	close(pinned);
	return moves;
}

static bool can_be_finished(const struct limpet_rest *rest)
{
	const uint64_t number = rest->regs.orig_rax;

	return number == SYS_getrandom || moves_all_of_file(rest) ||
	       (number != SYS_read && moves_all(rest));
}

static size_t read_parts(const struct limpet_rest *rest, struct iovec parts[PARTS_MOST])
{
	if (!rest->count || rest->count > PARTS_MOST ||
	    limpet_memory_read(rest->pid, rest->parts, parts, rest->count * sizeof(parts[0])) < 0)
		return 0;
	return rest->count;
}

/* A filter may forbid the call that moves a part of a vector. */
static bool is_filtered(const struct limpet_rest *rest)
{
	char text[4096];
	ssize_t got;
	int fd;

	snprintf(text, sizeof(text), "%s/%d/task/%d/status", limpet_proc_root, rest->pid,
		 rest->tid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	return !strstr(text, "\nSeccomp:\t0");
}

static bool read_vector(struct limpet_rest *rest, uint64_t parts, uint64_t count)
{
	struct iovec list[PARTS_MOST];
	size_t got;

	rest->parts = parts;
	rest->count = count;
	got = read_parts(rest, list);
	for (size_t i = 0; i < got; i++)
		if (__builtin_add_overflow(rest->asked, list[i].iov_len, &rest->asked))
			return false;
	return got && !is_filtered(rest);
}

static bool read_message(struct limpet_rest *rest)
{
	struct msghdr message;

	rest->flags = rest->regs.rdx;
	/* What is beside the bytes (descriptors, the kind of a TLS record) is for the first part.
	 */
	return limpet_memory_read(rest->pid, rest->regs.rsi, &message, sizeof(message)) == 0 &&
	       (rest->receives || !message.msg_controllen) &&
	       read_vector(rest, (uintptr_t)message.msg_iov, message.msg_iovlen);
}

/* Sets what was asked for; false: not a call whose rest can be made. */
static bool parse_call(struct limpet_rest *rest)
{
	const struct user_regs_struct *regs = &rest->regs;

	rest->receives = regs->orig_rax == SYS_recvfrom || regs->orig_rax == SYS_recvmsg;
	switch ((long)regs->orig_rax) {
	case SYS_getrandom:
		rest->asked = regs->rsi;
		return true;
	case SYS_read:
	case SYS_write:
		rest->asked = regs->rdx;
		break;
	case SYS_sendfile:
		rest->asked = regs->r10;
		break;
	case SYS_writev:
		if (!read_vector(rest, regs->rsi, regs->rdx))
			return false;
		break;
	case SYS_sendto:
	case SYS_recvfrom:
		rest->asked = regs->rdx;
		rest->flags = regs->r10;
		if (regs->r8)
			return false;
		break;
	case SYS_sendmsg:
	case SYS_recvmsg:
		if (!read_message(rest))
			return false;
		break;
	default:
		return false;
	}
	if (rest->receives && !(rest->flags & MSG_WAITALL))
		return false;
	return !(rest->flags & ~(uint64_t)(HARMLESS | (rest->receives ? MSG_WAITALL : 0)));
}

struct limpet_rest *limpet_rest_new(pid_t pid, pid_t tid, const struct user_regs_struct *regs)
{
	struct limpet_rest *rest = rests;

	if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax <= 0 || regs->rax >= MOVED_MOST)
		return NULL;
	while (rest->used && ++rest < rests + RESTS_MOST)
		;
	if (rest == rests + RESTS_MOST)
		return NULL;
	*rest = (struct limpet_rest){.pid = pid,
				     .tid = tid,
				     .regs = *regs,
				     .pc = regs->rip - SYSCALL_BYTES,
				     .sp = regs->rsp};
	if (!parse_call(rest))
		return NULL;
	if (rest->asked > MOVED_MOST)
		rest->asked = MOVED_MOST;
	if (regs->rax >= rest->asked || !limpet_interrupted_came_by_syscall(tid, regs) ||
	    !can_be_finished(rest))
		return NULL;
	rest->used = true;
	return rest;
}

void limpet_rest_use_frame(struct limpet_rest *rest, uint64_t syscall_there, uint64_t sp,
			   uint64_t answer)
{
	rest->pc = syscall_there;
	rest->sp = sp;
	rest->frame_answer = answer;
}

bool limpet_rest_is_starting(const struct limpet_rest *rest)
{
	return rest->used && !rest->entered;
}

bool limpet_rest_has_frame(const struct limpet_rest *rest)
{
	return rest->frame_answer;
}

void limpet_rest_free(struct limpet_rest *rest)
{
	rest->used = false;
}

/* ------------------------------------------------------------------ making it */

/* The arguments for what is left of a vector's buffer. */
static bool set_part(struct limpet_rest *rest, struct user_regs_struct *regs)
{
	struct iovec parts[PARTS_MOST];
	const size_t count = read_parts(rest, parts);
	uint64_t before = rest->regs.rax;
	size_t i = 0;

	while (i < count && parts[i].iov_len <= before)
		before -= parts[i++].iov_len;
	if (i == count)
		return false;
	regs->rsi = (uintptr_t)parts[i].iov_base + before;
	regs->rdx = parts[i].iov_len - before;
	if (regs->rdx > rest->asked - rest->regs.rax)
		regs->rdx = rest->asked - rest->regs.rax;
	rest->part_bytes = regs->rdx;
	if (regs->rax == SYS_writev) {
		regs->rax = SYS_write;
		return true;
	}
	regs->rax = regs->rax == SYS_sendmsg ? SYS_sendto : SYS_recvfrom;
	regs->r10 = rest->flags;
	regs->r8 = regs->r9 = 0;
	return true;
}

/* For the call that moves what is left. */
static bool set_call(struct limpet_rest *rest, struct user_regs_struct *regs)
{
	const uint64_t moved = rest->regs.rax;

	*regs = rest->regs;
	regs->rax = regs->orig_rax;
	regs->orig_rax = ~0ull;
	regs->rip = rest->pc;
	regs->rsp = rest->sp;
	rest->part_bytes = rest->asked - moved;
	if (rest->count)
		return set_part(rest, regs);
	switch ((long)regs->rax) {
	case SYS_getrandom:
		regs->rdi += moved;
		regs->rsi = rest->part_bytes;
		break;
	case SYS_sendfile: /* the kernel has moved the file's position, or the offset in memory */
		regs->r10 = rest->part_bytes;
		break;
	default:
		regs->rsi += moved;
		regs->rdx = rest->part_bytes;
	}
	return true;
}

static bool go_on(struct limpet_rest *rest)
{
	struct user_regs_struct regs;

	rest->entered = false;
	return set_call(rest, &regs) && ptrace(PTRACE_SETREGS, rest->tid, NULL, &regs) == 0 &&
	       ptrace(PTRACE_SYSCALL, rest->tid, NULL, NULL) == 0;
}

int limpet_rest_start(struct limpet_rest *rest)
{
	rest->until_ns =
		limpet_monotonic_ns() +
		(rest->frame_answer && !rest->receives && rest->regs.orig_rax != SYS_sendfile
			 ? FRAMED_NS
			 : OTHER_NS);
	if (go_on(rest))
		return 0;
	/* As it was, unless it is gone. */
	(void)ptrace(PTRACE_SETREGS, rest->tid, NULL, &rest->regs);
	limpet_rest_free(rest);
	return -ESRCH;
}

static bool enter(struct limpet_rest *rest)
{
	const uint64_t answer = rest->regs.rax + rest->part_bytes;

	rest->entered = true;
	/* From here on the kernel has the arguments: what the frame says now becomes true. */
	if (rest->frame_answer)
		(void)!limpet_memory_write(rest->pid, rest->frame_answer, &answer, sizeof(answer));
	return ptrace(PTRACE_SYSCALL, rest->tid, NULL, NULL) == 0;
}

/* Adds the result; true: another part is being moved. */
static bool leave(struct limpet_rest *rest)
{
	struct user_regs_struct regs;
	uint64_t moved;

	if (ptrace(PTRACE_GETREGS, rest->tid, NULL, &regs) < 0 || (int64_t)regs.rax <= 0)
		return false;
	moved = regs.rax;
	rest->regs.rax += moved;
	return rest->count && moved == rest->part_bytes && rest->regs.rax < rest->asked &&
	       go_on(rest);
}

bool limpet_rest_stopped(struct limpet_rest *rest, int status)
{
	const bool in_call = !(status >> 16) && WSTOPSIG(status) == (SIGTRAP | 0x80);
	const int signal_number = status >> 16 || in_call ? 0 : WSTOPSIG(status);

	if (in_call && (rest->entered ? leave(rest) : enter(rest)))
		return true;
	(void)ptrace(PTRACE_SETREGS, rest->tid, NULL, &rest->regs);
	(void)ptrace(PTRACE_DETACH, rest->tid, NULL, (void *)(intptr_t)signal_number);
	limpet_rest_free(rest);
	return false;
}

void limpet_rest_bound(struct limpet_rest *rest)
{
	if (!rest->asked_to_stop && limpet_monotonic_ns() >= rest->until_ns)
		rest->asked_to_stop = ptrace(PTRACE_INTERRUPT, rest->tid, NULL, NULL) == 0;
}

void limpet_rest_wait(struct limpet_rest *rest)
{
	const struct timespec nap = {0, 1000000};
	const pid_t tid = rest->tid;

	for (;;) {
		int status;
		const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid && WIFSTOPPED(status)) {
			if (!limpet_rest_stopped(rest, status))
				return;
			continue;
		}
		if (got) {
			limpet_rest_free(rest);
			return;
		}
		limpet_rest_bound(rest);
		nanosleep(&nap, NULL);
	}
}
