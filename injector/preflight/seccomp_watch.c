#include "injector/preflight/seccomp_watch.h"

#include "common/err.h"
#include "injector/preflight/seccomp_eval.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

uint64_t limpet_seccomp_kind(const struct limpet_target *target, pid_t tid)
{
	uint64_t mode = 0, filters = 0;

	if (limpet_proc_task_number(target, tid, "Seccomp", &mode) < 0 || !mode)
		return 0;
	if (mode == SECCOMP_MODE_STRICT)
		return LIMPET_SECCOMP_STRICT;
	(void)limpet_proc_task_number(target, tid, "Seccomp_filters", &filters);
	return filters + 1;
}

bool limpet_seccomp_has_locked(const struct limpet_target *target, pid_t tid)
{
	uint64_t kilobytes = 0;

	return limpet_proc_task_number(target, tid, "VmLck", &kilobytes) < 0 || kilobytes;
}

static bool is_good(const struct limpet_seccomp_watch *watch, uint64_t kind)
{
	for (unsigned i = 0; i < watch->count; i++)
		if (watch->good[i] == kind)
			return true;
	return false;
}

static void note_good(struct limpet_seccomp_watch *watch, uint64_t kind)
{
	if (watch->count < LIMPET_SECCOMP_KINDS && !is_good(watch, kind))
		watch->good[watch->count++] = kind;
}

void limpet_seccomp_watch_begin(const struct limpet_target *target,
				struct limpet_seccomp_watch *watch)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(target->pid, &tids);

	for (int i = 0; i < count; i++) {
		uint64_t kind = limpet_seccomp_kind(target, tids[i]);

		if (kind && kind != LIMPET_SECCOMP_STRICT)
			note_good(watch, kind);
	}
}

bool limpet_seccomp_watch_allows(struct limpet_seccomp_watch *watch,
				 const struct limpet_target *target, pid_t tid)
{
	struct limpet_seccomp_filters filters;
	struct limpet_seccomp_verdict verdict;
	uint64_t kind = limpet_seccomp_kind(target, tid);

	watch->allows_exec = !kind;
	if (!kind || kind == LIMPET_SECCOMP_STRICT)
		return kind != LIMPET_SECCOMP_STRICT;
	if (limpet_seccomp_filters_read(tid, true, &filters) < 0) {
		/* It may have been good without munlock only. */
		watch->without_munlock |= !limpet_seccomp_has_locked(target, tid);
		return watch->assume_ok || is_good(watch, kind);
	}
	limpet_seccomp_judge(&filters, !watch->without_munlock, &verdict);
	/* From now on it must not be called, though other threads may lock memory. */
	if (verdict.call && !watch->without_munlock && !limpet_seccomp_has_locked(target, tid)) {
		limpet_seccomp_judge(&filters, false, &verdict);
		watch->without_munlock = !verdict.call;
	}
	watch->allows_exec = !verdict.denies_exec;
	limpet_seccomp_filters_done(&filters);
	return !verdict.call;
}
