#include "explain/stack_owners.h"

#include <stdio.h>
#include <stdlib.h>

#include "injector/elf/thread_stacks.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/proc/tid_offset.h"

int limpet_stack_owners_read(const struct limpet_target *target,
			     struct limpet_stack_owners *ret_threads)
{
	LIMPET_FREE pid_t *tids = NULL;
	struct limpet_stack_owners threads = {0};
	int count = limpet_proc_tasks(target->pid, &tids);

	if (count < 0)
		return count;
	threads.list = calloc((size_t)count + 1, sizeof(*threads.list));
	if (!threads.list)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		struct limpet_stack_owner *thread = &threads.list[threads.count];
		struct limpet_proc_syscall call;
		struct limpet_proc_status status;

		if (limpet_proc_status_read(tids[i], &status) < 0)
			continue;
		thread->tid = tids[i];
		thread->ns_tid = status.ns_pid;
		snprintf(thread->name, sizeof(thread->name), "%s", status.name);
		if (limpet_proc_syscall_read(target->pid, tids[i], &call) == 0 && !call.running)
			thread->sp = call.sp;
		threads.count++;
	}
	*ret_threads = threads;
	return 0;
}

void limpet_stack_owners_done(struct limpet_stack_owners *threads)
{
	free(threads->list);
	*threads = (struct limpet_stack_owners){0};
}

const struct limpet_stack_owner *limpet_stack_owners_find(const struct limpet_stack_owners *threads,
							  const struct limpet_memory_reader *memory,
							  uint64_t start, uint64_t top,
							  bool *ret_ended)
{
	uint64_t words[LIMPET_STACK_TOP_BYTES / 8], thread_pointer = 0;
	int32_t tid;

	*ret_ended = false;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->list[i].sp >= start && threads->list[i].sp < top)
			return &threads->list[i];
	if (top >= sizeof(words) &&
	    limpet_memory_reader_read(memory, top - sizeof(words), words, sizeof(words)) == 0)
		thread_pointer = limpet_thread_stacks_thread_in(words, top);
	if (!thread_pointer ||
	    limpet_memory_reader_read(memory, thread_pointer + LIMPET_TID_OFFSET_GLIBC, &tid,
				      sizeof(tid)) < 0)
		return NULL;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->list[i].ns_tid == tid)
			return &threads->list[i];
	/* The kernel clears the number, or the C library sets it to a negative one. */
	*ret_ended = tid <= 0;
	return NULL;
}
