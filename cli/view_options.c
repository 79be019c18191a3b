#include "cli/view_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/text/report_markdown.h"
#include "cli/mark_times.h"
#include "cli/shell_word.h"
#include "cli/ui.h"
#include "common/clock.h"
#include "common/plain_text.h"
#include "common/units.h"

/* NULL: out of memory. */
static struct limpet_filter *need_filter(struct limpet_cli_view *view)
{
	if (!view->filter)
		view->filter = limpet_filter_new();
	return view->filter;
}

static int add_filter(const char *command, struct limpet_cli_view *view, int option,
		      const char *argument)
{
	const bool is_file = option == LIMPET_OPT_EXCLUDE && argument[0] == '@';
	struct limpet_err err = {0};
	int code;

	if (!need_filter(view))
		code = limpet_err_set(&err, -ENOMEM, "out of memory");
	else if (is_file)
		code = limpet_filter_add_suppressions(view->filter, argument + 1, &err);
	else
		code = limpet_filter_add(view->filter, argument, option == LIMPET_OPT_EXCLUDE,
					 &err);
	view->include |= option == LIMPET_OPT_INCLUDE;
	view->exclude |= option == LIMPET_OPT_EXCLUDE;
	if (code >= 0)
		return LIMPET_EXIT_OK;
	if (!is_file && code == -EINVAL)
		return limpet_ui_usage(command, "%s", err.message);
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

int limpet_cli_view_option(const char *command, struct limpet_cli_view *view, int option,
			   const char *argument)
{
	if (option == LIMPET_OPT_FROM)
		view->from = argument;
	else if (option == LIMPET_OPT_TO)
		view->to = argument;
	else if (option == LIMPET_OPT_BORN)
		view->born = argument;
	else
		return add_filter(command, view, option, argument);
	return LIMPET_EXIT_OK;
}

void limpet_cli_view_done(struct limpet_cli_view *view)
{
	limpet_filter_free(view->filter);
	view->filter = NULL;
}

const char *limpet_cli_view_filters(const struct limpet_cli_view *view,
				    char ret[LIMPET_CLI_FILTERS])
{
	const struct {
		bool given;
		const char *name;
	} options[] = {{view->include, "--include"},
		       {view->exclude, "--exclude"},
		       {view->born, "--born-between"}};
	size_t left = 0, used = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(options); i++)
		left += options[i].given;
	for (size_t i = 0; i < LIMPET_COUNT_OF(options); i++)
		if (options[i].given)
			used += (size_t)snprintf(ret + used, LIMPET_CLI_FILTERS - used, "%s%s",
						 options[i].name,
						 --left > 1 ? ", "
						 : left     ? " and "
							    : "");
	return used ? ret : NULL;
}

/* ------------------------------------------------------------------ times */

static int fail_read(const struct limpet_err *err)
{
	return limpet_ui_fail(err, LIMPET_EXIT_FAILED);
}

static int parse_time(const char *option, const char *text, struct limpet_mark_times *times,
		      bool *ret_given, uint64_t *ret_ns)
{
	struct limpet_err err = {0};

	if (!text)
		return LIMPET_EXIT_OK;
	*ret_given = true;
	if (limpet_mark_times_find(times, text, ret_ns) == 0)
		return LIMPET_EXIT_OK;
	if (limpet_mark_times_read(times, &err) < 0)
		return fail_read(&err);
	if (limpet_mark_times_find(times, text, ret_ns) == 0)
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -EINVAL, "invalid time '%s' for --%s: '%s' has no mark of that name",
		       text, option, times->path);
	limpet_mark_times_hint(times, &err);
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

static int parse_births(const char *command, struct limpet_cli_view *view,
			struct limpet_mark_times *times)
{
	struct limpet_err err = {0};
	uint64_t from_ns, to_ns;
	int code;

	if (!view->born)
		return LIMPET_EXIT_OK;
	code = limpet_mark_times_find_range(times, view->born, ',', &from_ns, &to_ns);
	if (code == -ENOENT && limpet_mark_times_read(times, &err) < 0)
		return fail_read(&err);
	if (code == -ENOENT)
		code = limpet_mark_times_find_range(times, view->born, ',', &from_ns, &to_ns);
	if (code == -EINVAL)
		return limpet_ui_usage(command,
				       "--born-between needs two times or marks, as in load,10m");
	if (code == -ERANGE)
		return limpet_ui_usage(command, "--born-between '%s' ends before it begins",
				       view->born);
	if (code == -ENOENT) {
		limpet_err_set(&err, code, "--born-between '%s' is not two times or marks of '%s'",
			       view->born, times->path);
		limpet_mark_times_hint(times, &err);
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	if (code < 0 || !need_filter(view)) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		return fail_read(&err);
	}
	limpet_filter_set_births(view->filter, from_ns, to_ns);
	return LIMPET_EXIT_OK;
}

const char *limpet_cli_find_window(const char *argument)
{
	LIMPET_FREE char *path = strdup(argument);
	const char *last = strrchr(argument, '@');
	char *at;

	if (!path || !last || access(argument, F_OK) == 0)
		return NULL;
	while ((at = strrchr(path, '@')) && at != path) {
		*at = '\0';
		if (access(path, F_OK) == 0)
			return argument + (at - path);
	}
	return last != argument && strchr(last, '-') ? last : NULL;
}

/* The command with FROM-TO, after the '@', as options. A mark may have a '-' in its name, too. */
static void hint_window(const char *command, const char *file, const char *window)
{
	const char *dash = strchr(window, '-');
	LIMPET_FREE char *from = NULL, *line = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&line, &length);

	if (!to)
		return;
	if (dash && dash != window && dash[1] && !strchr(dash + 1, '-'))
		from = strndup(window, (size_t)(dash - window));
	fprintf(to, "limpet %s ", command);
	limpet_cli_append_word(to, file);
	fputs(" --from ", to);
	limpet_cli_append_word(to, from ? from : "FROM");
	fputs(" --to ", to);
	limpet_cli_append_word(to, from ? dash + 1 : "TO");
	/* Other characters could not be copied. */
	if (fclose(to) == 0 && limpet_plain_text_check(line) == 0)
		limpet_ui_hint("only `limpet diff` takes a window there: %s", line);
}

/* Only `limpet diff` takes a window in its argument. */
static int check_path(const char *command, const char *path)
{
	const char *window = limpet_cli_find_window(path);
	LIMPET_FREE char *file = window ? strndup(path, (size_t)(window - path)) : NULL;
	struct limpet_err err = {0};
	int status;

	if (!file || access(file, F_OK) < 0)
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -ENOENT, "there is no file '%s'", path);
	status = limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	hint_window(command, file, window + 1);
	return status;
}

int limpet_cli_view_times(const char *command, struct limpet_cli_view *view, const char *path)
{
	struct limpet_mark_times times = {.path = path};
	int status = check_path(command, path);

	if (status == LIMPET_EXIT_OK)
		status = parse_time("from", view->from, &times, &view->from_given, &view->from_ns);
	if (status == LIMPET_EXIT_OK)
		status = parse_time("to", view->to, &times, &view->to_given, &view->to_ns);
	if (status == LIMPET_EXIT_OK)
		status = parse_births(command, view, &times);
	limpet_mark_times_done(&times);
	if (status == LIMPET_EXIT_OK && view->to_given && view->to_ns <= view->from_ns)
		return limpet_ui_usage(command, "--to must be later than --from");
	return status;
}

int limpet_cli_check_window(const char *command, const struct limpet_cli_view *view,
			    struct limpet_trace_reader *reader)
{
	const struct limpet_trace_end *end = limpet_trace_reader_end(reader);
	char text[LIMPET_UNITS_TEXT];
	uint64_t from_ns, to_ns;

	/* A mark may be the last that was recorded. */
	if (view->born && limpet_filter_births(view->filter, &from_ns, &to_ns) &&
	    from_ns > end->time_ns)
		return limpet_ui_usage(
			command, "--born-between '%s' is beyond the end: the capture is %s long",
			view->born, limpet_units_format_duration(text, end->time_ns));
	if (!view->from_given || view->from_ns < end->time_ns || !view->from_ns)
		return LIMPET_EXIT_OK;
	return limpet_ui_usage(command, "--from is beyond the end: the capture is %s long",
			       limpet_units_format_duration(text, end->time_ns));
}

int limpet_cli_parse_number(const char *command, const char *option, const char *argument,
			    size_t *ret_number)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(argument, &end, 10);
	if (argument[0] < '0' || argument[0] > '9' || *end || errno || value > SIZE_MAX)
		return limpet_ui_usage(command, "invalid number '%s' for --%s", argument, option);
	*ret_number = (size_t)value;
	return LIMPET_EXIT_OK;
}

void limpet_cli_hint_words(const char *command, const char *const *words, struct limpet_err *err)
{
	char list[200] = "";
	size_t used = 0;

	for (int i = 0; words[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 !i             ? ""
					 : words[i + 1] ? ", "
							: " or ",
					 words[i]);
	limpet_err_hint(err, "%s; limpet %s --help", list, command);
}

int limpet_cli_parse_word(const char *command, const char *what, const char *argument,
			  const char *const *words)
{
	const char *nearest = limpet_ui_nearest(argument, words);
	struct limpet_err err = {0};

	for (int i = 0; words[i]; i++)
		if (!strcmp(argument, words[i]))
			return i;
	if (nearest)
		limpet_err_set(&err, -EINVAL, "%s '%s'; did you mean '%s'?", what, argument,
			       nearest);
	else
		limpet_err_set(&err, -EINVAL, "%s '%s'", what, argument);
	limpet_cli_hint_words(command, words, &err);
	limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	return -1;
}

int limpet_cli_parse_sort(const char *command, const char *argument,
			  enum limpet_report_sort *ret_sort)
{
	int at = limpet_cli_parse_word(command, "cannot sort by", argument,
				       limpet_report_sort_words);

	if (at < 0)
		return LIMPET_EXIT_USAGE;
	*ret_sort = (enum limpet_report_sort)at;
	return LIMPET_EXIT_OK;
}

const char *const limpet_cli_format_words[] = {
	[LIMPET_CLI_TEXT] = "text", [LIMPET_CLI_MARKDOWN] = "markdown", NULL};

int limpet_cli_parse_format(const char *command, const char *argument,
			    enum limpet_cli_format *ret_format)
{
	int at = limpet_cli_parse_word(command, "no format", argument, limpet_cli_format_words);

	if (at < 0)
		return LIMPET_EXIT_USAGE;
	*ret_format = (enum limpet_cli_format)at;
	return LIMPET_EXIT_OK;
}

struct limpet_report_text_options limpet_cli_text_options(enum limpet_cli_format format, bool full)
{
	if (format == LIMPET_CLI_MARKDOWN)
		return (struct limpet_report_text_options){
			.full = full, .bold = "", .dim = "", .warn = "", .plain = ""};
	return (struct limpet_report_text_options){
		/* Lines are cut only for a terminal, and not if everything is wanted. */
		.width = isatty(STDOUT_FILENO) && !full ? (unsigned)limpet_ui_width(STDOUT_FILENO)
							: 0,
		.full = full,
		.bold = limpet_ui_style(stdout, LIMPET_UI_BOLD),
		.dim = limpet_ui_style(stdout, LIMPET_UI_DIM),
		.warn = limpet_ui_style(stdout, LIMPET_UI_RED),
		.plain = limpet_ui_style(stdout, LIMPET_UI_PLAIN),
	};
}

void limpet_cli_output_begin(struct limpet_cli_output *output, enum limpet_cli_format format)
{
	*output = (struct limpet_cli_output){.file = stdout};
	if (format == LIMPET_CLI_MARKDOWN)
		output->file = open_memstream(&output->text, &output->bytes);
}

int limpet_cli_output_end(struct limpet_cli_output *output, int result)
{
	if (output->file == stdout)
		return result;
	if ((!output->file || fclose(output->file)) && result >= 0)
		result = -ENOMEM;
	if (result >= 0)
		limpet_markdown_print_code(output->text, stdout);
	free(output->text);
	return result;
}

/* ------------------------------------------------------------------ progress */

static bool progress_shown;

void limpet_cli_show_progress(void *context, size_t done, size_t all)
{
	static uint64_t started_ms, drawn_ms;
	uint64_t ms = limpet_monotonic_ns() / 1000000, left_ms;
	char text[LIMPET_UNITS_TEXT];

	(void)context;
	if (!done || !started_ms)
		started_ms = ms;
	/* A short operation needs no progress. */
	if (ms - started_ms < 500 || ms - drawn_ms < 200 || !done || !isatty(STDERR_FILENO))
		return;
	drawn_ms = ms;
	left_ms = (uint64_t)((double)(ms - started_ms) / (double)done * (double)(all - done));
	limpet_units_format_duration(text, left_ms / 1000 * 1000000000);
	fprintf(stderr, "\rreading %3zu %%, %s left\x1b[K", 100 * done / all, text);
	fflush(stderr);
	progress_shown = true;
}

void limpet_cli_clear_progress(void)
{
	if (progress_shown)
		fputs("\r\x1b[K", stderr);
	progress_shown = false;
}
