/* The functions that thunks call around an original, and their frame. */
#ifndef LIMPET_AGENT_HOOK_H
#define LIMPET_AGENT_HOOK_H

#include "agent/agent.h"

/* The frame of a thunk's path (thunks.S). It ends with the caller's rbp and the return address. */
struct limpet_hook_frame {
	uint64_t args[6];
	uint64_t hook;
	uint64_t result;
	struct limpet_thread *thread;
	uint64_t held;   /* number taken before the original, LIMPET_HELD, and the time; 0: none */
	uint64_t aux;    /* usable size of the block that realloc got */
	uint64_t wanted; /* LIMPET_WANTED_*; in an overload, its number in the high half */
	uint64_t caller_fp;
	uint64_t caller_pc;
};

/* What to record of a call; under sampling not everything. */
#define LIMPET_WANTED_NEW 1u /* the block that it allocates */
#define LIMPET_WANTED_OLD 2u /* the block that it releases */
#define LIMPET_NESTED 4u     /* inside an unfinished hook (LIMPET_HOOK_NIM) */
#define LIMPET_HELD (1ull << 32)
#define LIMPET_HELD_TIME_SHIFT 33

/* Called by the paths of thunks.S. For any op, _enter returns 1: call the original and then _exit;
 * or 0: jump to it. MALLOC calls the original itself. For FREE of a leaf, the thunk jumps to the
 * original afterwards. */
int limpet_hook_enter(struct limpet_hook_frame *frame);
int limpet_hook_enter_loader(
	struct limpet_hook_frame *frame); /* of the dynamic linker's functions */
void limpet_hook_exit(struct limpet_hook_frame *frame);
/* For a function that may have arguments on the stack. >= 0: call the original with a copy of this
 * many bytes from the caller's stack pointer on, then _exit; LIMPET_PASS: jump to it. */
int64_t limpet_hook_enter_copied(struct limpet_hook_frame *frame);
#define LIMPET_PASS (-1)
struct limpet_answer {
	uint64_t result; /* rax */
	uint64_t pass;   /* rdx; 1: not called yet: jump to it, with the arguments in the frame */
};
struct limpet_answer limpet_hook_malloc(uint64_t a, uint64_t b, uint64_t c, uint64_t hook,
					struct limpet_hook_frame *frame);
/* Returns whether it recorded, or tried to. */
bool limpet_hook_free(uint64_t block, uint64_t hook, struct limpet_hook_frame *frame);
/* At an instruction inside a function, with its registers, rax first. Returns the address to
 * continue at. */
uint64_t limpet_hook_probe(const uint64_t *registers, uint64_t hook);
/* Fills in a hook and its thunk's path; `original` last. */
void limpet_hook_set(uint32_t index, const struct limpet_hook *hook);
/* Makes all thunks plain jumps to their originals, except those of inline hooks: these are reached
 * only through the hook areas. also_loader: those of the dynamic linker's functions, too.
 * also_finder: that of _dl_find_object, which exceptions need as long as a thread is in a hook. */
void limpet_hook_pass_all(bool also_loader, bool also_finder);

static inline uint64_t limpet_frame_caller_sp(const struct limpet_hook_frame *frame)
{
	return (uint64_t)(uintptr_t)frame + sizeof(*frame);
}

#endif
