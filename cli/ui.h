/* Talking to people: errors, hints, notes and help, on the right stream and in the right width.
 *
 * Data goes to stdout by stdio; everything here but limpet_ui_help() goes to stderr. Text may hold
 * bytes from a target or a file: control characters and broken UTF-8 become '?' on the way, so that
 * no name can steer a terminal. Main thread only. errno is preserved. */
#ifndef LIMPET_CLI_UI_H
#define LIMPET_CLI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

/* ------------------------------------------------------------------ messages */

/* `limpet: MESSAGE`, then `hint: HINT` if there is one. Shown even when quiet. An err without a
 * message but with a code says what the code means. */
void limpet_ui_error(const struct limpet_err *err);
/* The same, and answers `status`: for `return limpet_ui_fail(&err, LIMPET_EXIT_FAILED)`. */
int limpet_ui_fail(const struct limpet_err *err, int status);

/* For a wrong command line: `limpet: MESSAGE`, then `hint: limpet COMMAND --help`. `command` may be
 * NULL (the program itself). Answers LIMPET_EXIT_USAGE, so `return limpet_ui_usage(...)`. For
 * another hint use limpet_ui_fail(). */
int limpet_ui_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A process id from the command line. Answers LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message.
 */
int limpet_ui_parse_pid(const char *text, pid_t *ret_pid);

/* Why the capture of a process was not found, into *err. Answers its code. */
int limpet_ui_not_captured(pid_t pid, struct limpet_err *err);

/* ------------------------------------------------------------------ command lines */

/* How the command line of a command is read: -h, -q and flags by limpet_ui_parse(), the rest by the
 * command itself, into a struct of its own (`context`). These answer LIMPET_EXIT_OK, or after a
 * message a status to exit with. */
struct limpet_ui_command {
	const char *name, *help;
	const char *short_options; /* for getopt_long(): begins with ':' or "+:", and has 'h' */
	const struct option *long_options;
	/* One that is no flag, with its value in optarg. NULL: there are none. */
	int (*take_option)(int option, void *context);
	/* What follows the options; checks them all together, too. */
	int (*take_operands)(int count, char **operands, void *context);
};

/* A row of long_options: sets `member`, a bool of the context, which is a `type`. */
#define LIMPET_UI_FLAG(name, type, member)                                                  \
	{                                                                                   \
		name, no_argument, NULL, LIMPET_UI_FIRST_FLAG + (int)offsetof(type, member) \
	}
#define LIMPET_UI_FIRST_FLAG 0x1000

/* True: go on. False: exit with *ret_status, everything is said. */
bool limpet_ui_parse(const struct limpet_ui_command *command, int argc, char **argv, void *context,
		     int *ret_status);

/* For take_operands: the one trace; or no process or one, none if *pid is set already. Answer
 * LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message. */
int limpet_ui_take_trace(const char *command, int count, char **operands, const char **ret_file);
int limpet_ui_take_pid(const char *command, int count, char **operands, pid_t *pid);

/* ------------------------------------------------------------------ notes */

/* `limpet: MESSAGE`: something went well or is about to happen; nothing when quiet. */
void limpet_ui_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `limpet: warning: MESSAGE`; shown even when quiet. */
void limpet_ui_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `hint: MESSAGE`: the next command to type; nothing when quiet. */
void limpet_ui_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Of -q; off at the start. */
void limpet_ui_set_quiet(bool quiet);
bool limpet_ui_is_quiet(void);

/* Called before each message, so that a live line can take itself off the screen. NULL: none. */
void limpet_ui_set_before_message(void (*call)(void *context), void *context);

/* ------------------------------------------------------------------ help and data */

/* Writes `text` to stdout and answers LIMPET_EXIT_OK, or LIMPET_EXIT_FAILED after a message when it
 * could not be written. For --help. */
int limpet_ui_help(const char *text);

/* Flushes stdout at the end of a command; answers `status`, or LIMPET_EXIT_FAILED after a message
 * if anything written to stdout was lost (full disk). */
int limpet_ui_finish(int status);
/* The same where `result` is not negative; else says `err` and answers LIMPET_EXIT_FAILED. */
int limpet_ui_end(int result, const struct limpet_err *err, int status);

/* ------------------------------------------------------------------ terminals */

enum limpet_ui_style {
	LIMPET_UI_PLAIN = 0, /* ends any other */
	LIMPET_UI_BOLD,
	LIMPET_UI_DIM,
	LIMPET_UI_RED,
	LIMPET_UI_YELLOW,
	LIMPET_UI_GREEN
};

/* True if `stream` is a terminal that wants colours: NO_COLOR empty or unset, TERM set, not dumb.
 */
bool limpet_ui_has_colour(FILE *stream);
/* The escape sequence for `style` on `stream`; "" where there are no colours. Static text. */
const char *limpet_ui_style(FILE *stream, enum limpet_ui_style style);

/* Columns of the terminal behind `fd` (20 at least); 80 where that is unknown or no terminal. */
int limpet_ui_width(int fd);

/* ------------------------------------------------------------------ text */

/* Makes `text` safe to show, in place: control characters (newline and tab too) and bytes that are
 * not UTF-8 become '?'. Answers `text`. */
char *limpet_ui_clean(char *text);

/* The word of the NULL-terminated list that `word` was most likely meant to be, or NULL if none is
 * near: a unique prefix, or at most two slips (one for short words) away. */
const char *limpet_ui_nearest(const char *word, const char *const *list);

#endif
