#include "injector/proc/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

/* Decodes \040 and the like in a field of mountinfo, in place. */
static void unescape_mount(char *text)
{
	char *out = text;

	for (const char *in = text; *in; out++) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
		    in[3] >= '0' && in[3] <= '7') {
			*out = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
}

/* The target's group as a path below the mounted hierarchy, or NULL. `line` of /proc/PID/cgroup is
 * "0::/path" (v2, without a controller here) or "4:cpu,memory:/path" (v1). */
static const char *group_path(char *line, const char *controller)
{
	char *controllers = strchr(line, ':'), *path;

	if (!controllers)
		return NULL;
	controllers++;
	path = strchr(controllers, ':');
	if (!path)
		return NULL;
	*path++ = '\0';
	if (!controller)
		return !*controllers ? path : NULL;
	for (char *save, *name = strtok_r(controllers, ",", &save); name;
	     name = strtok_r(NULL, ",", &save))
		if (!strcmp(name, controller))
			return path;
	return NULL;
}

static bool has_option(const char *options, const char *wanted)
{
	size_t length = strlen(wanted);

	for (const char *at = options; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, wanted, length) && strchr(",\n ", at[length]))
			return true;
	}
	return false;
}

/* Finds where the controller, or v2, is mounted: "... ROOT MOUNTPOINT OPTIONS ... - TYPE SOURCE
 * SUPER" (proc(5)). ROOT is "/" in the group namespace that made the mount. */
static bool find_mount(const char *controller, char *ret_root, char *ret_point)
{
	LIMPET_FREE char *text = NULL;
	char *save, *line;
	size_t bytes;

	if (limpet_proc_file_read(0, "self/mountinfo", &text, &bytes) < 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *tail = strstr(line, " - ");
		char type[16], super[512] = "";

		if (!tail || sscanf(tail, " - %15s %*s %511s", type, super) < 1)
			continue;
		if (controller ? strcmp(type, "cgroup") != 0 || !has_option(super, controller)
			       : strcmp(type, "cgroup2") != 0)
			continue;
		if (sscanf(line, "%*s %*s %*s %4095s %4095s", ret_root, ret_point) != 2)
			continue;
		unescape_mount(ret_root);
		unescape_mount(ret_point);
		return true;
	}
	return false;
}

static bool goes_up(const char *path)
{
	for (const char *at = path; (at = strstr(at, "/..")); at++)
		if (!at[3] || at[3] == '/')
			return true;
	return false;
}

static bool find_group(pid_t pid, const char *controller, struct limpet_cgroup *ret_group)
{
	LIMPET_FREE char *text = NULL;
	char root[4096], point[4096];
	char *save, *line;
	size_t bytes, root_length;

	if (!find_mount(controller, root, point) ||
	    limpet_proc_file_read(pid, "cgroup", &text, &bytes) < 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *path = group_path(line, controller);

		if (!path || goes_up(path)) /* not visible from our namespace */
			continue;
		root_length = strcmp(root, "/") ? strlen(root) : 0;
		if (root_length && !strncmp(path, root, root_length))
			path += root_length;
		if (!strcmp(path, "/"))
			path = "";
		if (snprintf(ret_group->directory, sizeof(ret_group->directory), "%s%s", point,
			     path) >= (int)sizeof(ret_group->directory))
			return false;
		ret_group->mount_length = strlen(point);
		ret_group->unified = !controller;
		return true;
	}
	return false;
}

/* Reads a number from a file of a group. "max" and v1's largest page-aligned number mean that there
 * is no limit. */
static bool read_group(const char *directory, const char *name, const char *key,
		       uint64_t *ret_value)
{
	char path[PATH_MAX + 64], line[128];
	LIMPET_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *at = line;
		char *stop;
		uint64_t value;

		if (key) {
			if (strncmp(line, key, strlen(key)) || line[strlen(key)] != ' ')
				continue;
			at += strlen(key) + 1;
		}
		errno = 0;
		value = strtoull(at, &stop, 10);
		if (stop == at || errno || value >= (uint64_t)INT64_MAX - 65536)
			return false;
		*ret_value = value;
		return true;
	}
	return false;
}

/* False: it is the highest that is mounted here. */
static bool to_parent(char *directory, size_t mount_length)
{
	char *slash = strrchr(directory, '/');

	if (!slash || (size_t)(slash - directory) < mount_length)
		return false;
	*slash = '\0';
	return true;
}

/* Memory that may still be charged to the group and its ancestors: the least limit - usage. File
 * pages that were not used lately do not count as used, since the kernel drops them first. */
static int look_up(const struct limpet_cgroup *group, uint64_t *ret_room_bytes,
		   uint64_t *ret_limit_bytes)
{
	uint64_t room_bytes = UINT64_MAX, limit_bytes = UINT64_MAX;
	char directory[PATH_MAX];

	snprintf(directory, sizeof(directory), "%s", group->directory);
	do {
		uint64_t limit = UINT64_MAX, value, usage, reclaimable = 0, room;

		if (read_group(directory, group->unified ? "memory.max" : "memory.limit_in_bytes",
			       NULL, &value))
			limit = value;
		/* above this the group is not killed, but throttled */
		if (group->unified && read_group(directory, "memory.high", NULL, &value) &&
		    value < limit)
			limit = value;
		if (limit != UINT64_MAX &&
		    read_group(directory,
			       group->unified ? "memory.current" : "memory.usage_in_bytes", NULL,
			       &usage)) {
			(void)read_group(directory, "memory.stat",
					 group->unified ? "inactive_file" : "total_inactive_file",
					 &reclaimable);
			usage -= reclaimable < usage ? reclaimable : usage;
			room = usage < limit ? limit - usage : 0;
			if (room < room_bytes)
				room_bytes = room;
			if (limit < limit_bytes)
				limit_bytes = limit;
		}
	} while (to_parent(directory, group->mount_length));
	if (limit_bytes == UINT64_MAX)
		return -ENODATA;
	*ret_room_bytes = room_bytes;
	*ret_limit_bytes = limit_bytes;
	return 0;
}

int limpet_cgroup_find(const struct limpet_target *target, struct limpet_cgroup *ret)
{
	/* v1 first: where both are mounted (hybrid), v1 has the memory controller */
	if (!find_group(target->pid, "memory", ret) && !find_group(target->pid, NULL, ret))
		return -ENOENT;
	return limpet_target_still_has_pid(target);
}

int limpet_cgroup_headroom(const struct limpet_cgroup *group, uint64_t *ret_bytes)
{
	uint64_t limit_bytes;

	return look_up(group, ret_bytes, &limit_bytes);
}

int limpet_cgroup_limit(const struct limpet_cgroup *group, uint64_t *ret_bytes)
{
	uint64_t room_bytes;

	return look_up(group, &room_bytes, ret_bytes);
}

int limpet_cgroup_usage(const struct limpet_cgroup *group, uint64_t *ret_bytes)
{
	const char *name = group->unified ? "memory.current" : "memory.usage_in_bytes";

	return read_group(group->directory, name, NULL, ret_bytes) ? 0 : -ENODATA;
}

/* ------------------------------------------------------------------ threads */

int limpet_cgroup_tasks_left(const struct limpet_target *target, uint64_t *ret)
{
	struct limpet_cgroup group;
	uint64_t left = UINT64_MAX;

	if ((!find_group(target->pid, "pids", &group) && !find_group(target->pid, NULL, &group)) ||
	    limpet_target_still_has_pid(target) < 0)
		return -ENODATA;
	do {
		uint64_t limit, current;

		if (read_group(group.directory, "pids.max", NULL, &limit) &&
		    read_group(group.directory, "pids.current", NULL, &current)) {
			const uint64_t here = current < limit ? limit - current : 0;

			left = here < left ? here : left;
		}
	} while (to_parent(group.directory, group.mount_length));
	if (left == UINT64_MAX)
		return -ENODATA;
	*ret = left;
	return 0;
}

/* ------------------------------------------------------------------ frozen */

/* The nearest group that was frozen itself: what is below stands, too. A group above those that are
 * mounted here is not seen; then the process's own says that it is frozen. */
static bool find_frozen(struct limpet_cgroup *group)
{
	const char *itself = group->unified ? "cgroup.freeze" : "freezer.self_freezing";
	char directory[PATH_MAX];
	uint64_t value;

	snprintf(directory, sizeof(directory), "%s", group->directory);
	do {
		if (read_group(directory, itself, NULL, &value) && value) {
			snprintf(group->directory, sizeof(group->directory), "%s", directory);
			return true;
		}
	} while (to_parent(directory, group->mount_length));
	return group->unified
		       ? read_group(group->directory, "cgroup.events", "frozen", &value) && value
		       : read_group(group->directory, "freezer.parent_freezing", NULL, &value) &&
				 value;
}

bool limpet_cgroup_frozen(pid_t pid, struct limpet_cgroup *ret)
{
	return (find_group(pid, "freezer", ret) && find_frozen(ret)) ||
	       (find_group(pid, NULL, ret) && find_frozen(ret));
}

void limpet_cgroup_thaw_words(const struct limpet_target *target, const struct limpet_cgroup *group,
			      char *ret, size_t room)
{
	const char *runtime = strstr(group->directory, "docker")   ? "docker"
			      : strstr(group->directory, "libpod") ? "podman"
								   : NULL;
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "/._@:=+-";
	char container[LIMPET_CONTAINER_ID_BYTES];

	if (runtime && limpet_container_id(target, container) == 0)
		snprintf(ret, room, "%s unpause %.12s", runtime, container);
	else if (group->directory[strspn(group->directory, plain)])
		/* Another user may have named it, and this one may paste the command. */
		snprintf(ret, room, "write %s of that group",
			 group->unified ? "0 to cgroup.freeze" : "THAWED to freezer.state");
	else if (group->unified)
		snprintf(ret, room, "echo 0 > %s/cgroup.freeze", group->directory);
	else
		snprintf(ret, room, "echo THAWED > %s/freezer.state", group->directory);
}

bool limpet_cgroup_explain_frozen(const struct limpet_target *target, struct limpet_err *err)
{
	struct limpet_cgroup group;
	char words[sizeof(err->hint)];

	if (!limpet_cgroup_frozen(target->pid, &group))
		return false;
	limpet_err_set(err, -EBUSY, "process %d is frozen, by its control group %s", target->pid,
		       group.directory);
	limpet_cgroup_thaw_words(target, &group, words, sizeof(words));
	limpet_err_hint(err, "thaw it: %s", words);
	return true;
}

/* ------------------------------------------------------------------ containers */

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The last run of exactly 64 digits in the line: containers can be nested. */
static const char *last_id(const char *line)
{
	const char *found = NULL;

	for (const char *at = line; *at && *at != '\n';) {
		size_t digits = 0;

		while (is_hex(at[digits]))
			digits++;
		if (digits == LIMPET_CONTAINER_ID_BYTES - 1)
			found = at;
		at += digits ? digits : 1;
	}
	return found;
}

/* Docker, containerd, CRI-O and Podman name a container's group by its id: "/docker/ID",
 * "docker-ID.scope", "/kubepods/.../cri-containerd-ID.scope", "libpod-ID.scope". From inside a
 * group namespace the path is "/": then the id is in the paths of the files that Docker
 * ("/containers/ID/hostname") and Podman ("/overlay-containers/ID/...") mount over those of the
 * image. */
int limpet_container_id(const struct limpet_target *target, char *ret)
{
	static const struct {
		const char *file, *mark;
	} places[] = {{"cgroup", ""}, {"mountinfo", "containers/"}};

	for (size_t i = 0; i < LIMPET_COUNT_OF(places); i++) {
		LIMPET_FREE char *text = NULL;
		size_t bytes;

		if (limpet_proc_file_read(target->pid, places[i].file, &text, &bytes) < 0 ||
		    limpet_target_still_has_pid(target) < 0)
			continue;
		for (const char *line = text; line; line = strchr(line, '\n')) {
			const char *found;

			line += *line == '\n';
			found = last_id(line);
			if (!found || (size_t)(found - line) < strlen(places[i].mark) ||
			    memcmp(found - strlen(places[i].mark), places[i].mark,
				   strlen(places[i].mark)) != 0)
				continue;
			memcpy(ret, found, LIMPET_CONTAINER_ID_BYTES - 1);
			ret[LIMPET_CONTAINER_ID_BYTES - 1] = '\0';
			return 0;
		}
	}
	return -ENOENT;
}
