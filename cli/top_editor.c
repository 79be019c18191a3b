#include "cli/top_editor.h"

#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/plain_text.h"
#include "common/subprocess.h"

/* How an editor is told the line. */
enum form {
	FILE_ALONE = 0,
	PLUS_LINE, /* +LINE FILE */
	COLON,     /* FILE:LINE */
	GOTO       /* -g FILE:LINE */
};

static const struct {
	const char *name;
	enum form form;
} editors[] = {
	{"code", GOTO},      {"codium", GOTO},    {"emacs", PLUS_LINE}, {"emacsclient", PLUS_LINE},
	{"gvim", PLUS_LINE}, {"hx", COLON},       {"kak", PLUS_LINE},   {"micro", PLUS_LINE},
	{"nano", PLUS_LINE}, {"nvim", PLUS_LINE}, {"subl", COLON},      {"vi", PLUS_LINE},
	{"view", PLUS_LINE}, {"vim", PLUS_LINE},
};

const char *limpet_top_editor_command(void)
{
	static const char *const variables[] = {"VISUAL", "EDITOR"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(variables); i++) {
		const char *command = getenv(variables[i]);

		if (command && command[0])
			return command;
	}
	return "vi";
}

/* Whether it is of the kernel's making: some of these can be read once, or never end. */
static bool is_kernels(const char *file)
{
	static const long kinds[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, DEBUGFS_MAGIC};
	struct statfs system;

	if (statfs(file, &system) < 0)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		if (system.f_type == kinds[i])
			return true;
	return false;
}

static int check(const char *file)
{
	struct stat status;

	if (limpet_plain_text_check(file) < 0)
		return -EILSEQ;
	if (access(file, R_OK) < 0 || stat(file, &status) < 0)
		return limpet_errno();
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	return S_ISREG(status.st_mode) && !is_kernels(file) ? 0 : -EINVAL;
}

static int find_below(const char *directory, const char *file, char **ret_path)
{
	char *path = NULL;
	int result;

	if (asprintf(&path, "%s/%s", directory, file) < 0)
		return -ENOMEM;
	result = check(path);
	if (result == 0)
		*ret_path = path;
	else
		free(path);
	return result;
}

int limpet_top_editor_find(const char *file, const char *module, char **ret_path)
{
	LIMPET_FREE char *directory = strdup(module && module[0] == '/' ? module : "");
	char *end;

	if (!directory)
		return -ENOMEM;
	if (file[0] == '/')
		return find_below("", file + 1, ret_path);
	while ((end = strrchr(directory, '/'))) {
		*end = '\0';
		if (find_below(directory, file, ret_path) == 0)
			return 0;
	}
	return find_below(".", file, ret_path);
}

/* By the command's first word. */
static enum form form_of(const char *command)
{
	const size_t blanks = strspn(command, " \t");
	LIMPET_FREE char *program = strndup(command + blanks, strcspn(command + blanks, " \t"));
	const char *name = program ? limpet_base_name(program) : "";

	for (size_t i = 0; i < LIMPET_COUNT_OF(editors); i++)
		if (!strcmp(editors[i].name, name))
			return editors[i].form;
	return FILE_ALONE;
}

static bool add(char **arguments, size_t *count, char *text)
{
	arguments[(*count)++] = text;
	return text != NULL;
}

static bool add_line(char **arguments, size_t *count, enum form form, const char *path,
		     uint32_t line)
{
	char *text = NULL;

	if (form == GOTO && !add(arguments, count, strdup("-g")))
		return false;
	if (form == PLUS_LINE && asprintf(&text, "+%u", line) < 0)
		return false;
	if (form == PLUS_LINE)
		return add(arguments, count, text) && add(arguments, count, strdup(path));
	if (asprintf(&text, "%s:%u", path, line) < 0)
		return false;
	return add(arguments, count, text);
}

char **limpet_top_editor_arguments(const char *command, const char *file, uint32_t line)
{
	char **arguments = calloc(8, sizeof(*arguments));
	const enum form form = line ? form_of(command) : FILE_ALONE;
	LIMPET_FREE char *path = NULL;
	char *script = NULL;
	size_t count = 0;
	bool ok;

	/* So that it begins neither with '-' nor with '+', and is no address such as ftp://. */
	if (!arguments || asprintf(&path, "%s%s", file[0] == '/' ? "" : "./", file) < 0) {
		path = NULL;
		free(arguments);
		return NULL;
	}
	ok = add(arguments, &count, strdup("sh")) && add(arguments, &count, strdup("-c")) &&
	     asprintf(&script, "%s \"$@\"", command) >= 0 && add(arguments, &count, script) &&
	     add(arguments, &count, strdup(command));
	if (ok && form == FILE_ALONE)
		ok = add(arguments, &count, strdup(path));
	else if (ok)
		ok = add_line(arguments, &count, form, path, line);
	if (ok)
		return arguments;
	limpet_top_editor_arguments_free(arguments);
	return NULL;
}

void limpet_top_editor_arguments_free(char **arguments)
{
	for (size_t i = 0; arguments && arguments[i]; i++)
		free(arguments[i]);
	free(arguments);
}

/* Signals of the terminal's keys are the editor's. Stopped by Ctrl-Z both stop, but limpet draws
 * nothing then, as its handler of SIGTSTP would. */
static const struct {
	int number;
	void (*handler)(int);
} meanwhile[] = {{SIGINT, SIG_IGN}, {SIGQUIT, SIG_IGN}, {SIGTSTP, SIG_DFL}};

static int spawn(char **arguments, pid_t *ret_pid)
{
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int error;

	sigemptyset(&defaults);
	for (size_t i = 0; i < LIMPET_COUNT_OF(meanwhile); i++)
		sigaddset(&defaults, meanwhile[i].number);
	error = posix_spawnattr_init(&attributes);
	if (error)
		return -error;
	error = posix_spawnattr_setsigdefault(&attributes, &defaults);
	if (!error)
		error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	if (!error)
		error = posix_spawn(ret_pid, "/bin/sh", NULL, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	return -error;
}

int limpet_top_editor_run(const char *command, const char *file, uint32_t line)
{
	char **arguments = limpet_top_editor_arguments(command, file, line);
	struct sigaction before[LIMPET_COUNT_OF(meanwhile)];
	int result;
	pid_t pid = -1;

	if (!arguments)
		return -ENOMEM;
	for (size_t i = 0; i < LIMPET_COUNT_OF(meanwhile); i++) {
		const struct sigaction action = {.sa_handler = meanwhile[i].handler};

		sigaction(meanwhile[i].number, &action, &before[i]);
	}
	result = spawn(arguments, &pid);
	if (result == 0)
		result = limpet_subprocess_wait(pid);
	for (size_t i = 0; i < LIMPET_COUNT_OF(meanwhile); i++)
		sigaction(meanwhile[i].number, &before[i], NULL);
	limpet_top_editor_arguments_free(arguments);
	return result;
}
