/* `limpet pages`: records which stacks of a process touch new pages of memory, from outside. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture_options.h"
#include "cli/capture_signals.h"
#include "cli/capture_words.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/sealing.h"
#include "cli/stream_output.h"
#include "cli/ui.h"
#include "collector/pages/fault_capture.h"
#include "common/units.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet pages [OPTIONS] PID\n"
	"Records which stacks of a process touch new pages of memory, and which of them\n"
	"it gives back, until Ctrl-C, `limpet stop` or its end. It works for any 64-bit\n"
	"program, whatever its allocator: nothing is loaded into it, and it is not\n"
	"stopped. A page counts for the stack that touched it first: after its memory was\n"
	"freed, another function may use it. `limpet attach` tells what is kept.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 failed, 2 usage, 3 refused, 4 captured with losses.\n"
	"More: man limpet-pages\n";

struct pages_options {
	pid_t pid;
	const char *output;
	int output_fd;
	uint64_t duration_ns;
	bool no_seal, with_command_line;
	struct limpet_labels labels;
};

struct pages_command {
	const struct limpet_target *target;
	const struct pages_options *options;
	struct limpet_fault_capture *capture;
	struct limpet_progress *progress;
	struct limpet_progress_sample sample;
};

/* ------------------------------------------------------------------ the capture */

static void print_started(void *context, const char *trace)
{
	struct pages_command *command = context;

	limpet_ui_note("recording the pages of %d to %s", command->options->pid,
		       limpet_stream_output_name(trace));
	limpet_capture_print_end(command->target, command->options->duration_ns);
	if (!limpet_ui_is_quiet())
		command->progress = limpet_progress_new(STDERR_FILENO);
}

static void show_progress(void *context, const struct limpet_capture_progress *progress)
{
	struct pages_command *command = context;

	command->sample = limpet_capture_sample(progress);
	command->sample.of_pages = true;
	if (command->progress)
		limpet_progress_update(command->progress, &command->sample);
}

static void serve(void *context)
{
	limpet_fault_capture_serve(((struct pages_command *)context)->capture);
}

static void seal(struct pages_command *command)
{
	const struct limpet_trace_stream *stream = limpet_fault_capture_stream(command->capture);
	struct limpet_sealing sealing = {.target = command->target,
					 .trace = limpet_fault_capture_trace(command->capture),
					 .is_streamed = stream,
					 .copy = stream ? limpet_trace_stream_copy(stream) : 0,
					 .perf_map_fd =
						 limpet_fault_capture_perf_map(command->capture),
					 .progress = &command->progress,
					 .sample = command->sample,
					 .serve = serve,
					 .context = command};

	sealing.count = limpet_fault_capture_sources(command->capture, &sealing.files);
	limpet_sealing_run(&sealing);
}

static void print_losses(const struct limpet_fault_capture_result *result)
{
	if (!result->saw_kernel)
		limpet_ui_warn(
			"the kernel lets only root see faults in system calls, such as read(2): "
			"their pages have no stack");
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++)
		limpet_capture_warn_loss((enum limpet_loss)i, result->losses, result->because);
}

/* `trace`: NULL if it is gone. */
static void print_end(const struct limpet_fault_capture_result *result, const char *trace)
{
	const char *words = limpet_capture_end_words(result->end, result->stream_failed);
	char events[LIMPET_UNITS_TEXT], size[LIMPET_UNITS_TEXT], time[LIMPET_UNITS_TEXT];

	limpet_units_format_count(events, result->events);
	limpet_units_format_bytes(size, result->file_bytes);
	limpet_units_format_duration(time, result->duration_ns);
	if (words)
		limpet_ui_note("%s", words);
	limpet_ui_note("%s event%s in %s, %s", events, result->events == 1 ? "" : "s", time, size);
	print_losses(result);
	if (!trace)
		return;
	puts(trace);
	fflush(stdout);
	limpet_ui_hint("limpet report %s", trace);
}

static bool is_refusal(int error)
{
	return error == -EALREADY || error == -ENOTSUP;
}

static int capture(const struct pages_options *options, const struct limpet_target *target)
{
	struct pages_command command = {.options = options, .target = target};
	struct limpet_fault_capture_setup setup = {
		.target = target,
		.output = options->output,
		.output_fd = options->output_fd,
		.duration_ns = options->duration_ns,
		.memory_bytes = LIMPET_CAPTURE_AGENT_MEMORY_BYTES * LIMPET_CAPTURE_COLLECTOR_SHARE,
		.labels = options->labels.text,
		.with_command_line = options->with_command_line,
		.interrupted = limpet_capture_interrupted(),
		.wait_mask = limpet_capture_wait_mask(),
		.started = print_started,
		.progress = show_progress,
		.context = &command,
	};
	struct limpet_fault_capture_result result;
	struct limpet_trace_stream *stream;
	struct limpet_err err = {0};
	bool has_trace;
	int error, status;

	limpet_capture_find_owner(&setup.owner_uid, &setup.owner_gid);
	limpet_capture_signals_setup(0);
	error = limpet_fault_capture_run(&setup, &command.capture, &result, &err);
	if (error) {
		limpet_progress_free(command.progress);
		return limpet_ui_fail(&err,
				      is_refusal(error) ? LIMPET_EXIT_REFUSED : LIMPET_EXIT_FAILED);
	}
	limpet_capture_signals_end();
	if (!options->no_seal && !result.stream_failed)
		seal(&command);
	limpet_capture_signals_open();
	stream = limpet_fault_capture_stream(command.capture);
	has_trace = stream ? limpet_stream_output_finish(stream, serve, &command)
			   : limpet_sealing_find_trace(limpet_fault_capture_trace(command.capture));
	limpet_progress_free(command.progress);
	status = result.complete && has_trace ? LIMPET_EXIT_OK : LIMPET_EXIT_INCOMPLETE;
	print_end(&result,
		  has_trace && !stream ? limpet_fault_capture_trace(command.capture) : NULL);
	limpet_fault_capture_finish(command.capture, (enum limpet_exit)status);
	return status;
}

static int run(const struct pages_options *options)
{
	struct limpet_target target;
	int status;

	(void)!limpet_target_open(options->pid, &target, NULL); /* the capture says why not */
	status = capture(options, &target);
	limpet_target_close(&target);
	return status;
}

/* ------------------------------------------------------------------ the command line */

static const struct limpet_option option_list[] = {
	LIMPET_CAPTURE_OPTIONS,
	LIMPET_LINE_FLAG("with-command-line", struct pages_options, with_command_line,
			 LIMPET_CAPTURE_COMMAND_LINE_HELP),
	LIMPET_LINE_FLAG("no-seal", struct pages_options, no_seal, LIMPET_CAPTURE_NO_SEAL_HELP),
	{0},
};

static int parse_option(int option, void *context)
{
	struct pages_options *options = context;

	switch (option) {
	case 'o':
		return limpet_capture_parse_output(optarg, &options->output);
	case 'd':
		return limpet_capture_parse_duration("--duration", optarg, &options->duration_ns);
	case LIMPET_CAPTURE_OPT_LABEL:
		return limpet_capture_parse_label(optarg, &options->labels);
	default:
		return LIMPET_EXIT_OK;
	}
}

static int parse_operands(int count, char **operands, void *context)
{
	struct pages_options *options = context;
	int status = limpet_line_expect_pid("pages", count, operands, &options->pid);

	if (status == LIMPET_EXIT_OK && !options->pid)
		return limpet_ui_usage("pages", "missing PID");
	return status == LIMPET_EXIT_OK
		       ? limpet_stream_output_take("pages", options->output, &options->output_fd)
		       : status;
}

static const struct limpet_line command_line = {
	.name = "pages",
	.takes = LIMPET_TAKES_PROCESS,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_pages(int argc, char **argv)
{
	struct pages_options options = {0};
	int status;

	if (!limpet_line_parse(&command_line, argc, argv, &options, &status))
		return status;
	return run(&options);
}
