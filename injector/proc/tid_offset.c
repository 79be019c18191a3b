#include "injector/proc/tid_offset.h"

#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"

/* Its stackblock, stackblock_size and guardsize, also since 2.4. Readers check that the values can
 * be a stack, and that it contains the thread. */
#define GLIBC_STACK_OFFSET 1680u

uint32_t limpet_tid_offset_find(const struct limpet_target *target, pid_t ns_tid,
				uint64_t thread_pointer, uint64_t end)
{
	uint32_t words[1024] = {0}, found = 0, matches = 0;
	uint64_t bytes = end > thread_pointer ? end - thread_pointer : 0;

	/* After the thread structure of the first thread, or of musl's threads, little memory may
	 * be mapped, and what is next may be another's whose reads somebody serves (userfaultfd).
	 */
	if (bytes > sizeof(words))
		bytes = sizeof(words);
	if (!thread_pointer || !bytes ||
	    limpet_memory_read_some(target->pid, thread_pointer, words, bytes) <= 0)
		return 0;
	if (words[LIMPET_TID_OFFSET_GLIBC / 4] == (uint32_t)ns_tid)
		return LIMPET_TID_OFFSET_GLIBC;
	for (uint32_t i = 1; i < LIMPET_COUNT_OF(words); i++) {
		if (words[i] != (uint32_t)ns_tid)
			continue;
		found = i * 4;
		matches++;
	}
	return matches == 1 ? found : 0;
}

uint32_t limpet_stack_offset_of(uint32_t tid_offset)
{
	return tid_offset == LIMPET_TID_OFFSET_GLIBC ? GLIBC_STACK_OFFSET : 0;
}
