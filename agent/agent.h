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
#include "common/slots.h"
#include "common/unwind_walk.h"
#include "common/wire.h"

#include "agent/arch.h"

/* Private anonymous page with MADV_WIPEONFORK: in the child of a fork both words read 0, and with
 * that every hook is a plain jump before it touches memory shared with the collector. */
struct limpet_control {
	uint32_t on;    /* hooks record; first word, read by the thunks' ways */
	uint32_t alive; /* not wiped: this is the process that was attached to */
};
extern struct limpet_control *limpet_control; /* never NULL: a zero one before start */

extern struct limpet_hook limpet_hooks[LIMPET_MAX_HOOKS];
extern struct limpet_shm *limpet_shm;
extern const uint8_t *limpet_unwind_arena;
extern uint64_t limpet_unwind_arena_bytes;
extern struct limpet_agent_info limpet_agent_info;
extern const char limpet_ways[], limpet_ways_end[]; /* all code that calls originals */
extern const char limpet_thunk_code[];
#define LIMPET_THUNK_BYTES 16
/* In the mapping that the boot stub has made of the code of thunks. */
static inline uint64_t limpet_thunk(uint32_t hook)
{
	return limpet_agent_info.thunks + (uint64_t)hook * LIMPET_THUNK_BYTES;
}
static inline bool limpet_is_thunk(uint64_t value)
{
	return value - limpet_thunk(0) < LIMPET_MAX_HOOKS * LIMPET_THUNK_BYTES;
}

/* The function for which a thunk stands; anything else as it is. */
static inline uint64_t limpet_original_of(uint64_t value)
{
	return limpet_is_thunk(value)
		       ? limpet_hooks[(value - limpet_thunk(0)) / LIMPET_THUNK_BYTES].original
		       : value;
}

/* Where each thunk goes on: the way of its hook's op. Set before any slot leads to the thunk. */
static inline const void **limpet_thunk_ways(void)
{
	return (const void **)(uintptr_t)(limpet_agent_info.thunks + LIMPET_THUNKS_BYTES);
}
extern const char limpet_way_any[], limpet_way_malloc[], limpet_way_free[], limpet_way_probe[],
	limpet_way_kept[], limpet_way_copied[], limpet_way_finder[], limpet_way_finder_kept[];
/* Under sampling, for originals that call no hook: what is not sampled is a plain jump. */
extern const char limpet_way_sampled_malloc[], limpet_way_sampled_calloc[],
	limpet_way_sampled_free[];

/* What every call needs, in two cache lines that are only read. */
struct limpet_hot {
	struct limpet_thread *threads;
	uint8_t *chunks; /* where chunk 0 would be */
	uint64_t clock_base;
	uint32_t thread_mask;
	uint32_t tid_offset;
	uint32_t clock_is_tsc;
	uint32_t print_mask;
	struct limpet_print *prints;
	uint8_t *scratch; /* struct limpet_scratch[thread_count], then rooms */
	struct limpet_unwind_module *modules;
	uint8_t *sample_counters;
	uint32_t sample_shift;
	uint32_t overload; /* +1 at each change; odd: while it lasts, allocations are sampled */
	struct limpet_walk_cache_entry *rules; /* LIMPET_RULE_CACHE */
};
extern struct limpet_hot limpet_hot;

/* The frame of a way through a thunk (thunks.S). Above it: the caller's rbp and the return address.
 */
struct limpet_frame {
	uint64_t args[6];
	uint64_t hook;
	uint64_t result;
	struct limpet_thread *thread;
	uint64_t stamp;  /* before the original was called */
	uint64_t aux;    /* usable size of the block that realloc got */
	uint64_t wanted; /* LIMPET_WANTED_*; in an overload, its number in the high half */
	uint64_t caller_fp;
	uint64_t caller_pc;
};

/* What a call is to be recorded as: with sampling not always everything. */
#define LIMPET_WANTED_NEW 1u /* the block that it makes */
#define LIMPET_WANTED_OLD 2u /* the block that it gives back */
#define LIMPET_NESTED 4u     /* under a hook that is not done, by LIMPET_HOOK_NIM */

/* What the ways of thunks.S call. Any op: _enter answers 1: call the original and then _exit; 0:
 * jump to it. MALLOC: calls the original itself. FREE of a leaf: the original is jumped to
 * afterwards. */
int limpet_hook_enter(struct limpet_frame *frame);
void limpet_hook_exit(struct limpet_frame *frame);
/* For a function that may have arguments on the stack. >= 0: call the original with a copy of so
 * many bytes from the caller's stack pointer on, then _exit; LIMPET_PASS: jump to it. */
int64_t limpet_hook_enter_copied(struct limpet_frame *frame);
#define LIMPET_PASS (-1)
struct limpet_answer {
	uint64_t result; /* rax */
	uint64_t pass;   /* rdx: not called yet: jump to it, with the arguments in the frame */
};
struct limpet_answer limpet_hook_malloc(uint64_t a, uint64_t b, uint64_t c, uint64_t hook,
					struct limpet_frame *frame);
/* Answers whether it recorded, or tried to. */
bool limpet_hook_free(uint64_t block, uint64_t hook, struct limpet_frame *frame);
/* At an instruction in the midst of a function, with its registers, rax first: answers where it
 * goes on. */
uint64_t limpet_hook_probe(const uint64_t *registers, uint64_t hook);
/* Fills in a hook and its thunk's way; `original` last. */
void limpet_hook_set(uint32_t index, const struct limpet_hook *hook);
/* From here on thunks are plain jumps to their originals, but those of functions' entries, which
 * only the memory near these leads to. */
void limpet_hook_pass_all(void);

static inline uint64_t limpet_frame_caller_sp(const struct limpet_frame *frame)
{
	return (uint64_t)(uintptr_t)frame + sizeof(*frame);
}

/* record.c: thread states and buffers */
void limpet_record_configure(void);
/* For a thread pointer whose entry is not in its first place, or not this thread's any more. */
struct limpet_thread *limpet_thread_look_up(uint64_t sp);
/* Opens a chunk with room for a record of that stamp; false: there is none, the event is counted as
 * lost, by its kind. Goes over to sampling when chunks become few. */
bool limpet_record_make_room(struct limpet_thread *thread, uint32_t type, uint64_t ticks,
			     uint64_t size);
/* The collector says that there is room: all is recorded again. */
void limpet_record_end_overload(struct limpet_thread *thread, uint32_t overload);
void limpet_record_publish(struct limpet_thread *thread);
/* There is something for the collector to do, which it will see at its next look. */
void limpet_record_ring(void);
/* As libc has it, without a system call where the place is known. */
uint32_t limpet_record_tid(void);
uint64_t limpet_clock_slow(void);

static inline uint32_t limpet_thread_index(const struct limpet_thread *thread)
{
	return (uint32_t)(thread - limpet_hot.threads);
}

static inline uint64_t limpet_thread_hash(uint64_t thread_pointer)
{
	return (thread_pointer >> 6) * LIMPET_GOLDEN >> 32;
}

/* libc keeps the tid at a fixed distance behind the thread pointer; the injector measured it. libc
 * gives a thread pointer to one thread after the other, and only by the tid is it known whose state
 * this is. */
static inline struct limpet_thread *limpet_thread_self(uint64_t sp)
{
	uint64_t pointer = limpet_thread_pointer();
	struct limpet_thread *thread =
		&limpet_hot.threads[limpet_thread_hash(pointer) & limpet_hot.thread_mask];

	if (__builtin_expect(__atomic_load_n(&thread->thread_pointer, __ATOMIC_RELAXED) == pointer,
			     1) &&
	    __builtin_expect(limpet_hot.tid_offset != 0, 1) &&
	    __builtin_expect(*(const uint32_t *)(uintptr_t)(pointer + limpet_hot.tid_offset) ==
				     thread->tid,
			     1))
		return thread;
	return limpet_thread_look_up(sp);
}

static inline uint64_t limpet_clock(void)
{
	if (__builtin_expect(limpet_hot.clock_is_tsc, 1))
		return limpet_ticks() - limpet_hot.clock_base;
	return limpet_clock_slow();
}

static inline void limpet_record_append(struct limpet_thread *thread, uint32_t type, uint64_t ticks,
					uint64_t address, uint64_t size, uint32_t node)
{
	bool wide = size > UINT32_MAX;
	uint64_t bytes = wide ? 32 : 24, *words;

	/* Signed: whatever stands there, it ends with an event that is lost. */
	if (__builtin_expect((int64_t)(thread->end - thread->at) < (int64_t)bytes, 0) &&
	    !limpet_record_make_room(thread, type, ticks, size))
		return;
	words = (uint64_t *)(uintptr_t)thread->at;
	/* The collector has read these lines since they were written last: to get them back takes
	 * longer than some records. */
	limpet_prefetch_to_write(words + 48);
	words[0] = ticks << 8 | type | (wide ? LIMPET_EVENT_WIDE : 0);
	words[1] = address;
	if (wide) {
		words[2] = size;
		words[3] = node;
	} else {
		words[2] = (uint64_t)node << 32 | size;
	}
	thread->at += bytes;
	if (ticks > thread->last_ticks)
		thread->last_ticks = ticks;
}

/* Where the words lie that the walk of a stack reads. The walk is a pure function of (pc, base), of
 * the tables in force and of these words: while they are what they were, so is the node. Checking
 * costs a load and a compare a word where walking costs a look-up a frame. Other words in the same
 * places are another stack that may have been walked before: their fingerprint finds it. */
#define LIMPET_MEMO_WORDS 128u /* a multiple of LIMPET_MEMO_STEP */
#define LIMPET_MEMO_STEP 4u
struct limpet_memo {
	uint64_t pc, base;   /* pc 0: empty */
	uint64_t high;       /* end of the stack, as it was known: all words lie below */
	uint64_t generation; /* of the tables, and of modules that have gone */
	uint32_t known;      /* node, with LIMPET_PRINT_TRUNCATED */
	uint32_t words;      /* rounded up to whole steps by repeating the last one */
	uint64_t seed;       /* of fingerprints: all of the above that the words depend on */
	uint64_t values[LIMPET_MEMO_WORDS];
	uint32_t offsets[LIMPET_MEMO_WORDS]; /* from base */
};

/* The path that was kept last, outermost first: the next one mostly begins alike. */
struct limpet_path {
	uint32_t count, cut; /* cut: the outermost frame is marked as truncated */
	uint32_t gone;       /* modules that had gone by then */
	uint32_t replaced;   /* memos that gave way to another place */
	/* Behind it as many frames as there is room for, and so many uint32_t for their nodes. */
};

/* What a thread remembers lies in private memory: `memos` memos, then a path. Each state has little
 * room of its own; a thread that could do with more takes a larger one for good, while there are
 * any. So many pages are taken for one, and such a one holds so much. Of 34 memos node's main
 * thread finds six calls in ten, of 255 more than nine. */
struct limpet_room {
	uint32_t pages, memos, path;
};
#define LIMPET_DEPTH_LIMIT 256u
#define LIMPET_SMALL_PATH 37u
#define LIMPET_ROOM_SMALL ((struct limpet_room){1, 1, LIMPET_SMALL_PATH})
#define LIMPET_ROOM_MIDDLE ((struct limpet_room){4, 9, 128})
#define LIMPET_ROOM_LARGE ((struct limpet_room){14, 34, LIMPET_DEPTH_LIMIT})
#define LIMPET_ROOM_HUGE ((struct limpet_room){100, 255, LIMPET_DEPTH_LIMIT})
struct limpet_scratch {
	struct limpet_memo memo;
	struct limpet_path path;
	uint64_t path_frames[LIMPET_SMALL_PATH];
	uint32_t path_nodes[LIMPET_SMALL_PATH + 1];
	uint64_t frames[LIMPET_DEPTH_LIMIT]; /* of the walk that is under way */
};
_Static_assert(sizeof(struct limpet_scratch) == LIMPET_SCRATCH_BYTES, "a page");

/* stack.c: the stack of the caller as a node of the tree, 0 if it could not be kept */
uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_frame *frame);
/* Whether the thread runs on its own stack, in no signal handler, and above the hook that its state
 * notes: then that hook has been left. False: it is not known. */
bool limpet_stack_is_above_entry(const struct limpet_thread *thread,
				 const struct limpet_frame *frame);
/* The same stack, for blocks of that allocator. */
uint32_t limpet_stack_mark(uint32_t node, uint32_t owner);

/* How many bytes from the caller's stack pointer on hold all arguments that a call can have there:
 * its frame. LIMPET_PASS: that is not known, or more than can be copied. */
int64_t limpet_stack_arguments(const struct limpet_thread *thread,
			       const struct limpet_frame *frame);

/* The module that holds the address, as far as its table is known; NULL: none. */
const struct limpet_unwind_module *limpet_stack_module(uint64_t address);

/* loaded.c: modules, as the dynamic linker has them. Visits run under a lock of its own: none is
 * unmapped meanwhile. Never under an allocation hook. */
struct limpet_image {
	uint64_t bias, phdr; /* as dl_iterate_phdr has them */
	uint64_t phdr_count;
	uint64_t low, high; /* of what is mapped */
	uint64_t dynamic;   /* address of the dynamic section; 0: none */
	uint64_t space;     /* of its namespace the first link_map; 0: the program's own */
	bool shrunk;        /* some module has gone since the last settled walk */
};
struct limpet_image_tables {
	struct limpet_slot_tables slots;
	const uint32_t *hash;     /* DT_GNU_HASH; NULL: none */
	const uint16_t *versions; /* DT_VERSYM; NULL: none */
};
typedef int limpet_image_fn(const struct limpet_image *image, void *context);
void limpet_loaded_configure(const struct limpet_start *start);
/* Until `visit` answers other than 0, which is answered. Of modules whose program headers could not
 * be found the number; ret_unread may be NULL. By dl_iterate_phdr: for the injector's calls alone.
 */
int limpet_loaded_walk(limpet_image_fn *visit, void *context, uint32_t *ret_unread);
/* Takes what a hook may take to walk; recursive. false: not to be had, without waiting, or within a
 * fraction of a second. */
bool limpet_loaded_hold(bool wait);
void limpet_loaded_let_go(void);
/* The same walk, between these two; answers the number. settles: limpet_loaded_has_changed() means
 * since this one. */
uint32_t limpet_loaded_walk_held(limpet_image_fn *visit, void *context, bool settles);
#define LIMPET_LOADER_PATIENCE 2000u /* pauses of 0.1 ms */
void limpet_loaded_pause(void);
/* Without a lock. Where it cannot be told so it has not: the collector looks from outside. */
bool limpet_loaded_has_changed(void);
/* dlclose takes no lock that dlopen takes. */
bool limpet_loaded_closes_unlocked(void);
/* Whether the word is part of its data: what lies between segments need not be mapped. */
bool limpet_image_has_word(const struct limpet_image *image, uint64_t address);
/* Of what is mapped of its file, the part that holds the word, in whole pages. */
struct limpet_image_part {
	uint64_t start, bytes;
	uint32_t flags; /* PF_* */
};
bool limpet_image_part_of(const struct limpet_image *image, uint64_t address,
			  struct limpet_image_part *ret);
/* The module that holds the address. Between hold and let_go, too. */
bool limpet_loaded_find(uint64_t address, struct limpet_image *ret);
bool limpet_image_tables(const struct limpet_image *image, struct limpet_image_tables *ret);
/* Address of a function that it defines, by its default version; 0: none. */
uint64_t limpet_image_symbol(const struct limpet_image *image, const char *name);
/* In how many modules of the image's namespace, which is not the program's, the function is
 * defined, and the last of these. */
uint32_t limpet_space_symbol(const struct limpet_image *image, const char *name, uint64_t *ret);

/* patch.c: slots, never under an allocation hook */
void limpet_patch_configure(const struct limpet_start *start);
int limpet_patch_planned(void);
int limpet_patch_restore(void);
int limpet_patch_new_modules(void);
/* On the way into the loader, by a function that closes a module or by another. */
void limpet_patch_on_loader_call(bool closes);

/* finder.c: before any slot leads to limpet_way_finder */
extern struct limpet_found limpet_found;
void limpet_finder_configure(const struct limpet_start *start);

/* channel.c */
int limpet_channel_adopt(int fd);
/* If it is ours still. */
void limpet_channel_close(void);

static inline void *limpet_shm_at(uint64_t offset)
{
	return (uint8_t *)limpet_shm + offset;
}

#endif
