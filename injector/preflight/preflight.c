#include "injector/preflight/preflight.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "injector/hook/thunks.h"
#include "injector/preflight/dormant.h"
#include "injector/preflight/preflight_check.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memfd.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/step.h"

/* ------------------------------------------------------------------ findings */

const struct limpet_finding_word limpet_finding_words[] = {
	{"address-space", LIMPET_FINDING_REFUSE},
	{"agent", LIMPET_FINDING_REFUSE},
	{"alloc-functions", LIMPET_FINDING_REFUSE},
	{"allocator", LIMPET_FINDING_REFUSE},
	{"allocator-library", LIMPET_FINDING_OK},
	{"calls", LIMPET_FINDING_REFUSE},
	{"captured", LIMPET_FINDING_REFUSE},
	{"data-size", LIMPET_FINDING_REFUSE},
	{"threads-left", LIMPET_FINDING_REFUSE},
	{"dormant", LIMPET_FINDING_NOTE},
	{"elf-class", LIMPET_FINDING_REFUSE},
	{"executable", LIMPET_FINDING_REFUSE},
	{"frozen", LIMPET_FINDING_REFUSE},
	{"hidden", LIMPET_FINDING_NOTE},
	{"hidepid", LIMPET_FINDING_REFUSE},
	{"kernel", LIMPET_FINDING_REFUSE},
	{"kernel-thread", LIMPET_FINDING_REFUSE},
	{"libc", LIMPET_FINDING_REFUSE},
	{"locked-memory", LIMPET_FINDING_REFUSE},
	{"mappings", LIMPET_FINDING_REFUSE},
	{"memory", LIMPET_FINDING_REFUSE},
	{"message-queue", LIMPET_FINDING_REFUSE},
	{"namespaces", LIMPET_FINDING_NOTE},
	{"other-libc", LIMPET_FINDING_WARNING},
	{"own-process", LIMPET_FINDING_REFUSE},
	{"permission", LIMPET_FINDING_OK},
	{"permission-capabilities", LIMPET_FINDING_REFUSE},
	{"permission-dumpable", LIMPET_FINDING_REFUSE},
	{"permission-lsm", LIMPET_FINDING_REFUSE},
	{"permission-namespace", LIMPET_FINDING_REFUSE},
	{"permission-uid", LIMPET_FINDING_REFUSE},
	{"permission-yama", LIMPET_FINDING_REFUSE},
	{"priority", LIMPET_FINDING_NOTE},
	{"raw-thread", LIMPET_FINDING_REFUSE},
	{"runtime", LIMPET_FINDING_NOTE},
	{"seccomp", LIMPET_FINDING_REFUSE},
	{"shadow-stack", LIMPET_FINDING_REFUSE},
	{"static", LIMPET_FINDING_REFUSE},
	{"sharer", LIMPET_FINDING_NOTE},
	{"stopped", LIMPET_FINDING_NOTE},
	{"symbols", LIMPET_FINDING_NOTE},
	{"thread", LIMPET_FINDING_REFUSE},
	{"traced", LIMPET_FINDING_REFUSE},
	{"translator", LIMPET_FINDING_REFUSE},
	{"unfollowed", LIMPET_FINDING_WARNING},
	{"visible", LIMPET_FINDING_OK},
	{"write-execute", LIMPET_FINDING_NOTE},
	{"zombie", LIMPET_FINDING_REFUSE},
	{"zombie-leader", LIMPET_FINDING_NOTE},
	{"", LIMPET_FINDING_OK},
};

static bool is_known(enum limpet_severity severity, const char *id)
{
	const struct limpet_finding_word *word = limpet_finding_words;

	while (word->id[0] && strcmp(word->id, id) != 0)
		word++;
	return word->id[0] && severity <= word->worst;
}

static struct limpet_finding *next_finding(struct limpet_check *check,
					   enum limpet_severity severity)
{
	struct limpet_preflight *out = check->out;

	if (out->count < LIMPET_PREFLIGHT_MAX_FINDINGS)
		return &out->list[out->count++];
	return severity == LIMPET_FINDING_REFUSE ? &out->list[out->count - 1] : NULL;
}

__attribute__((format(printf, 5, 0))) static void add(struct limpet_check *check,
						      enum limpet_severity severity, const char *id,
						      const char *brief, const char *format,
						      va_list args)
{
	struct limpet_finding *finding = next_finding(check, severity);

	assert(is_known(severity, id));
	if (!finding)
		return;
	*finding = (struct limpet_finding){.severity = severity};
	snprintf(finding->id, sizeof(finding->id), "%s", id);
	snprintf(finding->brief, sizeof(finding->brief), "%s", brief);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	limpet_step_note(0, "check %s: %s", id, finding->text);
}

void limpet_check_add(struct limpet_check *check, enum limpet_severity severity, const char *id,
		      const char *brief, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(check, severity, id, brief, format, args);
	va_end(args);
}

void limpet_check_refuse(struct limpet_check *check, int code, const char *id, const char *brief,
			 const char *format, ...)
{
	bool first = check->out->verdict == LIMPET_PREFLIGHT_OK;
	va_list args;

	va_start(args, format);
	add(check, LIMPET_FINDING_REFUSE, id, brief, format, args);
	va_end(args);
	if (!first)
		return;
	check->out->verdict = LIMPET_PREFLIGHT_REFUSED;
	limpet_err_set(check->err, code, "cannot %s '%s' (%d): %s",
		       check->options.launched ? "run" : "attach to", check->out->name,
		       check->target->pid, check->out->list[check->out->count - 1].text);
}

void limpet_check_hint(struct limpet_check *check, const char *format, ...)
{
	struct limpet_preflight *out = check->out;
	struct limpet_finding *last = out->count ? &out->list[out->count - 1] : NULL;
	size_t refusals = 0;
	va_list args;

	if (!last)
		return;
	va_start(args, format);
	vsnprintf(last->hint, sizeof(last->hint), format, args);
	va_end(args);
	for (size_t i = 0; i < out->count; i++)
		refusals += out->list[i].severity == LIMPET_FINDING_REFUSE;
	if (last->severity == LIMPET_FINDING_REFUSE && refusals == 1 && check->err)
		limpet_err_hint(check->err, "%s", last->hint);
}

const char *limpet_check_command(const struct limpet_check *check)
{
	return check->options.stops_only ? "stacks" : "attach";
}

void limpet_check_hint_pages(struct limpet_check *check, const char *before, const char *after)
{
	/* A program that `limpet run` refuses is not started. */
	if (check->options.launched)
		limpet_check_hint(check,
				  "%sonce it runs, `limpet pages PID` tells which stacks touch new "
				  "pages%s",
				  before, after);
	else
		limpet_check_hint(check, "%s`limpet pages %d` tells which stacks touch new pages%s",
				  before, check->target->pid, after);
}

/* ------------------------------------------------------------------ state of the process */

static const char find_hint[] = "find it with `pidof NAME` or `limpet doctor`";

static void hint_at_pids(pid_t pid, struct limpet_err *err)
{
	uint64_t end;

	if (limpet_proc_number_read("sys/kernel/pid_max", &end) == 0 &&
	    (pid <= 0 || (uint64_t)pid >= end))
		limpet_err_hint(err, "process ids are from 1 to %" PRIu64, end - 1);
	else
		limpet_err_hint(err, find_hint);
}

/* /proc does not show the pid: the process is gone, or hidden from us. */
static int gone(struct limpet_check *check)
{
	pid_t pid = check->target->pid;

	if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH) {
		check->out->verdict = LIMPET_PREFLIGHT_GONE;
		limpet_err_set(check->err, -ESRCH, "no process has the pid %d", pid);
		hint_at_pids(pid, check->err);
		return -ESRCH;
	}
	if (pid <= 0) {
		check->out->verdict = LIMPET_PREFLIGHT_GONE;
		limpet_err_set(check->err, -ESRCH, "%d is not a pid", pid);
		hint_at_pids(pid, check->err);
		return -ESRCH;
	}
	snprintf(check->out->name, sizeof(check->out->name), "?");
	limpet_check_refuse(
		check, -EPERM, "hidepid", "hidden",
		"/proc hides the processes of other users (it is mounted with hidepid)");
	limpet_check_hint(check, "sudo limpet %s %d", limpet_check_command(check), pid);
	return -EPERM;
}

/* If the main thread has ended, the process's memory, descriptors and figures are not visible
 * through it: from here on another thread is examined instead. */
static bool check_leader(struct limpet_check *check)
{
	struct limpet_proc_status *status = &check->status, other;

	check->resident = limpet_proc_resident(check->target->pid);
	if (check->resident == check->target->pid)
		return true;
	if (limpet_proc_status_read(check->resident, &other) == 0) {
		other.ppid = status->ppid;
		other.ns_pid = status->ns_pid;
		memcpy(other.name, status->name, sizeof(other.name));
		*status = other;
		check->out->rss_bytes = other.rss_bytes;
	}
	limpet_check_add(check, LIMPET_FINDING_NOTE, "zombie-leader", "main thread ended",
			 "its main thread has ended; the others go on, and are captured");
	return true;
}

/* False: nothing else can be checked. */
static bool check_state(struct limpet_check *check)
{
	const struct limpet_proc_status *status = &check->status;
	struct limpet_cgroup group;
	char words[PATH_MAX + 64];

	if (status->tgid != check->target->pid) {
		limpet_check_refuse(check, -EINVAL, "thread", "a thread",
				    "this is the number of a thread of process %d", status->tgid);
		limpet_check_hint(check, "limpet %s %d", limpet_check_command(check), status->tgid);
		return false;
	}
	if (check->target->pid == getpid()) {
		limpet_check_refuse(check, -EINVAL, "own-process", "limpet itself",
				    "this is limpet itself");
		limpet_check_hint(check, find_hint);
		return false;
	}
	if (status->kernel_thread) {
		limpet_check_refuse(check, -EINVAL, "kernel-thread", "kernel thread",
				    "it is a kernel thread, which has no memory of its own");
		limpet_check_hint(check, find_hint);
		return false;
	}
	if (!check_leader(check))
		return false;
	if (status->state == 'Z' || status->state == 'X') {
		limpet_check_refuse(check, -ESRCH, "zombie", "ended (zombie)",
				    "it is a zombie: it has ended, and its parent (%d) has not "
				    "collected it yet",
				    status->ppid);
		limpet_check_hint(check, "look at its parent instead: limpet doctor %d",
				  status->ppid);
		return false;
	}
	if (limpet_cgroup_frozen(check->resident, &group)) {
		limpet_check_refuse(check, -EBUSY, "frozen", "frozen",
				    "it is frozen, by its control group %s", group.directory);
		limpet_cgroup_thaw_words(check->target, &group, words, sizeof(words));
		limpet_check_hint(check, "thaw it: %s", words);
		return false;
	}
	if (status->state == 'T' && !check->options.launched) {
		limpet_check_add(
			check, LIMPET_FINDING_NOTE, "stopped", "stopped",
			"it is stopped (Ctrl-Z or SIGSTOP): attaching works if every thread "
			"stopped at a safe point, and it stays stopped");
		limpet_check_hint(check, "if that is refused, let it run first: kill -CONT %d",
				  check->target->pid);
	}
	return true;
}

static void add_dormant(struct limpet_check *check)
{
	LIMPET_FREE pid_t *relatives = NULL;
	int count = limpet_dormant_relatives(check->target, &relatives);

	if (count <= 0)
		limpet_check_add(check, LIMPET_FINDING_NOTE, "dormant", "dormant agent",
				 "an agent that an earlier capture left is in it; the next attach "
				 "cleans it up first");
	else
		limpet_check_add(
			check, LIMPET_FINDING_NOTE, "dormant", "dormant agent",
			"an agent that an earlier capture left is in it, and in %d other%s "
			"by fork; the next attach cleans this one up first",
			count, count == 1 ? "" : "s");
	limpet_check_hint(check,
			  count <= 0 ? "or by itself: limpet stop %d"
				     : "or from all of them: limpet stop %d",
			  check->target->pid);
}

/* Whether the target has an agent: of a running capture, or left by one that ended badly. */
static void check_agent(struct limpet_check *check)
{
	size_t i = 0;

	while (i < check->maps.count &&
	       (!limpet_memfd_is_agent(check->maps.list[i].path) ||
		limpet_thunks_were_left(check->target->pid, &check->maps.list[i])))
		i++;
	if (i == check->maps.count || check->options.config.forked)
		return;
	if (limpet_dormant_check(check->target) == 1) {
		add_dormant(check);
		return;
	}
	limpet_check_refuse(check, -EBUSY, "captured", "being captured",
			    "it is being captured by limpet already");
	limpet_check_hint(check, "limpet status %d", check->target->pid);
}

static int run_checks(struct limpet_check *check)
{
	int r;

	if (!check_state(check))
		return 0;
	limpet_check_kernel(check);
	limpet_check_tracer(check);
	if (!limpet_check_permission(check))
		return 0;
	if (check->options.stops_only)
		return limpet_check_processor(check);
	r = limpet_proc_maps_read(check->target->pid, &check->maps);
	if (r == -ESRCH || r == -ENOMEM)
		return r;
	check_agent(check);
	r = limpet_check_program(check);
	if (r < 0)
		return r;
	limpet_check_seccomp(check);
	limpet_check_shadow_stack(check);
	limpet_check_priority(check);
	limpet_check_memory(check);
	limpet_check_threads_left(check);
	limpet_check_message_queues(check);
	limpet_check_mappings(check);
	limpet_check_namespaces(check);
	limpet_check_threads(check);
	return 0;
}

/* *ret_resident: the thread through which the process was examined. */
static int examine_once(const struct limpet_target *target,
			const struct limpet_preflight_options *options,
			struct limpet_preflight *ret, pid_t *ret_resident, struct limpet_err *err)
{
	const pid_t pid = target->pid;
	struct limpet_check check = {.target = target, .resident = pid, .out = ret, .err = err};
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->pid = pid;
	ret->unseen_rss_share = -1.0;
	if (options)
		check.options = *options;
	if (!check.options.config.agent_memory_bytes)
		check.options.config.agent_memory_bytes = (uint64_t)64 << 20;

	r = pid > 0 ? limpet_proc_status_read(pid, &check.status) : -ESRCH;
	/* hidepid=2 shows nothing of the process, hidepid=1 an empty directory */
	if (r == -ESRCH || r == -EPERM || r == -EACCES)
		return gone(&check);
	if (r == 0) {
		memcpy(ret->name, check.status.name, sizeof(ret->name));
		ret->uid = check.status.euid;
		ret->rss_bytes = check.status.rss_bytes;
		ret->kernel_thread = check.status.kernel_thread;
		r = run_checks(&check);
		/* In an exiting process things are missing because it exits. */
		if (r == 0 && ret->verdict == LIMPET_PREFLIGHT_REFUSED &&
		    check.status.state != 'Z' && check.status.state != 'X' &&
		    !check.status.kernel_thread && !limpet_proc_has_memory(pid))
			r = -ESRCH;
		/* It is another process by now, or the checks saw half of one program and half of
		 * another. */
		if (r == 0 && check.status.tgid == pid && check.status.state != 'Z' &&
		    check.status.state != 'X')
			r = limpet_target_check(target);
	}
	if (r == 0 && ret->verdict == LIMPET_PREFLIGHT_OK)
		ret->plan = LIMPET_TAKE(check.plan);
	limpet_attach_plan_free(check.plan);
	limpet_proc_maps_done(&check.maps);
	*ret_resident = check.resident;
	if (r == -ESRCH) {
		ret->verdict = LIMPET_PREFLIGHT_GONE;
		limpet_err_set(check.err, r, "process %d has just ended", pid);
		limpet_err_hint(check.err, find_hint);
		return r;
	}
	if (r == -ESTALE || r == -EMFILE) {
		ret->verdict = LIMPET_PREFLIGHT_FAILED;
		return limpet_proc_explain(pid, r, "look at", check.err);
	}
	if (r < 0) {
		ret->verdict = LIMPET_PREFLIGHT_FAILED;
		limpet_err_set(check.err, r, "cannot look at process %d: %s", pid, strerror(-r));
		limpet_err_hint(check.err, "see what the system shows of it: ls -l /proc/%d", pid);
		return r;
	}
	return ret->verdict == LIMPET_PREFLIGHT_OK ? 0 : check.err->code;
}

/* If the main thread has just ended, repeats the checks through another thread. */
static int examine(const struct limpet_target *target,
		   const struct limpet_preflight_options *options, struct limpet_preflight *ret,
		   struct limpet_err *err)
{
	struct limpet_err examined;
	pid_t resident = target->pid, before;
	int result;

	do {
		before = resident;
		memset(&examined, 0, sizeof(examined));
		result = examine_once(target, options, ret, &resident, &examined);
	} while (ret->verdict == LIMPET_PREFLIGHT_REFUSED && resident == before &&
		 limpet_proc_resident(target->pid) != resident);
	if (err)
		*err = examined;
	return result;
}

int limpet_preflight_run(const struct limpet_target *target,
			 const struct limpet_preflight_options *options,
			 struct limpet_preflight *ret, struct limpet_err *err)
{
	struct limpet_priority before;
	int result;

	/* On a busy machine it would mostly wait. */
	if (!options || !options->hurried || limpet_priority_has_one_processor())
		return examine(target, options, ret, err);
	before = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	result = examine(target, options, ret, err);
	limpet_priority_restore(before);
	return result;
}

void limpet_preflight_done(struct limpet_preflight *preflight)
{
	limpet_attach_plan_free(preflight->plan);
	preflight->plan = NULL;
}

enum limpet_exit limpet_preflight_exit(const struct limpet_preflight *preflight)
{
	switch (preflight->verdict) {
	case LIMPET_PREFLIGHT_OK:
		return LIMPET_EXIT_OK;
	case LIMPET_PREFLIGHT_REFUSED:
		return LIMPET_EXIT_REFUSED;
	case LIMPET_PREFLIGHT_GONE:
	case LIMPET_PREFLIGHT_FAILED:
		break;
	}
	return LIMPET_EXIT_FAILED;
}
