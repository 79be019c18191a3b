#include "injector/ptrace/last_words.h"

#include <linux/futex.h>
#include <stdbool.h>
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
static pid_t owner;

static long announce(void)
{
	return syscall(SYS_set_robust_list, &words->list, sizeof(words->list));
}

/* A child of fork(2) neither has the memory nor may silence our death. */
static bool make_words(void)
{
	void *memory;

	if (words && owner == getpid())
		return true;
	memory = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		return false;
	madvise(memory, sizeof(*words), MADV_DONTFORK);
	words = memory;
	owner = getpid();
	return true;
}

static long offset_of(const uint32_t *word)
{
	return (long)((uintptr_t)word - (uintptr_t)&words->entry);
}

static bool is_prepared(const uint32_t *word)
{
	return words && owner == getpid() && words->list.list.next == &words->entry &&
	       words->list.futex_offset == offset_of(word);
}

void limpet_last_words_prepare(uint32_t *word)
{
	/* Others may have noted in it that they wait. */
	if (is_prepared(word))
		return;
	if (!make_words()) {
		*word = 0;
		return;
	}
	words->list.list.next = &words->list.list;
	words->entry.next = &words->list.list;
	words->list.futex_offset = offset_of(word);
	words->list.list_op_pending = NULL;
	*word = (uint32_t)syscall(SYS_gettid);
	words->list.list.next = &words->entry;
	/* This replaces libc's own list: limpet uses no robust mutex. */
	if (announce() < 0)
		*word = 0;
}

void limpet_last_words_forget(const uint32_t *word)
{
	if (is_prepared(word))
		words->list.list.next = &words->list.list;
}
