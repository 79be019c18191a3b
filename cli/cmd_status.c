/* `limpet status`: running captures and their progress, and processes with an agent that was left
 * behind. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/text/json_printer.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/received.h"
#include "cli/ui.h"
#include "collector/control/control_client.h"
#include "common/array.h"
#include "common/units.h"
#include "injector/preflight/dormant.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet status [OPTIONS] [PID]\n"
	"Shows the captures that run on this machine, with their marks, and the agents\n"
	"that were left in processes when a capture ended badly; with PID, only that one.\n";
static const char help_end[] =
	"You see your own captures; root sees everybody's.\n"
	"States: attaching, capturing, detaching, sealing; dormant: no capture, but an\n"
	"agent was left, which `limpet stop PID` removes.\n"
	"Exit status: 0 done, 1 PID is not being captured, 2 usage.\n"
	"More: man limpet-status\n";

struct captures {
	struct limpet_control_capture *list;
	int count;
	size_t capacity; /* 0 at first: sized when it is made */
};

static int add_dormant(struct captures *captures, pid_t pid)
{
	struct limpet_control_capture *capture;
	struct limpet_proc_status status;

	if (limpet_reserve(&captures->list, &captures->capacity, (size_t)captures->count + 1,
			   sizeof(*captures->list)) < 0)
		return -ENOMEM;
	capture = &captures->list[captures->count++];
	memset(capture, 0, sizeof(*capture));
	capture->pid = pid;
	capture->state = LIMPET_CONTROL_DORMANT;
	if (limpet_proc_status_read(pid, &status) == 0)
		snprintf(capture->command, sizeof(capture->command), "%s", status.name);
	return 0;
}

static int find_all(struct captures *ret)
{
	LIMPET_FREE pid_t *pids = NULL;
	int dormant, result = limpet_control_list(&ret->list);

	if (result < 0)
		return result;
	ret->count = result;
	/* Without /proc dormant agents cannot be found; the captures are shown nevertheless. */
	dormant = limpet_dormant_find(&pids);
	for (int i = 0; i < dormant; i++) {
		result = add_dormant(ret, pids[i]);
		if (result < 0)
			return result;
	}
	return 0;
}

/* -ENOENT: neither captured nor dormant. */
static int find_one(pid_t pid, struct captures *ret)
{
	struct limpet_control_capture capture;
	struct limpet_target target;
	int result = limpet_control_find(pid, &capture);

	if (result == 0) {
		ret->list = malloc(sizeof(*ret->list));
		if (!ret->list)
			return -ENOMEM;
		ret->list[ret->count++] = capture;
		return 0;
	}
	if (result != -ENOENT)
		return result;
	(void)!limpet_target_open(pid, &target, NULL); /* one that is gone has no agent */
	result = limpet_dormant_check(&target) == 1 ? add_dormant(ret, pid) : -ENOENT;
	limpet_target_close(&target);
	return result;
}

/* ------------------------------------------------------------------ JSON */

/* -EPROTO...: not known. */
static int find_marks(const struct limpet_control_capture *capture, struct limpet_mark **ret_list)
{
	const int count = limpet_control_marks(capture->pid, ret_list);

	if (count < 0)
		*ret_list = NULL;
	return count;
}

static bool has_figures(const struct limpet_control_capture *capture)
{
	return capture->state != LIMPET_CONTROL_UNKNOWN && capture->state != LIMPET_CONTROL_DORMANT;
}

static json_t *seconds(uint64_t ns, bool known)
{
	return known ? json_real((double)ns / 1e9) : json_null();
}

static json_t *marks_json(const struct limpet_control_capture *capture)
{
	LIMPET_FREE struct limpet_mark *marks = NULL;
	const int count = has_figures(capture) ? find_marks(capture, &marks) : -ENODATA;
	json_t *list = count < 0 ? json_null() : json_array();

	for (int i = 0; i < count; i++)
		list = limpet_json_append(
			list, json_pack("{s:o, s:o}", "name", limpet_json_clean_text(marks[i].name),
					"time_seconds", seconds(marks[i].time_ns, true)));
	return list;
}

static bool is_receiving(const struct limpet_control_capture *capture)
{
	return capture->state == LIMPET_CONTROL_RECEIVING;
}

static json_t *streams_json(const struct limpet_control_capture *capture)
{
	LIMPET_FREE struct limpet_received *list = NULL;
	const int count =
		is_receiving(capture) ? limpet_received_list(capture->trace, &list) : -ENODATA;
	json_t *array = count < 0 ? json_null() : json_array();

	for (int i = 0; i < count; i++)
		array = limpet_json_append(array, json_pack("{s:o, s:I}", "trace",
							    limpet_json_clean_text(list[i].path),
							    "bytes", (json_int_t)list[i].bytes));
	return array;
}

static json_t *capture_json(const struct limpet_control_capture *capture)
{
	const char *state = limpet_control_state_name(capture->state);
	bool known = has_figures(capture);

	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pid",
			 (int)capture->pid, "state", state ? json_string(state) : json_null(),
			 "trace", limpet_json_clean_text(capture->trace), "elapsed_seconds",
			 seconds(capture->elapsed_ns, known), "events",
			 limpet_json_number_if(known, capture->events), "dropped_events",
			 limpet_json_number_if(known, capture->dropped_events), "live_bytes",
			 limpet_json_number_if(known, capture->live_bytes), "command",
			 limpet_json_clean_text(capture->command), "collector_pid",
			 limpet_json_number_if(known, (uint64_t)capture->collector_pid),
			 "duration_seconds",
			 seconds(capture->duration_ns, known && capture->duration_ns), "marks",
			 marks_json(capture), "streams", streams_json(capture));
}

static int print_json(const struct captures *captures)
{
	json_t *list = json_array(), *root;
	bool failed = !list;

	for (int i = 0; i < captures->count; i++)
		failed |= json_array_append_new(list, capture_json(&captures->list[i])) != 0;
	root = json_pack("{s:o}", "captures", list);
	if (!failed && root)
		failed = json_dumpf(root, stdout, JSON_REAL_PRECISION(15)) != 0;
	json_decref(root);
	putchar('\n');
	return failed || !root ? -ENOMEM : 0;
}

/* ------------------------------------------------------------------ text */

/* Of a line below the row, and of the trace's. */
#define INDENT 9
/* Marks that are named: the last ones. */
#define MARKS_SHOWN 20

static void print_marks(const struct limpet_control_capture *capture)
{
	LIMPET_FREE struct limpet_mark *marks = NULL;
	const int count = find_marks(capture, &marks);
	const int first = count > MARKS_SHOWN ? count - MARKS_SHOWN : 0;
	char time[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *line = NULL;
	size_t bytes;
	FILE *text = count > 0 ? open_memstream(&line, &bytes) : NULL;

	if (!text)
		return;
	fprintf(text, "marks: ");
	if (first)
		fprintf(text, "%d earlier, ", first);
	for (int i = first; i < count; i++)
		fprintf(text, "%s%s %s", i > first ? ", " : "", marks[i].name,
			limpet_units_format_time(time, marks[i].time_ns));
	if (fclose(text))
		return;
	printf("%*s", INDENT, "");
	limpet_ui_wrap(limpet_ui_clean(line), INDENT, limpet_ui_width(STDOUT_FILENO));
}

static void print_received(const struct limpet_control_capture *capture)
{
	LIMPET_FREE struct limpet_received *list = NULL;
	const int count = limpet_received_list(capture->trace, &list);
	char size[LIMPET_UNITS_TEXT];

	for (int i = 0; i < count; i++) {
		limpet_units_format_bytes(size, list[i].bytes);
		printf("%*s%s, %s\n", INDENT, "", limpet_ui_clean(list[i].path), size);
	}
}

static void print_row(const struct limpet_control_capture *capture)
{
	char elapsed[2 * LIMPET_UNITS_TEXT] = "-", events[LIMPET_UNITS_TEXT] = "-";
	char live[LIMPET_UNITS_TEXT] = "-", dropped[LIMPET_UNITS_TEXT] = "-";
	char duration[LIMPET_UNITS_TEXT], part[LIMPET_UNITS_TEXT], line[PATH_MAX];
	const char *state = limpet_control_state_name(capture->state);

	if (!state)
		state = !geteuid() || capture->owner == geteuid() ? "no answer" : "no access";
	if (is_receiving(capture)) {
		limpet_units_format_duration(elapsed, capture->elapsed_ns);
	} else if (has_figures(capture)) {
		limpet_units_format_duration(part, capture->elapsed_ns);
		snprintf(elapsed, sizeof(elapsed), "%s%s%s", part, capture->duration_ns ? "/" : "",
			 capture->duration_ns
				 ? limpet_units_format_duration(duration, capture->duration_ns)
				 : "");
		limpet_units_format_count(events, capture->events);
		limpet_units_format_bytes(live, capture->live_bytes);
		limpet_units_format_count(dropped, capture->dropped_events);
	}
	snprintf(line, sizeof(line), "%7d  %-15.15s  %-9s  %13s  %7s  %10s  %7s", capture->pid,
		 capture->command[0] ? capture->command : "-", state, elapsed, events, live,
		 dropped);
	puts(limpet_ui_clean(line));
	if (capture->trace[0]) {
		snprintf(line, sizeof(line), "%s", capture->trace);
		printf("%*s%s\n", INDENT, "", limpet_ui_clean(line));
	}
	if (is_receiving(capture))
		print_received(capture);
	else if (has_figures(capture))
		print_marks(capture);
}

static void print_text(const struct captures *captures)
{
	if (captures->count == 0) {
		puts("no captures");
		return;
	}
	printf("%s%7s  %-15s  %-9s  %13s  %7s  %10s  %7s%s\n",
	       limpet_ui_style(stdout, LIMPET_UI_BOLD), "PID", "COMMAND", "STATE", "ELAPSED",
	       "EVENTS", "LIVE", "DROPPED", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (int i = 0; i < captures->count; i++)
		print_row(&captures->list[i]);
	/* The table first, even if both streams go to different places. */
	fflush(stdout);
	for (int i = 0; i < captures->count; i++) {
		const struct limpet_control_capture *capture = &captures->list[i];

		if (capture->state == LIMPET_CONTROL_DORMANT)
			limpet_ui_hint("limpet stop %d removes the agent that was left",
				       capture->pid);
		else if (capture->state == LIMPET_CONTROL_UNKNOWN && capture->owner != geteuid())
			limpet_ui_hint("captured by another user: sudo limpet status %d",
				       capture->pid);
	}
}

static int show(pid_t pid, bool json)
{
	struct captures captures = {0};
	struct limpet_err err = {0};
	int result = pid ? find_one(pid, &captures) : find_all(&captures);

	if (result == 0 && json)
		result = print_json(&captures);
	else if (result == 0)
		print_text(&captures);
	free(captures.list);
	if (result == -ENOENT) {
		if (json)
			puts("{\"captures\": []}");
		limpet_ui_not_captured(pid, &err);
		return limpet_ui_finish(limpet_ui_fail(&err, LIMPET_EXIT_FAILED));
	}
	if (result < 0)
		limpet_err_set(&err, result, "cannot list the captures: %s", strerror(-result));
	return limpet_ui_end(result, &err, LIMPET_EXIT_OK);
}

/* ------------------------------------------------------------------ the command line */

struct status_options {
	pid_t pid; /* 0: all */
	bool json;
};

static const struct limpet_option option_list[] = {
	LIMPET_LINE_FLAG("json", struct status_options, json,
			 "for programs; exact numbers, unknown is null"),
	{0},
};

static int parse_operands(int count, char **operands, void *context)
{
	return limpet_line_expect_pid("status", count, operands,
				      &((struct status_options *)context)->pid);
}

static const struct limpet_line command = {
	.name = "status",
	.takes = LIMPET_TAKES_CAPTURE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_operands = parse_operands,
};

int limpet_cmd_status(int argc, char **argv)
{
	struct status_options options = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	return show(options.pid, options.json);
}
