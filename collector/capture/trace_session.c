#include "collector/capture/trace_session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/capture/identity.h"
#include "common/array.h"
#include "common/losses.h"
#include "common/stream_name.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_end.h"
#include "injector/proc/target_process.h"

void limpet_trace_session_init(struct limpet_trace_session *session, uint64_t duration_ns,
			       void (*status)(void *context, struct limpet_control_status *ret),
			       void (*mark)(void *context, struct limpet_recorder_tick *ret),
			       void *context)
{
	*session = (struct limpet_trace_session){.perf_map_fd = -1,
						 .state = LIMPET_CONTROL_ATTACHING,
						 .duration_ns = duration_ns,
						 .status = status,
						 .mark = mark,
						 .context = context};
}

/* ---------------------------------------------------------------- for other terminals */

static void answer_status(void *context, struct limpet_control_status *ret)
{
	const struct limpet_trace_session *session = context;
	struct limpet_recorder_stats stats = session->last;

	if (session->recorder)
		limpet_recorder_stats_read(session->recorder, &stats);
	ret->state = session->state;
	ret->command = session->comm;
	ret->trace = session->path;
	ret->duration_ns = session->duration_ns;
	ret->events = stats.events;
	ret->live_bytes = stats.live_bytes;
	session->status(session->context, ret);
}

static void note_stop(void *context)
{
	((struct limpet_trace_session *)context)->stop_asked = true;
}

static void note_error(struct limpet_trace_session *session, int error)
{
	if (error < 0 && !session->file_error)
		session->file_error = error;
}

static int set_mark(void *context, const char *name, uint64_t *ret_time_ns)
{
	struct limpet_trace_session *session = context;
	struct limpet_recorder_tick now;
	int error;

	if (session->state != LIMPET_CONTROL_CAPTURING)
		return -EBUSY;
	session->mark(session->context, &now);
	error = limpet_recorder_add_mark(session->recorder, name, &now);
	if (error == -EINVAL || error == -EEXIST || error == -E2BIG)
		return error;
	note_error(session, error);
	if (error < 0)
		return error;
	*ret_time_ns = now.time_ns;
	/* If out of memory, it is in the trace, but not in the list. */
	if (limpet_reserve(&session->marks, &session->mark_capacity, session->mark_count + 1,
			   sizeof(*session->marks)) == 0) {
		struct limpet_mark *mark = &session->marks[session->mark_count++];

		*mark = (struct limpet_mark){.time_ns = now.time_ns};
		snprintf(mark->name, sizeof(mark->name), "%s", name);
	}
	return 0;
}

static size_t list_marks(void *context, const struct limpet_mark **ret_list)
{
	const struct limpet_trace_session *session = context;

	*ret_list = session->marks;
	return session->mark_count;
}

void limpet_trace_session_set_state(struct limpet_trace_session *session,
				    enum limpet_control_state state)
{
	session->state = state;
	if (session->stream && state == LIMPET_CONTROL_CAPTURING)
		limpet_trace_stream_begin(session->stream);
	limpet_control_announce(session->control);
}

/* ---------------------------------------------------------------- the beginning */

int limpet_trace_session_open(struct limpet_trace_session *session,
			      const struct limpet_target *target, struct limpet_err *err)
{
	static const struct limpet_control_handlers handlers = {
		.status = answer_status, .stop = note_stop, .mark = set_mark, .marks = list_marks};
	struct limpet_proc_status status;
	int error = limpet_proc_status_read(target->pid, &status);

	if (error == -ESRCH)
		return limpet_err_set(err, error, "there is no process %d", target->pid);
	if (error)
		return limpet_proc_explain(target->pid, error, "look at", err);
	if (status.kernel_thread)
		return limpet_err_set(err, -EINVAL, "%d is a thread of the kernel", target->pid);
	if (status.tgid != target->pid)
		return limpet_err_set(err, -EINVAL, "%d is a thread of process %d", target->pid,
				      status.tgid);
	if (limpet_proc_refuse_zombie(target->pid, &status, err))
		return -ESRCH;
	memcpy(session->comm, status.name, sizeof(session->comm));
	error = limpet_target_check(target);
	if (error)
		return limpet_proc_explain(target->pid, error, "look at", err);
	session->target = target;
	error = limpet_control_open(target->pid, &handlers, session, &session->control, err);
	/* -EEXIST also means that the output exists. */
	return error == -EEXIST ? -EALREADY : error;
}

int limpet_trace_session_create(struct limpet_trace_session *session,
				struct limpet_recorder_options *options, int output_fd,
				bool with_command_line, struct limpet_err *err)
{
	const struct limpet_trace_stream_options stream = {
		.name = options->path, .fd = output_fd, .owner = options->owner_uid};
	struct limpet_identity identity;
	int error;

	if (limpet_is_stream_name(options->path)) {
		error = limpet_trace_stream_open(&stream, &session->stream, err);
		if (error)
			return error;
		options->sink = limpet_trace_stream_sink(session->stream);
	}

	options->pid = session->target->pid;
	options->start_ticks = session->target->start_ticks;
	options->comm = session->comm;
	limpet_identity_read(session->target, with_command_line, &identity, options);
	error = limpet_recorder_open(options, &session->recorder, err);
	if (error)
		return error;
	session->path = strdup(limpet_recorder_path(session->recorder));
	return session->path ? 0 : limpet_err_set(err, -ENOMEM, "out of memory");
}

/* ---------------------------------------------------------------- meanwhile */

void limpet_trace_session_tick(struct limpet_trace_session *session,
			       const struct limpet_recorder_tick *tick)
{
	note_error(session, limpet_recorder_tick(session->recorder, tick));
	if (session->stream)
		note_error(session, limpet_trace_stream_error(session->stream));
	session->disk_is_low = limpet_recorder_disk_is_low(session->recorder);
}

enum limpet_end limpet_trace_session_poll(const struct limpet_trace_session *session,
					  uint64_t time_ns, bool executed,
					  const volatile sig_atomic_t *interrupted)
{
	struct pollfd target = {.fd = session->target->pidfd, .events = POLLIN};

	if (poll(&target, 1, 0) > 0)
		return LIMPET_END_TARGET_EXIT;
	if (executed)
		return LIMPET_END_TARGET_EXEC;
	if (session->stop_asked)
		return LIMPET_END_STOP;
	if (interrupted && *interrupted)
		return LIMPET_END_INTERRUPT;
	if (session->file_error)
		return session->file_error == -EFBIG ? LIMPET_END_SIZE_LIMIT : LIMPET_END_DISK_FULL;
	if (session->disk_is_low)
		return LIMPET_END_DISK_FULL;
	if (session->duration_ns && time_ns >= session->duration_ns)
		return LIMPET_END_DURATION;
	return LIMPET_END_RUNNING;
}

const char *limpet_trace_session_why_early(const struct limpet_trace_session *session,
					   enum limpet_end end)
{
	if (session->stream && session->file_error)
		return limpet_trace_stream_words(session->file_error);
	if (end == LIMPET_END_SIZE_LIMIT)
		return "the trace cannot be kept below its size limit";
	switch (session->file_error) {
	case 0:
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return "the disk was full";
	default:
		return "the trace could not be written";
	}
}

const char *limpet_trace_session_stream_failed(const struct limpet_trace_session *session)
{
	const int error = session->stream ? limpet_trace_stream_error(session->stream) : 0;

	return error ? limpet_trace_stream_words(error) : NULL;
}

void limpet_trace_session_open_perf_map(struct limpet_trace_session *session)
{
	int fd = limpet_target_open_perf_map(session->target);

	if (fd < 0)
		return;
	if (session->perf_map_fd >= 0)
		close(session->perf_map_fd);
	session->perf_map_fd = fd;
}

/* ---------------------------------------------------------------- the end */

enum limpet_end limpet_trace_session_exit(const struct limpet_trace_session *session,
					  int *ret_status)
{
	int status = limpet_target_end_status(session->target);

	*ret_status = status;
	return status >= 0 && WIFSIGNALED(status) ? LIMPET_END_TARGET_KILLED
						  : LIMPET_END_TARGET_EXIT;
}

void limpet_trace_session_report_given_up(const struct limpet_recorder_stats *stats, char *because,
					  size_t room)
{
	if (stats->events_given_up)
		limpet_loss_report(because, room,
				   "%llu event%s only in the sums: the reader of the stream was "
				   "too slow",
				   (unsigned long long)stats->events_given_up,
				   stats->events_given_up == 1 ? " is" : "s are");
}

uint64_t limpet_trace_session_close(struct limpet_trace_session *session,
				    const struct limpet_recorder_tick *last,
				    struct limpet_recorder_end *end)
{
	uint64_t losses;

	end->time_ns = last->time_ns;
	end->losses |= last->losses | limpet_loss_if(session->file_error, LIMPET_LOSS_FILE);
	(void)limpet_recorder_finish(session->recorder, last, end);
	losses = limpet_recorder_losses(session->recorder);
	limpet_recorder_stats_read(session->recorder, &session->last);
	/* Closes the file, so that symbols can be appended. */
	limpet_recorder_free(session->recorder);
	session->recorder = NULL;
	return losses;
}

void limpet_trace_session_done(struct limpet_trace_session *session)
{
	if (session->recorder && !session->stream)
		unlink(limpet_recorder_path(session->recorder));
	limpet_recorder_free(session->recorder);
	limpet_trace_stream_free(session->stream);
	limpet_control_free(session->control);
	if (session->perf_map_fd >= 0)
		close(session->perf_map_fd);
	free(session->marks);
	free(session->path);
}
