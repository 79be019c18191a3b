/* `limpet report FILE`: who holds the memory. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/model.h"
#include "analyzer/report.h"
#include "analyzer/report_json.h"
#include "analyzer/report_text.h"
#include "analyzer/trace_reader.h"
#include "cli/commands.h"
#include "cli/ui.h"
#include "common/units.h"

#define SITES_SHOWN 10

static const char help[] =
	"Usage: limpet report [OPTIONS] FILE\n"
	"Says who holds the memory: target, losses, totals, and the stacks that allocated\n"
	"most. Library noise is folded away, so that each starts with the program's own\n"
	"function.\n"
	"\n"
	"  -n, --limit N         stacks to show; default: 10, with --json all\n"
	"      --sort WORD       peak, live, allocations, allocated, temporary or growth;\n"
	"                        default: live for attach, peak for run\n"
	"      --from DUR        only what happened from here on: 90s, 10m from the start\n"
	"      --to DUR          only what happened up to here\n"
	"      --full            every frame, with parameters; nothing is folded\n"
	"      --json            exact numbers for programs; all stacks, unfolded\n"
	"  -h, --help            this text\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 usage. More: man limpet-report\n";

enum { OPT_SORT = 256, OPT_FROM, OPT_TO, OPT_FULL, OPT_JSON };

static const struct option long_options[] = {
	{"limit", required_argument, NULL, 'n'},
	{"sort", required_argument, NULL, OPT_SORT},
	{"from", required_argument, NULL, OPT_FROM},
	{"to", required_argument, NULL, OPT_TO},
	{"full", no_argument, NULL, OPT_FULL},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct report_options {
	const char *file;
	bool json, full;
	bool sorted, limited;
	enum limpet_report_sort sort;
	size_t limit;
	bool from_given, to_given;
	uint64_t from_ns, to_ns;
};

static int parse_limit(const char *argument, size_t *ret_limit)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(argument, &end, 10);
	if (argument[0] < '0' || argument[0] > '9' || *end || errno || value > SIZE_MAX)
		return limpet_ui_usage("report", "wrong number '%s' for --limit", argument);
	*ret_limit = (size_t)value;
	return LIMPET_EXIT_OK;
}

static int parse_sort(const char *argument, enum limpet_report_sort *ret_sort)
{
	const char *nearest = limpet_ui_nearest(argument, limpet_report_sort_words);

	for (unsigned i = 0; limpet_report_sort_words[i]; i++) {
		if (!strcmp(argument, limpet_report_sort_words[i])) {
			*ret_sort = (enum limpet_report_sort)i;
			return LIMPET_EXIT_OK;
		}
	}
	if (nearest)
		return limpet_ui_usage("report", "cannot sort by '%s'; did you mean '%s'?",
				       argument, nearest);
	return limpet_ui_usage("report", "cannot sort by '%s'", argument);
}

static int parse_time(const char *name, const char *argument, bool *ret_given, uint64_t *ret_ns)
{
	if (limpet_units_parse_duration(argument, ret_ns) < 0)
		return limpet_ui_usage("report", "wrong time '%s' for --%s", argument, name);
	*ret_given = true;
	return LIMPET_EXIT_OK;
}

static int parse_option(int option, struct report_options *o)
{
	switch (option) {
	case 'n':
		o->limited = true;
		return parse_limit(optarg, &o->limit);
	case OPT_SORT:
		o->sorted = true;
		return parse_sort(optarg, &o->sort);
	case OPT_FROM:
		return parse_time("from", optarg, &o->from_given, &o->from_ns);
	case OPT_TO:
		return parse_time("to", optarg, &o->to_given, &o->to_ns);
	case OPT_FULL:
		o->full = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	}
	return LIMPET_EXIT_OK;
}

/* True: go on. False: exit with *ret_status. */
static bool parse(int argc, char **argv, struct report_options *o, int *ret_status)
{
	int option;

	while ((option = getopt_long(argc, argv, ":n:h", long_options, NULL)) != -1) {
		if (option == 'h')
			*ret_status = limpet_ui_help(help);
		else if (option == '?' || option == ':')
			*ret_status = limpet_ui_bad_option("report", option, argv, long_options);
		else
			*ret_status = parse_option(option, o);
		if (option == 'h' || *ret_status != LIMPET_EXIT_OK)
			return false;
	}
	*ret_status = LIMPET_EXIT_USAGE;
	if (optind >= argc) {
		limpet_ui_usage("report", "which trace?");
		return false;
	}
	if (optind + 1 < argc) {
		limpet_ui_usage("report", "one trace at a time; '%s' is one too many",
				argv[optind + 1]);
		return false;
	}
	if (o->to_given && o->to_ns <= o->from_ns) {
		limpet_ui_usage("report", "--to must be later than --from");
		return false;
	}
	o->file = argv[optind];
	return true;
}

/* Looked at before the whole trace is read: a window beside the capture would only show zeros. */
static int check_window(struct limpet_trace_reader *reader, const struct report_options *o)
{
	const struct limpet_trace_end *end = limpet_trace_reader_end(reader);
	char text[LIMPET_UNITS_TEXT];

	if (!o->from_given || o->from_ns < end->time_ns || !o->from_ns)
		return LIMPET_EXIT_OK;
	return limpet_ui_usage("report", "--from is beyond the end: the capture is %s long",
			       limpet_units_format_duration(text, end->time_ns));
}

static int print(struct limpet_report *report, const struct report_options *o,
		 struct limpet_err *err)
{
	const struct limpet_report_text_options text = {
		/* Cut for eyes only: a file or a pipe gets whole lines, and so does who wants all.
		 */
		.width = isatty(STDOUT_FILENO) && !o->full
				 ? (unsigned)limpet_ui_width(STDOUT_FILENO)
				 : 0,
		.full = o->full,
		.bold = limpet_ui_style(stdout, LIMPET_UI_BOLD),
		.dim = limpet_ui_style(stdout, LIMPET_UI_DIM),
		.warn = limpet_ui_style(stdout, LIMPET_UI_RED),
		.plain = limpet_ui_style(stdout, LIMPET_UI_PLAIN),
	};
	int result = o->json ? limpet_report_json_print(report, stdout)
			     : limpet_report_text_print(report, &text, stdout);

	return result < 0 ? limpet_err_set(err, result, "cannot show '%s': %s", o->file,
					   strerror(-result))
			  : 0;
}

/* What to type next, on stderr: the report itself is data. */
static void print_hints(const struct limpet_model *model, const struct report_options *o)
{
	if (o->json || !isatty(STDERR_FILENO) || fflush(stdout))
		return;
	if (!model->sealed && model->end->end != LIMPET_END_RUNNING)
		limpet_ui_hint("limpet seal %s adds functions and lines", o->file);
	else if (!model->symbols_complete && model->end->end != LIMPET_END_RUNNING)
		limpet_ui_hint("limpet seal %s looks up the symbols that were skipped", o->file);
}

/* Events of the whole capture, which a model of a window does not say. */
static int count_events(struct limpet_trace_reader *reader, const struct limpet_model *model,
			uint64_t *ret_events, struct limpet_err *err)
{
	struct limpet_model *whole;
	int result;

	if (!model->windowed) {
		*ret_events = model->totals.events;
		return 0;
	}
	result = limpet_model_build(reader, NULL, &whole, err);
	if (result < 0)
		return result;
	*ret_events = whole->totals.events;
	limpet_model_free(whole);
	return 0;
}

static int report_file(struct limpet_trace_reader *reader, const struct report_options *o,
		       struct limpet_err *err)
{
	const struct limpet_model_options window = {.from_ns = o->from_ns, .to_ns = o->to_ns};
	struct limpet_report_options options = {
		.sort = o->sort,
		.limit = o->limited ? o->limit
			 : o->json  ? SIZE_MAX
				    : SITES_SHOWN,
		.merge = !o->json,
		.full = o->full,
	};
	struct limpet_report *report = NULL;
	struct limpet_model *model = NULL;
	int result;

	result = limpet_model_build(reader, o->from_given || o->to_given ? &window : NULL, &model,
				    err);
	if (result < 0)
		return result;
	if (!o->sorted)
		options.sort = model->target->mode == LIMPET_MODE_RUN ? LIMPET_REPORT_PEAK
								      : LIMPET_REPORT_LIVE;
	result = count_events(reader, model, &options.capture_events, err);
	if (result >= 0) {
		result = limpet_report_new(model, &options, &report);
		if (result < 0)
			limpet_err_set(err, result, "cannot show '%s': %s", o->file,
				       strerror(-result));
	}
	if (result >= 0)
		result = print(report, o, err);
	if (result >= 0)
		print_hints(model, o);
	limpet_report_free(report);
	limpet_model_free(model);
	return result;
}

int limpet_cmd_report(int argc, char **argv)
{
	struct report_options options = {0};
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};
	int result, status;

	/* `limpet report | head` ends quietly, even under a parent that ignores SIGPIPE. */
	signal(SIGPIPE, SIG_DFL);
	if (!parse(argc, argv, &options, &status))
		return status;
	result = limpet_trace_reader_open(options.file, &reader, &err);
	if (result >= 0) {
		status = check_window(reader, &options);
		if (status == LIMPET_EXIT_OK)
			result = report_file(reader, &options, &err);
	}
	limpet_trace_reader_free(reader);
	if (result < 0) {
		if (!err.hint[0])
			limpet_err_hint(&err, "`limpet attach` and `limpet stop` print the path of "
					      "their trace");
		limpet_ui_error(&err);
		return LIMPET_EXIT_FAILED;
	}
	return limpet_ui_finish(status);
}
