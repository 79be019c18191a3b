/* Work in a process of its own, for calls in which somebody else may let us wait: that process can
 * be left behind, and limpet go on. */
#ifndef LIMPET_COMMON_APART_H
#define LIMPET_COMMON_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/err.h"

#define LIMPET_APART_FDS 2
#define LIMPET_APART_BYTES 256

struct limpet_apart {
	/* In a copy of this process, of whose threads and descriptors there is no other: nothing
	 * but system calls and its own stack. Answers a descriptor, which is handed over, or 0
	 * without one (a descriptor is never 0 there), or -errno. What it leaves in `argument` is
	 * copied back. */
	int (*work)(void *argument);
	void *argument;
	size_t bytes; /* of the argument: LIMPET_APART_BYTES at most */
	/* Descriptors that it needs; the others are closed there. -1: none. */
	int fds[LIMPET_APART_FDS];
	/* A file among these that grows as the work goes on, or -1. */
	int grows;
};

/* For how long nothing may go on before a work is left behind: then -ETIMEDOUT. What goes on may
 * take sixteen times as long, and to end as long again. No work is begun after the third that was
 * left behind, or when all together have let us wait for two minutes. For tests. */
struct limpet_apart_patience {
	uint64_t ns;
	unsigned left;      /* behind so far */
	uint64_t waited_ns; /* so far */
};
extern struct limpet_apart_patience limpet_apart_patience;

/* One that goes on until it is not needed any more. */
struct limpet_apart_process {
	pid_t pid; /* 0: none */
	int pidfd, socket;
};
#define LIMPET_APART_NONE ((struct limpet_apart_process){.pidfd = -1, .socket = -1})

/* `serve` ends when its socket does; it has no other descriptor, and may use malloc(3). 0 or
 * -errno. */
int limpet_apart_start(void (*serve)(int socket),
		       struct limpet_apart_process *ret) LIMPET_MUST_CHECK;
void limpet_apart_stop(struct limpet_apart_process *process);
/* All of it, or -errno: -EPIPE where it has ended, -ETIMEDOUT where all of it has let us wait as
 * long as nothing may go on. */
int limpet_apart_send(const struct limpet_apart_process *process, const struct iovec *parts,
		      size_t count) LIMPET_MUST_CHECK;
int limpet_apart_receive(const struct limpet_apart_process *process, void *ret,
			 size_t bytes) LIMPET_MUST_CHECK;

/* What `work` answers, a descriptor as ours (owned), or -errno: -ETIMEDOUT, -EIO where the process
 * ended without an answer. */
int limpet_apart(const struct limpet_apart *apart) LIMPET_MUST_CHECK;

#endif
