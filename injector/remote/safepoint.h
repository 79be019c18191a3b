/* Safe points: may this stopped thread be hijacked to call dlopen, dlclose or dl_iterate_phdr?
 *
 * It may when nothing it is in the middle of could hold a lock that those calls need, or be
 * confused by them: no frame in an allocator, in the dynamic linker, in the creation, exit or
 * cancellation of a thread, or in fork, nor in what a signal handler has interrupted; at least one
 * frame of the program's own; and the whole chain known down to its root. A handler on an alternate
 * stack has too little of one. A short chain is no proof: what it leads through
 * may be described by nobody, as code is that a program makes, Go's, or an interpreter's. Then no
 * word above, or passed over by a frame pointer, may be the return address of a call in one of
 * those places, but for the linker's, whose lock is looked at. */
#ifndef LIMPET_INJECTOR_REMOTE_SAFEPOINT_H
#define LIMPET_INJECTOR_REMOTE_SAFEPOINT_H

#include "common/err.h"
#include "injector/image/modules.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/segment.h"

struct limpet_safepoint;

/* Prepared while the target runs: ranges of code to keep out of, copies of what unwinding needs. */
int limpet_safepoint_new(struct limpet_modules *modules, const struct limpet_segment *segment,
			 struct limpet_safepoint **ret) LIMPET_MUST_CHECK;
/* More code to keep out of: of an allocator that is linked into the program. */
void limpet_safepoint_keep_out(struct limpet_safepoint *safepoint, uint64_t start, uint64_t end);
void limpet_safepoint_free(struct limpet_safepoint *safepoint);

enum limpet_safepoint_verdict {
	LIMPET_SAFE = 0,
	LIMPET_UNSAFE_ALLOCATOR,
	LIMPET_UNSAFE_LOADER,
	LIMPET_UNSAFE_THREADS, /* in thread creation or exit, fork, exec... */
	LIMPET_UNSAFE_SIGNAL,  /* in a handler, on an alternate stack or above nobody knows what */
	LIMPET_UNSAFE_RSEQ,
	LIMPET_UNSAFE_AGENT,
	LIMPET_UNSAFE_UNKNOWN,  /* the chain of frames could not be followed to its root */
	LIMPET_UNSAFE_STACK,    /* too little stack, or not the thread's own: a coroutine's */
	LIMPET_UNSAFE_POINTER,  /* its thread pointer is not libc's */
	LIMPET_UNSAFE_DISPATCH, /* its system calls raise SIGSYS instead */
	LIMPET_UNSAFE_FILTER    /* under a seccomp filter that may not let our calls pass */
};
const char *limpet_safepoint_word(enum limpet_safepoint_verdict verdict);
/* Of code that a thread may be in for good, as opposed to a moment of what every thread does. */
bool limpet_safepoint_is_lasting(enum limpet_safepoint_verdict verdict);

/* *ret_stack_low: lowest mapped address of the thread's stack; *ret_has_arena: the thread has an
 * arena of the allocator already, so that a call of malloc does not map a new one. */
enum limpet_safepoint_verdict limpet_safepoint_check(const struct limpet_safepoint *safepoint,
						     const struct limpet_tracee *tracee,
						     uint64_t *ret_stack_low, bool *ret_has_arena);

/* For a call of the agent's own code alone, which takes no lock of the program's: not in a
 * restartable sequence, not in the agent, with enough of a stack, and as far as words of the stack
 * can tell (nothing is unwound) not in a signal handler on an alternate stack, nor in one that has
 * interrupted the agent.
 * `restorer`: where handlers return to; 0: there are none. *ret_stack_low as above. */
enum limpet_safepoint_verdict limpet_safepoint_check_place(const struct limpet_safepoint *safepoint,
							   const struct limpet_tracee *tracee,
							   uint64_t restorer,
							   uint64_t *ret_stack_low);

#endif
