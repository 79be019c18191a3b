/* `limpet html FILE`: the report as a page. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/findings.h"
#include "analyzer/history.h"
#include "analyzer/html.h"
#include "analyzer/trace_reader.h"
#include "cli/commands.h"
#include "cli/ui.h"

#define MOST_STEPS 240
#define SUFFIX ".limpet"

static const char help[] =
	"Usage: limpet html [OPTIONS] FILE\n"
	"Writes the report as one page that opens in any browser, offline: over time,\n"
	"flame graph, stacks, callers, sizes; all for any part of the time. Prints its\n"
	"path.\n"
	"\n"
	"  -o, --output OUT      default: the trace's name with .html; '-' is stdout\n"
	"  -f, --force           overwrite OUT\n"
	"  -h, --help            this text\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 usage. More: man limpet-html\n";

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"force", no_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct html_options {
	const char *file;
	char *output; /* malloc'ed */
	bool force;
};

/* "node.4711.limpet" becomes "node.4711.html". */
static char *name_output(const char *file)
{
	size_t length = strlen(file), suffix = strlen(SUFFIX);
	char *output;

	if (length > suffix && !strcmp(file + length - suffix, SUFFIX))
		length -= suffix;
	return asprintf(&output, "%.*s.html", (int)length, file) < 0 ? NULL : output;
}

/* True: go on. False: exit with *ret_status. */
static bool parse(int argc, char **argv, struct html_options *o, int *ret_status)
{
	const char *output = NULL;
	int option;

	while ((option = getopt_long(argc, argv, ":o:fh", long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			*ret_status = limpet_ui_help(help);
			return false;
		case 'o':
			output = optarg;
			break;
		case 'f':
			o->force = true;
			break;
		default:
			*ret_status = limpet_ui_bad_option("html", option, argv, long_options);
			return false;
		}
	}
	*ret_status = LIMPET_EXIT_USAGE;
	if (optind >= argc) {
		limpet_ui_usage("html", "which trace?");
		return false;
	}
	if (optind + 1 < argc) {
		limpet_ui_usage("html", "one trace at a time; '%s' is one too many",
				argv[optind + 1]);
		return false;
	}
	o->file = argv[optind];
	o->output = output ? strdup(output) : name_output(o->file);
	*ret_status = LIMPET_EXIT_FAILED;
	return o->output != NULL;
}

/* A trace may hold what others must not see: the page is as private as it. *ret_new: nothing was
 * there before. */
static int open_output(const struct html_options *o, FILE **ret_file, bool *ret_new,
		       struct limpet_err *err)
{
	int fd;

	*ret_new = false;
	if (!strcmp(o->output, "-")) {
		*ret_file = stdout;
		return 0;
	}
	fd = open(o->output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	*ret_new = fd >= 0;
	if (fd < 0 && errno == EEXIST && o->force)
		fd = open(o->output, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0) {
		int error = limpet_errno();

		limpet_err_set(err, error, "cannot write '%s': %s", o->output, strerror(-error));
		if (error == -EEXIST)
			limpet_err_hint(err, "limpet html -f overwrites it, -o OUT writes another");
		return error;
	}
	*ret_file = fdopen(fd, "w");
	return *ret_file ? 0 : limpet_err_set(err, -ENOMEM, "out of memory");
}

static int write_page(const struct html_options *o, const struct limpet_model *model,
		      const struct limpet_history *history, const struct limpet_findings *findings,
		      struct limpet_err *err)
{
	bool is_new = false;
	FILE *file = NULL;
	int result = open_output(o, &file, &is_new, err), lost;

	if (result < 0)
		return result;
	result = limpet_html_print(model, history, findings, file);
	if (file == stdout)
		return result < 0 ? limpet_err_set(err, result, "out of memory") : 0;
	errno = 0;
	lost = ferror(file);
	lost |= fclose(file);
	if (lost && !result)
		result = errno ? -errno : -EIO;
	if (result < 0) {
		if (is_new)
			unlink(o->output);
		return limpet_err_set(err, result, "cannot write '%s': %s", o->output,
				      strerror(-result));
	}
	printf("%s\n", o->output);
	return 0;
}

static int find(const struct limpet_model *model, const struct limpet_history *history,
		struct limpet_findings **ret_findings, struct limpet_err *err)
{
	struct limpet_view view = {
		.sites = model->sites, .site_count = model->site_count, .sort = LIMPET_REPORT_LIVE};
	int result = limpet_places_new(model, &view.places);

	if (result == 0)
		result = limpet_findings_new(&view, history, ret_findings);
	limpet_places_free(view.places);
	return result < 0 ? limpet_err_set(err, result, "out of memory") : 0;
}

static int make_page(const struct html_options *o, struct limpet_err *err)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_history *history = NULL;
	struct limpet_findings *findings = NULL;
	struct limpet_model *model = NULL;
	int result = limpet_trace_reader_open(o->file, &reader, err);

	if (result >= 0)
		result = limpet_model_build(reader, NULL, &model, err);
	if (result >= 0)
		result = limpet_history_build(reader, model, MOST_STEPS, &history, err);
	if (result >= 0)
		result = find(model, history, &findings, err);
	if (result >= 0)
		result = write_page(o, model, history, findings, err);
	limpet_findings_free(findings);
	limpet_history_free(history);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return result;
}

int limpet_cmd_html(int argc, char **argv)
{
	struct html_options options = {0};
	struct limpet_err err = {0};
	int result, status;

	if (!parse(argc, argv, &options, &status)) {
		free(options.output);
		return status;
	}
	result = make_page(&options, &err);
	free(options.output);
	if (result < 0) {
		limpet_ui_error(&err);
		return LIMPET_EXIT_FAILED;
	}
	return limpet_ui_finish(LIMPET_EXIT_OK);
}
