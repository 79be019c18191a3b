#include "common/open_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "common/mounts.h"
#include "common/subprocess.h"

/* How many nested directories a path may have, and how many links (path_resolution(7)). */
#define DEPTH_MAX 128u
#define LINKS_MAX 40u
/* How many mounts a path may cross. */
#define TABLES_MAX 16u

/* ------------------------------------------------------------------ path look-up, in one call */

static int open_at(int directory, const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC | flags, .resolve = resolve};
	const unsigned enough = 16;
	int fd = -1;

	/* EAGAIN: something was renamed meanwhile, so it is unknown where the path leads. */
	for (unsigned i = 0; i < enough; i++) {
		fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? limpet_errno() : fd;
}

static uint64_t ways(bool in_root, unsigned flags)
{
	uint64_t resolve = in_root ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS : 0;

	return flags & LIMPET_OPEN_NO_LINKS ? resolve | RESOLVE_NO_SYMLINKS : resolve;
}

struct look_up {
	char path[PATH_MAX];
	int directory;
	uint64_t resolve;
};

static int look_up(void *argument)
{
	const struct look_up *name = argument;

	return open_at(name->directory, name->path, 0, name->resolve);
}

/* Looks up a path across mounts that a program may serve. */
static int look_up_in_child(int directory, const char *path, uint64_t resolve)
{
	struct look_up name = {.directory = directory, .resolve = resolve};
	const struct limpet_subprocess_job job = {
		.work = look_up, .argument = &name, .fds = {directory, -1}, .grows = -1};

	if (snprintf(name.path, sizeof(name.path), "%s", path) >= (int)sizeof(name.path))
		return -ENAMETOOLONG;
	return limpet_subprocess_run(&job);
}

/* ------------------------------------------------------------------ path look-up, step by step */

/* A path through several mounts that the kernel itself serves. Entering a mount point accesses the
 * file system below it; the one above is accessed only once its type is known. Whatever is not
 * certain is left to the kernel, in a separate process: -EXDEV. */
struct walk {
	const char *process;
	bool in_root;
	unsigned flags;
	/* The directories passed so far: ".." is the one before, whatever was moved since. */
	struct directory {
		int fd;
		struct limpet_mount mount;
		bool is_directory;
		bool by_proc; /* within /proc, perhaps through a link: ".." may be another directory
			       */
	} directories[DEPTH_MAX];
	unsigned depth, links, tables;
	char path[PATH_MAX]; /* the rest of the path */
};

static bool same_mount(int fd, const struct directory *last)
{
	struct statx status;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) == 0 &&
	       status.stx_mask & STATX_MNT_ID && status.stx_mnt_id == last->mount.id;
}

static int enter(struct walk *walk, int *fd, bool is_directory, bool by_proc)
{
	struct directory *next = &walk->directories[walk->depth];
	const struct directory *last = walk->depth ? next - 1 : NULL;
	int code = 0;

	if (walk->depth == DEPTH_MAX)
		return -EXDEV;
	if (last && same_mount(*fd, last))
		next->mount = last->mount;
	/* Each new mount requires reading tables, which may be long. */
	else if (++walk->tables > TABLES_MAX)
		return -EXDEV;
	else
		code = limpet_mount_of(*fd, walk->process, &next->mount);
	if (code < 0)
		return code;
	if (next->mount.is_served)
		return -EXDEV;
	next->fd = limpet_take_fd(fd);
	next->is_directory = is_directory;
	next->by_proc = by_proc;
	walk->depth++;
	return 0;
}

static void leave(struct walk *walk)
{
	close(walk->directories[--walk->depth].fd);
}

/* Removes the next part from the rest of the path; "" at its end. */
static int pop_part(struct walk *walk, char ret_part[NAME_MAX + 1])
{
	size_t slashes = strspn(walk->path, "/"), bytes = strcspn(walk->path + slashes, "/");

	if (bytes > NAME_MAX)
		return -ENAMETOOLONG;
	/* What precedes a slash or another part must be a directory. */
	if ((bytes || slashes) && !walk->directories[walk->depth - 1].is_directory)
		return -ENOTDIR;
	memcpy(ret_part, walk->path + slashes, bytes);
	ret_part[bytes] = '\0';
	memmove(walk->path, walk->path + slashes + bytes, strlen(walk->path + slashes + bytes) + 1);
	return 0;
}

static int follow(struct walk *walk, int link)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t bytes = readlinkat(link, "", text, sizeof(text) - 1);

	if (bytes < 0)
		return limpet_errno();
	text[bytes] = '\0';
	if (walk->flags & LIMPET_OPEN_NO_LINKS || ++walk->links > LINKS_MAX)
		return -ELOOP;
	memcpy(rest, walk->path, strlen(walk->path) + 1);
	if (snprintf(walk->path, sizeof(walk->path), "%s%s", text, rest) >= (int)sizeof(walk->path))
		return -ENAMETOOLONG;
	while (text[0] == '/' && walk->depth > 1)
		leave(walk);
	return 0;
}

/* The kernel itself resolves the links in /proc, but anybody may mount something within it. */
static int step_in_proc(struct walk *walk, const char *part)
{
	const uint64_t within = RESOLVE_BENEATH | RESOLVE_NO_XDEV;
	const uint64_t resolve = ways(walk->in_root, walk->flags) & ~(uint64_t)RESOLVE_IN_ROOT;
	int directory = walk->directories[walk->depth - 1].fd;
	LIMPET_CLOSE int fd = open_at(directory, part, 0, resolve | within);
	struct statx status;

	/* It leads out of /proc, for callers that may follow its links. */
	if (fd == -EXDEV && !walk->in_root)
		fd = open_at(directory, part, 0, resolve);
	else if (fd == -EXDEV)
		fd = open_at(directory, part, O_NOFOLLOW, resolve & ~(uint64_t)RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
		return limpet_errno();
	if (S_ISLNK(status.stx_mode))
		return -EXDEV;
	return enter(walk, &fd, S_ISDIR(status.stx_mode), true);
}

static int step(struct walk *walk, const char *part)
{
	const struct directory *here = &walk->directories[walk->depth - 1];
	LIMPET_CLOSE int fd = -1;
	struct statx status;

	if (!strcmp(part, "..")) {
		if (here->by_proc)
			return -EXDEV;
		if (walk->depth > 1)
			leave(walk);
		return 0;
	}
	if (!strcmp(here->mount.type, "proc"))
		return step_in_proc(walk, part);
	fd = open_at(here->fd, part, O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
		return limpet_errno();
	return S_ISLNK(status.stx_mode) ? follow(walk, fd)
					: enter(walk, &fd, S_ISDIR(status.stx_mode), false);
}

/* The rest of the path in one step, if it stays in the mount and below the directory; -EXDEV: it
 * does not. */
static int leap(const struct walk *walk)
{
	const struct directory *here = &walk->directories[walk->depth - 1];
	const char *rest = walk->path + strspn(walk->path, "/");

	if (!*rest || !here->is_directory || !strcmp(here->mount.type, "proc"))
		return -EXDEV;
	return open_at(here->fd, rest, 0,
		       (ways(true, walk->flags) & ~(uint64_t)RESOLVE_IN_ROOT) | RESOLVE_BENEATH |
			       RESOLVE_NO_XDEV);
}

/* -EXDEV: a program may serve a part of the path. Takes ownership of `directory`. */
static int walk_all(struct walk *walk, int directory, const char *path)
{
	LIMPET_CLOSE int first = directory;
	unsigned tables = 1;
	int code = enter(walk, &first, true, false);

	if (code < 0)
		return code;
	if (snprintf(walk->path, sizeof(walk->path), "%s", path) >= (int)sizeof(walk->path))
		return -ENAMETOOLONG;
	do {
		char part[NAME_MAX + 1];

		/* In a mount that was just entered. */
		if (walk->tables != tables) {
			code = leap(walk);
			if (code != -EXDEV)
				return code;
		}
		tables = walk->tables;
		code = pop_part(walk, part);
		if (code == 0 && !part[0])
			return limpet_take_fd(&walk->directories[walk->depth - 1].fd);
		if (code == 0 && strcmp(part, ".") != 0)
			code = step(walk, part);
	} while (code == 0);
	return code;
}

static int look_up_in_steps(int directory, const char *process, const char *path, bool in_root,
			    unsigned flags)
{
	LIMPET_FREE struct walk *walk = malloc(sizeof(*walk));
	int first = fcntl(directory, F_DUPFD_CLOEXEC, 0), fd;

	if (first < 0)
		return limpet_errno();
	if (!walk) {
		close(first);
		return -ENOMEM;
	}
	walk->process = process;
	walk->in_root = in_root;
	walk->flags = flags;
	walk->depth = walk->links = walk->tables = 0;
	fd = walk_all(walk, first, path);
	while (walk->depth)
		leave(walk);
	return fd;
}

/* ------------------------------------------------------------------ names */

/* In one call if the path stays in one mount; step by step if it begins at a root. */
static int look_up_from(int directory, const char *process, const char *path, bool in_root,
			unsigned flags)
{
	const uint64_t resolve = ways(in_root, flags);
	struct limpet_mount mount;
	int fd = limpet_mount_of(directory, process, &mount);

	if (fd < 0)
		return fd;
	fd = mount.is_served ? -EXDEV : open_at(directory, path, 0, resolve | RESOLVE_NO_XDEV);
	if (fd == -EXDEV && !mount.is_served && (in_root || path[0] == '/'))
		fd = look_up_in_steps(directory, process, path, in_root, flags);
	if (fd != -EXDEV)
		return fd;
	return flags & LIMPET_OPEN_IN_PLACE ? -EOPNOTSUPP
					    : look_up_in_child(directory, path, resolve);
}

/* The /proc directory of the process whose root directory this is; NULL if it is not such a
 * directory. */
static char *process_of(const char *root)
{
	static const char end[] = "/root";
	size_t bytes = root ? strlen(root) : 0;

	if (bytes < sizeof(end) || strcmp(root + bytes - sizeof(end) + 1, end) != 0)
		return NULL;
	return strndup(root, bytes - sizeof(end) + 1);
}

int limpet_open_name(const char *root, const char *path, unsigned flags)
{
	LIMPET_FREE char *process = process_of(root);
	const char *start = root ? root : path[0] == '/' ? "/" : ".";
	LIMPET_CLOSE int directory = open(start, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (directory < 0)
		return limpet_errno();
	fd = look_up_from(directory, process, path, root != NULL, flags);
	/* A seccomp filter (a container's old profile) may not know openat2(2). */
	if (!root && !flags && (fd == -ENOSYS || fd == -EPERM)) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? limpet_errno() : fd;
	}
	return fd;
}

bool limpet_open_may_enter(const char *root)
{
	LIMPET_CLOSE int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return directory >= 0;
}

int limpet_open_link(const char *process, const char *link)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", process, link);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? limpet_errno() : fd;
}

/* ------------------------------------------------------------------ contents */

/* The kernel's own file systems have files that look regular, but do something when they are read.
 */
static bool is_on_disk(int fd)
{
	static const uint64_t others[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,      DEBUGFS_MAGIC,
					  TRACEFS_MAGIC,       SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
					  CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,     SELINUX_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if ((uint64_t)fs.f_type == others[i])
			return false;
	return true;
}

/* Uses only system calls and the stack: it also runs in the separate process. */
static int open_here(int named, struct stat *ret_status)
{
	LIMPET_CLOSE int fd = -1;
	struct stat before;
	char name[32];

	if (fstat(named, &before) < 0)
		return limpet_errno();
	if (!S_ISREG(before.st_mode) || !is_on_disk(named))
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", named);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, ret_status) < 0)
		return limpet_errno();
	if (ret_status->st_dev != before.st_dev || ret_status->st_ino != before.st_ino)
		return -EINVAL;
	return limpet_take_fd(&fd);
}

struct copying {
	struct stat status;
	int named, copy;
};

static int copy_all(int from, int to)
{
	char bytes[64 << 10];
	off_t done = 0;
	ssize_t got;

	while ((got = read(from, bytes, sizeof(bytes))) > 0) {
		done += got;
		if (done > LIMPET_OPEN_COPY_MAX)
			return -EFBIG;
		for (ssize_t at = 0, put; at < got; at += put) {
			put = write(to, bytes + at, (size_t)(got - at));
			if (put <= 0)
				return limpet_errno();
		}
	}
	return got < 0 ? limpet_errno() : 0;
}

/* The file stays open until the process ends, after it has sent the result: closing may block,
 * too. */
static int copy_file(void *argument)
{
	struct copying *copying = argument;
	int fd = open_here(copying->named, &copying->status);

	if (fd < 0)
		return fd;
	return copying->status.st_size > LIMPET_OPEN_COPY_MAX ? -EFBIG
							      : copy_all(fd, copying->copy);
}

static int copy_in_child(int named, struct stat *ret_status)
{
	LIMPET_CLOSE int copy = memfd_create("limpet copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct copying copying = {.named = named, .copy = copy};
	const struct limpet_subprocess_job job = {.work = copy_file,
						  .argument = &copying,
						  .bytes = sizeof(copying),
						  .fds = {named, copy},
						  .grows = copy};
	char name[32];
	int code;

	if (copy < 0)
		return limpet_errno();
	code = limpet_subprocess_run(&job);
	/* So that an abandoned process writes no more, and its copy takes no memory. */
	if (code < 0 && ftruncate(copy, 0) < 0)
		return code;
	if (fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) < 0 || code < 0)
		return code < 0 ? code : limpet_errno();
	*ret_status = copying.status;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", copy);
	code = open(name, O_RDONLY | O_CLOEXEC);
	return code < 0 ? limpet_errno() : code;
}

int limpet_open_named(int named, const char *process, unsigned flags, struct stat *ret_status)
{
	struct stat status;
	struct limpet_mount mount;
	int fd, state = fcntl(named, F_GETFL);

	if (state < 0)
		return limpet_errno();
	if (state & O_PATH) {
		fd = limpet_mount_of(named, process, &mount);
		if (fd < 0)
			return fd;
		if (!mount.is_served)
			fd = open_here(named, &status);
		else
			fd = flags & LIMPET_OPEN_IN_PLACE ? -EOPNOTSUPP
							  : copy_in_child(named, &status);
	} else if (fstat(named, &status) < 0) {
		return limpet_errno();
	} else {
		fd = fcntl(named, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return limpet_errno();
	}
	if (fd >= 0 && ret_status)
		*ret_status = status;
	return fd;
}

int limpet_open_linked(const char *process, const char *link, struct stat *ret_status)
{
	LIMPET_CLOSE int named = limpet_open_link(process, link);

	return named < 0 ? named : limpet_open_named(named, process, 0, ret_status);
}

int limpet_open_regular(const char *root, const char *path, unsigned flags, struct stat *ret_status)
{
	LIMPET_FREE char *process = process_of(root);
	LIMPET_CLOSE int named = limpet_open_name(root, path, flags);
	struct stat named_status, status;
	LIMPET_CLOSE int fd = -1;

	if (named < 0)
		return named;
	fd = limpet_open_named(named, process, flags, ret_status);
	/* /proc is not mounted here: open the file again by its name, which is limpet's own. */
	if (fd == -ENOENT && !root && !flags && access("/proc/self", F_OK) < 0) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0 || fstat(fd, &status) < 0 || fstat(named, &named_status) < 0)
			return limpet_errno();
		if (status.st_dev != named_status.st_dev || status.st_ino != named_status.st_ino)
			return -EINVAL;
		if (ret_status)
			*ret_status = status;
	}
	return limpet_take_fd(&fd);
}
