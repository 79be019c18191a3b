#include "cli/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/find_program.h"
#include "common/err.h"
#include "common/subprocess.h"

static const char *choose(void)
{
	const char *command = getenv("LIMPET_PAGER");

	if (!command)
		command = getenv("PAGER");
	if (!command)
		command = "less";
	return command[0] && strcmp(command, "cat") != 0 ? command : NULL;
}

/* If the command is a single word it must be a program: otherwise nothing would be shown at all. */
static bool is_there(const char *command)
{
	if (strpbrk(command, " \t|&;<>()$`\\\"'*?[#~=%"))
		return true;
	return limpet_find_program(command);
}

static void run(const char *command, int input)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	if (dup2(input, STDIN_FILENO) < 0)
		_exit(127);
	/* Quit if everything fits, keep colours, leave the text on the screen. */
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(127);
}

void limpet_pager_begin(struct limpet_pager *pager, bool wanted)
{
	const char *command = wanted && isatty(STDOUT_FILENO) ? choose() : NULL;
	int ends[2];

	*pager = (struct limpet_pager){.terminal = -1};
	if (!command || !is_there(command) || fflush(stdout) || pipe2(ends, O_CLOEXEC) < 0)
		return;
	pager->terminal = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	pager->pid = pager->terminal >= 0 ? fork() : -1;
	if (pager->pid == 0)
		run(command, ends[0]);
	if (pager->pid > 0 && dup2(ends[1], STDOUT_FILENO) >= 0) {
		/* Ctrl-C is for the pager, where it interrupts a search. */
		signal(SIGINT, SIG_IGN);
	} else if (pager->terminal >= 0) {
		close(pager->terminal);
		pager->pid = 0;
	}
	close(ends[0]);
	close(ends[1]);
}

void limpet_pager_end(struct limpet_pager *pager)
{
	if (pager->pid <= 0)
		return;
	fflush(stdout);
	dup2(pager->terminal, STDOUT_FILENO);
	close(pager->terminal);
	(void)limpet_subprocess_wait(pager->pid);
	signal(SIGINT, SIG_DFL);
	*pager = (struct limpet_pager){.terminal = -1};
}
