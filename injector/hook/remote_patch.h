/* Slots, put in and put back from outside while all threads stand.
 *
 * The agent does this itself, under the loader's lock, where it can be called at a point that is
 * known not to hold that lock. Where nothing is known of it (musl's libc, which cannot be unwound;
 * a program without a loader) no code of the program's is called at all: its words are exchanged
 * through /proc/PID/mem, past page protections, and whatever does not hold what it should is left
 * alone. To be called between limpet_stop_all_begin and _end.
 *
 * Between the plan and the moment when all threads stand a module may have gone, and anything have
 * come to lie where its slots were. So each is looked at once more when all threads stand: nobody
 * can unmap, map or write anything from that look until the last word is exchanged, but a process
 * that shares the memory and is no thread of it (LEAVING.md), or one that may write to it from
 * outside, as we do.
 */
#ifndef LIMPET_INJECTOR_HOOK_REMOTE_PATCH_H
#define LIMPET_INJECTOR_HOOK_REMOTE_PATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/proc/proc.h"

/* Planned slots that do not lie in the same part of the same file as they did (`before`, when they
 * were planned; `now`, all threads standing) are gone. Answers how many. */
unsigned limpet_remote_patch_check(struct limpet_slot *slots, uint32_t count,
				   const struct limpet_maps *before, const struct limpet_maps *now);

/* Puts in the planned slots of `slots`, our own and not those that the target shares, whose hooks
 * are `hooks`, and notes what became of them. `memory`: the target's, writable. Answers how many
 * were. */
unsigned limpet_remote_patch_put_in(int memory, struct limpet_slot *slots, uint32_t count,
				    const struct limpet_hook *hooks, uint64_t thunks,
				    uint64_t thunk_bytes);

/* Puts back every slot that still leads to the agent, by the slot table in the target's memory
 * (`info`: what the agent says of itself). Answers how many were, or -errno (-EBUSY: some could not
 * be). */
int limpet_remote_patch_put_back(pid_t pid, int memory, const struct limpet_agent_info *info);

/* Whether some slot leads there, seen while the target runs. 1, 0 or -errno. */
int limpet_remote_patch_leads_there(pid_t pid, const struct limpet_agent_info *info);

#endif
