/* What tests share that walk this very process: its tables, its stack, and others that walk it,
 * too. Whatever fails here fails the running test. */
#ifndef LIMPET_TEST_WALK_FIXTURE_H
#define LIMPET_TEST_WALK_FIXTURE_H

#include <stdint.h>

#include "common/unwind_walk.h"
#include "test/unit/unwind_fixture.h"

enum { MAX_DEPTH = 512 };

extern struct fixture_process process;
extern struct limpet_walk_ranges stack; /* of the main thread, and an alternate stack */
extern unsigned compared; /* walks that were held against the others in the running test */

/* The setup and teardown of a group of tests, and the setup of each test. */
int walk_group_begin(void **state);
int walk_group_end(void **state);
int walk_setup(void **state);

struct walk {
	uint64_t pcs[MAX_DEPTH];
	uint32_t count;
	enum limpet_walk_end end;
};
void walk_from(struct limpet_walk_frame frame, struct walk *ret);
/* Walks, and holds the callers of this function against libunwind's and glibc's; then once more
 * with a cache, cold and warm, and from a copy. */
void compare(void);

#define HERE()                                                                            \
	({                                                                                \
		struct limpet_walk_frame here_ = {.flags = LIMPET_FRAME_EXACT};           \
		__asm__ volatile("lea 0f(%%rip), %0\n\t0: mov %%rsp, %1\n\tmov %%rbp, %2" \
				 : "=&r"(here_.pc), "=&r"(here_.sp), "=&r"(here_.fp));    \
		here_;                                                                    \
	})

/* Code as users build it: without frame pointers. A call is never the last thing. */
#ifdef __clang__
#define BY_FRAME_POINTER __attribute__((noinline))
#define PLAIN __attribute__((noinline))
#else
#define BY_FRAME_POINTER __attribute__((noinline, optimize("no-omit-frame-pointer")))
#define PLAIN __attribute__((noinline, optimize("O2", "omit-frame-pointer")))
#endif
#define KEEP() __asm__ volatile("" ::: "memory")

#endif
