/* `limpet seal FILE`: adds functions, files and lines to a trace. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/seal/seal.h"
#include "analyzer/symbols/debuginfod.h"
#include "analyzer/trace/trace_reader.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/live_target.h"
#include "cli/sealing.h"
#include "cli/ui.h"
#include "common/base_name.h"
#include "common/open_file.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet seal [OPTIONS] FILE\n"
	"Adds functions, files and lines to a trace, so that it can be read on any\n"
	"machine. Run it where the program and its libraries are; run it again when more\n"
	"debug information is at hand. Ctrl-C keeps what was found so far.\n"
	"Servers are asked only if DEBUGINFOD_URLS names them.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 failed or interrupted, 2 usage. More: man limpet-seal\n";

#define MAX_DEBUG_DIRS 64
/* For all files together; Ctrl-C ends it at any time. */
#define DEBUGINFOD_SECONDS 600u

static const struct limpet_option option_list[] = {
	{"debug-dir", 0, "DIR",
	 "look for modules and debug files here first; may be given several times", 'd', NULL},
	LIMPET_LINE_QUIET("no progress and no notes"),
	{0},
};

struct seal_options {
	const char *file;
	const char *debug_dirs[MAX_DEBUG_DIRS + 1];
	size_t debug_dir_count;
};

static volatile sig_atomic_t cancelled;

static void on_signal(int number)
{
	(void)number;
	cancelled = 1;
}

static int parse_option(int option, void *context)
{
	struct seal_options *o = context;

	(void)option; /* --debug-dir: there is no other */
	if (o->debug_dir_count == MAX_DEBUG_DIRS)
		return limpet_ui_usage("seal", "more than %d debug directories", MAX_DEBUG_DIRS);
	if (access(optarg, R_OK | X_OK) < 0)
		return limpet_ui_usage("seal", "cannot read the debug directory '%s': %s", optarg,
				       strerror(errno));
	o->debug_dirs[o->debug_dir_count++] = optarg;
	return LIMPET_EXIT_OK;
}

static int parse_operands(int count, char **operands, void *context)
{
	return limpet_line_expect_trace("seal", count, operands,
					&((struct seal_options *)context)->file);
}

static const struct limpet_line command = {
	.name = "seal",
	.takes = LIMPET_TAKES_TRACE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

/* ------------------------------------------------------------------ the target's file system */

/* While the target runs, its modules are opened through its own root directory, since it may be in
 * a container. */
static void use_target(const struct limpet_trace_target *target,
		       char root[LIMPET_TARGET_ROOT_BYTES], struct limpet_seal_options *seal)
{
	struct limpet_target live;

	seal->perf_map_fd = -1;
	if (!limpet_cli_target_open(target, &live))
		return;
	if (limpet_target_root(&live, root)) {
		seal->root = root;
		seal->perf_map_fd = limpet_target_open_perf_map(&live);
	}
	limpet_target_close(&live);
}

/* ------------------------------------------------------------------ progress */

struct progress {
	bool live; /* a progress line is on the terminal */
	bool show;
	int percent;
	char names[256]; /* of the first modules without a file */
	char hint[512];
	unsigned missing;
	uint64_t missing_addresses;
	struct limpet_unread unread;
};

static void show_progress(void *context, uint64_t done, uint64_t total)
{
	struct progress *progress = context;
	int percent = total ? (int)(100 * done / total) : 100;

	if (!progress->show || percent == progress->percent)
		return;
	progress->percent = percent;
	progress->live = true;
	fprintf(stderr, "\rsealing %3d %%", percent);
	fflush(stderr);
}

static void clear_progress(void *context)
{
	struct progress *progress = context;

	if (progress->live)
		fputs("\r             \r", stderr);
	progress->live = false;
}

static void note_missing(void *context, const char *path, uint64_t addresses,
			 const struct limpet_err *err)
{
	struct progress *progress = context;
	const char *name = limpet_base_name(path);
	size_t used = strlen(progress->names);

	if (err->code == -EPROTO || err->code == -ENODATA) {
		limpet_unread_note(&progress->unread, err);
		return;
	}
	progress->missing++;
	progress->missing_addresses += addresses;
	if (progress->missing <= 4)
		snprintf(progress->names + used, sizeof(progress->names) - used, "%s%s (%s)",
			 used ? ", " : "", name[0] ? name : "?",
			 err->code == -ESTALE ? "another build" : strerror(-err->code));
	if (!progress->hint[0])
		snprintf(progress->hint, sizeof(progress->hint), "%s", err->hint);
}

static void note_refused(void *context, const char *path, const char *file)
{
	const char *name = limpet_base_name(path);

	(void)context;
	limpet_ui_warn("'%s' is of another build than the %s captured: not used", file,
		       name[0] ? name : "module");
}

static void print_debuginfod(const struct limpet_debuginfod *debuginfod)
{
	int error = limpet_debuginfod_error(debuginfod);

	if (error && error != -EINTR)
		limpet_ui_warn("debuginfod: %s", limpet_debuginfod_words(error));
	if (limpet_debuginfod_fetched(debuginfod))
		limpet_ui_note("debuginfod: %u debug file%s", limpet_debuginfod_fetched(debuginfod),
			       limpet_debuginfod_fetched(debuginfod) == 1 ? "" : "s");
}

static void print_result(const struct seal_options *o, const struct progress *progress,
			 const struct limpet_seal_result *result)
{
	if (progress->missing && result->resolved < result->addresses) {
		limpet_ui_warn("no file for %u module%s with %llu address%s: %s%s",
			       progress->missing, progress->missing == 1 ? "" : "s",
			       (unsigned long long)progress->missing_addresses,
			       progress->missing_addresses == 1 ? "" : "es", progress->names,
			       progress->missing > 4 ? "..." : "");
		if (progress->hint[0])
			limpet_ui_hint("%s", progress->hint);
	}
	(void)limpet_unread_warn(&progress->unread);
	if (result->cancelled) {
		limpet_ui_warn("interrupted: %llu of %llu address%s not looked up",
			       (unsigned long long)result->skipped,
			       (unsigned long long)result->addresses,
			       result->addresses == 1 ? " was" : "es were");
		limpet_ui_hint("limpet seal %s looks up the rest", o->file);
		return;
	}
	limpet_ui_note("%s: %llu of %llu address%s a function, %llu a file and line", o->file,
		       (unsigned long long)result->resolved, (unsigned long long)result->addresses,
		       result->addresses == 1 ? " has" : "es have",
		       (unsigned long long)result->lines);
	if (result->made)
		limpet_ui_note("%llu of %llu address%s in JIT-compiled code %s a name",
			       (unsigned long long)result->made_named,
			       (unsigned long long)result->made, result->made == 1 ? "" : "es",
			       result->made == 1 ? "has" : "have");
}

/* ------------------------------------------------------------------ all */

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	/* Once: a second Ctrl-C ends limpet at once. The file then has only whole blocks. */
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++) {
		/* An inherited SIG_IGN is kept: nohup. */
		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

int limpet_cmd_seal(int argc, char **argv)
{
	struct seal_options options = {0};
	struct progress progress = {.percent = -1};
	struct limpet_seal_options seal = {.cancel = &cancelled,
					   .progress = show_progress,
					   .missing = note_missing,
					   .refused = note_refused,
					   .unread = limpet_sealing_warn_unread,
					   .context = &progress};
	struct limpet_seal_result result = {0};
	struct limpet_trace_reader *reader = NULL;
	struct limpet_debuginfod *debuginfod;
	char root[LIMPET_TARGET_ROOT_BYTES];
	struct limpet_err err = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	if (limpet_trace_reader_open(options.file, &reader, &err) < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	use_target(limpet_trace_reader_target(reader), root, &seal);
	limpet_trace_reader_free(reader);
	seal.debug_dirs = options.debug_dirs;
	seal.has_perf_map = seal.perf_map_fd >= 0;
	debuginfod = limpet_debuginfod_new(&(struct limpet_debuginfod_options){
		.limit_seconds = DEBUGINFOD_SECONDS, .cancel = &cancelled});
	seal.debuginfod = debuginfod;
	progress.show = !limpet_ui_is_quiet() && isatty(STDERR_FILENO);
	limpet_ui_set_before_message(clear_progress, &progress);
	catch_signals();
	status = limpet_seal(options.file, &seal, &result, &err);
	clear_progress(&progress);
	print_debuginfod(debuginfod);
	limpet_debuginfod_free(debuginfod);
	if (seal.has_perf_map)
		close(seal.perf_map_fd);
	if (status < 0)
		limpet_ui_error(&err);
	else
		print_result(&options, &progress, &result);
	limpet_ui_set_before_message(NULL, NULL);
	return status < 0 || result.cancelled ? LIMPET_EXIT_FAILED : LIMPET_EXIT_OK;
}
