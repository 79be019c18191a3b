/* `limpet explain`: what resident memory is used for, and what would give it back. */
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/explain_process.h"
#include "cli/explain_trace.h"
#include "cli/ui.h"
#include "common/units.h"

static const char help_usage[] =
	"Usage: limpet explain [OPTIONS] PID|FILE\n"
	"Shows what the resident memory of a process is used for, how much of it is free\n"
	"inside the allocators, and what would give it back. Reads from outside: the\n"
	"process is not stopped and nothing in it is changed. Of a trace: what the memory\n"
	"was used for at the end of the capture, and what grew.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 no such process or trace, or no permission, 2 usage.\n"
	"More: man limpet-explain\n";

/* ------------------------------------------------------------------ the command line */

struct explain_options {
	const char *file; /* a trace; NULL: a process */
	struct limpet_explain_process process;
};

static const struct limpet_option option_list[] = {
	LIMPET_LINE_FLAG("objects", struct explain_options, process.objects,
			 "also count what is in the heaps: blocks in use by size, of glibc's by "
			 "contents, too, and V8's objects (node) by class"),
	{"interval", 0, "TIME", "count V8's twice, that far apart (60s): what grew", 'i', NULL},
	LIMPET_LINE_FLAG("json", struct explain_options, process.json,
			 "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct explain_options *options = context;

	(void)option; /* --interval: there is no other */
	if (limpet_units_parse_duration(optarg, &options->process.interval_ns) < 0 ||
	    !options->process.interval_ns)
		return limpet_ui_usage("explain", "--interval needs a time, such as 60s: '%s'",
				       optarg);
	return LIMPET_EXIT_OK;
}

static int parse_operands(int count, char **operands, void *context)
{
	struct explain_options *options = context;
	int status;

	if (options->process.interval_ns && !options->process.objects)
		return limpet_ui_usage("explain", "--interval is for --objects");
	if (count && limpet_line_is_trace(operands[0]))
		return options->process.objects
			       ? limpet_ui_usage("explain",
						 "a census is of a process, not of a trace")
			       : limpet_line_expect_trace("explain", count, operands,
							  &options->file);
	status = limpet_line_expect_pid("explain", count, operands, &options->process.pid);
	if (status == LIMPET_EXIT_OK && !options->process.pid)
		return limpet_ui_usage("explain", "missing PID or FILE");
	return status;
}

static const struct limpet_line command = {
	.name = "explain",
	.takes = LIMPET_TAKES_PROCESS | LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_explain(int argc, char **argv)
{
	struct explain_options options = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	return options.file ? limpet_explain_trace(options.file, options.process.json)
			    : limpet_explain_process(&options.process);
}
