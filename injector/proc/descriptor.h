/* A process's descriptors, from outside. */
#ifndef LIMPET_INJECTOR_PROC_DESCRIPTOR_H
#define LIMPET_INJECTOR_PROC_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/types.h>

/* A duplicate (O_CLOEXEC) of the process's descriptor `fd`, or -errno (-EBADF: it has none of that
 * number; -ESRCH: it is gone). `pidfd` is of the process; where its main thread has ended, another
 * thread is asked, which takes Linux 6.9. */
int limpet_descriptor_get(pid_t pid, int pidfd, int fd);
/* The same, as a thread of the process has it, that stands still and is traced: it may have a table
 * of its own (unshare(2)), which is seen from Linux 6.9 on. */
int limpet_descriptor_get_of(pid_t pid, int pidfd, pid_t tid, int fd);
/* Whether that works for this process by the kernel that runs here. */
bool limpet_descriptor_reachable(pid_t pid);
/* Whether both are known to have tables of their own. */
bool limpet_descriptor_apart(pid_t tid, pid_t other);

#endif
