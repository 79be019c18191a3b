/* The pause instruction, for loops that wait. */
#ifndef LIMPET_COMMON_ARCH_PAUSE_H
#define LIMPET_COMMON_ARCH_PAUSE_H

/* Leaves the processor to its other thread, and to a hypervisor. */
static inline void limpet_pause(void)
{
	__asm__ volatile("pause" : : : "memory");
}

#endif
