#include "cli/pid_hint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/render/report_printer.h"
#include "cli/ui.h"
#include "common/base_name.h"
#include "common/units.h"
#include "injector/proc/proc.h"

#define ROWS_SHOWN 10u
#define DAY_S 86400
/* Of a row before the command line. */
#define BEFORE_COMMAND 42

struct named {
	pid_t pid;
	uid_t uid;
	uint64_t rss_bytes;
};

static int by_rss(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

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

/* The processes of that name, the largest first; malloc'ed. */
static size_t find_named(const char *name, struct named **ret_list)
{
	LIMPET_FREE pid_t *pids = NULL;
	const int all = limpet_proc_pids(&pids);
	size_t count = 0;

	*ret_list = calloc(all > 0 ? (size_t)all : 1, sizeof(**ret_list));
	for (int i = 0; i < all && *ret_list; i++) {
		struct limpet_proc_status status;

		if (pids[i] == getpid() || limpet_proc_status_read(pids[i], &status) < 0 ||
		    status.kernel_thread || !is_named(pids[i], name, &status))
			continue;
		(*ret_list)[count++] = (struct named){pids[i], status.uid, status.rss_bytes};
	}
	if (count)
		qsort(*ret_list, count, sizeof(**ret_list), by_rss);
	return count;
}

/* ------------------------------------------------------------------ rows */

/* As ps(1) does: the time of today, or else the day. */
static void say_start(pid_t pid, char *ret, size_t room)
{
	struct timespec since_boot;
	uint64_t ticks;
	struct tm tm;
	time_t start;

	snprintf(ret, room, "-");
	if (limpet_proc_start_time(pid, &ticks) < 0 ||
	    clock_gettime(CLOCK_BOOTTIME, &since_boot) < 0)
		return;
	start = time(NULL) - since_boot.tv_sec + (time_t)(ticks / (uint64_t)sysconf(_SC_CLK_TCK));
	if (localtime_r(&start, &tm))
		strftime(ret, room, time(NULL) - start < DAY_S ? "%H:%M" : "%Y-%m-%d", &tm);
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

static void print_row(const struct named *named, const char *name)
{
	const int width = limpet_ui_width(STDERR_FILENO);
	LIMPET_FREE char *command = read_command(named->pid, name);
	char user[64], start[32], rss[LIMPET_UNITS_TEXT];

	if (!command)
		return;
	limpet_ui_user(named->uid, user, sizeof(user));
	limpet_units_format_bytes(rss, named->rss_bytes);
	say_start(named->pid, start, sizeof(start));
	limpet_ui_clean(command);
	if (isatty(STDERR_FILENO) && width > BEFORE_COMMAND)
		limpet_printer_cut(command, (size_t)(width - BEFORE_COMMAND), false);
	fprintf(stderr, "%7d  %-8.8s  %-10s  %10s  %s\n", named->pid, limpet_ui_clean(user), start,
		rss, command);
}

static void print_rows(const struct named *list, size_t count, const char *name)
{
	fprintf(stderr, "%7s  %-8s  %-10s  %10s  %s\n", "PID", "USER", "STARTED", "RSS", "COMMAND");
	for (size_t i = 0; i < count && i < ROWS_SHOWN; i++)
		print_row(&list[i], name);
	if (count > ROWS_SHOWN)
		fprintf(stderr, "    ... %zu more\n", count - ROWS_SHOWN);
}

int limpet_fail_pid(const char *command, const char *text)
{
	LIMPET_FREE struct named *list = NULL;
	const size_t count = text[0] ? find_named(text, &list) : 0;
	struct limpet_err err;
	uint64_t highest;

	limpet_err_set(&err, -EINVAL, "not a process id: '%s'", text);
	if (count) {
		limpet_ui_error(&err);
		print_rows(list, count, text);
		limpet_ui_hint("limpet %s %d%s", command, list[0].pid,
			       strcmp(command, "mark") ? "" : " NAME");
		return LIMPET_EXIT_USAGE;
	}
	if (text[0] && !text[strspn(text, "0123456789")] &&
	    limpet_proc_number_read("sys/kernel/pid_max", &highest) == 0)
		limpet_err_hint(&err, "process ids are from 1 to %" PRIu64, highest - 1);
	else
		limpet_err_hint(&err, "find it with `pidof NAME` or `limpet doctor`");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}
