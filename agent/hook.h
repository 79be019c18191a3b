/* The functions that thunks call around an original. */
#ifndef LIMPET_AGENT_HOOK_H
#define LIMPET_AGENT_HOOK_H

#include "agent/hook_frame.h"

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
#endif
