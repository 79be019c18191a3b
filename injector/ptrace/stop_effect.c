#include "injector/ptrace/stop_effect.h"

#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "common/begins.h"
#include "common/err.h"
#include "injector/proc/memory.h"

#define ANY_BYTES UINT64_MAX
/* So near above the stack pointer is the caller's own frame. */
#define FRAME_BYTES 4096u
/* A local stream accepts this much at once: half of the smallest buffer that a socket can be given,
 * less the kernel's overhead. unix_stream_sendmsg() waits before it copies. */
#define LOCAL_STREAM_BYTES 2048u

/* What a descriptor refers to: "pipe:[N]", "socket:[N]", a path. Opens nothing and does not ask for
 * the file's owner: a program that serves the file could make us wait. */
static void read_link(pid_t pid, uint64_t fd, char *ret, size_t bytes)
{
	char name[32];

	snprintf(name, sizeof(name), "fd/%u", (unsigned)fd);
	if (limpet_proc_link_read(pid, name, ret, bytes) < 0)
		ret[0] = 0;
}

/* "TCP", "UDP", "UNIX-STREAM"...: read without a reference to the socket. */
static void read_protocol(const char *path, char *ret, size_t bytes)
{
	ssize_t got = getxattr(path, "system.sockprotoname", ret, bytes - 1);

	ret[got > 0 ? got : 0] = 0;
}

/* Before Linux 5.15 local streams had the same name as sockets that keep messages apart. */
static bool local_streams_have_names(void)
{
	char path[32], protocol[32];
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pair[0]);
	read_protocol(path, protocol, sizeof(protocol));
	close(pair[0]);
	close(pair[1]);
	return !strcmp(protocol, "UNIX-STREAM");
}

/* Judges by what the number refers to now. A file that has replaced the socket meanwhile is not
 * asked anything. */
static enum limpet_stop_effect effect_on_send(pid_t pid, uint64_t fd, uint64_t bytes)
{
	static const char *const of_messages[] = {"UDP", "RAW", "PING", "NETLINK", "PACKET"};
	char path[64], protocol[32];
	LIMPET_CLOSE int pinned = -1;
	unsigned type;

	if (bytes <= 1)
		return LIMPET_STOP_TIMED;
	pinned = limpet_proc_pin(pid, (unsigned)fd, &type);
	if (pinned < 0 || type != S_IFSOCK)
		return LIMPET_STOP_CUTS;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pinned);
	read_protocol(path, protocol, sizeof(protocol));
	for (size_t i = 0; i < LIMPET_COUNT_OF(of_messages); i++)
		if (limpet_begins(protocol, of_messages[i]))
			return LIMPET_STOP_TIMED;
	if (!strcmp(protocol, "UNIX") && local_streams_have_names())
		return LIMPET_STOP_TIMED;
	if (!strcmp(protocol, "UNIX-STREAM") && bytes <= LOCAL_STREAM_BYTES)
		return LIMPET_STOP_TIMED;
	return LIMPET_STOP_CUTS;
}

static bool is_terminal(const char *link)
{
	return limpet_begins(link, "/dev/pts/") || limpet_begins(link, "/dev/tty") ||
	       limpet_begins(link, "/dev/console");
}

static enum limpet_stop_effect effect_on_write(pid_t pid, uint64_t fd, uint64_t bytes)
{
	char link[64];

	read_link(pid, fd, link, sizeof(link));
	if (limpet_begins(link, "socket:"))
		return effect_on_send(pid, fd, bytes);
	if (bytes <= 1 || limpet_begins(link, "anon_inode:"))
		return LIMPET_STOP_UNSEEN;
	/* pipe(7): this many bytes are written at once or not at all. A FIFO has a path, like a
	 * file. */
	if (bytes <= PIPE_BUF && limpet_begins(link, "pipe:"))
		return LIMPET_STOP_UNSEEN;
	if (bytes <= PIPE_BUF && limpet_begins(link, "/") && !is_terminal(link))
		return LIMPET_STOP_DOUBTFUL;
	return LIMPET_STOP_CUTS;
}

/* What it waits for beyond the first byte (SO_RCVLOWAT) may be there in part. */
static enum limpet_stop_effect effect_on_receive(pid_t pid, uint64_t fd, uint64_t bytes,
						 uint64_t flags)
{
	LIMPET_CLOSE int copy = -1;
	socklen_t size = sizeof(int);
	int least = 1;

	if (bytes <= 1)
		return LIMPET_STOP_TIMED;
	if (flags & MSG_WAITALL)
		return LIMPET_STOP_CUTS;
	copy = limpet_proc_copy(pid, (unsigned)fd);
	return copy >= 0 && getsockopt(copy, SOL_SOCKET, SO_RCVLOWAT, &least, &size) == 0 &&
			       least > 1
		       ? LIMPET_STOP_CUTS
		       : LIMPET_STOP_TIMED;
}

/* In raw mode a terminal may be set to wait for more than a byte. */
static bool waits_for_more(pid_t pid, uint64_t fd)
{
	LIMPET_CLOSE int copy = limpet_proc_copy(pid, (unsigned)fd);
	struct termios mode;

	return copy >= 0 && tcgetattr(copy, &mode) == 0 && !(mode.c_lflag & ICANON) &&
	       mode.c_cc[VMIN] > 1;
}

/* A read returns as soon as data is there, except from sockets and terminals that are set to wait
 * for more. */
static enum limpet_stop_effect effect_on_read(pid_t pid, uint64_t fd, uint64_t bytes)
{
	char link[64];

	read_link(pid, fd, link, sizeof(link));
	if (limpet_begins(link, "socket:"))
		return effect_on_receive(pid, fd, bytes, 0);
	if (bytes > 1 && limpet_begins(link, "/") && waits_for_more(pid, fd))
		return LIMPET_STOP_CUTS;
	if (limpet_begins(link, "pipe:") || limpet_begins(link, "anon_inode:") || bytes <= 1)
		return LIMPET_STOP_UNSEEN;
	return LIMPET_STOP_DOUBTFUL;
}

static uint64_t count_bytes(pid_t pid, uint64_t vector, uint64_t count)
{
	struct iovec parts[64];
	uint64_t bytes = 0;

	if (count > LIMPET_COUNT_OF(parts) ||
	    limpet_memory_read(pid, vector, parts, count * sizeof(parts[0])) < 0)
		return ANY_BYTES;
	for (uint64_t i = 0; i < count; i++)
		if (__builtin_add_overflow(bytes, parts[i].iov_len, &bytes))
			return ANY_BYTES;
	return bytes;
}

static uint64_t count_message(pid_t pid, uint64_t address)
{
	struct msghdr message;

	if (limpet_memory_read(pid, address, &message, sizeof(message)) < 0)
		return ANY_BYTES;
	return count_bytes(pid, (uintptr_t)message.msg_iov, message.msg_iovlen);
}

/* Before it makes the call again the kernel writes there what is left of the limit. Where it
 * cannot, the call ends with EINTR. */
static enum limpet_stop_effect effect_on_limit(pid_t pid, const struct limpet_proc_syscall *call,
					       uint64_t limit)
{
	struct limpet_maps maps;
	const struct limpet_map *map;
	bool writable;

	if (!limit || limit - call->sp < FRAME_BYTES)
		return LIMPET_STOP_UNSEEN;
	if (limpet_proc_maps_read(pid, &maps) < 0)
		return LIMPET_STOP_BREAKS;
	map = limpet_proc_maps_find(&maps, limit);
	writable = map && map->perms[1] == 'w';
	limpet_proc_maps_done(&maps);
	return writable ? LIMPET_STOP_UNSEEN : LIMPET_STOP_BREAKS;
}

/* Between two pipes everything is moved at once, after waiting for both. */
static enum limpet_stop_effect effect_on_splice(pid_t pid, uint64_t in, uint64_t out)
{
	char from[64], to[64];

	read_link(pid, in, from, sizeof(from));
	read_link(pid, out, to, sizeof(to));
	if (!limpet_begins(to, "pipe:"))
		return LIMPET_STOP_CUTS;
	return limpet_begins(from, "pipe:")     ? LIMPET_STOP_UNSEEN
	       : limpet_begins(from, "socket:") ? LIMPET_STOP_TIMED
						: LIMPET_STOP_DOUBTFUL;
}

static enum limpet_stop_effect effect_by_arguments(pid_t pid,
						   const struct limpet_proc_syscall *call)
{
	const uint64_t *args = call->args;

	switch (call->number) {
	case SYS_read:
	case SYS_readv:
		return effect_on_read(pid, args[0], call->number == SYS_read ? args[2] : ANY_BYTES);
	case SYS_write:
		return effect_on_write(pid, args[0], args[2]);
	case SYS_writev:
		return effect_on_write(pid, args[0], count_bytes(pid, args[1], args[2]));
	case SYS_pwrite64: /* these work on files only */
	case SYS_pwritev:
	case SYS_pwritev2:
		return LIMPET_STOP_DOUBTFUL;
	case SYS_sendto:
		return effect_on_send(pid, args[0], args[2]);
	case SYS_sendmsg:
		return effect_on_send(pid, args[0], count_message(pid, args[1]));
	case SYS_sendmmsg:
		return args[2] > 1 ? LIMPET_STOP_CUTS
				   : effect_on_send(pid, args[0], count_message(pid, args[1]));
	case SYS_recvfrom:
		return effect_on_receive(pid, args[0], args[2], args[3]);
	case SYS_recvmsg:
		return effect_on_receive(pid, args[0], ANY_BYTES, args[2]);
	case SYS_recvmmsg:
		return args[2] > 1 && !(args[3] & MSG_WAITFORONE)
			       ? LIMPET_STOP_CUTS
			       : effect_on_receive(pid, args[0], ANY_BYTES, args[3]);
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
		return LIMPET_STOP_TIMED;
	case SYS_splice:
		return effect_on_splice(pid, args[0], args[2]);
	case SYS_futex:
		return (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI ? LIMPET_STOP_BREAKS
									   : LIMPET_STOP_UNSEEN;
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6:
		return effect_on_limit(pid, call, args[4]);
	case SYS_ppoll:
		return effect_on_limit(pid, call, args[2]);
	case SYS_io_getevents: /* after a stop: those that are there, if any are */
	case SYS_io_pgetevents:
		return args[1] > 1 ? LIMPET_STOP_CUTS : LIMPET_STOP_BREAKS;
	case SYS_io_uring_enter: /* after a stop: how many it submitted, without the wait */
		return args[1] && args[2] && args[3] & IORING_ENTER_GETEVENTS ? LIMPET_STOP_CUTS
									      : LIMPET_STOP_BREAKS;
	default:
		return LIMPET_STOP_DOUBTFUL;
	}
}

enum limpet_stop_effect limpet_stop_effect_of(pid_t pid, const struct limpet_proc_syscall *call)
{
	/* Not in a system call: it waits for a page. */
	if (call->number < 0)
		return LIMPET_STOP_UNSEEN;
	switch (limpet_stop_class_of(call->number)) {
	case LIMPET_CALL_QUICK:
	case LIMPET_CALL_AGAIN:
		return LIMPET_STOP_UNSEEN;
	case LIMPET_CALL_BREAKS:
		return LIMPET_STOP_BREAKS;
	case LIMPET_CALL_CUTS:
		return LIMPET_STOP_CUTS;
	case LIMPET_CALL_DEPENDS:
		return effect_by_arguments(pid, call);
	case LIMPET_CALL_SERVED:
	case LIMPET_CALL_UNKNOWN:
	default:
		return LIMPET_STOP_DOUBTFUL;
	}
}

/* The kernel tells in which function a thread sleeps: here in seccomp_do_user_notification(), or in
 * the one into which a compiler has moved it. A kernel may keep that to itself ("0"): then a call
 * that sleeps where no stop would wake it is one that has not begun. */
static bool waits_for_supervisor(pid_t tid, const struct limpet_proc_syscall *call)
{
	LIMPET_FREE char *where = NULL;
	size_t bytes;

	if (call->number < 0)
		return false;
	if (limpet_proc_file_read(tid, "wchan", &where, &bytes) < 0 || bytes < 2)
		return limpet_stop_class_of(call->number) == LIMPET_CALL_QUICK;
	return limpet_begins(where, "seccomp_") || limpet_begins(where, "__seccomp_");
}

enum limpet_stop_effect limpet_stop_effect_on(pid_t pid, pid_t tid, bool filtered,
					      const struct limpet_proc_syscall *call)
{
	return filtered && waits_for_supervisor(tid, call) ? LIMPET_STOP_CUTS
							   : limpet_stop_effect_of(pid, call);
}

bool limpet_stop_socket_has_time_limit(int fd)
{
	struct timeval sending = {0, 0}, receiving = {0, 0};
	socklen_t bytes = sizeof(sending);

	return getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &sending, &bytes) < 0 ||
	       getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receiving, &bytes) < 0 || sending.tv_sec ||
	       sending.tv_usec || receiving.tv_sec || receiving.tv_usec;
}

bool limpet_stop_has_time_limit(pid_t pid, const struct limpet_proc_syscall *call)
{
	LIMPET_CLOSE int copy = limpet_proc_copy(pid, (unsigned)call->args[0]);

	return copy < 0 || limpet_stop_socket_has_time_limit(copy);
}

bool limpet_stop_disturbs(pid_t pid, pid_t tid, bool filtered,
			  const struct limpet_proc_syscall *call)
{
	const enum limpet_stop_effect effect = limpet_stop_effect_on(pid, tid, filtered, call);

	return effect == LIMPET_STOP_CUTS ||
	       (effect == LIMPET_STOP_TIMED && limpet_stop_has_time_limit(pid, call)) ||
	       (effect == LIMPET_STOP_BREAKS &&
		limpet_stop_limit_of(call->number, call->args) == LIMPET_LIMIT_UNKNOWN);
}

bool limpet_stop_cuts(pid_t pid, pid_t tid, bool filtered, long *ret_number)
{
	struct limpet_proc_syscall call;

	if (limpet_proc_syscall_read(pid, tid, &call) < 0 || call.running ||
	    limpet_stop_effect_on(pid, tid, filtered, &call) != LIMPET_STOP_CUTS)
		return false;
	if (ret_number)
		*ret_number = call.number;
	return true;
}

/* io_uring_enter(2): what newer headers call IORING_ENTER_NO_IOWAIT is known, flags that bring a
 * time limit (EXT_ARG, EXT_ARG_REG, ABS_TIMER) are not. */
#define ENTER_NO_IOWAIT (1u << 7)
#define ENTER_KNOWN                                                               \
	(IORING_ENTER_GETEVENTS | IORING_ENTER_SQ_WAKEUP | IORING_ENTER_SQ_WAIT | \
	 IORING_ENTER_REGISTERED_RING | ENTER_NO_IOWAIT)

/* Sockets are not here: without a limit the kernel makes their calls again itself, and a limit is
 * the socket's. Nor is what has its limit in the program's memory, which limpet does not write. */
enum limpet_stop_limit limpet_stop_limit_of(long number, const uint64_t args[6])
{
	bool none;

	switch (number) {
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
		return (int32_t)args[3] < 0 ? LIMPET_LIMIT_NONE : LIMPET_LIMIT_IN_REGISTER;
	case SYS_epoll_pwait2:
	case SYS_semtimedop:
		none = !args[3];
		break;
	case SYS_semop:
		none = true;
		break;
	case SYS_rt_sigtimedwait:
		none = !args[2];
		break;
	case SYS_io_getevents:
		none = !args[4];
		break;
	case SYS_io_uring_enter:
		none = !(args[3] & ~(uint64_t)ENTER_KNOWN);
		break;
	case SYS_bpf: /* while the verifier looks at a program, nothing is done */
		none = args[0] == BPF_PROG_LOAD;
		break;
	case SYS_fallocate: /* of what it has done, nothing is done twice */
		none = !(args[1] & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
		break;
	default:
		none = false;
	}
	return none ? LIMPET_LIMIT_NONE : LIMPET_LIMIT_UNKNOWN;
}

const char *limpet_stop_call_name(long number)
{
	static const struct {
		long number;
		const char *name;
	} names[] = {
		{SYS_read, "read"},
		{SYS_readv, "readv"},
		{SYS_write, "write"},
		{SYS_writev, "writev"},
		{SYS_sendto, "sendto"},
		{SYS_sendmsg, "sendmsg"},
		{SYS_sendmmsg, "sendmmsg"},
		{SYS_recvfrom, "recvfrom"},
		{SYS_recvmsg, "recvmsg"},
		{SYS_recvmmsg, "recvmmsg"},
		{SYS_splice, "splice"},
		{SYS_sendfile, "sendfile"},
		{SYS_copy_file_range, "copy_file_range"},
		{SYS_close, "close"},
#ifdef SYS_dup2
		{SYS_dup2, "dup2"},
#endif
		{SYS_dup3, "dup3"},
		{SYS_close_range, "close_range"},
		{SYS_io_uring_enter, "io_uring_enter"},
		{SYS_io_getevents, "io_getevents"},
		{SYS_io_pgetevents, "io_pgetevents"},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		if (names[i].number == number)
			return names[i].name;
	return NULL;
}
