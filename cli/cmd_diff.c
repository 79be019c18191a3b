/* `limpet diff OLD NEW`: what grew, shrank, appeared or vanished. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/text/diff_print.h"
#include "analyzer/views/diff.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/heap_findings.h"
#include "cli/html_file.h"
#include "cli/live_names.h"
#include "cli/mark_times.h"
#include "cli/pager.h"
#include "cli/ui.h"
#include "cli/view_options.h"
#include "common/units.h"

#define ROWS_SHOWN 20

static const char help_usage[] =
	"Usage: limpet diff [OPTIONS] OLD NEW\n"
	"Says which stacks hold or allocate more, and which less, in NEW than in OLD: two\n"
	"traces, or two windows of one: limpet diff A.limpet@1m-2m A.limpet@10m-11m\n";
static const char help_end[] = "Exit status: 0 done, 1 failed, 2 usage. More: man limpet-diff\n";

struct side {
	const char *name; /* as given */
	char *path;       /* without the window; malloc'ed */
	uint64_t from_ns, to_ns;
};

struct diff_options {
	struct side sides[2];
	bool full, sorted;
	enum limpet_cli_format format;
	const char *output;
	enum limpet_report_sort sort;
	size_t limit;
	struct limpet_cli_view cut;
};

static const struct limpet_option option_list[] = {
	{"limit", 'n', "N", "rows to show; default: 20", 'n', NULL},
	LIMPET_SORT_OPTION("peak, live, allocations, allocated, temporary or growth")
		LIMPET_FILTER_OPTIONS LIMPET_LINE_FLAG("full", struct diff_options, full,
						       "every frame, with parameters"),
	{"output", 'o', "OUT", "write a page with a differential flame graph", 'o', NULL},
	LIMPET_FORMAT_OPTION{"json", 0, NULL, "for programs: exact numbers, all rows",
			     LIMPET_OPT_JSON, NULL},
	{0},
};

static int fail_window(const char *window, int code, const struct limpet_mark_times *times)
{
	struct limpet_err err = {0};

	if (code == -ERANGE)
		return limpet_ui_usage("diff", "invalid window '%s': it ends before it begins",
				       window);
	if (code == -EINVAL)
		return limpet_ui_usage("diff",
				       "invalid window '%s': write FROM-TO, as in 10m-20m, of "
				       "times or marks",
				       window);
	if (code == -ENOENT) {
		limpet_err_set(&err, code,
			       "invalid window '%s': not FROM-TO of two times or marks of '%s'",
			       window, times->path);
		limpet_mark_times_hint(times, &err);
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	limpet_err_set(&err, code, "%s", strerror(-code));
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

/* FILE@FROM-TO, either of which may be omitted. */
static int parse_side(const char *argument, struct side *side)
{
	const char *at = limpet_cli_find_window(argument);
	struct limpet_mark_times times = {0};
	struct limpet_err err = {0};
	int code, status = LIMPET_EXIT_OK;

	side->name = argument;
	side->path = strdup(argument);
	if (!side->path)
		return limpet_ui_usage("diff", "out of memory");
	if (!at)
		return LIMPET_EXIT_OK;
	side->path[at - argument] = '\0';
	times.path = side->path;
	code = limpet_mark_times_find_range(&times, at + 1, '-', &side->from_ns, &side->to_ns);
	if (code == -ENOENT) {
		if (limpet_mark_times_read(&times, &err) < 0)
			return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
		code = limpet_mark_times_find_range(&times, at + 1, '-', &side->from_ns,
						    &side->to_ns);
	}
	if (code < 0)
		status = fail_window(at, code, &times);
	limpet_mark_times_done(&times);
	if (side->to_ns == UINT64_MAX)
		side->to_ns = 0;
	return status;
}

static int parse_option(int option, void *context)
{
	struct diff_options *o = context;

	switch (option) {
	case 'n':
		return limpet_cli_parse_number("diff", "limit", optarg, &o->limit);
	case LIMPET_OPT_SORT:
		o->sorted = true;
		return limpet_cli_parse_sort("diff", optarg, &o->sort);
	case 'o':
		o->output = optarg;
		return LIMPET_EXIT_OK;
	case LIMPET_OPT_FORMAT:
		return limpet_cli_parse_format("diff", optarg, &o->format);
	case LIMPET_OPT_JSON:
		o->format = LIMPET_CLI_JSON;
		return LIMPET_EXIT_OK;
	default:
		return limpet_cli_view_option("diff", &o->cut, option, optarg);
	}
}

static int parse_operands(int count, char **operands, void *context)
{
	struct diff_options *o = context;
	int status = LIMPET_EXIT_OK;

	if (count != 2)
		return limpet_ui_usage("diff", count < 2 ? "two traces are needed, OLD and NEW"
							 : "only two traces are accepted");
	if (o->output && o->format != LIMPET_CLI_TEXT)
		return limpet_ui_usage("diff", "-o and %s cannot be used together",
				       o->format == LIMPET_CLI_JSON ? "--json"
								    : "--format markdown");
	for (int i = 0; i < 2 && status == LIMPET_EXIT_OK; i++)
		status = parse_side(operands[i], &o->sides[i]);
	return status;
}

static const struct limpet_line command = {
	.name = "diff",
	.takes = LIMPET_TAKES_TRACE | LIMPET_TAKES_TWO,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

/* If the window is beyond the end, *ret_status is LIMPET_EXIT_USAGE, and the heap is not open. */
static int open_side(const struct diff_options *o, const struct side *side,
		     struct limpet_analysis *ret_analysis, int *ret_status, struct limpet_err *err)
{
	const struct limpet_analysis_options options = {.from_ns = side->from_ns,
							.to_ns = side->to_ns,
							.filter = o->cut.filter,
							.sorted = o->sorted,
							.sort = o->sort,
							.full = o->full,
							.series = o->output,
							.progress = limpet_cli_show_progress,
							.look_up = limpet_cli_look_up_names};
	char text[LIMPET_UNITS_TEXT];
	uint64_t end_ns;
	int result = limpet_analysis_open(side->path, &options, ret_analysis, err);

	limpet_cli_clear_progress();
	if (result < 0)
		return result;
	end_ns = ret_analysis->model->duration_ns;
	if (!side->from_ns || side->from_ns < end_ns)
		return 0;
	limpet_analysis_close(ret_analysis);
	*ret_status = limpet_ui_usage("diff", "'%s' is beyond the end: the capture is %s long",
				      side->name, limpet_units_format_duration(text, end_ns));
	return 0;
}

static int check_kinds(const struct diff_options *o, const struct limpet_analysis analyses[2],
		       struct limpet_err *err)
{
	const bool pages = analyses[0].model->target->pages;

	if (analyses[1].model->target->pages == pages)
		return 0;
	limpet_err_set(err, -ENOTSUP, "'%s' is of blocks, and '%s' of touched pages",
		       o->sides[pages].name, o->sides[!pages].name);
	limpet_err_hint(err, "compare two traces of the same kind");
	return -ENOTSUP;
}

static int check_sort(const struct diff_options *o, const struct limpet_analysis analyses[2],
		      struct limpet_err *err)
{
	for (int i = 0; i < 2; i++) {
		if (!o->sorted || o->sort != LIMPET_REPORT_TEMPORARY ||
		    !analyses[i].model->sample_bytes)
			continue;
		limpet_err_set(err, -ENOTSUP,
			       "samples do not say which allocations are temporary: '%s'",
			       o->sides[i].name);
		limpet_err_hint(err, "--sort allocations, or another figure");
		return -ENOTSUP;
	}
	return 0;
}

static int print(const struct limpet_diff *diff, const struct diff_options *o)
{
	const struct limpet_report_text_options text = limpet_cli_text_options(o->format, o->full);
	const size_t limit = o->limit != SIZE_MAX           ? o->limit
			     : o->format == LIMPET_CLI_JSON ? SIZE_MAX
							    : ROWS_SHOWN;
	struct limpet_cli_output output;
	struct limpet_pager pager;
	int result = 0;

	limpet_pager_begin(&pager, o->format != LIMPET_CLI_JSON);
	limpet_cli_output_begin(&output, o->format);
	if (output.file)
		result = o->format == LIMPET_CLI_JSON
				 ? limpet_diff_json_print(diff, o->sides[0].name, o->sides[1].name,
							  limit, output.file)
				 : limpet_diff_text_print(diff, o->sides[0].name, o->sides[1].name,
							  limit, &text, output.file);
	result = limpet_cli_output_end(&output, result);
	limpet_pager_end(&pager);
	return result;
}

static int print_page(const struct limpet_diff *diff, const struct diff_options *o,
		      struct limpet_err *err)
{
	struct limpet_html_file page;
	int result = limpet_html_file_open(o->output, &page, err);

	if (result < 0)
		return result;
	limpet_cli_note_names(diff->old_heap->model->names_looked_up ? diff->old_heap->model
								     : diff->new_heap->model);
	result = limpet_diff_html_print(diff, o->sides[0].name, o->sides[1].name, page.sink.file);
	return limpet_html_file_close(&page, result, err);
}

static int compare(const struct diff_options *o, const struct limpet_analysis analyses[2],
		   struct limpet_err *err)
{
	struct limpet_verdict verdicts[2] = {0};
	const struct limpet_verdict *const both[2] = {&verdicts[0], &verdicts[1]};
	struct limpet_diff *diff = NULL;
	int result = 0;

	for (int i = 0; i < 2 && result >= 0; i++)
		result = limpet_cli_judge_alone(&analyses[i], false, NULL, &verdicts[i], err);
	if (result >= 0) {
		result = limpet_diff_new(&analyses[0], &analyses[1], both, &diff);
		if (result >= 0 && !o->output)
			result = print(diff, o);
		if (result < 0)
			limpet_err_set(err, result, "cannot compare: %s", strerror(-result));
		else if (o->output)
			result = print_page(diff, o, err);
	}
	limpet_diff_free(diff);
	for (int i = 0; i < 2; i++)
		limpet_verdict_done(&verdicts[i]);
	return result < 0 ? result : 0;
}

/* What is live at two moments of one capture can be compared, and says what grew; what other
 * captures saw allocated depends on how long they lasted. */
static enum limpet_report_sort usual_sort(const struct limpet_analysis analyses[2])
{
	const struct limpet_trace_target *old = analyses[0].model->target,
					 *new = analyses[1].model->target;

	if (new->mode == LIMPET_MODE_RUN && !analyses[1].model->windowed)
		return LIMPET_REPORT_PEAK;
	return old->pid == new->pid && old->wall_ns == new->wall_ns &&
			       old->start_ticks == new->start_ticks
		       ? LIMPET_REPORT_LIVE
		       : LIMPET_REPORT_GROWTH;
}

static int diff_files(const struct diff_options *o, int *ret_status, struct limpet_err *err)
{
	struct limpet_analysis analyses[2] = {0};
	int result = 0;

	for (int i = 0; i < 2 && result >= 0 && *ret_status == LIMPET_EXIT_OK; i++)
		result = open_side(o, &o->sides[i], &analyses[i], ret_status, err);
	if (result >= 0 && *ret_status == LIMPET_EXIT_OK)
		result = check_kinds(o, analyses, err);
	if (result >= 0 && *ret_status == LIMPET_EXIT_OK)
		result = check_sort(o, analyses, err);
	if (result >= 0 && *ret_status == LIMPET_EXIT_OK) {
		if (!o->sorted)
			analyses[1].view.sort = usual_sort(analyses);
		result = compare(o, analyses, err);
	}
	for (int i = 0; i < 2; i++)
		if (analyses[i].model)
			limpet_analysis_close(&analyses[i]);
	return result;
}

int limpet_cmd_diff(int argc, char **argv)
{
	struct diff_options options = {.limit = SIZE_MAX};
	struct limpet_err err = {0};
	int result = 0, status;

	signal(SIGPIPE, SIG_DFL);
	if (limpet_line_parse(&command, argc, argv, &options, &status))
		result = diff_files(&options, &status, &err);
	limpet_cli_view_done(&options.cut);
	for (int i = 0; i < 2; i++)
		free(options.sides[i].path);
	return limpet_ui_end(result, &err, status);
}
