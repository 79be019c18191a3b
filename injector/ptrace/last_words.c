#include "injector/ptrace/last_words.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Shared memory, with nobody: private memory of a process that is killed for want of memory may be
 * gone before the kernel reads the list (until Linux 5.18, mm/oom_kill.c). */
static struct words {
	struct robust_list entry;
	struct robust_list_head list;
} * words;

static long announce(void)
{
	return syscall(SYS_set_robust_list, &words->list, sizeof(words->list));
}

void limpet_last_words_prepare(uint32_t *word)
{
	if (!words) {
		void *memory = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		*word = 0;
		if (memory == MAP_FAILED)
			return;
		words = memory;
	}
	words->entry.next = &words->list.list;
	words->list.futex_offset = (long)((uintptr_t)word - (uintptr_t)&words->entry);
	words->list.list_op_pending = NULL;
	words->list.list.next = &words->entry;
	*word = (uint32_t)syscall(SYS_gettid);
	/* This replaces libc's own list: limpet uses no robust mutex. */
	if (announce() < 0)
		*word = 0;
}

void limpet_last_words_forget(void)
{
	if (words)
		words->list.list.next = &words->list.list;
}
