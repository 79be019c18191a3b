#include "cli/command_line.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/complete.h"
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

#define OPTIONS_MOST 32
/* The texts of options begin here, at most, and end there. */
#define COLUMN_MOST 30
#define WIDTH 80

static const struct limpet_option help_option = {"help", 'h', NULL, "this text", 'h', NULL};

/* What getopt_long() takes. */
struct tables {
	struct option options[OPTIONS_MOST + 2];
	char letters[2 * OPTIONS_MOST + 8];
};

static void add_option(struct tables *tables, size_t at, const struct limpet_option *option)
{
	const size_t used = strlen(tables->letters);

	tables->options[at] = (struct option){
		option->name, option->value ? required_argument : no_argument, NULL, option->id};
	if (option->letter)
		snprintf(tables->letters + used, sizeof(tables->letters) - used, "%c%s",
			 option->letter, option->value ? ":" : "");
}

static void make_tables(const struct limpet_line *command, struct tables *ret)
{
	size_t count = 0;

	*ret = (struct tables){.letters = ":"};
	if (command->ends_at_operand)
		strcpy(ret->letters, "+:");
	for (const struct limpet_option *option = command->options; option->name; option++) {
		assert(count < OPTIONS_MOST);
		add_option(ret, count++, option);
	}
	add_option(ret, count, &help_option);
}

/* ------------------------------------------------------------------ help */

static int left_part(const struct limpet_option *option, char ret[WIDTH])
{
	char letter[8] = "    ";

	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	return snprintf(ret, WIDTH, "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
			option->value ? option->value : "");
}

/* `text` from `column` on, broken at blanks. */
static void put_wrapped(FILE *to, const char *text, int at, int column)
{
	bool first = true;

	while (*text) {
		const int length = (int)strcspn(text, " ");

		if (!first && at + 1 + length > WIDTH) {
			fprintf(to, "\n%*s", column, "");
			at = column;
			first = true;
		}
		fprintf(to, "%s%.*s", first ? "" : " ", length, text);
		at += length + !first;
		first = false;
		text += length + (text[length] == ' ');
	}
	fputc('\n', to);
}

static void put_option(FILE *to, const struct limpet_option *option, int column)
{
	char left[WIDTH];
	const int used = left_part(option, left);
	const int gap = used + 2 <= column ? column - used : 2;

	if (!option->help)
		return;
	fprintf(to, "%s%*s", left, gap, "");
	put_wrapped(to, option->help, used + gap, column);
}

static int print_help(const struct limpet_line *command)
{
	char *text = NULL, left[WIDTH];
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int column = 0, status;

	for (const struct limpet_option *option = command->options; option->name; option++) {
		const int needed = option->help ? left_part(option, left) + 2 : 0;

		if (needed > column && needed <= COLUMN_MOST)
			column = needed;
	}
	if (column < left_part(&help_option, left) + 2)
		column = left_part(&help_option, left) + 2;
	if (to) {
		fprintf(to, "%s\n", command->usage);
		for (const struct limpet_option *option = command->options; option->name; option++)
			put_option(to, option, column);
		put_option(to, &help_option, column);
		if (command->end)
			fprintf(to, "\n%s", command->end);
	}
	if (!to || fclose(to) || !text) {
		free(text);
		return limpet_ui_fail(&(struct limpet_err){.code = -ENOMEM}, LIMPET_EXIT_FAILED);
	}
	status = limpet_ui_help(text);
	free(text);
	return status;
}

/* ------------------------------------------------------------------ parsing */

/* Reports what is wrong after getopt_long() returned '?' or ':', with the most similar option as a
 * hint. */
static int bad_option(const char *command, int answer, char *const *argv,
		      const struct limpet_option *options)
{
	/* optind is past a wrong long option, but still at a cluster such as -qx. */
	const char *word = optind > 0 ? argv[optind - 1] : "";
	bool is_long = !strncmp(word, "--", 2);
	int name_length = (int)strcspn(word, "=");
	const char *names[OPTIONS_MOST + 2], *nearest;
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

	for (; options->name; options++)
		names[count++] = options->name;
	names[count++] = help_option.name;
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
	struct tables tables;
	int option;

	arguments.count = argc;
	arguments.list = argv;
	*ret_status = LIMPET_EXIT_OK;
	if (argc > 1 && !strcmp(argv[1], LIMPET_LINE_COMPLETE)) {
		*ret_status = limpet_complete(command, argc - 2, argv + 2);
		return false;
	}
	make_tables(command, &tables);
	optind = 0; /* GNU: forget any earlier scan */
	while ((option = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
		if (option == 'h') {
			*ret_status = print_help(command);
			return false;
		}
		if (option == '?' || option == ':')
			*ret_status = bad_option(command->name, option, argv, command->options);
		else if (option == 'q')
			limpet_ui_set_quiet(true);
		else if (option == LIMPET_LINE_ID_DEBUG)
			limpet_debug_begin();
		else if (option >= LIMPET_LINE_FIRST_FLAG)
			((bool *)context)[option - LIMPET_LINE_FIRST_FLAG] = true;
		else
			*ret_status = command->parse_option(option, context);
		if (*ret_status != LIMPET_EXIT_OK)
			return false;
	}
	*ret_status = command->parse_operands(argc - optind, argv + optind, context);
	return *ret_status == LIMPET_EXIT_OK;
}

int limpet_line_expect_trace(const char *command, int count, char **operands, const char **ret_file)
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

int limpet_line_expect_pid(const char *command, int count, char **operands, pid_t *pid)
{
	if (count > 1)
		return limpet_ui_usage(
			command, "only one PID is accepted: unexpected argument '%s'", operands[1]);
	return count ? limpet_line_parse_pid(operands[0], pid) : LIMPET_EXIT_OK;
}
