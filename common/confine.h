/* Irrevocably confines a process to computing on the data it was given: for code that parses
 * foreign files and memory. */
#ifndef LIMPET_COMMON_CONFINE_H
#define LIMPET_COMMON_CONFINE_H

#include <stdint.h>

#include "common/err.h"

struct limpet_confinement {
	uint64_t memory_bytes; /* of address space */
	uint32_t cpu_seconds;  /* then the kernel ends the process */
	uint32_t descriptors;
	/* Called when a library opens a file by name: returns a descriptor or -errno. Runs in a
	 * handler of SIGSYS, within the call, in the thread that made it: the library may hold any
	 * lock. NULL: -EACCES. */
	int (*open_file)(void *context, const char *path);
	void *context;
};

/* Afterwards the process has no privileges; its memory and time are bounded. It can open no file or
 * socket, make no process or code, and send no signal to others. The OOM killer takes it first, and
 * it ends with its parent's thread. As root it also becomes nobody, in an empty root directory, if
 * possible. Open descriptors stay open. Returns 0, or -errno if the kernel does not grant one of
 * the others: then the caller must not read anything. Builds with sanitizers, which need files and
 * threads of their own, are only bounded in time. Call it once, in a process with one thread. */
int limpet_confine(const struct limpet_confinement *confinement,
		   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
