#include "analyzer/import/heaptrack_raw.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/subprocess.h"

#define PROGRAM "heaptrack_interpret"
#define PATIENCE_MS 120000
#define PIECE_BYTES (64u << 10)

struct limpet_heaptrack_raw {
	pid_t child;  /* 0: it has been waited for */
	int to, from; /* sockets; -1: closed */
	limpet_text_read_fn *read;
	void *context;
	uint8_t *piece;
	size_t sent, have; /* of the piece */
	int failure;       /* of what was read for it: -errno */
};

/* ------------------------------------------------------------------ finding it */

static bool is_program(const char *path)
{
	struct stat stat_;

	return stat(path, &stat_) == 0 && S_ISREG(stat_.st_mode) && access(path, X_OK) == 0;
}

/* In a directory of PATH, or where packages put it relative to the one with `heaptrack`. */
static bool find_beside(const char *directory, int length, char ret_path[PATH_MAX])
{
	static const char *const places[] = {"/", "/../lib/heaptrack/libexec/",
					     "/../lib64/heaptrack/libexec/",
					     "/../libexec/heaptrack/", "/../libexec/"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(places); i++) {
		const int used = snprintf(ret_path, PATH_MAX, "%.*s%s" PROGRAM, length, directory,
					  places[i]);

		if (used < PATH_MAX && is_program(ret_path))
			return true;
	}
	return false;
}

/* A relative directory of PATH is left out: the current one may belong to anybody. */
static bool find_program(char ret_path[PATH_MAX])
{
	const char *path = getenv("PATH");

	while (path && *path) {
		const size_t length = strcspn(path, ":");

		if (*path == '/' && length < PATH_MAX && find_beside(path, (int)length, ret_path))
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

/* ------------------------------------------------------------------ running it */

/* Root is left for good, and what the file's owner may not read is not read. */
static int become_owner(const struct stat *file)
{
	if (geteuid() != 0)
		return 0;
	return setgroups(0, NULL) < 0 || setgid(file->st_gid) < 0 || setuid(file->st_uid) < 0
		       ? -errno
		       : 0;
}

/* In the child: only system calls until it executes. */
static void execute(const char *path, const struct stat *file, int input, int output)
{
	char *const arguments[] = {(char[]){PROGRAM}, NULL};
	sigset_t none;
	int nothing;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	nothing = open("/dev/null", O_WRONLY);
	/* The signal after the user: a change of user clears it. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || become_owner(file) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || dup2(input, STDIN_FILENO) < 0 ||
	    dup2(output, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
		_exit(126);
	execv(path, arguments);
	_exit(127);
}

static int start(struct limpet_heaptrack_raw *raw, const char *path, const struct stat *file)
{
	int to[2], from[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from) < 0) {
		const int code = -errno;

		close(to[0]);
		close(to[1]);
		return code;
	}
	raw->to = to[0];
	raw->from = from[0];
	raw->child = fork();
	if (raw->child == 0)
		execute(path, file, to[1], from[1]);
	close(to[1]);
	close(from[1]);
	return raw->child < 0 ? -errno : 0;
}

int limpet_heaptrack_raw_start(const struct stat *file, limpet_text_read_fn *read, void *context,
			       struct limpet_heaptrack_raw **ret_raw, struct limpet_err *err)
{
	char path[PATH_MAX];
	struct limpet_heaptrack_raw *raw;
	int code;

	if (!find_program(path)) {
		limpet_err_set(err, -ENOENT,
			       "a raw file of heaptrack has no names, and there is no " PROGRAM
			       " on this machine");
		limpet_err_hint(err, "where it was recorded: heaptrack --interpret FILE");
		return -ENOENT;
	}
	raw = calloc(1, sizeof(*raw));
	if (!raw)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	*raw = (struct limpet_heaptrack_raw){.to = -1,
					     .from = -1,
					     .read = read,
					     .context = context,
					     .piece = malloc(PIECE_BYTES)};
	code = raw->piece ? start(raw, path, file) : -ENOMEM;
	if (code < 0) {
		limpet_heaptrack_raw_free(raw);
		return limpet_err_set(err, code, "cannot run '%s': %s", path, strerror(-code));
	}
	*ret_raw = raw;
	return 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(limpet_take_fd(fd));
}

void limpet_heaptrack_raw_free(struct limpet_heaptrack_raw *raw)
{
	if (!raw)
		return;
	close_fd(&raw->to);
	close_fd(&raw->from);
	if (raw->child > 0) {
		kill(raw->child, SIGKILL);
		limpet_subprocess_wait(raw->child);
	}
	free(raw->piece);
	free(raw);
}

/* Gives it what its socket takes. At the end, or after a failure, it sees the end of the file. */
static void feed(struct limpet_heaptrack_raw *raw)
{
	ssize_t sent;

	if (raw->sent == raw->have) {
		const int64_t got = raw->read(raw->context, raw->piece, PIECE_BYTES);

		raw->sent = 0;
		raw->have = got > 0 ? (size_t)got : 0;
		raw->failure = got < 0 ? (int)got : 0;
		if (got <= 0) {
			close_fd(&raw->to);
			return;
		}
	}
	sent = send(raw->to, raw->piece + raw->sent, raw->have - raw->sent,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0)
		raw->sent += (size_t)sent;
	else if (sent < 0 && errno != EAGAIN && errno != EINTR)
		close_fd(&raw->to);
}

/* It has written all: did it end well? */
static int end(struct limpet_heaptrack_raw *raw)
{
	int status;

	close_fd(&raw->to);
	status = limpet_subprocess_wait(raw->child);
	raw->child = 0;
	if (raw->failure < 0)
		return raw->failure;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBADMSG;
}

int64_t limpet_heaptrack_raw_read(void *context, void *ret, size_t room)
{
	struct limpet_heaptrack_raw *raw = context;

	while (raw->child > 0) {
		struct pollfd fds[] = {{.fd = raw->from, .events = POLLIN},
				       {.fd = raw->to, .events = POLLOUT}};
		const int ready = poll(fds, LIMPET_COUNT_OF(fds), PATIENCE_MS);

		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready == 0)
			return -ETIMEDOUT;
		if (ready > 0 && fds[0].revents) {
			const ssize_t got = recv(raw->from, ret, room, MSG_DONTWAIT);

			if (got > 0)
				return got;
			if (got == 0 || (errno != EAGAIN && errno != EINTR))
				return end(raw);
		}
		if (ready > 0 && fds[1].revents)
			feed(raw);
	}
	return 0;
}
