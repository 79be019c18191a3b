/* What the command line of a command is made of: options and operands, as a table. */
#ifndef LIMPET_CLI_OPTIONS_H
#define LIMPET_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* An option of a command: getopt_long's tables (cli/command_line.h), the help and what a shell
 * completes (cli/complete.h) are made of these. A list of them ends with {0}; each command has -h,
 * --help besides. */
struct limpet_option {
	const char *name;
	char letter;              /* the short option; 0: there is none */
	const char *value;        /* in the help; NULL: a flag */
	const char *help;         /* broken into lines where it is shown; NULL: for limpet itself */
	int id;                   /* for parse_option, or of LIMPET_LINE_FLAG */
	const char *const *words; /* that the value may be, up to NULL; NULL: any */
};

/* How to parse the command line of a command: limpet_line_parse() handles -h, -q, --debug and
 * flags, the command itself the rest, into a struct of its own (`context`). The functions return
 * LIMPET_EXIT_OK, or an exit status after a message. */
struct limpet_line {
	const char *name;
	const char *usage, *end; /* the help before the options, and behind them (NULL: nothing) */
	const struct limpet_option *options;
	/* An option that is not a flag, with its value in optarg. NULL: there are none. */
	int (*parse_option)(int option, void *context);
	/* The operands; also checks everything together. */
	int (*parse_operands)(int count, char **operands, void *context);
	bool ends_at_operand; /* what follows the first operand is another command's */
	unsigned takes;       /* LIMPET_TAKES_*: what a shell completes */
};

#define LIMPET_TAKES_PROCESS 0x1u
#define LIMPET_TAKES_CAPTURE 0x2u /* a process that is captured */
#define LIMPET_TAKES_TRACE 0x4u
#define LIMPET_TAKES_COMMAND 0x8u
#define LIMPET_TAKES_TWO 0x10u /* of these */

/* Sets `member`, a bool of the context, which is a `type`. */
#define LIMPET_LINE_FLAG(name, type, member, help)                                              \
	{                                                                                       \
		name, 0, NULL, help, LIMPET_LINE_FIRST_FLAG + (int)offsetof(type, member), NULL \
	}
#define LIMPET_LINE_FIRST_FLAG 0x1000
/* Accepted, for scripts, but neither in the help nor completed. */
#define LIMPET_LINE_HIDDEN(name, letter, argument, id) \
	{                                              \
		name, letter, argument, NULL, id, NULL \
	}
#define LIMPET_LINE_ID_DEBUG 0xfff
/* --debug, of commands that touch a process (cli/debug.h). limpet_line_parse() handles it, and
 * -q. */
#define LIMPET_LINE_DEBUG                                                        \
	{                                                                        \
		"debug", 0, NULL, "each step in the process, on standard error", \
			LIMPET_LINE_ID_DEBUG, NULL                               \
	}
#define LIMPET_LINE_QUIET(help)                     \
	{                                           \
		"quiet", 'q', NULL, help, 'q', NULL \
	}

/* What follows it are words for limpet_complete() (cli/complete.h). */
#define LIMPET_LINE_COMPLETE "--complete"

#endif
