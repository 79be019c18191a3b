#include "common/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define SELF "/proc/self"

/* One line: "36 35 98:0 /root /point options fields - type source options" (proc(5)). */
struct line {
	uint64_t id, parent;
	uint64_t major, minor;
	const char *point, *type;
};

static bool parse(char *text, struct line *ret)
{
	char *save, *at, *type = strstr(text, " - ");

	if (!type)
		return false;
	*type = '\0';
	ret->type = strtok_r(type + 3, " \n", &save);
	ret->id = strtoull(text, &at, 10);
	ret->parent = strtoull(at, &at, 10);
	ret->major = strtoul(at, &at, 10);
	ret->minor = *at == ':' ? strtoul(at + 1, &at, 10) : 0;
	/* Skip the root, and read the mount point. */
	ret->point = strtok_r(at, " ", &save) ? strtok_r(NULL, " ", &save) : NULL;
	return ret->type && ret->point;
}

struct search {
	uint64_t id;
	unsigned major, minor;
	const char *point;
	uint64_t found;
	bool any;
};

/* The file system type of the last line that `wanted` accepts. */
static int find(const char *process, bool (*wanted)(struct search *search, const struct line *line),
		struct search *search, char ret_type[32])
{
	LIMPET_FCLOSE FILE *file = NULL;
	LIMPET_FREE char *text = NULL;
	char path[PATH_MAX];
	size_t room = 0;

	search->any = false;
	snprintf(path, sizeof(path), "%s/mountinfo", process);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : limpet_errno();
	while (getline(&text, &room, file) > 0) {
		struct line line;

		if (!parse(text, &line) || !wanted(search, &line))
			continue;
		snprintf(ret_type, sizeof((struct limpet_mount){0}.type), "%s", line.type);
		search->found = line.id;
		search->any = true;
	}
	return ferror(file) ? -EIO : search->any ? 0 : -ENOENT;
}

static bool has_id(struct search *search, const struct line *line)
{
	return line->id == search->id;
}

static bool has_device(struct search *search, const struct line *line)
{
	return line->major == search->major && line->minor == search->minor;
}

/* If several are mounted at one point, the last one covers the others. */
static bool has_point(struct search *search, const struct line *line)
{
	return !strcmp(line->point, search->point) &&
	       (!search->any || line->parent == search->found);
}

static bool has_our_users(const char *process)
{
	struct stat ours, theirs;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/ns/user", process);
	return stat(SELF "/ns/user", &ours) == 0 && stat(path, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* A daemon mounts an automount when it is accessed. */
static bool is_served(const char *type, bool by_our_users)
{
	return !strcmp(type, "fuse") || !strcmp(type, "fuseblk") || !strncmp(type, "fuse.", 5) ||
	       !strncmp(type, "fuseblk.", 8) || !strcmp(type, "autofs") ||
	       (!by_our_users && !strcmp(type, "overlay"));
}

/* Before Linux 5.8 statx(2) does not report it. */
static int read_id(int fd, uint64_t *ret)
{
	static const char key[] = "mnt_id:";
	LIMPET_FCLOSE FILE *file = NULL;
	char path[64], line[128];

	snprintf(path, sizeof(path), SELF "/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, sizeof(key) - 1) != 0)
			continue;
		*ret = strtoull(line + sizeof(key) - 1, NULL, 10);
		return 0;
	}
	return -ENOSYS;
}

int limpet_mount_of(int fd, const char *process, struct limpet_mount *ret)
{
	struct limpet_mount mount = {.is_served = true};
	struct search search = {.id = 0};
	struct statx status;
	int code;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) < 0)
		return limpet_errno();
	mount.id = status.stx_mnt_id;
	code = status.stx_mask & STATX_MNT_ID ? 0 : read_id(fd, &mount.id);
	search = (struct search){
		.id = mount.id, .major = status.stx_dev_major, .minor = status.stx_dev_minor};
	if (code == 0)
		code = find(SELF, has_id, &search, mount.type);
	/* Without /proc this is unknown, and the file counts as not served. */
	if (code == -ESRCH || code == -ENOSYS)
		mount.is_served = false;
	else if (code == 0)
		mount.is_served = is_served(mount.type, true);
	else if (process && find(process, has_id, &search, mount.type) == 0)
		mount.is_served = is_served(mount.type, has_our_users(process));
	/* A process that has changed its root does not see mounts above it: limpet's table may have
	 * one of the same file system. */
	else if (find(SELF, has_device, &search, mount.type) == 0)
		mount.is_served = is_served(mount.type, true);
	*ret = mount;
	return 0;
}

int limpet_mount_type_at(const char *process, const char *point, char ret_type[32])
{
	struct search search = {.point = point};

	return find(process, has_point, &search, ret_type);
}
