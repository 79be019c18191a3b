/* How a process that is not our child ended. */
#ifndef LIMPET_INJECTOR_PROC_TARGET_END_H
#define LIMPET_INJECTOR_PROC_TARGET_END_H

struct limpet_target;

/* To be called when its pidfd is readable. Returns the status as of wait(2), or -1 if the kernel
 * does not report it: it does while the process is a zombie, and since Linux 6.15 also afterwards.
 */
int limpet_target_end_status(const struct limpet_target *target);

#endif
