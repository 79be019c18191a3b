/* The control group to which a process's memory is charged, that by which it is frozen, and the
 * container that it is in, from /proc/PID/cgroup and the mounts of this process. Any thread;
 * nothing is kept open. Functions return 0 or -errno; results are untouched on failure. */
#ifndef LIMPET_INJECTOR_PROC_CGROUP_H
#define LIMPET_INJECTOR_PROC_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

struct limpet_cgroup {
	char directory[PATH_MAX]; /* of the process's own group */
	size_t mount_length;      /* the mount point is the first part of it */
	bool unified;             /* v2 */
};

/* -ENOENT: no memory controller is visible from here. */
int limpet_cgroup_find(const struct limpet_target *target, struct limpet_cgroup *ret);
/* Memory that may still be charged to the group and its ancestors, and the least limit of these;
 * -ENODATA: none has a limit. */
int limpet_cgroup_headroom(const struct limpet_cgroup *group, uint64_t *ret_bytes);
int limpet_cgroup_limit(const struct limpet_cgroup *group, uint64_t *ret_bytes);
/* Memory charged to the group, including file pages. Reads one small file. -ENODATA: unknown, as
 * for the root group. */
int limpet_cgroup_usage(const struct limpet_cgroup *group, uint64_t *ret_bytes);

/* Threads that may still be made in the groups of the process and above; 0: none. -ENODATA: no
 * limit, or unknown. */
int limpet_cgroup_tasks_left(const struct limpet_target *target, uint64_t *ret);

/* Whether the process is frozen, or about to be (docker pause, v1's freezer, v2's cgroup.freeze):
 * none of its threads runs or can be stopped until it is thawed. *ret: the group that was frozen.
 * Reads some small files. False also if its groups are not visible from here. */
bool limpet_cgroup_frozen(pid_t pid, struct limpet_cgroup *ret);
/* The command that thaws it. */
void limpet_cgroup_thaw_words(const struct limpet_target *target, const struct limpet_cgroup *group,
			      char *ret, size_t room);
/* If it is frozen, says so: -EBUSY, with that command as the hint. `err` may be NULL. */
bool limpet_cgroup_explain_frozen(const struct limpet_target *target, struct limpet_err *err);

/* 64 hexadecimal digits and a NUL. -ENOENT: not in a container of a runtime that names groups so.
 */
#define LIMPET_CONTAINER_ID_BYTES 65
int limpet_container_id(const struct limpet_target *target, char *ret);

#endif
