/* `limpet demo`: captures a server in small that leaks, by the commands that a user would type. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/demo_server.h"
#include "cli/ui.h"
#include "common/err.h"
#include "common/subprocess.h"

static const char help_usage[] =
	"Usage: limpet demo\n"
	"Starts a small server that leaks memory, captures it for five seconds, and\n"
	"reports: the commands are shown as you would type them. The server ends; the\n"
	"trace stays in the current directory.\n";
static const char help_end[] = "Exit status: that of limpet attach. More: man limpet-demo\n";

enum { MAX_WORDS = 4, PATH_ROOM = 4096 };

static void show(char *const words[])
{
	printf("\n%s$ limpet", limpet_ui_style(stdout, LIMPET_UI_BOLD));
	for (; *words; words++)
		printf(" %s", *words);
	printf("%s\n", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	fflush(stdout);
}

/* In the child. The end of `parent` is a SIGTERM, by which a capture ends well. */
static void be_limpet(char *const words[], int output, pid_t parent)
{
	char name[] = "limpet";
	char *argv[MAX_WORDS + 2] = {name};

	for (size_t i = 0; i < MAX_WORDS && words[i]; i++)
		argv[i + 1] = words[i];
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || (output >= 0 && dup2(output, STDOUT_FILENO) < 0))
		_exit(LIMPET_EXIT_FAILED);
	setenv("LIMPET_PAGER", "cat", 1);
	execv("/proc/self/exe", argv);
	fprintf(stderr, "limpet: cannot start /proc/self/exe: %s\n", strerror(errno));
	_exit(LIMPET_EXIT_FAILED);
}

/* Shows and runs a command; its stdout is `output` unless that is -1. Ctrl-C is for the command
 * alone. Returns its exit status. */
static int run(char *const words[], int output)
{
	const pid_t parent = getpid();
	void (*before)(int);
	pid_t pid;
	int status;

	show(words);
	before = signal(SIGINT, SIG_IGN);
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, before);
		be_limpet(words, output, parent);
	}
	status = pid < 0 ? limpet_errno() : limpet_subprocess_wait(pid);
	signal(SIGINT, before);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : LIMPET_EXIT_FAILED;
}

/* `limpet attach` prints the path of its trace. */
static int capture(pid_t server, char *path)
{
	char attach[] = "attach", pid[16], d[] = "-d", time[] = "5s";
	char *words[] = {attach, pid, d, time, NULL};
	int ends[2], status;
	ssize_t length;

	path[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return LIMPET_EXIT_FAILED;
	snprintf(pid, sizeof(pid), "%d", (int)server);
	status = run(words, ends[1]);
	close(ends[1]);
	length = read(ends[0], path, PATH_ROOM - 1);
	close(ends[0]);
	path[length > 0 ? length : 0] = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (path[0])
		puts(path);
	return status;
}

static int report(char *path)
{
	char name[] = "report", limit[] = "-n", count[] = "3";
	char *words[] = {name, limit, count, path, NULL};

	return run(words, -1);
}

/* Whether it still ran. */
static bool end(pid_t server)
{
	int status;
	bool ran = waitpid(server, &status, WNOHANG) == 0;

	(void)kill(server, SIGKILL);
	if (ran)
		(void)limpet_subprocess_wait(server);
	return ran;
}

static int demonstrate(pid_t server)
{
	char path[PATH_ROOM];
	int status = capture(server, path), shown;

	if (path[0]) {
		shown = report(path);
		status = status == LIMPET_EXIT_OK ? shown : status;
	}
	if (!end(server)) {
		limpet_ui_warn("the server ended before its time");
		return LIMPET_EXIT_FAILED;
	}
	if (!path[0])
		return status;
	putchar('\n');
	fflush(stdout);
	limpet_ui_note("the server ran until now, and is ended; its trace stays: %s", path);
	limpet_ui_hint("limpet html %s", path);
	limpet_ui_hint("limpet doctor lists your own processes; limpet attach PID");
	return status;
}

static int no_operands(int count, char **operands, void *context)
{
	(void)context;
	return count ? limpet_ui_usage("demo", "unexpected argument '%s'", operands[0])
		     : LIMPET_EXIT_OK;
}

static const struct limpet_option option_list[] = {{0}};

static const struct limpet_line command = {
	.name = "demo",
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_operands = no_operands,
};

int limpet_cmd_demo(int argc, char **argv)
{
	struct limpet_err err = {0};
	pid_t server;
	int status;

	if (!limpet_line_parse(&command, argc, argv, NULL, &status))
		return status;
	fflush(stdout);
	server = limpet_demo_server_start(getpid());
	if (server < 0) {
		limpet_err_set(&err, server, "cannot start a process: %s", strerror(-server));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	printf("Process %d is a small server: it opens sessions, and ends none.\n", (int)server);
	return limpet_ui_finish(demonstrate(server));
}
