#include "collector/control/control.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "collector/control/control_client.h"
#include "collector/control/control_socket.h"
#include "collector/control/control_wire.h"
#include "common/stream_name.h"

#define CLIENTS 16
/* Per call of limpet_control_dispatch(), which must not delay the collector. */
#define ACCEPTS 4
#define REQUESTS 4
#define CHECK_SECONDS 1

/* What an epoll event refers to: a client's index, or one of these. */
enum { ABOUT_LISTENER = CLIENTS, ABOUT_TIMER };

struct client {
	int fd; /* -1: free */
	bool waits;
	uint64_t number; /* in the order of arrival */
};

struct limpet_control {
	pid_t pid;
	uid_t uid;
	const struct limpet_control_handlers *handlers;
	void *context;
	struct limpet_control_socket listener;
	int timer, epoll;
	bool listener_resting, stop_requested, finished;
	uint64_t arrivals;
	struct client clients[CLIENTS];
	char directory[PATH_MAX];
};

const char *limpet_control_state_name(enum limpet_control_state state)
{
	static const char *const names[LIMPET_CONTROL_STATES] = {
		[LIMPET_CONTROL_ATTACHING] = "attaching", [LIMPET_CONTROL_CAPTURING] = "capturing",
		[LIMPET_CONTROL_DETACHING] = "detaching", [LIMPET_CONTROL_SEALING] = "sealing",
		[LIMPET_CONTROL_DORMANT] = "dormant",     [LIMPET_CONTROL_RECEIVING] = "receiving",
	};

	return (unsigned)state < LIMPET_CONTROL_STATES ? names[state] : NULL;
}

static int watch(struct limpet_control *control, int operation, int fd, uint32_t events, int about)
{
	struct epoll_event event = {.events = events, .data.u32 = (uint32_t)about};

	return epoll_ctl(control->epoll, operation, fd, &event) < 0 ? -errno : 0;
}

static int open_listener(struct limpet_control *control, bool wait, struct limpet_err *err)
{
	int result = limpet_control_socket_open(control->pid, wait, &control->listener, err);

	if (result < 0)
		return result;
	result = watch(control, EPOLL_CTL_ADD, control->listener.fd, EPOLLIN, ABOUT_LISTENER);
	if (result < 0)
		limpet_err_set(err, result, "cannot watch the control socket: %s",
			       strerror(-result));
	return result;
}

static void close_listener(struct limpet_control *control)
{
	if (control->listener.fd >= 0)
		watch(control, EPOLL_CTL_DEL, control->listener.fd, 0, 0);
	limpet_control_socket_close(&control->listener);
	control->listener_resting = false;
}

/* A user's runtime directory is removed with the last session, and /tmp is cleaned: a capture that
 * outlives the session must still be found, so its socket is made again. If that fails, the next
 * tick tries again. */
static void check_listener(struct limpet_control *control)
{
	if (limpet_control_socket_is_there(&control->listener))
		return;
	close_listener(control);
	if (open_listener(control, false, NULL) < 0)
		close_listener(control);
}

/* ------------------------------------------------------------------ clients */

static void drop(struct limpet_control *control, struct client *client)
{
	/* Explicitly: a copy of the descriptor in a forked process would keep it in the epoll
	 * set. */
	watch(control, EPOLL_CTL_DEL, client->fd, 0, 0);
	close(client->fd);
	client->fd = -1;
	client->waits = false;
}

/* A free place; if there is none, that of the client that connected first among those that do not
 * wait. */
static struct client *make_place(struct limpet_control *control)
{
	struct client *oldest = NULL;

	for (int i = 0; i < CLIENTS; i++) {
		struct client *client = &control->clients[i];

		if (client->fd < 0)
			return client;
		if (!client->waits && (!oldest || client->number < oldest->number))
			oldest = client;
	}
	if (oldest)
		drop(control, oldest);
	return oldest;
}

static bool is_allowed(const struct limpet_control *control, int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	       (peer.uid == 0 || peer.uid == control->uid);
}

static void accept_clients(struct limpet_control *control, int limit)
{
	for (int i = 0; i < limit; i++) {
		LIMPET_CLOSE int fd =
			accept4(control->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct client *client;

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno != EAGAIN) {
			/* Out of descriptors or memory. The listener stays readable: without a
			 * pause the collector's loop would spin. */
			control->listener_resting =
				watch(control, EPOLL_CTL_MOD, control->listener.fd, 0,
				      ABOUT_LISTENER) == 0;
		}
		if (fd < 0)
			return;
		if (!is_allowed(control, fd))
			continue;
		client = make_place(control);
		if (!client || watch(control, EPOLL_CTL_ADD, fd, EPOLLIN,
				     (int)(client - control->clients)) < 0)
			continue;
		client->fd = limpet_take_fd(&fd);
		client->number = control->arrivals++;
	}
}

static void set_trace(const struct limpet_control *control, const char *trace, char ret[PATH_MAX])
{
	int length;

	if (!trace || !*trace)
		return;
	if (trace[0] != '/' && !limpet_is_stream_name(trace) && !control->directory[0])
		return;
	if (trace[0] == '/' || limpet_is_stream_name(trace))
		length = snprintf(ret, PATH_MAX, "%s", trace);
	else
		length = snprintf(ret, PATH_MAX, "%s/%s", control->directory, trace);
	/* A truncated path is another path. */
	if (length < 0 || length >= PATH_MAX)
		ret[0] = '\0';
}

static void make_reply(struct limpet_control *control, enum limpet_control_message_type type,
		       struct limpet_control_reply *ret)
{
	struct limpet_control_status status = {0};

	control->handlers->status(control->context, &status);
	memset(ret, 0, sizeof(*ret));
	ret->magic = LIMPET_CONTROL_MAGIC;
	ret->version = LIMPET_CONTROL_VERSION;
	ret->type = (uint16_t)type;
	ret->state = (uint32_t)status.state;
	ret->target_pid = control->pid;
	ret->collector_pid = getpid();
	ret->elapsed_ns = status.elapsed_ns;
	ret->duration_ns = status.duration_ns;
	ret->events = status.events;
	ret->dropped_events = status.dropped_events;
	ret->live_bytes = status.live_bytes;
	if (status.command)
		snprintf(ret->command, sizeof(ret->command), "%s", status.command);
	set_trace(control, status.trace, ret->trace);
}

static void send_reply(struct limpet_control *control, struct client *client, const void *reply,
		       size_t bytes)
{
	if (send(client->fd, reply, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		drop(control, client);
}

static void answer(struct limpet_control *control, struct client *client, unsigned type)
{
	struct limpet_control_reply reply;

	if (type == LIMPET_CONTROL_STOP && !control->stop_requested) {
		control->stop_requested = true;
		control->handlers->stop(control->context);
	}
	if (type == LIMPET_CONTROL_STOP)
		client->waits = true;
	make_reply(control, LIMPET_CONTROL_STATUS, &reply);
	send_reply(control, client, &reply, sizeof(reply));
}

union request {
	struct limpet_control_request head;
	struct limpet_control_mark_request mark;
	struct limpet_control_marks_request marks;
};

static void answer_mark(struct limpet_control *control, struct client *client, const char *name)
{
	struct limpet_control_mark_reply reply = {.magic = LIMPET_CONTROL_MAGIC,
						  .version = LIMPET_CONTROL_VERSION,
						  .type = LIMPET_CONTROL_MARK,
						  .result = -EINVAL,
						  .target_pid = control->pid};

	if (!limpet_mark_name_refuse(name))
		reply.result = control->handlers->mark(control->context, name, &reply.time_ns);
	send_reply(control, client, &reply, sizeof(reply));
}

static void answer_marks(struct limpet_control *control, struct client *client, uint32_t first)
{
	struct limpet_control_marks_reply reply = {.magic = LIMPET_CONTROL_MAGIC,
						   .version = LIMPET_CONTROL_VERSION,
						   .type = LIMPET_CONTROL_MARKS,
						   .target_pid = control->pid};
	const struct limpet_mark *list;
	const size_t total = control->handlers->marks(control->context, &list);

	reply.total = (uint32_t)total;
	for (size_t i = 0; i < LIMPET_CONTROL_MARKS_AT_ONCE && i + first < total; i++)
		reply.marks[i] = list[i + first];
	send_reply(control, client, &reply, sizeof(reply));
}

/* What was received is a whole request: false: it is none, and nobody answers. */
static bool handle_request(struct limpet_control *control, struct client *client,
			   union request *request, size_t bytes)
{
	struct limpet_control_request *head = &request->head;
	const bool whole = bytes == sizeof(*head) || bytes == sizeof(request->mark) ||
			   bytes == sizeof(request->marks);

	if (!whole || head->magic != LIMPET_CONTROL_MAGIC)
		return false;
	if (head->version != LIMPET_CONTROL_VERSION) {
		head->version = LIMPET_CONTROL_VERSION;
		head->type = LIMPET_CONTROL_VERSION_IS;
		send_reply(control, client, head, sizeof(*head));
		return true;
	}
	if (bytes == sizeof(*head) &&
	    (head->type == LIMPET_CONTROL_STATUS || head->type == LIMPET_CONTROL_STOP)) {
		answer(control, client, head->type);
		return true;
	}
	if (bytes == sizeof(request->marks) && head->type == LIMPET_CONTROL_MARKS) {
		answer_marks(control, client, request->marks.first);
		return true;
	}
	if (bytes != sizeof(request->mark) || head->type != LIMPET_CONTROL_MARK ||
	    !memchr(request->mark.name, '\0', sizeof(request->mark.name)))
		return false;
	answer_mark(control, client, request->mark.name);
	return true;
}

static void read_requests(struct limpet_control *control, struct client *client)
{
	for (int i = 0; i < REQUESTS && client->fd >= 0; i++) {
		union request request;
		ssize_t bytes =
			recv(client->fd, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);

		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (bytes < 0 || !handle_request(control, client, &request, (size_t)bytes)) {
			if (client->fd >= 0)
				drop(control, client);
			return;
		}
	}
}

static void tick(struct limpet_control *control)
{
	uint64_t expirations;

	if (read(control->timer, &expirations, sizeof(expirations)) < 0)
		return;
	if (control->listener_resting &&
	    watch(control, EPOLL_CTL_MOD, control->listener.fd, EPOLLIN, ABOUT_LISTENER) == 0)
		control->listener_resting = false;
	check_listener(control);
}

void limpet_control_dispatch(struct limpet_control *control)
{
	struct epoll_event events[CLIENTS + 2];
	int count;

	if (control->finished)
		return;
	count = epoll_wait(control->epoll, events, LIMPET_COUNT_OF(events), 0);
	for (int i = 0; i < count; i++) {
		uint32_t about = events[i].data.u32;

		if (about == ABOUT_LISTENER && control->listener.fd >= 0)
			accept_clients(control, ACCEPTS);
		else if (about == ABOUT_TIMER)
			tick(control);
		else if (about < CLIENTS && control->clients[about].fd >= 0)
			read_requests(control, &control->clients[about]);
	}
}

void limpet_control_announce(struct limpet_control *control)
{
	struct limpet_control_reply reply;

	make_reply(control, LIMPET_CONTROL_STATUS, &reply);
	for (int i = 0; i < CLIENTS; i++) {
		if (control->clients[i].fd >= 0 && control->clients[i].waits)
			send_reply(control, &control->clients[i], &reply, sizeof(reply));
	}
}

/* ------------------------------------------------------------------ from open to end */

static int open_timer(struct limpet_control *control)
{
	const struct itimerspec period = {.it_interval.tv_sec = CHECK_SECONDS,
					  .it_value.tv_sec = CHECK_SECONDS};

	control->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (control->timer < 0 || timerfd_settime(control->timer, 0, &period, NULL) < 0)
		return -errno;
	return watch(control, EPOLL_CTL_ADD, control->timer, EPOLLIN, ABOUT_TIMER);
}

/* Looks in every directory, of every user, that is visible. */
static int refuse_second(pid_t pid, struct limpet_err *err)
{
	struct limpet_control_capture capture;

	if (limpet_control_find(pid, &capture) < 0)
		return 0;
	if (capture.collector_pid)
		limpet_err_set(err, -EEXIST,
			       "process %d is already being captured by limpet (pid %d)", pid,
			       capture.collector_pid);
	else
		limpet_err_set(err, -EEXIST, "process %d is already being captured by limpet", pid);
	limpet_err_hint(err, "%slimpet stop %d",
			capture.owner != geteuid() && geteuid() != 0 ? "sudo " : "", pid);
	return -EEXIST;
}

int limpet_control_open(pid_t pid, const struct limpet_control_handlers *handlers, void *context,
			struct limpet_control **ret_control, struct limpet_err *err)
{
	struct limpet_control *control;
	int result = refuse_second(pid, err);

	if (result < 0)
		return result;
	control = calloc(1, sizeof(*control));
	if (!control)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	control->pid = pid;
	control->uid = geteuid();
	control->handlers = handlers;
	control->context = context;
	control->listener = (struct limpet_control_socket)LIMPET_CONTROL_SOCKET_NONE;
	control->timer = -1;
	for (int i = 0; i < CLIENTS; i++)
		control->clients[i].fd = -1;
	if (!getcwd(control->directory, sizeof(control->directory)))
		control->directory[0] = '\0';

	control->epoll = epoll_create1(EPOLL_CLOEXEC);
	result = control->epoll < 0 ? -errno : open_timer(control);
	if (result < 0)
		limpet_err_set(err, result, "cannot watch the control socket: %s",
			       strerror(-result));
	else
		result = open_listener(control, true, err);
	if (result < 0) {
		limpet_control_free(control);
		return result;
	}
	*ret_control = control;
	return 0;
}

int limpet_control_fd(const struct limpet_control *control)
{
	return control->epoll;
}

void limpet_control_finish(struct limpet_control *control, enum limpet_exit exit_status)
{
	struct limpet_control_reply reply;

	if (control->finished)
		return;
	/* No new clients can connect; those that already have are accepted and told, too. */
	limpet_control_socket_remove(&control->listener);
	if (control->listener.fd >= 0)
		accept_clients(control, CLIENTS);
	control->finished = true;
	make_reply(control, LIMPET_CONTROL_RESULT, &reply);
	reply.exit_status = (int32_t)exit_status;
	for (int i = 0; i < CLIENTS; i++) {
		struct client *client = &control->clients[i];

		if (client->fd >= 0)
			send_reply(control, client, &reply, sizeof(reply));
		if (client->fd >= 0)
			drop(control, client);
	}
	close_listener(control);
}

void limpet_control_free(struct limpet_control *control)
{
	if (!control)
		return;
	limpet_control_socket_remove(&control->listener);
	for (int i = 0; i < CLIENTS; i++) {
		if (control->clients[i].fd >= 0)
			close(control->clients[i].fd);
	}
	limpet_control_socket_close(&control->listener);
	if (control->timer >= 0)
		close(control->timer);
	if (control->epoll >= 0)
		close(control->epoll);
	free(control);
}
