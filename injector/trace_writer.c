#include "injector/trace_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "common/trace_block.h"
#include "injector/trace_sync.h"

/* Kept free beyond the end for the END record, and taken from the disk in these steps. */
#define RESERVE_BYTES (64u << 10)
#define RESERVE_STEP_BYTES (1u << 20)
#define DEFAULT_NAMES 10000
#define LOCK_TRIES 50
#define LOCK_WAIT_NS 2000000

struct limpet_trace_writer {
	int fd;
	char *path;
	ZSTD_CCtx *zstd;
	struct limpet_trace_sync *sync;
	struct limpet_bytes batch;
	uint64_t file_bytes;  /* this and `error`: written by one thread, read by others, too */
	uint64_t reserved_to; /* offset up to which room is ours */
	bool no_reserve;      /* the file system has none to give */
	bool last_words;
	int error;
};

/* A command's name is the target's to choose: no path, no option, no terminal's control codes. */
static void sanitise(const char *comm, char *ret, size_t bytes)
{
	size_t at = 0;

	for (; comm && *comm && at + 1 < bytes; comm++) {
		char c = *comm;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("_+-.", c);

		if (at == 0 && (c == '-' || c == '.'))
			plain = false;
		ret[at++] = plain ? c : '_';
	}
	if (at == 0)
		ret[at++] = '_';
	ret[at] = '\0';
}

static int create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

static int create_default(const struct limpet_trace_writer_options *options, char *path,
			  size_t bytes)
{
	char name[64];
	int fd = -EEXIST;

	sanitise(options->comm, name, sizeof(name));
	for (int i = 0; fd == -EEXIST && i < DEFAULT_NAMES; i++) {
		if (i == 0)
			snprintf(path, bytes, "%s.%d.limpet", name, (int)options->pid);
		else
			snprintf(path, bytes, "%s.%d.limpet.%d", name, (int)options->pid, i);
		fd = create(path);
	}
	return fd;
}

static int create_file(struct limpet_trace_writer *writer,
		       const struct limpet_trace_writer_options *options, struct limpet_err *err)
{
	char name[128];
	const char *path = options->path;

	if (path) {
		writer->fd = create(path);
	} else {
		writer->fd = create_default(options, name, sizeof(name));
		path = name;
	}
	if (writer->fd < 0) {
		int code = writer->fd;

		limpet_err_set(err, code, "cannot create '%s': %s", path, strerror(-code));
		if (code == -EEXIST)
			limpet_err_hint(err, "a trace is never overwritten: choose another name "
					     "with -o, or remove the file");
		else
			limpet_err_hint(err, "choose a place you may write to with -o FILE");
		return code;
	}
	writer->path = strdup(path);
	if (!writer->path) {
		unlink(path);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* A reader that looks whether a writer is alive takes the lock for an instant. A file system
 * without locks costs readers the difference between a running capture and a lost one, and us
 * nothing. */
static int lock(int fd)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == ENOSYS ||
		    errno == EOPNOTSUPP)
			return 0;
		if (errno != EWOULDBLOCK)
			return -1;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
	}
	return -1;
}

int limpet_trace_writer_open(const struct limpet_trace_writer_options *options,
			     struct limpet_trace_writer **ret_writer, struct limpet_err *err)
{
	struct limpet_trace_writer *writer = calloc(1, sizeof(*writer));
	struct stat stat;
	int code;

	if (!writer)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	writer->fd = -1;
	writer->zstd = limpet_trace_zstd_new();
	if (!writer->zstd) {
		limpet_trace_writer_free(writer);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	code = create_file(writer, options, err);
	if (code < 0) {
		limpet_trace_writer_free(writer);
		return code;
	}
	if (fstat(writer->fd, &stat) < 0 || fchmod(writer->fd, 0600) < 0 || lock(writer->fd) < 0) {
		code = -errno;
		limpet_err_set(err, code, "cannot set up '%s': %s", writer->path, strerror(-code));
		goto discard;
	}
	if ((stat.st_uid != options->owner_uid || stat.st_gid != options->owner_gid) &&
	    fchown(writer->fd, options->owner_uid, options->owner_gid) < 0) {
		code = -errno;
		limpet_err_set(err, code, "cannot give '%s' to user %u: %s", writer->path,
			       (unsigned)options->owner_uid, strerror(-code));
		goto discard;
	}
	writer->sync = limpet_trace_sync_new(writer->fd, LIMPET_TRACE_SYNC_NS);
	if (!writer->sync) {
		code = limpet_err_set(err, -ENOMEM, "out of memory");
		goto discard;
	}
	*ret_writer = writer;
	return 0;
discard:
	limpet_trace_writer_discard(writer);
	return code;
}

void limpet_trace_writer_free(struct limpet_trace_writer *writer)
{
	if (!writer)
		return;
	limpet_trace_sync_free(writer->sync);
	if (writer->fd >= 0)
		close(writer->fd);
	ZSTD_freeCCtx(writer->zstd);
	limpet_bytes_done(&writer->batch);
	free(writer->path);
	free(writer);
}

void limpet_trace_writer_discard(struct limpet_trace_writer *writer)
{
	if (writer && writer->path)
		unlink(writer->path);
	limpet_trace_writer_free(writer);
}

const char *limpet_trace_writer_path(const struct limpet_trace_writer *writer)
{
	return writer->path;
}

uint64_t limpet_trace_writer_bytes(const struct limpet_trace_writer *writer)
{
	return __atomic_load_n(&writer->file_bytes, __ATOMIC_RELAXED);
}

int limpet_trace_writer_error(const struct limpet_trace_writer *writer)
{
	return __atomic_load_n(&writer->error, __ATOMIC_RELAXED);
}

static int stick(struct limpet_trace_writer *writer, int code)
{
	if (!writer->error)
		__atomic_store_n(&writer->error, code, __ATOMIC_RELAXED);
	return writer->error;
}

int limpet_trace_writer_put(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			    struct limpet_bytes *content)
{
	int code;

	if (writer->error && !writer->last_words)
		return writer->error;
	code = limpet_trace_block_put(&writer->batch, writer->zstd, mark, content);
	return code < 0 ? stick(writer, code) : 0;
}

/* Room for `count` bytes and the reserve after them. Only a full disk is an error: a file system
 * that cannot reserve is written to without. */
static int reserve(struct limpet_trace_writer *writer, size_t count)
{
	uint64_t need = writer->file_bytes + count + RESERVE_BYTES;
	uint64_t steps[2] = {need + RESERVE_STEP_BYTES, need};

	if (writer->no_reserve || need <= writer->reserved_to)
		return 0;
	for (size_t i = 0; i < LIMPET_COUNT_OF(steps); i++) {
		uint64_t from = writer->reserved_to > writer->file_bytes ? writer->reserved_to
									 : writer->file_bytes;

		if (fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, (off_t)from,
			      (off_t)(steps[i] - from)) == 0) {
			writer->reserved_to = steps[i];
			return 0;
		}
		if (errno != ENOSPC && errno != EDQUOT && errno != EINTR) {
			writer->no_reserve = true;
			return 0;
		}
	}
	return errno == EINTR ? 0 : -errno;
}

/* Asked before, as a write beyond RLIMIT_FSIZE raises a signal whose default is to end us. */
static int check_limit(const struct limpet_trace_writer *writer)
{
	uint64_t need = writer->file_bytes + writer->batch.count;
	struct rlimit limit;

	if (!writer->last_words)
		need += RESERVE_BYTES;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    need > limit.rlim_cur)
		return -EFBIG;
	return 0;
}

static void add_file_bytes(struct limpet_trace_writer *writer, size_t count)
{
	__atomic_store_n(&writer->file_bytes, writer->file_bytes + count, __ATOMIC_RELAXED);
}

static int write_all(struct limpet_trace_writer *writer, const uint8_t *bytes, size_t count)
{
	size_t done = 0;
	int code = 0;

	while (done < count) {
		ssize_t wrote = pwrite(writer->fd, bytes + done, count - done,
				       (off_t)(writer->file_bytes + done));

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0) {
			code = wrote < 0 ? -errno : -EIO;
			break;
		}
		done += (size_t)wrote;
	}
	if (code == 0) {
		add_file_bytes(writer, count);
	} else if (done > 0) {
		/* ftruncate gives the reserve back as well. If it fails, the torn batch stays;
		 * what follows goes behind it, where a reader finds it. */
		if (ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
			add_file_bytes(writer, done);
		else
			writer->reserved_to = 0;
	}
	return code;
}

int limpet_trace_writer_flush(struct limpet_trace_writer *writer)
{
	int code;

	if (writer->error && !writer->last_words) {
		limpet_bytes_clear(&writer->batch);
		return writer->error;
	}
	if (writer->batch.count == 0)
		return 0;
	code = check_limit(writer);
	if (code == 0 && !writer->last_words)
		code = reserve(writer, writer->batch.count);
	if (code == 0)
		code = write_all(writer, writer->batch.data, writer->batch.count);
	if (code == 0)
		code = limpet_trace_sync_wrote(writer->sync);
	limpet_bytes_clear(&writer->batch);
	return code < 0 ? stick(writer, code) : 0;
}

void limpet_trace_writer_last_words(struct limpet_trace_writer *writer)
{
	writer->last_words = true;
}

int limpet_trace_writer_sync(struct limpet_trace_writer *writer)
{
	/* To the size it has: that gives back what is reserved beyond. */
	if (writer->reserved_to > writer->file_bytes &&
	    ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
		return -errno;
	writer->reserved_to = 0;
	return fsync(writer->fd) < 0 ? -errno : 0;
}
