/* Order: room first, then a number, the record, `committed`, and last the table entry by which
 * other threads learn the number. A thread that is killed, or that a signal handler throws out of
 * here, leaves a whole record or none, and at worst an unused number.
 *
 * At any moment the path is the last committed description, or the beginning of it: its count is
 * lowered to the common frames before a record is written, and raised after it was committed. */
#include "agent/stack_describe.h"
#include "agent/record.h"
#include "agent/stack.h"
#include "agent/stack_cache.h"
#include "agent/stack_prints.h"

_Static_assert(8 * (LIMPET_STACK_WORDS + 4) <= LIMPET_CHUNK_DATA_BYTES,
	       "a description and a record fit a chunk");

#define SOME_MOVED (1u << 31)

struct stack {
	struct limpet_described_stack is;
	/* Changes with what addresses mean, 0: nothing did so far; and the ranges of unloaded
	 * modules. */
	uint32_t gone, gone_places;
};

static uint64_t frame_at(const struct stack *stack, uint32_t outermost)
{
	return stack->is.frames[stack->is.count - 1 - outermost];
}

static uint32_t moved_at(uint64_t address)
{
	const uint32_t number =
		__atomic_load_n(&limpet_shm->moved[limpet_moved_page(address)], __ATOMIC_RELAXED);

	return number ? LIMPET_GONE_MOVED | (number & (LIMPET_GONE_MOVED - 1)) : 0;
}

static uint32_t gone_at(const struct stack *stack, uint64_t frame)
{
	uint32_t gone;

	if (frame & LIMPET_FRAME_INTERPRETED)
		return moved_at(LIMPET_FRAME_BYTECODE(frame));
	gone = limpet_gone_find(limpet_shm->gone, stack->gone_places, frame - 1);
	return gone || !(stack->gone & SOME_MOVED) || limpet_stack_module(frame - 1)
		       ? gone
		       : moved_at(frame);
}

/* Of everything that the description contains. Tells whether it is of unloaded modules, too. */
static uint64_t fingerprint_of(const struct stack *stack, bool *ret_gone)
{
	uint64_t lanes[4] = {
		limpet_fingerprint_mix(0, (uint64_t)stack->is.count << 1 | stack->is.truncated), 1,
		2, 3};

	for (uint32_t i = 0; i < stack->is.count; i++)
		lanes[i % 4] = limpet_fingerprint_mix(lanes[i % 4], stack->is.frames[i]);
	*ret_gone = false;
	for (uint32_t i = 0; stack->gone && i < stack->is.count; i++) {
		const uint64_t number = gone_at(stack, stack->is.frames[i]);

		if (!number)
			continue;
		*ret_gone = true;
		lanes[i % 4] = limpet_fingerprint_mix(lanes[i % 4], number << 32 | i);
	}
	return limpet_fingerprint_finish(lanes);
}

/* 0: all are taken. The counter stops near its end, so that it does not wrap around. */
static uint32_t claim_number(void)
{
	uint32_t number;

	if (__atomic_load_n(&limpet_shm->next_stack, __ATOMIC_RELAXED) > LIMPET_STACKS_MAX)
		return 0;
	number = __atomic_fetch_add(&limpet_shm->next_stack, 1, __ATOMIC_RELAXED);
	return number <= LIMPET_STACKS_MAX ? number : 0;
}

static uint32_t frames_in_common(struct limpet_path *path, const struct stack *stack)
{
	const uint64_t *frames = limpet_path_frames(path);
	uint32_t same = 0;

	if (path->cut == stack->is.truncated && path->gone == stack->gone)
		while (same < stack->is.count && same < path->count &&
		       frames[same] == frame_at(stack, same))
			same++;
	return same;
}

static void write_head(uint64_t *words, uint32_t number, uint32_t count, uint32_t low,
		       uint32_t flags)
{
	words[0] = (uint64_t)number << 32 | count << 8 | LIMPET_EVENT_STACK;
	words[1] = (uint64_t)flags << 32 | low;
	words[2] = 0;
}

static void write_words(uint64_t *words, const struct stack *stack, uint32_t same, bool gone)
{
	words += LIMPET_STACK_HEAD_WORDS;
	for (uint32_t i = same; i < stack->is.count; i++) {
		*words++ = frame_at(stack, i);
		if (gone)
			*words++ = gone_at(stack, frame_at(stack, i));
	}
	for (uint32_t i = 0; i < stack->is.function_count; i++)
		*words++ = stack->is.functions[i];
}

/* After it was committed. */
static void remember(const struct limpet_thread *thread, const struct stack *stack, uint32_t same)
{
	struct limpet_path *path = limpet_path_of(thread);
	uint32_t room = limpet_path_room(thread),
		 count = stack->is.count < room ? stack->is.count : room;

	for (uint32_t i = same; i < count; i++)
		limpet_path_frames(path)[i] = frame_at(stack, i);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uint32_t *)&path->count = count;
}

static bool find_place_in_next_chunk(struct limpet_thread *thread, uint32_t bytes,
				     struct limpet_record_place *ret_place)
{
	return limpet_is_alive() && limpet_record_open_chunk(thread) &&
	       limpet_record_find_place(thread, bytes, ret_place);
}

/* How many words follow the head. */
static uint32_t words_of(const struct stack *stack, uint32_t same, bool gone)
{
	return (stack->is.count - same) * (gone ? 2 : 1) + stack->is.function_count;
}

/* Returns its number; 0: none, and nothing was written. */
static uint32_t write_description(struct limpet_thread *thread, const struct stack *stack,
				  bool gone)
{
	/* For a frame where modules were unloaded, the second word may have changed. */
	uint32_t same = gone ? 0 : frames_in_common(limpet_path_of(thread), stack);
	uint32_t bytes, number, flags;
	struct limpet_record_place place;
	struct limpet_path *path;
	uint64_t *words;

	bytes = limpet_stack_bytes(words_of(stack, same, gone));
	if (!limpet_record_find_place(thread, bytes, &place)) {
		same = 0;
		bytes = limpet_stack_bytes(words_of(stack, same, gone));
		if (!find_place_in_next_chunk(thread, bytes, &place))
			return 0;
	}
	number = claim_number();
	if (!number)
		return 0;
	path = limpet_path_of(thread);
	*(volatile uint32_t *)&path->count = same;
	*(volatile uint32_t *)&path->cut = stack->is.truncated;
	*(volatile uint32_t *)&path->gone = stack->gone;
	words = (uint64_t *)(uintptr_t)place.at;
	flags = (stack->is.truncated ? LIMPET_STACK_TRUNCATED : 0) |
		(gone ? LIMPET_STACK_GONE : 0) |
		LIMPET_STACK_FUNCTIONS_FLAG(stack->is.function_count);
	write_head(words, number, words_of(stack, same, gone), same, flags);
	write_words(words, stack, same, gone);
	if (!limpet_record_commit(thread, place, bytes))
		return 0;
	remember(thread, stack, same);
	return number;
}

uint32_t limpet_stack_describe(struct limpet_thread *thread,
			       const struct limpet_described_stack *described)
{
	const uint32_t moved = __atomic_load_n(&limpet_shm->moved_count, __ATOMIC_ACQUIRE);
	struct stack stack = {.is = *described,
			      .gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE)};
	uint64_t fingerprint;
	uint32_t number;
	bool gone;

	limpet_fingerprints_adjust();
	if (moved)
		stack.gone = (stack.gone + (moved << 16)) | SOME_MOVED;
	if (__builtin_expect(stack.gone, 0))
		stack.gone_places = __atomic_load_n(&limpet_shm->gone_places, __ATOMIC_ACQUIRE);
	fingerprint = fingerprint_of(&stack, &gone);
	number = limpet_fingerprint_find(LIMPET_BY_FRAMES, fingerprint);
	if (number)
		return number;
	number = write_description(thread, &stack, gone);
	if (number)
		limpet_fingerprint_keep(LIMPET_BY_FRAMES, fingerprint, number);
	return number;
}

static uint32_t write_mark(struct limpet_thread *thread, uint32_t stack, uint32_t owner)
{
	const uint32_t bytes = limpet_stack_bytes(1);
	struct limpet_record_place place;
	uint32_t number;
	uint64_t *words;

	if (!limpet_record_find_place(thread, bytes, &place) &&
	    !find_place_in_next_chunk(thread, bytes, &place))
		return 0;
	number = claim_number();
	if (!number)
		return 0;
	words = (uint64_t *)(uintptr_t)place.at;
	write_head(words, number, 1, owner, LIMPET_STACK_OWNER);
	words[2] = stack;
	return limpet_record_commit(thread, place, bytes) ? number : 0;
}

uint32_t limpet_stack_mark(struct limpet_thread *thread, uint32_t stack, uint32_t owner)
{
	/* In one word: no two marks have the same fingerprint. */
	const uint64_t lanes[4] = {(uint64_t)owner << 32 | stack, 1, 2, 3};
	const uint64_t fingerprint = limpet_fingerprint_finish(lanes);
	uint32_t marked;

	if (!stack)
		return 0;
	marked = limpet_fingerprint_find(LIMPET_BY_FRAMES, fingerprint);
	if (marked)
		return marked;
	marked = write_mark(thread, stack, owner);
	if (marked)
		limpet_fingerprint_keep(LIMPET_BY_FRAMES, fingerprint, marked);
	return marked;
}
