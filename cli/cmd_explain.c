/* `limpet explain`: what resident memory is used for, and what would give it back. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "cli/census_print.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/explain_print.h"
#include "cli/explain_trace.h"
#include "cli/ui.h"
#include "explain/census.h"
#include "explain/class_census.h"
#include "explain/explain.h"
#include "injector/proc/target_process.h"

static const char help_text[] =
	"Usage: limpet explain PID|FILE [--census] [--json]\n"
	"Shows what the resident memory of a process is used for, how much of it is free\n"
	"inside the allocators, and what would give it back. Reads from outside: the\n"
	"process is not stopped and nothing in it is changed. Of a trace: what the memory\n"
	"was used for at the end of the capture, and what grew.\n"
	"\n"
	"      --census    also count the blocks in use: in glibc's heap by size and\n"
	"                  contents, in jemalloc's, mimalloc's and tcmalloc's by size\n"
	"  -p, --pid PID   the process, instead of the operand\n"
	"      --json      for programs; unknown is null\n"
	"  -h, --help      this text\n"
	"\n"
	"Exit status: 0 done, 1 no such process or trace, or no permission, 2 usage.\n"
	"More: man limpet-explain\n";

/* ------------------------------------------------------------------ the command line */

struct explain_options {
	pid_t pid;
	const char *file; /* a trace; NULL: a process */
	bool json, census;
};

static int count_blocks(const struct limpet_target *target,
			const struct limpet_explanation *explanation, struct limpet_census *census,
			struct limpet_class_censuses *classes, struct limpet_err *err)
{
	int error = limpet_census_take(target, census, err);

	if (!error)
		error = limpet_class_censuses_take(target, &explanation->class_heaps,
						   explanation->swap_bytes != 0, classes, err);
	return error;
}

/* The account first, which is there at once. */
static int show_text(const struct explain_options *options, const struct limpet_target *target,
		     const struct limpet_explained *what, struct limpet_census *census,
		     struct limpet_class_censuses *classes)
{
	struct limpet_err err = {0};
	int error, status = limpet_explain_print_text(what);

	if (!options->census || status != LIMPET_EXIT_OK)
		return status;
	limpet_ui_busy("counting the blocks in use...");
	error = count_blocks(target, what->explanation, census, classes, &err);
	limpet_ui_busy(NULL);
	if (error < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	limpet_census_print_text(census, classes);
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

static int show_json(const struct explain_options *options, const struct limpet_target *target,
		     struct limpet_explained *what, struct limpet_census *census,
		     struct limpet_class_censuses *classes)
{
	struct limpet_err err = {0};

	if (options->census) {
		if (count_blocks(target, what->explanation, census, classes, &err) < 0)
			return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
		what->census = census;
		what->classes = classes;
	}
	return limpet_explain_print_json(what);
}

static int show(const struct explain_options *options)
{
	struct limpet_explanation explanation;
	struct limpet_census census = {0};
	struct limpet_class_censuses classes = {.count = 0};
	struct limpet_explained what = {.explanation = &explanation};
	struct limpet_target target;
	struct limpet_err err = {0};
	int status;

	if (options->file)
		return limpet_explain_trace(options->file, options->json);
	(void)!limpet_target_open(options->pid, &target, NULL); /* limpet_explain() says why not */
	if (limpet_explain(&target, &explanation, &err) < 0) {
		limpet_target_close(&target);
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	status = options->json ? show_json(options, &target, &what, &census, &classes)
			       : show_text(options, &target, &what, &census, &classes);
	limpet_target_close(&target);
	limpet_census_done(&census);
	limpet_class_censuses_done(&classes);
	limpet_explanation_done(&explanation);
	return status;
}

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	LIMPET_LINE_FLAG("census", struct explain_options, census),
	LIMPET_LINE_FLAG("json", struct explain_options, json),
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int take_option(int option, void *context)
{
	(void)option; /* the only one is -p */
	return limpet_line_parse_pid(optarg, &((struct explain_options *)context)->pid);
}

static int take_operands(int count, char **operands, void *context)
{
	struct explain_options *options = context;
	int status;

	if (count && !options->pid && limpet_line_is_trace(operands[0]))
		return options->census
			       ? limpet_ui_usage("explain",
						 "a census is of a process, not of a trace")
			       : limpet_line_take_trace("explain", count, operands, &options->file);
	status = limpet_line_take_pid("explain", count, operands, &options->pid);
	if (status == LIMPET_EXIT_OK && !options->pid)
		return limpet_ui_usage("explain", "missing PID or FILE");
	return status;
}

static const struct limpet_line command = {
	"explain", help_text, ":hp:", long_options, take_option, take_operands};

int limpet_cmd_explain(int argc, char **argv)
{
	struct explain_options options = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	return show(&options);
}
