#include "collector/record/trace_writer.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "collector/record/trace_ring.h"
#include "collector/record/trace_sync.h"
#include "common/file_io.h"
#include "common/trace_block.h"

/* Reserved beyond the end of the file for the END block, and allocated in these steps. */
#define RESERVE_BYTES (64u << 10)
#define RESERVE_STEP_BYTES (1u << 20)
/* Left to other programs: this share of the disk, at most this much. */
#define OTHERS_SHARE 32u
#define OTHERS_MAX_BYTES (64ull << 20)
#define DEFAULT_NAMES 10000
#define LOCK_TRIES 50
#define LOCK_WAIT_NS 2000000

struct limpet_trace_writer {
	int fd;
	char *path;
	ZSTD_CCtx *zstd;
	struct limpet_trace_sync *sync;
	struct limpet_trace_ring *ring; /* NULL: no bound */
	struct limpet_bytes batch;
	struct limpet_bytes batch_blocks; /* of a bounded file: a struct block each */
	uint64_t seen_bytes;              /* size of the file when the disk was last checked */
	bool replacing;
	uint64_t kept_bytes;  /* bytes at the start that no batch replaces */
	uint64_t file_bytes;  /* this and `error`: written by one thread, also read by others */
	uint64_t reserved_to; /* offset up to which space is reserved */
	bool no_reserve;      /* the file system cannot reserve space */
	bool uses_reserve;
	int error;
};

struct block {
	uint64_t bytes;
	uint32_t type, sequence;
};

/* The target chooses its name: it must not become a path, an option or control codes for a
 * terminal. */
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
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

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

/* Retries, since a reader that checks whether a writer is alive takes the lock for an instant.
 * Without locks in the file system, readers cannot distinguish a running capture from a lost one;
 * the writer is not affected. */
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
	if (options->max_bytes) {
		writer->ring = limpet_trace_ring_new(writer->fd, options->max_bytes);
		if (!writer->ring) {
			code = -errno;
			limpet_err_set(err, code, "cannot bound '%s': %s", writer->path,
				       strerror(-code));
			if (code == -EOPNOTSUPP)
				limpet_err_hint(
					err, "its file system cannot free the space of discarded "
					     "events: put it on ext4, xfs, btrfs or tmpfs");
			goto discard;
		}
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
	limpet_trace_ring_free(writer->ring);
	if (writer->fd >= 0)
		close(writer->fd);
	ZSTD_freeCCtx(writer->zstd);
	limpet_bytes_done(&writer->batch);
	limpet_bytes_done(&writer->batch_blocks);
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

bool limpet_trace_writer_disk_is_low(struct limpet_trace_writer *writer, uint64_t more)
{
	uint64_t bytes = limpet_trace_writer_bytes(writer), others, grown;
	struct statvfs disk;

	grown = bytes > writer->seen_bytes ? bytes - writer->seen_bytes : 0;
	writer->seen_bytes = bytes;
	if (fstatvfs(writer->fd, &disk) < 0 || !disk.f_blocks)
		return false;
	others = (uint64_t)disk.f_blocks * disk.f_frsize / OTHERS_SHARE;
	if (others > OTHERS_MAX_BYTES)
		others = OTHERS_MAX_BYTES;
	return (uint64_t)disk.f_bavail * disk.f_frsize < others + 2 * grown + more;
}

static int stick(struct limpet_trace_writer *writer, int code)
{
	if (!writer->error)
		__atomic_store_n(&writer->error, code, __ATOMIC_RELAXED);
	return writer->error;
}

int limpet_trace_writer_append(struct limpet_trace_writer *writer, struct limpet_trace_mark *mark,
			       struct limpet_bytes *content)
{
	size_t before = writer->batch.count;
	int code;

	if (writer->error && !writer->uses_reserve)
		return writer->error;
	code = limpet_trace_block_append(&writer->batch, writer->zstd, mark, content);
	if (code == 0 && writer->ring) {
		struct block block = {.bytes = writer->batch.count - before,
				      .type = mark->type,
				      .sequence = mark->sequence};

		limpet_bytes_append(&writer->batch_blocks, &block, sizeof(block));
		code = writer->batch_blocks.failed ? -ENOMEM : 0;
	}
	return code < 0 ? stick(writer, code) : 0;
}

int limpet_trace_writer_append_gap(struct limpet_trace_writer *writer, uint32_t sequence,
				   uint32_t count)
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_GAP,
					 .sequence = sequence,
					 .content_bytes = count,
					 .frame_bytes = LIMPET_TRACE_GAP_HEAD_BYTES};
	uint32_t head[2] = {htole32(LIMPET_TRACE_GAP_MAGIC), 0};
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];

	if (writer->error && !writer->uses_reserve)
		return writer->error;
	limpet_trace_mark_encode(&mark, bytes);
	limpet_bytes_append(&writer->batch, bytes, sizeof(bytes));
	limpet_bytes_append(&writer->batch, head, sizeof(head));
	return writer->batch.failed ? stick(writer, -ENOMEM) : 0;
}

void limpet_trace_writer_replace(struct limpet_trace_writer *writer)
{
	writer->replacing = true;
}

/* RLIMIT_FSIZE: a write beyond it raises SIGXFSZ, which by default kills limpet; in some file
 * systems (tmpfs) so does fallocate(). */
static uint64_t file_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
		       ? limit.rlim_cur
		       : UINT64_MAX;
}

/* Reserves room for `count` bytes and RESERVE_BYTES after them. Only a full disk is an error: if
 * the file system cannot reserve, limpet writes without a reserve. */
static int reserve(struct limpet_trace_writer *writer, size_t count)
{
	uint64_t need = writer->file_bytes + count + RESERVE_BYTES;
	uint64_t steps[2] = {writer->ring ? need : need + RESERVE_STEP_BYTES, need};
	uint64_t most = file_limit();

	if (writer->no_reserve || need <= writer->reserved_to || need > most)
		return 0;
	if (steps[0] > most)
		steps[0] = most;
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

static int check_limit(const struct limpet_trace_writer *writer)
{
	uint64_t need = writer->file_bytes + writer->batch.count;

	if (!writer->uses_reserve)
		need += RESERVE_BYTES;
	return need > file_limit() ? -EFBIG : 0;
}

static void add_file_bytes(struct limpet_trace_writer *writer, size_t count)
{
	__atomic_store_n(&writer->file_bytes, writer->file_bytes + count, __ATOMIC_RELAXED);
}

static int write_all(struct limpet_trace_writer *writer, const uint8_t *bytes, size_t count)
{
	size_t done;
	int code = limpet_pwrite(writer->fd, bytes, count, writer->file_bytes, &done);

	if (code == 0) {
		add_file_bytes(writer, count);
	} else if (done > 0 && !writer->replacing) {
		/* ftruncate() also frees the reserve. If it fails, the torn batch stays, and later
		 * batches follow it, where a reader finds them. */
		if (ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
			add_file_bytes(writer, done);
		else
			writer->reserved_to = 0;
	}
	return code;
}

/* Overwrites what was written since the last replacement. Blocks that are left of it have lower
 * numbers than the new ones, so that a reader skips them. */
static int write_instead(struct limpet_trace_writer *writer)
{
	uint64_t end = writer->file_bytes;
	int code;

	__atomic_store_n(&writer->file_bytes, writer->kept_bytes, __ATOMIC_RELAXED);
	code = write_all(writer, writer->batch.data, writer->batch.count);
	if (code == 0 && writer->file_bytes < end) {
		/* also frees the reserve */
		code = ftruncate(writer->fd, (off_t)writer->file_bytes) < 0 ? -errno : 0;
		writer->reserved_to = 0;
	}
	if (code < 0)
		__atomic_store_n(&writer->file_bytes, end, __ATOMIC_RELAXED);
	else
		writer->kept_bytes = writer->file_bytes;
	writer->replacing = false;
	return code;
}

/* Tells the ring about the blocks that were written, so that they can be given up. */
static int note_blocks(struct limpet_trace_writer *writer)
{
	struct block block;
	int code = 0;

	for (size_t at = 0; code == 0 && at < writer->batch_blocks.count; at += sizeof(block)) {
		memcpy(&block, writer->batch_blocks.data + at, sizeof(block));
		code = limpet_trace_ring_wrote(writer->ring, block.type, block.sequence,
					       block.bytes);
	}
	return code;
}

static int write_batch(struct limpet_trace_writer *writer)
{
	int code = 0;

	if (writer->replacing)
		return write_instead(writer);
	if (writer->ring && !writer->uses_reserve)
		code = limpet_trace_ring_make_room(writer->ring, writer->batch.count);
	if (code == 0)
		code = write_all(writer, writer->batch.data, writer->batch.count);
	if (code == 0 && writer->ring)
		code = note_blocks(writer);
	if (code == 0 && !writer->kept_bytes)
		writer->kept_bytes = writer->file_bytes;
	return code;
}

static void clear_batch(struct limpet_trace_writer *writer)
{
	limpet_bytes_clear(&writer->batch);
	limpet_bytes_clear(&writer->batch_blocks);
}

int limpet_trace_writer_flush(struct limpet_trace_writer *writer)
{
	int code;

	if (writer->error && !writer->uses_reserve) {
		clear_batch(writer);
		return writer->error;
	}
	if (writer->batch.count == 0)
		return 0;
	code = check_limit(writer);
	if (code == 0 && !writer->uses_reserve)
		code = reserve(writer, writer->batch.count);
	if (code == 0)
		code = write_batch(writer);
	if (code == 0)
		code = limpet_trace_sync_wrote(writer->sync);
	clear_batch(writer);
	return code < 0 ? stick(writer, code) : 0;
}

void limpet_trace_writer_use_reserve(struct limpet_trace_writer *writer)
{
	writer->uses_reserve = true;
}

int limpet_trace_writer_sync(struct limpet_trace_writer *writer)
{
	/* Truncating the file to its own size frees the reserve beyond it. */
	if (writer->reserved_to > writer->file_bytes &&
	    ftruncate(writer->fd, (off_t)writer->file_bytes) < 0)
		return -errno;
	writer->reserved_to = 0;
	if (writer->ring) {
		int64_t bytes = limpet_trace_ring_squeeze(writer->ring, writer->file_bytes);

		if (bytes < 0)
			return (int)bytes;
		__atomic_store_n(&writer->file_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
	}
	return fsync(writer->fd) < 0 ? -errno : 0;
}
