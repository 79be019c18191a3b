/* Filters that a program installs after it was looked at, as programs do that lock themselves in
 * once they have started. They belong to threads and cannot be taken off. Each thread's are read
 * and judged once it stands still. Only where they cannot be read, how many a thread has
 * (Seccomp_filters in /proc, since Linux 5.9) has to tell whether more have come. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_SECCOMP_WATCH_H
#define LIMPET_INJECTOR_PREFLIGHT_SECCOMP_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LIMPET_SECCOMP_KINDS 16u

/* What forbids calls to a thread: 0, nothing; else one more than the number of its filters (1
 * before Linux 5.9, which does not tell), or STRICT. A thread that is gone, or does not say, has
 * none. */
#define LIMPET_SECCOMP_STRICT UINT64_MAX
uint64_t limpet_seccomp_kind(pid_t pid, pid_t tid);

struct limpet_seccomp_watch {
	uint64_t good[LIMPET_SECCOMP_KINDS]; /* so many were there when preflight tried the calls */
	unsigned count;
	bool assume_ok; /* of a filter that cannot be read */
};

/* All that the process has now are good: preflight has read them. */
void limpet_seccomp_watch_begin(pid_t pid, struct limpet_seccomp_watch *watch);
/* Whether this thread of it, which stands still and is traced by the caller, may be made to call
 * all that limpet calls in a target. */
bool limpet_seccomp_watch_allows(struct limpet_seccomp_watch *watch, pid_t pid, pid_t tid);

#endif
