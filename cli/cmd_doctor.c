/* `limpet doctor`: says whether limpet can attach to a process, and if not, why, and what helps. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture_options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/doctor_list.h"
#include "cli/find_hidden.h"
#include "cli/json_output.h"
#include "cli/settings.h"
#include "cli/ui.h"
#include "common/base_name.h"
#include "common/units.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet doctor [OPTIONS] [PID]\n"
	"Says whether limpet could attach to a process, and if not, why and what to do.\n"
	"Nothing in the process is changed. Without PID: a table of all processes.\n";
static const char help_end[] =
	"Exit status: 0 it would work, or be tried; 3 refused, 1 no such process,\n"
	"2 usage.\n"
	"More: man limpet-doctor\n";

enum { MARGIN = 10 };

static void print_finding(const struct limpet_finding *finding, int width)
{
	static const struct {
		const char *mark;
		enum limpet_ui_style style;
	} marks[] = {
		[LIMPET_FINDING_OK] = {"ok", LIMPET_UI_GREEN},
		[LIMPET_FINDING_NOTE] = {"note", LIMPET_UI_DIM},
		[LIMPET_FINDING_WARNING] = {"warning", LIMPET_UI_YELLOW},
		[LIMPET_FINDING_REFUSE] = {"refuse", LIMPET_UI_RED},
	};
	char text[sizeof(finding->text) + 8];

	printf("  %s%-*s%s", limpet_ui_style(stdout, marks[finding->severity].style), MARGIN - 2,
	       marks[finding->severity].mark, limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	snprintf(text, sizeof(text), "%s", finding->text);
	limpet_ui_wrap(limpet_ui_clean(text), MARGIN, width);
	if (!finding->hint[0])
		return;
	printf("%*s", MARGIN, "");
	snprintf(text, sizeof(text), "hint: %s", finding->hint);
	limpet_ui_wrap(limpet_ui_clean(text), MARGIN, width);
}

/* Of names that are shortened above, the whole. */
static void print_files(const struct limpet_owner_files *files)
{
	char path[sizeof(files->paths[0])], place[LIMPET_SHORT_PLACE_BYTES];

	for (size_t i = 0; i < files->count; i++) {
		snprintf(path, sizeof(path), "%s", files->paths[i]);
		if (limpet_short_place(path, place) == place)
			printf("    %s\n", limpet_ui_clean(path));
	}
}

static void print_text(const struct limpet_preflight *preflight)
{
	const bool ok = preflight->verdict == LIMPET_PREFLIGHT_OK;
	char name[64], user[64], unfollowed[sizeof(preflight->unfollowed)], rss[LIMPET_UNITS_TEXT];
	int width = limpet_ui_width(STDOUT_FILENO);

	snprintf(name, sizeof(name), "%s", preflight->name);
	printf("%slimpet %s attach to '%s' (%d)%s\n",
	       limpet_ui_style(stdout, ok ? LIMPET_UI_GREEN : LIMPET_UI_RED), ok ? "can" : "cannot",
	       limpet_ui_clean(name), preflight->pid, limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	limpet_ui_user(preflight->uid, user, sizeof(user));
	snprintf(unfollowed, sizeof(unfollowed), "%s", preflight->unfollowed);
	printf("  user %s, %s resident%s%s\n", limpet_ui_clean(user),
	       limpet_units_format_bytes(rss, preflight->rss_bytes),
	       preflight->allocators[0] ? ", allocators: " : "", preflight->allocators);
	if (unfollowed[0])
		printf("  not followed: %s\n", limpet_ui_clean(unfollowed));
	print_files(&preflight->unfollowed_files);
	/* refusals come first */
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < preflight->count; i++)
			if ((preflight->list[i].severity == LIMPET_FINDING_REFUSE) == (pass == 0))
				print_finding(&preflight->list[i], width);
}

static int show(pid_t pid, const struct limpet_preflight_options *wanted, bool json)
{
	LIMPET_FREE struct limpet_preflight *preflight = malloc(sizeof(*preflight));
	struct limpet_target target;
	struct limpet_err err = {0};
	json_t *object;
	int status;

	if (!preflight) {
		limpet_err_set(&err, -ENOMEM, "%s", strerror(ENOMEM));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	(void)!limpet_target_open(pid, &target, NULL); /* preflight says why not */
	(void)limpet_preflight_run(&target, wanted, preflight, &err);
	limpet_find_hidden_announce(&target, preflight);
	limpet_preflight_done(preflight);
	limpet_target_close(&target);
	status = limpet_preflight_exit(preflight);
	if (json) {
		object = limpet_doctor_json(preflight);
		if (object &&
		    (json_object_set_new(object, "format", json_string("limpet-doctor")) ||
		     json_object_set_new(object, "version", json_integer(1)))) {
			json_decref(object);
			object = NULL;
		}
		status = limpet_json_output(object, status);
	}
	if (preflight->verdict == LIMPET_PREFLIGHT_GONE ||
	    preflight->verdict == LIMPET_PREFLIGHT_FAILED)
		return limpet_ui_fail(&err, status);
	if (json)
		return status;
	print_text(preflight);
	fflush(stdout);
	if (status == LIMPET_EXIT_OK)
		limpet_ui_hint("limpet attach %d", pid);
	return limpet_ui_finish(status);
}

/* ------------------------------------------------------------------ the command line */

struct doctor_options {
	pid_t pid; /* 0: all */
	bool json;
	struct limpet_preflight_options wanted;
};

static const struct limpet_option option_list[] = {
	LIMPET_CAPTURE_FUNCTIONS_OPTION("as in attach: an allocator's functions"),
	LIMPET_LINE_FLAG("partial", struct doctor_options, wanted.config.partial,
			 "as in attach: accept an allocator out of reach"),
	LIMPET_LINE_FLAG("assume-seccomp-ok", struct doctor_options,
			 wanted.config.assume_seccomp_ok,
			 "as in attach: accept a filter that cannot be read"),
	LIMPET_LINE_FLAG("json", struct doctor_options, json, "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct doctor_options *o = context;

	(void)option; /* --alloc-functions: there is no other */
	return limpet_capture_parse_alloc_functions(optarg, &o->wanted.config.entry_list);
}

static int parse_operands(int count, char **operands, void *context)
{
	return limpet_line_expect_pid("doctor", count, operands,
				      &((struct doctor_options *)context)->pid);
}

static const struct limpet_line command = {
	.name = "doctor",
	.takes = LIMPET_TAKES_PROCESS,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_doctor(int argc, char **argv)
{
	struct doctor_options o = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &o, &status))
		return status;
	status = limpet_settings_take(&o.wanted.config);
	if (status != LIMPET_EXIT_OK)
		return status;
	return o.pid ? show(o.pid, &o.wanted, o.json) : limpet_doctor_list(&o.wanted, o.json);
}
