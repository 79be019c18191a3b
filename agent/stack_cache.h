/* A thread's cache of the stacks that it walked. All of it is in the agent's private memory and
 * belongs to one thread's state; a signal handler may leave any of these functions by longjmp. */
#ifndef LIMPET_AGENT_STACK_CACHE_H
#define LIMPET_AGENT_STACK_CACHE_H

#include "agent/thread.h"

/* The words that the walk of a stack read. The walk is a pure function of (pc, base), of the tables
 * in use and of these words: while they are unchanged, so is the stack. A check costs a load and a
 * compare per word; a walk costs a look-up per frame. Different words at the same addresses are
 * another stack, which may have been walked before: their fingerprint finds it. */
#define LIMPET_STACK_CACHE_WORDS 128u /* a multiple of LIMPET_STACK_CACHE_STEP */
#define LIMPET_STACK_CACHE_STEP 4u
struct limpet_stack_cache_entry {
	uint64_t pc, base;   /* pc 0: empty */
	uint64_t high;       /* end of the stack, as known then: all words are below */
	uint64_t generation; /* of the tables, and of unloaded modules */
	uint32_t known;      /* number, with LIMPET_FINGERPRINT_TRUNCATED */
	uint32_t words;      /* rounded up to whole steps by repeating the last one */
	uint64_t seed;       /* of fingerprints: all of the above that the words depend on */
	uint64_t values[LIMPET_STACK_CACHE_WORDS];
	uint32_t offsets[LIMPET_STACK_CACHE_WORDS]; /* from base */
};

/* The stack that the thread described last, outermost first, as far as there is room: the next one
 * mostly starts with the same frames. Void (count 0) in a new chunk. Followed by the frames. */
struct limpet_path {
	uint32_t count, cut; /* cut: the outermost frame is marked as truncated */
	uint32_t gone;       /* modules unloaded by then */
	uint32_t replaced;   /* entries that another call site replaced */
};

/* A thread's cache is in private memory: `cache_entries` entries of the stack cache, then a path.
 * Each state has a small room (cache memory); a thread that needs more takes a larger one for good,
 * while any are left. A room takes `pages` pages. With 34 entries node's main thread finds six
 * stacks in ten, with 255 more than nine. */
struct limpet_room {
	uint32_t pages, cache_entries, path;
};
#define LIMPET_SMALL_PATH 56u
#define LIMPET_ROOM_SMALL ((struct limpet_room){1, 1, LIMPET_SMALL_PATH})
#define LIMPET_ROOM_MIDDLE ((struct limpet_room){4, 9, 200})
#define LIMPET_ROOM_LARGE ((struct limpet_room){14, 34, LIMPET_STACK_FRAMES})
#define LIMPET_ROOM_HUGE ((struct limpet_room){100, 255, LIMPET_STACK_FRAMES})
struct limpet_scratch {
	struct limpet_stack_cache_entry cached;
	struct limpet_path path;
	uint64_t path_frames[LIMPET_SMALL_PATH];
	uint64_t frames[LIMPET_STACK_FRAMES]; /* of the current walk */
};
_Static_assert(sizeof(struct limpet_scratch) == LIMPET_SCRATCH_BYTES, "a page");

static inline struct limpet_scratch *limpet_scratch_of(const struct limpet_thread *thread)
{
	return (struct limpet_scratch *)(void *)limpet_hot.scratch + limpet_thread_index(thread);
}

static inline struct limpet_stack_cache_entry *limpet_stack_cache_of(
	const struct limpet_thread *thread)
{
	return (struct limpet_stack_cache_entry
			*)(void *)(limpet_hot.scratch +
				   ((uint64_t)(limpet_own(thread)->stack_cache >> 8) << 12));
}

static inline uint32_t limpet_stack_cache_count(const struct limpet_thread *thread)
{
	return limpet_own(thread)->stack_cache & 0xff;
}

static inline struct limpet_stack_cache_entry *limpet_stack_cache_entry(
	const struct limpet_thread *thread, uint64_t pc, uint64_t base)
{
	uint64_t hash = (pc ^ base << 7) * LIMPET_GOLDEN >> 32;

	return &limpet_stack_cache_of(thread)[hash * limpet_stack_cache_count(thread) >> 32];
}

static inline struct limpet_path *limpet_path_of(const struct limpet_thread *thread)
{
	return (struct limpet_path *)(void *)(limpet_stack_cache_of(thread) +
					      limpet_stack_cache_count(thread));
}
static inline uint64_t *limpet_path_frames(struct limpet_path *path)
{
	return (uint64_t *)(void *)(path + 1);
}

/* The number of frames for which the thread's path has room. */
uint32_t limpet_path_room(const struct limpet_thread *thread);

/* Called when a stack of that call site is about to replace the entry. Returns whether the thread
 * now has a larger room: then the entry is another one, and the path is void. */
bool limpet_stack_cache_grow(struct limpet_thread *thread,
			     const struct limpet_stack_cache_entry *cached, uint64_t pc,
			     uint64_t base);

/* Whether the entry's words exist at all for a walk from here. A thread's stack may begin where an
 * earlier thread's did, and end earlier. */
static inline bool limpet_stack_is_applicable(const struct limpet_stack_cache_entry *cached,
					      uint64_t pc, uint64_t base, uint64_t high,
					      uint64_t generation)
{
	return cached->pc == pc && cached->base == base && cached->high == high &&
	       cached->generation == generation && cached->words;
}

static inline uint64_t limpet_stack_word(const struct limpet_stack_cache_entry *cached,
					 uint64_t base, uint32_t i)
{
	return *(const uint64_t *)(uintptr_t)(base + cached->offsets[i]);
}

static inline bool limpet_stack_is_unchanged(const struct limpet_stack_cache_entry *cached,
					     uint64_t base)
{
	/* Lowest first: the words that change from call to call are there. */
	for (uint32_t i = 0; i < cached->words; i += LIMPET_STACK_CACHE_STEP) {
		uint64_t a = limpet_stack_word(cached, base, i) ^ cached->values[i];
		uint64_t b = limpet_stack_word(cached, base, i + 1) ^ cached->values[i + 1];
		uint64_t c = limpet_stack_word(cached, base, i + 2) ^ cached->values[i + 2];
		uint64_t d = limpet_stack_word(cached, base, i + 3) ^ cached->values[i + 3];

		if (a | b | c | d)
			return false;
	}
	return true;
}

#endif
