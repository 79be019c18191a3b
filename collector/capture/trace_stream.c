#include "collector/capture/trace_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "collector/record/trace_sink.h"
#include "common/clock.h"
#include "common/file_io.h"
#include "common/stream_name.h"
#include "common/trace_block.h"
#include "common/unix_path.h"

#define QUEUE_BYTES LIMPET_TRACE_STREAM_QUEUE_BYTES
/* A write to a regular file that takes longer than this many bytes cannot be abandoned. */
#define WRITE_BYTES (1u << 20)
#define CONNECT_SECONDS 5
#define STEP_MS 50

struct limpet_trace_stream {
	struct limpet_trace_sink sink;
	char *name;
	int fd;
	bool owns_fd, is_socket, is_pipe;
	int wake_fd; /* the thread's */
	bool threaded, patient;
	pthread_t thread;
	uint8_t *queue; /* a ring */
	int copy_fd;
	int copy_error;
	uint64_t copy_bytes;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t moved; /* the thread has written something, or failed */
	uint64_t put, sent;   /* bytes since the queue was empty */
	uint64_t total;       /* bytes that were written in all */
	int error;
	bool begun, ending;
};

const char *limpet_trace_stream_words(int error)
{
	switch (error) {
	case -EPIPE:
	case -ECONNRESET:
		return "the reader of the stream has gone";
	case -ENOBUFS:
		return "the reader of the stream takes nothing";
	case -ETIMEDOUT:
		return "the reader of the stream did not take the end of it";
	default:
		return "the stream could not be written";
	}
}

/* ------------------------------------------------------------------ the thread */

/* Never blocks for long: a pipe that polls as writable has room for PIPE_BUF bytes, pipe(7). */
static ssize_t write_some(const struct limpet_trace_stream *stream, const uint8_t *bytes,
			  size_t count)
{
	if (stream->is_socket)
		return send(stream->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (stream->is_pipe && count > PIPE_BUF)
		count = PIPE_BUF;
	return write(stream->fd, bytes, count < WRITE_BYTES ? count : WRITE_BYTES);
}

/* The next bytes to write, without a break; 0: none. */
static size_t next_bytes(const struct limpet_trace_stream *stream, const uint8_t **ret_bytes)
{
	const size_t at = stream->sent % QUEUE_BYTES;
	const uint64_t left = stream->put - stream->sent;

	*ret_bytes = stream->queue + at;
	return left < QUEUE_BYTES - at ? (size_t)left : QUEUE_BYTES - at;
}

/* To be called with the lock. An empty queue begins anew, so that little of it is ever used while
 * the reader keeps up. */
static void note_written(struct limpet_trace_stream *stream, ssize_t count, int error)
{
	if (count > 0) {
		stream->sent += (uint64_t)count;
		stream->total += (uint64_t)count;
		if (stream->sent == stream->put)
			stream->sent = stream->put = 0;
	} else if (error != EAGAIN && error != EINTR && !stream->error) {
		stream->error = error > 0 ? -error : -EIO;
	}
	pthread_cond_broadcast(&stream->moved);
}

static void *work(void *data)
{
	struct limpet_trace_stream *stream = data;
	bool ending = false;

	prctl(PR_SET_NAME, "limpet-stream");
	while (!ending) {
		struct pollfd fds[] = {{.fd = stream->wake_fd, .events = POLLIN},
				       {.fd = stream->fd}};
		const uint8_t *bytes = NULL;
		uint64_t woken;
		ssize_t got = 0;
		size_t count;

		pthread_mutex_lock(&stream->lock);
		count = stream->begun ? next_bytes(stream, &bytes) : 0;
		ending = stream->ending;
		/* Nothing more is written after an error, nor looked for. */
		fds[1].fd = stream->error ? -1 : stream->fd;
		pthread_mutex_unlock(&stream->lock);
		fds[1].events = count ? POLLOUT : 0;
		if (ending || poll(fds, LIMPET_COUNT_OF(fds), -1) <= 0)
			continue;
		if (fds[0].revents)
			(void)!read(stream->wake_fd, &woken, sizeof(woken));
		if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) {
			got = -1;
			errno = EPIPE;
		} else if (fds[1].revents & POLLOUT) {
			got = write_some(stream, bytes, count);
		}
		if (got) {
			const int error = errno;

			pthread_mutex_lock(&stream->lock);
			note_written(stream, got, error);
			pthread_mutex_unlock(&stream->lock);
		}
	}
	return NULL;
}

static void wake(const struct limpet_trace_stream *stream)
{
	const uint64_t one = 1;

	(void)!write(stream->wake_fd, &one, sizeof(one));
}

static int start_thread(struct limpet_trace_stream *stream)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&stream->thread, NULL, work, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	stream->threaded = !error;
	return -error;
}

void limpet_trace_stream_begin(struct limpet_trace_stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->begun = true;
	pthread_mutex_unlock(&stream->lock);
	wake(stream);
}

/* ------------------------------------------------------------------ the queue */

/* To be called with the lock; waits for the reader to take anything. 0: it did. */
static int wait_for_room(struct limpet_trace_stream *stream, uint64_t until_ns)
{
	const uint64_t before = stream->total;
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
				 .tv_nsec = (long)(until_ns % 1000000000u)};

	while (!stream->error && stream->total == before && stream->put != stream->sent)
		if (pthread_cond_timedwait(&stream->moved, &stream->lock, &until) == ETIMEDOUT)
			return stream->total == before ? -ETIMEDOUT : 0;
	return stream->error;
}

/* To be called with the lock. */
static void copy_in(struct limpet_trace_stream *stream, const uint8_t *bytes, size_t count)
{
	while (count) {
		const size_t at = stream->put % QUEUE_BYTES;
		const size_t some = count < QUEUE_BYTES - at ? count : QUEUE_BYTES - at;

		memcpy(stream->queue + at, bytes, some);
		stream->put += some;
		bytes += some;
		count -= some;
	}
}

static size_t room_of(const struct limpet_trace_stream *stream)
{
	return QUEUE_BYTES - (size_t)(stream->put - stream->sent);
}

/* A stream that has lost a part cannot go on: readers would find the rest, and not what it means.
 */
static int enqueue(struct limpet_trace_stream *stream, const uint8_t *bytes, size_t count)
{
	int code;

	pthread_mutex_lock(&stream->lock);
	if (!stream->error && !stream->patient && count > room_of(stream))
		stream->error = -ENOBUFS;
	while (!stream->error && count) {
		const size_t room = room_of(stream), some = count < room ? count : room;

		copy_in(stream, bytes, some);
		bytes += some;
		count -= some;
		wake(stream);
		if (count)
			code = wait_for_room(stream, limpet_monotonic_ns() +
							     LIMPET_TRACE_STREAM_PATIENCE_NS);
		else
			code = 0;
		if (code < 0 && !stream->error)
			stream->error = code;
	}
	code = stream->error;
	pthread_mutex_unlock(&stream->lock);
	return code;
}

/* ------------------------------------------------------------------ the copy for names */

static bool is_copied(unsigned type)
{
	return type == LIMPET_TRACE_HEADER || type == LIMPET_TRACE_MODULES ||
	       type == LIMPET_TRACE_NODES || type == LIMPET_TRACE_SYMBOLS ||
	       type == LIMPET_TRACE_END;
}

static void copy_blocks(struct limpet_trace_stream *stream, const struct limpet_bytes *batch)
{
	struct limpet_trace_mark mark;

	for (size_t at = 0; at < batch->count && !stream->copy_error;) {
		size_t bytes = LIMPET_TRACE_MARK_BYTES;

		if (!limpet_trace_mark_decode(batch->data + at, &mark)) {
			stream->copy_error = -EBADMSG;
			return;
		}
		bytes += mark.frame_bytes;
		if (!is_copied(mark.type)) {
			at += bytes;
			continue;
		}
		if (stream->copy_bytes + bytes > LIMPET_TRACE_STREAM_COPY_BYTES)
			stream->copy_error = -ENOSPC;
		else
			stream->copy_error = limpet_pwrite(stream->copy_fd, batch->data + at, bytes,
							   stream->copy_bytes, NULL);
		stream->copy_bytes += bytes;
		at += bytes;
	}
}

int limpet_trace_stream_copy(const struct limpet_trace_stream *stream)
{
	return stream->copy_error ? stream->copy_error : stream->copy_fd;
}

/* Sends what was appended to the copy. */
static int send_names(struct limpet_trace_stream *stream)
{
	LIMPET_FREE uint8_t *bytes = malloc(WRITE_BYTES);
	int code = bytes ? 0 : -ENOMEM;

	while (!stream->copy_error && code == 0) {
		const ssize_t got =
			limpet_pread(stream->copy_fd, bytes, WRITE_BYTES, stream->copy_bytes);

		if (got <= 0)
			return (int)got;
		code = enqueue(stream, bytes, (size_t)got);
		stream->copy_bytes += (uint64_t)got;
		limpet_trace_sink_set_bytes(&stream->sink, stream->sink.bytes + (uint64_t)got);
	}
	return code;
}

/* ------------------------------------------------------------------ as a sink */

static struct limpet_trace_stream *stream_of(struct limpet_trace_sink *sink)
{
	return (struct limpet_trace_stream *)sink;
}

static int stream_write(struct limpet_trace_sink *sink, const struct limpet_trace_batch *batch)
{
	struct limpet_trace_stream *stream = stream_of(sink);
	int code = enqueue(stream, batch->bytes.data, batch->bytes.count);

	if (code == 0) {
		limpet_trace_sink_set_bytes(sink, sink->bytes + batch->bytes.count);
		copy_blocks(stream, &batch->bytes);
	}
	return code;
}

static bool stream_is_behind(struct limpet_trace_sink *sink)
{
	struct limpet_trace_stream *stream = stream_of(sink);
	bool behind;

	pthread_mutex_lock(&stream->lock);
	behind = !stream->patient && stream->put - stream->sent > QUEUE_BYTES / 2;
	pthread_mutex_unlock(&stream->lock);
	return behind;
}

static void stream_begin_end(struct limpet_trace_sink *sink)
{
	struct limpet_trace_stream *stream = stream_of(sink);

	pthread_mutex_lock(&stream->lock);
	stream->patient = true;
	pthread_mutex_unlock(&stream->lock);
}

static int stream_finish(struct limpet_trace_sink *sink)
{
	return limpet_trace_stream_error(stream_of(sink));
}

struct limpet_trace_sink *limpet_trace_stream_sink(struct limpet_trace_stream *stream)
{
	return &stream->sink;
}

int limpet_trace_stream_error(struct limpet_trace_stream *stream)
{
	int error;

	pthread_mutex_lock(&stream->lock);
	error = stream->error;
	pthread_mutex_unlock(&stream->lock);
	return error;
}

int limpet_trace_stream_finish(struct limpet_trace_stream *stream,
			       const volatile sig_atomic_t *impatient, void (*serve)(void *context),
			       void *context)
{
	int code = send_names(stream);
	uint64_t seen = 0, until_ns = 0;

	pthread_mutex_lock(&stream->lock);
	while (code == 0 && !stream->error && stream->put != stream->sent) {
		const uint64_t now_ns = limpet_monotonic_ns();

		if (!until_ns || stream->total != seen)
			until_ns = now_ns + LIMPET_TRACE_STREAM_PATIENCE_NS;
		seen = stream->total;
		if (*impatient)
			code = -EINTR;
		else if (now_ns >= until_ns)
			stream->error = -ETIMEDOUT;
		else
			(void)wait_for_room(stream, now_ns + STEP_MS * 1000000ull);
		pthread_mutex_unlock(&stream->lock);
		serve(context);
		pthread_mutex_lock(&stream->lock);
	}
	if (code == 0)
		code = stream->error;
	pthread_mutex_unlock(&stream->lock);
	return code;
}

/* ------------------------------------------------------------------ opening it */

/* Another user's program must not get what is in a trace by making the socket first. */
static int check_peer(const struct limpet_trace_stream_options *options, int fd, const char *path,
		      struct limpet_err *err)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return limpet_err_set(err, -errno, "cannot tell who listens at '%s': %s", path,
				      strerror(errno));
	if (peer.uid == 0 || peer.uid == geteuid() || peer.uid == options->owner)
		return 0;
	limpet_err_set(err, -EPERM, "'%s' is user %u's: a trace goes to root or to you", path,
		       (unsigned)peer.uid);
	limpet_err_hint(err, "run `limpet collect` as root or as the user who captures");
	return -EPERM;
}

static int explain_connect(const char *path, int code, struct limpet_err *err)
{
	struct stat stat;

	if (lstat(path, &stat) == 0 && !S_ISSOCK(stat.st_mode))
		limpet_err_set(err, code, "'%s' is not a socket", path);
	else
		limpet_err_set(err, code, "cannot connect to '%s': %s", path,
			       code == -EAGAIN ? "nobody accepts" : strerror(-code));
	limpet_err_hint(err, "limpet collect %s DIR --keep 10G receives streams there", path);
	return code;
}

static int connect_to(const struct limpet_trace_stream_options *options, struct limpet_err *err)
{
	const char *path = options->name + strlen(LIMPET_STREAM_UNIX);
	const struct timeval limit = {.tv_sec = CONNECT_SECONDS};
	LIMPET_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct limpet_unix_path place;
	int code;

	if (fd < 0)
		return limpet_err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	code = limpet_unix_path_open(path, &place);
	if (code < 0)
		return explain_connect(path, code, err);
	/* connect(2) waits as long as a send would, where too many wait already. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	code = connect(fd, (const struct sockaddr *)&place.address, sizeof(place.address)) < 0
		       ? -errno
		       : 0;
	limpet_unix_path_done(&place);
	if (code < 0)
		return explain_connect(path, code, err);
	code = check_peer(options, fd, path, err);
	return code < 0 ? code : limpet_take_fd(&fd);
}

static int open_ends(struct limpet_trace_stream *stream,
		     const struct limpet_trace_stream_options *options, struct limpet_err *err)
{
	struct stat stat;

	stream->owns_fd = strcmp(options->name, LIMPET_STREAM_STDOUT) != 0;
	stream->fd = stream->owns_fd ? connect_to(options, err) : options->fd;
	if (stream->fd < 0)
		return stream->fd;
	stream->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	stream->copy_fd = memfd_create("limpet-names", MFD_CLOEXEC);
	if (fstat(stream->fd, &stat) < 0 || stream->wake_fd < 0 || stream->copy_fd < 0)
		return limpet_err_set(err, -errno, "cannot set up the stream: %s", strerror(errno));
	stream->is_socket = S_ISSOCK(stat.st_mode);
	stream->is_pipe = S_ISFIFO(stat.st_mode);
	stream->name = strdup(options->name);
	stream->queue = mmap(NULL, QUEUE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!stream->name || stream->queue == MAP_FAILED)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int limpet_trace_stream_open(const struct limpet_trace_stream_options *options,
			     struct limpet_trace_stream **ret_stream, struct limpet_err *err)
{
	static const struct limpet_trace_sink_kind kind = {.appends = true,
							   .write = stream_write,
							   .is_behind = stream_is_behind,
							   .begin_end = stream_begin_end,
							   .finish = stream_finish};
	struct limpet_trace_stream *stream = calloc(1, sizeof(*stream));
	pthread_condattr_t clock;
	int code;

	if (!stream)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	stream->fd = stream->wake_fd = stream->copy_fd = -1;
	stream->queue = MAP_FAILED;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&stream->moved, &clock);
	pthread_condattr_destroy(&clock);
	stream->sink.kind = &kind;
	code = open_ends(stream, options, err);
	if (code == 0) {
		code = start_thread(stream);
		if (code < 0)
			limpet_err_set(err, code, "cannot start a thread: %s", strerror(-code));
	}
	if (code < 0) {
		limpet_trace_stream_free(stream);
		return code;
	}
	stream->sink.name = stream->name;
	*ret_stream = stream;
	return 0;
}

void limpet_trace_stream_free(struct limpet_trace_stream *stream)
{
	if (!stream)
		return;
	if (stream->threaded) {
		pthread_mutex_lock(&stream->lock);
		stream->ending = true;
		pthread_mutex_unlock(&stream->lock);
		wake(stream);
		pthread_join(stream->thread, NULL);
	}
	if (stream->fd >= 0 && stream->owns_fd)
		close(stream->fd);
	if (stream->wake_fd >= 0)
		close(stream->wake_fd);
	if (stream->copy_fd >= 0)
		close(stream->copy_fd);
	if (stream->queue != MAP_FAILED)
		munmap(stream->queue, QUEUE_BYTES);
	pthread_cond_destroy(&stream->moved);
	pthread_mutex_destroy(&stream->lock);
	free(stream->name);
	free(stream);
}
