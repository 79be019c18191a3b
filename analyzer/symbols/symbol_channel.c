#include "analyzer/symbols/symbol_channel.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct head {
	uint32_t type, bytes;
};

/* ------------------------------------------------------------------ payloads */

void limpet_symbol_channel_init(struct limpet_symbol_channel *channel, int socket)
{
	*channel = (struct limpet_symbol_channel){.socket = socket, .fd = -1};
}

static void drop_fd(struct limpet_symbol_channel *channel)
{
	if (channel->fd >= 0)
		close(channel->fd);
	channel->fd = -1;
}

void limpet_symbol_channel_done(struct limpet_symbol_channel *channel)
{
	drop_fd(channel);
	limpet_bytes_done(&channel->out);
	limpet_bytes_done(&channel->in);
	if (channel->socket >= 0)
		close(channel->socket);
	channel->socket = -1;
}

/* With its NUL, so that the other side need not copy it. The length includes the NUL; 0: no
 * text. */
void limpet_symbol_append_text(struct limpet_symbol_channel *channel, const char *text)
{
	static const uint8_t end;
	size_t length = text ? strnlen(text, LIMPET_SYMBOL_TEXT_MAX - 1) : 0;

	limpet_bytes_append_varint(&channel->out, text ? length + 1 : 0);
	if (!text)
		return;
	limpet_bytes_append(&channel->out, text, length);
	limpet_bytes_append(&channel->out, &end, 1);
}

void limpet_symbol_append_build_id(struct limpet_symbol_channel *channel, const uint8_t *build_id,
				   size_t bytes)
{
	limpet_bytes_append_varint(&channel->out, bytes);
	limpet_bytes_append(&channel->out, build_id, bytes);
}

const char *limpet_symbol_read_text(struct limpet_symbol_channel *channel)
{
	uint64_t bytes = limpet_cursor_limited(&channel->cursor, LIMPET_SYMBOL_TEXT_MAX);
	const uint8_t *text = bytes ? limpet_cursor_bytes(&channel->cursor, bytes) : NULL;

	if (text && strnlen((const char *)text, bytes) != bytes - 1) {
		channel->cursor.failed = true;
		return NULL;
	}
	return (const char *)text;
}

const uint8_t *limpet_symbol_read_build_id(struct limpet_symbol_channel *channel, size_t *ret_bytes)
{
	uint64_t bytes = limpet_cursor_varint(&channel->cursor);
	const uint8_t *build_id = limpet_cursor_bytes(&channel->cursor, bytes);

	*ret_bytes = build_id ? bytes : 0;
	return build_id;
}

/* ------------------------------------------------------------------ messages */

static int wait_for(const struct limpet_symbol_channel *channel, short events)
{
	struct pollfd one = {.fd = channel->socket, .events = events};

	if (channel->wait)
		return channel->wait(channel->context, events);
	return poll(&one, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

union control {
	struct cmsghdr head; /* for its alignment */
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* What is left to send or receive. A descriptor goes with the first byte. */
struct part {
	uint8_t *data;
	size_t bytes;
	union control *control; /* NULL: none is sent or expected */
	size_t control_bytes;   /* received */
};

static ssize_t transfer_once(int socket, struct part *part, short events)
{
	struct iovec vector = {.iov_base = part->data, .iov_len = part->bytes};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
	ssize_t n;

	if (part->control) {
		message.msg_control = part->control;
		message.msg_controllen = sizeof(*part->control);
	}
	if (events == POLLOUT)
		return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	part->control_bytes = n > 0 ? message.msg_controllen : 0;
	return n;
}

/* Transfers some of the part, waiting if necessary. Returns bytes or -errno. */
static ssize_t transfer_some(const struct limpet_symbol_channel *channel, struct part *part,
			     short events)
{
	for (;;) {
		ssize_t n = transfer_once(channel->socket, part, events);
		int code;

		if (n > 0)
			return n;
		if (n == 0 || errno == ECONNRESET)
			return -EPIPE;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		code = wait_for(channel, events);
		if (code < 0)
			return code;
	}
}

/* Transfers all of it. Afterwards part->control_bytes tells whether a descriptor came. */
static int transfer(const struct limpet_symbol_channel *channel, struct part *part, short events)
{
	size_t control_bytes = 0;

	while (part->bytes) {
		ssize_t n = transfer_some(channel, part, events);

		if (n < 0)
			return (int)n;
		if (part->control)
			control_bytes = part->control_bytes;
		part->control = NULL;
		part->data += n;
		part->bytes -= (size_t)n;
	}
	part->control_bytes = control_bytes;
	return 0;
}

static void write_descriptor(union control *control, int fd)
{
	memset(control, 0, sizeof(*control));
	control->head.cmsg_level = SOL_SOCKET;
	control->head.cmsg_type = SCM_RIGHTS;
	control->head.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control->head), &fd, sizeof(fd));
}

static int read_descriptor(const union control *control, size_t bytes)
{
	int fd = -1;

	if (bytes >= CMSG_LEN(sizeof(fd)) && control->head.cmsg_level == SOL_SOCKET &&
	    control->head.cmsg_type == SCM_RIGHTS && control->head.cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(&control->head), sizeof(fd));
	return fd;
}

int limpet_symbol_send(struct limpet_symbol_channel *channel, enum limpet_symbol_message_type type,
		       int fd)
{
	struct head head = {.type = type, .bytes = (uint32_t)channel->out.count};
	struct part first = {.data = (uint8_t *)&head, .bytes = sizeof(head)};
	struct part rest = {.data = channel->out.data, .bytes = channel->out.count};
	union control control;
	int code;

	if (channel->out.failed || channel->out.count > LIMPET_SYMBOL_PAYLOAD_MAX) {
		limpet_bytes_clear(&channel->out);
		return -ENOMEM;
	}
	if (fd >= 0) {
		write_descriptor(&control, fd);
		first.control = &control;
	}
	code = transfer(channel, &first, POLLOUT);
	if (code == 0)
		code = transfer(channel, &rest, POLLOUT);
	limpet_bytes_clear(&channel->out);
	return code;
}

int limpet_symbol_receive(struct limpet_symbol_channel *channel)
{
	union control control;
	struct head head = {0, 0};
	struct part first = {.data = (uint8_t *)&head,
			     .bytes = sizeof(head),
			     .control = channel->accepts_files ? &control : NULL};
	struct part rest = {.data = NULL};
	int code;

	drop_fd(channel);
	limpet_bytes_clear(&channel->in);
	channel->cursor = limpet_cursor_of(NULL, 0);
	code = transfer(channel, &first, POLLIN);
	channel->fd = read_descriptor(&control, first.control_bytes);
	if (code < 0)
		return code;
	if (head.bytes > LIMPET_SYMBOL_PAYLOAD_MAX)
		return -EBADMSG;
	if (!limpet_bytes_reserve(&channel->in, head.bytes))
		return -ENOMEM;
	rest.data = channel->in.data;
	rest.bytes = head.bytes;
	code = transfer(channel, &rest, POLLIN);
	if (code < 0)
		return code;
	channel->in.count = head.bytes;
	channel->cursor = limpet_cursor_of(channel->in.data, head.bytes);
	channel->type = head.type;
	return 0;
}
