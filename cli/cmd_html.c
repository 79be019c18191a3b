/* `limpet html FILE`: the report as a page. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/html/html.h"
#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/verdict.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/heap_findings.h"
#include "cli/html_file.h"
#include "cli/live_names.h"
#include "cli/ui.h"
#include "cli/view_options.h"

#define MOST_STEPS 240
#define LARGE_BYTES (1 << 20)

static const char help_usage[] =
	"Usage: limpet html [OPTIONS] FILE\n"
	"Writes the report as one page that opens in any browser, offline: what grows, a\n"
	"timeline, flame graph, stacks, callers and sizes, for any part of the time.\n"
	"Prints its path.\n";
static const char help_end[] = "Exit status: 0 done, 1 failed, 2 usage. More: man limpet-html\n";

struct html_options {
	const char *file;
	const char *output; /* as given; NULL: derived from the trace's name */
	struct limpet_cli_view cut;
};

static const struct limpet_option option_list[] = {
	{"output", 'o', "OUT", "default: the trace's name with .html; -: standard output", 'o',
	 NULL},
	LIMPET_WINDOW_OPTIONS("begin with the time from then on: 90s, 10m, or a mark")
		LIMPET_FILTER_OPTIONS{0},
};

static int parse_option(int option, void *context)
{
	struct html_options *o = context;

	switch (option) {
	case 'o':
		o->output = optarg;
		return LIMPET_EXIT_OK;
	default:
		return limpet_cli_view_option("html", &o->cut, option, optarg);
	}
}

static int parse_operands(int count, char **operands, void *context)
{
	struct html_options *o = context;
	int status = limpet_line_expect_trace("html", count, operands, &o->file);

	return status == LIMPET_EXIT_OK ? limpet_cli_view_times("html", &o->cut, o->file) : status;
}

static const struct limpet_line command = {
	.name = "html",
	.takes = LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

static int write_page(const struct html_options *o, const struct limpet_html_subject *subject,
		      struct limpet_err *err)
{
	LIMPET_FREE char *named = o->output ? NULL : limpet_html_file_name(o->file, ".html");
	const char *output = o->output ? o->output : named;
	struct limpet_html_file page;
	int result;

	if (!output)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	result = limpet_html_file_open(output, &page, err);
	if (result < 0)
		return result;
	limpet_cli_note_names(subject->model);
	return limpet_html_file_close(&page, limpet_html_print(subject, page.sink.file), err);
}

/* Threads and lifetimes; *ret_thread_timeline stays NULL if the trace has no single events, or does
 * not tell blocks apart. */
static int follow(const struct limpet_analysis *analysis, const struct limpet_history *history,
		  const struct limpet_replay_options *selection,
		  struct limpet_thread_timeline **ret_thread_timeline, struct limpet_err *err)
{
	int result =
		limpet_model_is_imported(analysis->model)
			? -ENODATA
			: limpet_thread_timeline_build(analysis->reader, analysis->model, history,
						       selection, ret_thread_timeline);

	if (result == -ENODATA)
		return 0;
	return result < 0 ? limpet_err_set(err, result, "cannot read the events: %s",
					   strerror(-result))
			  : 0;
}

static int make_page(const struct html_options *o, struct limpet_analysis *analysis,
		     struct limpet_err *err)
{
	const struct limpet_replay_options selection = {.kept = analysis->kept,
							.filter = o->cut.filter,
							.progress = limpet_cli_show_progress};
	struct limpet_html_subject subject = {
		.model = analysis->model,
		.hidden = analysis->filtered ? &analysis->hidden : NULL,
		.events = analysis->events,
		.from_ns = o->cut.from_ns,
		.to_ns = o->cut.to_ns,
	};
	struct limpet_history *history = NULL;
	struct limpet_verdict verdict = {0};
	struct limpet_thread_timeline *thread_timeline = NULL;
	int result = limpet_history_build(analysis->reader, analysis->model, MOST_STEPS,
					  analysis->filtered ? &selection : NULL, &history, err);

	if (result >= 0)
		result = limpet_cli_judge(analysis, history, true, o->file, &verdict, err);
	if (result >= 0)
		result = follow(analysis, history, &selection, &thread_timeline, err);
	limpet_cli_clear_progress();
	subject.reader = analysis->reader;
	subject.history = history;
	subject.verdict = verdict.sentences[0] ? &verdict : NULL;
	subject.thread_timeline = thread_timeline;
	if (result >= 0)
		result = write_page(o, &subject, err);
	limpet_thread_timeline_free(thread_timeline);
	limpet_verdict_done(&verdict);
	limpet_history_free(history);
	return result;
}

static int page_of(const struct html_options *o, int *ret_status, struct limpet_err *err)
{
	const struct limpet_analysis_options options = {.filter = o->cut.filter,
							.sorted = true,
							.sort = LIMPET_REPORT_LIVE,
							.series = true,
							.progress = limpet_cli_show_progress,
							.look_up = limpet_cli_look_up_names};
	struct limpet_analysis analysis;
	int result = limpet_analysis_open(o->file, &options, &analysis, err);

	limpet_cli_clear_progress();
	if (result < 0)
		return result;
	*ret_status = limpet_cli_check_window("html", &o->cut, analysis.reader);
	if (*ret_status == LIMPET_EXIT_OK)
		result = make_page(o, &analysis, err);
	limpet_analysis_close(&analysis);
	return result;
}

/* Otherwise glibc stops mapping large arrays once one of them was freed, and the next step of the
 * work could not use the memory that a step frees. */
static void map_large_arrays(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
#endif
}

int limpet_cmd_html(int argc, char **argv)
{
	struct html_options options = {0};
	struct limpet_err err = {0};
	int result = 0, status;

	map_large_arrays();
	if (limpet_line_parse(&command, argc, argv, &options, &status))
		result = page_of(&options, &status, &err);
	limpet_cli_view_done(&options.cut);
	return limpet_ui_end(result, &err, status);
}
