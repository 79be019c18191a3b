/* The agent in our own process: its sources built for the host, started as the boot stub would
 * start it, over a real segment. No slot of
 * ours is patched. Any failure to make this fails the running test. */
#ifndef LIMPET_TEST_AGENT_FIXTURE_H
#define LIMPET_TEST_AGENT_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/hook.h"
#include "collector/stream/stack_tree.h"
#include "injector/remote/segment.h"

/* Hooks that the fixture starts the agent with; their originals are fixture_original_*(). */
enum fixture_hook {
	FIXTURE_MALLOC = LIMPET_FIRST_HOOK,
	FIXTURE_CALLOC,
	FIXTURE_REALLOC,
	FIXTURE_REALLOCARRAY,
	FIXTURE_FREE,
	FIXTURE_FREE_UNSIZED, /* an allocator without malloc_usable_size */
	FIXTURE_POSIX_MEMALIGN,
	FIXTURE_MEMALIGN,
	FIXTURE_MMAP,
	FIXTURE_MUNMAP,
	FIXTURE_MREMAP,
	FIXTURE_LOADER,
	FIXTURE_HOOKS
};

struct agent_fixture {
	struct limpet_segment own, *segment;
	struct limpet_shm *shm; /* our mapping; the agent has one of its own */
	struct limpet_start start;
	/* What malloc_usable_size() answers; may be set by a test. */
	uint64_t (*usable_size)(uint64_t block);
};

/* `segment`: NULL makes one of `memory_bytes`. */
void agent_fixture_begin(struct agent_fixture *fixture, uint64_t memory_bytes,
			 struct limpet_segment *segment);
void agent_fixture_end(struct agent_fixture *fixture);

/* A made-up stack: room for a hook's frame, below frames that are linked by frame pointers, and
 * under it what its way has there: in the last word the return address of its call. */
#define FIXTURE_MAX_FRAMES 300u
#define FIXTURE_BELOW 16u
struct fixture_stack {
	uint64_t below[FIXTURE_BELOW];
	struct limpet_hook_frame hook;
	uint64_t words[2 * FIXTURE_MAX_FRAMES + 2];
};
/* Return addresses, innermost first; the last frame's frame pointer is 0. */
void fixture_stack_build(struct fixture_stack *stack, const uint64_t *addresses, uint32_t count);

/* What the way of the hook's thunk does: enter, the original (which answers `result`), exit. False:
 * the hook let the call pass. */
bool fixture_call(struct fixture_stack *stack, enum fixture_hook hook, uint64_t result,
		  const uint64_t args[6]);
#define FIXTURE_CALL(stack, hook, result, ...) \
	fixture_call(stack, hook, result, (const uint64_t[6]){__VA_ARGS__})
/* Called by the original of FIXTURE_MALLOC, if set. */
extern _Thread_local void (*fixture_inside)(void);
/* The two halves of limpet_path_any, for what happens in between. */
bool fixture_enter(struct fixture_stack *stack, enum fixture_hook hook, const uint64_t args[6]);
void fixture_exit(struct fixture_stack *stack, uint64_t result);

/* A record as it lies in the shared memory. */
struct fixture_record {
	uint32_t type; /* without LIMPET_EVENT_WIDE and LIMPET_EVENT_FREED */
	bool wide;
	bool realloc; /* half of one */
	bool marked;  /* a free without a record of its own; its size is not known */
	uint64_t address, size;
	uint32_t number, time, node, tid;
	uint64_t sequence; /* of its chunk */
};
/* Everything that the thread with that entry has published, but for numbers taken in vain, which
 * are counted in fixture_voids; malloc'ed. */
extern uint32_t fixture_voids;
size_t fixture_records(const struct agent_fixture *fixture, uint32_t thread,
		       struct fixture_record **ret_records);
/* Index of the entry with that tid; fails if there is none. */
uint32_t fixture_thread_of(const struct agent_fixture *fixture, uint32_t tid);
struct limpet_thread *fixture_thread(const struct agent_fixture *fixture, uint32_t index);
struct limpet_chunk *fixture_chunk(const struct agent_fixture *fixture, uint32_t index);
uint64_t *fixture_chunk_map(const struct agent_fixture *fixture);

/* A stack as the agent described it, innermost first. */
struct fixture_frames {
	uint32_t count;
	struct limpet_stack_node list[LIMPET_STACK_FRAMES + 1];
};
/* By their numbers, out of all chunks that were published; fails if one was not described. */
struct fixture_stacks {
	struct limpet_stack_tree *tree;
	struct limpet_look_ahead *ahead;
};
void fixture_stacks_begin(const struct agent_fixture *fixture, struct fixture_stacks *ret);
void fixture_stacks_find(const struct fixture_stacks *stacks, uint32_t number,
			 struct fixture_frames *ret);
void fixture_stacks_end(struct fixture_stacks *stacks);
/* A single one. */
void fixture_frames_of(const struct agent_fixture *fixture, uint32_t number,
		       struct fixture_frames *ret);

#endif
