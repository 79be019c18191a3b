#include "cli/pid_hint.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/text/report_printer.h"
#include "cli/shell_word.h"
#include "cli/ui.h"
#include "collector/control/control_client.h"
#include "common/base_name.h"
#include "common/plain_text.h"
#include "common/units.h"
#include "injector/proc/processes.h"

#define ROWS_SHOWN 10u
#define DAY_S 86400
/* Of a row before the command line. */
#define BEFORE_COMMAND 42

struct match {
	pid_t pid;
	uid_t uid;
	uint64_t rss_bytes;
};

static int by_rss(const void *a, const void *b)
{
	const struct match *x = a, *y = b;

	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* By its own name, of which the kernel keeps 15 bytes, or that of its file. */
static bool is_named(pid_t pid, const char *name, const struct limpet_proc_status *status)
{
	char path[PATH_MAX];

	return !strcmp(status->name, name) ||
	       (strlen(status->name) == 15 && !strncmp(status->name, name, 15)) ||
	       (limpet_proc_executable(pid, path, sizeof(path)) >= 0 &&
		!strcmp(limpet_base_name(path), name));
}

/* With blanks between the arguments; the name, if there are none. */
static char *read_command(pid_t pid, const char *name)
{
	char *text;
	size_t length;

	if (limpet_proc_file_read(pid, "cmdline", &text, &length) < 0)
		return strdup(name);
	while (length && !text[length - 1])
		length--;
	if (!length) {
		free(text);
		return strdup(name);
	}
	for (size_t i = 0; i < length; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

/* What called limpet has the same words: a shell, sudo. */
static bool is_above_us(pid_t pid)
{
	struct limpet_proc_status status;

	for (pid_t above = getpid(); above > 0; above = status.ppid) {
		if (above == pid)
			return true;
		if (limpet_proc_status_read(above, &status) < 0)
			return false;
	}
	return false;
}

static bool has_words(pid_t pid, const char *words, const struct limpet_proc_status *status)
{
	LIMPET_FREE char *command = read_command(pid, status->name);

	return command && strstr(command, words) && !is_above_us(pid);
}

static bool is_captured(pid_t pid)
{
	struct limpet_control_capture capture;

	return limpet_control_find(pid, &capture) == 0;
}

/* The processes of that name, or with these words, the largest first; malloc'ed. */
static size_t find_matches(const char *text, bool by_words, bool captured, struct match **ret_list)
{
	LIMPET_FREE pid_t *pids = NULL;
	const int all = limpet_proc_pids(&pids);
	size_t count = 0;

	*ret_list = calloc(all > 0 ? (size_t)all : 1, sizeof(**ret_list));
	for (int i = 0; i < all && *ret_list; i++) {
		struct limpet_proc_status status;

		if (pids[i] == getpid() || limpet_proc_status_read(pids[i], &status) < 0 ||
		    status.kernel_thread ||
		    !(by_words ? has_words(pids[i], text, &status)
			       : is_named(pids[i], text, &status)) ||
		    (captured && !is_captured(pids[i])))
			continue;
		(*ret_list)[count++] = (struct match){pids[i], status.uid, status.rss_bytes};
	}
	if (count)
		qsort(*ret_list, count, sizeof(**ret_list), by_rss);
	return count;
}

/* ------------------------------------------------------------------ rows */

/* As ps(1) does: the time of today, or else the day. */
static void print_start(pid_t pid, char *ret, size_t room)
{
	const time_t start = limpet_proc_started(pid);
	struct tm tm;

	snprintf(ret, room, "-");
	if (start && localtime_r(&start, &tm))
		strftime(ret, room, time(NULL) - start < DAY_S ? "%H:%M" : "%Y-%m-%d", &tm);
}

static void print_row(const struct match *match, const char *name)
{
	const int width = limpet_ui_width(STDERR_FILENO);
	LIMPET_FREE char *command = read_command(match->pid, name);
	char user[64], start[32], rss[LIMPET_UNITS_TEXT];

	if (!command)
		return;
	limpet_ui_user(match->uid, user, sizeof(user));
	limpet_units_format_bytes(rss, match->rss_bytes);
	print_start(match->pid, start, sizeof(start));
	limpet_ui_clean(command);
	if (isatty(STDERR_FILENO) && width > BEFORE_COMMAND)
		limpet_printer_cut(command, (size_t)(width - BEFORE_COMMAND), false);
	fprintf(stderr, "%7d  %-8.8s  %-10s  %10s  %s\n", match->pid, limpet_ui_clean(user), start,
		rss, command);
}

static void print_rows(const struct match *list, size_t count, const char *name)
{
	fprintf(stderr, "%7s  %-8s  %-10s  %10s  %s\n", "PID", "USER", "STARTED", "RSS", "COMMAND");
	for (size_t i = 0; i < count && i < ROWS_SHOWN; i++)
		print_row(&list[i], name);
	if (count > ROWS_SHOWN)
		fprintf(stderr, "    ... %zu more\n", count - ROWS_SHOWN);
}

/* ------------------------------------------------------------------ the command to type instead */

/* The arguments with another word in place of `text`. */
static void hint_command(char *const *arguments, int count, const char *text, const char *instead)
{
	const bool is_mark = !strcmp(arguments[0], "mark");
	LIMPET_FREE char *line = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&line, &length);

	if (!to)
		return;
	for (int i = 0; i < count; i++) {
		const char *word = arguments[i];

		if (i)
			fputc(' ', to);
		if (i && text >= word && text <= word + strlen(word)) {
			fprintf(to, "%.*s", (int)(text - word), word);
			word = instead;
		}
		limpet_cli_append_word(to, word);
	}
	/* The last word: NAME is missing. */
	if (is_mark && text == arguments[count - 1])
		fputs(" NAME", to);
	/* One with other characters could not be copied. */
	if (fclose(to) == 0 && limpet_plain_text_check(line) == 0)
		limpet_ui_hint("limpet %s", line);
}

int limpet_fail_pid(char *const *arguments, int count, const char *text)
{
	static const char *const of_captures[] = {"mark", "status", "stop", "top"};
	LIMPET_FREE struct match *list = NULL;
	const bool is_number = text[0] && !text[strspn(text, "0123456789")];
	bool captured = false;
	struct limpet_err err;
	uint64_t highest;
	size_t found = 0;
	char pid[16];

	for (size_t i = 0; i < LIMPET_COUNT_OF(of_captures); i++)
		captured |= !strcmp(arguments[0], of_captures[i]);
	limpet_err_set(&err, -EINVAL, "not a process id: '%s'", text);
	if (text[0])
		found = find_matches(text, false, captured, &list);
	if (!found && strchr(text, ' ')) {
		free(list);
		found = find_matches(text, true, captured, &list);
	}
	if (found) {
		limpet_ui_error(&err);
		print_rows(list, found, text);
		snprintf(pid, sizeof(pid), "%d", list[0].pid);
		if (found == 1)
			hint_command(arguments, count, text, pid);
		return LIMPET_EXIT_USAGE;
	}
	if (is_number && limpet_proc_number_read("sys/kernel/pid_max", &highest) == 0)
		limpet_err_hint(&err, "process ids are from 1 to %" PRIu64, highest - 1);
	else if (captured && !is_number)
		limpet_err_hint(&err, "`limpet status` lists the captures");
	else
		limpet_err_hint(&err, "find it with `pidof NAME` or `limpet doctor`");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

int limpet_check_trace(char *const *arguments, int count, const char *text)
{
	struct limpet_control_capture capture;
	struct limpet_err err;
	char *end;
	const long pid = strtol(text, &end, 10);

	if (text[0] < '1' || text[0] > '9' || *end || pid > INT_MAX || access(text, F_OK) == 0 ||
	    limpet_control_find((pid_t)pid, &capture) < 0 || !capture.trace[0])
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -ENOENT, "no such file: '%s', but process %s is being captured", text,
		       text);
	limpet_ui_error(&err);
	hint_command(arguments, count, text, capture.trace);
	return LIMPET_EXIT_USAGE;
}
