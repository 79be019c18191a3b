/* State shared by all files of the agent, and the addresses of its thunks. The agent runs in a
 * foreign process: no libc, no allocation, no thread-local storage, no destructor; no lock but in
 * hooks of the loader's functions.
 *
 * Context: everything called from limpet_hook_enter/_exit runs on any thread of the target,
 * wherever the program may call malloc, signal handlers included. */
#ifndef LIMPET_AGENT_H
#define LIMPET_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/family.h"
#include "common/slots.h"
#include "common/unwind_walk.h"
#include "common/wire.h"

#include "agent/arch.h"

/* Private anonymous page with MADV_WIPEONFORK: in a forked child both words read 0, so that every
 * hook is a plain jump before it touches memory shared with the collector. */
struct limpet_control {
	uint32_t on;    /* hooks record; first word, read by the thunks' paths, set by the injector
			 */
	uint32_t alive; /* not wiped: this is the process that was attached to */
};
extern struct limpet_control *limpet_control; /* never NULL: all zero before start */
static inline bool limpet_is_alive(void)
{
	return __atomic_load_n(&limpet_control->alive, __ATOMIC_ACQUIRE);
}

extern struct limpet_hook limpet_hooks[LIMPET_MAX_HOOKS];
extern struct limpet_vectors limpet_vectors;
extern struct limpet_shm *limpet_shm;
extern const uint8_t *limpet_unwind_arena;
extern uint64_t limpet_unwind_arena_bytes;
extern struct limpet_agent_info limpet_agent_info;
extern const char limpet_paths[], limpet_paths_end[]; /* all code that calls originals */
typedef uint64_t limpet_call_fn(uint64_t a, uint64_t b, uint64_t c);
/* In vectors.S: calls it, and leaves no vector register changed. */
uint64_t limpet_call_beside(uint64_t a, uint64_t b, uint64_t c, uint64_t function);
extern const char limpet_thunk_code[];
#define LIMPET_THUNK_BYTES 16
/* The thunk's address in the boot stub's mapping. */
static inline uint64_t limpet_thunk(uint32_t hook)
{
	return limpet_agent_info.thunks + (uint64_t)hook * LIMPET_THUNK_BYTES;
}
static inline bool limpet_is_thunk(uint64_t value)
{
	return value - limpet_thunk(LIMPET_FIRST_HOOK) <
	       (LIMPET_MAX_HOOKS - LIMPET_FIRST_HOOK) * LIMPET_THUNK_BYTES;
}

/* The original function of a thunk; any other value is returned unchanged. */
static inline uint64_t limpet_original_of(uint64_t value)
{
	return limpet_is_thunk(value)
		       ? limpet_hooks[(value - limpet_thunk(0)) / LIMPET_THUNK_BYTES].original
		       : value;
}

/* Each thunk's target: the path of its hook's op. Set before any slot leads to the
 * thunk. */
static inline const void **limpet_thunk_paths(void)
{
	return (const void **)(uintptr_t)(limpet_agent_info.thunks + LIMPET_THUNKS_BYTES);
}
extern const char limpet_path_any[], limpet_path_loader[], limpet_path_malloc[], limpet_path_free[],
	limpet_path_probe[], limpet_path_kept[], limpet_path_copied[], limpet_path_finder[],
	limpet_path_finder_kept[];
/* Under sampling, for originals that call no hooks: a call that is not sampled is a plain jump. */
extern const char limpet_path_sampled_malloc[], limpet_path_sampled_calloc[],
	limpet_path_sampled_free[];

/* The data that every call uses, in two cache lines that are rarely written. */
struct limpet_hot {
	struct limpet_thread *threads;
	uint32_t *order;  /* LIMPET_ORDER_COUNTERS; private: a forked child has a copy */
	uint8_t *scratch; /* struct limpet_scratch[thread_count], then rooms */
	uint32_t thread_mask;
	uint32_t tid_offset;
	uint32_t overload; /* +1 at each change; odd: an overload, allocations are sampled */
	uint32_t fingerprint_mask[LIMPET_FINGERPRINT_TABLES]; /* limpet_fingerprints_adjust() */
	uint32_t sample_shift;
	struct limpet_fingerprint *fingerprints[LIMPET_FINGERPRINT_TABLES];
	uint8_t *sample_counters;
	uint8_t *chunks; /* where chunk 0 would be */
	struct limpet_unwind_module *modules;
	struct limpet_walk_cache_entry *rules; /* LIMPET_RULE_CACHE */
};
extern struct limpet_hot limpet_hot;

static inline void *limpet_shm_at(uint64_t offset)
{
	return (uint8_t *)limpet_shm + offset;
}

#endif
