#include "cli/capture_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/background.h"
#include "cli/capture_signals.h"
#include "cli/capture_words.h"
#include "cli/follower.h"
#include "cli/followers.h"
#include "cli/progress.h"
#include "cli/sealing.h"
#include "cli/stream_output.h"
#include "cli/ui.h"
#include "cli/variable_names.h"
#include "collector/capture/capture.h"
#include "common/units.h"
#include "injector/preflight/attach_plan.h"
#include "injector/proc/target_process.h"

struct command {
	const struct limpet_capture_options *options;
	enum limpet_capture_mode mode;
	struct limpet_progress *progress;
	struct limpet_progress_sample sample;
	struct limpet_capture *capture;
	struct limpet_followers *followers; /* NULL: children are not captured */
	bool keep;                          /* captures of children outlive this one */
	bool first;                         /* started by the user, not by another limpet */
	const struct limpet_target *target;
	const char *name;
	const char *outside; /* why all threads are stopped for the hooks; NULL: they are not */
};

static void print_started(void *context, const char *trace)
{
	struct command *command = context;

	limpet_background_ready(trace);
	if (command->followers)
		limpet_followers_set_trace(command->followers, trace);
	if (command->mode == LIMPET_MODE_RUN)
		return; /* the terminal belongs to the command */
	limpet_ui_note("capturing %s (%d) to %s", command->name, command->target->pid,
		       limpet_stream_output_name(trace));
	if (command->outside)
		limpet_ui_note(LIMPET_PLAN_OUTSIDE, command->outside);
	limpet_capture_print_end(command->target, command->options->config.duration_ns);
	if (command->followers && command->first)
		limpet_followers_print_earlier(command->target);
	if (!limpet_ui_is_quiet())
		command->progress = limpet_progress_new(STDERR_FILENO);
}

static void show_progress(void *context, const struct limpet_capture_progress *progress)
{
	struct command *command = context;

	if (command->followers)
		limpet_followers_reap(command->followers);
	command->sample = limpet_capture_sample(progress);
	if (command->progress)
		limpet_progress_update(command->progress, &command->sample);
}

static bool may_follow(void *context)
{
	return limpet_followers_reserve(((struct command *)context)->followers);
}

static void follow(void *context, const struct limpet_fork *fork)
{
	limpet_followers_start(((struct command *)context)->followers, fork);
}

static void let_followers_go(void *context, bool keep)
{
	struct command *command = context;

	command->keep = keep;
	if (!keep)
		limpet_followers_stop(command->followers);
}

static void serve(void *context)
{
	limpet_capture_serve(((struct command *)context)->capture);
}

static void seal(struct command *command)
{
	const struct limpet_trace_stream *stream = limpet_capture_stream(command->capture);
	struct limpet_sealing sealing = {.target = command->target,
					 .trace = limpet_capture_trace(command->capture),
					 .is_streamed = stream,
					 .copy = stream ? limpet_trace_stream_copy(stream) : 0,
					 .perf_map_fd = limpet_capture_perf_map(command->capture),
					 .progress = &command->progress,
					 .sample = command->sample,
					 .serve = serve,
					 .context = command};

	sealing.count = limpet_capture_sources(command->capture, &sealing.files);
	limpet_sealing_run(&sealing);
}

static int exit_status(const struct limpet_capture_result *result, bool stays_in_child,
		       bool has_trace)
{
	if (!result->unloaded || result->jumps_stay || result->children_left || stays_in_child)
		return LIMPET_EXIT_DORMANT;
	return result->complete && has_trace ? LIMPET_EXIT_OK : LIMPET_EXIT_INCOMPLETE;
}

/* Of a capture that did not begin. */
static int failed_status(int error)
{
	if (error == -EUCLEAN)
		return LIMPET_EXIT_DORMANT;
	return error == -EALREADY || error == -ECANCELED ? LIMPET_EXIT_REFUSED : LIMPET_EXIT_FAILED;
}

void limpet_capture_warn_agent(const struct limpet_target *target)
{
	limpet_ui_warn("the agent stays in process %d, switched off; `limpet stop %d` tries again",
		       target->pid, target->pid);
}

void limpet_capture_warn_jumps(const struct limpet_target *target)
{
	limpet_ui_warn("process %d stores addresses of the agent where limpet cannot restore them, "
		       "or has memory that only it may read: a page of plain jumps to its own "
		       "functions stays there",
		       target->pid);
}

static void warn_dropped(const struct limpet_capture_result *result)
{
	const bool broken = result->losses & LIMPET_LOSS_BIT(LIMPET_LOSS_BROKEN);

	if (result->dropped_events)
		limpet_ui_warn("%lu event%s dropped%s", (unsigned long)result->dropped_events,
			       result->dropped_events == 1 ? " was" : "s were",
			       broken ? "" : ": the collector could not keep up");
}

/* Losses that have a separate warning with their count are not repeated. */
static void warn_loss(const struct limpet_capture_result *result, enum limpet_loss loss)
{
	if ((loss == LIMPET_LOSS_DROPPED && result->dropped_events) ||
	    (loss == LIMPET_LOSS_SLOTS && result->slots_unhooked))
		return;
	limpet_capture_warn_loss(loss, result->losses, result->because);
}

static void warn_about_stacks(const struct limpet_capture_result *result)
{
	const struct limpet_tables_without_room *tables = &result->tables_without_room;
	const unsigned more = tables->count - 1;
	char others[32] = "";

	if (!tables->count)
		return;
	if (more)
		snprintf(others, sizeof(others), " (and %u more)", more);
	limpet_ui_warn("there was no room for the unwind table of %s%s: stacks are cut short where "
		       "they pass through it",
		       tables->first, others);
	limpet_ui_hint("a larger --memory makes room");
}

static void print_leaks(const struct limpet_capture_result *result)
{
	const struct limpet_leak_amount lost = limpet_leak_amounts_lost(&result->leaks);
	const bool was_searched = result->end == LIMPET_END_DURATION ||
				  result->end == LIMPET_END_INTERRUPT ||
				  result->end == LIMPET_END_STOP;
	char bytes[LIMPET_UNITS_TEXT], blocks[LIMPET_UNITS_TEXT];

	if (result->leaks_known)
		limpet_ui_note("lost: %s in %s block%s",
			       limpet_units_format_bytes(bytes, lost.bytes),
			       limpet_units_format_count(blocks, lost.blocks),
			       lost.blocks == 1 ? "" : "s");
	else
		limpet_ui_warn("lost blocks are not known: %s",
			       was_searched ? "the heap could not be read"
					    : "the program ended before the search");
}

/* `trace`: NULL if it is gone, or was a stream. */
static void print_end(const struct command *command, const struct limpet_capture_result *result,
		      const char *trace)
{
	const char *words = limpet_capture_end_words(result->end, result->stream_failed);
	char events[LIMPET_UNITS_TEXT], size[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT];
	char stops[LIMPET_CAPTURE_STOPS];

	limpet_units_format_count(events, result->events);
	limpet_units_format_bytes(size, result->file_bytes);
	limpet_units_format_duration(time, result->duration_ns);
	if (words)
		limpet_ui_note("%s", words);
	if (result->end == LIMPET_END_TARGET_EXEC && command->mode == LIMPET_MODE_RUN)
		limpet_ui_note("start that one itself to capture it");
	else if (result->end == LIMPET_END_TARGET_EXEC)
		limpet_ui_note("`limpet attach %d` captures that one", command->target->pid);
	if (command->outside && command->mode == LIMPET_MODE_RUN)
		limpet_ui_note(LIMPET_PLAN_OUTSIDE, command->outside);
	limpet_ui_note(
		"%s event%s in %s, %s; stops: %s", events, result->events == 1 ? "" : "s", time,
		size,
		limpet_capture_stop_words(stops, result->attach_stop_us, result->detach_stop_us));
	if (!result->events && !result->dropped_events && result->end != LIMPET_END_TARGET_EXIT)
		limpet_ui_note("no call was seen: the program was idle, used memory that it had, "
			       "or has an allocator that limpet does not follow");
	warn_dropped(result);
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++)
		warn_loss(result, (enum limpet_loss)i);
	warn_about_stacks(result);
	if (result->slots_unhooked)
		limpet_ui_warn(
			"%lu place%s an allocator could not be hooked: calls there were not seen",
			(unsigned long)result->slots_unhooked,
			result->slots_unhooked == 1 ? " that calls" : "s that call");
	if (!result->unloaded) {
		limpet_ui_error(&result->detach_err);
		if (!result->mseal)
			limpet_capture_warn_agent(command->target);
	}
	if (command->options->config.leaks)
		print_leaks(result);
	if (result->jumps_stay)
		limpet_capture_warn_jumps(command->target);
	if (result->children_left)
		limpet_ui_warn("the agent stays, switched off, in children of process %d: %s; "
			       "`limpet stop PID` removes it from one",
			       command->target->pid, result->children);
	if (!trace)
		return;
	if (command->mode == LIMPET_MODE_ATTACH) {
		puts(trace);
		fflush(stdout);
	} else {
		limpet_ui_note("trace: %s", trace);
	}
	limpet_ui_hint("limpet report %s", trace);
}

void limpet_capture_warn(const struct limpet_preflight *preflight)
{
	for (size_t i = 0; i < preflight->count; i++)
		if (preflight->list[i].severity == LIMPET_FINDING_WARNING)
			limpet_ui_warn("%s", preflight->list[i].text);
}

static struct limpet_capture_setup setup_of(struct command *command, struct limpet_tracer *tracer,
					    struct limpet_tracee *tracee,
					    struct limpet_preflight *preflight)
{
	const struct limpet_capture_options *options = command->options;
	struct limpet_capture_setup setup = {
		.target = command->target,
		.mode = command->mode,
		.tracer = tracer,
		.tracee = tracee,
		.config = &options->config,
		.preflight = preflight,
		.interrupted = limpet_capture_interrupted(),
		.wait_mask = limpet_capture_wait_mask(),
		.started = print_started,
		.progress = show_progress,
		.name_variable = limpet_variable_name,
		.context = command,
		.lifeline = -1,
	};

	limpet_capture_find_owner(&setup.owner_uid, &setup.owner_gid);
	if (options->config.forked) {
		setup.forked = &options->forked;
		setup.lifeline = limpet_follower_lifeline();
	}
	return setup;
}

int limpet_capture_command(const struct limpet_capture_options *options,
			   const struct limpet_target *target, enum limpet_capture_mode mode,
			   struct limpet_tracer *tracer, struct limpet_tracee *tracee,
			   struct limpet_preflight *preflight)
{
	char name[sizeof(preflight->name)];
	struct command command = {.options = options,
				  .mode = mode,
				  .target = target,
				  .name = name,
				  .first = !options->config.forked};
	struct limpet_capture_setup setup;
	struct limpet_capture_result result;
	struct limpet_err err = {0};
	struct limpet_trace_stream *stream;
	const char *trace;
	bool stays = false, has_trace;
	int error, status;

	if (preflight->plan && preflight->plan->hooks.method == LIMPET_METHOD_OUTSIDE)
		command.outside = preflight->plan->hooks.reason;
	memcpy(name, preflight->name, sizeof(name));
	limpet_ui_clean(name);
	setup = setup_of(&command, tracer, tracee, preflight);
	if (options->follow_fork) {
		command.followers = limpet_followers_new(options, target);
		if (!command.followers)
			limpet_ui_warn("children are not followed: %s", strerror(errno));
	}
	if (command.followers) {
		setup.may_follow = may_follow;
		setup.follow = follow;
		setup.detaching = let_followers_go;
	}
	error = limpet_capture_run(&setup, &command.capture, &result, &err);
	if (error) {
		limpet_progress_free(command.progress);
		limpet_followers_free(command.followers);
		return limpet_ui_fail(&err, failed_status(error));
	}
	limpet_capture_signals_end();
	if (!options->no_seal && !result.stream_failed)
		seal(&command);
	limpet_capture_signals_open();
	if (command.followers)
		stays = limpet_followers_wait(command.followers, command.keep ? setup.lifeline : -1,
					      limpet_capture_impatient(), serve, &command);
	if (command.keep)
		limpet_capture_clean_children(command.capture, &result);
	stream = limpet_capture_stream(command.capture);
	trace = limpet_capture_trace(command.capture);
	has_trace = stream ? limpet_stream_output_finish(stream, serve, &command)
			   : limpet_sealing_find_trace(trace);
	limpet_progress_free(command.progress);
	status = exit_status(&result, stays, has_trace);
	print_end(&command, &result, has_trace && !stream ? trace : NULL);
	if (command.followers)
		limpet_followers_print(command.followers, &result.forks);
	limpet_followers_free(command.followers);
	limpet_capture_finish(command.capture, (enum limpet_exit)status);
	return status;
}
