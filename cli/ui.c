#include "cli/ui.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#include "analyzer/text/report_printer.h"
#include "cli/pager.h"
#include "common/plain_text.h"

#define HINT "hint: "
/* Further lines of a message: below the text after "limpet: ". */
#define MESSAGE_MARGIN 8

static struct {
	bool quiet;
	void (*before_message)(void *context);
	void *before_message_context;
} ui;

void limpet_ui_set_quiet(bool quiet)
{
	ui.quiet = quiet;
}

bool limpet_ui_is_quiet(void)
{
	return ui.quiet;
}

void limpet_ui_busy(const char *text)
{
	const int error = errno;

	if (!ui.quiet && isatty(STDERR_FILENO)) {
		fprintf(stderr, "\r%s\x1b[K", text ? text : "");
		fflush(stderr);
	}
	errno = error;
}

void limpet_ui_set_before_message(void (*call)(void *context), void *context)
{
	ui.before_message = call;
	ui.before_message_context = context;
}

const char *limpet_ui_user(uid_t uid, char *buffer, size_t room)
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(buffer, room, "%s", entry->pw_name);
	else
		snprintf(buffer, room, "%u", uid);
	return buffer;
}

char *limpet_ui_clean(char *text)
{
	return limpet_plain_text_clean(text);
}

char *limpet_ui_cut(char *text, int columns)
{
	limpet_ui_clean(text);
	if (isatty(STDOUT_FILENO))
		limpet_printer_cut(text, (size_t)columns, false);
	return text;
}

/* The end of what is not broken: a word, or a command in backquotes. */
static char *end_of_word(char *word)
{
	char *end = word + strcspn(word, " "), *quote = memchr(word, '`', (size_t)(end - word));
	char *closing = quote ? strchr(quote + 1, '`') : NULL;

	return closing ? end_of_word(closing + 1) : end;
}

/* Breaks `text` at blanks; keeps those inside a line, which may belong to a path. The cursor is at
 * column `at`; further lines are indented by `margin`. */
static void wrap(FILE *file, char *text, int at, int margin, int width)
{
	bool fresh = true;

	if (width < margin + 20)
		width = margin + 20;
	for (char *next = text; *next;) {
		int blanks = (int)strspn(next, " "), columns;
		char *word = next + blanks, *end = end_of_word(word), after = *end;

		if (word == end)
			break;
		*end = '\0';
		columns = (int)limpet_plain_text_columns(word);
		if (!fresh && at + blanks + columns > width) {
			fprintf(file, "\n%*s", margin, "");
			at = margin;
			fresh = true;
		}
		if (fresh)
			blanks = 0;
		fprintf(file, "%*s%s", blanks, "", word);
		at += blanks + columns;
		fresh = false;
		*end = after;
		next = end;
	}
	fputc('\n', file);
}

void limpet_ui_wrap(char *text, int margin, int width)
{
	wrap(stdout, text, margin, margin, width);
}

void limpet_ui_say(const char *format, ...)
{
	char text[1200];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	limpet_ui_wrap(limpet_ui_clean(text), 0, limpet_ui_width(STDOUT_FILENO));
}

bool limpet_ui_has_colour(FILE *stream)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	int saved = errno;
	bool terminal = isatty(fileno(stream));

	errno = saved;
	return terminal && !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
}

const char *limpet_ui_style(FILE *stream, enum limpet_ui_style style)
{
	static const char *const sequences[] = {
		[LIMPET_UI_PLAIN] = "\033[0m",   [LIMPET_UI_BOLD] = "\033[1m",
		[LIMPET_UI_DIM] = "\033[2m",     [LIMPET_UI_RED] = "\033[31m",
		[LIMPET_UI_YELLOW] = "\033[33m", [LIMPET_UI_GREEN] = "\033[32m",
	};

	return limpet_ui_has_colour(stream) ? sequences[style] : "";
}

int limpet_ui_width(int fd)
{
	struct winsize size;
	int saved = errno;
	int failed = ioctl(fd, TIOCGWINSZ, &size);

	errno = saved;
	if (failed || size.ws_col == 0)
		return 80;
	return size.ws_col < 20 ? 20 : size.ws_col;
}

/* Whether all commands in a hint are in backquotes: one that may be a command itself is not broken,
 * so that it can be copied. */
static bool is_prose(const char *hint)
{
	static const char *const commands[] = {"limpet ", "sudo ", " -", "/", "=",
					       "<",       ">",     "|",  "$"};
	bool quoted = false;

	for (const char *at = hint; *at; at++) {
		quoted ^= *at == '`';
		for (size_t i = 0; !quoted && i < LIMPET_COUNT_OF(commands); i++)
			if (!strncmp(at, commands[i], strlen(commands[i])))
				return false;
	}
	return true;
}

/* Writes one message to stderr. A terminal gets it in lines that fit. In a background job of a
 * terminal with `stty tostop` the write would stop limpet, and a stopped collector would lose
 * events: with SIGTTOU blocked the kernel allows the write. */
static void emit(const char *label, enum limpet_ui_style style, char *text)
{
	const bool hint = !strcmp(label, HINT);
	sigset_t block, before;

	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &block, &before);
	if (ui.before_message)
		ui.before_message(ui.before_message_context);
	fprintf(stderr, "%s%s%s", limpet_ui_style(stderr, style), label,
		limpet_ui_style(stderr, LIMPET_UI_PLAIN));
	limpet_ui_clean(text);
	if (isatty(STDERR_FILENO) && (!hint || is_prose(text)))
		wrap(stderr, text, (int)strlen(label), hint ? (int)strlen(HINT) : MESSAGE_MARGIN,
		     limpet_ui_width(STDERR_FILENO));
	else
		fprintf(stderr, "%s\n", text);
	fflush(stderr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((format(printf, 3, 0))) static void emit_format(const char *label,
							      enum limpet_ui_style style,
							      const char *format, va_list args)
{
	char text[1024];
	int saved = errno;

	vsnprintf(text, sizeof(text), format, args);
	emit(label, style, text);
	errno = saved;
}

void limpet_ui_error(const struct limpet_err *err)
{
	char text[sizeof(err->message) > sizeof(err->hint) ? sizeof(err->message)
							   : sizeof(err->hint)];
	int saved = errno;

	snprintf(text, sizeof(text), "%s", err->message[0] ? err->message : strerror(-err->code));
	emit("limpet: ", LIMPET_UI_RED, text);
	if (err->hint[0]) {
		snprintf(text, sizeof(text), "%s", err->hint);
		emit(HINT, LIMPET_UI_GREEN, text);
	}
	errno = saved;
}

int limpet_ui_fail(const struct limpet_err *err, int status)
{
	limpet_ui_error(err);
	return status;
}

int limpet_ui_usage(const char *command, const char *format, ...)
{
	struct limpet_err err = {.code = -EINVAL};
	va_list args;

	va_start(args, format);
	vsnprintf(err.message, sizeof(err.message), format, args);
	va_end(args);
	limpet_err_hint(&err, "limpet %s%s--help", command ? command : "", command ? " " : "");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

int limpet_ui_not_captured(pid_t pid, struct limpet_err *err)
{
	if (kill(pid, 0) < 0 && errno == ESRCH) {
		limpet_err_set(err, -ESRCH, "there is no process %d", pid);
		limpet_err_hint(err, "`limpet status` lists the captures");
	} else {
		limpet_err_set(err, -ENOENT, "process %d is not being captured", pid);
		limpet_err_hint(err, "limpet attach %d", pid);
	}
	return err->code;
}

void limpet_ui_note(const char *format, ...)
{
	va_list args;

	if (ui.quiet)
		return;
	va_start(args, format);
	emit_format("limpet: ", LIMPET_UI_DIM, format, args);
	va_end(args);
}

void limpet_ui_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	emit_format("limpet: warning: ", LIMPET_UI_YELLOW, format, args);
	va_end(args);
}

void limpet_ui_hint(const char *format, ...)
{
	va_list args;

	if (ui.quiet)
		return;
	va_start(args, format);
	emit_format(HINT, LIMPET_UI_GREEN, format, args);
	va_end(args);
}

int limpet_ui_help(const char *text)
{
	struct limpet_pager pager;
	int status;

	limpet_pager_begin(&pager, true);
	fputs(text, stdout);
	status = limpet_ui_finish(LIMPET_EXIT_OK);
	limpet_pager_end(&pager);
	return status;
}

int limpet_ui_finish(int status)
{
	struct limpet_err err;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	limpet_err_set(&err, -EIO, "cannot write to standard output: %s",
		       errno ? strerror(errno) : "an earlier write failed");
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

int limpet_ui_end(int result, const struct limpet_err *err, int status)
{
	return result < 0 ? limpet_ui_fail(err, LIMPET_EXIT_FAILED) : limpet_ui_finish(status);
}

/* Insertions, deletions, changes and swaps of neighbours between two short words. */
static unsigned slips(const char *a, const char *b)
{
	enum { MAX = 31 };
	unsigned row[3][MAX + 1];
	size_t a_length = strlen(a), b_length = strlen(b);

	if (a_length > MAX || b_length > MAX)
		return MAX;
	for (size_t j = 0; j <= b_length; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned *now = row[i % 3], *above = row[(i + 2) % 3], *swap = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    swap[j - 2] + 1 < best)
				best = swap[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a_length % 3][b_length];
}

const char *limpet_ui_nearest(const char *word, const char *const *list)
{
	const char *best = NULL, *prefixed = NULL;
	unsigned best_slips = strlen(word) <= 3 ? 1 : 2, prefixes = 0;

	for (; *list; list++) {
		unsigned count = slips(word, *list);

		if (*word && !strncmp(word, *list, strlen(word))) {
			prefixed = *list;
			prefixes++;
		}
		if (count < best_slips || (count == best_slips && !best)) {
			best = *list;
			best_slips = count;
		}
	}
	return prefixes == 1 ? prefixed : best;
}
