/* Inline hooks: jumps in the program's own code, to hook areas near it.
 *
 * A hijacked thread maps these from the agent's image, so that they can be recognized as ours
 * after limpet died. limpet writes them from outside; the program never can. They contain the
 * relocated prologues, and everything that is needed to restore the program (inline_hook_layout.h).
 *
 * Code is changed while all threads are stopped. A thread that is in the bytes to be replaced
 * continues in the relocated prologue; if a signal handler will return there, all threads are
 * released and it is tried again. When the code is restored no thread can be inside the jump, which
 * is a single instruction. Threads in a hook area leave by themselves; the proof of
 * quiescence waits for that. */
#ifndef LIMPET_INJECTOR_HOOK_INLINE_HOOK_H
#define LIMPET_INJECTOR_HOOK_INLINE_HOOK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/elf/entry_find.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/hijack.h"
#include "injector/remote/quiesce.h"

struct limpet_target;

/* Maps and fills the hook areas, and fills in the addresses of the originals. -ERANGE: no free
 * memory within reach; -errno with a message. */
int limpet_inline_hook_map(struct limpet_hijack *hijack, const struct limpet_modules *modules,
			   struct limpet_entries *entries,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

struct limpet_inline_hook_setup {
	const struct limpet_target *target;
	struct limpet_wait wait;
	/* Other work while all threads are stopped, with the target's memory; NULL: none. -EAGAIN:
	 * try again, only for switch_off: when switching on, the jumps are in place by then. */
	int (*also)(void *context, int memory);
	void *also_context;
	/* For switch_off: whether it may be done now, while all threads are stopped; NULL: it may.
	 */
	bool (*may_switch_off)(void *context);
	void *may_context;
	/* Of switch_off: how many functions have no jump of ours any more, so that calls were not
	 * seen: another tool's breakpoint is in its place, or the program has put back its code
	 * from a copy; NULL: not wanted. */
	unsigned *ret_hidden;
};

/* Makes the entries jump to the agent's thunks, the first of which is at `thunks`. `hijacked` is
 * stopped already (NULL: none). On failure nothing is changed, or the areas still describe what was
 * changed. */
int limpet_inline_hook_switch_on(const struct limpet_inline_hook_setup *setup,
				 const struct limpet_tracee *hijacked, uint64_t thunks,
				 uint64_t thunk_bytes, const struct limpet_entries *entries,
				 struct limpet_err *err) LIMPET_MUST_CHECK;

/* Restores what any limpet has changed in this process, if it is still as that limpet left it,
 * around breakpoints of other tools. 0, or -errno: some changes may remain. -EADDRINUSE: another
 * tool has changed the code where a jump was, and may keep a copy of the jump; the rest was
 * restored. */
int limpet_inline_hook_switch_off(const struct limpet_inline_hook_setup *setup) LIMPET_MUST_CHECK;
/* Words for its error. */
const char *limpet_inline_hook_why(int error);
/* Whether some function begins with a jump of ours, again or still: 1, 0 or -errno. */
int limpet_inline_hook_leads_there(const struct limpet_target *target) LIMPET_MUST_CHECK;

/* Jumps that are in place, or were. */
struct limpet_inline_hook_jump {
	uint64_t from;
	uint8_t bytes[LIMPET_ENTRY_JUMP_BYTES];
};
struct limpet_inline_hook_jumps {
	struct limpet_inline_hook_jump list[LIMPET_INLINE_HOOK_MAX * LIMPET_MAX_ENTRIES];
	size_t count;
};
/* Those of all hook areas in a process. -errno: its maps cannot be read. */
int limpet_inline_hook_read_jumps(const struct limpet_target *target,
				  struct limpet_inline_hook_jumps *ret) LIMPET_MUST_CHECK;

/* Finds the hook areas in a process, by its maps; returns their number. */
unsigned limpet_inline_hook_find(const struct limpet_target *target, const struct limpet_maps *maps,
				 struct limpet_inline_hook_range ret[LIMPET_INLINE_HOOK_MAX]);

#endif
