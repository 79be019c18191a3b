/* `limpet export FILE --format FORMAT`: converts a trace for other tools. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/export/export.h"
#include "analyzer/export/export_sink.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/live_names.h"
#include "cli/ui.h"
#include "cli/view_options.h"
#include "common/units.h"

static const char help_usage[] =
	"Usage: limpet export FILE --format FORMAT [OPTIONS]\n"
	"Writes a trace in the format of another tool, to standard output or to OUT.\n";
static const char help_end[] = "Exit status: 0 done, 1 failed, 2 usage. More: man limpet-export\n";

struct export_options {
	const char *file, *output;
	const struct limpet_export_format *format; /* NULL: none was given */
	bool full, sorted;
	enum limpet_report_sort sort;
	struct limpet_cli_view cut;
};

static const struct limpet_option option_list[] = {
	{"format", 'f', "FORMAT",
	 "heaptrack, pprof, folded (speedscope, flamegraph.pl), massif, callgrind (KCachegrind), "
	 "csv "
	 "(DuckDB), fleet (many traces), perfetto or firefox (profiler.firefox.com)",
	 'f', limpet_export_words},
	{"output", 'o', "OUT",
	 "-: standard output; OUT.gz and OUT.zst are compressed; of csv and fleet, "
	 "OUT.csv becomes OUT.events.csv and so on",
	 'o', NULL},
	LIMPET_SORT_OPTION("of folded: which figure, as in report")
		LIMPET_WINDOW_OPTIONS("only what happened from then on; not of every format")
			LIMPET_FILTER_OPTIONS LIMPET_LINE_FLAG(
				"full", struct export_options, full,
				"of folded, massif, callgrind: library frames, too"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct export_options *o = context;
	int at;

	switch (option) {
	case 'f':
		at = limpet_cli_parse_word("export", "no format", optarg, limpet_export_words);
		o->format = at < 0 ? NULL : limpet_export_format((size_t)at);
		return at < 0 ? LIMPET_EXIT_USAGE : LIMPET_EXIT_OK;
	case 'o':
		o->output = optarg;
		return LIMPET_EXIT_OK;
	case LIMPET_OPT_SORT:
		o->sorted = true;
		return limpet_cli_parse_sort("export", optarg, &o->sort);
	default:
		return limpet_cli_view_option("export", &o->cut, option, optarg);
	}
}

static int fail_formatless(void)
{
	struct limpet_err err;

	limpet_err_set(&err, -EINVAL, "missing --format");
	limpet_cli_hint_words("export", limpet_export_words, &err);
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

static int parse_operands(int count, char **operands, void *context)
{
	struct export_options *o = context;
	const bool to_stdout = !strcmp(o->output, "-");
	int status = limpet_line_expect_trace("export", count, operands, &o->file);

	if (status != LIMPET_EXIT_OK)
		return status;
	if (!o->format)
		return fail_formatless();
	status = limpet_cli_view_times("export", &o->cut, o->file);
	if (status != LIMPET_EXIT_OK)
		return status;
	if (o->format->tables && to_stdout)
		return limpet_ui_usage("export", "%s consists of several tables: -o OUT.csv",
				       o->format->name);
	if (to_stdout && isatty(STDOUT_FILENO) && o->format->binary)
		return limpet_ui_usage("export",
				       "%s is binary and not written to a terminal: -o OUT%s",
				       o->format->name, o->format->binary);
	return LIMPET_EXIT_OK;
}

static const struct limpet_line command = {
	.name = "export",
	.takes = LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

static int write_one(struct limpet_analysis *analysis, const struct export_options *o,
		     const char *path, unsigned table, struct limpet_err *err)
{
	struct limpet_export_sink sink;
	struct limpet_err closing = {0};
	int result = limpet_export_sink_open(path, stdout, &sink, err);
	int closed;

	if (result < 0)
		return result;
	result = limpet_export(analysis, o->format, table, sink.file, err);
	closed = limpet_export_sink_close(&sink, result >= 0, &closing);
	if (result >= 0 && closed < 0) {
		*err = closing;
		result = closed;
	}
	return result;
}

/* OUT.csv.gz -> OUT.events.csv.gz */
static char *table_path(const char *path, const char *table)
{
	const char *end = strstr(path, ".csv");
	char *out;

	for (const char *next = end; next; next = strstr(next + 1, ".csv"))
		end = next;
	if (!end)
		end = path + strlen(path);
	if (asprintf(&out, "%.*s.%s%s", (int)(end - path), path, table, *end ? end : ".csv") < 0)
		return NULL;
	return out;
}

static int write_tables(struct limpet_analysis *analysis, const struct export_options *o,
			struct limpet_err *err)
{
	int result = 0;

	if (!o->format->tables)
		return write_one(analysis, o, o->output, 0, err);
	for (unsigned i = 0; o->format->tables[i] && result >= 0; i++) {
		LIMPET_FREE char *path = table_path(o->output, o->format->tables[i]);

		result = path ? write_one(analysis, o, path, i, err)
			      : limpet_err_set(err, -ENOMEM, "out of memory");
		if (result >= 0)
			limpet_ui_note("wrote %s", path);
	}
	return result;
}

static int export_file(const struct export_options *o, int *ret_status, struct limpet_err *err)
{
	const struct limpet_analysis_options options = {
		.from_ns = o->cut.from_ns,
		.to_ns = o->cut.to_ns,
		.filter = o->cut.filter,
		.sorted = o->sorted,
		.sort = o->sort,
		.full = o->full,
		.replay = o->format->needs & LIMPET_EXPORT_REPLAY,
		.series = o->format->needs & LIMPET_EXPORT_HISTORY,
		.moments = o->format->needs & LIMPET_EXPORT_REPLAY ? LIMPET_EXPORT_MOMENTS : 0,
		.progress = limpet_cli_show_progress,
		.look_up = limpet_cli_look_up_names,
	};
	char text[LIMPET_UNITS_TEXT];
	struct limpet_analysis analysis;
	int result = limpet_analysis_open(o->file, &options, &analysis, err);

	limpet_cli_clear_progress();
	if (result < 0)
		return result;
	*ret_status = limpet_cli_check_window("export", &o->cut, analysis.reader);
	if (*ret_status != LIMPET_EXIT_OK) {
		limpet_analysis_close(&analysis);
		return 0;
	}
	if (limpet_model_lacks_events(analysis.model))
		limpet_ui_warn("the trace is not complete: limpet report says what is missing");
	if (analysis.narrowed ||
	    ((o->format->needs & LIMPET_EXPORT_EVENTS) && analysis.model->given_up_ns))
		limpet_ui_warn("it begins %s after the capture did: only sums are kept from before",
			       limpet_units_format_duration(text, analysis.model->given_up_ns));
	limpet_cli_note_names(analysis.model);
	result = write_tables(&analysis, o, err);
	/* Some formats produce an empty file then. */
	if (result >= 0 && !analysis.model->totals.allocations &&
	    !analysis.model->totals.live_allocations)
		limpet_ui_note("no allocation was seen: there is little to write");
	limpet_analysis_close(&analysis);
	return result;
}

int limpet_cmd_export(int argc, char **argv)
{
	struct export_options options = {.output = "-"};
	struct limpet_err err = {0};
	int result = 0, status;

	signal(SIGPIPE, SIG_DFL);
	if (limpet_line_parse(&command, argc, argv, &options, &status))
		result = export_file(&options, &status, &err);
	limpet_cli_view_done(&options.cut);
	return limpet_ui_end(result, &err, status);
}
