#include "cli/top_page.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/html_file.h"
#include "common/plain_text.h"
#include "common/subprocess.h"

#define MOST_PAGES 99u

/* `out` becomes its standard output and error. */
static int spawn(char **argv, int out, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int error;

	posix_spawn_file_actions_init(&actions);
	error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!error)
		error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (!error)
		error = posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	if (!error)
		error = posix_spawn(ret_pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/* The first of "trace.html", "trace-2.html"... that does not exist: another's page is not
 * overwritten. */
static int choose_path(struct limpet_top_page *page, const char *trace)
{
	char suffix[24] = ".html";

	for (unsigned i = 2; i <= MOST_PAGES + 1; i++) {
		LIMPET_FREE char *path = limpet_html_file_name(trace, suffix);

		if (!path)
			return -ENOMEM;
		if (strlen(path) >= sizeof(page->path))
			return -ENAMETOOLONG;
		strcpy(page->path, path);
		if (access(path, F_OK) < 0)
			return 0;
		snprintf(suffix, sizeof(suffix), "-%u.html", i);
	}
	return -EEXIST;
}

int limpet_top_page_start(struct limpet_top_page *page, const char *trace, struct limpet_err *err)
{
	char limpet[] = "limpet", html[] = "html", output[] = "--output";
	char end[] = "--";
	LIMPET_FREE char *copy = strdup(trace);
	char *argv[] = {limpet, html, output, page->path, end, copy, NULL};
	int fds[2], result;

	if (page->limpet)
		return limpet_err_set(err, -EALREADY, "the page is being written");
	result = page->written ? 0 : choose_path(page, trace);
	if (!copy || result < 0)
		return limpet_err_set(err, copy ? result : -ENOMEM, "cannot write a page: %s",
				      strerror(copy ? -result : ENOMEM));
	if (pipe2(fds, O_CLOEXEC) < 0)
		return limpet_err_set(err, -errno, "cannot write a page: %s", strerror(errno));
	result = spawn(argv, fds[1], &page->limpet);
	close(fds[1]);
	if (result < 0) {
		page->limpet = 0;
		close(fds[0]);
		return limpet_err_set(err, result, "cannot write a page: %s", strerror(-result));
	}
	page->fd = fds[0];
	page->length = 0;
	return 0;
}

static int reap(struct limpet_top_page *page)
{
	const int status = limpet_subprocess_wait(page->limpet);

	close(page->fd);
	page->limpet = 0;
	return status;
}

/* Of what it printed: the path, which comes last, or the error, which comes first. */
static const char *pick_line(struct limpet_top_page *page, bool wrote)
{
	static const char prefix[] = "limpet: ";
	char *line = page->words, *last;

	page->words[page->length] = '\0';
	if (wrote) {
		while (page->length && page->words[page->length - 1] == '\n')
			page->words[--page->length] = '\0';
		last = strrchr(line, '\n');
		return last ? last + 1 : line;
	}
	line[strcspn(line, "\n")] = '\0';
	return strncmp(line, prefix, strlen(prefix)) ? line : line + strlen(prefix);
}

bool limpet_top_page_read(struct limpet_top_page *page, char *ret, size_t bytes)
{
	char rest[256];
	const size_t room = sizeof(page->words) - 1 - page->length;
	const ssize_t got = room ? read(page->fd, page->words + page->length, room)
				 : read(page->fd, rest, sizeof(rest));
	const char *line;
	bool wrote;

	if (got > 0 || (got < 0 && errno == EINTR)) {
		page->length += room && got > 0 ? (size_t)got : 0;
		return false;
	}
	wrote = reap(page) == 0;
	page->written |= wrote;
	line = pick_line(page, wrote);
	snprintf(ret, bytes, "%s%s", wrote ? "wrote " : "", line[0] ? line : "limpet html failed");
	limpet_plain_text_clean(ret);
	return true;
}

void limpet_top_page_stop(struct limpet_top_page *page)
{
	if (!page->limpet)
		return;
	kill(page->limpet, SIGTERM);
	reap(page);
}
