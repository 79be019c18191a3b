/* A process's descriptors, read from outside, and how many limpet itself may have. */
#ifndef LIMPET_INJECTOR_PROC_DESCRIPTOR_H
#define LIMPET_INJECTOR_PROC_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns a duplicate (O_CLOEXEC) of the process's descriptor `fd`, or -errno (-EBADF: it has no
 * such descriptor; -ESRCH: it is gone). `pidfd` refers to the process; if its main thread has
 * ended, another thread is used, which requires Linux 6.9. */
int limpet_descriptor_get(pid_t pid, int pidfd, int fd);
/* The same for the descriptor table of one thread, which must be stopped and traced: it may have a
 * table of its own (unshare(2)), which is accessible since Linux 6.9. */
int limpet_descriptor_get_of(pid_t pid, int pidfd, pid_t tid, int fd);
/* Whether this works for this process on the running kernel. */
bool limpet_descriptor_reachable(pid_t pid);
/* Whether both threads are known to have separate descriptor tables. */
bool limpet_descriptor_apart(pid_t tid, pid_t other);

/* Lets limpet itself have this many descriptors, as far as its hard limit allows. */
void limpet_descriptor_raise_limit(uint64_t count);

#endif
