#include "common/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define SELF "/proc/self"

/* One line: "36 35 98:0 /root /point options fields - type source options" (proc(5)). */
struct line {
	uint64_t id;
	const char *point, *type;
};

static bool parse(char *text, struct line *ret)
{
	char *save, *word, *type = strstr(text, " - ");

	if (!type)
		return false;
	*type = '\0';
	ret->type = strtok_r(type + 3, " \n", &save);
	ret->id = strtoull(text, NULL, 10);
	ret->point = NULL;
	word = strtok_r(text, " ", &save);
	for (int field = 0; field < 4 && word; field++)
		ret->point = word = strtok_r(NULL, " ", &save);
	return ret->type && ret->point;
}

/* The last line that `wanted` takes: what was mounted later hides what was before. */
static int find(const char *process, bool (*wanted)(const void *context, const struct line *line),
		const void *context, char ret_type[32])
{
	LIMPET_FCLOSE FILE *file = NULL;
	LIMPET_FREE char *text = NULL;
	char path[PATH_MAX];
	size_t room = 0;
	int code = -ENOENT;

	snprintf(path, sizeof(path), "%s/mountinfo", process);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : limpet_errno();
	while (getline(&text, &room, file) > 0) {
		struct line line;

		if (!parse(text, &line) || !wanted(context, &line))
			continue;
		snprintf(ret_type, sizeof((struct limpet_mount){0}.type), "%s", line.type);
		code = 0;
	}
	return code;
}

static bool has_id(const void *context, const struct line *line)
{
	return line->id == *(const uint64_t *)context;
}

static bool has_point(const void *context, const struct line *line)
{
	return !strcmp(line->point, context);
}

static bool has_our_users(const char *process)
{
	struct stat ours, theirs;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/ns/user", process);
	return stat(SELF "/ns/user", &ours) == 0 && stat(path, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static bool is_served(const char *type, bool by_our_users)
{
	return !strcmp(type, "fuse") || !strcmp(type, "fuseblk") || !strncmp(type, "fuse.", 5) ||
	       !strncmp(type, "fuseblk.", 8) || (!by_our_users && !strcmp(type, "overlay"));
}

int limpet_mount_of(int fd, const char *process, struct limpet_mount *ret)
{
	struct limpet_mount mount = {.is_served = true};
	struct statx status;
	int code;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) < 0)
		return limpet_errno();
	mount.id = status.stx_mnt_id;
	code = find(SELF, has_id, &mount.id, mount.type);
	/* Linux before 5.8, or a root folder without /proc: nobody can tell, and we go on as
	 * everybody does. */
	if (!(status.stx_mask & STATX_MNT_ID) || (code < 0 && code != -ENOENT))
		mount.is_served = false;
	else if (code == 0)
		mount.is_served = is_served(mount.type, true);
	else if (process && find(process, has_id, &mount.id, mount.type) == 0)
		mount.is_served = is_served(mount.type, has_our_users(process));
	*ret = mount;
	return 0;
}

int limpet_mount_type_at(const char *process, const char *point, char ret_type[32])
{
	return find(process, has_point, point, ret_type);
}
