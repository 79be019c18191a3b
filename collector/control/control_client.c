#include "collector/control/control_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "collector/control/control_wire.h"
#include "collector/control/runtime_dir.h"
#include "common/array.h"
#include "common/clock.h"

/* For all captures together: a collector answers between two of its rounds, in milliseconds. */
#define ANSWER_MS 2000
#define SILENT_MS 10000
/* More sockets than this are not captures. */
#define CAPTURES_MAX 4096

bool limpet_control_parse_name(const char *name, pid_t *ret_pid)
{
	char again[LIMPET_CONTROL_NAME_BYTES];
	long pid = 0;

	for (const char *s = name; *s >= '0' && *s <= '9' && pid <= INT_MAX; s++)
		pid = pid * 10 + (*s - '0');
	if (pid < 1 || pid > INT_MAX)
		return false;
	limpet_control_format_name(again, (pid_t)pid);
	if (strcmp(name, again) != 0)
		return false;
	*ret_pid = (pid_t)pid;
	return true;
}

static int64_t now_ms(void)
{
	return (int64_t)(limpet_monotonic_ns() / 1000000);
}

/* 0, or -ETIMEDOUT; `deadline_ms` < 0: none. */
static int wait_readable(int fd, int64_t deadline_ms)
{
	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		int64_t left = deadline_ms < 0 ? -1 : deadline_ms - now_ms();
		int result;

		if (deadline_ms >= 0 && left < 0)
			left = 0;
		result = poll(&poll_fd, 1, (int)left);
		if (result > 0)
			return 0;
		if (result == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

int limpet_control_connect(int dir_fd, pid_t pid)
{
	LIMPET_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;

	if (fd < 0)
		return -errno;
	limpet_control_format_address(&address, dir_fd, pid);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return limpet_take_fd(&fd);
}

/* The socket's file does not prove who listens: only root, this user and the directory's owner are
 * accepted. */
static int check_peer(int fd, const struct limpet_runtime_dir *dir)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return -errno;
	if (peer.uid != 0 && peer.uid != geteuid() && peer.uid != dir->owner)
		return -EACCES;
	return 0;
}

static struct limpet_control_request head_of(enum limpet_control_message_type type)
{
	return (struct limpet_control_request){
		.magic = LIMPET_CONTROL_MAGIC,
		.version = LIMPET_CONTROL_VERSION,
		.type = (uint16_t)type,
	};
}

/* Connects and sends a request. -ENOENT: no such capture (the socket of one that died is
 * removed). */
static int send_to(const struct limpet_runtime_dir *dir, pid_t pid, const void *request,
		   size_t bytes)
{
	LIMPET_CLOSE int fd = limpet_control_connect(dir->fd, pid);
	char name[LIMPET_CONTROL_NAME_BYTES];
	int result;

	if (fd == -ECONNREFUSED && dir->ours && limpet_runtime_dir_lock(dir->fd, true) == 0) {
		/* Again, under the lock: a new capture may have replaced the socket meanwhile. */
		fd = limpet_control_connect(dir->fd, pid);
		limpet_control_format_name(name, pid);
		if (fd == -ECONNREFUSED)
			unlinkat(dir->fd, name, 0);
		limpet_runtime_dir_unlock(dir->fd);
	}
	if (fd < 0)
		return fd == -ECONNREFUSED ? -ENOENT : fd;
	result = check_peer(fd, dir);
	if (result == 0 && send(fd, request, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		result = -errno;
	return result < 0 ? result : limpet_take_fd(&fd);
}

static int request_status(const struct limpet_runtime_dir *dir, pid_t pid)
{
	const struct limpet_control_request request = head_of(LIMPET_CONTROL_STATUS);

	return send_to(dir, pid, &request, sizeof(request));
}

static bool is_terminated(const char *text, size_t bytes)
{
	return memchr(text, '\0', bytes) != NULL;
}

/* One message: its bytes; -ECONNRESET: the other end is gone. */
static ssize_t receive_bytes(int fd, void *ret, size_t room)
{
	ssize_t bytes;
	int resets = 0;

	/* If a peer closes without reading the request, recv() returns ECONNRESET before what the
	 * peer had sent. */
	do
		bytes = recv(fd, ret, room, MSG_DONTWAIT | MSG_TRUNC);
	while (bytes < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
	if (bytes < 0)
		return errno == EAGAIN ? -EAGAIN : -ECONNRESET;
	return bytes ? bytes : -ECONNRESET;
}

/* One checked reply. */
static int receive(int fd, pid_t pid, struct limpet_control_reply *ret)
{
	struct limpet_control_reply reply;
	ssize_t bytes = receive_bytes(fd, &reply, sizeof(reply));

	if (bytes < 0)
		return (int)bytes;
	if ((size_t)bytes != sizeof(reply) || reply.magic != LIMPET_CONTROL_MAGIC ||
	    reply.version != LIMPET_CONTROL_VERSION)
		return -EPROTO;
	if (reply.type != LIMPET_CONTROL_STATUS && reply.type != LIMPET_CONTROL_RESULT)
		return -EPROTO;
	if (reply.target_pid != pid || reply.collector_pid < 1 ||
	    !is_terminated(reply.command, sizeof(reply.command)) ||
	    !is_terminated(reply.trace, sizeof(reply.trace)))
		return -EPROTO;
	if (reply.type == LIMPET_CONTROL_STATUS &&
	    (reply.state == LIMPET_CONTROL_UNKNOWN || reply.state == LIMPET_CONTROL_DORMANT ||
	     reply.state >= LIMPET_CONTROL_STATES))
		return -EPROTO;
	if (reply.type == LIMPET_CONTROL_RESULT &&
	    (reply.exit_status < LIMPET_EXIT_OK || reply.exit_status > LIMPET_EXIT_DORMANT))
		return -EPROTO;
	*ret = reply;
	return 0;
}

static void copy_reply(const struct limpet_control_reply *reply, struct limpet_control_capture *ret)
{
	ret->collector_pid = reply->collector_pid;
	ret->state = (enum limpet_control_state)reply->state;
	ret->elapsed_ns = reply->elapsed_ns;
	ret->duration_ns = reply->duration_ns;
	ret->events = reply->events;
	ret->dropped_events = reply->dropped_events;
	ret->live_bytes = reply->live_bytes;
	strcpy(ret->command, reply->command);
	strcpy(ret->trace, reply->trace);
}

/* Reads the answer to a STATUS request into `capture`. -ENOENT: the capture has just ended. */
static int read_status(int fd, int64_t deadline_ms, struct limpet_control_capture *capture)
{
	struct limpet_control_reply reply;
	int result = wait_readable(fd, deadline_ms);

	if (result == 0)
		result = receive(fd, capture->pid, &reply);
	if (result == -ECONNRESET || (result == 0 && reply.type == LIMPET_CONTROL_RESULT))
		return -ENOENT;
	if (result == 0)
		copy_reply(&reply, capture);
	return 0; /* no reply, or an invalid one: its state stays unknown */
}

/* ------------------------------------------------------------------ all captures */

struct pending {
	struct limpet_control_capture capture;
	int fd; /* -1: no reply will come */
};

struct requests {
	struct pending *list;
	size_t count, capacity;
};

static int request_one(struct requests *requests, const struct limpet_runtime_dir *dir, pid_t pid)
{
	struct pending *pending;
	int fd;

	if (limpet_reserve(&requests->list, &requests->capacity, requests->count + 1,
			   sizeof(*pending)) < 0)
		return -ENOMEM;
	fd = request_status(dir, pid);
	if (fd == -ENOENT)
		return 0;
	pending = &requests->list[requests->count++];
	memset(&pending->capture, 0, sizeof(pending->capture));
	pending->capture.pid = pid;
	pending->capture.owner = dir->owner;
	pending->fd = fd < 0 ? -1 : fd;
	return 0;
}

static int request_dir(struct requests *requests, const struct limpet_runtime_dir *dir)
{
	const struct dirent *entry;
	int result = 0, fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	pid_t pid;

	if (!entries) {
		result = -errno;
		if (fd >= 0)
			close(fd);
		return result;
	}
	while (result == 0 && requests->count < CAPTURES_MAX && (entry = readdir(entries))) {
		if (limpet_control_parse_name(entry->d_name, &pid))
			result = request_one(requests, dir, pid);
	}
	closedir(entries);
	return result;
}

static int compare_captures(const void *a, const void *b)
{
	const struct limpet_control_capture *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int limpet_control_list(struct limpet_control_capture **ret_list)
{
	struct limpet_runtime_dir dirs[LIMPET_RUNTIME_DIRS_MAX];
	int dir_count = limpet_runtime_dir_find_all(dirs), result = 0, count = 0;
	LIMPET_FREE struct limpet_control_capture *list = NULL;
	struct requests requests = {0};
	int64_t deadline_ms;

	/* All are asked before the first reply is awaited: captures that are stuck cost the time
	 * limit once, however many there are. */
	for (int i = 0; i < dir_count && result == 0; i++) {
		if (dirs[i].readable)
			result = request_dir(&requests, &dirs[i]);
		/* The directory of another user may be gone. */
		if (result < 0 && result != -ENOMEM)
			result = 0;
	}
	limpet_runtime_dir_done(dirs, dir_count);
	if (result == 0) {
		list = calloc(requests.count + 1, sizeof(*list));
		if (!list)
			result = -ENOMEM;
	}
	deadline_ms = now_ms() + ANSWER_MS;
	for (size_t i = 0; i < requests.count; i++) {
		struct pending *pending = &requests.list[i];
		int ended = 0;

		if (pending->fd >= 0) {
			if (result == 0)
				ended = read_status(pending->fd, deadline_ms, &pending->capture);
			close(pending->fd);
		}
		if (result == 0 && ended == 0)
			list[count++] = pending->capture;
	}
	free(requests.list);
	if (result != 0)
		return result;
	qsort(list, (size_t)count, sizeof(*list), compare_captures);
	*ret_list = LIMPET_TAKE(list);
	return count;
}

/* ------------------------------------------------------------------ one capture */

/* root's directory, seen by another user: only the name can be checked. */
static bool is_root_captured(const struct limpet_runtime_dir *dir, pid_t pid)
{
	char name[LIMPET_CONTROL_NAME_BYTES];
	struct stat st;

	limpet_control_format_name(name, pid);
	return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int limpet_control_find(pid_t pid, struct limpet_control_capture *ret_capture)
{
	struct limpet_runtime_dir dirs[LIMPET_RUNTIME_DIRS_MAX];
	int dir_count = limpet_runtime_dir_find_all(dirs), result = -ENOENT;
	struct limpet_control_capture capture;

	for (int i = 0; i < dir_count && result == -ENOENT; i++) {
		LIMPET_CLOSE int fd = -1;

		memset(&capture, 0, sizeof(capture));
		capture.pid = pid;
		capture.owner = dirs[i].owner;
		if (!dirs[i].readable) {
			result = is_root_captured(&dirs[i], pid) ? 0 : -ENOENT;
			continue;
		}
		fd = request_status(&dirs[i], pid);
		if (fd == -ENOENT)
			continue;
		result = fd < 0 ? 0 : read_status(fd, now_ms() + ANSWER_MS, &capture);
	}
	limpet_runtime_dir_done(dirs, dir_count);
	if (result == 0)
		*ret_capture = capture;
	return result;
}

/* `verb`: what could not be done, and the command that does it. */
static int explain(struct limpet_err *err, pid_t pid, int result, const char *verb)
{
	switch (result) {
	case -ENOENT:
		limpet_err_set(err, result, "process %d is not being captured", pid);
		limpet_err_hint(err, "`limpet status` lists the captures");
		break;
	case -EACCES:
		limpet_err_set(err, result, "process %d is captured by another user", pid);
		limpet_err_hint(err, "sudo limpet %s %d", verb, pid);
		break;
	case -EAGAIN:
		limpet_err_set(err, result, "the capture of process %d does not answer", pid);
		limpet_err_hint(err, "`limpet status %d` shows whether it is stuck", pid);
		break;
	case -EPROTO:
		limpet_err_set(err, result,
			       "the capture of process %d belongs to another version "
			       "of limpet",
			       pid);
		limpet_err_hint(err, "%s it with that version, or Ctrl-C in its terminal", verb);
		break;
	default:
		limpet_err_set(err, result, "cannot %s the capture of process %d: %s", verb, pid,
			       strerror(-result));
	}
	return result;
}

/* Asks the capture of `pid`, whoever captures it. Returns a descriptor, from which the answer
 * comes. */
static int request_any(pid_t pid, const void *request, size_t bytes)
{
	struct limpet_runtime_dir dirs[LIMPET_RUNTIME_DIRS_MAX];
	int dir_count = limpet_runtime_dir_find_all(dirs), result = -ENOENT;

	for (int i = 0; i < dir_count && result == -ENOENT; i++) {
		if (dirs[i].readable)
			result = send_to(&dirs[i], pid, request, bytes);
		else if (is_root_captured(&dirs[i], pid))
			result = -EACCES;
	}
	limpet_runtime_dir_done(dirs, dir_count);
	return result;
}

/* ------------------------------------------------------------------ marks */

static int explain_mark(struct limpet_err *err, pid_t pid, const char *name, int result)
{
	switch (result) {
	case -EINVAL:
		limpet_err_set(err, result, "cannot set a mark: the name %s",
			       limpet_mark_name_refuse(name) ?: "is not valid");
		limpet_err_hint(err, "a name has 1 to %u bytes, as in: limpet mark %d after-load",
				LIMPET_MARK_NAME_MAX_BYTES, pid);
		break;
	case -EEXIST:
		limpet_err_set(err, result, "the capture of process %d has a mark '%s' already",
			       pid, name);
		limpet_err_hint(err, "a name is set once in a capture: choose another");
		break;
	case -E2BIG:
		limpet_err_set(err, result,
			       "the capture of process %d has %u marks already: no more fit", pid,
			       LIMPET_MARKS_MAX);
		break;
	case -EBUSY:
		limpet_err_set(err, result,
			       "the capture of process %d cannot be marked: it has not begun, or "
			       "is ending",
			       pid);
		limpet_err_hint(err, "limpet status %d", pid);
		break;
	default:
		explain(err, pid, result, "mark");
		if (result == -EACCES)
			limpet_err_hint(err, "sudo limpet mark %d NAME", pid);
		else if (result == -EPROTO)
			limpet_err_hint(err, "mark it with that version, if that can");
	}
	return result;
}

/* -EPROTO: it closed the connection, but lives, so that it knows no marks. */
static int read_mark(int fd, pid_t pid, uint64_t *ret_time_ns)
{
	struct limpet_control_mark_reply reply = {0};
	struct limpet_control_capture capture;
	ssize_t bytes = wait_readable(fd, now_ms() + SILENT_MS);

	if (bytes == 0)
		bytes = receive_bytes(fd, &reply, sizeof(reply));
	if (bytes == -ETIMEDOUT)
		return -EAGAIN;
	if (bytes == -ECONNRESET)
		return limpet_control_find(pid, &capture) == 0 ? -EPROTO : -ENOENT;
	if (bytes < 0)
		return (int)bytes;
	/* The capture ended meanwhile. */
	if ((size_t)bytes == sizeof(struct limpet_control_reply) &&
	    reply.magic == LIMPET_CONTROL_MAGIC && reply.type == LIMPET_CONTROL_RESULT)
		return -ENOENT;
	if ((size_t)bytes != sizeof(reply) || reply.magic != LIMPET_CONTROL_MAGIC ||
	    reply.version != LIMPET_CONTROL_VERSION || reply.type != LIMPET_CONTROL_MARK ||
	    reply.target_pid != pid || reply.result > 0 || reply.result < -4095)
		return -EPROTO;
	if (reply.result == 0)
		*ret_time_ns = reply.time_ns;
	return reply.result;
}

int limpet_control_mark(pid_t pid, const char *name, uint64_t *ret_time_ns, struct limpet_err *err)
{
	struct limpet_control_mark_request request;
	LIMPET_CLOSE int fd = -1;
	int result;

	if (limpet_mark_name_refuse(name))
		return explain_mark(err, pid, name, -EINVAL);
	memset(&request, 0, sizeof(request));
	request.head = head_of(LIMPET_CONTROL_MARK);
	strcpy(request.name, name);
	fd = request_any(pid, &request, sizeof(request));
	result = fd < 0 ? fd : read_mark(fd, pid, ret_time_ns);
	return result < 0 ? explain_mark(err, pid, name, result) : 0;
}

/* Some of them, from `first` on. */
static int request_marks(pid_t pid, uint32_t first, int64_t deadline_ms,
			 struct limpet_control_marks_reply *ret)
{
	const struct limpet_control_marks_request request = {.head = head_of(LIMPET_CONTROL_MARKS),
							     .first = first};
	LIMPET_CLOSE int fd = request_any(pid, &request, sizeof(request));
	ssize_t bytes = fd < 0 ? fd : wait_readable(fd, deadline_ms);

	if (bytes == 0)
		bytes = receive_bytes(fd, ret, sizeof(*ret));
	if (bytes < 0)
		return (int)bytes;
	if ((size_t)bytes != sizeof(*ret) || ret->magic != LIMPET_CONTROL_MAGIC ||
	    ret->version != LIMPET_CONTROL_VERSION || ret->type != LIMPET_CONTROL_MARKS ||
	    ret->target_pid != pid || ret->total > LIMPET_MARKS_MAX)
		return -EPROTO;
	for (size_t i = 0; i < LIMPET_CONTROL_MARKS_AT_ONCE && i + first < ret->total; i++)
		if (!is_terminated(ret->marks[i].name, sizeof(ret->marks[i].name)) ||
		    limpet_mark_name_refuse(ret->marks[i].name))
			return -EPROTO;
	return 0;
}

int limpet_control_marks(pid_t pid, struct limpet_mark **ret_list)
{
	LIMPET_FREE struct limpet_mark *list = calloc(LIMPET_MARKS_MAX, sizeof(*list));
	const int64_t deadline_ms = now_ms() + ANSWER_MS;
	struct limpet_control_marks_reply reply = {0};
	uint32_t count = 0;

	if (!list)
		return -ENOMEM;
	do {
		const int result = request_marks(pid, count, deadline_ms, &reply);

		if (result < 0)
			return result;
		for (size_t i = 0; i < LIMPET_CONTROL_MARKS_AT_ONCE && count < reply.total; i++)
			list[count++] = reply.marks[i];
	} while (count < reply.total);
	*ret_list = LIMPET_TAKE(list);
	return (int)count;
}

/* ------------------------------------------------------------------ stopping */

struct limpet_control_stop {
	pid_t pid;
	pid_t collector_pid;
	int fd;
};

int limpet_control_stop_begin(pid_t pid, struct limpet_control_stop **ret_stop,
			      struct limpet_err *err)
{
	const struct limpet_control_request request = head_of(LIMPET_CONTROL_STOP);
	int result = request_any(pid, &request, sizeof(request));
	struct limpet_control_stop *stop;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (result < 0)
		return explain(err, pid, result, "stop");
	stop = calloc(1, sizeof(*stop));
	if (!stop) {
		close(result);
		return explain(err, pid, -ENOMEM, "stop");
	}
	stop->pid = pid;
	stop->fd = result;
	if (getsockopt(stop->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
		stop->collector_pid = peer.pid;
	*ret_stop = stop;
	return 0;
}

int limpet_control_stop_wait(struct limpet_control_stop *stop,
			     const struct limpet_control_watcher *watcher, void *context,
			     struct limpet_control_result *ret_result, struct limpet_err *err)
{
	int64_t deadline_ms = now_ms() + SILENT_MS;
	char trace[PATH_MAX] = "";

	for (;;) {
		struct limpet_control_reply reply;
		struct limpet_control_capture capture = {.pid = stop->pid};
		int result = wait_readable(stop->fd, deadline_ms);

		if (result == -ETIMEDOUT) {
			deadline_ms = -1;
			if (watcher->silent)
				watcher->silent(context, stop->collector_pid);
			continue;
		}
		if (result == 0)
			result = receive(stop->fd, stop->pid, &reply);
		if (result == -EAGAIN)
			continue;
		if (result == -ECONNRESET) {
			limpet_err_set(err, result,
				       "limpet (pid %d) ended before the capture of process %d was "
				       "finished",
				       stop->collector_pid, stop->pid);
			if (trace[0])
				limpet_err_hint(err,
						"limpet stop %d cleans up; limpet report '%.400s'",
						stop->pid, trace);
			else
				limpet_err_hint(err, "limpet stop %d cleans up", stop->pid);
			return result;
		}
		if (result != 0)
			return explain(err, stop->pid, result, "stop");
		/* Sealing a large trace may take minutes: from here on there is no time limit. */
		deadline_ms = -1;
		stop->collector_pid = reply.collector_pid;
		if (reply.type == LIMPET_CONTROL_RESULT) {
			ret_result->exit_status = (enum limpet_exit)reply.exit_status;
			strcpy(ret_result->trace, reply.trace);
			return 0;
		}
		copy_reply(&reply, &capture);
		strcpy(trace, reply.trace);
		if (watcher->state)
			watcher->state(context, &capture);
	}
}

void limpet_control_stop_free(struct limpet_control_stop *stop)
{
	if (!stop)
		return;
	close(stop->fd);
	free(stop);
}
