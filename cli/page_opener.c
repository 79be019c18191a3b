#include "cli/page_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/find_program.h"
#include "cli/ui.h"
#include "common/err.h"
#include "common/subprocess.h"

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value;
}

/* The first command of $BROWSER whose program is there; malloc'ed, NULL: none. */
static char *choose_browser(void)
{
	const char *list = getenv("BROWSER");

	while (list && *list) {
		const size_t length = strcspn(list, ":");
		char *command = strndup(list, length);
		LIMPET_FREE char *program = strndup(list, strcspn(list, ": \t"));

		if (command && program && *program && limpet_find_program(program))
			return command;
		free(command);
		list += length + (list[length] == ':');
	}
	return NULL;
}

/* NULL: *ret_why says why there is none. */
static char *choose(const char **ret_why)
{
	char *command = choose_browser();

	if (command)
		return command;
	if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
		*ret_why = "there is no display";
	else if (!limpet_find_program("xdg-open"))
		*ret_why = "there is no xdg-open, and BROWSER is not set";
	else
		command = strdup("xdg-open");
	return command;
}

/* In the grandchild: init is its parent. It keeps neither the terminal nor a pipe open, for whose
 * end somebody may wait. */
static void run(const char *command, const char *path)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			_exit(127);
	limpet_subprocess_close_fds(STDERR_FILENO + 1, INT_MAX);
	/* Split at blanks, but not evaluated: it is a command with its options. */
	setenv("LIMPET_OPENER", command, 1);
	execl("/bin/sh", "sh", "-fc", "exec $LIMPET_OPENER \"$1\"", "sh", path, NULL);
	_exit(127);
}

static bool start(const char *command, const char *path)
{
	const pid_t child = fork();

	if (child == 0) {
		const pid_t grandchild = fork();

		if (grandchild == 0)
			run(command, path);
		_exit(grandchild < 0);
	}
	return child > 0 && limpet_subprocess_wait(child) == 0;
}

/* How to see it from another machine. */
static void hint(const char *path)
{
	char host[HOST_NAME_MAX + 1] = "";
	const char *name = strrchr(path, '/');

	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		strcpy(host, "HOST");
	limpet_ui_hint("where a browser is: scp %s:%s .", host, path);
	limpet_ui_hint("or: ssh -L 8000:localhost:8000 %s python3 -m http.server -b localhost"
		       " -d %.*s",
		       host, name && name != path ? (int)(name - path) : 1, name ? path : ".");
}

void limpet_page_open(const char *path)
{
	const char *why = "out of memory";
	LIMPET_FREE char *whole = realpath(path, NULL);
	LIMPET_FREE char *command = choose(&why);

	fflush(stdout);
	if (command && start(command, whole ? whole : path)) {
		limpet_ui_note("opened by %s", command);
		return;
	}
	limpet_ui_warn("the page is not opened: %s", command ? "no process can be started" : why);
	hint(whole ? whole : path);
}
