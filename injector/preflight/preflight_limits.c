/* Preflight: the kernel, the processor, and the room that the target's limits leave. */
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
#include "injector/preflight/preflight_check.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/message_queue.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/priority.h"
#include "injector/remote/segment.h"

/* ------------------------------------------------------------------ kernel */

void limpet_check_kernel(struct limpet_check *check)
{
	struct utsname name;

	/* ask instead of reading the version: distributions backport */
	if (syscall(SYS_close_range, 1, 0, 0) < 0 && errno == ENOSYS) {
		uname(&name);
		limpet_check_refuse(check, -ENOSYS, "kernel", "kernel too old",
				    "this kernel (%s) has no close_range(2): limpet requires Linux "
				    "5.9 or later",
				    name.release);
		limpet_check_hint(check, "update the kernel");
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
				    "it runs with a shadow stack (CET), which limpet's calls would "
				    "violate");
		limpet_check_hint(check, "start it with GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK");
	}
}

void limpet_check_priority(struct limpet_check *check)
{
	if (limpet_priority_is_allowed())
		return;
	limpet_check_add(check, LIMPET_FINDING_NOTE, "priority", "ordinary priority",
			 "limpet may not raise its priority here (CAP_SYS_NICE): on a busy machine "
			 "stops last longer, and events may be dropped");
}

/* ------------------------------------------------------------------ memory */

static void check_cgroup(struct limpet_check *check, uint64_t want_bytes)
{
	char room_text[LIMPET_UNITS_TEXT], want_text[LIMPET_UNITS_TEXT];
	uint64_t room_bytes = 0, fit;
	struct limpet_cgroup group;

	if (limpet_cgroup_find(check->target, &group) < 0 ||
	    limpet_cgroup_headroom(&group, &room_bytes) < 0)
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
			    "--memory)",
			    room_text, want_text);
	fit = room_bytes / 2 >> 20;
	if (fit >= LIMPET_AGENT_LEAST_BYTES >> 20)
		limpet_check_hint(check, "--memory %lluM", (unsigned long long)fit);
	else
		limpet_check_hint(check, "raise the container's memory limit");
}

/* False: refused. */
static bool check_limit(struct limpet_check *check, const char *limit, const char *id,
			const char *what, uint64_t used_bytes, uint64_t want_bytes)
{
	char limit_text[LIMPET_UNITS_TEXT], want_text[LIMPET_UNITS_TEXT];
	uint64_t limit_bytes;

	if (limpet_proc_limit(check->target->pid, limit, &limit_bytes) < 0 ||
	    (used_bytes < limit_bytes && limit_bytes - used_bytes >= want_bytes))
		return true;
	limpet_check_refuse(check, -ENOMEM, id, "memory limit",
			    "its %s is limited to %s, which leaves less than %s for limpet and the "
			    "program (most of it stays untouched)",
			    what, limpet_units_format_bytes(limit_text, limit_bytes),
			    limpet_units_format_bytes(want_text, want_bytes));
	return false;
}

/* Memory that is locked, as some programs do with their secrets (mlock(2)), does not tell whether
 * what is mapped later will be, too; if it is most of all memory (mlockall(2)), probably. Else the
 * attach asks the kernel before it maps anything. */
static void check_locked(struct limpet_check *check, uint64_t memory_bytes)
{
	const uint64_t private = LIMPET_AGENT_PRIVATE_BYTES, more = 1 << 20;
	const struct limpet_proc_status *status = &check->status;
	const uint64_t room = limpet_proc_lock_room(check->target->pid, status);

	if (room == UINT64_MAX || status->locked_bytes < status->vm_bytes / 2 ||
	    check_limit(check, "Max locked memory", "locked-memory", "locked memory (mlockall(2))",
			status->locked_bytes,
			(memory_bytes > private ? memory_bytes : private) + more))
		return;
	if (room >= private + more)
		limpet_check_hint(check, "--memory %lluM",
				  (unsigned long long)((room - more) >> 20));
	else
		limpet_check_hint(check, "sudo prlimit --pid %d --memlock=unlimited",
				  check->target->pid);
}

void limpet_check_memory(struct limpet_check *check)
{
	uint64_t memory_bytes = check->options.config.agent_memory_bytes;

	/* As much again is left to the program, which will want some during the capture. */
	check_cgroup(check, 2 * memory_bytes);
	if (!check_limit(check, "Max address space", "address-space", "address space",
			 check->status.vm_bytes, 2 * (memory_bytes + LIMPET_AGENT_PRIVATE_BYTES)))
		limpet_check_hint(check, "sudo prlimit --pid %d --as=unlimited",
				  check->target->pid);
	/* Less than a quarter is not shared with limpet; and what cannot be written counts as data,
	 * too. */
	if (!check_limit(check, "Max data size", "data-size", "data", check->status.data_bytes,
			 2 * (memory_bytes / 16 * 9 + LIMPET_AGENT_PRIVATE_BYTES)))
		limpet_check_hint(check, "sudo prlimit --pid %d --data=unlimited",
				  check->target->pid);
	check_locked(check, memory_bytes);
}

/* ------------------------------------------------------------------ threads */

/* One more exists for a moment at the attach. */
void limpet_check_threads_left(struct limpet_check *check)
{
	uint64_t left;

	if (limpet_cgroup_tasks_left(check->target, &left) < 0 || left)
		return;
	limpet_check_refuse(check, -EAGAIN, "threads-left", "no thread left",
			    "its cgroup has as many threads as it may have (pids.max), and limpet "
			    "needs one more for a moment");
	limpet_check_hint(check, "raise that limit (docker update --pids-limit)");
}

/* That thread's first call closes copies of descriptors. `limpet run` begins with a process that
 * has asked for nothing yet. */
void limpet_check_message_queues(struct limpet_check *check)
{
	const int queue =
		check->options.launched ? -1 : limpet_proc_notifying_queue(check->target->pid);

	if (queue < 0)
		return;
	limpet_check_refuse(check, -EBUSY, "message-queue", "awaits a message",
			    "it has asked to be told of the next message in a queue, its "
			    "descriptor %d (mq_notify(3)): the kernel would take that back when "
			    "limpet makes a thread, for a moment",
			    queue);
	limpet_check_hint(check, "look at it from outside: limpet explain %d", check->target->pid);
}

/* ------------------------------------------------------------------ mappings */

/* An attach needs some thirty for a moment, and fifteen for the duration of the capture; the rest
 * is left for the program. */
#define MAPPINGS_WANTED 320

/* At the limit even munmap fails if it would split another mapping. */
void limpet_check_mappings(struct limpet_check *check)
{
	/* Two for each window of what hooks write, which is less than half of the memory; of more
	 * than the maximum there are no windows. */
	const uint64_t memory =
		check->options.config.agent_memory_bytes < 2 * LIMPET_WINDOWS_MAX_BYTES
			? check->options.config.agent_memory_bytes
			: 2 * LIMPET_WINDOWS_MAX_BYTES;
	const uint64_t wanted = MAPPINGS_WANTED + memory / LIMPET_WINDOW_BYTES;
	uint64_t limit, used = check->maps.count;

	if (limpet_proc_number_read("sys/vm/max_map_count", &limit) < 0 || used + wanted <= limit)
		return;
	limpet_check_refuse(check, -ENOMEM, "mappings", "no mappings left",
			    "it has %llu of %llu mappings in use (vm.max_map_count), and limpet "
			    "needs %llu more",
			    (unsigned long long)used, (unsigned long long)limit,
			    (unsigned long long)wanted);
	limpet_check_hint(
		check, "sudo sysctl vm.max_map_count=%llu",
		(unsigned long long)(used + wanted > 2 * limit ? used + wanted : 2 * limit));
}

/* ------------------------------------------------------------------ namespaces */

void limpet_check_namespaces(struct limpet_check *check)
{
	static const char *const kinds[] = {"mnt", "pid", "net", "user"};
	char list[64] = "", mine[64], theirs[64], name[16];

	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++) {
		snprintf(name, sizeof(name), "ns/%s", kinds[i]);
		if (limpet_proc_link_read(getpid(), name, mine, sizeof(mine)) < 0 ||
		    limpet_proc_link_read(check->target->pid, name, theirs, sizeof(theirs)) < 0 ||
		    !strcmp(mine, theirs))
			continue;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 list[0] ? ", " : "", kinds[i]);
	}
	if (!list[0])
		return;
	limpet_check_add(check, LIMPET_FINDING_NOTE, "namespaces", "container",
			 "it has namespaces of its own (%s)%s: this works from here", list,
			 check->status.other_pid_ns ? ", as in a container" : "");
}
