/* A thread as `limpet stacks` shows it. */
#ifndef LIMPET_INJECTOR_STACKS_STACK_THREAD_H
#define LIMPET_INJECTOR_STACKS_STACK_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* By what a frame was found. */
enum limpet_stack_finder {
	LIMPET_FOUND_BY_REGISTERS, /* the first */
	LIMPET_FOUND_BY_LIBUNWIND,
	LIMPET_FOUND_BY_TABLE, /* limpet's own unwind tables */
	LIMPET_FOUND_BY_FP     /* the frame pointer */
};

struct limpet_stack_frame {
	uint64_t address; /* minus one: in the code that ran, or in the call */
	enum limpet_stack_finder finder;
	uint8_t signal; /* not 0: the kernel's, by which a handler returns to the next one */
};

/* Why there are no frames. */
enum limpet_stack_missing {
	LIMPET_STACK_THERE,           /* there are */
	LIMPET_STACK_UNINTERRUPTIBLE, /* uninterruptible: it was not stopped */
	LIMPET_STACK_DISTURBED,       /* nor this one: its system call would notice */
	LIMPET_STACK_TRACED,          /* by another process */
	LIMPET_STACK_LATE,            /* it did not stop in time */
	LIMPET_STACK_ENDED,           /* a main thread that others have outlived */
	LIMPET_STACK_OF_KERNEL,       /* it runs no code of the program (io_uring) */
	LIMPET_STACK_UNREADABLE,      /* there is no memory at its stack pointer */
	LIMPET_STACK_NO_ROOM,         /* limpet has copied as much as it copies at most */
	LIMPET_STACK_NO_READER        /* the process that unwinds could not be confined, or ended */
};

struct limpet_stack_thread {
	pid_t tid;
	char name[LIMPET_PROC_NAME_BYTES]; /* any bytes; "" unknown */
	char state;                        /* as in struct limpet_proc_status */
	long system_call;                  /* in which it is; -1: none, or unknown */
	uint64_t stop_ns;                  /* for how long it stood; 0: it was not stopped */
	enum limpet_stack_missing missing;
	bool truncated; /* outer frames are missing */
	uint32_t count;
	struct limpet_stack_frame *frames; /* the innermost first */
};

#endif
