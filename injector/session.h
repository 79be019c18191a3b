/* One agent in one target: enter, rescan, leave.
 *
 * Every step is undone if a later one fails. Between the calls the target is not traced. All calls
 * come from one thread, the one that called limpet_tracee_setup. */
#ifndef LIMPET_INJECTOR_SESSION_H
#define LIMPET_INJECTOR_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/hook/hook_pointers.h"
#include "injector/image/entry_late.h"
#include "injector/image/modules.h"
#include "injector/proc/target_process.h"
#include "injector/remote/load.h"
#include "injector/remote/quiesce.h"
#include "injector/remote/segment.h"

struct limpet_session;
struct limpet_tracee;

struct limpet_entry_list;
struct limpet_session_options {
	uint64_t agent_memory_bytes;
	struct limpet_sampling sampling;
	uint64_t timeout_ns;    /* for all attempts to enter together, and likewise to leave */
	bool forked;            /* the agent in it is a copy, by fork, from which nobody collects */
	bool assume_seccomp_ok; /* a filter that cannot be read lets all calls pass */
	enum limpet_load load;
	const struct limpet_entry_list *entry_list; /* functions that the user named, or NULL */
};

struct limpet_session_stats {
	uint64_t attach_stop_ns, detach_stop_ns; /* longest time from own code to own code */
	unsigned attach_attempts;
	bool sealed;      /* its memory stays, by mseal(2) */
	pid_t table_left; /* of a thread whose descriptors still have our channel; 0: none */
	uint32_t slots_patched, slots_not_taken;
	unsigned entries_refused; /* functions of allocators that are not seen */
	bool thread_heaps;        /* blocks that go with their thread are not seen released */
	struct limpet_quiesce_stats quiesce;
	struct limpet_hook_pointers_stats copies;
};

/* `target` is the caller's, and outlives the session.
 * Takes the target lock (target_lock.h); enter or free releases it. Removes what an earlier limpet
 * left, as cleanup does. Then reads the target, plans, and makes the shared memory; the target runs
 * on, untouched. -EALREADY: another limpet captures it, or is at work on it. */
int limpet_session_prepare(const struct limpet_target *target,
			   const struct limpet_session_options *options,
			   struct limpet_session **ret, struct limpet_err *err) LIMPET_MUST_CHECK;
/* Loads the agent and switches it on. `tracee`: a thread that is stopped at a safe point already
 * (taken over and released in any case), or NULL: find one. On failure the target is as before; the
 * owner of a given thread, a command of ours, is ended instead. -ECANCELED: it is none for us,
 * and nothing was made in it. */
int limpet_session_enter(struct limpet_session *session, struct limpet_tracee *tracee,
			 struct limpet_err *err) LIMPET_MUST_CHECK;
/* Has the agent look for modules that came without a call it could see. Slots patched, or -errno.
 */
int limpet_session_rescan(struct limpet_session *session, struct limpet_err *err);
/* Whether glibc's malloc alone is followed, of all that was there when the capture began. */
bool limpet_session_follows_glibc_alone(struct limpet_session *session);
/* Whether functions of this module are hooked where they begin; as limpet_memory_owners_name()
 * asks. */
bool limpet_session_has_entries(void *session, const struct limpet_module *module);
/* `idle` is called while threads are waited for; it may drain the agent's buffers. */
void limpet_session_set_idle(struct limpet_session *session, void (*idle)(void *context),
			     void *context);
/* Under the target lock: slots and hook pointers back, proof, unload. 0, also where its thunks stay
 * (stats.copies.elsewhere); -EBUSY: the agent stays, switched off (dormant); -ESRCH: the target is
 * gone. Stops at nothing but the deadline. */
int limpet_session_leave(struct limpet_session *session, struct limpet_err *err);
/* The agent stays, and nobody will read what it records: it is switched off by its control page,
 * and told that the collector has died, so that no thread of the target waits for room. A leave
 * that fails does so itself. */
void limpet_session_let_go(struct limpet_session *session);
void limpet_session_free(struct limpet_session *session);

/* Under the target lock: agents that an earlier limpet left behind: switched off, proven, unloaded.
 * Answers how many were removed, or -errno (-EBUSY: one could not be removed; -EALREADY: its
 * collector lives). `abandoned`: it is known that nobody collects from this process, though the
 * channel is open (a forked child). */
int limpet_session_cleanup(pid_t pid, uint64_t timeout_ns, bool abandoned, struct limpet_err *err);

pid_t limpet_session_pid(const struct limpet_session *session);
int limpet_session_channel(const struct limpet_session *session); /* -1 before enter */
struct limpet_segment *limpet_session_segment(struct limpet_session *session);
/* The name of an allocator by its number (LIMPET_HOOK_OWNER), for people; NULL: there is no such.
 */
const char *limpet_session_owner(const struct limpet_session *session, uint32_t number);
/* Whether the user named functions of an allocator. */
bool limpet_session_has_named(const struct limpet_session *session);
struct limpet_modules *limpet_session_modules(struct limpet_session *session);
/* Reads the list of modules again (tables for new ones are made too). 1: changed, 0, or -errno. */
int limpet_session_refresh_modules(struct limpet_session *session);
/* What modules that came later have of their own. */
const struct limpet_entry_late *limpet_session_late(const struct limpet_session *session);
const struct limpet_session_stats *limpet_session_stats(const struct limpet_session *session);
/* The agent's control page, which reads as zeros in a child that was forked; 0 before enter. */
uint64_t limpet_session_control_page(const struct limpet_session *session);
/* The function behind a hook, 0 if there is none. */
uint64_t limpet_session_original(const struct limpet_session *session, uint32_t hook);
/* What of the memory that is shared with the agent, and of its tables, the target has in its page
 * tables, and so in its RSS. -ESRCH: the agent is not there; -errno: that cannot be read. */
int limpet_session_resident_bytes(struct limpet_session *session, uint64_t *ret_bytes);
/* Whether the agent's image is still mapped in the target (an exec takes it away). */
bool limpet_session_agent_present(const struct limpet_session *session);

#endif
