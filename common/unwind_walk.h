/* The walker: from (pc, sp, fp) to the stack of return addresses, by unwind tables where there are
 * rows, and by frame pointer where there are none (V8's builtins and JIT code, assembly).
 *
 * Freestanding and header-only: the agent walks its own thread inside a malloc hook, the injector
 * walks a stopped thread from a copy of its stack, both with this code. It takes no lock, allocates
 * nothing, and ends after at most `max` frames, whatever the stack contains. It reads the stack
 * only through a function of the caller; if that fails, the walk ends. Every function here may be
 * called in a signal handler.
 *
 * A stack is complete (LIMPET_WALK_COMPLETE) if the walk ended at
 *   - a rule for an outermost frame: _start, clone, clone3, whose return address is undefined;
 *   - the entry of a function as return address: the root that makecontext() pushes;
 *   - a return address of 0: roots of threads and coroutines without a description;
 *   - a frame pointer of 0 in code without rows: the ABI's mark of the outermost frame (musl's
 *     _start and clone, Go's goexit).
 * If the walk passed a frame by frame pointer although its code is described (in a way that no rule
 * can express: scratch registers in assembly), frames may be missing in the middle, and the end is
 * LIMPET_WALK_DOUBTFUL. Every other end means that outer frames are missing. Frames may also be
 * missing in the middle without notice if code without rows does not keep a frame pointer; no
 * walker can see that. */
#ifndef LIMPET_COMMON_UNWIND_WALK_H
#define LIMPET_COMMON_UNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/unwind_table.h"
#include "common/wire.h"

/* The reader is a constant at each use: inlined, a frame costs no indirect call. */
#define LIMPET_WALK_INLINE static inline __attribute__((always_inline, unused))

enum limpet_walk_end {
	LIMPET_WALK_MORE = 0, /* a step was made; never the result of a whole walk */
	LIMPET_WALK_COMPLETE,
	LIMPET_WALK_DOUBTFUL,
	LIMPET_WALK_DEPTH,      /* `max` frames, and there are more */
	LIMPET_WALK_UNREADABLE, /* the reader failed */
	LIMPET_WALK_STUCK,      /* the next frame would not be above this one, or is misaligned */
	LIMPET_WALK_LOST        /* code without a usable rule, and no plausible frame pointer */
};

/* One frame. Where the callee has returned: pc is the return address, sp the stack pointer just
 * above it. Where it was interrupted: the registers, and LIMPET_FRAME_EXACT. */
struct limpet_walk_frame {
	uint64_t pc, sp, fp;
	uint32_t flags;
	/* Not 0: fp is the word at this address. It was not read yet, since most frames do not need
	 * it. */
	uint64_t fp_at;
	/* Not 0: of the stack only the memory below this address is sure to be there, and that of
	 * frames which rules alone have found: what lies above the stack may be gone. In code
	 * without rules a frame pointer may be anything, and is followed no further. */
	uint64_t sure;
};
/* Value of fp when it is lost: misaligned, so that no rule and no fallback takes it for an address,
 * and not 0, which would be an end. */
#define LIMPET_WALK_NO_FP 1u
#define LIMPET_FRAME_EXACT 1u  /* pc is the next instruction to run, not a return address */
#define LIMPET_FRAME_BY_FP 2u  /* found by frame pointer, not by a rule */
#define LIMPET_FRAME_SIGNAL 4u /* interrupted by a signal: the frame below is the kernel's */
#define LIMPET_FRAME_DOUBT 8u  /* this or an inner frame was passed against its description */
#define LIMPET_FRAME_GUESS 16u /* with `sure`: this or an inner one was found by frame pointer */

/* The modules and their tables. [0, sorted) is sorted by start without overlaps; [sorted, count)
 * was added later, in any order, and the newest entry wins. Entries with live == 0 are skipped. */
struct limpet_walk_map {
	const struct limpet_unwind_module *modules;
	const uint8_t *arena; /* base of limpet_unwind_module.table */
	uint32_t sorted;
	uint32_t count;
	uint32_t generation; /* must change with all of this; invalidates entries of the cache */
	/* Unloaded modules. Code mapped where one was unloaded after the list was made has no table
	 * yet. NULL: none. */
	const struct limpet_gone *gone;
	uint32_t gone_places;
	uint32_t gone_then, gone_now; /* the last number, when the list was made and now */
	const struct limpet_interpreter *interpreter; /* NULL: none */
};

/* A direct-mapped cache of pc -> rule. The caller provides zeroed memory, which any number of
 * threads may share. An entry is two words that show whether they belong together: if two threads
 * write one at the same time, readers reject it (R. Hyatt, T. Mann, A lock-less transposition
 * table, 2002). Tables must stay at their addresses as long as a cache refers to them. */
struct limpet_walk_cache_entry {
	uint64_t key;  /* low half of the generation << 48 | pc, xor `rule` */
	uint64_t rule; /* high half of the generation << 48 | address; 0: empty */
};
struct limpet_walk_cache {
	struct limpet_walk_cache_entry *entries;
	uint32_t mask; /* number of entries, a power of 2, minus 1 */
};

/* Reads the word at `address`, or returns false. `address` may be any number. */
typedef bool limpet_walk_read(const void *memory, uint64_t address, uint64_t *ret_word);

/* Reads the thread's own address space within two ranges known to be mapped (thread stack and
 * alternate signal stack); low == high: none. */
struct limpet_walk_ranges {
	uint64_t low[2], high[2];
};
LIMPET_WALK_INLINE bool limpet_walk_read_ranges(const void *memory, uint64_t address,
						uint64_t *ret_word)
{
	const struct limpet_walk_ranges *ranges = memory;

	for (int i = 0; i < 2; i++) {
		uint64_t bytes = ranges->high[i] - ranges->low[i];

		if (bytes >= 8 && address - ranges->low[i] <= bytes - 8) {
			*ret_word = *(const volatile uint64_t *)(uintptr_t)address;
			return true;
		}
	}
	return false;
}

/* Reads a copy: `bytes` bytes of the target from address `base`. Bytes may be unaligned. */
struct limpet_walk_copy {
	uint64_t base, bytes;
	const uint8_t *data;
};
LIMPET_WALK_INLINE bool limpet_walk_read_copy(const void *memory, uint64_t address,
					      uint64_t *ret_word)
{
	const struct limpet_walk_copy *copy = memory;
	struct unaligned {
		uint64_t word;
	} __attribute__((packed, may_alias));

	if (copy->bytes < 8 || address - copy->base > copy->bytes - 8)
		return false;
	*ret_word = ((const struct unaligned *)(copy->data + (address - copy->base)))->word;
	return true;
}

/* The entry whose range contains `pc`, or NULL. */
LIMPET_WALK_INLINE const struct limpet_unwind_module *limpet_walk_find_module(
	const struct limpet_walk_map *map, uint64_t pc)
{
	const struct limpet_unwind_module *modules = map->modules, *module;
	uint32_t first = 0, count = map->sorted;

	while (count) {
		uint32_t half = count / 2;

		if (modules[first + half].start <= pc) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (first) {
		module = &modules[first - 1];
		if (pc < module->end && __atomic_load_n(&module->live, __ATOMIC_RELAXED))
			return module;
	}
	for (uint32_t i = map->count; i > map->sorted; i--) {
		module = &modules[i - 1];
		if (pc >= module->start && pc < module->end &&
		    __atomic_load_n(&module->live, __ATOMIC_RELAXED))
			return module;
	}
	return 0;
}

/* The rule for the instruction at `pc`. */
LIMPET_WALK_INLINE struct limpet_unwind_rule limpet_walk_find_rule(
	const struct limpet_walk_map *map, const struct limpet_walk_cache *cache, uint64_t pc)
{
	static const struct limpet_unwind_rule none = {LIMPET_CFA_NONE, 0, 0, 0, 0, 0, 0};
	static const struct limpet_unwind_rule unknown = {LIMPET_CFA_UNKNOWN, 0, 0, 0, 0, 0, 0};
	const uint64_t address_mask = (1ull << 48) - 1;
	uint64_t key = (uint64_t)map->generation << 48 | (pc & address_mask), word;
	uint64_t high = (uint64_t)(map->generation >> 16) << 48;
	const struct limpet_unwind_rule *rule = &none;
	const struct limpet_unwind_module *module;
	struct limpet_walk_cache_entry *entry = 0;

	if (cache) {
		entry = &cache->entries[(pc ^ pc >> 11) & cache->mask];
		/* Pairs with the release below: whoever finds a rule of a table sees the table. */
		word = __atomic_load_n(&entry->rule, __ATOMIC_ACQUIRE);
		if ((__atomic_load_n(&entry->key, __ATOMIC_RELAXED) ^ word) == key && word &&
		    (word & ~address_mask) == high)
			return *(const struct limpet_unwind_rule *)(uintptr_t)(word & address_mask);
	}
	module = limpet_walk_find_module(map, pc);
	if (map->gone_now != map->gone_then &&
	    limpet_gone_find(map->gone, map->gone_places, pc) > map->gone_then)
		rule = &unknown;
	else if (module && module->table)
		rule = limpet_unwind_table_find(
			(const struct limpet_unwind_table *)(const void *)(map->arena +
									   module->table),
			(uint32_t)(pc - module->start));
	if (entry) {
		word = high | (uint64_t)(uintptr_t)rule;
		__atomic_store_n(&entry->key, key ^ word, __ATOMIC_RELAXED);
		__atomic_store_n(&entry->rule, word, __ATOMIC_RELEASE);
	}
	return *rule;
}

/* A user-space address that may be code: the first page is never mapped. */
LIMPET_WALK_INLINE bool limpet_walk_plausible_pc(uint64_t pc)
{
	return pc - 4096 < (1ull << 47) - 4096;
}

/* The kind of end, if this is the outermost frame. */
LIMPET_WALK_INLINE enum limpet_walk_end limpet_walk_whole(const struct limpet_walk_frame *frame)
{
	return frame->flags & LIMPET_FRAME_DOUBT ? LIMPET_WALK_DOUBTFUL : LIMPET_WALK_COMPLETE;
}

#define LIMPET_WALK_PAGE ((uint64_t)4096)
/* Whether a word may be read, as far as `sure` is concerned. */
LIMPET_WALK_INLINE bool limpet_walk_is_sure(const struct limpet_walk_frame *frame, uint64_t address)
{
	return !frame->sure || !(frame->flags & LIMPET_FRAME_GUESS) ||
	       address <= frame->sure - sizeof(uint64_t);
}

/* A rule has found a frame below this address. */
LIMPET_WALK_INLINE void limpet_walk_make_sure(struct limpet_walk_frame *frame, uint64_t address)
{
	if (frame->sure && !(frame->flags & LIMPET_FRAME_GUESS))
		frame->sure = ((address - 1) | (LIMPET_WALK_PAGE - 1)) + 1;
}

/* The frame pointer; reads it if it was not read yet. If that fails it is lost, which ends the walk
 * only where it is needed. */
LIMPET_WALK_INLINE uint64_t limpet_walk_load_fp(limpet_walk_read *read, const void *memory,
						struct limpet_walk_frame *frame)
{
	if (frame->fp_at) {
		if (!limpet_walk_is_sure(frame, frame->fp_at) ||
		    !read(memory, frame->fp_at, &frame->fp))
			frame->fp = LIMPET_WALK_NO_FP;
		frame->fp_at = 0;
	}
	return frame->fp;
}

LIMPET_WALK_INLINE enum limpet_walk_end limpet_walk_step_fp(limpet_walk_read *read,
							    const void *memory, bool no_row,
							    struct limpet_walk_frame *frame)
{
	uint64_t fp = limpet_walk_load_fp(read, memory, frame), ra, next_fp;

	if (fp == 0 && no_row)
		return limpet_walk_whole(frame);
	if (fp < frame->sp || fp % 8 != 0 || (frame->sure && fp > frame->sure - 16))
		return LIMPET_WALK_LOST;
	if (!read(memory, fp, &next_fp) || !read(memory, fp + 8, &ra))
		return LIMPET_WALK_LOST;
	if (ra == 0)
		return no_row ? limpet_walk_whole(frame) : LIMPET_WALK_DOUBTFUL;
	if (!limpet_walk_plausible_pc(ra))
		return LIMPET_WALK_LOST;
	frame->pc = ra;
	frame->sp = fp + 16;
	frame->fp = next_fp;
	frame->fp_at = 0;
	frame->flags = LIMPET_FRAME_BY_FP | (frame->flags & LIMPET_FRAME_DOUBT) |
		       (no_row ? 0 : LIMPET_FRAME_DOUBT) | (frame->sure ? LIMPET_FRAME_GUESS : 0);
	return LIMPET_WALK_MORE;
}

/* A return address that no call has pushed: it is the start of a described function, and the code
 * before it is not described. It was pushed as the root of a new stack, as makecontext() does with
 * __start_context; a frame pointer found there belongs to the creator of the stack. */
LIMPET_WALK_INLINE bool limpet_walk_is_root(const struct limpet_walk_map *map,
					    const struct limpet_walk_cache *cache,
					    const struct limpet_walk_frame *frame)
{
	return !(frame->flags & LIMPET_FRAME_EXACT) &&
	       limpet_walk_find_rule(map, cache, frame->pc).cfa != LIMPET_CFA_NONE;
}

/* The frame pointer of the caller, or where it is saved: `ret_fp_at` is 0 or an address, which is
 * read only if the frame pointer is needed. */
LIMPET_WALK_INLINE uint64_t limpet_walk_find_fp(const struct limpet_unwind_rule *rule, uint64_t cfa,
						limpet_walk_read *read, const void *memory,
						struct limpet_walk_frame *frame,
						uint64_t *ret_fp_at)
{
	const uint64_t offset = (uint64_t)(int64_t)rule->fp_offset;

	*ret_fp_at = 0;
	switch (rule->fp) {
	case LIMPET_FP_SAME:
		*ret_fp_at = frame->fp_at;
		break;
	case LIMPET_FP_CFA:
		*ret_fp_at = cfa + offset;
		break;
	case LIMPET_FP_SP:
		*ret_fp_at = frame->sp + offset;
		break;
	case LIMPET_FP_FP:
		*ret_fp_at = limpet_walk_load_fp(read, memory, frame) + offset;
		break;
	case LIMPET_FP_CFA_SUM:
		return cfa + offset;
	default:
		return LIMPET_WALK_NO_FP;
	}
	return frame->fp;
}

/* Steps to the caller by a rule whose CFA is known. */
LIMPET_WALK_INLINE enum limpet_walk_end limpet_walk_step_rule(const struct limpet_unwind_rule *rule,
							      uint64_t cfa, limpet_walk_read *read,
							      const void *memory,
							      struct limpet_walk_frame *frame)
{
	const uint64_t ra_at =
		rule->ra == LIMPET_RA_CFA ? cfa - 8 : frame->sp + (uint64_t)(int64_t)rule->extra;
	uint64_t ra, fp, fp_at;

	/* The return address must be at or above sp: a frame that does not grow is corrupt, and the
	 * walk would loop. Only the kernel's frame leads to another stack. */
	if (!(rule->flags & LIMPET_RULE_SIGNAL) && (cfa % 8 != 0 || cfa - 8 < frame->sp || cfa < 8))
		return LIMPET_WALK_STUCK;
	if (!limpet_walk_is_sure(frame, ra_at) || !read(memory, ra_at, &ra))
		return LIMPET_WALK_UNREADABLE;
	fp = limpet_walk_find_fp(rule, cfa, read, memory, frame, &fp_at);
	if (ra == 0)
		return limpet_walk_whole(frame);
	if (!limpet_walk_plausible_pc(ra))
		return LIMPET_WALK_LOST;
	limpet_walk_make_sure(frame, cfa);
	frame->pc = ra;
	frame->sp = cfa;
	frame->fp = fp;
	frame->fp_at = fp_at;
	frame->flags =
		(frame->flags & (LIMPET_FRAME_DOUBT | LIMPET_FRAME_GUESS)) |
		(rule->flags & LIMPET_RULE_SIGNAL ? LIMPET_FRAME_EXACT | LIMPET_FRAME_SIGNAL : 0);
	return LIMPET_WALK_MORE;
}

/* Steps from a frame to its caller. The frame is unchanged unless the result is LIMPET_WALK_MORE.
 */
LIMPET_WALK_INLINE enum limpet_walk_end limpet_walk_step(const struct limpet_walk_map *map,
							 const struct limpet_walk_cache *cache,
							 limpet_walk_read *read, const void *memory,
							 struct limpet_walk_frame *frame)
{
	struct limpet_unwind_rule rule =
		limpet_walk_find_rule(map, cache, frame->pc - !(frame->flags & LIMPET_FRAME_EXACT));
	uint64_t cfa;

	switch (rule.cfa) {
	case LIMPET_CFA_SP:
		cfa = frame->sp + (uint64_t)(int64_t)rule.cfa_offset;
		break;
	case LIMPET_CFA_FP:
		cfa = limpet_walk_load_fp(read, memory, frame) + (uint64_t)(int64_t)rule.cfa_offset;
		break;
	case LIMPET_CFA_SP_DEREF:
	case LIMPET_CFA_FP_DEREF:
		cfa = rule.cfa == LIMPET_CFA_SP_DEREF ? frame->sp
						      : limpet_walk_load_fp(read, memory, frame);
		if (!limpet_walk_is_sure(frame, cfa + (uint64_t)(int64_t)rule.cfa_offset) ||
		    !read(memory, cfa + (uint64_t)(int64_t)rule.cfa_offset, &cfa))
			return LIMPET_WALK_UNREADABLE;
		if (rule.ra == LIMPET_RA_CFA)
			cfa += (uint64_t)(int64_t)rule.extra;
		break;
	case LIMPET_CFA_PLT:
		cfa = frame->sp + (uint64_t)(int64_t)rule.cfa_offset;
		if ((frame->pc & 15) >= (uint64_t)(int64_t)rule.extra)
			cfa += 8;
		break;
	case LIMPET_CFA_END:
		return limpet_walk_whole(frame);
	default:
		if (rule.cfa == LIMPET_CFA_NONE && limpet_walk_is_root(map, cache, frame))
			return limpet_walk_whole(frame);
		return limpet_walk_step_fp(read, memory, rule.cfa == LIMPET_CFA_NONE, frame);
	}
	return limpet_walk_step_rule(&rule, cfa, read, memory, frame);
}

/* The innermost frames that were passed by frame pointer. */
struct limpet_walk_by_fp {
	uint32_t count;
	uint64_t list[LIMPET_STACK_FUNCTIONS_MAX]; /* frame pointers, as LIMPET_FUNCTION_WORD */
};
/* Where a walk puts what it finds. */
struct limpet_walk_result {
	uint64_t *pcs;
	uint32_t max;
	enum limpet_walk_end *end;
	struct limpet_walk_by_fp *by_fp; /* NULL: not wanted */
};

LIMPET_WALK_INLINE bool limpet_walk_is_interpreter(const struct limpet_interpreter *interpreter,
						   uint64_t pc)
{
	for (unsigned i = 0; i < LIMPET_INTERPRETER_RANGES; i++) {
		const uint64_t end = __atomic_load_n(&interpreter->end[i], __ATOMIC_ACQUIRE);

		if (!end)
			break;
		if (pc >= interpreter->start[i] && pc < end)
			return true;
	}
	return false;
}

/* A frame that was passed by frame pointer, and the stack pointer that its callee left. */
struct limpet_walk_passed {
	uint32_t index;
	uint64_t sp, fp;
};
/* If an interpreter has made it, it is listed by the function that it runs. */
LIMPET_WALK_INLINE void limpet_walk_pass(const struct limpet_walk_map *map, limpet_walk_read *read,
					 const void *memory, struct limpet_walk_passed passed,
					 const struct limpet_walk_result *result)
{
	const struct limpet_interpreter *interpreter = map->interpreter;
	const uint64_t fp = passed.fp;
	const uint32_t index = passed.index;
	uint64_t bytecode, offset, word;

	if (result->by_fp && result->by_fp->count < LIMPET_STACK_FUNCTIONS_MAX)
		result->by_fp->list[result->by_fp->count++] = LIMPET_FUNCTION_WORD(index, fp);
	if (!interpreter || !limpet_walk_is_interpreter(interpreter, result->pcs[index]) ||
	    fp - passed.sp < (uint64_t)(-(int64_t)interpreter->offset) ||
	    !read(memory, fp + (uint64_t)(int64_t)interpreter->bytecode, &bytecode) ||
	    !read(memory, fp + (uint64_t)(int64_t)interpreter->offset, &offset))
		return;
	word = limpet_frame_interpreted(bytecode, offset);
	if (word)
		result->pcs[index] = word;
}

/* Walks from `frame`, which is the first one listed, and returns the number of entries in
 * `result->pcs`, innermost first. Each is a return address; an interrupted pc is listed as pc + 1,
 * so that every entry minus one is in the code that ran. `cache` may be NULL. Inlined in each
 * caller: have only one. */
LIMPET_WALK_INLINE uint32_t limpet_walk(const struct limpet_walk_map *map,
					const struct limpet_walk_cache *cache,
					limpet_walk_read *read, const void *memory,
					struct limpet_walk_frame frame,
					const struct limpet_walk_result *result)
{
	enum limpet_walk_end end = LIMPET_WALK_DEPTH;
	uint32_t count = 0;

	while (count < result->max) {
		const uint64_t sp = frame.sp;

		result->pcs[count++] = frame.pc + (frame.flags & LIMPET_FRAME_EXACT ? 1 : 0);
		end = limpet_walk_step(map, cache, read, memory, &frame);
		if (end != LIMPET_WALK_MORE)
			break;
		end = LIMPET_WALK_DEPTH;
		/* Then the stack pointer is above the frame pointer's place and the return address.
		 */
		if (frame.flags & LIMPET_FRAME_BY_FP)
			limpet_walk_pass(map, read, memory,
					 (struct limpet_walk_passed){count - 1, sp, frame.sp - 16},
					 result);
	}
	*result->end = end;
	return count;
}

#endif
