/* POSIX message queues of a process (mq_overview(7)). */
#ifndef LIMPET_INJECTOR_PROC_MESSAGE_QUEUE_H
#define LIMPET_INJECTOR_PROC_MESSAGE_QUEUE_H

#include <sys/types.h>

/* Of this many descriptors, the lowest ones, a thread that takes an empty table of its own closes
 * copies (NR_OPEN_DEFAULT: dup_fd() in fs/file.c). */
#define LIMPET_DESCRIPTORS_COPIED 64

/* The first of these that is a queue whose next message the process is to be told of
 * (mq_notify(3)), or may be: who cannot read the queue's state does not know. -1: none. When a
 * thread of the process closes any copy of it, the kernel takes that request back
 * (mqueue_flush_file() in ipc/mqueue.c). Asks no file system that a program serves. */
int limpet_proc_notifying_queue(pid_t pid);

#endif
