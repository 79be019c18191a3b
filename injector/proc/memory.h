/* The target's memory, read in bulk from outside. */
#ifndef LIMPET_INJECTOR_PROC_MEMORY_H
#define LIMPET_INJECTOR_PROC_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Calls by which a thread of limpet accesses a target's memory, or the list of its mappings: each
 * takes the lock on the mappings there, for which it may have to wait. Read by other threads. */
struct limpet_memory_calls {
	uint64_t number; /* of begins and ends: odd within a call; atomic */
	pid_t pid;       /* of the last call; atomic */
	pid_t tid;       /* the thread that makes them */
};
/* Those of the calling thread are counted there from now on; NULL: no longer. */
void limpet_memory_count_calls(struct limpet_memory_calls *calls);
/* Before and after one that is made elsewhere. */
void limpet_memory_count_call(pid_t pid);

/* All or nothing: 0, or -errno (-EFAULT: part of it is not mapped). */
int limpet_memory_read(pid_t pid, uint64_t address, void *ret, size_t bytes) LIMPET_MUST_CHECK;
/* Reads as much as is readable from `address` on without a gap; returns the number of bytes, or
 * -errno. */
ssize_t limpet_memory_read_some(pid_t pid, uint64_t address, void *ret, size_t bytes);
/* The same of memory that limpet has mapped there, which may not be mapped as readable. Through
 * /proc/PID/mem: another mapping may lie there by now, and is read whatever its protection. */
int limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes) LIMPET_MUST_CHECK;
ssize_t limpet_memory_read_own_some(pid_t pid, uint64_t address, void *ret, size_t bytes);
/* Whether they read memory that is not mapped as readable. Since Linux 6.12 a kernel may forbid
 * that (proc_mem.force_override). */
bool limpet_memory_is_forced(void);
/* Returns how many of `count` addresses, counted from the first, can be read; looks at 64 at most.
 */
size_t limpet_memory_probe(pid_t pid, const uint64_t *addresses, size_t count);
/* Respects the page protections of the target. Never used on words that running threads read: the
 * kernel's copy is not atomic. */
int limpet_memory_write(pid_t pid, uint64_t address, const void *from,
			size_t bytes) LIMPET_MUST_CHECK;
/* Exchanges a word in private memory while every thread of the target is stopped: writes `value`
 * where `expected` is, past page protections. Returns 0, 1 (another value is there), or -errno. */
int limpet_memory_exchange_stopped(int mem_fd, uint64_t address, uint64_t expected, uint64_t value);

#endif
