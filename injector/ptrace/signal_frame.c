#include "injector/ptrace/signal_frame.h"

#include <string.h>

#include "injector/proc/memory.h"
#include "injector/ptrace/arch.h"

bool limpet_signal_is_restorer(pid_t pid, uint64_t address)
{
	uint8_t code[sizeof(LIMPET_ARCH_RESTORER_LONG) - 1];

	return limpet_memory_read(pid, address, code, sizeof(code)) == 0 &&
	       (!memcmp(code, LIMPET_ARCH_RESTORER_LONG, sizeof(code)) ||
		!memcmp(code, LIMPET_ARCH_RESTORER_SHORT, sizeof(LIMPET_ARCH_RESTORER_SHORT) - 1));
}

bool limpet_signal_goes_back(pid_t pid, const struct limpet_stack_maps *maps, uint64_t sp,
			     void *room, bool (*is_there)(const void *context, uint64_t pc),
			     const void *context)
{
	const uint64_t *words = room;
	const size_t distance = LIMPET_ARCH_SIGNAL_PC_OFFSET / sizeof(*words);
	/* The kernel aligns its frames, whatever the program's stack pointer is. */
	ssize_t bytes =
		limpet_stack_read(pid, maps, sp & -sizeof(*words), room, LIMPET_SIGNAL_STACK_BYTES);

	for (size_t i = distance; bytes > 0 && i < (size_t)bytes / sizeof(*words); i++)
		if (is_there(context, words[i]) &&
		    limpet_signal_is_restorer(pid, words[i - distance]))
			return true;
	return bytes <= 0;
}
