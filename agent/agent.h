/* What the agent's own files share. The agent lives in a process that is not ours: no libc, no
 * allocation, no lock, no thread-local storage, no destructor.
 *
 * Context: everything called from limpet_hook_enter/_exit runs on any thread of the target, at any
 * point where the program may call malloc, signal handlers included. */
#ifndef LIMPET_AGENT_H
#define LIMPET_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/family.h"
#include "common/unwind_walk.h"
#include "common/wire.h"

#include "agent/arch.h"

/* Private anonymous page with MADV_WIPEONFORK: in the child of a fork both words read 0, and with
 * that every hook is a plain jump before it touches memory shared with the collector. */
struct limpet_control {
	uint32_t on;    /* hooks record; first word, read by the trampoline */
	uint32_t alive; /* not wiped: this is the process that was attached to */
};
extern struct limpet_control *limpet_control; /* never NULL: a zero one before start */

extern struct limpet_hook limpet_hooks[LIMPET_MAX_HOOKS];
extern struct limpet_shm *limpet_shm;
extern const uint8_t *limpet_unwind_arena;
extern uint64_t limpet_unwind_arena_bytes;
extern struct limpet_agent_info limpet_agent_info;
extern const char limpet_thunks[];
#define LIMPET_THUNK_BYTES 16

/* The trampoline's frame (thunks.S). Above it: the caller's rbp and the return address. */
struct limpet_frame {
	uint64_t args[6];
	uint64_t hook;
	uint64_t result;
	struct limpet_thread *thread;
	uint64_t stamp; /* before the original was called */
	uint64_t aux;   /* usable size of the block that realloc got */
	uint64_t spare;
	uint64_t caller_fp;
	uint64_t caller_pc;
};

/* Called by the trampoline. _enter answers 1: call the original and then _exit; 0: jump to it. */
int limpet_hook_enter(struct limpet_frame *frame);
void limpet_hook_exit(struct limpet_frame *frame);

static inline uint64_t limpet_frame_caller_sp(const struct limpet_frame *frame)
{
	return (uint64_t)(uintptr_t)frame + sizeof(*frame);
}

/* record.c: thread states and buffers */
struct limpet_thread *limpet_thread_self(uint64_t sp);
uint32_t limpet_thread_index(const struct limpet_thread *thread);
void limpet_record_append(struct limpet_thread *thread, uint32_t type, uint64_t ticks,
			  uint64_t address, uint64_t size, uint32_t node);
void limpet_record_publish(struct limpet_thread *thread);
uint64_t limpet_clock(void);

/* A stack that was walked before. The walk is a pure function of (pc, sp, fp), of the tables in
 * force and of the words that it read; while all of these are unchanged, so is the node. Checking
 * costs a load and a compare a word where walking costs a table look-up a frame. */
#define LIMPET_MEMO_WORDS 128u
#define LIMPET_MEMOS 32u /* a power of 2 */
struct limpet_memo {
	uint64_t pc, base; /* pc 0: empty */
	uint64_t high;     /* end of the stack, as it was known: all words lie below */
	uint32_t node, generation;
	uint32_t words;
	uint32_t truncated;
	uint64_t values[LIMPET_MEMO_WORDS];
	uint32_t offsets[LIMPET_MEMO_WORDS]; /* from base */
};

/* Private memory of one thread state; pages are touched on first use only. */
#define LIMPET_SNAPSHOT_BYTES 32768u
#define LIMPET_DEPTH_LIMIT 1024u
#define LIMPET_RULE_CACHE 512u /* a power of 2 */
struct limpet_scratch {
	struct limpet_walk_cache_entry rules[LIMPET_RULE_CACHE];
	uint64_t frames[LIMPET_DEPTH_LIMIT];
	struct limpet_memo memos[LIMPET_MEMOS];
	uint8_t snapshot[LIMPET_SNAPSHOT_BYTES];
};
extern struct limpet_scratch *limpet_scratches;

/* stack.c: the stack of the caller as a node of the tree, 0 if it could not be kept */
uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_frame *frame);

/* patch.c: slots, under the loader's own lock (dl_iterate_phdr), never under an allocation hook */
void limpet_patch_configure(const struct limpet_start *start);
int limpet_patch_planned(void);
int limpet_patch_restore(void);
int limpet_patch_new_modules(void);
void limpet_patch_on_loader_call(void);

/* channel.c: the descriptor, checked to be ours before each use */
int limpet_channel_adopt(int fd);
bool limpet_channel_is_ours(void);
/* Answers 0, or -errno after which the collector is gone and hooks pass through. */
int limpet_channel_send(uint32_t type, uint32_t thread, uint64_t sequence, uint64_t value);
void limpet_channel_close(void);

static inline void *limpet_shm_at(uint64_t offset)
{
	return (uint8_t *)limpet_shm + offset;
}

#endif
