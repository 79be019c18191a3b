/* Work in a separate process, for calls that other programs may block: limpet can abandon that
 * process and continue. */
#ifndef LIMPET_COMMON_SUBPROCESS_H
#define LIMPET_COMMON_SUBPROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/err.h"

#define LIMPET_SUBPROCESS_FDS 2
#define LIMPET_SUBPROCESS_BYTES 256

struct limpet_subprocess_job {
	/* Runs in a copy of this process without its other threads and descriptors: only system
	 * calls and its own stack may be used. Returns a descriptor, which is handed over, or 0
	 * without one (a descriptor is never 0 there), or -errno. What it leaves in `argument` is
	 * copied back. */
	int (*work)(void *argument);
	void *argument;
	size_t bytes; /* of the argument: LIMPET_SUBPROCESS_BYTES at most */
	/* Descriptors that it needs; all others are closed there. -1: none. */
	int fds[LIMPET_SUBPROCESS_FDS];
	/* One of these files that grows as the work progresses, or -1. */
	int grows;
};

/* How long work may make no progress before it is abandoned with -ETIMEDOUT. Work that progresses
 * may take sixteen times as long, and as long again to end. No work is started after three
 * processes were abandoned, or after all work together has blocked for two minutes. A variable, for
 * tests. */
struct limpet_subprocess_patience {
	uint64_t ns;
	unsigned left;      /* abandoned so far */
	uint64_t waited_ns; /* so far */
};
extern struct limpet_subprocess_patience limpet_subprocess_patience;

/* A process that serves until it is no longer needed. */
struct limpet_subprocess {
	pid_t pid; /* 0: none */
	int pidfd, socket;
};
#define LIMPET_SUBPROCESS_NONE ((struct limpet_subprocess){.pidfd = -1, .socket = -1})

/* `serve` must return when its socket ends; it has no other descriptor, and may use malloc(3) and
 * its own copy of the context. 0 or -errno. */
int limpet_subprocess_start(void (*serve)(int socket, void *context), void *context,
			    struct limpet_subprocess *ret) LIMPET_MUST_CHECK;
void limpet_subprocess_stop(struct limpet_subprocess *process);
/* Transfer everything, or return -errno: -EPIPE if the process has ended, -ETIMEDOUT without
 * progress for that time. */
int limpet_subprocess_send(const struct limpet_subprocess *process, const struct iovec *parts,
			   size_t count) LIMPET_MUST_CHECK;
int limpet_subprocess_receive(const struct limpet_subprocess *process, void *ret,
			      size_t bytes) LIMPET_MUST_CHECK;

/* Returns the result of `work` (the caller owns a descriptor), or -errno: -ETIMEDOUT, -EIO if the
 * process ended without a result. */
int limpet_subprocess_run(const struct limpet_subprocess_job *job) LIMPET_MUST_CHECK;

/* Waits until a child has ended. Its status as of waitpid(2); 0 if nobody keeps it, as where
 * SIGCHLD is ignored. */
int limpet_subprocess_wait(pid_t child);

#endif
