/* Safe points: may this stopped thread be hijacked to call dlopen, dlclose or dl_iterate_phdr?
 *
 * It may if it is not in the middle of anything that could hold a lock which those calls need, or
 * that they could confuse: there is no frame in an allocator (unless only the agent's own walk of
 * the modules is called, which needs no memory), in the dynamic linker, in the creation, exit or
 * cancellation of a thread, or in fork, nor in code that a signal handler has interrupted; there is
 * at least one frame of the program; and the whole chain is known down to its root. A handler on an
 * alternate stack has too little stack. A short chain proves nothing if it passes code without a
 * description, such as generated code, Go's, or an interpreter's. Then no word above, or skipped by
 * a frame pointer, may be the return address of a call in one of those places, except the linker's,
 * whose lock is checked. */
#ifndef LIMPET_INJECTOR_REMOTE_SAFEPOINT_H
#define LIMPET_INJECTOR_REMOTE_SAFEPOINT_H

#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/segment.h"

struct limpet_safepoint;

/* Prepared while the target runs: ranges of code where no thread is safe, and copies of what
 * unwinding needs. */
int limpet_safepoint_new(struct limpet_modules *modules, const struct limpet_segment *segment,
			 struct limpet_safepoint **ret) LIMPET_MUST_CHECK;
/* Adds a range of code where no thread is safe: of an allocator that is linked into the program. */
void limpet_safepoint_keep_out(struct limpet_safepoint *safepoint, uint64_t start, uint64_t end);
void limpet_safepoint_free(struct limpet_safepoint *safepoint);

enum limpet_safepoint_verdict {
	LIMPET_SAFE = 0,
	LIMPET_UNSAFE_ALLOCATOR,
	LIMPET_UNSAFE_LOADER,
	LIMPET_UNSAFE_THREADS, /* in thread creation or exit, fork, exec... */
	LIMPET_UNSAFE_SIGNAL,  /* in a handler, on an alternate stack or above unknown code */
	LIMPET_UNSAFE_RSEQ,
	LIMPET_UNSAFE_AGENT,
	LIMPET_UNSAFE_UNKNOWN,  /* the chain of frames could not be followed to its root */
	LIMPET_UNSAFE_STACK,    /* too little stack, or not the thread's own (a coroutine's) */
	LIMPET_UNSAFE_POINTER,  /* its thread pointer is not libc's */
	LIMPET_UNSAFE_CODE,     /* 32-bit */
	LIMPET_UNSAFE_DISPATCH, /* its system calls raise SIGSYS */
	LIMPET_UNSAFE_KEYS,     /* may not access its own memory (limpet_tracee_hijack()) */
	LIMPET_UNSAFE_FILTER    /* has a seccomp filter that may block our calls */
};
const char *limpet_safepoint_word(enum limpet_safepoint_verdict verdict);
/* Whether a thread may stay in this state for good, as opposed to a moment that every thread passes
 * through. */
bool limpet_safepoint_is_lasting(enum limpet_safepoint_verdict verdict);

/* `malloc_too`: it is to call functions that allocate. *ret_has_arena: the thread already has an
 * arena, so that malloc does not map a new one. *ret_stack_low: how far down its stack may be used.
 */
enum limpet_safepoint_verdict limpet_safepoint_check(const struct limpet_safepoint *safepoint,
						     const struct limpet_tracee *tracee,
						     bool malloc_too, uint64_t *ret_stack_low,
						     bool *ret_has_arena);

/* For a call of the agent's own code, which takes no lock of the program. The thread must not be in
 * a restartable sequence or in the agent, and must have enough stack, its own as far as its frames
 * can be followed. As far as words on the stack show it must not be in a signal handler on an
 * alternate stack, nor in one that has interrupted the agent. `restorer`: where handlers return to;
 * 0: there are none. *ret_stack_low as above. */
enum limpet_safepoint_verdict limpet_safepoint_check_place(const struct limpet_safepoint *safepoint,
							   const struct limpet_tracee *tracee,
							   uint64_t restorer,
							   uint64_t *ret_stack_low);

#endif
