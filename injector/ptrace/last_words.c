#include "injector/ptrace/last_words.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static struct robust_list entry;
static struct robust_list_head list;

static long announce(void)
{
	return syscall(SYS_set_robust_list, &list, sizeof(list));
}

void limpet_last_words_prepare(uint32_t *word)
{
	entry.next = &list.list;
	list.futex_offset = (long)((uintptr_t)word - (uintptr_t)&entry);
	list.list_op_pending = NULL;
	list.list.next = &entry;
	*word = (uint32_t)syscall(SYS_gettid);
	/* This replaces libc's own list: limpet uses no robust mutex. */
	if (announce() < 0)
		*word = 0;
}

void limpet_last_words_forget(void)
{
	list.list.next = &list.list;
}
