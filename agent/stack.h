/* The caller's stack as a node of the tree, and each thread's stack cache. */
#ifndef LIMPET_AGENT_STACK_H
#define LIMPET_AGENT_STACK_H

#include "agent/agent.h"

struct limpet_frame;

/* The words that the walk of a stack read. The walk is a pure function of (pc, base), of the tables
 * in use and of these words: while they are unchanged, so is the node. A check costs a load and a
 * compare per word; a walk costs a look-up per frame. Different words at the same addresses are
 * another stack, perhaps walked before: their fingerprint finds it. */
#define LIMPET_STACK_CACHE_WORDS 128u /* a multiple of LIMPET_STACK_CACHE_STEP */
#define LIMPET_STACK_CACHE_STEP 4u
struct limpet_stack_cache_entry {
	uint64_t pc, base;   /* pc 0: empty */
	uint64_t high;       /* end of the stack, as known then: all words are below */
	uint64_t generation; /* of the tables, and of modules that have gone */
	uint32_t known;      /* node, with LIMPET_FINGERPRINT_TRUNCATED */
	uint32_t words;      /* rounded up to whole steps by repeating the last one */
	uint64_t seed;       /* of fingerprints: all of the above that the words depend on */
	uint64_t values[LIMPET_STACK_CACHE_WORDS];
	uint32_t offsets[LIMPET_STACK_CACHE_WORDS]; /* from base */
};

/* The last stored path, outermost first: the next one mostly starts with the same frames. */
struct limpet_path {
	uint32_t count, cut; /* cut: the outermost frame is marked as truncated */
	uint32_t gone;       /* modules unloaded by then */
	uint32_t replaced;   /* entries that another call site replaced */
	/* Followed by as many frames as fit, and as many uint32_t for their nodes. */
};

/* A thread's cache is in private memory: `cache_entries` entries of the stack cache, then a path.
 * Each state has a small room (cache memory); a thread that needs more takes a larger one for good,
 * while any are left. A room takes `pages` pages. With 34 entries node's main thread hits for six
 * stacks in ten, with 255 for more than nine. */
struct limpet_room {
	uint32_t pages, cache_entries, path;
};
#define LIMPET_DEPTH_LIMIT 256u
#define LIMPET_SMALL_PATH 37u
#define LIMPET_ROOM_SMALL ((struct limpet_room){1, 1, LIMPET_SMALL_PATH})
#define LIMPET_ROOM_MIDDLE ((struct limpet_room){4, 9, 128})
#define LIMPET_ROOM_LARGE ((struct limpet_room){14, 34, LIMPET_DEPTH_LIMIT})
#define LIMPET_ROOM_HUGE ((struct limpet_room){100, 255, LIMPET_DEPTH_LIMIT})
struct limpet_scratch {
	struct limpet_stack_cache_entry cached;
	struct limpet_path path;
	uint64_t path_frames[LIMPET_SMALL_PATH];
	uint32_t path_nodes[LIMPET_SMALL_PATH + 1];
	uint64_t frames[LIMPET_DEPTH_LIMIT]; /* of the walk that is under way */
};
_Static_assert(sizeof(struct limpet_scratch) == LIMPET_SCRATCH_BYTES, "a page");

/* 0 if it could not be stored. */
uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_frame *frame);
/* Whether the thread runs on its own stack, in no signal handler, and above the hook noted in its
 * state: then that hook was left. False: unknown. */
bool limpet_stack_is_above_entry(const struct limpet_thread *thread,
				 const struct limpet_frame *frame);
/* The same stack, for blocks of that allocator. */
uint32_t limpet_stack_mark(uint32_t node, uint32_t owner);

/* How many bytes from the caller's stack pointer on hold all arguments that a call can have there:
 * its frame. LIMPET_PASS: unknown, or more than can be copied. */
int64_t limpet_stack_arguments(const struct limpet_thread *thread,
			       const struct limpet_frame *frame);

/* The module that contains the address, if its table is known; NULL: none. */
const struct limpet_unwind_module *limpet_stack_module(uint64_t address);

#endif
