#include "cli/progress.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "cli/ui.h"
#include "common/units.h"

#define SECOND_NS UINT64_C(1000000000)
#define REDRAW_NS (SECOND_NS / 5)
/* The first plain line; each further one after twice the time. */
#define PLAIN_NS (10 * SECOND_NS)
#define LINE_MAX_COLUMNS 400
/* Erases from the cursor to the end of the line (ECMA-48 EL). */
#define ERASE "\033[K"

struct limpet_progress {
	int fd;
	bool live;   /* redrawn in place; otherwise printed line by line */
	bool drawn;  /* the line is on the screen */
	bool broken; /* a write failed */
	uint64_t next_ns;
	char phase[64];
	/* for the rate */
	uint64_t from_ns, from_events, per_second;
};

/* Whether limpet is in the foreground, or does not belong to this terminal's session. */
static bool in_foreground(int fd)
{
	pid_t group = tcgetpgrp(fd);

	return group < 0 || group == getpgrp();
}

/* Writes everything or nothing, without waiting. A terminal is polled first: O_NONBLOCK would
 * affect all processes that have it open. */
static bool put(struct limpet_progress *progress, const char *text, size_t bytes)
{
	struct pollfd poll_fd = {.fd = progress->fd, .events = POLLOUT};
	sigset_t block, before;
	ssize_t written;

	if (progress->broken || poll(&poll_fd, 1, 0) != 1 || !(poll_fd.revents & POLLOUT))
		return false;
	/* The shell may have sent limpet to the background between the check and the write. */
	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &block, &before);
	written = write(progress->fd, text, bytes);
	if (written < 0 && errno != EINTR && errno != EAGAIN)
		progress->broken = true;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return written == (ssize_t)bytes;
}

static void clear(void *context)
{
	struct limpet_progress *progress = context;

	if (!progress->drawn)
		return;
	if (in_foreground(progress->fd))
		put(progress, "\r" ERASE, strlen("\r" ERASE));
	progress->drawn = false;
	progress->next_ns = 0;
}

struct limpet_progress *limpet_progress_new(int fd)
{
	struct limpet_progress *progress = calloc(1, sizeof(*progress));
	const char *term = getenv("TERM");

	if (!progress)
		return NULL;
	progress->fd = fd;
	progress->live = isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
	progress->next_ns = progress->live ? 0 : PLAIN_NS;
	limpet_ui_set_before_message(clear, progress);
	return progress;
}

void limpet_progress_free(struct limpet_progress *progress)
{
	if (!progress)
		return;
	clear(progress);
	limpet_ui_set_before_message(NULL, NULL);
	free(progress);
}

/* Averages over at least a second, so that the figure is readable; before that, since the start. */
static void update_rate(struct limpet_progress *progress,
			const struct limpet_progress_sample *sample)
{
	uint64_t ns = sample->elapsed_ns - progress->from_ns;
	uint64_t events = sample->events - progress->from_events;

	if (ns < SECOND_NS && progress->from_ns > 0)
		return;
	if (ns > 0)
		progress->per_second = (uint64_t)((unsigned __int128)events * SECOND_NS / ns);
	if (ns >= SECOND_NS) {
		progress->from_ns = sample->elapsed_ns;
		progress->from_events = sample->events;
	}
}

struct line {
	char text[LINE_MAX_COLUMNS + 1];
	size_t length, limit;
};

/* Adds `part` if it fits completely. */
static void add(struct line *line, const char *separator, const char *part)
{
	size_t bytes = strlen(separator) + strlen(part);

	if (line->length + bytes > line->limit)
		return;
	strcpy(line->text + line->length, line->length ? separator : "");
	strcat(line->text + line->length, part);
	line->length += strlen(line->text + line->length);
}

/* Adds a name, truncated if necessary: its start matters most. One column per byte: characters
 * outside ASCII may have any width, and become '?'. */
static void add_name(struct line *line, const char *separator, const char *name)
{
	size_t room = line->limit - line->length, bytes = strlen(name), at;

	if (room < strlen(separator) + 8)
		return;
	strcpy(line->text + line->length, separator);
	line->length += strlen(separator);
	room -= strlen(separator);
	at = line->length;
	if (bytes <= room) {
		memcpy(line->text + at, name, bytes);
		line->length += bytes;
	} else {
		memcpy(line->text + at, name, room - 2);
		memcpy(line->text + at + room - 2, "..", 2);
		line->length += room;
	}
	line->text[line->length] = '\0';
	for (; at < line->length; at++) {
		if (line->text[at] < ' ' || line->text[at] > '~')
			line->text[at] = '?';
	}
}

/* The most important items come first: a narrow terminal shows only the start. */
static void write_line(const struct limpet_progress *progress,
		       const struct limpet_progress_sample *sample, const char *separator,
		       size_t limit, struct line *ret)
{
	char part[3 * LIMPET_UNITS_TEXT], value[LIMPET_UNITS_TEXT], total[LIMPET_UNITS_TEXT];

	ret->length = 0;
	ret->limit = limit;
	ret->text[0] = '\0';

	limpet_units_format_duration(value, sample->elapsed_ns);
	if (sample->duration_ns)
		limpet_units_format_duration(total, sample->duration_ns);
	snprintf(part, sizeof(part), "%s%s%s", value, sample->duration_ns ? "/" : "",
		 sample->duration_ns ? total : "");
	add(ret, "", part);
	if (sample->phase)
		add_name(ret, separator, sample->phase);
	if (sample->dropped_events) {
		limpet_units_format_count(value, sample->dropped_events);
		snprintf(part, sizeof(part), "%s dropped", value);
		add(ret, separator, part);
	}
	if (sample->lost_stacks) {
		limpet_units_format_count(value, sample->lost_stacks);
		snprintf(part, sizeof(part), "%s without a stack", value);
		add(ret, separator, part);
	}
	limpet_units_format_bytes(value, sample->live_bytes);
	snprintf(part, sizeof(part), "%s%s %s%s", sample->estimated ? "about " : "", value,
		 sample->of_pages ? "resident" : "live", sample->estimated ? " (estimated)" : "");
	add(ret, separator, part);
	if (!sample->phase) {
		limpet_units_format_rate(value, progress->per_second);
		add(ret, separator, value);
	}
	if (!sample->phase && sample->unfollowed_bytes) {
		limpet_units_format_bytes(value, sample->unfollowed_bytes);
		snprintf(part, sizeof(part), "%s unseen", value);
		add(ret, separator, part);
	}
	if (!sample->phase && sample->growing && sample->growing_bytes) {
		limpet_units_format_bytes(value, sample->growing_bytes);
		snprintf(part, sizeof(part), "%s+%s in ", separator, value);
		add_name(ret, part, sample->growing);
	}
}

static void draw(struct limpet_progress *progress, const struct limpet_progress_sample *sample)
{
	size_t limit = (size_t)limpet_ui_width(progress->fd) - 1; /* the last column would wrap */
	char text[LINE_MAX_COLUMNS + 16];
	struct line line;

	write_line(progress, sample, "  ", limit < LINE_MAX_COLUMNS ? limit : LINE_MAX_COLUMNS,
		   &line);
	snprintf(text, sizeof(text), "\r%s" ERASE, line.text);
	if (put(progress, text, strlen(text)))
		progress->drawn = true;
}

static void print_plain(struct limpet_progress *progress,
			const struct limpet_progress_sample *sample)
{
	char text[LINE_MAX_COLUMNS + 16];
	struct line line;

	write_line(progress, sample, ", ", 200, &line);
	snprintf(text, sizeof(text), "limpet: %s\n", line.text);
	put(progress, text, strlen(text));
}

void limpet_progress_update(struct limpet_progress *progress,
			    const struct limpet_progress_sample *sample)
{
	const char *phase = sample->phase ? sample->phase : "";
	bool changed;

	if (!progress || limpet_ui_is_quiet())
		return;
	update_rate(progress, sample);
	changed = strncmp(progress->phase, phase, sizeof(progress->phase) - 1) != 0;
	if (!progress->live) {
		if (sample->elapsed_ns < progress->next_ns)
			return;
		while (progress->next_ns <= sample->elapsed_ns &&
		       progress->next_ns < UINT64_MAX / 2)
			progress->next_ns *= 2;
		if (in_foreground(progress->fd))
			print_plain(progress, sample);
		return;
	}
	if (sample->elapsed_ns < progress->next_ns && !changed)
		return;
	snprintf(progress->phase, sizeof(progress->phase), "%s", phase);
	progress->next_ns = sample->elapsed_ns + REDRAW_NS;
	if (in_foreground(progress->fd))
		draw(progress, sample);
	else
		progress->drawn = false; /* the shell's prompt is there now */
}
