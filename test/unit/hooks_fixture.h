/* What tests of the agent's hooks share: the agent in this process, a stack to call hooks on, and
 * what the calling thread has recorded. Whatever fails here fails the running test. */
#ifndef LIMPET_TEST_HOOKS_FIXTURE_H
#define LIMPET_TEST_HOOKS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/agent_fixture.h"

#define BLOCK_A 0x10000040ull
#define BLOCK_B 0x20000080ull
#define RECORDS_PER_CHUNK ((LIMPET_CHUNK_BYTES - sizeof(struct limpet_chunk)) / 24)

extern struct agent_fixture fixture;
extern struct fixture_stack stack;
#define PLAIN_FRAMES 3u
extern const uint64_t plain_stack[PLAIN_FRAMES];

int hooks_begin_small(void **state);
int hooks_begin_large(void **state);
int hooks_end(void **state);
#define WITH_AGENT(test) cmocka_unit_test_setup_teardown(test, hooks_begin_small, hooks_end)
#define WITH_LARGE_AGENT(test) cmocka_unit_test_setup_teardown(test, hooks_begin_large, hooks_end)

uint32_t own_tid(void);
struct limpet_thread *own_thread(void);
/* What the agent keeps of it in private memory. */
struct limpet_own *own_private(void);
/* Of the calling thread, all so far; malloc'ed. */
size_t own_records(struct fixture_record **ret_records);
void assert_outside(const struct limpet_thread *thread);

struct hooks_event {
	uint32_t type; /* with LIMPET_EVENT_REALLOC */
	uint64_t address, size;
};
/* Exactly these since the last time, in this order; stacks with allocations and nowhere else. NULL,
 * or what is wrong. */
const char *hooks_complaint(const struct hooks_event *expected, size_t count);
void hooks_assert_recorded(const struct hooks_event *expected, size_t count);
#define RECORDED(...)                                                             \
	hooks_assert_recorded((const struct hooks_event[]){__VA_ARGS__},          \
			      sizeof((const struct hooks_event[]){__VA_ARGS__}) / \
				      sizeof(struct hooks_event))
#define NOTHING() hooks_assert_recorded(NULL, 0)

void take_all_chunks(void);
/* Where this C library keeps a thread's number. */
uint32_t measure_tid_offset(void);
void give_chunk(uint32_t index);

#endif
