#include "collector/record/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "collector/record/trace_name.h"
#include "collector/record/trace_ring.h"
#include "collector/record/trace_sync.h"
#include "common/file_io.h"

/* Reserved beyond the end of the file for the END block, and allocated in these steps. */
#define RESERVE_BYTES (64u << 10)
#define RESERVE_STEP_BYTES (1u << 20)
/* Left to other programs: this share of the disk, at most this much. */
#define OTHERS_SHARE 32u
#define OTHERS_MAX_BYTES (64ull << 20)

struct file {
	struct limpet_trace_sink sink;
	int fd;
	char *path;
	struct limpet_trace_sync *sync;
	struct limpet_trace_ring *ring; /* NULL: no bound */
	uint64_t seen_bytes;            /* size when the disk was last checked */
	uint64_t kept_bytes;            /* bytes at the start that no batch replaces */
	uint64_t reserved_to;           /* offset up to which space is reserved */
	bool no_reserve;                /* the file system cannot reserve space */
};

static struct file *file_of(struct limpet_trace_sink *sink)
{
	return (struct file *)sink;
}

/* ------------------------------------------------------------------ making it */

static int create_file(struct file *file, const struct limpet_trace_file_options *options,
		       struct limpet_err *err)
{
	char name[LIMPET_TRACE_NAME_BYTES], stem[96], comm[64];
	const char *path = options->path;

	if (path) {
		file->fd = limpet_trace_create(AT_FDCWD, path);
	} else {
		limpet_trace_name_clean(options->comm, comm, sizeof(comm));
		snprintf(stem, sizeof(stem), "%s.%d", comm, (int)options->pid);
		file->fd = limpet_trace_create_numbered(AT_FDCWD, stem, name);
		path = name;
	}
	if (file->fd < 0) {
		int code = file->fd;

		limpet_err_set(err, code, "cannot create '%s': %s", path, strerror(-code));
		if (code == -EEXIST)
			limpet_err_hint(err, "a trace is never overwritten: choose another name "
					     "with -o, or remove the file");
		else
			limpet_err_hint(err, "choose a place you may write to with -o FILE");
		return code;
	}
	file->path = strdup(path);
	if (!file->path) {
		unlink(path);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int bound(struct file *file, uint64_t max_bytes, struct limpet_err *err)
{
	int code;

	file->ring = limpet_trace_ring_new(file->fd, max_bytes);
	if (file->ring)
		return 0;
	code = -errno;
	limpet_err_set(err, code, "cannot bound '%s': %s", file->path, strerror(-code));
	if (code == -EOPNOTSUPP)
		limpet_err_hint(err, "its file system cannot free the space of discarded events: "
				     "put it on ext4, xfs, btrfs or tmpfs");
	return code;
}

static int set_up(struct file *file, const struct limpet_trace_file_options *options,
		  struct limpet_err *err)
{
	struct stat stat;

	if (fstat(file->fd, &stat) < 0 || fchmod(file->fd, 0600) < 0 ||
	    limpet_trace_lock(file->fd) < 0)
		return limpet_err_set(err, -errno, "cannot set up '%s': %s", file->path,
				      strerror(errno));
	if ((stat.st_uid != options->owner_uid || stat.st_gid != options->owner_gid) &&
	    fchown(file->fd, options->owner_uid, options->owner_gid) < 0)
		return limpet_err_set(err, -errno, "cannot give '%s' to user %u: %s", file->path,
				      (unsigned)options->owner_uid, strerror(errno));
	if (options->max_bytes) {
		int code = bound(file, options->max_bytes, err);

		if (code < 0)
			return code;
	}
	file->sync = limpet_trace_sync_new(file->fd, LIMPET_TRACE_SYNC_NS);
	return file->sync ? 0 : limpet_err_set(err, -ENOMEM, "out of memory");
}

static void file_free(struct limpet_trace_sink *sink, bool discard)
{
	struct file *file = file_of(sink);

	if (discard && file->path)
		unlink(file->path);
	limpet_trace_sync_free(file->sync);
	limpet_trace_ring_free(file->ring);
	if (file->fd >= 0)
		close(file->fd);
	free(file->path);
	free(file);
}

static bool disk_is_low(struct limpet_trace_sink *sink, uint64_t more)
{
	struct file *file = file_of(sink);
	uint64_t bytes = __atomic_load_n(&sink->bytes, __ATOMIC_RELAXED), others, grown;
	struct statvfs disk;

	grown = bytes > file->seen_bytes ? bytes - file->seen_bytes : 0;
	file->seen_bytes = bytes;
	if (fstatvfs(file->fd, &disk) < 0 || !disk.f_blocks)
		return false;
	others = (uint64_t)disk.f_blocks * disk.f_frsize / OTHERS_SHARE;
	if (others > OTHERS_MAX_BYTES)
		others = OTHERS_MAX_BYTES;
	return (uint64_t)disk.f_bavail * disk.f_frsize < others + 2 * grown + more;
}

/* ------------------------------------------------------------------ writing */

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
static int reserve(struct file *file, size_t count)
{
	uint64_t need = file->sink.bytes + count + RESERVE_BYTES;
	uint64_t steps[2] = {file->ring ? need : need + RESERVE_STEP_BYTES, need};
	uint64_t most = file_limit();

	if (file->no_reserve || need <= file->reserved_to || need > most)
		return 0;
	if (steps[0] > most)
		steps[0] = most;
	for (size_t i = 0; i < LIMPET_COUNT_OF(steps); i++) {
		uint64_t from =
			file->reserved_to > file->sink.bytes ? file->reserved_to : file->sink.bytes;

		if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)from,
			      (off_t)(steps[i] - from)) == 0) {
			file->reserved_to = steps[i];
			return 0;
		}
		if (errno != ENOSPC && errno != EDQUOT && errno != EINTR) {
			file->no_reserve = true;
			return 0;
		}
	}
	return errno == EINTR ? 0 : -errno;
}

static int check_limit(const struct file *file, const struct limpet_trace_batch *batch)
{
	uint64_t need = file->sink.bytes + batch->bytes.count;

	if (!batch->last)
		need += RESERVE_BYTES;
	return need > file_limit() ? -EFBIG : 0;
}

static int write_all(struct file *file, const struct limpet_trace_batch *batch)
{
	const struct limpet_bytes *bytes = &batch->bytes;
	const uint64_t at = file->sink.bytes;
	size_t done;
	int code = limpet_pwrite(file->fd, bytes->data, bytes->count, at, &done);

	if (code == 0) {
		limpet_trace_sink_set_bytes(&file->sink, at + bytes->count);
	} else if (done > 0 && !batch->replacing) {
		/* ftruncate() also frees the reserve. If it fails, the torn batch stays, and later
		 * batches follow it, where a reader finds them. */
		if (ftruncate(file->fd, (off_t)at) < 0)
			limpet_trace_sink_set_bytes(&file->sink, at + done);
		else
			file->reserved_to = 0;
	}
	return code;
}

/* Overwrites what was written since the last replacement. Blocks that are left of it have lower
 * numbers than the new ones, so that a reader skips them. */
static int write_instead(struct file *file, const struct limpet_trace_batch *batch)
{
	uint64_t end = file->sink.bytes;
	int code;

	limpet_trace_sink_set_bytes(&file->sink, file->kept_bytes);
	code = write_all(file, batch);
	if (code == 0 && file->sink.bytes < end) {
		/* also frees the reserve */
		code = ftruncate(file->fd, (off_t)file->sink.bytes) < 0 ? -errno : 0;
		file->reserved_to = 0;
	}
	if (code < 0)
		limpet_trace_sink_set_bytes(&file->sink, end);
	else
		file->kept_bytes = file->sink.bytes;
	return code;
}

/* Tells the ring about the blocks that were written, so that they can be given up. */
static int note_blocks(struct file *file, const struct limpet_bytes *blocks)
{
	struct limpet_trace_batch_block block;
	int code = 0;

	for (size_t at = 0; code == 0 && at < blocks->count; at += sizeof(block)) {
		memcpy(&block, blocks->data + at, sizeof(block));
		code = limpet_trace_ring_wrote(file->ring, block.type, block.sequence, block.bytes);
	}
	return code;
}

static int write_batch(struct file *file, const struct limpet_trace_batch *batch)
{
	int code = 0;

	if (batch->replacing)
		return write_instead(file, batch);
	if (file->ring && !batch->last)
		code = limpet_trace_ring_make_room(file->ring, batch->bytes.count);
	if (code == 0)
		code = write_all(file, batch);
	if (code == 0 && file->ring)
		code = note_blocks(file, &batch->blocks);
	if (code == 0 && !file->kept_bytes)
		file->kept_bytes = file->sink.bytes;
	return code;
}

static int file_write(struct limpet_trace_sink *sink, const struct limpet_trace_batch *batch)
{
	struct file *file = file_of(sink);
	int code = check_limit(file, batch);

	if (code == 0 && !batch->last)
		code = reserve(file, batch->bytes.count);
	if (code == 0)
		code = write_batch(file, batch);
	return code < 0 ? code : limpet_trace_sync_wrote(file->sync);
}

/* Frees the reserved space, compacts a bounded file, and calls fsync(). */
static int file_finish(struct limpet_trace_sink *sink)
{
	struct file *file = file_of(sink);

	/* Truncating the file to its own size frees the reserve beyond it. */
	if (file->reserved_to > sink->bytes && ftruncate(file->fd, (off_t)sink->bytes) < 0)
		return -errno;
	file->reserved_to = 0;
	if (file->ring) {
		int64_t bytes = limpet_trace_ring_squeeze(file->ring, sink->bytes);

		if (bytes < 0)
			return (int)bytes;
		limpet_trace_sink_set_bytes(sink, (uint64_t)bytes);
	}
	return fsync(file->fd) < 0 ? -errno : 0;
}

int limpet_trace_file_open(const struct limpet_trace_file_options *options,
			   struct limpet_trace_sink **ret_sink, struct limpet_err *err)
{
	static const struct limpet_trace_sink_kind kind = {.write = file_write,
							   .is_low = disk_is_low,
							   .finish = file_finish,
							   .free = file_free};
	struct file *file = calloc(1, sizeof(*file));
	int code;

	if (!file)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	file->sink.kind = &kind;
	file->fd = -1;
	code = create_file(file, options, err);
	if (code == 0)
		code = set_up(file, options, err);
	if (code < 0) {
		file_free(&file->sink, true);
		return code;
	}
	file->sink.name = file->path;
	*ret_sink = &file->sink;
	return 0;
}
