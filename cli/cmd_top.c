/* `limpet top PID|FILE`: a capture on the screen, while it runs or afterwards. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/top_screen.h"
#include "cli/ui.h"
#include "cli/view_options.h"
#include "collector/control/control_client.h"
#include "common/stream_name.h"
#include "common/units.h"

/* An attach that takes longer is stuck. */
#define ATTACH_WAIT_MS 30000
#define ATTACH_STEP_MS 100

static const char help_usage[] =
	"Usage: limpet top [OPTIONS] PID|FILE\n"
	"Shows a capture on the terminal, live: who holds, who grows, who allocates. Of\n"
	"PID the capture that runs now; of FILE a trace, finished or being written.\n"
	"It never attaches, and the capture goes on when it ends. ? shows the keys.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 PID is not being captured, or failed, 2 usage.\n"
	"More: man limpet-top\n";

static const struct limpet_option option_list[] = {
	LIMPET_SORT_OPTION("live (default), growth, allocations, allocated, temporary or peak")
		LIMPET_FILTER_OPTIONS{0},
};

struct top_options {
	const char *what;
	bool sorted;
	struct limpet_cli_view cut;
	struct limpet_top_options top;
};

static int parse_option(int option, void *context)
{
	struct top_options *o = context;

	switch (option) {
	case LIMPET_OPT_SORT:
		o->sorted = true;
		return limpet_cli_parse_sort("top", optarg, &o->top.sort);
	default:
		return limpet_cli_view_option("top", &o->cut, option, optarg);
	}
}

static int parse_operands(int count, char **operands, void *context)
{
	struct top_options *o = context;

	if (!count)
		return limpet_ui_usage("top", "missing PID or FILE");
	if (count > 1)
		return limpet_ui_usage("top",
				       "only one PID or FILE is accepted: unexpected argument '%s'",
				       operands[1]);
	if (o->cut.filter && limpet_filter_has_threads(o->cut.filter))
		return limpet_ui_usage("top", "threads cannot be filtered here: list 5 shows each");
	o->top.filter = o->cut.filter;
	o->what = operands[0];
	return LIMPET_EXIT_OK;
}

static const struct limpet_line command = {
	.name = "top",
	.takes = LIMPET_TAKES_CAPTURE | LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

/* ------------------------------------------------------------------ the capture of a process */

/* Finds its trace; waits for a capture that is attaching. */
static int find_capture(pid_t pid, struct limpet_control_capture *ret_capture,
			struct limpet_err *err)
{
	for (int waited_ms = 0;; waited_ms += ATTACH_STEP_MS) {
		int code = limpet_control_find(pid, ret_capture);

		if (code == -ENOENT)
			return limpet_ui_not_captured(pid, err);
		if (code < 0)
			return limpet_err_set(err, code,
					      "cannot find the capture of process %d: %s", pid,
					      strerror(-code));
		if (ret_capture->state == LIMPET_CONTROL_UNKNOWN) {
			limpet_err_set(err, -EACCES, "the capture of process %d does not answer",
				       pid);
			limpet_err_hint(err, ret_capture->owner == geteuid()
						     ? "limpet status"
						     : "it is another user's: try sudo");
			return -EACCES;
		}
		if (ret_capture->trace[0] && ret_capture->state != LIMPET_CONTROL_ATTACHING)
			return 0;
		if (waited_ms >= ATTACH_WAIT_MS)
			return limpet_err_set(err, -ETIMEDOUT,
					      "the capture of process %d does not begin", pid);
		nanosleep(&(struct timespec){.tv_nsec = ATTACH_STEP_MS * 1000000l}, NULL);
	}
}

/* The trace file exists before its first block: waits for that. */
static int open_source(const char *path, bool is_capture, struct limpet_top_source **ret_source,
		       struct limpet_err *err)
{
	for (int waited_ms = 0;; waited_ms += ATTACH_STEP_MS) {
		int code = limpet_top_source_open(path, ret_source, err);

		if (code != -ENODATA || !is_capture || waited_ms >= ATTACH_WAIT_MS)
			return code;
		nanosleep(&(struct timespec){.tv_nsec = ATTACH_STEP_MS * 1000000l}, NULL);
	}
}

static int show(struct top_options *o, int *ret_status, struct limpet_err *err)
{
	struct limpet_control_capture capture = {0};
	struct limpet_top_source *source;
	const struct limpet_model *model;
	bool is_capture = !limpet_line_is_trace(o->what);
	pid_t pid = 0;
	int code;

	if (is_capture) {
		*ret_status = limpet_line_parse_pid(o->what, &pid);
		if (*ret_status != LIMPET_EXIT_OK)
			return 0;
		code = find_capture(pid, &capture, err);
		if (code < 0)
			return code;
	}
	if (is_capture && limpet_is_stream_name(capture.trace)) {
		limpet_err_set(err, -ENOMSG, "the trace of process %d goes to %s: it is not here",
			       pid, capture.trace);
		limpet_err_hint(err, "limpet top FILE, where it arrives");
		return -ENOMSG;
	}
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		limpet_err_set(err, -ENOTTY, "limpet top needs a terminal");
		limpet_err_hint(err, "limpet report %s", is_capture ? capture.trace : o->what);
		return -ENOTTY;
	}
	code = open_source(is_capture ? capture.trace : o->what, is_capture, &source, err);
	if (code < 0)
		return code;
	model = limpet_top_source_model(source);
	if (!o->sorted)
		o->top.sort =
			model->target->mode == LIMPET_MODE_RUN && !limpet_top_source_is_live(source)
				? LIMPET_REPORT_PEAK
				: LIMPET_REPORT_LIVE;
	else if (o->top.sort == LIMPET_REPORT_PEAK && limpet_top_source_is_live(source))
		o->top.sort = LIMPET_REPORT_LIVE;
	o->top.duration_ns = capture.duration_ns;
	code = limpet_top_screen_run(source, &o->top, err);
	limpet_top_source_free(source);
	return code;
}

int limpet_cmd_top(int argc, char **argv)
{
	struct top_options options = {0};
	struct limpet_err err = {0};
	int status, code = 0;

	if (limpet_line_parse(&command, argc, argv, &options, &status))
		code = show(&options, &status, &err);
	limpet_cli_view_done(&options.cut);
	return code < 0 ? limpet_ui_fail(&err, LIMPET_EXIT_FAILED) : status;
}
