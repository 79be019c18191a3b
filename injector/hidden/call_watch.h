/* Watches the calls of some functions of a process for a while: uprobes of the kernel, without
 * stopping the process or loading anything into it.
 *
 * The kernel puts a breakpoint instruction at each of the functions, in this process alone, and
 * takes it back when the watch ends, also if limpet is killed meanwhile, for which a process of its
 * own watches. A call that is watched takes some microseconds longer; so a watch is bounded in
 * calls and in time. What stays in the process is a page of the kernel's own, "[uprobes]", that
 * nobody enters any more. */
#ifndef LIMPET_INJECTOR_HIDDEN_CALL_WATCH_H
#define LIMPET_INJECTOR_HIDDEN_CALL_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/hidden/call_judge.h"

struct limpet_target;

struct limpet_call_watch {
	const struct limpet_target *target;
	int fd;                               /* of the file that has the functions */
	uint64_t offsets[LIMPET_WATCHED_MAX]; /* of the functions, in the file */
	bool gives[LIMPET_WATCHED_MAX];       /* what the function returns is watched, too */
	unsigned count;                       /* of functions */
	uint64_t most_ns;                     /* the watch ends after this time, or */
	size_t most_calls;                    /* after so many calls and returns */
};

/* Blocks. The calls in *ret are malloc'ed, each thread's in their order; of threads that did not
 * run at the beginning there are none. 0; -EACCES, -EPERM, -ENOENT, -EINVAL...: the kernel does not
 * allow it, or cannot; -E2BIG: too many threads; -ESRCH; with a message. */
int limpet_call_watch_run(const struct limpet_call_watch *watch, struct limpet_watched_call **ret,
			  size_t *ret_count, struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
