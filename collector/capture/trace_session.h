/* What captures of either kind do alike: they find the target, announce themselves by the control
 * socket, write a trace, look whether they are to end, and close the trace so that symbols can be
 * appended. One thread. */
#ifndef LIMPET_COLLECTOR_CAPTURE_TRACE_SESSION_H
#define LIMPET_COLLECTOR_CAPTURE_TRACE_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/capture/trace_stream.h"
#include "collector/control/control.h"
#include "collector/record/recorder.h"
#include "common/err.h"
#include "injector/proc/target_process.h"

struct limpet_trace_session {
	const struct limpet_target *target; /* the caller's */
	struct limpet_control *control;
	struct limpet_recorder *recorder;   /* NULL: not created, or closed */
	struct limpet_recorder_stats last;  /* once it is closed */
	struct limpet_trace_stream *stream; /* where it goes, if not into a file; else NULL */
	char *path;
	char comm[64];
	int perf_map_fd; /* of the target's map of generated code: it may be gone when that is read;
			    -1: none was found */
	int file_error;  /* the first; 0: none */
	bool stop_asked, disk_is_low;
	/* private */
	enum limpet_control_state state;
	uint64_t duration_ns;
	void (*status)(void *context, struct limpet_control_status *ret);
	void (*mark)(void *context, struct limpet_recorder_tick *ret);
	struct limpet_mark *marks; /* that were set, by time */
	size_t mark_count, mark_capacity;
	void *context;
};

/* `duration_ns`: after which it ends; 0: never. `status` fills in what is known besides the state,
 * the trace and the recorder's figures. `mark`, called only while it captures, records the events
 * so far and fills in a tick whose time is after theirs and not after that of later ones. */
void limpet_trace_session_init(struct limpet_trace_session *session, uint64_t duration_ns,
			       void (*status)(void *context, struct limpet_control_status *ret),
			       void (*mark)(void *context, struct limpet_recorder_tick *ret),
			       void *context);
/* Says what cannot be captured, and opens the socket. -EALREADY: it is captured already. */
int limpet_trace_session_open(struct limpet_trace_session *session,
			      const struct limpet_target *target,
			      struct limpet_err *err) LIMPET_MUST_CHECK;
/* Creates the trace. Fills in those of `options` that say who the target is. `output_fd`: standard
 * output, for a path that names it (common/stream_name.h). */
int limpet_trace_session_create(struct limpet_trace_session *session,
				struct limpet_recorder_options *options, int output_fd,
				bool with_command_line, struct limpet_err *err) LIMPET_MUST_CHECK;
/* Tells waiting clients, too. A stream begins with LIMPET_CONTROL_CAPTURING. */
void limpet_trace_session_set_state(struct limpet_trace_session *session,
				    enum limpet_control_state state);
void limpet_trace_session_tick(struct limpet_trace_session *session,
			       const struct limpet_recorder_tick *tick);
/* Why to end now, at `time_ns` since the start; LIMPET_END_RUNNING: continue. `executed`: another
 * program. */
enum limpet_end limpet_trace_session_poll(const struct limpet_trace_session *session,
					  uint64_t time_ns, bool executed,
					  const volatile sig_atomic_t *interrupted);
/* In words, for LIMPET_END_DISK_FULL (also a disk or a stream that cannot be written) and
 * LIMPET_END_SIZE_LIMIT. */
const char *limpet_trace_session_why_early(const struct limpet_trace_session *session,
					   enum limpet_end end);
/* A later file of this name is better; if there is none, the one that is open is kept. */
void limpet_trace_session_open_perf_map(struct limpet_trace_session *session);
/* How the target ended. *ret_status: as of wait(2), -1: unknown. */
enum limpet_end limpet_trace_session_exit(const struct limpet_trace_session *session,
					  int *ret_status);
/* Why a stream ended before its capture; NULL: it did not, or is none. */
const char *limpet_trace_session_stream_failed(const struct limpet_trace_session *session);
/* Adds to `because` how many events the reader of a stream did not take, if any. */
void limpet_trace_session_report_given_up(const struct limpet_recorder_stats *stats, char *because,
					  size_t room);
/* Writes the last tick and the end, to whose losses those of the tick are added, and closes the
 * file. Returns all losses. */
uint64_t limpet_trace_session_close(struct limpet_trace_session *session,
				    const struct limpet_recorder_tick *last,
				    struct limpet_recorder_end *end);
/* Frees what it holds. A trace that was not closed is removed. */
void limpet_trace_session_done(struct limpet_trace_session *session);

#endif
