#include "explain/threads.h"

#include <stdio.h>
#include <stdlib.h>

#include "injector/proc/proc.h"

/* nptl/descr.h: `tid` in struct pthread, on x86-64 and aarch64 of all releases since 2.10 the word
 * after the list of all stacks. */
#define TID_OFFSET 720u
/* nptl/allocatestack.c: struct pthread at the top, aligned to 64 bytes or more. */
#define STACK_TOP_BYTES 8192u

int limpet_threads_read(pid_t pid, struct limpet_threads *ret_threads)
{
	LIMPET_FREE pid_t *tids = NULL;
	struct limpet_threads threads = {0};
	int count = limpet_proc_tasks(pid, &tids);

	if (count < 0)
		return count;
	threads.list = calloc((size_t)count + 1, sizeof(*threads.list));
	if (!threads.list)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		struct limpet_thread *thread = &threads.list[threads.count];
		struct limpet_proc_syscall call;
		struct limpet_proc_status status;

		if (limpet_proc_status_read(tids[i], &status) < 0)
			continue;
		thread->tid = tids[i];
		thread->ns_tid = status.ns_pid;
		snprintf(thread->name, sizeof(thread->name), "%s", status.name);
		if (limpet_proc_syscall_read(pid, tids[i], &call) == 0 && !call.running)
			thread->sp = call.sp;
		threads.count++;
	}
	*ret_threads = threads;
	return 0;
}

void limpet_threads_done(struct limpet_threads *threads)
{
	free(threads->list);
	*threads = (struct limpet_threads){0};
}

/* sysdeps/x86_64/nptl/tls.h: tcbhead_t contains its own address twice. The thread pointer of the
 * stack that ends at `top`; 0: there is none. */
static uint64_t thread_at(const struct limpet_source *source, uint64_t top)
{
	uint64_t words[STACK_TOP_BYTES / 8], start = top - STACK_TOP_BYTES;

	if (top < STACK_TOP_BYTES || limpet_source_read(source, start, words, sizeof(words)) < 0)
		return 0;
	for (size_t i = 0; i + 2 < LIMPET_COUNT_OF(words); i += 8)
		if (words[i] == start + 8 * i && words[i + 2] == words[i])
			return words[i];
	return 0;
}

const struct limpet_thread *limpet_threads_find(const struct limpet_threads *threads,
						const struct limpet_source *source, uint64_t start,
						uint64_t top, bool *ret_ended)
{
	uint64_t thread_pointer;
	int32_t tid;

	*ret_ended = false;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->list[i].sp >= start && threads->list[i].sp < top)
			return &threads->list[i];
	thread_pointer = thread_at(source, top);
	if (!thread_pointer ||
	    limpet_source_read(source, thread_pointer + TID_OFFSET, &tid, sizeof(tid)) < 0)
		return NULL;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->list[i].ns_tid == tid)
			return &threads->list[i];
	/* The kernel clears the number, or the C library sets it to a negative one. */
	*ret_ended = tid <= 0;
	return NULL;
}
