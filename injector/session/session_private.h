/* What the files of the session share: session.c has its state; session_attach.c attaches,
 * session_detach.c detaches, session_cleanup.c does that for an earlier limpet; session_call.c has
 * what these do by a hijacked thread. */
#ifndef LIMPET_INJECTOR_SESSION_SESSION_PRIVATE_H
#define LIMPET_INJECTOR_SESSION_SESSION_PRIVATE_H

#include "common/wire.h"
#include "injector/hook/inline_hook.h"
#include "injector/hook/plan.h"
#include "injector/preflight/seccomp_watch.h"
#include "injector/remote/hijack.h"
#include "injector/session/session.h"

/* Descriptors that detaching opens at a time, with a margin. They are reserved before anything is
 * touched, so that limpet can detach whatever else opens files meanwhile. */
#define LIMPET_SESSION_SPARE_FDS 16u

/* Enough for the agent's parts, its tables, and an area of each module with inline hooks. */
#define LIMPET_OWN_MAPPINGS 64u

struct limpet_own_memory {
	struct {
		uint64_t start, bytes;
	} list[LIMPET_OWN_MAPPINGS];
	size_t count;
};

struct limpet_session {
	const struct limpet_target *target;
	int lock_fd; /* the target lock: held from the plan until it is carried out; else -1 */
	int spare[LIMPET_SESSION_SPARE_FDS];
	unsigned spare_count;
	uint64_t timeout_ns;
	uint64_t guard;     /* with which the program mangles addresses of functions */
	uint64_t search_ns; /* extra time that the search for hook pointers has left */
	struct limpet_modules modules;
	struct limpet_segment segment;
	struct limpet_entries entries;
	const struct limpet_entry_list *entry_list;
	struct limpet_entry_late late;
	struct limpet_plan plan;
	struct limpet_safepoint *safepoint;
	struct limpet_hijack_room room;
	struct limpet_seccomp_watch filters;
	uint64_t fingerprint, detach_fingerprint;
	uint32_t modules_seen; /* changes that the agent had noticed by then */
	bool unread_modules;   /* the last changes could not be read: no permission any more */
	bool left_behind;      /* by an earlier limpet: its plan is not known */
	/* Of the agent in the target. LIMPET_METHOD_OUTSIDE: any thread may be hijacked. */
	enum limpet_method method;
	bool hidden_counted;   /* stats.entries_refused has what was not seen of the functions */
	bool windows;          /* memory may grow there: limpet_start.windows */
	uint64_t info_address; /* of limpet_agent_info in the target */
	struct limpet_own_memory own; /* the agent's mappings, once they were looked for */
	uint64_t nonce;               /* of the agent that is being attached */
	uint64_t handle;
	uint64_t control_page;
	struct limpet_agent_info info;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS]; /* as the agent got them */
	struct limpet_wait wait;                    /* all of it but the deadline */
	struct limpet_session_stats stats;
};

/* ---------------------------------------------------------------- session.c */

/* Reads the target's modules; changes nothing. limpet_session_free() ends it. */
int limpet_session_open(struct limpet_tracer *tracer, const struct limpet_target *target,
			uint64_t timeout_ns, struct limpet_session **ret,
			struct limpet_err *err) LIMPET_MUST_CHECK;
/* Prepares everything that a hijack needs, while the target runs. -ENOENT: there is nothing to
 * hook, but what an earlier agent left can still be cleaned up. */
int limpet_session_arm(struct limpet_session *session, const struct limpet_capture_config *config,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
int limpet_session_read_modules(struct limpet_session *session,
				struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_session_release_spares(struct limpet_session *session);
/* No thread of the target is stopped after this. */
void limpet_session_release_lock(struct limpet_session *session);

/* ---------------------------------------------------------------- session_call.c */

/* For waits for the target until `deadline`: the collector works meanwhile. */
struct limpet_wait limpet_session_wait(const struct limpet_session *session, uint64_t deadline_ns);
void limpet_session_hijack_setup(struct limpet_session *session, uint64_t deadline_ns,
				 struct limpet_hijack_setup *ret);
void limpet_session_inline_hook_setup(struct limpet_session *session, uint64_t deadline_ns,
				      struct limpet_inline_hook_setup *ret);
void limpet_session_fill_boot(const struct limpet_session *session,
			      const struct limpet_hijack *hijack, struct limpet_boot *boot);
int limpet_session_explain_boot(const struct limpet_session *session,
				const struct limpet_boot *boot, struct limpet_err *err);
/* Waits until processes that now share the target's memory without being threads of it have gone.
 * They cannot be stopped, may execute code that we write or unmap, and usually end soon. */
int limpet_session_wait_for_sharers(struct limpet_session *session, uint64_t deadline_ns,
				    struct limpet_err *err) LIMPET_MUST_CHECK;
/* A call of one entry of the agent. */
struct limpet_session_call {
	uint32_t operation;
	uint64_t function;
	/* Its hook areas are unmapped afterwards, together with the thunks if the program stores no
	 * address of them; NULL: everything stays. */
	const struct limpet_agent_place *place;
	int result; /* what it returned */
};
/* Makes it on a hijacked thread. */
int limpet_session_call(struct limpet_session *session, struct limpet_session_call *call,
			uint64_t deadline_ns, struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_session_note_detach_stop(struct limpet_session *session);

/* ---------------------------------------------------------------- detach */

/* Under the target lock. */
int limpet_session_detach_locked(struct limpet_session *session,
				 struct limpet_err *err) LIMPET_MUST_CHECK;
int limpet_session_cleanup_locked(struct limpet_tracer *tracer, const struct limpet_target *target,
				  uint64_t timeout_ns, bool abandoned, struct limpet_err *err);

#endif
