#include "injector/preflight/preflight_permission.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "injector/preflight/preflight_check.h"
#include "injector/proc/target_process.h"

#define BIT_SYS_PTRACE (1ull << CAP_SYS_PTRACE)
/* For how long a process of the program's own may trace it: a second. */
#define OWN_TRACER_READS 100u
#define OWN_TRACER_PAUSE_NS 10000000

enum limpet_permission_reason limpet_permission_explain(const struct limpet_permission_facts *facts)
{
	bool ids_match = true;
	/* a capability of ours counts in the target's namespace if that is ours or a descendant of
	 * it; otherwise it does not */
	bool capable = facts->capable;

	/* before all others: not even a capability helps */
	if (facts->yama >= 3)
		return LIMPET_PERMISSION_YAMA_NOBODY;
	for (int i = 0; i < 3; i++)
		ids_match = ids_match && facts->target_uid[i] == facts->uid &&
			    facts->target_gid[i] == facts->gid;
	if (capable && !facts->same_user_namespace && facts->in_container)
		return LIMPET_PERMISSION_USER_NAMESPACE;
	if (!ids_match && !capable)
		return LIMPET_PERMISSION_UID;
	if (!facts->dumpable && !capable)
		return LIMPET_PERMISSION_DUMPABLE;
	if (!capable && !facts->same_user_namespace)
		return LIMPET_PERMISSION_USER_NAMESPACE;
	if (!capable && (facts->target_capabilities & ~facts->capabilities))
		return LIMPET_PERMISSION_CAPABILITIES;
	if (facts->yama == 2 && !capable)
		return LIMPET_PERMISSION_YAMA_ADMIN;
	if (facts->yama == 1 && !capable && !facts->is_descendant)
		return LIMPET_PERMISSION_YAMA_CHILD;
	/* From outside such a process of root's looks like any other process of root's. */
	if (!capable && facts->target_uid[1] == 0 && !facts->label[0])
		return LIMPET_PERMISSION_DUMPABLE;
	return LIMPET_PERMISSION_SECURITY_MODULE;
}

/* ------------------------------------------------------------------ facts */

static int read_yama(void)
{
	uint64_t scope;

	return limpet_proc_number_read("sys/kernel/yama/ptrace_scope", &scope) < 0 ? -1
										   : (int)scope;
}

/* The files of a process that is not dumpable belong to root, the directory itself never does
 * (task_dump_owner() in fs/proc/base.c). A process of root's always looks like this: there it
 * matters only if we lack the capability. */
static bool is_dumpable(const struct limpet_check *check)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%d/maps", limpet_proc_root, check->resident);
	return stat(path, &st) || st.st_uid == check->status.euid;
}

static bool is_descendant(pid_t pid)
{
	for (int level = 0; pid > 1 && level < 1000; level++) {
		struct limpet_proc_status status;

		if (limpet_proc_status_read(pid, &status) < 0)
			return false;
		if (status.ppid == getpid())
			return true;
		pid = status.ppid;
	}
	return false;
}

/* The initial user namespace maps every id to itself. */
static bool in_container(void)
{
	LIMPET_FREE char *text = NULL;
	unsigned long map[3];
	size_t bytes;
	char *at;

	if (limpet_proc_file_read(getpid(), "uid_map", &text, &bytes) < 0)
		return false;
	at = text;
	for (int i = 0; i < 3; i++)
		map[i] = strtoul(at, &at, 10);
	return map[0] != 0 || map[1] != 0 || map[2] != UINT32_MAX;
}

static bool same_user_namespace(pid_t pid, bool capable)
{
	char mine[64], theirs[64];

	if (limpet_proc_link_read(getpid(), "ns/user", mine, sizeof(mine)) < 0)
		return true;
	/* If the link is not readable: most processes share one namespace. But whoever has the
	 * capability in a namespace can read the link of each process in it. */
	if (limpet_proc_link_read(pid, "ns/user", theirs, sizeof(theirs)) < 0)
		return !capable;
	return !strcmp(mine, theirs);
}

static void gather(const struct limpet_check *check, char *label, size_t label_room,
		   struct limpet_permission_facts *ret_facts)
{
	const struct limpet_proc_status *target = &check->status;
	struct limpet_proc_status own = {0};
	LIMPET_FREE char *text = NULL;
	bool capable;
	size_t bytes;

	(void)limpet_proc_status_read(getpid(), &own);
	capable = (own.cap_effective & BIT_SYS_PTRACE) != 0;
	label[0] = '\0';
	if (limpet_proc_file_read(check->target->pid, "attr/current", &text, &bytes) == 0 &&
	    text[0]) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(label, label_room, "%s", text);
	}
	*ret_facts = (struct limpet_permission_facts){
		.uid = getuid(),
		.gid = getgid(),
		.capabilities = own.cap_permitted,
		.capable = capable,
		.in_container = in_container(),
		.is_descendant = is_descendant(check->target->pid),
		.target_uid = {target->uid, target->euid, target->suid},
		.target_gid = {target->gid, target->egid, target->sgid},
		.target_capabilities = target->cap_permitted,
		.dumpable = is_dumpable(check),
		.same_user_namespace = same_user_namespace(check->target->pid, capable),
		.yama = read_yama(),
		.label = label,
	};
}

/* ------------------------------------------------------------------ words */

static void hint_root(struct limpet_check *check)
{
	if (geteuid() == 0)
		limpet_check_hint(check,
				  "this root has no CAP_SYS_PTRACE: use the machine's own root, or "
				  "start this container with --cap-add SYS_PTRACE");
	else
		limpet_check_hint(check, "sudo limpet %s %d", limpet_check_command(check),
				  check->target->pid);
}

static void refuse(struct limpet_check *check, const struct limpet_permission_facts *facts)
{
	const char *brief = geteuid() ? "needs sudo" : "needs CAP_SYS_PTRACE";
	int code = -EPERM;

	switch (limpet_permission_explain(facts)) {
	case LIMPET_PERMISSION_YAMA_NOBODY:
		limpet_check_refuse(
			check, code, "permission-yama", "ptrace_scope 3",
			"Yama forbids ptrace to everybody (kernel.yama.ptrace_scope is 3)");
		limpet_check_hint(check,
				  "this setting stays until the machine is restarted; ask who "
				  "set it");
		return;
	case LIMPET_PERMISSION_UID:
		limpet_check_refuse(
			check, code, "permission-uid", brief,
			"it belongs to another user (uid %u, this is uid %u), which requires "
			"CAP_SYS_PTRACE",
			check->status.euid, facts->uid);
		break;
	case LIMPET_PERMISSION_USER_NAMESPACE:
		limpet_check_refuse(
			check, code, "permission-namespace", brief,
			"it is in another user namespace, where this user has no privileges");
		if (facts->capable) {
			limpet_check_hint(check, "run limpet on the host, as root");
			return;
		}
		break;
	case LIMPET_PERMISSION_DUMPABLE:
		limpet_check_refuse(check, code, "permission-dumpable", brief,
				    "it is protected (not dumpable: set-uid, file capabilities or "
				    "PR_SET_DUMPABLE), which requires CAP_SYS_PTRACE");
		break;
	case LIMPET_PERMISSION_CAPABILITIES:
		limpet_check_refuse(check, code, "permission-capabilities", brief,
				    "it has capabilities that this user lacks");
		break;
	case LIMPET_PERMISSION_YAMA_ADMIN:
		limpet_check_refuse(
			check, code, "permission-yama", brief,
			"Yama allows ptrace only with CAP_SYS_PTRACE (kernel.yama.ptrace_scope is "
			"2)");
		break;
	case LIMPET_PERMISSION_YAMA_CHILD:
		limpet_check_refuse(check, code, "permission-yama", brief,
				    "Yama lets a user trace only their own child processes "
				    "(kernel.yama.ptrace_scope is 1)");
		break;
	case LIMPET_PERMISSION_SECURITY_MODULE:
		limpet_check_refuse(
			check, code, "permission-lsm", "security module",
			"a security module refuses (SELinux, AppArmor, Landlock...)%s%s",
			facts->label[0] ? "; its label is " : "", facts->label);
		limpet_check_hint(check, "see what was denied: journalctl -k -g 'avc|apparmor'");
		return;
	}
	hint_root(check);
}

bool limpet_check_permission(struct limpet_check *check)
{
	struct limpet_permission_facts facts;
	char label[128];

	if (check->options.launched)
		return true; /* we trace it already */
	/* Checks PTRACE_MODE_ATTACH_FSCREDS, including security modules, and changes nothing. */
	LIMPET_CLOSE int fd = limpet_proc_open(check->target, "mem", O_RDONLY);
	if (fd != -EACCES && fd != -EPERM) {
		limpet_check_add(check, LIMPET_FINDING_OK, "permission", "",
				 "permission: the kernel lets %s trace it",
				 geteuid() ? "this user" : "root");
		return true;
	}
	gather(check, label, sizeof(label), &facts);
	refuse(check, &facts);
	return false;
}

/* ------------------------------------------------------------------ other tracers */

/* A program that looks at itself has soon done so. */
static pid_t find_tracer(const struct limpet_check *check, char ret_name[LIMPET_PROC_NAME_BYTES])
{
	const struct timespec pause = {0, OWN_TRACER_PAUSE_NS};
	const pid_t pid = check->target->pid;
	pid_t by;

	for (unsigned reads = 0;; reads++) {
		by = limpet_proc_tracer(pid, check->options.quick ? 0 : 256, ret_name);
		if (check->options.quick || reads == OWN_TRACER_READS ||
		    !limpet_proc_is_own_tracer(pid, by))
			return by;
		nanosleep(&pause, NULL);
	}
}

void limpet_check_tracer(struct limpet_check *check)
{
	char name[LIMPET_PROC_NAME_BYTES];
	const pid_t by = find_tracer(check, name);

	if (!by)
		return;
	limpet_check_refuse(check, -EBUSY, "traced", "traced by another",
			    "it is traced by '%s' (%d) already", name, by);
	if (!strcmp(name, "limpet"))
		limpet_check_hint(check, "limpet status %d", check->target->pid);
	else
		limpet_check_hint(check,
				  "detach it there first (gdb: detach, strace: Ctrl-C); see: ps %d",
				  by);
}
