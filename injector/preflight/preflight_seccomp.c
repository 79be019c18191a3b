/* Preflight: a seccomp filter that would hurt the target when a capture makes system calls in it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "injector/preflight/preflight_check.h"
#include "injector/preflight/seccomp_eval.h"
#include "injector/preflight/seccomp_watch.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/stop_effect.h"

/* Filters belong to threads. Threads with the same number of filters nearly always have the same
 * filters (a filter cannot be removed); one thread of each kind is read. */
#define THREADS_READ_MAX 1024
#define KINDS_LIMIT 8
/* How long to wait for a thread that would not notice a stop. */
#define POLITE_NS UINT64_C(1000000000)
#define PAUSE_NS 5000000

struct kind {
	uint64_t filters;
	pid_t tid;
	enum limpet_stop_effect effect; /* of a stop, on the thread that notices least of it */
};

/* What a stop would do to the thread, which has a filter. A running one is on its way to some call.
 */
static enum limpet_stop_effect effect_on(const struct limpet_check *check, pid_t tid)
{
	struct limpet_proc_syscall call;

	return limpet_proc_syscall_read(check->target->pid, tid, &call) < 0 || call.running
		       ? LIMPET_STOP_TIMED
		       : limpet_stop_effect_on(check->target->pid, tid, true, &call);
}

/* Returns the number of kinds, or -1 if a thread is in strict mode. */
static int find_kinds(const struct limpet_check *check, struct kind kinds[KINDS_LIMIT])
{
	LIMPET_FREE pid_t *tids = NULL;
	int tid_count = limpet_proc_tasks(check->target->pid, &tids), count = 0;

	for (int i = 0; i < tid_count && i < THREADS_READ_MAX; i++) {
		const uint64_t seen = limpet_seccomp_kind(check->target, tids[i]);
		struct kind kind = {.tid = tids[i], .filters = seen - 1};
		int k;

		if (!seen)
			continue;
		if (seen == LIMPET_SECCOMP_STRICT)
			return -1;
		for (k = 0; k < count && kinds[k].filters != kind.filters; k++)
			;
		if (k == KINDS_LIMIT || (k < count && kinds[k].effect == LIMPET_STOP_UNSEEN))
			continue;
		kind.effect = effect_on(check, tids[i]);
		if (k == count || kind.effect < kinds[k].effect)
			kinds[k] = kind;
		if (k == count)
			count++;
	}
	return count;
}

/* The same, once no kind's thread is one that a stop would cut short. -EBUSY: none in time. */
static int find_patiently(const struct limpet_check *check, struct kind kinds[KINDS_LIMIT])
{
	const struct timespec pause = {0, PAUSE_NS};
	const uint64_t until_ns = limpet_monotonic_ns() + POLITE_NS;

	for (;;) {
		const int count = find_kinds(check, kinds);
		bool cuts = false;

		for (int i = 0; i < count; i++)
			cuts = cuts || kinds[i].effect == LIMPET_STOP_CUTS;
		if (!cuts)
			return count;
		if (limpet_monotonic_ns() >= until_ns)
			return -EBUSY;
		nanosleep(&pause, NULL);
	}
}

/* The kernel does not show filters to a process that has one itself. */
static bool we_have_a_filter(void)
{
	return limpet_seccomp_kind(limpet_target_self(), getpid()) != 0;
}

static void explain_unreadable(struct limpet_check *check, int error, bool ours)
{
	const char *why = ours ? "limpet has one itself, as programs in containers have"
			  : error == -EACCES ? "this requires CAP_SYS_ADMIN"
			  : error == -EINVAL ? "this kernel does not show it"
			  : error == -EBUSY
				  ? "each thread waits in a call that a stop would cut short"
				  : strerror(-error);

	if (check->options.config.assume_seccomp_ok) {
		limpet_check_add(
			check, LIMPET_FINDING_WARNING, "seccomp", "seccomp unread",
			"its seccomp filter cannot be read (%s): limpet assumes that it allows "
			"what it needs, as you said",
			why);
		return;
	}
	limpet_check_refuse(check, error, "seccomp", "seccomp unread",
			    "its seccomp filter cannot be read (%s), and it might kill the program "
			    "for a call of limpet's",
			    why);
	if (error == -EBUSY)
		limpet_check_hint(check, "try again when the other end of its transfer continues");
	else if (ours)
		limpet_check_hint(
			check, "if it has Docker's default profile: --assume-seccomp-ok; else run "
			       "limpet with CAP_SYS_ADMIN and without a filter (docker: --cap-add "
			       "SYS_ADMIN --security-opt seccomp=unconfined), or on the host");
	else if (geteuid())
		limpet_check_hint(
			check,
			"sudo limpet attach %d; or, if you know its filter (Docker's default "
			"profile is fine): --assume-seccomp-ok",
			check->target->pid);
	else
		limpet_check_hint(check, "if you know its filter (Docker's default profile is "
					 "fine): --assume-seccomp-ok");
}

static void unreadable(struct limpet_check *check, int error)
{
	bool ours = error == -EACCES && we_have_a_filter();

	if (error == -ESRCH && !check->options.config.assume_seccomp_ok) {
		limpet_check_refuse(check, -EAGAIN, "seccomp", "seccomp unread",
				    "a thread that has a seccomp filter has just ended");
		limpet_check_hint(check, "try again");
		return;
	}
	explain_unreadable(check, error, ours);
}

/* True: refused. */
static bool refuse(struct limpet_check *check, const struct limpet_seccomp_verdict *verdict)
{
	char words[64], container[LIMPET_CONTAINER_ID_BYTES];

	if (!verdict->call)
		return false;
	limpet_check_refuse(check, -EPERM, "seccomp", "seccomp",
			    "its seccomp filter %s %s(2), which %s calls",
			    limpet_seccomp_action_words(verdict->action, words, sizeof(words)),
			    verdict->call->name, verdict->call->who);
	if (limpet_container_id(check->target, container) == 0)
		limpet_check_hint(check,
				  "allow %s in its profile (docker: --security-opt seccomp=FILE; "
				  "Docker's default profile works)",
				  verdict->call->name);
	else
		limpet_check_hint(check,
				  "a sandbox of its own, or its service's (systemd: "
				  "SystemCallFilter=): allow %s there, or capture it from before "
				  "that: limpet run COMMAND",
				  verdict->call->name);
	return true;
}

static void judge(struct limpet_check *check, const struct limpet_seccomp_filters *filters)
{
	struct limpet_seccomp_verdict verdict;

	limpet_seccomp_judge(filters, limpet_seccomp_has_locked(check->target, check->resident),
			     &verdict);
	if (refuse(check, &verdict))
		return;
	if (verdict.denies_exec)
		limpet_check_add(
			check, LIMPET_FINDING_NOTE, "write-execute", "",
			"it may not make memory executable (MemoryDenyWriteExecute): limpet "
			"does not ask for that");
}

/* In a container filters cannot be read, since the reader has one itself. But a container's runtime
 * installs the same profile in every process that it starts, including limpet: a target in the same
 * container with as many filters as limpet has none of its own, so a child of limpet can try the
 * calls under the same filters. */
static bool is_under_our_filters(const struct limpet_check *check, const struct kind *kind)
{
	static const char *const spaces[] = {"ns/mnt", "ns/pid"};
	uint64_t mode = 0, filters = 0;

	if (limpet_proc_task_number(limpet_target_self(), getpid(), "Seccomp", &mode) < 0 ||
	    limpet_proc_task_number(limpet_target_self(), getpid(), "Seccomp_filters", &filters) <
		    0 ||
	    mode != SECCOMP_MODE_FILTER || filters != kind->filters)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(spaces); i++) {
		char mine[64], theirs[64];

		if (limpet_proc_link_read(getpid(), spaces[i], mine, sizeof(mine)) < 0 ||
		    limpet_proc_link_read(check->target->pid, spaces[i], theirs, sizeof(theirs)) <
			    0 ||
		    strcmp(mine, theirs) != 0)
			return false;
	}
	return true;
}

/* True: the check is complete. */
static bool probe(struct limpet_check *check, const struct kind *kind)
{
	struct limpet_seccomp_verdict verdict;

	if (!is_under_our_filters(check, kind) || limpet_seccomp_probe(&verdict) < 0)
		return false;
	if (!refuse(check, &verdict))
		limpet_check_add(
			check, LIMPET_FINDING_WARNING, "seccomp", "seccomp tried",
			"its seccomp filter cannot be read in here; limpet's own, taken to "
			"be the same, lets every call pass");
	return true;
}

void limpet_check_seccomp(struct limpet_check *check)
{
	struct kind kinds[KINDS_LIMIT];
	int count;

	/* for a list the first thread stands for all */
	if (check->options.quick)
		count = check->status.seccomp == SECCOMP_MODE_STRICT ? -1 : check->status.seccomp;
	else
		count = find_patiently(check, kinds);
	if (count == -EBUSY) {
		unreadable(check, count);
		return;
	}
	if (count < 0) {
		limpet_check_refuse(
			check, -EPERM, "seccomp", "strict seccomp",
			"it is in seccomp's strict mode, which kills it for any system call "
			"but read and write");
		limpet_check_hint(check, "capture it with that mode switched off");
		return;
	}
	if (count == 0)
		return;
	if (check->options.quick) {
		limpet_check_add(check, LIMPET_FINDING_NOTE, "seccomp", "seccomp filter",
				 "it has a seccomp filter, which was not read");
		return;
	}
	/* no stop if the program will not be captured anyway */
	if (check->out->verdict != LIMPET_PREFLIGHT_OK)
		return;
	for (int i = 0; i < count && check->out->verdict == LIMPET_PREFLIGHT_OK; i++) {
		struct limpet_seccomp_filters filters;
		bool traced = check->status.tracer == getpid();
		int r = limpet_seccomp_filters_read(kinds[i].tid, traced, &filters);

		if (filters.stop_ns > check->out->stop_ns)
			check->out->stop_ns = filters.stop_ns;
		if (r < 0) {
			if (r != -EACCES || count > 1 || !probe(check, &kinds[i]))
				unreadable(check, r);
			return;
		}
		judge(check, &filters);
		limpet_seccomp_filters_done(&filters);
	}
	if (check->out->verdict == LIMPET_PREFLIGHT_OK)
		limpet_check_add(check, LIMPET_FINDING_OK, "seccomp", "",
				 "seccomp: its filter lets every call of limpet's pass");
}
