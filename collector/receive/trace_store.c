#include "collector/receive/trace_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "collector/receive/block_check.h"
#include "common/array.h"
#include "common/file_io.h"

/* Of a head, to find out whether a file is the store's own. */
#define HEADER_MAX_BYTES (1u << 20)
#define SUFFIX ".limpet"

struct finished {
	char name[LIMPET_TRACE_NAME_BYTES];
	uint64_t bytes;
	struct timespec time;
	dev_t dev;
	ino_t inode;
};

struct limpet_trace_store {
	int dir_fd;
	uint64_t keep_bytes, used_bytes;
	struct finished *list; /* oldest first */
	size_t count, capacity;
	void (*removed)(void *context, const char *name);
	void *context;
};

/* ------------------------------------------------------------------ what is there */

/* The stem that the head of the trace stands for; false: it has none. */
static bool read_stem(int fd, char ret_stem[LIMPET_BLOCK_STEM_BYTES])
{
	struct limpet_block_check check = {0};
	uint8_t bytes[4096];
	const char *why;
	uint64_t at = 0;
	int code = 0;

	while (code == 0 && at < HEADER_MAX_BYTES) {
		size_t want = limpet_block_check_wants(&check);
		ssize_t got;

		want = want < sizeof(bytes) ? want : sizeof(bytes);
		got = limpet_pread(fd, bytes, want, at);
		if (got < (ssize_t)want)
			break;
		at += want;
		code = limpet_block_check_add(&check, bytes, want, &why);
	}
	code = code == 1 ? limpet_block_check_stem(&check, ret_stem) : -EBADMSG;
	limpet_block_check_done(&check);
	return code == 0;
}

/* Whether it is STEM.limpet, or that with a number. */
static bool is_named(const char *name, const char *stem)
{
	const size_t length = strlen(stem);
	const char *rest = name + length + strlen(SUFFIX);

	if (strncmp(name, stem, length) != 0 || strncmp(name + length, SUFFIX, strlen(SUFFIX)) != 0)
		return false;
	return !*rest || (*rest == '.' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]);
}

static int add_finished(struct limpet_trace_store *store, const char *name, const struct stat *stat)
{
	struct finished *added;

	if (limpet_reserve(&store->list, &store->capacity, store->count + 1, sizeof(*store->list)) <
	    0)
		return -ENOMEM;
	added = &store->list[store->count++];
	*added = (struct finished){.bytes = (uint64_t)stat->st_size,
				   .time = stat->st_mtim,
				   .dev = stat->st_dev,
				   .inode = stat->st_ino};
	snprintf(added->name, sizeof(added->name), "%s", name);
	store->used_bytes += added->bytes;
	return 0;
}

static int look_at(struct limpet_trace_store *store, const char *name)
{
	LIMPET_CLOSE int fd = -1;
	char stem[LIMPET_BLOCK_STEM_BYTES];
	struct stat stat;

	if (!strstr(name, SUFFIX) || strlen(name) >= LIMPET_TRACE_NAME_BYTES)
		return 0;
	fd = openat(store->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode) || stat.st_nlink != 1 ||
	    stat.st_uid != geteuid() || !read_stem(fd, stem) || !is_named(name, stem))
		return 0;
	return add_finished(store, name, &stat);
}

static int compare_times(const void *a, const void *b)
{
	const struct finished *left = a, *right = b;

	if (left->time.tv_sec != right->time.tv_sec)
		return left->time.tv_sec < right->time.tv_sec ? -1 : 1;
	if (left->time.tv_nsec != right->time.tv_nsec)
		return left->time.tv_nsec < right->time.tv_nsec ? -1 : 1;
	return strcmp(left->name, right->name);
}

static int find_finished(struct limpet_trace_store *store)
{
	int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir)
		return limpet_errno();
	while (code == 0 && (entry = readdir(dir)))
		code = look_at(store, entry->d_name);
	closedir(dir);
	if (store->count)
		qsort(store->list, store->count, sizeof(*store->list), compare_times);
	return code;
}

int limpet_trace_store_open(const char *directory, uint64_t keep_bytes,
			    void (*removed)(void *context, const char *name), void *context,
			    struct limpet_trace_store **ret_store, struct limpet_err *err)
{
	struct limpet_trace_store *store = calloc(1, sizeof(*store));
	int code;

	if (!store)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	*store = (struct limpet_trace_store){
		.keep_bytes = keep_bytes, .removed = removed, .context = context};
	store->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	code = store->dir_fd < 0 ? -errno : 0;
	if (code == 0 && flock(store->dir_fd, LOCK_EX | LOCK_NB) < 0)
		code = errno == EWOULDBLOCK ? -EBUSY : 0;
	if (code == 0)
		code = find_finished(store);
	if (code == -EBUSY)
		limpet_err_set(err, code, "another limpet collect receives into '%s'", directory);
	else if (code < 0)
		limpet_err_set(err, code, "cannot use the directory '%s': %s", directory,
			       strerror(-code));
	if (code == -ENOENT)
		limpet_err_hint(err, "mkdir %s", directory);
	else if (code < 0)
		limpet_err_hint(err, "choose another directory");
	if (code < 0) {
		limpet_trace_store_free(store);
		return code;
	}
	*ret_store = store;
	return 0;
}

void limpet_trace_store_free(struct limpet_trace_store *store)
{
	if (store->dir_fd >= 0)
		close(store->dir_fd);
	free(store->list);
	free(store);
}

/* ------------------------------------------------------------------ room */

/* Whether it went, or was not there any more. One that somebody seals is left. */
static bool remove_one(const struct limpet_trace_store *store, const struct finished *one)
{
	LIMPET_CLOSE int fd =
		openat(store->dir_fd, one->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;

	if (fd < 0 || fstat(fd, &stat) < 0 || stat.st_dev != one->dev || stat.st_ino != one->inode)
		return true;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return false;
	if (unlinkat(store->dir_fd, one->name, 0) < 0)
		return errno == ENOENT;
	if (store->removed)
		store->removed(store->context, one->name);
	return true;
}

int limpet_trace_store_reserve(struct limpet_trace_store *store, uint64_t bytes)
{
	size_t at = 0;

	while (store->used_bytes + bytes > store->keep_bytes && at < store->count) {
		const uint64_t freed = store->list[at].bytes;

		if (!remove_one(store, &store->list[at])) {
			at++;
			continue;
		}
		memmove(&store->list[at], &store->list[at + 1],
			(--store->count - at) * sizeof(*store->list));
		store->used_bytes -= freed;
	}
	if (store->used_bytes + bytes > store->keep_bytes)
		return -EFBIG;
	store->used_bytes += bytes;
	return 0;
}

void limpet_trace_store_release(struct limpet_trace_store *store, uint64_t bytes)
{
	store->used_bytes -= bytes;
}

int limpet_trace_store_create(struct limpet_trace_store *store, const char *stem,
			      char ret_name[LIMPET_TRACE_NAME_BYTES])
{
	int fd = limpet_trace_create_numbered(store->dir_fd, stem, ret_name);

	if (fd >= 0 && limpet_trace_lock(fd) < 0) {
		int code = limpet_errno();

		unlinkat(store->dir_fd, ret_name, 0);
		close(fd);
		return code;
	}
	return fd;
}

void limpet_trace_store_close(struct limpet_trace_store *store, int fd, const char *name,
			      uint64_t bytes)
{
	struct stat stat;

	store->used_bytes -= bytes;
	if (!bytes)
		unlinkat(store->dir_fd, name, 0);
	else if (fstat(fd, &stat) == 0)
		/* Without memory for it, it is counted at the next start. */
		(void)!add_finished(store, name, &stat);
	(void)!fdatasync(fd);
	close(fd);
}
