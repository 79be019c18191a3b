/* How a process that is not our child came to its end. */
#ifndef LIMPET_INJECTOR_PROC_TARGET_END_H
#define LIMPET_INJECTOR_PROC_TARGET_END_H

#include <sys/types.h>

/* Once its pidfd is readable. The status as of wait(2), or -1 where the kernel does not say: it
 * does while the process is a zombie, and from Linux 6.15 on afterwards too. */
int limpet_target_end_status(pid_t pid, int pidfd);

#endif
