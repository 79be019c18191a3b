/* The command line of `limpet attach` and `limpet run`: one parser, so that they cannot differ. */
#ifndef LIMPET_CLI_CAPTURE_OPTIONS_H
#define LIMPET_CLI_CAPTURE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/command_line.h"
#include "injector/preflight/capture_config.h"
#include "injector/session/forks.h"

/* Defaults; the help texts and manuals name these. */
#define LIMPET_CAPTURE_AGENT_MEMORY_BYTES (UINT64_C(64) << 20)
/* Of limpet's own memory to the agent's. */
#define LIMPET_CAPTURE_COLLECTOR_SHARE 8
/* The minimum of --max-size: an eighth of it is given up at a time. */
#define LIMPET_CAPTURE_MAX_SIZE_MIN_BYTES (UINT64_C(8) << 20)
#define LIMPET_CAPTURE_ATTACH_TIMEOUT_NS (UINT64_C(10) * 1000000000)

/* Of --alloc-functions, in place of a file. */
#define LIMPET_CAPTURE_SEARCH "search"

/* Options that other commands share. */
enum { LIMPET_CAPTURE_OPT_FUNCTIONS = 256, LIMPET_CAPTURE_OPT_LABEL, LIMPET_CAPTURE_OPT_OWN };
#define LIMPET_CAPTURE_OPTIONS                                                             \
	{"output", 'o', "FILE", "or -, unix:SOCKET; default: COMM.PID.limpet", 'o', NULL}, \
		{"duration", 'd', "TIME", "end after 90s, 10m, 1h30m...", 'd', NULL},      \
		{"label",                                                                  \
		 0,                                                                        \
		 "NAME=VALUE",                                                             \
		 "kept in the trace; may be given several times",                          \
		 LIMPET_CAPTURE_OPT_LABEL,                                                 \
		 NULL},                                                                    \
		LIMPET_LINE_QUIET("no live line and no notes")
#define LIMPET_CAPTURE_FUNCTIONS_OPTION(help)                                          \
	{                                                                              \
		"alloc-functions", 0, "FILE", help, LIMPET_CAPTURE_OPT_FUNCTIONS, NULL \
	}
#define LIMPET_CAPTURE_COMMAND_LINE_HELP "store the program's arguments, too"
#define LIMPET_CAPTURE_NO_SEAL_HELP "append no symbols"

enum limpet_capture_command { LIMPET_CAPTURE_ATTACH, LIMPET_CAPTURE_RUN };

struct limpet_capture_options {
	struct limpet_capture_config config;
	pid_t pid;      /* attach */
	char **command; /* run: the rest of argv, NULL-terminated */
	/* the path, for a limpet that is started for a child; or NULL */
	const char *alloc_functions;
	bool background;
	bool no_seal;
	bool follow_fork;
	bool search; /* attach: --alloc-functions search */
	/* For a limpet that another one started for a child (followers.h); start_ticks 0: no */
	struct limpet_fork forked;
};

/* Parse --duration, named as `option`, and --output: LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a
 * message. */
int limpet_capture_parse_duration(const char *option, const char *text, uint64_t *ret);
int limpet_capture_parse_output(const char *text, const char **ret);
/* Adds one: the same. */
int limpet_capture_parse_label(const char *text, struct limpet_labels *labels);
/* Parses --alloc-functions: LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message. There is one
 * list, which is never freed. */
int limpet_capture_parse_alloc_functions(const char *path, const struct limpet_entry_list **ret);
/* Fills in *ret_options from `argv` (argv[0] is the subcommand). True: continue. False: everything
 * was printed (help, or an error and a hint); exit with *ret_status, *ret_options is untouched. */
bool limpet_capture_options_parse(enum limpet_capture_command command, int argc, char **argv,
				  struct limpet_capture_options *ret_options, int *ret_status);

/* The reverse: the command line of a limpet that captures a child with the same options. */
struct limpet_capture_words {
	char *list[40 + 2 * LIMPET_LABELS_MAX]; /* NULL-terminated */
	unsigned count;
	bool failed; /* out of memory: an argument is missing */
};
void limpet_capture_options_write(const struct limpet_capture_options *options,
				  const struct limpet_fork *fork, const char *trace,
				  struct limpet_capture_words *ret);
void limpet_capture_words_done(struct limpet_capture_words *words);

#endif
