/* An unwinder that shares nothing with limpet's: libdwfl, over a thread that stands still under
 * ptrace.
 *
 * It goes by .eh_frame (and .debug_frame where a file has it), and steps by frame pointer through
 * code that neither describes, as elfutils does (backends/x86_64_unwind.c). One is for one thread
 * of the caller. */
#ifndef LIMPET_TEST_TORTURE_CHAINS_UNWIND_H
#define LIMPET_TEST_TORTURE_CHAINS_UNWIND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define CHAIN_MAX 1100u

/* Return addresses, innermost first; where a signal has interrupted, the next instruction + 1. */
struct chain {
	uint32_t count;
	bool whole; /* it ended at the thread's root; false: cut short */
	uint64_t pcs[CHAIN_MAX];
};

struct other_unwinder;

/* 0 or -errno. */
int other_unwinder_new(pid_t pid, struct other_unwinder **ret);
void other_unwinder_free(struct other_unwinder *unwinder);
/* Looks what is loaded, too. `registers` are those at the first instruction of a function that was
 * called; its caller is the first frame. At most `max` frames. */
void other_unwinder_walk(struct other_unwinder *unwinder, const struct user_regs_struct *registers,
			 uint32_t max, struct chain *ret_chain);
/* Where `pc` is, for messages: "libc.so.6+0x1234 malloc". */
void other_unwinder_name(struct other_unwinder *unwinder, uint64_t pc, char *ret, size_t bytes);

#endif
