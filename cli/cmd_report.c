/* `limpet report FILE`: who holds the memory. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/model/history.h"
#include "analyzer/text/report_json.h"
#include "analyzer/text/report_markdown.h"
#include "analyzer/text/report_text.h"
#include "analyzer/text/view_json.h"
#include "analyzer/text/view_text.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/fail_on.h"
#include "cli/heap_findings.h"
#include "cli/live_names.h"
#include "cli/live_target.h"
#include "cli/pager.h"
#include "cli/ui.h"
#include "cli/view_options.h"

#define SITES_SHOWN 10
/* Steps of a timeline. */
#define PARTS_MAX 100000
/* Of a tree or a table. */
#define LEAST_SHARE 0.01

static const char help_usage[] =
	"Usage: limpet report [OPTIONS] FILE\n"
	"Says who holds the memory: target, losses, totals, and the stacks that allocated\n"
	"most, without library frames.\n";

struct report_options {
	const char *file;
	bool full;
	enum limpet_cli_format format;
	bool sorted, limited;
	enum limpet_report_sort sort;
	size_t limit;
	struct limpet_cli_view cut;
	struct limpet_view_options view;
	struct limpet_fail_on fail_on;
};

enum { OPT_VIEW = LIMPET_OPT_OWN, OPT_FAIL_ON };

static const struct limpet_option option_list[] = {
	{"view", 0, "WORD",
	 "sites (default), bottom-up, top-down, functions, callers=NAME, threads, modules, sizes, "
	 "lifetimes, timeline or pages",
	 OPT_VIEW, limpet_view_words},
	{"limit", 'n', "N", "rows, or branches of a node; default: 10", 'n', NULL},
	LIMPET_SORT_OPTION("live (default), peak (default for run), allocations, allocated, "
			   "temporary or growth")
		LIMPET_WINDOW_OPTIONS("only what happened from then on: 90s, 10m, or a mark")
			LIMPET_FILTER_OPTIONS LIMPET_LINE_FLAG("full", struct report_options, full,
							       "every frame, with parameters"),
	{"fail-on", 0, "CONDITION", "status 6 if it holds: lost, growth>1MiB/h...", OPT_FAIL_ON,
	 NULL},
	LIMPET_FORMAT_OPTION{"json", 0, NULL, "for programs: exact, unfolded", LIMPET_OPT_JSON,
			     NULL},
	{0},
};

static int parse_view(const char *argument, struct limpet_view_options *ret)
{
	static const char callers[] = "callers=";
	int at;

	ret->function = NULL;
	if (!strncmp(argument, callers, sizeof(callers) - 1)) {
		ret->kind = LIMPET_VIEW_CALLERS;
		ret->function = argument + sizeof(callers) - 1;
		return LIMPET_EXIT_OK;
	}
	at = limpet_cli_parse_word("report", "no view", argument, limpet_view_words);

	if (at < 0)
		return LIMPET_EXIT_USAGE;
	ret->kind = (enum limpet_view_kind)at;
	return LIMPET_EXIT_OK;
}

static int parse_option(int option, void *context)
{
	struct report_options *o = context;

	switch (option) {
	case 'n':
		o->limited = true;
		return limpet_cli_parse_number("report", "limit", optarg, &o->limit);
	case LIMPET_OPT_SORT:
		o->sorted = true;
		return limpet_cli_parse_sort("report", optarg, &o->sort);
	case OPT_VIEW:
		return parse_view(optarg, &o->view);
	case OPT_FAIL_ON:
		return limpet_fail_on_parse(optarg, &o->fail_on);
	case LIMPET_OPT_FORMAT:
		return limpet_cli_parse_format("report", optarg, &o->format);
	case LIMPET_OPT_JSON:
		o->format = LIMPET_CLI_JSON;
		return LIMPET_EXIT_OK;
	default:
		return limpet_cli_view_option("report", &o->cut, option, optarg);
	}
}

static int parse_operands(int count, char **operands, void *context)
{
	struct report_options *o = context;
	int status = limpet_line_expect_trace("report", count, operands, &o->file);

	if (status == LIMPET_EXIT_OK)
		status = limpet_cli_view_times("report", &o->cut, o->file);
	if (status != LIMPET_EXIT_OK)
		return status;
	if (o->view.kind == LIMPET_VIEW_CALLERS && (!o->view.function || !*o->view.function))
		return limpet_ui_usage("report", "--view callers needs a function: callers=NAME");
	if (o->fail_on.count && o->view.kind != LIMPET_VIEW_SITES)
		return limpet_ui_usage("report",
				       "--fail-on is for the whole report, not for a view");
	if (o->view.kind == LIMPET_VIEW_TIMELINE && o->limited && o->limit > PARTS_MAX)
		return limpet_ui_usage("report", "a timeline has at most %d parts, not %zu",
				       PARTS_MAX, o->limit);
	if (o->view.kind == LIMPET_VIEW_PAGES && (o->cut.from_given || o->cut.to_given))
		return limpet_ui_usage("report", "pages are known of the capture's end alone: "
						 "they have no --from and --to");
	if (o->view.kind == LIMPET_VIEW_PAGES && o->cut.filter &&
	    limpet_filter_has_threads(o->cut.filter))
		return limpet_ui_usage("report", "pages cannot be filtered by threads");
	if (o->view.kind == LIMPET_VIEW_PAGES && o->cut.born)
		return limpet_ui_usage("report",
				       "pages cannot be filtered by when blocks were allocated");
	return LIMPET_EXIT_OK;
}

static const struct limpet_line command = {
	.name = "report",
	.takes = LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

/* Code that a JIT compiler made, and that has no name in the trace. */
static bool has_nameless_code(const struct limpet_model *model)
{
	const struct limpet_model_frame *symbols;

	for (uint32_t i = 1; i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];

		/* The capture has read names of the program's scripts: all that there are. */
		if (!node->lost && node->made && node->address >= LIMPET_TRACE_SCRIPT_ADDRESS)
			return false;
		if (!node->lost && node->made &&
		    !limpet_model_symbols(model, node->module, node->address, &symbols))
			return true;
	}
	return false;
}

static void hint_at_names(const struct limpet_model *model)
{
	if (!has_nameless_code(model))
		return;
	if (limpet_model_has_module(model, "node") || limpet_model_has_module(model, "libnode"))
		limpet_ui_hint("[jit] is JavaScript: its functions have names in a capture of "
			       "`node --perf-basic-prof`");
	else if (limpet_model_has_module(model, "libjvm"))
		limpet_ui_hint("[jit] is Java: its methods have names if `jcmd %u "
			       "Compiler.perfmap` runs during the capture",
			       model->target->pid);
}

/* Whether RSS has a part that the trace cannot explain, but a look at the process may. */
static bool is_unexplained(const struct limpet_model *model, const struct limpet_verdict *verdict)
{
	return verdict->about.kind == LIMPET_HEAP_FREE || limpet_model_unfollowed(model).matters;
}

/* Commands to try next, on stderr: the report itself is data. */
static void print_hints(const struct limpet_model *model, const struct report_options *o,
			bool unexplained)
{
	if (o->format == LIMPET_CLI_JSON || !isatty(STDERR_FILENO) || fflush(stdout))
		return;
	if (!model->sealed && model->end->end != LIMPET_END_RUNNING)
		limpet_ui_hint("limpet seal %s adds functions and lines", o->file);
	else if (model->sealed && !model->symbols_complete)
		limpet_ui_hint("limpet seal %s looks up the symbols that were skipped", o->file);
	if (model->sealed || model->names_looked_up)
		hint_at_names(model);
	if (unexplained && limpet_cli_target_is_alive(model->target))
		limpet_ui_hint("limpet explain %u says what its RSS is used for now, and how much "
			       "of that is free memory",
			       model->target->pid);
}

/* The events of the whole capture, which a model of a window does not have. */
static int count_events(const struct limpet_analysis *analysis, uint64_t *ret_events,
			struct limpet_err *err)
{
	struct limpet_model *whole;
	int result;

	if (!analysis->model->windowed) {
		*ret_events = analysis->events;
		return 0;
	}
	result = limpet_model_build(analysis->reader, NULL, &whole, err);
	if (result < 0)
		return result;
	*ret_events = whole->totals.events;
	limpet_model_free(whole);
	return 0;
}

static int print_report(struct limpet_analysis *analysis, const struct report_options *o,
			int *ret_status, bool *ret_unexplained, struct limpet_err *err)
{
	const struct limpet_report_text_options text = limpet_cli_text_options(o->format, o->full);
	struct limpet_report_options options = {
		.sort = analysis->view.sort,
		.limit = o->view.limit,
		.merge = o->format != LIMPET_CLI_JSON,
		.full = o->full,
		.hidden = analysis->filtered ? &analysis->hidden : NULL,
	};
	struct limpet_verdict verdict = {0};
	struct limpet_report *report = NULL;
	char filters[LIMPET_CLI_FILTERS];
	struct limpet_pager pager;
	int result = count_events(analysis, &options.capture_events, err);

	if (result >= 0)
		result = limpet_cli_judge_alone(analysis, true, o->file, &verdict, err);
	*ret_unexplained = is_unexplained(analysis->model, &verdict);
	options.verdict = verdict.sentences[0] ? &verdict : NULL;
	options.filters = analysis->filtered ? limpet_cli_view_filters(&o->cut, filters) : NULL;
	if (result >= 0)
		result = limpet_report_new(analysis->model, &options, &report);
	limpet_pager_begin(&pager, result >= 0 && o->format != LIMPET_CLI_JSON);
	if (result >= 0)
		result = o->format == LIMPET_CLI_JSON ? limpet_report_json_print(report, stdout)
			 : o->format == LIMPET_CLI_MARKDOWN
				 ? limpet_report_markdown_print(report, o->full, stdout)
				 : limpet_report_text_print(report, &text, stdout);
	limpet_pager_end(&pager);
	if (result >= 0)
		*ret_status = limpet_fail_on_judge(&o->fail_on, analysis->model, &verdict);
	limpet_report_free(report);
	limpet_verdict_done(&verdict);
	return result;
}

static int print_view(struct limpet_analysis *analysis, const struct report_options *o,
		      struct limpet_err *err)
{
	const struct limpet_report_text_options text = limpet_cli_text_options(o->format, o->full);
	struct limpet_cli_output output;
	struct limpet_pager pager;
	int result = 0;

	limpet_pager_begin(&pager, o->format != LIMPET_CLI_JSON);
	limpet_cli_output_begin(&output, o->format);
	if (output.file)
		result = o->format == LIMPET_CLI_JSON
				 ? limpet_view_json_print(analysis, &o->view, output.file, err)
				 : limpet_view_text_print(analysis, &o->view, &text, output.file,
							  err);
	result = limpet_cli_output_end(&output, result);
	limpet_pager_end(&pager);
	return result;
}

static int report_file(struct report_options *o, int *ret_status, struct limpet_err *err)
{
	const struct limpet_analysis_options options = {
		.from_ns = o->cut.from_ns,
		.to_ns = o->cut.to_ns,
		.filter = o->cut.filter,
		.sorted = o->sorted,
		.sort = o->sort,
		.full = o->full,
		.replay = limpet_view_needs(o->view.kind) != LIMPET_VIEW_NEEDS_SUMS,
		.blocks = limpet_view_needs(o->view.kind) == LIMPET_VIEW_NEEDS_BLOCKS,
		.series = o->view.kind == LIMPET_VIEW_SITES,
		.moments = o->view.kind == LIMPET_VIEW_TIMELINE
				   ? (o->limited && o->limit ? o->limit : LIMPET_VIEW_MOMENTS)
				   : 0,
		.progress = limpet_cli_show_progress,
		.look_up = limpet_cli_look_up_names,
	};
	struct limpet_analysis analysis;
	bool unexplained = false;
	int result = limpet_analysis_open(o->file, &options, &analysis, err);

	limpet_cli_clear_progress();
	if (result < 0)
		return result;
	o->view.limit = o->limited                     ? o->limit
			: o->format == LIMPET_CLI_JSON ? SIZE_MAX
						       : SITES_SHOWN;
	if (o->format != LIMPET_CLI_JSON)
		o->view.least_share = LEAST_SHARE;
	*ret_status = limpet_cli_check_window("report", &o->cut, analysis.reader);
	if (*ret_status == LIMPET_EXIT_OK)
		result = o->view.kind == LIMPET_VIEW_SITES
				 ? print_report(&analysis, o, ret_status, &unexplained, err)
				 : print_view(&analysis, o, err);
	if (result < 0 && !err->message[0])
		limpet_err_set(err, result, "cannot show '%s': %s", o->file, strerror(-result));
	if (result >= 0 && (*ret_status == LIMPET_EXIT_OK || *ret_status == LIMPET_EXIT_FAIL_ON))
		print_hints(analysis.model, o, unexplained);
	limpet_analysis_close(&analysis);
	return result;
}

int limpet_cmd_report(int argc, char **argv)
{
	struct report_options options = {0};
	struct limpet_err err = {0};
	int result = 0, status;

	/* `limpet report | head` ends quietly, even under a parent that ignores SIGPIPE. */
	signal(SIGPIPE, SIG_DFL);
	if (limpet_line_parse(&command, argc, argv, &options, &status))
		result = report_file(&options, &status, &err);
	limpet_cli_view_done(&options.cut);
	return limpet_ui_end(result, &err, status);
}
