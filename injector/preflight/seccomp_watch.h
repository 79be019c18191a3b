/* Filters that a program installs after preflight, as programs do that sandbox themselves once they
 * have started. Filters belong to threads and cannot be removed. The filters of each thread are
 * read and judged when it is stopped. If they cannot be read, only a thread's number of filters
 * (Seccomp_filters in /proc, since Linux 5.9) shows whether more were added. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_SECCOMP_WATCH_H
#define LIMPET_INJECTOR_PREFLIGHT_SECCOMP_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct limpet_target;

#define LIMPET_SECCOMP_KINDS 16u

/* What restricts a thread's calls: 0, nothing; otherwise one more than the number of its filters (1
 * before Linux 5.9, which does not report it), or STRICT. A thread that is gone, or cannot be read,
 * has none. */
#define LIMPET_SECCOMP_STRICT UINT64_MAX
uint64_t limpet_seccomp_kind(const struct limpet_target *target, pid_t tid);

/* Whether the thread's process has locked memory, so that the agent unlocks what it maps; true also
 * if that cannot be read. */
bool limpet_seccomp_has_locked(const struct limpet_target *target, pid_t tid);

struct limpet_seccomp_watch {
	uint64_t good[LIMPET_SECCOMP_KINDS]; /* these were there when preflight tried the calls */
	unsigned count;
	bool assume_ok;       /* allow a filter that cannot be read */
	bool without_munlock; /* a filter may be good only without it: it must not be called */
	bool allows_exec;     /* the thread that was judged last may call mprotect(PROT_EXEC) */
};

/* All filters that the process has now are good: preflight has read them. */
void limpet_seccomp_watch_begin(const struct limpet_target *target,
				struct limpet_seccomp_watch *watch);
/* Whether this thread, which is stopped and traced by the caller, may be made to make all system
 * calls that limpet makes in a target. */
bool limpet_seccomp_watch_allows(struct limpet_seccomp_watch *watch,
				 const struct limpet_target *target, pid_t tid);

#endif
