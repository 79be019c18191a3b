#include "injector/proc/tid_offset.h"

#include "common/err.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"

/* Its stackblock, stackblock_size and guardsize, also since 2.4. Readers check that the values can
 * be a stack, and that it contains the thread. */
#define GLIBC_STACK_OFFSET 1680u
/* The stack's block ends with the structure, or little above it. */
#define GLIBC_TOP_BYTES (64u << 10)
#define STACK_MOST_BYTES ((uint64_t)1 << 36)
/* Of musl's structure, in words: the stack's upper end and size are among these. */
#define MUSL_WORDS 16u
#define MUSL_FIRST_WORD 8u

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

static uint64_t lowest_of_glibc(pid_t pid, uint64_t thread_pointer, uint64_t end, uint64_t sp)
{
	uint64_t words[3], block_end;

	if (end - thread_pointer < GLIBC_STACK_OFFSET + sizeof(words) ||
	    limpet_memory_read(pid, thread_pointer + GLIBC_STACK_OFFSET, words, sizeof(words)) < 0)
		return 0;
	block_end = words[0] + words[1];
	if (words[1] > STACK_MOST_BYTES || words[2] >= words[1] || block_end <= thread_pointer ||
	    block_end - thread_pointer > GLIBC_TOP_BYTES || words[0] + words[2] > sp)
		return 0;
	return words[0] + words[2];
}

/* Its place differs by version. The guard is below. */
static uint64_t lowest_of_musl(const uint64_t words[MUSL_WORDS], uint64_t thread_pointer,
			       uint64_t sp)
{
	for (size_t i = MUSL_FIRST_WORD; i + 1 < MUSL_WORDS; i++)
		if (words[i] > sp && words[i] <= thread_pointer &&
		    words[i + 1] <= STACK_MOST_BYTES && words[i + 1] < words[i] &&
		    words[i] - words[i + 1] <= sp)
			return words[i] - words[i + 1];
	return 0;
}

uint64_t limpet_stack_lowest(pid_t pid, uint64_t thread_pointer, uint64_t end, uint64_t sp)
{
	uint64_t words[MUSL_WORDS], lowest = 0;

	if (thread_pointer <= sp || end <= thread_pointer || end - thread_pointer < sizeof(words) ||
	    limpet_memory_read(pid, thread_pointer, words, sizeof(words)) < 0 ||
	    words[0] != thread_pointer)
		return 0;
	/* glibc's has its own address twice; musl's is in a ring of all threads there. */
	if (words[2] == thread_pointer)
		lowest = lowest_of_glibc(pid, thread_pointer, end, sp);
	return lowest ? lowest : lowest_of_musl(words, thread_pointer, sp);
}
