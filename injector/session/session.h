/* One agent in one target: attach, rescan, detach.
 *
 * Every step is undone if a later one fails. Between the calls the target is not traced. All calls
 * come from the tracer's thread (tracer.h). */
#ifndef LIMPET_INJECTOR_SESSION_SESSION_H
#define LIMPET_INJECTOR_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/elf/entry_late.h"
#include "injector/elf/modules.h"
#include "injector/hook/hook_pointers.h"
#include "injector/preflight/capture_config.h"
#include "injector/proc/target_process.h"
#include "injector/remote/quiesce.h"
#include "injector/remote/segment.h"

struct limpet_attach_plan;
struct limpet_session;
struct limpet_tracer;
struct limpet_tracee;

struct limpet_session_stats {
	uint64_t attach_stop_ns, detach_stop_ns; /* longest time from leaving the program's code to
						    being back in it */
	unsigned attach_attempts;
	bool mseal; /* mseal(2) keeps the agent's memory in the target */
	uint32_t slots_patched, slots_unhooked;
	struct limpet_tables_without_room tables_without_room;
	unsigned entries_refused; /* functions of allocators that are not followed */
	bool thread_heaps; /* blocks released with their thread's heap are not seen to be released
			    */
	struct limpet_quiesce_stats quiesce;
	struct limpet_hook_pointers_stats hook_pointers;
};

/* Takes the target lock (target_lock.h); attach or free releases it. Removes what an earlier limpet
 * left, as cleanup does, and makes the shared memory. `plan` of preflight, made with the same
 * config, is taken over in any case; a new one is made if it is NULL or out of date. The target
 * runs on, untouched. `tracer` and `target` belong to the caller, and must outlive the session.
 * -EALREADY: another limpet captures the target, or is changing it. */
int limpet_session_prepare(struct limpet_tracer *tracer, const struct limpet_target *target,
			   const struct limpet_capture_config *config,
			   struct limpet_attach_plan *plan, struct limpet_session **ret,
			   struct limpet_err *err) LIMPET_MUST_CHECK;
/* Loads the agent and switches it on. `tracee`: a thread that is stopped at a safe point already,
 * or NULL to find one; it is taken over and released in any case. On failure the target is as
 * before; if a tracee was given, its process, a command that we started, is ended instead.
 * -ECANCELED: the program cannot be captured, and nothing was made in it. -EUCLEAN: the agent could
 * not be removed again, and stays, switched off. */
int limpet_session_attach(struct limpet_session *session, struct limpet_tracee *tracee,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
/* Makes the agent look for modules that were loaded without a call that it could see. Returns the
 * number of slots patched, or -errno. */
int limpet_session_rescan(struct limpet_session *session, struct limpet_err *err);
/* Whether glibc's malloc is the only allocator that is followed, of those present when the capture
 * began. */
bool limpet_session_follows_glibc_alone(struct limpet_session *session);
/* Whether inline hooks are installed in functions of this module. Has the signature that
 * limpet_memory_owners_name() wants. */
bool limpet_session_has_entries(void *session, const struct limpet_module *module);
/* `idle` is called while limpet waits for threads; it may drain the agent's buffers. */
void limpet_session_set_idle(struct limpet_session *session, void (*idle)(void *context),
			     void *context);
/* Restores slots and hook pointers, proves quiescence, unloads the agent; under the target lock, or
 * without it if somebody else has held it for six seconds. Returns 0, also if the thunks stay
 * (stats.hook_pointers.elsewhere); -EBUSY: the agent stays, switched off (dormant); -ESRCH: the
 * target is gone. After a failure it goes on with what is left to do, until the deadline. */
int limpet_session_detach(struct limpet_session *session, struct limpet_err *err);
/* For an agent that stays although nobody will read its events: switches it off by its control
 * page, and tells it that the collector has died, so that no thread of the target waits for room.
 * limpet_session_detach() does this itself when it fails. */
void limpet_session_abandon(struct limpet_session *session);
void limpet_session_free(struct limpet_session *session);

/* Under the target lock: switches off, proves unused and unloads the agents that an earlier limpet
 * left behind. Returns how many were removed, or -errno (-EBUSY: one could not be removed;
 * -EALREADY: its collector lives). `abandoned`: it is known that nobody collects from this process
 * (a forked child). */
int limpet_session_cleanup(struct limpet_tracer *tracer, const struct limpet_target *target,
			   uint64_t timeout_ns, bool abandoned, struct limpet_err *err);

const struct limpet_target *limpet_session_target(const struct limpet_session *session);
struct limpet_segment *limpet_session_segment(struct limpet_session *session);
/* The name of an allocator by its number (LIMPET_HOOK_OWNER), for messages; NULL: unknown number.
 */
const char *limpet_session_owner(const struct limpet_session *session, uint32_t number);
/* Whether the user named functions of an allocator. */
bool limpet_session_has_named(const struct limpet_session *session);
struct limpet_modules *limpet_session_modules(struct limpet_session *session);
/* Reads the list of modules again, and makes tables for new ones. 1: changed, 0: unchanged, or
 * -errno. */
int limpet_session_refresh_modules(struct limpet_session *session);
/* Whether the program has loaded modules that could not be looked at, since it may no longer be
 * traced. */
bool limpet_session_has_unread_modules(const struct limpet_session *session);
/* Allocators that modules loaded later have linked in. */
const struct limpet_entry_late *limpet_session_late(const struct limpet_session *session);
const struct limpet_session_stats *limpet_session_stats(const struct limpet_session *session);
/* The agent's control page, which reads as zeros in a forked child; 0 before attach. */
uint64_t limpet_session_control_page(const struct limpet_session *session);
/* The original function of a hook, 0 if there is none. */
uint64_t limpet_session_original(const struct limpet_session *session, uint32_t hook);
/* How many bytes of the agent's memory are in the target's page tables, and so count as its RSS;
 * and how many of these as pages of files or as shared. -ESRCH: the agent is not there; -errno:
 * this cannot be read. */
int limpet_session_resident_bytes(struct limpet_session *session, uint64_t *ret_bytes,
				  uint64_t *ret_file_bytes);
/* Whether the agent's image is still mapped in the target (execve unmaps it). */
bool limpet_session_agent_present(const struct limpet_session *session);

#endif
