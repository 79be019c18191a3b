/* Writes and restores slots from outside while all threads are stopped.
 *
 * The agent does this itself, under the loader's lock, if it can be called at a point that is known
 * not to hold that lock. If that is unknown (musl's libc, which cannot be unwound; a program
 * without a loader) no code of the program is called at all: its words are exchanged through
 * /proc/PID/mem, past page protections, and a word with an unexpected value is left alone. To be
 * called between limpet_stop_all_begin and _end.
 *
 * Between the plan and the moment when all threads are stopped a module may have been unloaded, and
 * anything may be mapped where its slots were. So each slot is checked again when all threads are
 * stopped. From that check until the last word is exchanged nobody can unmap, map or write anything
 * there, except a process that shares the memory without being a thread of it (DETACH.md), or one
 * that may write to it from outside, as limpet does. */
#ifndef LIMPET_INJECTOR_HOOK_REMOTE_PATCH_H
#define LIMPET_INJECTOR_HOOK_REMOTE_PATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/proc/proc.h"

struct limpet_target;

/* Marks as gone the planned slots that are not in the same part of the same file as before
 * (`before`: when they were planned; `now`: with all threads stopped). Returns how many. */
unsigned limpet_remote_patch_check(struct limpet_slot *slots, uint32_t count,
				   const struct limpet_maps *before, const struct limpet_maps *now);

/* Patches the planned slots of `slots`, our own copy and not the one that the target shares, with
 * the hooks `hooks`, and notes the result of each. `memory`: the target's, writable. Returns how
 * many were patched. */
unsigned limpet_remote_patch_install(int memory, struct limpet_slot *slots, uint32_t count,
				     const struct limpet_hook *hooks, uint64_t thunks,
				     uint64_t thunk_bytes);

/* Restores every slot that still leads to the agent, by the slot table in the target's memory
 * (`info`: what the agent says about itself). Returns how many were restored, or -errno (-EBUSY:
 * some could not be). */
int limpet_remote_patch_restore(const struct limpet_target *target, int memory,
				const struct limpet_agent_info *info);

/* Whether some slot leads to the agent, while the target runs. 1, 0 or -errno. */
int limpet_remote_patch_leads_there(const struct limpet_target *target,
				    const struct limpet_agent_info *info);

#endif
