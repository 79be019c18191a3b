/* The command line of a command: options, and a process or a trace. Main thread; what is wrong is
 * said on stderr. */
#ifndef LIMPET_CLI_COMMAND_LINE_H
#define LIMPET_CLI_COMMAND_LINE_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* How to parse the command line of a command: limpet_line_parse() handles -h, -q, --debug and
 * flags, the command itself the rest, into a struct of its own (`context`). The functions return
 * LIMPET_EXIT_OK, or an exit status after a message. */
struct limpet_line {
	const char *name, *help;
	const char *short_options; /* for getopt_long(): begins with ':' or "+:", and has 'h' */
	const struct option *long_options;
	/* An option that is not a flag, with its value in optarg. NULL: there are none. */
	int (*take_option)(int option, void *context);
	/* The operands; also checks everything together. */
	int (*take_operands)(int count, char **operands, void *context);
};

/* A row of long_options: sets `member`, a bool of the context, which is a `type`. */
#define LIMPET_LINE_FLAG(name, type, member)                                                  \
	{                                                                                     \
		name, no_argument, NULL, LIMPET_LINE_FIRST_FLAG + (int)offsetof(type, member) \
	}
#define LIMPET_LINE_FIRST_FLAG 0x1000
/* --debug, of commands that touch a process (cli/debug.h). limpet_line_parse() handles it. */
#define LIMPET_LINE_DEBUG 0xfff

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
