/* The table of subcommands. Everything is looked up here; the work is in cmd_*.c. */
#include <fcntl.h>
#include <string.h>

#include "analyzer/symbols/symbol_worker.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/debug.h"
#include "cli/libraries.h"
#include "cli/ui.h"
#include "common/own_stack.h"
#include "common/wire.h"

struct command {
	const char *name;
	int (*call)(int argc, char **argv);
	const char *usage;
	const char *summary;
};

static const struct command commands[] = {
	{"demo", limpet_cmd_demo, "demo", "capture a small program that leaks, to see it work"},
	{"doctor", limpet_cmd_doctor, "doctor [PID]",
	 "whether it would work, and if not, why; or all processes"},
	{"explain", limpet_cmd_explain, "explain PID",
	 "what its resident memory is used for, and what is free"},
	{"leaks", limpet_cmd_leaks, "leaks PID",
	 "which blocks of its heap nothing points to any more"},
	{"holders", limpet_cmd_holders, "holders PID ADDR",
	 "who holds a block of its heap, and what it retains"},
	{"stacks", limpet_cmd_stacks, "stacks PID", "where each of its threads stands"},
	{"attach", limpet_cmd_attach, "attach PID", "capture the heap of a running process"},
	{"run", limpet_cmd_run, "run COMMAND...", "capture a command from its entry point on"},
	{"pages", limpet_cmd_pages, "pages PID",
	 "which stacks touch new pages, in any 64-bit program"},
	{"collect", limpet_cmd_collect, "collect SOCK DIR", "receive streamed traces"},
	{"status", limpet_cmd_status, "status [PID]", "captures, and agents left in processes"},
	{"mark", limpet_cmd_mark, "mark PID NAME", "name this moment of a capture"},
	{"stop", limpet_cmd_stop, "stop PID|--all", "end a capture safely and wait for its trace"},
	{"report", limpet_cmd_report, "report FILE", "who holds the memory"},
	{"top", limpet_cmd_top, "top PID|FILE", "a capture on the terminal, live"},
	{"html", limpet_cmd_html, "html FILE", "the same as a page for any browser"},
	{"diff", limpet_cmd_diff, "diff OLD NEW", "what grew between two traces, or two windows"},
	{"export", limpet_cmd_export, "export FILE",
	 "for heaptrack, pprof, flame graphs, DuckDB..."},
	{"seal", limpet_cmd_seal, "seal FILE", "add symbols to a trace"},
};

static int print_help(void)
{
	printf("limpet watches the heap of a running process: no restart, no GDB, no preload.\n"
	       "Usage: limpet COMMAND [OPTIONS]; more: limpet COMMAND --help, man limpet\n");
	for (size_t i = 0; i < LIMPET_COUNT_OF(commands); i++)
		printf("  %-16s %s\n", commands[i].usage, commands[i].summary);
	printf("\nA first session: limpet attach 4711 -d 10m; limpet report node.4711.limpet\n"
	       "Status: 0 done, 1 failed, 2 usage, 3 refused, 4 losses, 5 dormant, 6 --fail-on\n");
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

static int print_version(void)
{
	printf("limpet %s (commit %s, agent ABI %u)\n", LIMPET_VERSION, LIMPET_COMMIT,
	       LIMPET_AGENT_ABI);
	limpet_libraries_print();
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(commands); i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static int unknown(const char *word)
{
	const char *names[LIMPET_COUNT_OF(commands) + 1] = {NULL};
	const char *nearest;

	for (size_t i = 0; i < LIMPET_COUNT_OF(commands); i++)
		names[i] = commands[i].name;
	nearest = limpet_ui_nearest(word, names);
	if (word[0] == '-')
		return limpet_ui_usage(NULL, "unknown option '%s'", word);
	if (nearest)
		return limpet_ui_usage(NULL, "unknown command '%s'; did you mean '%s'?", word,
				       nearest);
	return limpet_ui_usage(NULL, "unknown command '%s'", word);
}

/* `limpet help`, `limpet help COMMAND`. */
static int help(int argc, char **argv)
{
	const struct command *command;
	char option[] = "--help";
	char *arguments[] = {argv[1], option, NULL};

	if (argc < 2)
		return print_help();
	command = find(argv[1]);
	return command ? command->call(2, arguments) : unknown(argv[1]);
}

/* `limpet complete WORD...` (cli/complete.h). */
static int complete(int argc, char **argv)
{
	static char option[] = LIMPET_LINE_COMPLETE;
	const struct command *command;

	if (argc > 2) {
		command = find(argv[1]);
		argv[0] = argv[1];
		argv[1] = option;
		return command ? command->call(argc, argv) : LIMPET_EXIT_OK;
	}
	for (size_t i = 0; argc == 2 && i < LIMPET_COUNT_OF(commands); i++)
		limpet_complete_add(argv[1], commands[i].name, commands[i].summary);
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

/* If stdout is closed, the next file that limpet opens would be descriptor 1, and printf() would
 * write into the trace. O_CLOEXEC: a command that limpet runs inherits its descriptors as closed as
 * limpet did. */
static void fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *word = argc > 1 ? argv[1] : NULL;
	struct limpet_err err = {0};

	fill_standard_descriptors();
	if (limpet_own_stack_raise(&err) < 0) {
		limpet_ui_error(&err);
		return LIMPET_EXIT_FAILED;
	}
	if (!word)
		return limpet_ui_usage(NULL, "which command?");
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return print_help();
	if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version"))
		return print_version();
	if (!strcmp(word, "help"))
		return help(argc - 1, argv + 1);
	if (!strcmp(word, "complete"))
		return complete(argc - 1, argv + 1);
	if (argc == 2 && !strcmp(word, LIMPET_SYMBOL_WORKER)) {
		int status = limpet_symbol_worker();

		return status == LIMPET_EXIT_USAGE ? unknown(word) : status;
	}
	limpet_debug_begin_if_set();
	command = find(word);
	return command ? command->call(argc - 1, argv + 1) : unknown(word);
}
