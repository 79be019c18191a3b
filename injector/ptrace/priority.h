/* Where threads of the target wait for limpet, limpet must not wait behind all others of them for a
 * processor: what it does then is short, and they stand for as long as it takes. */
#ifndef LIMPET_INJECTOR_PTRACE_PRIORITY_H
#define LIMPET_INJECTOR_PTRACE_PRIORITY_H

/* Of the calling thread. Answers the priority that it had. Without the right to it (CAP_SYS_NICE)
 * nothing changes. */
int limpet_priority_raise(void);
void limpet_priority_set_back(int had);

#endif
