#include "collector/receive/receiver.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collector/control/control.h"
#include "collector/receive/block_check.h"
#include "collector/receive/receive_socket.h"
#include "collector/receive/trace_store.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/file_io.h"

#define READ_BYTES (64u << 10)

struct stream {
	int fd; /* -1: it has ended */
	struct limpet_receive_peer peer;
	struct limpet_block_check check;
	int file; /* -1: none yet */
	char name[LIMPET_TRACE_NAME_BYTES];
	uint64_t bytes; /* of the file */
};

struct receiver {
	const struct limpet_receiver_options *options;
	struct limpet_control *control;
	struct limpet_receive_socket sock;
	bool listens;
	struct limpet_trace_store *store;
	struct stream *streams;
	size_t count, capacity;
	struct pollfd *polls; /* the socket, the control, the streams */
	size_t poll_capacity;
	uint8_t *buffer;
	uint64_t began_ns;
	bool stop_asked, ending;
};

/* ------------------------------------------------------------------ for other terminals */

static void answer_status(void *context, struct limpet_control_status *ret)
{
	const struct receiver *receiver = context;

	ret->state = LIMPET_CONTROL_RECEIVING;
	ret->command = "limpet collect";
	ret->trace = receiver->options->directory;
	ret->elapsed_ns = limpet_monotonic_ns() - receiver->began_ns;
}

static void note_stop(void *context)
{
	((struct receiver *)context)->stop_asked = true;
}

static int refuse_mark(void *context, const char *name, uint64_t *ret_time_ns)
{
	(void)context, (void)name, (void)ret_time_ns;
	return -EBUSY;
}

static size_t list_no_marks(void *context, const struct limpet_mark **ret_list)
{
	(void)context;
	*ret_list = NULL;
	return 0;
}

/* ------------------------------------------------------------------ one stream */

/* `why`: NULL if the sender ended it. */
static void end_stream(struct receiver *receiver, struct stream *stream, const char *why)
{
	const struct limpet_receiver_ended ended = {
		.name = stream->file >= 0 && stream->bytes ? stream->name : NULL,
		.bytes = stream->bytes,
		.why = why,
		.whole = stream->check.ended && !stream->check.block.count,
		.pid = stream->peer.pid,
		.uid = stream->peer.uid};

	close(stream->fd);
	stream->fd = -1;
	if (stream->file >= 0)
		limpet_trace_store_close(receiver->store, stream->file, stream->name,
					 stream->bytes);
	stream->file = -1;
	limpet_block_check_done(&stream->check);
	receiver->options->ended(receiver->options->context, &ended);
}

static int create(struct receiver *receiver, struct stream *stream)
{
	char stem[LIMPET_BLOCK_STEM_BYTES];
	int code = limpet_block_check_stem(&stream->check, stem);

	if (code < 0)
		return code;
	code = limpet_trace_store_create(receiver->store, stem, stream->name);
	if (code < 0)
		return code;
	stream->file = code;
	receiver->options->began(receiver->options->context, stream->name);
	return 0;
}

/* Writes the block, or nothing of it. */
static int write_block(struct receiver *receiver, struct stream *stream)
{
	const struct limpet_bytes *block = &stream->check.block;
	int code = stream->file < 0 ? create(receiver, stream) : 0;

	if (code == 0)
		code = limpet_trace_store_reserve(receiver->store, block->count);
	if (code < 0)
		return code;
	code = limpet_pwrite(stream->file, block->data, block->count, stream->bytes, NULL);
	if (code < 0) {
		(void)!ftruncate(stream->file, (off_t)stream->bytes);
		limpet_trace_store_release(receiver->store, block->count);
		return code;
	}
	stream->bytes += block->count;
	limpet_block_check_next(&stream->check);
	return 0;
}

static const char *words_of(int code)
{
	switch (code) {
	case -EFBIG:
		return "what --keep allows is full of traces that are being received";
	case -ENOSPC:
	case -EDQUOT:
		return "the disk is full";
	case -EBADMSG:
		return "its head is damaged";
	default:
		return strerror(-code);
	}
}

/* Returns whether it may have more. */
static bool read_some(struct receiver *receiver, struct stream *stream)
{
	size_t want = limpet_block_check_wants(&stream->check);
	const char *why = "out of memory";
	ssize_t got;
	int code;

	want = want < READ_BYTES ? want : READ_BYTES;
	got = recv(stream->fd, receiver->buffer, want, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0) {
		end_stream(receiver, stream,
			   receiver->ending && !stream->check.ended ? "limpet collect ends" : NULL);
		return false;
	}
	code = limpet_block_check_add(&stream->check, receiver->buffer, (size_t)got, &why);
	if (code == 1) {
		code = write_block(receiver, stream);
		if (code < 0)
			why = words_of(code);
	}
	if (code < 0)
		end_stream(receiver, stream, why);
	return code >= 0;
}

static void take_turn(struct receiver *receiver, struct stream *stream)
{
	size_t turns = LIMPET_RECEIVER_TURN_BYTES / READ_BYTES;
	uint64_t before = 0;

	/* By bytes, and, as blocks may be small, by reads. */
	for (size_t reads = 0; reads < 64 * turns && before < LIMPET_RECEIVER_TURN_BYTES; reads++) {
		before += limpet_block_check_wants(&stream->check);
		if (!read_some(receiver, stream))
			break;
	}
}

/* ------------------------------------------------------------------ all of them */

static void accept_one(struct receiver *receiver)
{
	struct limpet_receive_peer peer = {0};
	int fd = limpet_receive_socket_accept(&receiver->sock, &peer);

	if (fd == -EPERM)
		receiver->options->refused(receiver->options->context, peer.pid, peer.uid);
	if (fd < 0)
		return;
	if (limpet_reserve(&receiver->streams, &receiver->capacity, receiver->count + 1,
			   sizeof(*receiver->streams)) < 0) {
		close(fd);
		return;
	}
	receiver->streams[receiver->count++] = (struct stream){.fd = fd, .peer = peer, .file = -1};
}

static void forget_ended(struct receiver *receiver)
{
	size_t kept = 0;

	for (size_t i = 0; i < receiver->count; i++)
		if (receiver->streams[i].fd >= 0)
			receiver->streams[kept++] = receiver->streams[i];
	receiver->count = kept;
}

static void bound_memory(struct receiver *receiver)
{
	struct stream *most = NULL;
	uint64_t sum = 0;

	for (size_t i = 0; i < receiver->count; i++) {
		struct stream *stream = &receiver->streams[i];

		if (stream->fd < 0)
			continue;
		sum += stream->check.block.room;
		if (!most || stream->check.block.room > most->check.block.room)
			most = stream;
	}
	if (most && sum > LIMPET_RECEIVER_MEMORY_BYTES)
		end_stream(receiver, most,
			   "all streams together have too much in unfinished blocks");
}

static int prepare_polls(struct receiver *receiver)
{
	const bool room = receiver->count < LIMPET_RECEIVER_STREAMS_MAX;

	if (limpet_reserve(&receiver->polls, &receiver->poll_capacity, receiver->count + 2,
			   sizeof(*receiver->polls)) < 0)
		return -ENOMEM;
	receiver->polls[0] = (struct pollfd){.fd = room ? receiver->sock.fd : -1, .events = POLLIN};
	receiver->polls[1] =
		(struct pollfd){.fd = limpet_control_fd(receiver->control), .events = POLLIN};
	for (size_t i = 0; i < receiver->count; i++)
		receiver->polls[2 + i] =
			(struct pollfd){.fd = receiver->streams[i].fd, .events = POLLIN};
	return 0;
}

static int loop(struct receiver *receiver)
{
	const struct limpet_receiver_options *options = receiver->options;

	while (!*options->interrupted && !receiver->stop_asked) {
		const size_t count = receiver->count;
		int code = prepare_polls(receiver);

		if (code < 0)
			return code;
		if (ppoll(receiver->polls, count + 2, NULL, options->wait_mask) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		for (size_t i = 0; i < count; i++)
			if (receiver->polls[2 + i].revents)
				take_turn(receiver, &receiver->streams[i]);
		if (receiver->polls[0].revents)
			accept_one(receiver);
		if (receiver->polls[1].revents)
			limpet_control_dispatch(receiver->control);
		bound_memory(receiver);
		forget_ended(receiver);
	}
	return 0;
}

/* What has arrived by now is taken; senders that go on are told by their next write. */
static void end_all(struct receiver *receiver)
{
	receiver->ending = true;
	for (size_t i = 0; i < receiver->count; i++) {
		struct stream *stream = &receiver->streams[i];

		shutdown(stream->fd, SHUT_RD);
		while (read_some(receiver, stream))
			;
	}
	receiver->count = 0;
}

static int begin(struct receiver *receiver, struct limpet_err *err)
{
	static const struct limpet_control_handlers handlers = {.status = answer_status,
								.stop = note_stop,
								.mark = refuse_mark,
								.marks = list_no_marks};
	const struct limpet_receiver_options *options = receiver->options;
	int code;

	receiver->began_ns = limpet_monotonic_ns();
	receiver->buffer = malloc(READ_BYTES);
	if (!receiver->buffer)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	code = limpet_trace_store_open(options->directory, options->keep_bytes, options->removed,
				       options->context, &receiver->store, err);
	if (code == 0)
		code = limpet_receive_socket_open(options->socket, &receiver->sock, err);
	receiver->listens = code == 0;
	if (code == 0)
		code = limpet_control_open(getpid(), &handlers, receiver, &receiver->control, err);
	return code;
}

int limpet_receiver_run(const struct limpet_receiver_options *options, struct limpet_err *err)
{
	struct receiver receiver = {.options = options, .sock.fd = -1};
	int code = begin(&receiver, err);

	if (code == 0) {
		options->listening(options->context);
		code = loop(&receiver);
		if (code < 0)
			limpet_err_set(err, code, "cannot go on: %s", strerror(-code));
	}
	if (receiver.listens)
		limpet_receive_socket_close(&receiver.sock, options->socket);
	end_all(&receiver);
	if (receiver.control)
		limpet_control_finish(receiver.control,
				      code < 0 ? LIMPET_EXIT_FAILED : LIMPET_EXIT_OK);
	if (receiver.store)
		limpet_trace_store_free(receiver.store);
	free(receiver.streams);
	free(receiver.polls);
	free(receiver.buffer);
	return code;
}
