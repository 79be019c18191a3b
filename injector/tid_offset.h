/* Where the C library keeps a thread's number. */
#ifndef LIMPET_INJECTOR_TID_OFFSET_H
#define LIMPET_INJECTOR_TID_OFFSET_H

#include <stdint.h>
#include <sys/types.h>

/* The distance in bytes behind the thread pointer of one thread of a process, at which the same
 * stands for each: looked for in the target's memory. `ns_tid` as the target itself sees it.
 * 0: not known. */
uint32_t limpet_tid_offset_find(pid_t pid, pid_t ns_tid, uint64_t thread_pointer);

#endif
