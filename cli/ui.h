/* Talking to people: errors, hints, notes and help, on the right stream and in the right width.
 *
 * Data goes to stdout by stdio; everything here but limpet_ui_help() goes to stderr. Text may hold
 * bytes from a target or a file: control characters and broken UTF-8 become '?' on the way, so that
 * no name can steer a terminal. Main thread only. errno is preserved. */
#ifndef LIMPET_CLI_UI_H
#define LIMPET_CLI_UI_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

/* ------------------------------------------------------------------ messages */

/* `limpet: MESSAGE`, then `hint: HINT` if there is one. Shown even when quiet. An err without a
 * message but with a code says what the code means. */
void limpet_ui_error(const struct limpet_err *err);

/* For a wrong command line: `limpet: MESSAGE`, then `hint: limpet COMMAND --help`. `command` may be
 * NULL (the program itself). Answers LIMPET_EXIT_USAGE, so `return limpet_ui_usage(...)`. For
 * another hint use limpet_ui_error() and return LIMPET_EXIT_USAGE. */
int limpet_ui_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* For getopt_long() with `opterr = 0` and an optstring that starts with ':' (or "+:"): says what is
 * wrong after it answered '?' or ':', with the nearest option as a hint. Answers LIMPET_EXIT_USAGE.
 */
struct option;
int limpet_ui_bad_option(const char *command, int answer, char *const *argv,
			 const struct option *options);

/* A process id from the command line. Answers LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message.
 */
int limpet_ui_parse_pid(const char *text, pid_t *ret_pid);

/* What a command says of its options. */
struct limpet_ui_command {
	const char *name, *help;
	const char *short_options; /* begins with ':' and has 'h' */
	const struct option *long_options;
};
/* Is given each option, with getopt's optarg. Answers LIMPET_EXIT_OK, or a status to exit with. */
typedef int limpet_ui_take_option(int option, void *context);
/* True: all options are taken, go on. False: exit with *ret_status, everything is said. */
bool limpet_ui_parse_options(const struct limpet_ui_command *command, int argc, char **argv,
			     limpet_ui_take_option *take, void *context, int *ret_status);

/* The one trace of a command line whose options are parsed (getopt's optind). Answers
 * LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message. */
int limpet_ui_take_trace(const char *command, int argc, char **argv, const char **ret_file);

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
