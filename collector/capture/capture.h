/* One capture from beginning to end, except sealing: prepare, attach, stream, detach, close the
 * trace.
 *
 * One thread, blocking. Signals: the caller blocks those that it handles, and passes in wait_mask
 * the mask during waits; the handlers set *interrupted. */
#ifndef LIMPET_COLLECTOR_CAPTURE_CAPTURE_H
#define LIMPET_COLLECTOR_CAPTURE_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/capture/leak_search.h"
#include "collector/record/recorder.h"
#include "collector/stream/collector.h"
#include "common/err.h"
#include "injector/preflight/preflight.h"
#include "injector/session/forks.h"
#include "injector/unwind/unwind_set.h"

struct limpet_target;

struct limpet_tracee;
struct limpet_tracer;
struct limpet_capture;
struct limpet_trace_stream;

struct limpet_capture_progress {
	uint64_t elapsed_ns, duration_ns;
	uint64_t events, dropped_events, live_bytes;
	uint64_t lost_stacks; /* events whose stack is unknown */
	bool estimated;       /* `live` is estimated from samples */
	const char *growing;  /* module and offset of the site that grew most, or NULL */
	uint64_t growing_bytes;
	uint64_t unfollowed_bytes; /* resident memory of no followed allocator; 0: too little to
				      report, or not known */
	const char *phase;         /* NULL: capturing */
};

struct limpet_capture_setup {
	const struct limpet_capture_config *config;
	/* The caller closes it, after limpet_capture_finish(). */
	const struct limpet_target *target;
	enum limpet_capture_mode mode;
	struct limpet_tracer *tracer;
	struct limpet_tracee *tracee; /* run: the new program at its entry point; taken over, and
					 ended if the capture does not start */
	struct limpet_preflight *preflight; /* with that config; its plan is taken over */
	uid_t owner_uid;
	gid_t owner_gid;
	const volatile sig_atomic_t *interrupted;
	const sigset_t *wait_mask;
	/* The process is a child of a captured process, with a copy of the agent: -ESRCH if it no
	 * longer is. NULL: no. */
	const struct limpet_fork *forked;
	int lifeline; /* a descriptor; when its other end is closed the capture ends; -1: none */
	/* Reports children, one per call, each after `may_follow` has returned true; NULL: it has
	 * ended in this moment. `detaching`: no more will be reported; their captures end, too, or
	 * continue if `keep`: the target is a child that has ended, and its own children are
	 * captured until the lifeline is closed. NULL: forked children stay silent, and are cleaned
	 * at the end. */
	bool (*may_follow)(void *context);
	void (*follow)(void *context, const struct limpet_fork *fork);
	void (*detaching)(void *context, bool keep);
	limpet_name_variable_fn *name_variable; /* for --leaks; NULL: variables have no names */
	/* All may be NULL. */
	void (*started)(void *context, const char *trace);
	void (*progress)(void *context, const struct limpet_capture_progress *progress);
	void *context;
};

struct limpet_capture_result {
	enum limpet_end end;
	bool complete, unloaded;
	struct limpet_err detach_err; /* why the agent stays, if it does */
	bool jumps_stay; /* it is unloaded except for one page: the program stores addresses in it
			  */
	uint64_t events, dropped_events, duration_ns, file_bytes;
	const char *stream_failed; /* why a stream ended before the capture; NULL: it did not */
	bool leaks_known;          /* --leaks: the search came to an end */
	struct limpet_leak_amounts leaks;
	uint64_t losses; /* all losses, with the words for limpet_loss_words() */
	char because[1024];
	uint64_t slots_unhooked; /* pointers to an allocator that were left alone */
	struct limpet_tables_without_room tables_without_room;
	int64_t attach_stop_us, detach_stop_us;
	unsigned children_cleaned; /* forked during the capture, from which the agent was removed */
	size_t children_left;
	char children[1024]; /* pids of those that keep it, for messages */
	bool mseal;          /* mseal(2) keeps what could not be unloaded, until the program ends */
	struct limpet_forks_stats forks;
	int target_status; /* as of wait(2), for a target that ended; -1: unknown */
};

/* Makes a capture. On success the trace is closed except for symbols, and *ret_capture has what
 * sealing and the final messages need. On failure nothing was changed, or everything is as before,
 * and no trace is left: -EALREADY: already captured; otherwise an error of limpet_session_*, with a
 * message. */
int limpet_capture_run(const struct limpet_capture_setup *setup,
		       struct limpet_capture **ret_capture,
		       struct limpet_capture_result *ret_result,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
const char *limpet_capture_trace(const struct limpet_capture *capture);
/* The stream that it goes to; NULL: it is a file. */
struct limpet_trace_stream *limpet_capture_stream(const struct limpet_capture *capture);
size_t limpet_capture_sources(const struct limpet_capture *capture,
			      const struct limpet_collector_source **ret);
/* When the captures of children that continued have ended: removes what these left, too. */
void limpet_capture_clean_children(struct limpet_capture *capture,
				   struct limpet_capture_result *result);
/* The target's map of the code that it generated, open for reading; -1: none was found. It belongs
 * to the capture. */
int limpet_capture_perf_map(const struct limpet_capture *capture);
/* Tells a waiting `limpet stop` that the capture is finished, and frees it. */
void limpet_capture_finish(struct limpet_capture *capture, enum limpet_exit status);
/* Answers `limpet status` while sealing. */
void limpet_capture_serve(struct limpet_capture *capture);

/* Removes what an unclean end left in a process, or in a forked copy of one: 0, or -errno with a
 * message. */
int limpet_capture_cleanup(struct limpet_tracer *tracer, const struct limpet_target *target,
			   bool forked, struct limpet_err *err);

#endif
