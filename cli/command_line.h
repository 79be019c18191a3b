/* The command line of a command: options, and a process or a trace. Main thread; what is wrong is
 * said on stderr. */
#ifndef LIMPET_CLI_COMMAND_LINE_H
#define LIMPET_CLI_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* An option of a command: getopt_long's tables, the help and what a shell completes are made of
 * these. A list of them ends with {0}; each command has -h, --help besides. */
struct limpet_option {
	const char *name;
	char letter;              /* the short option; 0: there is none */
	const char *value;        /* in the help; NULL: a flag */
	const char *help;         /* broken into lines where it is shown; NULL: for limpet itself */
	int id;                   /* for take_option, or of LIMPET_LINE_FLAG */
	const char *const *words; /* that the value may be, up to NULL; NULL: any */
};

/* How to parse the command line of a command: limpet_line_parse() handles -h, -q, --debug and
 * flags, the command itself the rest, into a struct of its own (`context`). The functions return
 * LIMPET_EXIT_OK, or an exit status after a message. */
struct limpet_line {
	const char *name;
	const char *usage, *end; /* the help before the options, and behind them */
	const struct limpet_option *options;
	/* An option that is not a flag, with its value in optarg. NULL: there are none. */
	int (*take_option)(int option, void *context);
	/* The operands; also checks everything together. */
	int (*take_operands)(int count, char **operands, void *context);
	bool ends_at_operand; /* what follows the first operand is another command's */
};

/* Sets `member`, a bool of the context, which is a `type`. */
#define LIMPET_LINE_FLAG(name, type, member, help)                                              \
	{                                                                                       \
		name, 0, NULL, help, LIMPET_LINE_FIRST_FLAG + (int)offsetof(type, member), NULL \
	}
#define LIMPET_LINE_FIRST_FLAG 0x1000
/* Taken, for scripts, and not offered. */
#define LIMPET_LINE_HIDDEN(name, letter, argument, id) \
	{                                              \
		name, letter, argument, NULL, id, NULL \
	}
/* --debug, of commands that touch a process (cli/debug.h). limpet_line_parse() handles it, and
 * -q. */
#define LIMPET_LINE_DEBUG                                                                    \
	{                                                                                    \
		"debug", 0, NULL, "each step in the process, on standard error", 0xfff, NULL \
	}
#define LIMPET_LINE_QUIET(help)                     \
	{                                           \
		"quiet", 'q', NULL, help, 'q', NULL \
	}

/* `limpet COMMAND --complete` prints its options for the completion of a shell, one a line: long
 * name, short one, value, and the words that this may be, with '|' between. */
#define LIMPET_LINE_COMPLETE "--complete"

/* True: continue. False: exit with *ret_status, everything was printed. */
bool limpet_line_parse(const struct limpet_line *command, int argc, char **argv, void *context,
		       int *ret_status);

/* For take_operands: exactly one trace; or at most one process. They return LIMPET_EXIT_OK, or
 * LIMPET_EXIT_USAGE after a message. */
int limpet_line_take_trace(const char *command, int count, char **operands, const char **ret_file);
int limpet_line_take_pid(const char *command, int count, char **operands, pid_t *pid);

/* A process id from the command line. Returns LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message.
 */
int limpet_line_parse_pid(const char *text, pid_t *ret_pid);
/* Of a command that takes a PID or a FILE: whether it is the latter, there or not. A plain word
 * that is no file may be meant as the name of a process. */
bool limpet_line_is_trace(const char *operand);

#endif
