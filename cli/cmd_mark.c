/* `limpet mark`: names the present moment of a running capture, from any terminal. */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/ui.h"
#include "collector/control/control_client.h"
#include "common/mark_name.h"
#include "common/units.h"

static const char help_usage[] =
	"Usage: limpet mark [OPTIONS] PID NAME\n"
	"Sets a mark in the running capture of a process: a name for this moment, in the\n"
	"trace. Works from any terminal.\n";
static const char help_end[] =
	"NAME has 1 to 64 bytes, is not a time, and is set once in a capture.\n"
	"Exit status: 0 done, 1 not captured or refused, 2 usage. More: man limpet-mark\n";

struct mark_options {
	pid_t pid;
	const char *name;
	bool json;
};

static const struct limpet_option option_list[] = {
	LIMPET_LINE_FLAG("json", struct mark_options, json, "for programs"),
	{0},
};

static int parse_operands(int count, char **operands, void *context)
{
	struct mark_options *o = context;
	struct limpet_err err;
	const char *why;
	int status = count ? limpet_line_parse_pid(operands[0], &o->pid) : LIMPET_EXIT_OK;

	if (status != LIMPET_EXIT_OK)
		return status;
	if (count < 2) {
		limpet_err_set(&err, -EINVAL, "mark: missing %s", count ? "NAME" : "PID");
		limpet_err_hint(&err, "limpet mark PID NAME; `limpet status` lists the captures");
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	if (count > 2)
		return limpet_ui_usage(
			"mark", "only one name is accepted; unexpected argument '%s'", operands[2]);
	o->name = operands[1];
	why = limpet_mark_name_refuse(o->name);
	return why ? limpet_ui_usage("mark", "the name '%s' %s", o->name, why) : LIMPET_EXIT_OK;
}

static const struct limpet_line command = {
	.name = "mark",
	.takes = LIMPET_TAKES_CAPTURE,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_operands = parse_operands,
};

static int mark(const struct mark_options *o)
{
	struct limpet_err err = {0};
	char text[LIMPET_UNITS_TEXT];
	uint64_t time_ns = 0;
	int result = limpet_control_mark(o->pid, o->name, &time_ns, &err);

	if (result == -ENOENT)
		limpet_ui_not_captured(o->pid, &err);
	if (result == 0 && o->json)
		return limpet_json_output(json_pack("{s:i, s:s, s:f}", "pid", (int)o->pid, "name",
						    o->name, "time_s", (double)time_ns / 1e9),
					  LIMPET_EXIT_OK);
	if (result == 0)
		printf("mark '%s' at %s\n", o->name, limpet_units_format_time(text, time_ns));
	return limpet_ui_end(result, &err, LIMPET_EXIT_OK);
}

int limpet_cmd_mark(int argc, char **argv)
{
	struct mark_options options = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &options, &status))
		return status;
	return mark(&options);
}
