/* Preflight: what the kernel, the processor and the target's limits leave room for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/units.h"
#include "common/wire.h"
#include "injector/preflight_check.h"

/* ------------------------------------------------------------------ kernel */

void limpet_check_kernel(struct limpet_check *check)
{
	struct utsname name;

	/* asked, not read off the version: distributions backport, containers forbid */
	if (syscall(SYS_pidfd_getfd, -1, -1, 0) < 0 && errno == ENOSYS) {
		uname(&name);
		limpet_check_refuse(check, -ENOSYS, "kernel", "kernel too old",
				    "this kernel (%s) has no pidfd_getfd(2): it takes Linux 5.6 or "
				    "later",
				    name.release);
		limpet_check_hint(check, "update the kernel");
	} else if (errno != EBADF) {
		limpet_check_refuse(check, -errno, "kernel", "pidfd_getfd forbidden",
				    "pidfd_getfd(2) is forbidden to limpet here: %s",
				    strerror(errno));
		limpet_check_hint(check, "start this container with --cap-add SYS_PTRACE, or run "
					 "limpet on the host");
	}
}

void limpet_check_shadow_stack(struct limpet_check *check)
{
	LIMPET_FREE char *text = NULL;
	const char *line;
	size_t bytes;

	if (limpet_proc_file_read(check->resident, "status", &text, &bytes) < 0)
		return;
	/* Documentation/arch/x86/shstk.rst: "x86_Thread_features:\tshstk wrss" */
	line = strstr(text, "_Thread_features:");
	if (!line)
		return;
	text[line - text + (ptrdiff_t)strcspn(line, "\n")] = '\0';
	if (strstr(line, "shstk")) {
		limpet_check_refuse(check, -ENOTSUP, "shadow-stack", "shadow stack",
				    "it runs with a shadow stack (CET), which a foreign call would "
				    "violate");
		limpet_check_hint(check, "start it with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK");
	}
}

void limpet_check_clock(struct limpet_check *check)
{
	/* what the kernel itself trusts to be the same on all processors */
	static const char *const fast[] = {"tsc", "arch_sys_counter"};
	LIMPET_CLOSE int fd = -1;
	char path[PATH_MAX], source[32];
	ssize_t got;

	snprintf(path, sizeof(path),
		 "%s/devices/system/clocksource/clocksource0/current_clocksource",
		 limpet_preflight_sys_root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, source, sizeof(source) - 1);
	if (got <= 0)
		return;
	source[got] = '\0';
	source[strcspn(source, "\n")] = '\0';
	for (size_t i = 0; i < LIMPET_COUNT_OF(fast); i++)
		check->out->clock_is_tsc |= !strcmp(source, fast[i]);
	if (!check->out->clock_is_tsc)
		limpet_check_add(
			check, LIMPET_FINDING_NOTE, "clock", "slow clock",
			"the kernel's clock source is %s, not the processor's counter: each "
			"event costs somewhat more",
			source);
}

/* ------------------------------------------------------------------ memory */

struct cgroup {
	char folder[PATH_MAX]; /* of the target's own group */
	size_t mount_length;   /* the mount point is its head */
	bool unified;
};

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
 * "0::/path" (v2) or "4:cpu,memory:/path" (v1). */
static const char *group_path(char *line, bool unified)
{
	char *controllers = strchr(line, ':'), *path;

	if (!controllers)
		return NULL;
	controllers++;
	path = strchr(controllers, ':');
	if (!path)
		return NULL;
	*path++ = '\0';
	if (unified)
		return !*controllers ? path : NULL;
	for (char *save, *name = strtok_r(controllers, ",", &save); name;
	     name = strtok_r(NULL, ",", &save))
		if (!strcmp(name, "memory"))
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

/* Finds where the memory controller is mounted: "... ROOT MOUNTPOINT OPTIONS ... - TYPE SOURCE
 * SUPER" (proc(5)). ROOT is "/" in the group namespace that made the mount. */
static bool find_mount(bool unified, char *ret_root, char *ret_point)
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
		if (unified ? strcmp(type, "cgroup2") != 0
			    : strcmp(type, "cgroup") != 0 || !has_option(super, "memory"))
			continue;
		if (sscanf(line, "%*s %*s %*s %4095s %4095s", ret_root, ret_point) != 2)
			continue;
		unescape_mount(ret_root);
		unescape_mount(ret_point);
		return true;
	}
	return false;
}

static bool find_group(pid_t pid, bool unified, struct cgroup *ret_group)
{
	LIMPET_FREE char *text = NULL;
	char root[4096], point[4096];
	char *save, *line;
	size_t bytes, root_length;

	if (!find_mount(unified, root, point) ||
	    limpet_proc_file_read(pid, "cgroup", &text, &bytes) < 0)
		return false;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *path = group_path(line, unified);

		if (!path || strstr(path, "/..")) /* outside of what we may see */
			continue;
		root_length = strcmp(root, "/") ? strlen(root) : 0;
		if (root_length && !strncmp(path, root, root_length))
			path += root_length;
		if (!strcmp(path, "/"))
			path = "";
		if (snprintf(ret_group->folder, sizeof(ret_group->folder), "%s%s", point, path) >=
		    (int)sizeof(ret_group->folder))
			return false;
		ret_group->mount_length = strlen(point);
		ret_group->unified = unified;
		return true;
	}
	return false;
}

/* A number in a file of a group; "max" and v1's largest page-aligned number are no limit. */
static bool read_group(const char *folder, const char *name, const char *key, uint64_t *ret_value)
{
	char path[PATH_MAX + 64], line[128];
	LIMPET_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
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

/* Memory that may still be charged to the group and those above it: the least of limit - usage,
 * where file pages that nobody used lately do not count as used (the kernel drops them first). */
static bool group_headroom(const struct cgroup *group, uint64_t *ret_bytes)
{
	char folder[PATH_MAX];
	bool limited = false;

	snprintf(folder, sizeof(folder), "%s", group->folder);
	for (;;) {
		uint64_t limit = UINT64_MAX, value, usage, reclaimable = 0, room;
		char *slash;

		if (read_group(folder, group->unified ? "memory.max" : "memory.limit_in_bytes",
			       NULL, &value))
			limit = value;
		/* above it the group is not killed, but slowed down until it hurts */
		if (group->unified && read_group(folder, "memory.high", NULL, &value) &&
		    value < limit)
			limit = value;
		if (limit != UINT64_MAX &&
		    read_group(folder, group->unified ? "memory.current" : "memory.usage_in_bytes",
			       NULL, &usage)) {
			(void)read_group(folder, "memory.stat",
					 group->unified ? "inactive_file" : "total_inactive_file",
					 &reclaimable);
			usage -= reclaimable < usage ? reclaimable : usage;
			room = usage < limit ? limit - usage : 0;
			if (!limited || room < *ret_bytes)
				*ret_bytes = room;
			limited = true;
		}
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < group->mount_length)
			return limited;
		*slash = '\0';
	}
}

static void check_cgroup(struct limpet_check *check, uint64_t want_bytes)
{
	char room_text[LIMPET_UNITS_TEXT], want_text[LIMPET_UNITS_TEXT];
	uint64_t room_bytes = 0, fit;
	struct cgroup group;
	/* v1 first: where both are mounted (hybrid) memory is with v1 */
	bool found = find_group(check->pid, false, &group) || find_group(check->pid, true, &group);

	if (!found || !group_headroom(&group, &room_bytes))
		return;
	limpet_units_format_bytes(room_text, room_bytes);
	limpet_units_format_bytes(want_text, want_bytes);
	if (room_bytes >= want_bytes) {
		limpet_check_add(check, LIMPET_FINDING_OK, "memory", "",
				 "memory: its cgroup has %s left", room_text);
		return;
	}
	limpet_check_refuse(check, -ENOMEM, "memory", "too little memory",
			    "its cgroup has %s of memory left, and limpet wants %s (twice "
			    "--agent-memory)",
			    room_text, want_text);
	fit = room_bytes / 2 >> 20;
	if (fit >= 4)
		limpet_check_hint(check, "--agent-memory %lluM", (unsigned long long)fit);
	else
		limpet_check_hint(check, "raise the container's memory limit");
}

/* A limit of /proc/PID/limits by its name; false: unlimited or unknown. */
static bool read_limit(pid_t pid, const char *name, uint64_t *ret_soft)
{
	LIMPET_FREE char *text = NULL;
	const char *line;
	char *stop;
	size_t bytes;

	if (limpet_proc_file_read(pid, "limits", &text, &bytes) < 0)
		return false;
	line = strstr(text, name);
	if (!line)
		return false;
	line += strlen(name);
	errno = 0;
	*ret_soft = strtoull(line, &stop, 10);
	return stop != line && !errno;
}

/* False: refused. */
static bool check_limit(struct limpet_check *check, const char *limit, const char *id,
			const char *what, uint64_t used_bytes, uint64_t want_bytes)
{
	char limit_text[LIMPET_UNITS_TEXT], want_text[LIMPET_UNITS_TEXT];
	uint64_t limit_bytes;

	if (!read_limit(check->pid, limit, &limit_bytes) ||
	    (used_bytes < limit_bytes && limit_bytes - used_bytes >= want_bytes))
		return true;
	limpet_check_refuse(check, -ENOMEM, id, "memory limit",
			    "its %s is limited to %s, which leaves too little of the %s that "
			    "limpet takes (most of it stays untouched)",
			    what, limpet_units_format_bytes(limit_text, limit_bytes),
			    limpet_units_format_bytes(want_text, want_bytes));
	return false;
}

void limpet_check_memory(struct limpet_check *check)
{
	uint64_t memory_bytes = check->options.agent_memory_bytes;

	check_cgroup(check, 2 * memory_bytes);
	if (!check_limit(check, "Max address space", "address-space", "address space",
			 check->status.vm_bytes, memory_bytes + LIMPET_AGENT_PRIVATE_BYTES))
		limpet_check_hint(check, "sudo prlimit --pid %d --as=unlimited", check->pid);
	if (!check_limit(check, "Max data size", "data-size", "data", check->status.data_bytes,
			 LIMPET_AGENT_PRIVATE_BYTES))
		limpet_check_hint(check, "sudo prlimit --pid %d --data=unlimited", check->pid);
}

/* ------------------------------------------------------------------ descriptors */

/* The agent's file, a pair of sockets, the copies at the top, and the two memories on arrival. */
#define DESCRIPTORS_WANTED 8

void limpet_check_files(struct limpet_check *check)
{
	LIMPET_FREE int *fds = NULL;
	uint64_t soft;
	int used, below = 0;

	if (limpet_proc_limit_files(check->pid, &soft) < 0)
		return;
	/* the table's size is an upper bound for what is used: most stop here */
	if (check->status.fd_size + DESCRIPTORS_WANTED <= soft)
		return;
	used = limpet_proc_fds(check->pid, &fds);
	if (used < 0)
		return;
	while (below < used && (uint64_t)fds[below] < soft)
		below++;
	if ((uint64_t)below + DESCRIPTORS_WANTED <= soft)
		return;
	limpet_check_refuse(
		check, -EMFILE, "descriptors", "no descriptors left",
		"it has %d of %llu descriptors in use, and limpet needs %d for a moment", below,
		(unsigned long long)soft, DESCRIPTORS_WANTED);
	limpet_check_hint(check, "sudo prlimit --pid %d --nofile=%llu:", check->pid,
			  (unsigned long long)soft + 64);
}

/* ------------------------------------------------------------------ namespaces */

void limpet_check_namespaces(struct limpet_check *check)
{
	static const char *const kinds[] = {"mnt", "pid", "net", "user"};
	char list[64] = "", mine[64], theirs[64], name[16];

	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++) {
		snprintf(name, sizeof(name), "ns/%s", kinds[i]);
		if (limpet_proc_link_read(getpid(), name, mine, sizeof(mine)) < 0 ||
		    limpet_proc_link_read(check->pid, name, theirs, sizeof(theirs)) < 0 ||
		    !strcmp(mine, theirs))
			continue;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 list[0] ? ", " : "", kinds[i]);
	}
	if (!list[0])
		return;
	limpet_check_add(check, LIMPET_FINDING_NOTE, "namespaces", "container",
			 "it has namespaces of its own (%s)%s: this works from here", list,
			 check->status.ns_pid != check->pid ? ", as in a container" : "");
}
