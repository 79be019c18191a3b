/* Where the C library keeps a thread's number and stack. */
#ifndef LIMPET_INJECTOR_PROC_TID_OFFSET_H
#define LIMPET_INJECTOR_PROC_TID_OFFSET_H

#include <stdint.h>
#include <sys/types.h>

/* The distance in bytes behind the thread pointer of one thread of a process, at which the same
 * stands for each: looked for in the target's memory. `ns_tid` as the target itself sees it.
 * 0: not known. */
uint32_t limpet_tid_offset_find(pid_t pid, pid_t ns_tid, uint64_t thread_pointer);
/* Where by that layout three words say of a thread's stack its lowest address, its size and that of
 * its guard, as struct limpet_shm has it. 0: not known. */
uint32_t limpet_stack_offset_of(uint32_t tid_offset);

#endif
