#include "collector/control/runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOT_PARENT "/run"
#define ROOT_DIR ROOT_PARENT "/limpet"
/* Another limpet may remove the directory between mkdir() and open(). */
#define TRIES 100

/* Directories for captures of this user, best first. */
struct places {
	char path[4][256];
	int count;
	bool forced; /* set by the user: no other is used */
};

static void add_place(struct places *places, const char *path)
{
	/* A truncated path is another path. */
	if (path[0] != '/' || strlen(path) >= sizeof(places->path[0]))
		return;
	for (int i = 0; i < places->count; i++) {
		if (!strcmp(places->path[i], path))
			return;
	}
	strcpy(places->path[places->count++], path);
}

static void find_places(struct places *ret)
{
	const char *forced = secure_getenv("LIMPET_RUNTIME_DIR");
	const char *xdg = secure_getenv("XDG_RUNTIME_DIR");
	char path[512];
	uid_t uid = geteuid();

	memset(ret, 0, sizeof(*ret));
	if (forced && *forced) {
		ret->forced = true;
		add_place(ret, forced);
		return;
	}
	if (uid == 0) {
		add_place(ret, ROOT_DIR);
	} else {
		snprintf(path, sizeof(path), "%.300s/limpet", xdg ? xdg : "");
		if (xdg && *xdg)
			add_place(ret, path);
		snprintf(path, sizeof(path), "/run/user/%u/limpet", uid);
		add_place(ret, path);
	}
	snprintf(path, sizeof(path), "/tmp/limpet-%u", uid);
	add_place(ret, path);
	/* The only writable place in a container with a read-only root. */
	snprintf(path, sizeof(path), "/dev/shm/limpet-%u", uid);
	add_place(ret, path);
}

/* 0, or the reason: -ENOTDIR, -EPERM (another user's), -EACCES (others may write). */
static int check_dir(int fd, uid_t owner)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != owner)
		return -EPERM;
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return -EACCES;
	return 0;
}

static int open_checked(const char *path, uid_t owner, int flags)
{
	LIMPET_CLOSE int fd = open(path, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int result;

	if (fd < 0)
		return -errno;
	result = check_dir(fd, owner);
	return result < 0 ? result : limpet_take_fd(&fd);
}

/* Makes the directory if needed. -ENOENT: this place cannot be used, but another may. */
static int open_place(const char *path, bool *ret_made)
{
	mode_t mode = strcmp(path, ROOT_DIR) ? 0700 : 0711;
	int fd = -ENOENT;

	for (int i = 0; i < TRIES && fd == -ENOENT; i++) {
		*ret_made = mkdir(path, mode) == 0;
		if (!*ret_made && errno != EEXIST)
			return -ENOENT;
		/* It is part of a read-only image. */
		if (!*ret_made && access(path, W_OK) < 0 && errno == EROFS)
			return -ENOENT;
		fd = open_checked(path, geteuid(), O_RDONLY);
	}
	/* The umask may have removed bits. */
	if (fd >= 0 && *ret_made && fchmod(fd, mode) < 0) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

int limpet_runtime_dir_open(bool *ret_made, struct limpet_err *err)
{
	struct places places;
	int result = -ENOENT;

	find_places(&places);
	/* A container's image may have neither /tmp nor /run. */
	if (!places.forced && geteuid() == 0 && access("/tmp", F_OK) < 0)
		(void)!mkdir(ROOT_PARENT, 0755);
	for (int i = 0; i < places.count; i++) {
		const char *path = places.path[i];
		bool made;

		result = open_place(path, &made);
		if (result >= 0) {
			/* The other places have names that only limpet uses. */
			*ret_made = made || !places.forced;
			return result;
		}
		if (result == -ENOENT)
			continue;
		/* It exists but cannot be trusted: other places may have been prepared by an
		 * attacker, too. */
		limpet_err_set(err, result, "cannot use the runtime directory %s: %s", path,
			       result == -EPERM    ? "it belongs to another user"
			       : result == -EACCES ? "other users may write to it"
			       : result == -ENOTDIR || result == -ELOOP ? "it is not a directory"
									: strerror(-result));
		if (result == -EACCES)
			limpet_err_hint(err, "chmod go-w %s", path);
		else
			limpet_err_hint(err, "remove it, or set LIMPET_RUNTIME_DIR to a directory "
					     "of your own");
		return result;
	}
	limpet_err_set(err, -ENOENT, "cannot make a runtime directory%s%s",
		       places.count ? " in " : ": LIMPET_RUNTIME_DIR must be an absolute path",
		       places.count ? places.path[places.count - 1] : "");
	limpet_err_hint(err, "set LIMPET_RUNTIME_DIR to a directory of your own");
	return -ENOENT;
}

void limpet_runtime_dir_remove(int fd)
{
	struct places places;
	struct stat opened, named;

	if (fstat(fd, &opened) < 0)
		return;
	find_places(&places);
	for (int i = 0; i < places.count; i++) {
		if (lstat(places.path[i], &named) == 0 && named.st_dev == opened.st_dev &&
		    named.st_ino == opened.st_ino)
			(void)!rmdir(places.path[i]);
	}
}

struct search {
	struct limpet_runtime_dir *list;
	int count;
};

static void add_dir(struct search *search, const char *path, uid_t owner, bool ours, bool readable)
{
	struct limpet_runtime_dir *dir = &search->list[search->count];
	int fd;

	if (search->count == LIMPET_RUNTIME_DIRS_MAX || strlen(path) >= sizeof(dir->path))
		return;
	fd = open_checked(path, owner, readable ? O_RDONLY : O_PATH);
	if (fd < 0)
		return;
	strcpy(dir->path, path);
	dir->owner = owner;
	dir->fd = fd;
	dir->ours = ours;
	dir->readable = readable;
	search->count++;
}

/* Users' directories, named PREFIX + UID + SUFFIX below `parent`. Anyone can create such a name in
 * /tmp or /dev/shm: it counts only if it belongs to the user whom it names. */
static void add_users(struct search *search, const char *parent, const char *prefix,
		      const char *suffix)
{
	DIR *dir = opendir(parent);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		const char *digits = entry->d_name + strlen(prefix);
		char path[512];
		unsigned long uid;
		char *end;

		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || *digits < '0' ||
		    *digits > '9')
			continue;
		uid = strtoul(digits, &end, 10);
		if (*end || uid == 0 || uid > (uid_t)-2)
			continue;
		snprintf(path, sizeof(path), "%s/%s%s", parent, entry->d_name, suffix);
		add_dir(search, path, (uid_t)uid, false, true);
	}
	closedir(dir);
}

int limpet_runtime_dir_find_all(struct limpet_runtime_dir *ret)
{
	struct search search = {.list = ret};
	struct places places;
	uid_t uid = geteuid();

	find_places(&places);
	for (int i = 0; i < places.count; i++)
		add_dir(&search, places.path[i], uid, true, true);
	if (places.forced)
		return search.count;
	if (uid == 0) {
		add_users(&search, "/run/user", "", "/limpet");
		add_users(&search, "/tmp", "limpet-", "");
		add_users(&search, "/dev/shm", "limpet-", "");
	} else {
		add_dir(&search, ROOT_DIR, 0, false, false);
	}
	return search.count;
}

void limpet_runtime_dir_done(struct limpet_runtime_dir *list, int count)
{
	for (int i = 0; i < count; i++)
		close(list[i].fd);
}

int limpet_runtime_dir_lock(int fd, bool wait)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	/* No blocking flock(): if the holder was stopped, this process must not hang. */
	for (int tries = wait ? 200 : 1; tries > 0; tries--) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (tries > 1)
			nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

void limpet_runtime_dir_unlock(int fd)
{
	flock(fd, LOCK_UN);
}
