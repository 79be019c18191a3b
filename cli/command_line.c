#include "cli/command_line.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/debug.h"
#include "cli/pid_hint.h"
#include "cli/ui.h"
#include "common/err.h"

/* The command whose options were parsed, and what follows it. */
static struct {
	int count;
	char **list;
} arguments = {1, (char *[]){(char[]){""}}};

int limpet_line_parse_pid(const char *text, pid_t *ret_pid)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > INT_MAX)
		return limpet_fail_pid(arguments.list, arguments.count, text);
	*ret_pid = (pid_t)value;
	return LIMPET_EXIT_OK;
}

bool limpet_line_is_trace(const char *operand)
{
	return operand[strspn(operand, "0123456789")] &&
	       (strpbrk(operand, "./") || access(operand, F_OK) == 0);
}

/* Reports what is wrong after getopt_long() returned '?' or ':', with the most similar option as a
 * hint. */
static int bad_option(const char *command, int answer, char *const *argv,
		      const struct option *options)
{
	/* optind is past a wrong long option, but still at a cluster such as -qx. */
	const char *word = optind > 0 ? argv[optind - 1] : "";
	bool is_long = !strncmp(word, "--", 2);
	int name_length = (int)strcspn(word, "=");
	const char *names[64], *nearest;
	char name[64];
	size_t count = 0;

	if (answer == ':') {
		if (is_long)
			return limpet_ui_usage(command, "option '%s' needs a value", word);
		return limpet_ui_usage(command, "option '-%c' needs a value", optopt);
	}
	if (optopt && is_long)
		return limpet_ui_usage(command, "option '%.*s' takes no value", name_length, word);
	if (optopt)
		return limpet_ui_usage(command, "unknown option '-%c'", optopt);

	for (; options->name && count + 1 < LIMPET_COUNT_OF(names); options++)
		names[count++] = options->name;
	names[count] = NULL;
	snprintf(name, sizeof(name), "%.*s", name_length - 2, word + 2);
	nearest = limpet_ui_nearest(name, names);
	if (!nearest)
		return limpet_ui_usage(command, "unknown option '%.*s'", name_length, word);
	return limpet_ui_usage(command, "unknown option '%.*s'; did you mean --%s?", name_length,
			       word, nearest);
}

bool limpet_line_parse(const struct limpet_line *command, int argc, char **argv, void *context,
		       int *ret_status)
{
	int option;

	arguments.count = argc;
	arguments.list = argv;
	*ret_status = LIMPET_EXIT_OK;
	optind = 0; /* GNU: forget any earlier scan */
	while ((option = getopt_long(argc, argv, command->short_options, command->long_options,
				     NULL)) != -1) {
		if (option == 'h') {
			*ret_status = limpet_ui_help(command->help);
			return false;
		}
		if (option == '?' || option == ':')
			*ret_status =
				bad_option(command->name, option, argv, command->long_options);
		else if (option == 'q')
			limpet_ui_set_quiet(true);
		else if (option == LIMPET_LINE_DEBUG)
			limpet_debug_begin();
		else if (option >= LIMPET_LINE_FIRST_FLAG)
			((bool *)context)[option - LIMPET_LINE_FIRST_FLAG] = true;
		else
			*ret_status = command->take_option(option, context);
		if (*ret_status != LIMPET_EXIT_OK)
			return false;
	}
	*ret_status = command->take_operands(argc - optind, argv + optind, context);
	return *ret_status == LIMPET_EXIT_OK;
}

int limpet_line_take_trace(const char *command, int count, char **operands, const char **ret_file)
{
	if (!count)
		return limpet_ui_usage(command, "which trace?");
	if (count > 1)
		return limpet_ui_usage(command,
				       "only one trace is accepted: unexpected argument '%s'",
				       operands[1]);
	*ret_file = operands[0];
	return limpet_check_trace(arguments.list, arguments.count, operands[0]);
}

int limpet_line_take_pid(const char *command, int count, char **operands, pid_t *pid)
{
	if (count > 1)
		return limpet_ui_usage(
			command, "only one PID is accepted: unexpected argument '%s'", operands[1]);
	return count ? limpet_line_parse_pid(operands[0], pid) : LIMPET_EXIT_OK;
}
