/* The command line of a command: options, and a process or a trace. Main thread; what is wrong is
 * said on stderr. */
#ifndef LIMPET_CLI_COMMAND_LINE_H
#define LIMPET_CLI_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/options.h"

/* True: continue. False: exit with *ret_status, everything was printed. */
bool limpet_line_parse(const struct limpet_line *command, int argc, char **argv, void *context,
		       int *ret_status);

/* For parse_operands: exactly one trace; or at most one process. They return LIMPET_EXIT_OK, or
 * LIMPET_EXIT_USAGE after a message. */
int limpet_line_expect_trace(const char *command, int count, char **operands,
			     const char **ret_file);
int limpet_line_expect_pid(const char *command, int count, char **operands, pid_t *pid);

/* A process id from the command line. Returns LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message.
 */
int limpet_line_parse_pid(const char *text, pid_t *ret_pid);
/* Of a command that takes a PID or a FILE: whether it is the latter, there or not. A plain word
 * that is no file may be meant as the name of a process. */
bool limpet_line_is_trace(const char *operand);

#endif
