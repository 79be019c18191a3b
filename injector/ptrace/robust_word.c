#include "injector/ptrace/robust_word.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Shared memory, with nobody: private memory of a process that is killed for want of memory may be
 * gone before the kernel reads the list (until Linux 5.18, mm/oom_kill.c). */
static struct robust {
	struct robust_list entry;
	struct robust_list_head list;
} * robust;
static pid_t owner;

static long announce(void)
{
	return syscall(SYS_set_robust_list, &robust->list, sizeof(robust->list));
}

/* A child of fork(2) neither has the memory nor may silence our death. */
static bool make_list(void)
{
	void *memory;

	if (robust && owner == getpid())
		return true;
	memory = mmap(NULL, sizeof(*robust), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED)
		return false;
	madvise(memory, sizeof(*robust), MADV_DONTFORK);
	robust = memory;
	owner = getpid();
	return true;
}

static long offset_of(const uint32_t *word)
{
	return (long)((uintptr_t)word - (uintptr_t)&robust->entry);
}

static bool is_registered(const uint32_t *word)
{
	return robust && owner == getpid() && robust->list.list.next == &robust->entry &&
	       robust->list.futex_offset == offset_of(word);
}

void limpet_robust_word_register(uint32_t *word)
{
	/* Others may have noted in it that they wait. */
	if (is_registered(word))
		return;
	if (!make_list()) {
		*word = 0;
		return;
	}
	robust->list.list.next = &robust->list.list;
	robust->entry.next = &robust->list.list;
	robust->list.futex_offset = offset_of(word);
	robust->list.list_op_pending = NULL;
	*word = (uint32_t)syscall(SYS_gettid);
	robust->list.list.next = &robust->entry;
	/* This replaces libc's own list: limpet uses no robust mutex. */
	if (announce() < 0)
		*word = 0;
}

void limpet_robust_word_unregister(const uint32_t *word)
{
	if (is_registered(word))
		robust->list.list.next = &robust->list.list;
}
