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

/* No privileges, no new file, no socket, no process, no signal to others, no code made, bounded
 * memory and time; the first to go where memory is short, and gone with its parent's thread. As
 * root also nobody, in an empty root folder, where that can be had. What is open stays so. 0, or
 * -errno where the kernel does not grant one of the others: then nothing is to be read. Variants
 * with sanitizers, which need files and threads of their own, are only bounded in time. One thread,
 * once. */
int limpet_confine(const struct limpet_confinement *confinement,
		   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
