/* How a seccomp filter would treat the system calls that a capture makes in its target.
 *
 * A filter is a program of classic BPF over struct seccomp_data (seccomp(2)). limpet reads it from
 * the kernel and runs it here, on the calls of one table, so that no call that could kill the
 * target is ever tried in it. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_SECCOMP_EVAL_H
#define LIMPET_INJECTOR_PREFLIGHT_SECCOMP_EVAL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* All filters of one thread, last attached first; one block of memory. */
struct limpet_seccomp_filters {
	uint64_t stop_ns; /* for how long the thread stood */
	uint32_t arch;    /* AUDIT_ARCH_* of its system calls */
	size_t count;
	struct {
		const struct sock_filter *list;
		size_t count;
	} * list;
};

/* Reads the filters of a thread. Unless it is a tracee of ours (`traced`: stopped, traced by the
 * calling thread), a helper process seizes and stops it for some microseconds; if it does not stop
 * in time, or we die, the helper's end releases it. Sets the stop's time also on failure. -EACCES:
 * no CAP_SYS_ADMIN, or limpet has a filter itself; -EINVAL: it has no filter, or the kernel cannot
 * show it (CONFIG_CHECKPOINT_RESTORE); -ETIMEDOUT: it did not stop; -ESRCH. */
int limpet_seccomp_filters_read(pid_t tid, bool traced,
				struct limpet_seccomp_filters *ret_filters) LIMPET_MUST_CHECK;
void limpet_seccomp_filters_done(struct limpet_seccomp_filters *filters);

/* The kernel's verdict (SECCOMP_RET_*, data included): the strictest of all filters. A program that
 * the kernel would have rejected counts as SECCOMP_RET_KILL_PROCESS. */
uint32_t limpet_seccomp_evaluate(const struct limpet_seccomp_filters *filters,
				 const struct seccomp_data *data);

struct limpet_seccomp_call {
	const char *name; /* "memfd_create" */
	const char *who;  /* "the agent" */
	int number;
	bool optional; /* an error does no harm: limpet then does without */
	uint64_t args[6];
};
/* Stands for the address of memory in the arguments. */
#define LIMPET_SECCOMP_POINTER 0x7ffff7a00000ull
/* Every system call that a capture makes in its target's threads. */
extern const struct limpet_seccomp_call limpet_seccomp_calls[];
extern const size_t limpet_seccomp_call_count;

struct limpet_seccomp_verdict {
	const struct limpet_seccomp_call *call; /* the worst call; NULL: all are allowed */
	uint32_t action;                        /* what the filter does with it */
	bool denies_exec; /* no page can be made executable later (MemoryDenyWriteExecute) */
};
/* `locked`: the target has locked memory. */
void limpet_seccomp_judge(const struct limpet_seccomp_filters *filters, bool locked,
			  struct limpet_seccomp_verdict *ret_verdict);

/* If filters cannot be read: makes every call of the table in a child process, under the filters of
 * the calling process. Does not fill in `denies_exec`. 0 or -errno. */
int limpet_seccomp_probe(struct limpet_seccomp_verdict *ret_verdict) LIMPET_MUST_CHECK;

/* "would kill the program at", "answers EPERM to"...: completes "its filter ... memfd_create". */
const char *limpet_seccomp_action_words(uint32_t action, char *buffer, size_t room);

#endif
