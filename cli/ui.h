/* Messages to the user: errors, hints, notes and help, on the right stream and in the right width.
 *
 * Data goes to stdout by stdio; everything here except limpet_ui_help() goes to stderr. Text may
 * contain bytes from a target or a file: control characters and invalid UTF-8 are replaced by '?',
 * so that no name can control a terminal. Main thread only. Preserves errno. */
#ifndef LIMPET_CLI_UI_H
#define LIMPET_CLI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/err.h"

/* ------------------------------------------------------------------ messages */

/* `limpet: MESSAGE`, then `hint: HINT` if there is one. Shown even with -q. For an err without a
 * message but with a code it prints the meaning of the code. */
void limpet_ui_error(const struct limpet_err *err);
/* The same, and returns `status`: for `return limpet_ui_fail(&err, LIMPET_EXIT_FAILED)`. */
int limpet_ui_fail(const struct limpet_err *err, int status);

/* For a wrong command line: `limpet: MESSAGE`, then `hint: limpet COMMAND --help`. `command` may be
 * NULL (the program itself). Returns LIMPET_EXIT_USAGE, so `return limpet_ui_usage(...)`. For
 * another hint use limpet_ui_fail(). */
int limpet_ui_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets *err to the reason why the capture of a process, whose number was typed, was not found.
 * Returns its code. */
int limpet_ui_not_captured(pid_t pid, struct limpet_err *err);

/* ------------------------------------------------------------------ notes */

/* `limpet: MESSAGE`: something succeeded or is about to happen; not shown with -q. */
void limpet_ui_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `limpet: warning: MESSAGE`; shown even with -q. */
void limpet_ui_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* `hint: MESSAGE`: a command to type next; not shown with -q. */
void limpet_ui_hint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Set by -q; off at the start. */
void limpet_ui_set_quiet(bool quiet);
bool limpet_ui_is_quiet(void);

/* A line that says what limpet is busy with, on a terminal; not with -q. NULL erases it, which must
 * come before anything else is printed. */
void limpet_ui_busy(const char *text);

/* Called before each message, so that a live line can erase itself. NULL: none. */
void limpet_ui_set_before_message(void (*call)(void *context), void *context);

/* ------------------------------------------------------------------ help and data */

/* Writes `text` to stdout, through a pager if it is longer than the terminal, and returns
 * LIMPET_EXIT_OK, or LIMPET_EXIT_FAILED after a message if it could not be written. For --help. */
int limpet_ui_help(const char *text);

/* Flushes stdout at the end of a command; returns `status`, or LIMPET_EXIT_FAILED after a message
 * if anything written to stdout was lost (full disk). */
int limpet_ui_finish(int status);
/* The same if `result` is not negative; otherwise prints `err` and returns LIMPET_EXIT_FAILED. */
int limpet_ui_end(int result, const struct limpet_err *err, int status);

/* ------------------------------------------------------------------ terminals */

enum limpet_ui_style {
	LIMPET_UI_PLAIN = 0, /* ends any other style */
	LIMPET_UI_BOLD,
	LIMPET_UI_DIM,
	LIMPET_UI_RED,
	LIMPET_UI_YELLOW,
	LIMPET_UI_GREEN
};

/* Whether `stream` is a terminal that wants colours: NO_COLOR empty or unset, TERM set, not dumb.
 */
bool limpet_ui_has_colour(FILE *stream);
/* The escape sequence for `style` on `stream`; "" without colours. Static text. */
const char *limpet_ui_style(FILE *stream, enum limpet_ui_style style);

/* Columns of the terminal behind `fd` (at least 20); 80 if unknown or not a terminal. */
int limpet_ui_width(int fd);

/* ------------------------------------------------------------------ text */

/* Makes `text` safe to print, in place: control characters (including newline and tab) and bytes
 * that are not UTF-8, and what turns the direction of text, become '?'. Returns `text`. */
char *limpet_ui_clean(char *text);

/* The same, and cuts it in place to `columns` if stdout is a terminal: a pipe or a file gets all of
 * it. Ends with "..." if it was cut. Returns `text`. */
char *limpet_ui_cut(char *text, int columns);

/* The name of a user, or else the number. Returns `buffer`. The database of users may be remote. */
const char *limpet_ui_user(uid_t uid, char *buffer, size_t room);

/* Prints `text` to stdout, broken at blanks so that it fits `width` columns, and a newline. The
 * first line starts at the cursor, which is at column `margin`; the others are indented by it.
 * Changes `text`. */
void limpet_ui_wrap(char *text, int margin, int width);
/* The same of a sentence, cleaned, on a line of its own. */
void limpet_ui_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The word of the NULL-terminated list that `word` was probably meant to be, or NULL if none is
 * similar: a unique prefix, or at most two errors (one for short words). */
const char *limpet_ui_nearest(const char *word, const char *const *list);

#endif
