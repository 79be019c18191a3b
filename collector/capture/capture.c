#include "collector/capture/capture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "collector/capture/leak_search.h"
#include "collector/capture/memory_watch.h"
#include "collector/capture/own_priority.h"
#include "collector/capture/pace.h"
#include "collector/capture/resident_pages.h"
#include "collector/capture/trace_session.h"
#include "common/clock.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/tracee.h"
#include "injector/session/children.h"
#include "injector/session/session.h"

#define STACK_MEMORY_SHARE 2u /* of limpet's own, in addition to it */
#define POPULATE_NS 10000000u
#define TICK_NS 500000000u
#define HOUSEKEEPING_NS 200000000u
#define IDLE_HOUSEKEEPING_NS 1000000000u /* no event has come since the last time */
#define STILL_HOUSEKEEPING_NS 5000000000u
#define CHECK_NS 100000000u
#define SLOTS_NS 1000000000u
#define STILL_SLOTS_NS 5000000000u
#define FORKS_NS 10000000u
#define LAST_FORKS 30u
#define MARK_DRAINS 64u /* at most, before a mark: events may come faster than they are read */
#define RESIDENT_PAGES_NS 5000000000u /* at most, at the end */
#define CLEANUP_TIMEOUT_NS 10000000000u
#define ENDS_SOON_NS 1000000000u

struct limpet_capture {
	const struct limpet_capture_setup *setup;
	struct limpet_session *session;
	struct limpet_trace_session trace;
	struct limpet_collector *collector;
	struct limpet_forks *forks;      /* NULL: children are not followed */
	struct limpet_priority priority; /* with which limpet was started */
	struct limpet_pace pace;
	enum limpet_urgency urgency;
	struct limpet_memory_watch memory;
	struct limpet_leak_search *leak_search; /* at the end, if asked for; NULL: none */
	struct limpet_resident_pages pages;     /* the same */
	uint64_t tick_ns, housekeeping_ns, check_ns, slots_ns, populate_ns;
	uint64_t rss_bytes;              /* at the last tick */
	uint64_t housekeeping_rss_bytes; /* at the last tick before housekeeping */
	uint64_t dropped_events, lost_stacks, agent_most_bytes;
	char growing[256];
};

/* ---------------------------------------------------------------- for other terminals */

static void add_status(void *context, struct limpet_control_status *ret)
{
	const struct limpet_capture *capture = context;

	if (capture->collector && ret->state != LIMPET_CONTROL_ATTACHING)
		ret->elapsed_ns = limpet_collector_time_ns(capture->collector);
	ret->dropped_events = capture->dropped_events;
}

static void show(struct limpet_capture *capture, const char *phase)
{
	const struct limpet_unfollowed unfollowed = limpet_memory_watch_judge(&capture->memory);
	struct limpet_capture_progress progress = {.phase = phase};
	struct limpet_recorder_stats stats;

	if (!capture->setup->progress)
		return;
	limpet_recorder_stats_read(capture->trace.recorder, &stats);
	progress.elapsed_ns = limpet_collector_time_ns(capture->collector);
	progress.duration_ns = capture->setup->config->duration_ns;
	progress.events = stats.events;
	progress.dropped_events = capture->dropped_events;
	progress.lost_stacks = capture->lost_stacks;
	progress.live_bytes = stats.live_bytes;
	progress.estimated = stats.estimated;
	progress.growing_bytes = stats.growing_bytes;
	if (unfollowed.is_large)
		progress.unfollowed_bytes = unfollowed.bytes;
	if (stats.growing_node &&
	    limpet_collector_describe_site(capture->collector, stats.growing_node, capture->growing,
					   sizeof(capture->growing)))
		progress.growing = capture->growing;
	capture->setup->progress(capture->setup->context, &progress);
}

/* ---------------------------------------------------------------- the stream */

static void note_agent(struct limpet_capture *capture, const struct limpet_recorder_tick *now)
{
	if (now->agent_bytes > capture->agent_most_bytes)
		capture->agent_most_bytes = now->agent_bytes;
}

/* Inferred frees that no lost event can explain: calls by an address that the program had stored
 * before the capture. How many more there were is unknown. */
static uint64_t frees_past_us(const struct limpet_recorder_stats *totals,
			      const struct limpet_recorder_tick *last)
{
	return last->dropped_events || last->unseen_calls || totals->estimated ||
			       totals->unmatched_table_full
		       ? 0
		       : totals->inferred_frees;
}

static uint64_t slots_unhooked(const struct limpet_capture *capture)
{
	return limpet_session_stats(capture->session)->slots_unhooked +
	       limpet_collector_slots_unhooked(capture->collector);
}

static uint64_t lost_stacks(const struct limpet_collector *collector)
{
	uint64_t count = 0;

	for (unsigned why = 0; why < LIMPET_LOST_STACKS; why++)
		count += limpet_collector_lost_stacks(collector, why);
	return count;
}

/* All losses known so far, except those that the recorder knows. ret_named: what is wrong with
 * functions that the user named, as text, or "". */
static uint64_t known_losses(const struct limpet_capture *capture,
			     const struct limpet_recorder_tick *now, char *ret_named, size_t room)
{
	const struct limpet_session_stats *stats = limpet_session_stats(capture->session);
	const struct limpet_collector *collector = capture->collector;
	/* With --partial, the user was told the unseen share. */
	const bool in_part = capture->setup->preflight->unseen_rss_share >= 0;
	const uint32_t noted = limpet_collector_noted(collector);
	struct limpet_recorder_stats totals;

	limpet_recorder_stats_read(capture->trace.recorder, &totals);
	limpet_collector_judge_named(collector, ret_named, room);
	return limpet_loss_if(ret_named[0], LIMPET_LOSS_NAMED) |
	       limpet_loss_if((stats->entries_refused && !in_part) ||
				      noted & LIMPET_NOTED_UNFOLLOWED,
			      LIMPET_LOSS_FUNCTIONS) |
	       limpet_loss_if(noted & LIMPET_NOTED_DESTROY, LIMPET_LOSS_HEAPS) |
	       limpet_loss_if(stats->thread_heaps && !in_part, LIMPET_LOSS_THREAD_HEAPS) |
	       limpet_loss_if(limpet_session_late(capture->session)->functions,
			      LIMPET_LOSS_LATE_ALLOCATOR) |
	       limpet_loss_if(limpet_collector_late_modules(collector) ||
				      limpet_session_has_unread_modules(capture->session),
			      LIMPET_LOSS_LATE_MODULES) |
	       limpet_loss_if(frees_past_us(&totals, now), LIMPET_LOSS_STORED) |
	       limpet_loss_if(limpet_collector_late_events(collector), LIMPET_LOSS_LATE_EVENTS) |
	       limpet_loss_if(lost_stacks(collector), LIMPET_LOSS_STACKS) |
	       limpet_loss_if(limpet_collector_is_broken(collector), LIMPET_LOSS_BROKEN) |
	       limpet_loss_if(slots_unhooked(capture), LIMPET_LOSS_SLOTS);
}

static void fill_tick(struct limpet_capture *capture, struct limpet_recorder_tick *ret_now)
{
	char named[256];

	limpet_collector_fill_tick(capture->collector, ret_now);
	ret_now->losses = known_losses(capture, ret_now, named, sizeof(named));
	capture->dropped_events = ret_now->dropped_events;
	capture->lost_stacks = lost_stacks(capture->collector);
	note_agent(capture, ret_now);
	capture->rss_bytes = ret_now->rss_bytes;
}

static void tick(struct limpet_capture *capture)
{
	struct limpet_recorder_tick now;

	fill_tick(capture, &now);
	limpet_trace_session_tick(&capture->trace, &now);
}

static bool is_due(uint64_t *last_ns, uint64_t now_ns, uint64_t every_ns)
{
	if (now_ns - *last_ns < every_ns)
		return false;
	*last_ns = now_ns;
	return true;
}

/* The agent is gone: has the process ended, or executed another program? A process that ends loses
 * its memory some time before its pidfd is readable; after an exec it has memory. */
static enum limpet_end exit_or_exec(const struct limpet_capture *capture)
{
	const int patience_ms = 5000;
	struct pollfd target = {.fd = capture->setup->target->pidfd, .events = POLLIN};
	struct limpet_maps maps = {.count = 0};
	int error = limpet_proc_maps_read(capture->setup->target->pid, &maps);
	/* A process that now has more privileges does not show its memory. */
	bool has_memory = maps.count || error == -EACCES || error == -EPERM;

	limpet_proc_maps_done(&maps);
	poll(&target, 1, has_memory ? 0 : patience_ms);
	return target.revents || !has_memory ? LIMPET_END_TARGET_EXIT : LIMPET_END_TARGET_EXEC;
}

static void set_urgency(struct limpet_capture *capture, enum limpet_urgency urgency)
{
	if (urgency != capture->urgency)
		limpet_own_priority_set(capture->priority, urgency);
	capture->urgency = urgency;
}

/* Threads of an overload that is sampled do not wait for limpet, a stray must be released at once,
 * and a duration must end in time. */
static enum limpet_urgency urgency_now(const struct limpet_capture *capture)
{
	const uint64_t duration_ns = capture->setup->config->duration_ns;

	if (capture->pace.under_load)
		return LIMPET_URGENCY_LOAD;
	if (capture->pace.samples || limpet_tracer_strays(capture->setup->tracer) ||
	    (duration_ns &&
	     limpet_collector_time_ns(capture->collector) + ENDS_SOON_NS >= duration_ns))
		return LIMPET_URGENCY_TIME;
	return LIMPET_URGENCY_NONE;
}

static void follow_children(struct limpet_capture *capture, uint64_t now_ns)
{
	const struct limpet_capture_setup *setup = capture->setup;
	struct limpet_fork fork;

	limpet_forks_scan(capture->forks, now_ns, false);
	while (limpet_forks_is_due(capture->forks, now_ns) && setup->may_follow(setup->context)) {
		/* The child's limpet takes the priority that it begins with for the user's. */
		limpet_priority_restore(capture->priority);
		setup->follow(setup->context,
			      limpet_forks_claim(capture->forks, now_ns, &fork) ? &fork : NULL);
		limpet_own_priority_set(capture->priority, capture->urgency);
	}
}

/* A daemon forks and exits: its child may not have been found yet. */
static void follow_orphans(struct limpet_capture *capture)
{
	const struct timespec pause = {0, FORKS_NS};

	/* Counted, as limpet itself may get no processor for long. */
	limpet_forks_scan(capture->forks, limpet_monotonic_ns(), true);
	for (unsigned i = 0; i < LAST_FORKS && limpet_forks_wait(capture->forks); i++) {
		nanosleep(&pause, NULL);
		follow_children(capture, limpet_monotonic_ns());
	}
}

static bool was_claimed(void *context, pid_t pid)
{
	return limpet_forks_was_claimed(((struct limpet_capture *)context)->forks, pid);
}

/* The other end is closed: the capture that started this one is ending, or gone. */
static bool is_let_off(const struct limpet_capture_setup *setup)
{
	struct pollfd lifeline = {.fd = setup->lifeline};

	return setup->lifeline >= 0 && poll(&lifeline, 1, 0) > 0;
}

/* No events, and, as far as RSS shows, nothing grows unseen by the hooks. */
static bool is_at_rest(const struct limpet_capture *capture)
{
	return capture->pace.state == LIMPET_PACE_NAPPING &&
	       capture->rss_bytes == capture->housekeeping_rss_bytes;
}

static uint64_t housekeeping_time(const struct limpet_capture *capture)
{
	if (capture->pace.events_ns > capture->housekeeping_ns)
		return HOUSEKEEPING_NS;
	return is_at_rest(capture) ? STILL_HOUSEKEEPING_NS : IDLE_HOUSEKEEPING_NS;
}

static void begin_pace(struct limpet_capture *capture)
{
	const struct limpet_capture_setup *setup = capture->setup;

	capture->pace = (struct limpet_pace){
		.agent_memory_bytes = setup->config->agent_memory_bytes,
		.wait_for_room = setup->config->on_overload == LIMPET_OVERLOAD_WAIT,
		.may_nap = !setup->config->sampling.overload_bytes,
		.samples = setup->config->sampling.overload_bytes != 0};
	limpet_pace_begin(&capture->pace, limpet_monotonic_ns());
	limpet_collector_set_patience(capture->collector, capture->pace.patience_ns);
}

/* Call before work that takes long. */
static void interrupt_pace(struct limpet_capture *capture)
{
	set_urgency(capture, LIMPET_URGENCY_LOAD);
	limpet_pace_interrupt(&capture->pace, limpet_monotonic_ns());
	limpet_collector_set_patience(capture->collector, capture->pace.patience_ns);
}

/* LIMPET_END_RUNNING: continue. */
static enum limpet_end check_end(struct limpet_capture *capture)
{
	uint64_t now_ns = limpet_monotonic_ns();
	enum limpet_end end;

	limpet_tracer_release_strays(capture->setup->tracer);
	capture->trace.stop_asked |= is_let_off(capture->setup);
	end = limpet_trace_session_poll(&capture->trace,
					limpet_collector_time_ns(capture->collector), false,
					capture->setup->interrupted);
	if (end != LIMPET_END_RUNNING)
		return end;
	if (is_due(&capture->tick_ns, now_ns, TICK_NS))
		tick(capture);
	if (capture->forks)
		follow_children(capture, now_ns);
	if (is_due(&capture->populate_ns, now_ns, POPULATE_NS))
		limpet_segment_populate_needed(limpet_session_segment(capture->session));
	if (is_due(&capture->housekeeping_ns, now_ns, housekeeping_time(capture))) {
		capture->housekeeping_rss_bytes = capture->rss_bytes;
		limpet_collector_housekeep(capture->collector);
		if (capture->trace.perf_map_fd < 0)
			limpet_trace_session_open_perf_map(&capture->trace);
	}
	/* Nothing else shows that it executed another program. */
	if (is_due(&capture->check_ns, now_ns, CHECK_NS)) {
		if (!limpet_session_agent_present(capture->session))
			return exit_or_exec(capture);
		if (is_due(&capture->slots_ns, now_ns,
			   is_at_rest(capture) ? STILL_SLOTS_NS : SLOTS_NS) &&
		    limpet_collector_needs_rescan(capture->collector)) {
			interrupt_pace(capture);
			limpet_session_rescan(capture->session, NULL);
		}
	}
	return LIMPET_END_RUNNING;
}

static uint64_t wait_time(const struct limpet_capture *capture)
{
	uint64_t time_ns = limpet_collector_time_ns(capture->collector);
	uint64_t wait_ns = capture->pace.wait_ns;

	/* The last drain may have been one during check_end(), while it waited. */
	if (limpet_collector_has_more(capture->collector))
		return 0;
	if (capture->setup->config->duration_ns && capture->setup->config->duration_ns > time_ns &&
	    capture->setup->config->duration_ns - time_ns < wait_ns)
		wait_ns = capture->setup->config->duration_ns - time_ns;
	wait_ns = limpet_tracer_bound_sleep_ns(capture->setup->tracer, wait_ns);
	if (capture->forks && wait_ns > FORKS_NS)
		wait_ns = FORKS_NS;
	return wait_ns;
}

/* Waits until `wait_ns` is over, the agent rings, or a descriptor is ready. */
static void wait_for_work(const struct limpet_capture *capture, struct pollfd *fds, nfds_t count,
			  uint64_t wait_ns)
{
	const uint64_t poll_ns = capture->pace.poll_ns;
	uint64_t end_ns = limpet_monotonic_ns() + wait_ns;
	struct timespec wait = {0, 0};
	sigset_t mask = *capture->setup->wait_mask;
	int ready;

	/* Job control must not stop limpet while there are strays, which may stop at any moment and
	 * must be released. */
	if (limpet_tracer_strays(capture->setup->tracer)) {
		sigaddset(&mask, SIGTSTP);
		sigaddset(&mask, SIGTTIN);
		sigaddset(&mask, SIGTTOU);
	}

	for (;;) {
		wait.tv_nsec = (long)(wait_ns < poll_ns ? wait_ns : poll_ns);
		ready = ppoll(fds, count, &wait, &mask);
		if (limpet_collector_poll(capture->collector) || ready)
			return;
		wait_ns = limpet_monotonic_ns();
		if (wait_ns >= end_ns)
			return;
		wait_ns = end_ns - wait_ns;
	}
}

static int64_t drain(struct limpet_capture *capture)
{
	const bool begun = limpet_tracer_begin_long(capture->setup->tracer);
	int64_t recorded = limpet_collector_drain(capture->collector);

	limpet_tracer_end_long(capture->setup->tracer, begun);
	limpet_recorder_keep_error(&capture->trace.file_error, recorded);
	/* There were events, for which memory was lacking: the pace must not slow down. */
	return recorded == -ENOMEM ? 1 : recorded;
}

/* All that was published before is read with times before the mark's. */
static void begin_mark(void *context, struct limpet_recorder_tick *ret)
{
	struct limpet_capture *capture = context;
	unsigned drains = 0;
	uint64_t time_ns;

	do
		(void)drain(capture);
	while (limpet_collector_has_more(capture->collector) && ++drains < MARK_DRAINS);
	time_ns = limpet_collector_begin_time(capture->collector);
	fill_tick(capture, ret);
	ret->time_ns = time_ns;
}

static void note_drain(struct limpet_capture *capture, int64_t recorded)
{
	const struct limpet_pace_drain drain = {
		.recorded = recorded,
		.has_more = limpet_collector_has_more(capture->collector),
		.called = limpet_collector_was_called(capture->collector),
	};

	limpet_pace_note(&capture->pace, &drain, limpet_monotonic_ns());
	limpet_collector_set_patience(capture->collector, capture->pace.patience_ns);
}

/* The search for lost blocks takes its time, in which the capture goes on. */
static bool is_searching(struct limpet_capture *capture, enum limpet_end end)
{
	if (!capture->setup->config->leaks ||
	    (end != LIMPET_END_DURATION && end != LIMPET_END_INTERRUPT && end != LIMPET_END_STOP))
		return false;
	if (!capture->leak_search &&
	    limpet_leak_search_begin(capture->setup->target, capture->trace.recorder,
				     capture->setup->name_variable, &capture->leak_search) < 0)
		return false;
	return !limpet_leak_search_has_ended(capture->leak_search);
}

static enum limpet_end stream(struct limpet_capture *capture)
{
	struct pollfd fds[] = {{.fd = capture->setup->target->pidfd, .events = POLLIN},
			       {.fd = limpet_control_fd(capture->trace.control), .events = POLLIN},
			       {.fd = capture->setup->lifeline},
			       {.fd = -1, .events = POLLIN}};

	for (;;) {
		enum limpet_end end;

		set_urgency(capture, urgency_now(capture));
		note_drain(capture, drain(capture));
		end = check_end(capture);
		if (end != LIMPET_END_RUNNING && !is_searching(capture, end))
			return end;
		if (capture->leak_search)
			fds[3].fd = limpet_leak_search_fd(capture->leak_search);
		show(capture, capture->leak_search ? "searching for lost blocks" : NULL);
		wait_for_work(capture, fds, LIMPET_COUNT_OF(fds), wait_time(capture));
		if (fds[1].revents)
			limpet_control_dispatch(capture->trace.control);
	}
}

/* ---------------------------------------------------------------- beginning and end */

static void read_before(struct limpet_capture *capture)
{
	struct limpet_memory_watch *memory = &capture->memory;

	memory->target = capture->setup->target;
	memory->runtime = capture->setup->preflight->runtime;
	memory->session = capture->session;
	/* One that was stopped as it started is not to wait, and has little. */
	memory->is_new_program = capture->setup->tracee || capture->setup->forked;
	snprintf(memory->unfollowed, sizeof(memory->unfollowed), "%s",
		 capture->setup->preflight->unfollowed);
	memory->other_allocators = !limpet_session_follows_glibc_alone(capture->session) ||
				   capture->setup->preflight->unseen_rss_share >= 0;
	limpet_memory_watch_begin(memory);
}

static int open_recorder(struct limpet_capture *capture, struct limpet_err *err)
{
	const struct limpet_capture_setup *setup = capture->setup;
	struct limpet_recorder_options options = {
		.path = setup->config->output,
		.owner_uid = setup->owner_uid,
		.owner_gid = setup->owner_gid,
		.memory_bytes = setup->config->collector_memory_bytes,
		.mode = setup->mode,
		.sampling = setup->config->sampling,
		.max_bytes = setup->config->max_bytes,
		.compact = setup->config->compact,
		.addresses = setup->config->addresses,
		.labels = setup->config->labels.text,
		.max_depth = limpet_session_segment(capture->session)->shm->max_depth,
		.unseen_rss_share = setup->preflight->unseen_rss_share,
		.allocators = setup->preflight->allocators,
		.account = &capture->memory.before,
		.objects = &capture->memory.objects_before,
		.unfollowed = capture->memory.unfollowed,
		.other_allocators = capture->memory.other_allocators,
	};

	return limpet_trace_session_create(&capture->trace, &options, setup->config->output_fd,
					   setup->config->with_command_line, err);
}

static int begin(struct limpet_capture *capture, bool *ret_attaching, struct limpet_err *err)
{
	const struct limpet_capture_setup *setup = capture->setup;
	int error = limpet_trace_session_open(&capture->trace, setup->target, err);

	if (error)
		return error;
	if (setup->forked && !limpet_fork_is_silent(setup->forked))
		return limpet_err_set(err, -ESRCH, "process %d ended or executed another program",
				      setup->target->pid);
	error = limpet_session_prepare(setup->tracer, setup->target, setup->config,
				       LIMPET_TAKE(setup->preflight->plan), &capture->session, err);
	if (!error) {
		read_before(capture);
		error = open_recorder(capture, err);
	}
	if (error)
		return error;
	if (limpet_collector_new(capture->session, capture->trace.recorder, &capture->collector) <
		    0 ||
	    (setup->follow && limpet_forks_new(&capture->forks) < 0))
		return limpet_err_set(err, -ENOMEM, "out of memory");
	capture->pages.target = setup->target;
	/* Threads record before this one returns, and may fill the chunks. */
	begin_pace(capture);
	*ret_attaching = true;
	return limpet_session_attach(capture->session, setup->tracee, err);
}

static void capture_free(struct limpet_capture *capture)
{
	limpet_forks_free(capture->forks);
	limpet_collector_free(capture->collector);
	limpet_leak_search_free(capture->leak_search);
	limpet_resident_pages_done(&capture->pages);
	limpet_session_free(capture->session);
	limpet_trace_session_done(&capture->trace);
	limpet_memory_watch_done(&capture->memory);
	free(capture);
}

/* Called while limpet waits for a thread or searches memory: threads may wait for room, and a
 * client for the status. */
static void idle(void *context)
{
	struct limpet_capture *capture = context;

	(void)drain(capture);
	limpet_control_dispatch(capture->trace.control);
}

/* Children that the target forked have a copy of the agent: it is removed, or the child is
 * reported. */
static void clean_children(struct limpet_capture *capture, bool keep,
			   struct limpet_capture_result *result)
{
	const size_t words_bytes = 48; /* for one more pid, and for the number of the others */
	struct limpet_children children;
	size_t used = 0;
	int error;

	error = limpet_children_clean(capture->setup->tracer, capture->setup->target,
				      limpet_monotonic_ns() +
					      capture->setup->config->attach_timeout_ns,
				      keep ? was_claimed : NULL, capture, &children);
	result->children_cleaned += children.cleaned;
	result->children_left = children.left_count + (error < 0);
	for (size_t i = 0; i < children.left_count; i++) {
		char *end = result->children + used;
		size_t room = sizeof(result->children) - used;

		if (room < words_bytes) {
			used += (size_t)snprintf(end, room, " and %zu more",
						 children.left_count - i);
			break;
		}
		used += (size_t)snprintf(end, room, "%s%d", i ? " " : "", children.left[i]);
	}
	if (error)
		snprintf(result->children + used, sizeof(result->children) - used, "%s",
			 error == -ENOMEM ? used ? " and at least one more" : "at least one"
			 : used           ? " and perhaps others"
					  : "perhaps, as not all were found");
	limpet_children_done(&children);
}

void limpet_capture_clean_children(struct limpet_capture *capture,
				   struct limpet_capture_result *result)
{
	clean_children(capture, false, result);
}

static void detach(struct limpet_capture *capture, struct limpet_capture_result *result)
{
	bool gone = result->end == LIMPET_END_TARGET_EXIT || result->end == LIMPET_END_TARGET_EXEC;
	bool keep = gone && capture->forks && capture->setup->lifeline >= 0;
	struct limpet_cgroup group;
	int error;

	/* However long detaching takes. */
	if (!gone)
		limpet_collector_end(capture->collector);
	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_DETACHING);
	interrupt_pace(capture);
	if (capture->forks) {
		if (keep)
			follow_orphans(capture);
		else
			limpet_forks_scan(capture->forks, limpet_monotonic_ns(), true);
		limpet_forks_stats_read(capture->forks, &result->forks);
		capture->setup->detaching(capture->setup->context, keep);
	}
	if (!gone && limpet_cgroup_frozen(capture->setup->target->pid, &group))
		show(capture, "frozen: waiting to detach");
	else
		show(capture, "detaching");
	/* Record what is in the chunks before a detach that may take long. */
	(void)drain(capture);
	result->unloaded = true;
	if (!gone) {
		/* The target's memory with the agent in it, once more: a short capture may have had
		 * no tick since its first. */
		tick(capture);
		limpet_trace_session_open_perf_map(&capture->trace);
		limpet_collector_name_threads(capture->collector);
		error = limpet_session_detach(capture->session, &result->detach_err);
		result->unloaded = !error || error == -ESRCH;
		result->jumps_stay =
			!error && limpet_session_stats(capture->session)->hook_pointers.elsewhere;
		if (error == -ESRCH)
			gone = true;
	}
	clean_children(capture, keep, result);
	if (gone && result->end != LIMPET_END_TARGET_EXEC) {
		enum limpet_end how =
			limpet_trace_session_exit(&capture->trace, &result->target_status);

		if (result->end == LIMPET_END_TARGET_EXIT)
			result->end = how;
	}
}

/* Upper bound of the agent's memory in the program: the shared memory, the tables that were made,
 * the agent's own code, and its private memory for each thread. */
static uint64_t agent_memory_bytes(const struct limpet_capture *capture)
{
	const struct limpet_segment *segment = limpet_session_segment(capture->session);
	uint64_t states = limpet_collector_thread_states(capture->collector);

	return segment->shm_bytes + segment->tables.arena_used +
	       limpet_segment_beside_bytes(segment, states);
}

static void report_lost_stacks(const struct limpet_collector *collector, char *because, size_t room)
{
	const uint64_t count = lost_stacks(collector);
	const bool ours = limpet_collector_lost_stacks(collector, LIMPET_LOST_NO_ROOM);
	const bool agents = limpet_collector_lost_stacks(collector, LIMPET_LOST_BY_AGENT);

	limpet_loss_report(because, room, "the stacks of %llu event%s are unknown%s",
			   (unsigned long long)count, count == 1 ? "" : "s",
			   ours || agents ? ": more fit with more --memory" : "");
}

/* Describes losses without a count: an allocator that is hooked in part, or not; an early end. In
 * the order of limpet_loss_report(). */
static void report_unseen(const struct limpet_capture *capture,
			  const struct limpet_recorder_tick *last, uint64_t losses,
			  const char *named, struct limpet_capture_result *result)
{
	const unsigned refused = limpet_session_stats(capture->session)->entries_refused;
	const uint64_t late_modules = limpet_collector_late_modules(capture->collector);
	const uint64_t late_events = limpet_collector_late_events(capture->collector);
	char *because = result->because;
	const size_t room = sizeof(result->because);
	struct limpet_recorder_stats totals;

	limpet_recorder_stats_read(capture->trace.recorder, &totals);
	if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS) && refused)
		limpet_loss_report(because, room,
				   "%u function%s of its allocator cannot be followed", refused,
				   refused == 1 ? "" : "s");
	else if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS))
		limpet_loss_report(
			because, room,
			"the program called a function of its allocator that limpet does "
			"not follow");
	if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_THREAD_HEAPS))
		limpet_loss_report(because, room,
				   "blocks that a thread's heap holds when the thread ends are not "
				   "seen released");
	if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_LATE_ALLOCATOR))
		limpet_loss_report(because, room,
				   "%s, which was loaded during the capture, has an allocator of "
				   "its own",
				   limpet_session_late(capture->session)->first);
	if (late_modules)
		limpet_loss_report(
			because, room,
			"the first calls of %llu module%s loaded during the capture may have "
			"been missed (dlmopen, or an allocator of its own)",
			(unsigned long long)late_modules, late_modules == 1 ? "" : "s");
	else if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_LATE_MODULES))
		limpet_loss_report(
			because, room,
			"its modules have changed since it may no longer be traced: calls of "
			"an allocator of their own may have been missed");
	if (late_events)
		limpet_loss_report(because, room,
				   "%llu event%s arrived too late to be put in order: a thread was "
				   "held up in the middle of a call, or too many events waited",
				   (unsigned long long)late_events, late_events == 1 ? "" : "s");
	if (result->end == LIMPET_END_DISK_FULL || result->end == LIMPET_END_SIZE_LIMIT)
		limpet_loss_report(because, room, "it ended early: %s",
				   limpet_trace_session_why_early(&capture->trace, result->end));
	if (named[0])
		limpet_loss_report(because, room, "%s", named);
	if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_STORED))
		limpet_loss_report(
			because, room,
			"at least %llu frees were not seen: the program may call free by "
			"an address that it stored before",
			(unsigned long long)frees_past_us(&totals, last));
	if (losses & LIMPET_LOSS_BIT(LIMPET_LOSS_STACKS))
		report_lost_stacks(capture->collector, because, room);
	limpet_trace_session_report_given_up(&totals, because, room);
}

/* Returns whether *ret_resident is known. */
static bool read_resident(struct limpet_capture *capture,
			  const struct limpet_capture_result *result,
			  struct limpet_recorder_resident *ret_resident)
{
	const struct limpet_capture_setup *setup = capture->setup;
	struct pollfd target = {.fd = capture->setup->target->pidfd, .events = POLLIN};

	if (result->end == LIMPET_END_TARGET_EXEC || poll(&target, 1, 0) != 0)
		return false;
	/* Soon after the last event: the program runs on. Samples do not say which pages blocks
	 * share. */
	capture->pages.deadline_ns = limpet_monotonic_ns() + RESIDENT_PAGES_NS;
	if (setup->config->sampling.bytes ||
	    limpet_resident_pages_read(&capture->pages, capture->trace.recorder, ret_resident) < 0)
		ret_resident = NULL;
	limpet_memory_watch_end(&capture->memory);
	return ret_resident;
}

static void close_trace(struct limpet_capture *capture, struct limpet_capture_result *result)
{
	const struct limpet_session_stats *stats = limpet_session_stats(capture->session);
	struct limpet_leak_counts leaks = {.known = false};
	struct limpet_recorder_resident resident;
	struct limpet_recorder_tick last;
	struct limpet_recorder_end end;
	bool resident_known;
	char named[256];
	const bool begun = limpet_tracer_begin_long(capture->setup->tracer);
	const enum limpet_urgency urgency =
		limpet_priority_has_one_processor() ? LIMPET_URGENCY_NONE : LIMPET_URGENCY_LOAD;
	int64_t drained;

	set_urgency(capture, urgency);
	drained = limpet_collector_drain_all(capture->collector);
	set_urgency(capture, LIMPET_URGENCY_NONE);
	resident_known = read_resident(capture, result, &resident);
	set_urgency(capture, urgency);
	limpet_collector_identify_modules(capture->collector);
	limpet_collector_fill_tick(capture->collector, &last);
	limpet_recorder_keep_error(&capture->trace.file_error, drained);
	result->dropped_events = last.dropped_events;
	last.losses = known_losses(capture, &last, named, sizeof(named));
	report_unseen(capture, &last, last.losses, named, result);
	result->slots_unhooked = slots_unhooked(capture);
	result->attach_stop_us = (int64_t)(stats->attach_stop_ns / 1000);
	result->tables_without_room = stats->tables_without_room;
	result->mseal = stats->mseal;
	result->detach_stop_us =
		stats->detach_stop_ns ? (int64_t)(stats->detach_stop_ns / 1000) : -1;
	if (capture->leak_search)
		(void)limpet_leak_search_count(capture->leak_search, capture->trace.recorder,
					       &leaks);
	end = (struct limpet_recorder_end){
		.end = result->end,
		.agent_unloaded = result->unloaded,
		.attach_stop_us = result->attach_stop_us,
		.detach_stop_us = result->detach_stop_us,
		.agent_memory_bytes = agent_memory_bytes(capture),
		.agent_resident_bytes = capture->agent_most_bytes,
		.because = result->because,
		.unfollowed = capture->memory.unfollowed,
		.resident = resident_known ? &resident : NULL,
		.account = &capture->memory.after,
		.objects = &capture->memory.objects,
		.leaks = &leaks,
	};
	result->losses = limpet_trace_session_close(&capture->trace, &last, &end);
	limpet_tracer_end_long(capture->setup->tracer, begun);
	free(leaks.sites);
	result->leaks_known = leaks.known;
	result->leaks = leaks.amounts;
	result->complete = limpet_losses_complete(result->losses);
	result->stream_failed = limpet_trace_session_stream_failed(&capture->trace);
	result->events = capture->trace.last.events;
	result->file_bytes = capture->trace.last.file_bytes;
	result->duration_ns = last.time_ns;
}

int limpet_capture_run(const struct limpet_capture_setup *setup,
		       struct limpet_capture **ret_capture,
		       struct limpet_capture_result *ret_result, struct limpet_err *err)
{
	struct limpet_capture_result result = {.target_status = -1};
	struct limpet_capture *capture = calloc(1, sizeof(*capture));
	bool attaching = false;
	int error;

	if (!capture) {
		limpet_tracee_release(setup->tracee);
		return limpet_err_set(err, -ENOMEM, "out of memory");
	}
	capture->setup = setup;
	limpet_trace_session_init(&capture->trace, setup->config->duration_ns, add_status,
				  begin_mark, capture);
	capture->priority = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	error = begin(capture, &attaching, err);
	limpet_priority_restore(capture->priority);
	if (error) {
		/* A command that limpet started is killed: it has not executed one instruction. */
		if (setup->tracee && !attaching)
			kill(setup->target->pid, SIGKILL);
		if (!attaching)
			limpet_tracee_release(setup->tracee);
		capture_free(capture);
		return error;
	}
	limpet_collector_set_stack_memory(
		capture->collector, setup->config->collector_memory_bytes / STACK_MEMORY_SHARE);
	limpet_collector_begin(capture->collector);
	begin_pace(capture);
	limpet_session_set_idle(capture->session, idle, capture);
	limpet_own_priority_lower(capture->priority);
	capture->urgency = LIMPET_URGENCY_LOAD;
	/* The losses known so far are in the trace even if limpet is killed. */
	tick(capture);
	capture->tick_ns = limpet_monotonic_ns();
	if (capture->forks)
		limpet_forks_begin(capture->forks, capture->setup->target,
				   limpet_session_control_page(capture->session));
	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_CAPTURING);
	capture->populate_ns = limpet_monotonic_ns();
	if (setup->started)
		setup->started(setup->context, capture->trace.path);
	result.end = stream(capture);
	set_urgency(capture, LIMPET_URGENCY_LOAD);
	detach(capture, &result);
	/* What was read has to be written, too, soon. To look at the program's pages may take its
	 * time, and so may sealing the trace. */
	close_trace(capture, &result);
	limpet_priority_set_nice(capture->priority.nice);
	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_SEALING);
	*ret_capture = capture;
	*ret_result = result;
	return 0;
}

const char *limpet_capture_trace(const struct limpet_capture *capture)
{
	return capture->trace.path;
}

struct limpet_trace_stream *limpet_capture_stream(const struct limpet_capture *capture)
{
	return capture->trace.stream;
}

size_t limpet_capture_sources(const struct limpet_capture *capture,
			      const struct limpet_collector_source **ret)
{
	return limpet_collector_sources(capture->collector, ret);
}

int limpet_capture_perf_map(const struct limpet_capture *capture)
{
	return capture->trace.perf_map_fd;
}

void limpet_capture_serve(struct limpet_capture *capture)
{
	limpet_tracer_release_strays(capture->setup->tracer);
	limpet_control_dispatch(capture->trace.control);
}

void limpet_capture_finish(struct limpet_capture *capture, enum limpet_exit status)
{
	limpet_control_finish(capture->trace.control, status);
	capture_free(capture);
}

int limpet_capture_cleanup(struct limpet_tracer *tracer, const struct limpet_target *target,
			   bool forked, struct limpet_err *err)
{
	int error = limpet_session_cleanup(tracer, target, CLEANUP_TIMEOUT_NS, forked, err);

	/* An attach has a time-out that can be chosen. */
	if (error == -EBUSY && !limpet_cgroup_explain_frozen(target, err) &&
	    (!err->hint[0] || strstr(err->hint, "--attach-timeout")))
		limpet_err_hint(err, "try again later: limpet stop %d", target->pid);
	return error < 0 ? error : 0;
}
