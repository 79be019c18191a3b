/* `limpet explain`: what resident memory is used for, and what would give it back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/census_print.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/explain_print.h"
#include "cli/explain_trace.h"
#include "cli/objects_print.h"
#include "cli/ui.h"
#include "common/clock.h"
#include "common/units.h"
#include "explain/census.h"
#include "explain/class_census.h"
#include "explain/explain.h"
#include "explain/runtimes/v8_census.h"
#include "injector/proc/target_process.h"

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
	pid_t pid;
	const char *file; /* a trace; NULL: a process */
	bool json, objects;
	uint64_t interval_ns; /* 0: one look */
};

/* What is counted besides the account. */
struct counts {
	struct limpet_census census;
	struct limpet_class_censuses classes;
	struct limpet_v8_census objects, objects_before;
	struct limpet_objects both; /* the two */
};

static void counts_done(struct counts *counts)
{
	limpet_census_done(&counts->census);
	limpet_class_censuses_done(&counts->classes);
	limpet_v8_census_done(&counts->objects);
	limpet_v8_census_done(&counts->objects_before);
}

static int count_blocks(const struct limpet_target *target,
			const struct limpet_explanation *explanation, struct counts *counts,
			struct limpet_err *err)
{
	int error = limpet_census_read(target, &counts->census, err);

	if (!error)
		error = limpet_class_censuses_read(target, &explanation->class_heaps,
						   explanation->swap_bytes != 0, &counts->classes,
						   err);
	return error;
}

static void wait_for(uint64_t ns)
{
	struct timespec left = limpet_timespec(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static int count_once_or_twice(const struct explain_options *options,
			       const struct limpet_target *target, struct counts *counts,
			       struct limpet_err *err)
{
	if (options->interval_ns) {
		int error = limpet_v8_census_read(target, &counts->objects_before, err);

		/* There is nothing to wait for. */
		if (error || !counts->objects_before.is_known)
			return error ? error : limpet_v8_census_read(target, &counts->objects, err);
		wait_for(options->interval_ns);
	}
	return limpet_v8_census_read(target, &counts->objects, err);
}

static int count_objects(const struct explain_options *options, const struct limpet_target *target,
			 struct counts *counts, struct limpet_err *err)
{
	int error = count_once_or_twice(options, target, counts, err);

	counts->both = (struct limpet_objects){.now = &counts->objects,
					       .before = counts->objects_before.is_known &&
									 counts->objects.is_known
								 ? &counts->objects_before
								 : NULL,
					       .interval_ns = options->interval_ns};
	return error;
}

/* The account first, which is there at once. */
static int show_text(const struct explain_options *options, const struct limpet_target *target,
		     const struct limpet_explained *what, struct counts *counts)
{
	struct limpet_err err = {0};
	int error = 0, status = limpet_explain_print_text(what);

	if (status != LIMPET_EXIT_OK)
		return status;
	if (options->objects) {
		limpet_ui_busy("counting the blocks in use...");
		error = count_blocks(target, what->explanation, counts, &err);
		limpet_ui_busy(NULL);
		if (!error)
			limpet_census_print_text(&counts->census, &counts->classes);
	}
	if (options->objects && !error) {
		limpet_ui_busy(options->interval_ns ? "counting objects, twice..."
						    : "counting objects...");
		error = count_objects(options, target, counts, &err);
		limpet_ui_busy(NULL);
		if (!error)
			limpet_objects_print_text(&counts->both);
	}
	return error < 0 ? limpet_ui_fail(&err, LIMPET_EXIT_FAILED)
			 : limpet_ui_finish(LIMPET_EXIT_OK);
}

static int show_json(const struct explain_options *options, const struct limpet_target *target,
		     struct limpet_explained *what, struct counts *counts)
{
	struct limpet_err err = {0};

	if (options->objects) {
		if (count_blocks(target, what->explanation, counts, &err) < 0)
			return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
		what->census = &counts->census;
		what->classes = &counts->classes;
		if (count_objects(options, target, counts, &err) < 0)
			return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
		what->objects = &counts->both;
	}
	return limpet_explain_print_json(what);
}

static int show(const struct explain_options *options)
{
	struct limpet_explanation explanation;
	struct counts counts = {.classes = {.count = 0}};
	struct limpet_resident_account account = {0};
	struct limpet_parts parts;
	struct limpet_explained what = {.explanation = &explanation, .parts = &parts};
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
	if (limpet_explanation_account(&explanation, &account) < 0) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		status = limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	} else {
		limpet_parts_between(NULL, &account, &parts);
		status = options->json ? show_json(options, &target, &what, &counts)
				       : show_text(options, &target, &what, &counts);
	}
	free(account.rows);
	limpet_target_close(&target);
	counts_done(&counts);
	limpet_explanation_done(&explanation);
	return status;
}

static const struct limpet_option option_list[] = {
	LIMPET_LINE_FLAG("objects", struct explain_options, objects,
			 "also count what is in the heaps: blocks in use by size, of glibc's by "
			 "contents, too, and V8's objects (node) by class"),
	{"interval", 0, "TIME", "count V8's twice, that far apart (60s): what grew", 'i', NULL},
	LIMPET_LINE_FLAG("json", struct explain_options, json, "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct explain_options *options = context;

	(void)option; /* --interval: there is no other */
	if (limpet_units_parse_duration(optarg, &options->interval_ns) < 0 || !options->interval_ns)
		return limpet_ui_usage("explain", "--interval needs a time, such as 60s: '%s'",
				       optarg);
	return LIMPET_EXIT_OK;
}

static int parse_operands(int count, char **operands, void *context)
{
	struct explain_options *options = context;
	int status;

	if (options->interval_ns && !options->objects)
		return limpet_ui_usage("explain", "--interval is for --objects");
	if (count && limpet_line_is_trace(operands[0]))
		return options->objects
			       ? limpet_ui_usage("explain",
						 "a census is of a process, not of a trace")
			       : limpet_line_expect_trace("explain", count, operands,
							  &options->file);
	status = limpet_line_expect_pid("explain", count, operands, &options->pid);
	if (status == LIMPET_EXIT_OK && !options->pid)
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
	return show(&options);
}
