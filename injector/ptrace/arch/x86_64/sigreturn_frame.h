/* The sigreturn frame of a hijacked thread (x86-64). */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_SIGRETURN_FRAME_H
#define LIMPET_INJECTOR_PTRACE_ARCH_SIGRETURN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "common/wire.h"

/* Asks the processor what the next function needs to know: before a thread stands for it. */
void limpet_sigreturn_frame_prepare(void);

/* Where a thread's extended state (NT_X86_XSTATE) has its rights by protection keys, pkeys(7); 0:
 * the processor has none. */
uint32_t limpet_xstate_pkru_offset(void);
/* Whether the thread may not read or write memory of key 0: most of all memory, also its stack. */
bool limpet_xstate_denies_key_0(const uint8_t *xstate, size_t bytes, uint32_t pkru_offset);

/* All that a function may change of vector registers and x87: not tiles, which are large and have
 * to be released before a call, nor rights by protection keys. */
struct limpet_vectors limpet_xstate_vectors(void);

/* Where the frame at `address` keeps the result of a system call. */
uint64_t limpet_sigreturn_frame_answer(uint64_t address);

/* A handler that runs before the thread is home ends the call that it is in: with EINTR, instead of
 * being made again, where the kernel would do so whatever the handler's flags (ERESTARTNOHAND:
 * pause, epoll_wait and others). `regs` are those that the frame was built of. Writes to the frame
 * at `address`; 0 or -errno. */
int limpet_sigreturn_frame_end_call(pid_t pid, uint64_t address,
				    const struct user_regs_struct *regs);

/* What a frame restores. */
struct limpet_sigreturn_state {
	const struct user_regs_struct *regs;
	const uint8_t *xstate;
	size_t xstate_bytes;
	uint64_t signal_mask;
};
struct limpet_sigreturn_frame {
	uint64_t address; /* where the image is to be written */
	uint8_t *image;   /* malloc'ed */
	size_t bytes;
};
/* Builds a frame, so that `ret` with rsp at its address jumps to `restorer`, and rt_sigreturn then
 * restores the state. `top` is the highest address that may be used (below the red zone).
 * Returns 0 or -errno. Source: struct rt_sigframe and fpu_sigframe in the kernel's x86 signal code.
 */
int limpet_sigreturn_frame_build(const struct limpet_sigreturn_state *state, uint64_t restorer,
				 uint64_t top, struct limpet_sigreturn_frame *ret);

/* A frame that restores registers alone, with all signals blocked: without extended state. The rest
 * is as above. With two words before it, its size is LIMPET_CALL_FRAME_BYTES, a multiple of 16. */
#define LIMPET_BARE_FRAME_BYTES 320u
#define LIMPET_CALL_FRAME_BYTES (2 * sizeof(uint64_t) + LIMPET_BARE_FRAME_BYTES)
void limpet_sigreturn_frame_bare(const struct user_regs_struct *regs, uint64_t restorer,
				 uint8_t ret_image[LIMPET_BARE_FRAME_BYTES]);

#endif
