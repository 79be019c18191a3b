/* Where the C library stores a thread's tid and stack. */
#ifndef LIMPET_INJECTOR_PROC_TID_OFFSET_H
#define LIMPET_INJECTOR_PROC_TID_OFFSET_H

#include <stdint.h>
#include <sys/types.h>

struct limpet_target;

/* Of glibc's struct pthread, since 2.4. */
#define LIMPET_TID_OFFSET_GLIBC 720u

/* The offset from the thread pointer at which every thread of the process has its tid, found by a
 * search of the target's memory from there to `end`, that of the mapping. `ns_tid`: the tid in the
 * target's pid namespace. 0: unknown. */
uint32_t limpet_tid_offset_find(const struct limpet_target *target, pid_t ns_tid,
				uint64_t thread_pointer, uint64_t end);
/* The offset at which three words hold the lowest address of a thread's stack, its size and that of
 * its guard, as struct limpet_shm wants it. 0: unknown. */
uint32_t limpet_stack_offset_of(uint32_t tid_offset);
/* The lowest address, above its guard, of the stack that the thread was created with, by glibc or
 * musl, or with which the program had it created. `end` is the end of the mapping with the thread
 * pointer. 0: unknown, or `sp` is not on that stack. */
uint64_t limpet_stack_lowest(pid_t pid, uint64_t thread_pointer, uint64_t end, uint64_t sp);

#endif
