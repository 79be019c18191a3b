#include "common/subprocess.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/clock.h"

#define POLL_MS 100
#define POLL_NS (POLL_MS * UINT64_C(1000000))
#define LONGER 16u       /* factor for work that progresses */
#define KILLED_POLLS 10u /* polls until a killed process that can end has ended */
#define LEFT_MAX 3u
#define WAITED_MAX_NS UINT64_C(120000000000)

struct limpet_subprocess_patience limpet_subprocess_patience = {.ns = UINT64_C(5000000000)};

struct answer {
	int code;
	char argument[LIMPET_SUBPROCESS_BYTES];
};

union control {
	struct cmsghdr head; /* for its alignment */
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* ------------------------------------------------------------------ in the other process */

static void send_answer(int socket, struct answer *answer, int fd)
{
	struct iovec vector = {.iov_base = answer, .iov_len = sizeof(*answer)};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	union control control;

	if (fd > 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

int limpet_subprocess_wait(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void close_range_of(int first, int last)
{
	if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
		return;
	/* Linux before 5.9. limpet opens no higher descriptors. */
	for (int fd = first; fd <= last && fd < 65536; fd++)
		close(fd);
}

static bool is_kept(const struct limpet_subprocess_job *job, int fd)
{
	bool kept = false;

	for (size_t i = 0; i < LIMPET_COUNT_OF(job->fds); i++)
		kept = kept || job->fds[i] == fd;
	return kept;
}

/* The process may be abandoned, and would then keep its descriptors open. The standard descriptors
 * are closed as well, since a reader of limpet's output waits for its end; but their numbers stay
 * in use. */
static void keep_only(const struct limpet_subprocess_job *job, int socket)
{
	int next = STDERR_FILENO + 1;

	for (int fd = 0; fd < next; fd++)
		if (!is_kept(job, fd))
			dup2(socket, fd);
	for (;;) {
		int lowest = socket < next ? -1 : socket;

		for (size_t i = 0; i < LIMPET_COUNT_OF(job->fds); i++)
			if (job->fds[i] >= next && (lowest < 0 || job->fds[i] < lowest))
				lowest = job->fds[i];
		if (lowest < 0)
			break;
		close_range_of(next, lowest - 1);
		next = lowest + 1;
	}
	close_range_of(next, INT_MAX);
}

static _Noreturn void run_job(const struct limpet_subprocess_job *job, int socket)
{
	struct answer answer = {.code = 0};

	keep_only(job, socket);
	answer.code = job->work(job->argument);
	memcpy(answer.argument, job->argument, job->bytes);
	send_answer(socket, &answer, answer.code);
	_exit(0);
}

/* ------------------------------------------------------------------ in limpet's own process */

/* In the child ret->pid is 0, and signals stay blocked, since none is meant for it. The child waits
 * for a byte from its parent: if it ended before the parent had its pidfd, its pid could be reused;
 * and if the parent is gone, the child is not needed. */
static int fork_quietly(int ours, int theirs, struct limpet_subprocess *ret)
{
	sigset_t all, before;
	char word = 0;
	int code = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret->pid = fork();
	if (ret->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ours);
		if (read(theirs, &word, 1) != 1)
			_exit(1);
		return 0;
	}
	if (ret->pid < 0)
		code = limpet_errno();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(theirs);
	if (code < 0)
		return code;
	ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	if (ret->pidfd < 0)
		code = limpet_errno();
	else if (send(ours, &word, 1, MSG_NOSIGNAL) != 1)
		code = -EIO;
	/* Without the byte the child ends. */
	if (code < 0) {
		shutdown(ours, SHUT_RDWR);
		(void)limpet_subprocess_wait(ret->pid);
		if (ret->pidfd >= 0)
			close(ret->pidfd);
	}
	return code;
}

static off_t size_of(int fd)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 ? status.st_size : 0;
}

/* A signal ends a poll early; if limpet was stopped meanwhile, the poll took longer than it counts
 * for. */
static uint64_t poll_ns(uint64_t before_ns, int ready)
{
	uint64_t ns = ready == 0 ? POLL_NS : limpet_monotonic_ns() - before_ns;

	return ns < POLL_NS ? ns : POLL_NS;
}

/* *left_ns: how long there may be no progress. A result that is already there takes nothing from
 * the total time. */
static int wait_within(int fd, short events, int grows, uint64_t *left_ns)
{
	const uint64_t limit_ns = *left_ns;
	uint64_t all_ns = 0;
	off_t bytes = 0;

	while (*left_ns && all_ns < limit_ns * LONGER) {
		struct pollfd one = {.fd = fd, .events = events};
		uint64_t before_ns = limpet_monotonic_ns(), ns;
		int ready = poll(&one, 1, POLL_MS);
		off_t now;

		if (ready > 0)
			return 0;
		ns = poll_ns(before_ns, ready);
		__atomic_add_fetch(&limpet_subprocess_patience.waited_ns, ns, __ATOMIC_RELAXED);
		all_ns += ns;
		*left_ns -= ns < *left_ns ? ns : *left_ns;
		now = size_of(grows);
		if (now != bytes)
			*left_ns = limit_ns;
		bytes = now;
	}
	return -ETIMEDOUT;
}

/* Waits until there is something to read. */
static int wait_for(int fd, int grows)
{
	uint64_t left_ns = limpet_subprocess_patience.ns;

	return wait_within(fd, POLLIN, grows, &left_ns);
}

static int receive_answer(int socket, const struct limpet_subprocess_job *job)
{
	struct answer answer = {.code = -EIO};
	union control control;
	struct iovec vector = {.iov_base = &answer, .iov_len = sizeof(answer)};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd;

	if (n != sizeof(answer))
		return -EIO;
	memcpy(job->argument, answer.argument, job->bytes);
	if (answer.code <= 0)
		return answer.code;
	if (!CMSG_FIRSTHDR(&message) || control.head.cmsg_type != SCM_RIGHTS)
		return -EMFILE;
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	if (fd == 0) {
		/* 0 means that there is no descriptor. */
		fd = fcntl(0, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(0);
	}
	return fd;
}

/* Closing a file may block as well. A process that does not end is left for the process that reaps
 * limpet's. */
static int end(const struct limpet_subprocess *process, bool at_once)
{
	bool ended = !at_once && wait_for(process->pidfd, -1) == 0;
	uint64_t killed_ns = POLL_NS * KILLED_POLLS;

	if (!ended) {
		syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
		(void)!wait_within(process->pidfd, POLLIN, -1, &killed_ns);
	}
	waitpid(process->pid, NULL, WNOHANG);
	close(process->pidfd);
	return ended ? 0 : -ETIMEDOUT;
}

static bool is_over(void)
{
	return __atomic_load_n(&limpet_subprocess_patience.left, __ATOMIC_RELAXED) >= LEFT_MAX ||
	       __atomic_load_n(&limpet_subprocess_patience.waited_ns, __ATOMIC_RELAXED) >=
		       WAITED_MAX_NS;
}

/* ------------------------------------------------------------------ one job */

int limpet_subprocess_run(const struct limpet_subprocess_job *job)
{
	LIMPET_CLOSE int ours = -1;
	struct limpet_subprocess process;
	int ends[2], code;

	if (is_over())
		return -ETIMEDOUT;
	if (job->bytes > LIMPET_SUBPROCESS_BYTES)
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return limpet_errno();
	ours = ends[0];
	code = fork_quietly(ends[0], ends[1], &process);
	if (code == 0 && process.pid == 0)
		run_job(job, ends[1]);
	if (code < 0)
		return code;
	code = wait_for(ours, job->grows);
	if (code == 0)
		code = receive_answer(ours, job);
	if (end(&process, code == -ETIMEDOUT) < 0)
		__atomic_add_fetch(&limpet_subprocess_patience.left, 1, __ATOMIC_RELAXED);
	return code;
}

/* ------------------------------------------------------------------ a lasting process */

int limpet_subprocess_start(void (*serve)(int socket, void *context), void *context,
			    struct limpet_subprocess *ret)
{
	static const struct limpet_subprocess_job nothing = {.fds = {-1, -1}};
	struct limpet_subprocess process;
	int ends[2], code;

	if (is_over())
		return -ETIMEDOUT;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return limpet_errno();
	code = fork_quietly(ends[0], ends[1], &process);
	if (code == 0 && process.pid == 0) {
		keep_only(&nothing, ends[1]);
		serve(ends[1], context);
		_exit(0);
	}
	if (code < 0) {
		close(ends[0]);
		return code;
	}
	process.socket = ends[0];
	*ret = process;
	return 0;
}

void limpet_subprocess_stop(struct limpet_subprocess *process)
{
	if (!process->pid)
		return;
	close(process->socket);
	end(process, true);
	*process = LIMPET_SUBPROCESS_NONE;
}

int limpet_subprocess_send(const struct limpet_subprocess *process, const struct iovec *parts,
			   size_t count)
{
	uint64_t left_ns = limpet_subprocess_patience.ns;

	for (size_t i = 0; i < count; i++)
		for (size_t done = 0; done < parts[i].iov_len;) {
			ssize_t n = send(process->socket, (const char *)parts[i].iov_base + done,
					 parts[i].iov_len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
			int code = 0;

			if (n < 0 && errno == EAGAIN)
				code = wait_within(process->socket, POLLOUT, -1, &left_ns);
			else if (n < 0 && errno != EINTR)
				code = limpet_errno();
			if (code < 0)
				return code;
			done += n > 0 ? (size_t)n : 0;
		}
	return 0;
}

int limpet_subprocess_receive(const struct limpet_subprocess *process, void *ret, size_t bytes)
{
	uint64_t left_ns = limpet_subprocess_patience.ns;

	for (size_t done = 0; done < bytes;) {
		int code = wait_within(process->socket, POLLIN, -1, &left_ns);
		ssize_t n = code < 0 ? 0
				     : recv(process->socket, (char *)ret + done, bytes - done,
					    MSG_DONTWAIT);

		if (code < 0)
			return code;
		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return limpet_errno();
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}
