/* Hooking functions where they begin: jumps in the program's own code, to memory near it.
 *
 * The memory is mapped by a hijacked thread, of the agent's image, so that it is recognised as ours
 * after limpet died, and written from outside: to the program it is never writable. In it lie the
 * relocated prologues, and all that is needed to put the program back (inline_hook_layout.h).
 *
 * Code is changed while all threads stand. One that stands in the bytes to be replaced goes on in
 * the moved ones; if a signal handler is to return there, everything is let go and tried again.
 * When the code is put back no thread can stand in the jump, which is a single instruction; threads
 * in the memory near it leave by themselves, which the proof of quiescence waits for. */
#ifndef LIMPET_INJECTOR_HOOK_INLINE_HOOK_H
#define LIMPET_INJECTOR_HOOK_INLINE_HOOK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/image/entry_find.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/hijack.h"
#include "injector/remote/quiesce.h"

/* Maps and fills the areas; fills in where the originals are called from. -ERANGE: no room within
 * reach; -errno with words. */
int limpet_inline_hook_map(struct limpet_hijack *hijack, const struct limpet_modules *modules,
			   struct limpet_entries *entries,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

struct limpet_inline_hook_setup {
	pid_t pid;
	struct limpet_wait wait;
	/* What else is to be done while all stand, with the target's memory; NULL: nothing.
	 * -EAGAIN: in another try. */
	int (*also)(void *context, int memory);
	void *also_context;
};

/* Leads the entries to the agent's thunks, the first of which is at `thunks`. `hijacked` stands
 * already (NULL: none does). On failure nothing is changed, or the areas still say what was.
 */
int limpet_inline_hook_switch_on(const struct limpet_inline_hook_setup *setup,
				 const struct limpet_tracee *hijacked, uint64_t thunks,
				 uint64_t thunk_bytes, const struct limpet_entries *entries,
				 struct limpet_err *err) LIMPET_MUST_CHECK;

/* Puts back what any limpet has changed in this process, wherever it is still as that left it. 0,
 * or -errno: some may remain. */
int limpet_inline_hook_switch_off(const struct limpet_inline_hook_setup *setup) LIMPET_MUST_CHECK;

/* The areas in a process, by its maps; answers their number. */
unsigned limpet_inline_hook_find(pid_t pid, const struct limpet_maps *maps,
				 struct limpet_inline_hook_range ret[LIMPET_INLINE_HOOK_MAX]);

#endif
