/* Where the stacks of a process's threads are, by what the C library notes about them in each
 * thread's structure. Reads from outside, while the process runs, and only pages that are present.
 *
 * A mapping need not be one stack: adjacent ones are joined if nothing is mapped between them, as
 * by glibc 2.42, whose guard pages are part of the mapping, and a program may have a stack in the
 * midst of its own data. */
#ifndef LIMPET_INJECTOR_ELF_THREAD_STACKS_H
#define LIMPET_INJECTOR_ELF_THREAD_STACKS_H

#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

/* Larger ones are not recognized by their mapping. */
#define LIMPET_STACK_LIMIT_BYTES ((uint64_t)64 << 20)

/* With its guard. */
struct limpet_thread_stack {
	uint64_t start, end;
};
struct limpet_thread_stacks {
	struct limpet_thread_stack *list; /* sorted by address; they do not overlap */
	size_t count, capacity;
};
void limpet_thread_stacks_done(struct limpet_thread_stacks *stacks);

/* How the process is read. */
struct limpet_thread_stacks_reading {
	const struct limpet_maps *maps;
	struct limpet_pages *pages; /* which leave out what is swapped out */
	int memory;                 /* /proc/PID/mem */
};
/* Those of threads of glibc's, of which one at least has one of these stack pointers: then other
 * ones, and stacks that are kept for new threads, too. 0 or -ENOMEM; what cannot be read is left
 * out. */
int limpet_thread_stacks_read(const struct limpet_thread_stacks_reading *reading,
			      const uint64_t *stack_pointers, size_t count,
			      struct limpet_thread_stacks *ret_stacks) LIMPET_MUST_CHECK;
/* The first stack that ends above `address`; `count` if there is none. */
size_t limpet_thread_stacks_from(const struct limpet_thread_stacks *stacks, uint64_t address);

/* The thread pointer of the thread whose stack ends at `top`, a page boundary, by the thread's
 * structure in the last two pages, of which `words` are a copy; 0: there is none. A thread that has
 * ended counts, too, while its stack is kept for the next one. */
#define LIMPET_STACK_TOP_BYTES 8192u
uint64_t limpet_thread_stacks_thread_in(const uint64_t words[LIMPET_STACK_TOP_BYTES / 8],
					uint64_t top);

/* Whether a guard is mapped right below map `i`. */
bool limpet_map_has_guard(const struct limpet_maps *maps, size_t i);

#endif
