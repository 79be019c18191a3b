/* `limpet leaks`: what of a live process's heap nothing points to any more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/leaks_print.h"
#include "cli/ui.h"
#include "common/units.h"
#include "explain/reach/leaks.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet leaks [OPTIONS] PID\n"
	"Shows which blocks of a process's heap are lost: nothing points to them any\n"
	"more. Reads all memory from outside, then stops the process once, for a moment,\n"
	"to make sure. Nothing in it is changed.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 failed, 2 usage, 3 refused, 6 --fail-on holds.\n"
	"More: man limpet-leaks\n";

struct leaks_options {
	pid_t pid;
	uint64_t most_stop_ns;
	const char *suppressions;
	bool json, fail_on_lost;
};

static int print(const struct leaks_options *options, struct limpet_leaks_shown *shown)
{
	const int status = options->fail_on_lost && limpet_leaks_lost(shown).blocks
				   ? (int)LIMPET_EXIT_FAIL_ON
				   : (int)LIMPET_EXIT_OK;

	return options->json ? limpet_leaks_print_json(shown, status)
			     : limpet_leaks_print_text(shown, status);
}

static int show_target(const struct leaks_options *options, const struct limpet_target *target)
{
	const struct limpet_preflight_options wanted = {.stops_only = true};
	LIMPET_FREE struct limpet_preflight *preflight = malloc(sizeof(*preflight));
	struct limpet_leaks_options how = {.most_stop_ns = options->most_stop_ns};
	struct limpet_leaks leaks = {.is_judged = false};
	struct limpet_leaks_shown shown = {
		.leaks = &leaks, .pid = options->pid, .most_stop_ns = options->most_stop_ns};
	struct limpet_err refused = {0}, err = {0};
	int status, error;

	if (!preflight) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	/* What may not be stopped may be read all the same. */
	if (limpet_preflight_run(target, &wanted, preflight, &refused) < 0) {
		how.most_stop_ns = 0;
		shown.why_not_stopped = refused.message;
	}
	limpet_ui_busy("searching memory for pointers...");
	error = limpet_leaks_read(target, &how, &leaks, &err);
	limpet_ui_busy(NULL);
	if (error && how.most_stop_ns)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	if (error)
		return limpet_ui_fail(shown.why_not_stopped ? &refused : &err,
				      shown.why_not_stopped ? (int)limpet_preflight_exit(preflight)
							    : (int)LIMPET_EXIT_FAILED);
	shown.command = preflight->name;
	status = print(options, &shown);
	if (!leaks.is_judged && options->fail_on_lost)
		status = LIMPET_EXIT_FAILED;
	limpet_leaks_done(&leaks);
	return status;
}

static int show(const struct leaks_options *options)
{
	struct limpet_target target;
	int status;

	(void)!limpet_target_open(options->pid, &target, NULL); /* preflight says why not */
	status = show_target(options, &target);
	limpet_target_close(&target);
	return status;
}

static const char *const conditions[] = {"lost", NULL};

static const struct limpet_option option_list[] = {
	{"max-stop", 0, "TIME", "stop the process for no longer (20ms); 0: not at all", 'm', NULL},
	{"fail-on", 0, "lost", "exit status 6 if a block is lost", 'f', conditions},
	LIMPET_LINE_FLAG("json", struct leaks_options, json, "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct leaks_options *options = context;

	if (option == 'm') {
		if (limpet_units_parse_duration(optarg, &options->most_stop_ns) < 0 ||
		    options->most_stop_ns > LIMPET_LEAKS_STOP_MOST_NS)
			return limpet_ui_usage("leaks",
					       "--max-stop needs a time up to 10s, such as 50ms: "
					       "'%s'",
					       optarg);
		return LIMPET_EXIT_OK;
	}
	if (strcmp(optarg, conditions[0]) != 0)
		return limpet_ui_usage("leaks", "--fail-on knows 'lost' alone: '%s'", optarg);
	options->fail_on_lost = true;
	return LIMPET_EXIT_OK;
}

static int parse_operands(int count, char **operands, void *context)
{
	struct leaks_options *options = context;
	int status;

	if (count && limpet_line_is_trace(operands[0]))
		return limpet_ui_usage("leaks", "a trace does not have the memory that is "
						"searched: give a PID");
	status = limpet_line_expect_pid("leaks", count, operands, &options->pid);
	if (status == LIMPET_EXIT_OK && !options->pid)
		return limpet_ui_usage("leaks", "missing PID");
	return status;
}

static const struct limpet_line command_line = {
	.name = "leaks",
	.takes = LIMPET_TAKES_PROCESS,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_leaks(int argc, char **argv)
{
	struct leaks_options options = {.most_stop_ns = LIMPET_LEAKS_STOP_NS};
	int status;

	if (!limpet_line_parse(&command_line, argc, argv, &options, &status))
		return status;
	return show(&options);
}
