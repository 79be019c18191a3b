/* One capture from beginning to end, sealing excepted: prepare, enter, stream, leave, close the
 * trace.
 *
 * One thread, blocking. Signals: the caller blocks those it handles and names, in wait_mask, what
 * is to be open while the capture waits; their handlers set *interrupted. */
#ifndef LIMPET_COLLECTOR_CAPTURE_H
#define LIMPET_COLLECTOR_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/collector.h"
#include "common/err.h"
#include "injector/forks.h"
#include "injector/remote/load.h"
#include "recorder/recorder.h"

struct limpet_entry_list;
struct limpet_tracee;
struct limpet_capture;

struct limpet_capture_progress {
	uint64_t elapsed_ns, duration_ns;
	uint64_t events, dropped_events, live_bytes;
	uint64_t lost_stacks; /* events whose stack is unknown */
	bool estimated;       /* live: by sampling */
	const char *growing;  /* module and offset of the site that grew most, or NULL */
	uint64_t growing_bytes;
	uint64_t unfollowed_bytes; /* resident, of no allocator that is followed; 0: not worth a
				    * word, or not known */
	uint64_t unfollowed_growth_bytes;
	const char *phase; /* NULL: capturing */
};

struct limpet_capture_setup {
	pid_t pid;
	enum limpet_capture_mode mode;
	struct limpet_tracee *tracee; /* run: the new program at its entry point; taken over, and
				       * ended if the capture does not come about */
	const char *output;           /* NULL: the default name */
	uint64_t duration_ns;         /* 0: until stopped */
	uint64_t agent_memory_bytes, collector_memory_bytes;
	struct limpet_sampling sampling;
	uint64_t timeout_ns; /* to enter, and to leave */
	bool wait_for_room;  /* rather than lose events the target waits for the collector; for ten
			      * seconds at most if that shows no life */
	uint64_t max_bytes;  /* of the trace; 0: no bound */
	bool compact;        /* sums of time spans instead of single events */
	bool addresses;      /* of all blocks */
	bool with_command_line;
	double unseen_rss_share;
	const char *allocators;
	const char *runtime; /* of a language with a heap of its own; "": none */
	const struct limpet_entry_list *entry_list; /* functions that the user named, or NULL */
	enum limpet_load load;
	bool assume_seccomp_ok; /* as preflight had it: of filters that come later, too */
	uid_t owner_uid;
	gid_t owner_gid;
	const volatile sig_atomic_t *interrupted;
	const sigset_t *wait_mask;
	/* This is a child of a captured process, with a copy of the agent in it: -ESRCH if it is
	 * not any more. NULL: no. */
	const struct limpet_fork *forked;
	int lifeline; /* a descriptor whose other end's close ends the capture; -1: none */
	/* Children are told of, one at each call, while `may_follow` answers true. `leaving`: none
	 * will be from here on; their captures end too, or go on if `keep`: a child has come to its
	 * end, and its own children are still to be captured until the lifeline is let go. NULL:
	 * what is forked is silent, and cleaned at the end. */
	bool (*may_follow)(void *context);
	void (*follow)(void *context, const struct limpet_fork *fork);
	void (*leaving)(void *context, bool keep);
	/* All may be NULL. */
	void (*started)(void *context, const char *trace);
	void (*progress)(void *context, const struct limpet_capture_progress *progress);
	void *context;
};

struct limpet_capture_result {
	enum limpet_end end;
	bool complete, unloaded;
	struct limpet_err leave_err; /* why the agent stays, if it does */
	bool jumps_stay; /* it is unloaded, but for a page: the program keeps addresses in it */
	uint64_t events, dropped_events, duration_ns, file_bytes;
	uint64_t losses; /* all there are, and what limpet_loss_words() takes with them */
	char because[1024];
	uint64_t slots_not_taken; /* places that call an allocator, and were left alone */
	int64_t attach_stop_us, detach_stop_us;
	unsigned children_cleaned; /* forked during the capture, and freed of the agent */
	size_t children_left;
	char children[1024]; /* pids of those that keep it, for people */
	bool sealed;         /* what is not unloaded stays, by mseal(2), until the program ends */
	pid_t table_left;    /* thread that keeps the closed channel among its descriptors; 0 */
	struct limpet_forks_stats forks;
	int target_status; /* as of wait(2), for a target that ended; -1: unknown */
};

/* Captures. On success the trace is closed but for symbols, and *ret_capture holds what sealing and
 * the last words need. On failure nothing was touched, or all is as before, and no trace is left:
 * -EALREADY: captured already; else what limpet_session_* answer, with words. */
int limpet_capture_run(const struct limpet_capture_setup *setup,
		       struct limpet_capture **ret_capture,
		       struct limpet_capture_result *ret_result,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
const char *limpet_capture_trace(const struct limpet_capture *capture);
size_t limpet_capture_sources(const struct limpet_capture *capture,
			      const struct limpet_collector_source **ret);
/* Once the captures of children that were kept have ended: removes what these left, too. */
void limpet_capture_clean_children(struct limpet_capture *capture,
				   struct limpet_capture_result *result);
/* The target's map of the code that it made, open for reading; -1: none was found. The capture's.
 */
int limpet_capture_perf_map(const struct limpet_capture *capture);
/* Lets whoever waits in `limpet stop` go, and frees. */
void limpet_capture_finish(struct limpet_capture *capture, enum limpet_exit status);
/* While sealing: answers `limpet status`. */
void limpet_capture_serve(struct limpet_capture *capture);

/* Removes what an unclean end left in a process, or in a copy of one that was forked: 0, or -errno
 * with words. */
int limpet_capture_cleanup(pid_t pid, bool forked, struct limpet_err *err);

#endif
