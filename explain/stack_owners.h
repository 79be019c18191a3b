/* The threads of a process, and to which of them a stack belongs. */
#ifndef LIMPET_EXPLAIN_STACK_OWNERS_H
#define LIMPET_EXPLAIN_STACK_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/memory_reader.h"

struct limpet_target;

struct limpet_stack_owner {
	pid_t tid, ns_tid; /* the latter in its own pid namespace */
	uint64_t sp;       /* 0: it was running */
	char name[64];
};
struct limpet_stack_owners {
	struct limpet_stack_owner *list;
	size_t count;
};
/* 0 or -errno. */
int limpet_stack_owners_read(const struct limpet_target *target,
			     struct limpet_stack_owners *ret_threads) LIMPET_MUST_CHECK;
void limpet_stack_owners_done(struct limpet_stack_owners *threads);

/* The thread whose stack is [start, top), or NULL: by its stack pointer, or by the number that the
 * C library keeps at the top of the stack. *ret_ended: that says that the thread has ended. */
const struct limpet_stack_owner *limpet_stack_owners_find(const struct limpet_stack_owners *threads,
							  const struct limpet_memory_reader *memory,
							  uint64_t start, uint64_t top,
							  bool *ret_ended);

#endif
