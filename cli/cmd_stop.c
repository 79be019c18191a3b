/* `limpet stop`: ends captures from any terminal, and waits until their traces are complete. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/trace/trace_reader.h"
#include "cli/capture_command.h"
#include "cli/capture_words.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/stream_output.h"
#include "cli/ui.h"
#include "collector/capture/capture.h"
#include "collector/control/control_client.h"
#include "common/stream_name.h"
#include "injector/preflight/dormant.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/tracer.h"

static const char help_usage[] =
	"Usage: limpet stop [OPTIONS] PID...\n"
	"       limpet stop [OPTIONS] --all\n"
	"Ends the capture of a process safely, waits until the trace is whole, and prints\n"
	"the trace's path. Ctrl-C ends the waiting only: the capture still stops.\n"
	"An agent that a killed limpet left in a process is removed.\n";
static const char help_end[] =
	"Exit status: that of the capture (0 done, 4 with losses, 5 agent stays dormant),\n"
	"1 not captured or failed, 2 usage. More: man limpet-stop\n";

struct stop {
	struct limpet_target target;
	struct limpet_control_stop *capture; /* NULL: nothing to wait for */
	bool dormant;                        /* it was found by its dormant agent */
	enum limpet_control_state shown;
};

struct stops {
	struct limpet_tracer *tracer;
	struct stop *list;
	size_t count;
};

static void show_state(void *context, const struct limpet_control_capture *capture)
{
	struct stop *stop = context;
	struct limpet_err frozen;

	if (capture->state == stop->shown)
		return;
	stop->shown = capture->state;
	if (capture->state == LIMPET_CONTROL_DETACHING &&
	    limpet_dormant_is_frozen(&stop->target, &frozen))
		limpet_ui_note("%s: waiting for the thaw, as long as its --attach-timeout",
			       frozen.message);
	if (capture->state == LIMPET_CONTROL_DETACHING || capture->state == LIMPET_CONTROL_SEALING)
		limpet_ui_note("%s %s (%d)", limpet_control_state_name(capture->state),
			       capture->command, stop->target.pid);
}

static void show_silence(void *context, pid_t collector_pid)
{
	const struct stop *stop = context;

	limpet_ui_warn("limpet (pid %d), which captures process %d, does not answer; still waiting",
		       collector_pid, stop->target.pid);
}

static const struct limpet_control_watcher watcher = {.state = show_state, .silent = show_silence};

static int clean(struct limpet_tracer *tracer, const struct limpet_target *target, bool forked)
{
	const pid_t pid = target->pid;
	struct limpet_err err = {0};
	int result = limpet_capture_cleanup(tracer, target, forked, &err);

	if (result == 0) {
		limpet_ui_note("removed the agent that was left in process %d", pid);
		if (limpet_dormant_probe(target, &err) != LIMPET_LEFT_JUMPS)
			return LIMPET_EXIT_OK;
		limpet_capture_warn_jumps(target);
		return LIMPET_EXIT_DORMANT;
	}
	/* It may have ended meanwhile. */
	if (forked && limpet_dormant_check(target) != 1)
		return LIMPET_EXIT_OK;
	if (!err.message[0])
		limpet_err_set(&err, result,
			       "cannot remove the agent that was left in process %d: %s", pid,
			       strerror(-result));
	return limpet_ui_fail(&err, LIMPET_EXIT_DORMANT);
}

static int clean_relative(struct limpet_tracer *tracer, pid_t pid)
{
	struct limpet_target target;
	int status = LIMPET_EXIT_OK;

	if (limpet_target_open(pid, &target, NULL) == 0)
		status = clean(tracer, &target, true);
	limpet_target_close(&target);
	return status;
}

/* Includes processes forked from it, and the one from which it was forked. */
static int clean_up(struct limpet_tracer *tracer, const struct limpet_target *target)
{
	LIMPET_FREE pid_t *relatives = NULL;
	int count = limpet_dormant_relatives(target, &relatives),
	    worst = clean(tracer, target, false);

	for (int i = 0; i < count; i++) {
		int status = clean_relative(tracer, relatives[i]);

		worst = status > worst ? status : worst;
	}
	return worst;
}

/* Requests the end of one capture, or cleans up what a dead one left. */
static int begin(struct limpet_tracer *tracer, struct stop *stop)
{
	struct limpet_err err;
	int result, left;

	(void)!limpet_target_open(stop->target.pid, &stop->target, NULL); /* it may have ended */
	result = limpet_control_stop_begin(stop->target.pid, &stop->capture, &err);
	if (result == 0)
		return LIMPET_EXIT_OK;
	left = result == -ENOENT ? limpet_dormant_check(&stop->target) : 0;
	if (left == 1)
		return clean_up(tracer, &stop->target);
	/* It was removed together with a relative. */
	if (result == -ENOENT && stop->dormant)
		return LIMPET_EXIT_OK;
	if (result == -ENOENT && stop->target.error == -ESRCH) {
		limpet_err_set(&err, -ESRCH, "there is no process %d", stop->target.pid);
		limpet_err_hint(&err, "`limpet status` lists the captures");
	} else if (left == -EACCES || left == -EPERM) {
		limpet_err_set(&err, left,
			       "process %d is not being captured, and this user may not trace it: "
			       "whether an agent was left there cannot be seen",
			       stop->target.pid);
		limpet_err_hint(&err, "sudo limpet stop %d", stop->target.pid);
	}
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

static void print_kept(const struct limpet_target *target)
{
	const pid_t pid = target->pid;
	struct limpet_err err;

	switch (limpet_dormant_probe(target, &err)) {
	case LIMPET_LEFT_MSEAL:
		limpet_ui_warn("%s", err.message);
		break;
	case LIMPET_LEFT_AGENT:
		if (limpet_dormant_is_frozen(target, &err))
			limpet_ui_note("%s; %s", err.message, err.hint);
		limpet_capture_warn_agent(target);
		break;
	case LIMPET_LEFT_JUMPS:
		limpet_capture_warn_jumps(target);
		break;
	case LIMPET_LEFT_NOTHING:
		limpet_ui_warn("something of limpet's stays, switched off, in process %d or what "
			       "it forked; `limpet status` lists where",
			       pid);
		break;
	}
}

/* How long the process stood, which is of interest also if the capture ran in the background. */
static void print_stops(const struct stop *stop, const char *path)
{
	struct limpet_trace_reader *reader;
	const struct limpet_trace_end *end;
	struct limpet_err err;
	char stops[LIMPET_CAPTURE_STOPS];

	if (limpet_ui_is_quiet() || limpet_trace_reader_open(path, &reader, &err) < 0)
		return;
	end = limpet_trace_reader_end(reader);
	if (end->attach_stop_us >= 0)
		limpet_ui_note(
			"stops of process %d: %s", stop->target.pid,
			limpet_capture_stop_words(stops, end->attach_stop_us, end->detach_stop_us));
	limpet_trace_reader_free(reader);
}

/* That of a limpet collect. */
static bool is_directory(const char *path)
{
	struct stat stat;

	return path[0] && lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode);
}

static int finish(struct stop *stop)
{
	struct limpet_control_result end;
	struct limpet_err err;
	int result;

	if (!stop->capture)
		return LIMPET_EXIT_OK;
	result = limpet_control_stop_wait(stop->capture, &watcher, stop, &end, &err);
	limpet_control_stop_free(stop->capture);
	if (result < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	if (is_directory(end.trace)) {
		limpet_ui_note("what was received is in %s", end.trace);
		end.trace[0] = '\0';
	} else if (limpet_is_stream_name(end.trace)) {
		limpet_ui_note("its trace went to %s", limpet_stream_output_name(end.trace));
		end.trace[0] = '\0';
	}
	if (end.trace[0]) {
		print_stops(stop, end.trace);
		/* A script wants the raw bytes; a terminal must not interpret them. */
		puts(isatty(STDOUT_FILENO) ? limpet_ui_clean(end.trace) : end.trace);
		fflush(stdout);
	}
	if (end.exit_status == LIMPET_EXIT_INCOMPLETE)
		limpet_ui_warn(
			"the trace of process %d is not complete; its report says what is missing",
			stop->target.pid);
	else if (end.exit_status == LIMPET_EXIT_DORMANT)
		print_kept(&stop->target);
	else if (end.exit_status != LIMPET_EXIT_OK)
		limpet_ui_warn("the capture of process %d failed; its own terminal says why",
			       stop->target.pid);
	if (end.trace[0])
		limpet_ui_hint("limpet report %s", end.trace);
	return (int)end.exit_status;
}

/* All captures are asked to end before limpet waits for one: they detach and seal in parallel. */
static int stop_each(struct stops *stops)
{
	int worst = LIMPET_EXIT_OK, error = limpet_tracer_new(&stops->tracer);
	struct limpet_err err;

	if (error) {
		limpet_err_set(&err, error, "cannot trace: %s", strerror(-error));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	for (size_t i = 0; i < stops->count; i++) {
		int status = begin(stops->tracer, &stops->list[i]);

		worst = status > worst ? status : worst;
	}
	for (size_t i = 0; i < stops->count; i++) {
		int status = finish(&stops->list[i]);

		limpet_target_close(&stops->list[i].target);
		worst = status > worst ? status : worst;
	}
	limpet_tracer_free(stops->tracer);
	return limpet_ui_finish(worst);
}

static int find_all(struct stops *ret)
{
	LIMPET_FREE struct limpet_control_capture *captures = NULL;
	LIMPET_FREE pid_t *dormant = NULL;
	int capture_count = limpet_control_list(&captures), dormant_count;

	if (capture_count < 0)
		return capture_count;
	dormant_count = limpet_dormant_find(&dormant);
	if (dormant_count < 0)
		dormant_count = 0;
	ret->list = calloc((size_t)capture_count + (size_t)dormant_count + 1, sizeof(*ret->list));
	if (!ret->list)
		return -ENOMEM;
	/* A limpet collect is no capture. */
	for (int i = 0; i < capture_count; i++)
		if (captures[i].state != LIMPET_CONTROL_RECEIVING)
			ret->list[ret->count++].target.pid = captures[i].pid;
	for (int i = 0; i < dormant_count; i++)
		ret->list[ret->count++] = (struct stop){.target.pid = dormant[i], .dormant = true};
	return 0;
}

static int stop_all(void)
{
	struct stops stops = {0};
	struct limpet_err err;
	int status, result = find_all(&stops);

	if (result < 0) {
		limpet_err_set(&err, result, "cannot list the captures: %s", strerror(-result));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	if (stops.count == 0)
		limpet_ui_note("no captures");
	status = stop_each(&stops);
	free(stops.list);
	return status;
}

static int stop_some(char **pids, int count)
{
	struct stops stops = {.list = calloc((size_t)count, sizeof(*stops.list))};
	int status = stops.list ? LIMPET_EXIT_OK : LIMPET_EXIT_FAILED;

	/* If a part of the command line is wrong, nothing is stopped. */
	for (; status == LIMPET_EXIT_OK && stops.count < (size_t)count; stops.count++)
		status = limpet_line_parse_pid(pids[stops.count],
					       &stops.list[stops.count].target.pid);
	if (status == LIMPET_EXIT_OK)
		status = stop_each(&stops);
	free(stops.list);
	return status;
}

struct stop_options {
	bool all;
	char **pids;
	int count;
};

static const struct limpet_option option_list[] = {
	LIMPET_LINE_FLAG("all", struct stop_options, all,
			 "every capture and dormant agent that you can see"),
	LIMPET_LINE_QUIET("print only the paths"),
	{0},
};

static int parse_operands(int count, char **operands, void *context)
{
	struct stop_options *o = context;
	struct limpet_err err;

	o->pids = operands;
	o->count = count;
	if (o->all && count)
		return limpet_ui_usage("stop", "--all and '%s' cannot be used together",
				       operands[0]);
	if (o->all || count)
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -EINVAL, "stop: missing PID");
	limpet_err_hint(&err, "limpet stop PID; `limpet status` lists the captures");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

static const struct limpet_line command = {
	.name = "stop",
	.takes = LIMPET_TAKES_CAPTURE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_operands = parse_operands,
};

int limpet_cmd_stop(int argc, char **argv)
{
	struct stop_options options = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	return options.all ? stop_all() : stop_some(options.pids, options.count);
}
