/* Walks the caller's stack with the shared walker, unless the stack is already known. */
#include "agent/stack.h"
#include "agent/agent.h"
#include "agent/hook_frame.h"
#include "agent/record.h"
#include "agent/stack_cache.h"
#include "agent/stack_describe.h"
#include "agent/stack_functions.h"
#include "agent/stack_prints.h"
#include "agent/stack_ranges.h"
#include "agent/stack_walk.h"

const uint8_t *limpet_unwind_arena;
uint64_t limpet_unwind_arena_bytes;

/* The thread's own stack: read directly, and each word that is read goes into the cache entry. */
struct noted_stack {
	uint64_t low, high;
	struct limpet_stack_cache_entry *cached;
};

static inline __attribute__((always_inline)) bool read_noted(const void *memory, uint64_t address,
							     uint64_t *ret_word)
{
	const struct noted_stack *stack = memory;
	struct limpet_stack_cache_entry *cached = stack->cached;
	uint64_t offset = address - stack->low;

	if (address < stack->low || address > stack->high - sizeof(*ret_word))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	if (cached->words < LIMPET_STACK_CACHE_WORDS && offset <= UINT32_MAX) {
		cached->values[cached->words] = *ret_word;
		cached->offsets[cached->words] = (uint32_t)offset;
		cached->words++;
	} else {
		cached->words = UINT32_MAX; /* too many to be cached */
	}
	return true;
}

/* A cached stack becomes invalid when the tables change, or any module is unloaded. */
static uint64_t generation_of(uint32_t current, uint32_t gone)
{
	return (uint64_t)gone << 32 | current;
}

static uint64_t seed_of(const struct limpet_stack_cache_entry *cached, uint64_t pc)
{
	uint64_t hash = limpet_fingerprint_mix(0, pc);

	hash = limpet_fingerprint_mix(hash, cached->base);
	hash = limpet_fingerprint_mix(hash, cached->generation);
	hash = limpet_fingerprint_mix(hash, cached->words);
	for (uint32_t i = 0; i < cached->words; i++)
		hash = limpet_fingerprint_mix(hash, cached->offsets[i]);
	return hash;
}

/* The fingerprint of the words in the cache entry, or of those at their addresses now. */
static inline __attribute__((always_inline)) uint64_t fingerprint_of(
	const struct limpet_stack_cache_entry *cached, bool now, uint64_t base)
{
	uint64_t lanes[LIMPET_STACK_CACHE_STEP] = {cached->seed, 1, 2, 3};

	for (uint32_t i = 0; i < cached->words; i += LIMPET_STACK_CACHE_STEP)
#pragma GCC unroll 4
		for (uint32_t lane = 0; lane < LIMPET_STACK_CACHE_STEP; lane++)
			lanes[lane] = limpet_fingerprint_mix(
				lanes[lane], now ? limpet_stack_word(cached, base, i + lane)
						 : cached->values[i + lane]);
	return limpet_fingerprint_finish(lanes);
}

static void count_truncated(struct limpet_thread *thread, uint32_t more)
{
	__atomic_store_n(&thread->truncated, thread->truncated + more, __ATOMIC_RELAXED);
}

#define WALKED_IN_VAIN UINT32_MAX /* not a number: the tables were replaced meanwhile */

static uint32_t max_depth(void)
{
	uint32_t depth = limpet_shm->max_depth;

	return depth < LIMPET_STACK_FRAMES ? depth : LIMPET_STACK_FRAMES;
}

/* A walk's result, described. */
static uint32_t describe(struct limpet_thread *thread, const struct limpet_walk_result *result,
			 uint32_t count, const struct limpet_known_stacks *stacks)
{
	struct limpet_described_stack stack = {.frames = result->pcs,
					       .count = count,
					       .truncated = *result->end != LIMPET_WALK_COMPLETE};

	if (result->by_fp && result->by_fp->count) {
		limpet_stack_functions(result->by_fp, result->pcs, stacks);
		stack.functions = result->by_fp->list;
		stack.function_count = result->by_fp->count;
	}
	return limpet_stack_describe(thread, &stack);
}

static uint32_t describe_first(struct limpet_thread *thread, const uint64_t *pc)
{
	count_truncated(thread, 1);
	return limpet_stack_describe(thread, &(struct limpet_described_stack){
						     .frames = pc, .count = 1, .truncated = true});
}

static __attribute__((noinline)) uint32_t capture_elsewhere(
	struct limpet_thread *thread, const struct limpet_hook_frame *hook_frame, uint32_t current,
	uint32_t gone)
{
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp,
		 high = limpet_stack_range_end(base);
	struct limpet_walk_map map = limpet_stack_walk_map(current, gone);
	struct limpet_walk_cache cache = limpet_stack_walk_cache();
	struct limpet_walk_frame frame = limpet_stack_first_frame(hook_frame);
	struct limpet_known_stacks stacks = {.low = base, .high = high};
	enum limpet_walk_end end;
	struct limpet_walk_by_fp by_fp;
	const struct limpet_walk_result result = {limpet_scratch_of(thread)->frames, max_depth(),
						  &end, limpet_stack_by_fp(&by_fp)};
	uint32_t count;

	if (!high) {
		limpet_stack_range_request(base);
		return describe_first(thread, &hook_frame->caller_pc);
	}
	limpet_stack_ranges_note_use();
	limpet_stack_own(thread, &stacks.own_low, &stacks.own_high);
	frame.sure = (base | (LIMPET_WALK_PAGE - 1)) + 1;
	count = limpet_walk(&map, &cache, limpet_known_stacks_read, &stacks, frame, &result);
	if (!limpet_stack_is_in_force(current))
		return WALKED_IN_VAIN;
	count_truncated(thread, end != LIMPET_WALK_COMPLETE);
	return describe(thread, &result, count, &stacks);
}

static __attribute__((noinline)) uint32_t capture_walk(struct limpet_thread *thread,
						       struct limpet_stack_cache_entry *cached,
						       const struct limpet_hook_frame *hook_frame,
						       uint64_t high, uint32_t current,
						       uint32_t gone)
{
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;
	struct limpet_walk_map map = limpet_stack_walk_map(current, gone);
	struct limpet_walk_cache cache = limpet_stack_walk_cache();
	struct limpet_walk_frame frame = limpet_stack_first_frame(hook_frame);
	const struct limpet_known_stacks stacks = {.low = base, .high = high};
	struct noted_stack stack;
	enum limpet_walk_end end;
	struct limpet_walk_by_fp by_fp;
	const struct limpet_walk_result result = {limpet_scratch_of(thread)->frames, max_depth(),
						  &end, limpet_stack_by_fp(&by_fp)};
	uint32_t count, number;
	uint64_t fingerprint;
	bool cut;

	if (limpet_stack_cache_grow(thread, cached, hook_frame->caller_pc, base))
		cached = limpet_stack_cache_entry(thread, hook_frame->caller_pc, base);
	stack = (struct noted_stack){base, high, cached};
	/* A signal handler may leave the walk by longjmp: the words read so far must not be taken
	 * for those of an older, whole walk. */
	cached->pc = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cached->words = 0;
	frame.fp_at = base;
	count = limpet_walk(&map, &cache, read_noted, &stack, frame, &result);
	if (!limpet_stack_is_in_force(current)) {
		cached->words = 0;
		return WALKED_IN_VAIN;
	}
	cut = end != LIMPET_WALK_COMPLETE;
	count_truncated(thread, cut);
	if (cached->words > LIMPET_STACK_CACHE_WORDS || !cached->words) {
		cached->words = 0;
		return describe(thread, &result, count, &stacks);
	}
	for (; cached->words % LIMPET_STACK_CACHE_STEP; cached->words++) {
		cached->values[cached->words] = cached->values[cached->words - 1];
		cached->offsets[cached->words] = cached->offsets[cached->words - 1];
	}
	cached->base = base;
	cached->high = high;
	cached->generation = generation_of(current, gone);
	cached->seed = seed_of(cached, hook_frame->caller_pc);
	/* The stack may have been walked before, and its cache entry replaced since. */
	fingerprint = fingerprint_of(cached, false, 0);
	cached->known = limpet_fingerprint_find(LIMPET_BY_WORDS, fingerprint);
	if (!cached->known) {
		number = describe(thread, &result, count, &stacks);
		if (!number) {
			cached->words = 0;
			return 0;
		}
		cached->known = number | (cut ? LIMPET_FINGERPRINT_TRUNCATED : 0);
		limpet_fingerprint_keep(LIMPET_BY_WORDS, fingerprint, cached->known);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cached->pc = hook_frame->caller_pc;
	return cached->known & ~LIMPET_FINGERPRINT_TRUNCATED;
}

/* `high` 0: the stack is not known to be the thread's own. If the tables change during each walk,
 * the stack is cut to its first frame, which is always right. */
static __attribute__((noinline)) uint32_t capture_anew(struct limpet_thread *thread,
						       const struct limpet_hook_frame *hook_frame,
						       uint64_t high, uint32_t current,
						       uint32_t gone)
{
	uint64_t pc = hook_frame->caller_pc, base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;

	for (unsigned i = 0; i < LIMPET_STACK_WALKS; i++) {
		struct limpet_stack_cache_entry *cached =
			limpet_stack_cache_entry(thread, pc, base);
		uint32_t number =
			high ? capture_walk(thread, cached, hook_frame, high, current, gone)
			     : capture_elsewhere(thread, hook_frame, current, gone);

		if (__builtin_expect(number != WALKED_IN_VAIN, 1))
			return number;
		current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
		gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE);
	}
	return describe_first(thread, &pc);
}

uint32_t limpet_stack_capture(struct limpet_thread *thread,
			      const struct limpet_hook_frame *hook_frame)
{
	uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
	uint32_t gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE), known;
	uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	uint64_t pc = hook_frame->caller_pc;
	/* The caller's rbp was pushed by the thunk's path: a word of the stack like others, and
	 * read only if the walk needs it. */
	uint64_t base = (uint64_t)(uintptr_t)&hook_frame->caller_fp;
	struct limpet_stack_cache_entry *cached = limpet_stack_cache_entry(thread, pc, base);

	if (__builtin_expect(!high || base < thread->stack_low || base >= high, 0))
		return capture_anew(thread, hook_frame, 0, current, gone);
	if (limpet_stack_is_applicable(cached, pc, base, high, generation_of(current, gone))) {
		known = cached->known;
		if (__builtin_expect(!limpet_stack_is_unchanged(cached, base), 0))
			known = limpet_fingerprint_find(LIMPET_BY_WORDS,
							fingerprint_of(cached, true, base));
		if (__builtin_expect(known != 0, 1)) {
			if (__builtin_expect(known & LIMPET_FINGERPRINT_TRUNCATED, 0))
				count_truncated(thread, 1);
			return known & ~LIMPET_FINGERPRINT_TRUNCATED;
		}
	}
	return capture_anew(thread, hook_frame, high, current, gone);
}

const struct limpet_unwind_module *limpet_stack_module(uint64_t address)
{
	const struct limpet_walk_map map = limpet_stack_walk_map(
		__atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE), 0);

	return limpet_walk_find_module(&map, address);
}
