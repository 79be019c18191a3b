/* Options that report, html, diff and export share, the window and the filters; top has the
 * filters.
 */
#ifndef LIMPET_CLI_VIEW_OPTIONS_H
#define LIMPET_CLI_VIEW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/filter.h"
#include "analyzer/text/report_text.h"
#include "analyzer/trace/trace_reader.h"
#include "analyzer/views/report.h"
#include "cli/command_line.h"

/* Values for getopt_long's tables; those of a single command start at LIMPET_OPT_OWN. */
enum {
	LIMPET_OPT_FROM = 256,
	LIMPET_OPT_TO,
	LIMPET_OPT_BORN,
	LIMPET_OPT_INCLUDE,
	LIMPET_OPT_EXCLUDE,
	LIMPET_OPT_SORT,
	LIMPET_OPT_FORMAT,
	LIMPET_OPT_JSON,
	LIMPET_OPT_OWN
};
#define LIMPET_FILTER_OPTIONS                                                              \
	{"include",                                                                        \
	 0,                                                                                \
	 "REGEX",                                                                          \
	 "only stacks with a frame that matches, by function, file or module; function:, " \
	 "file:, module:, thread: narrow it",                                              \
	 LIMPET_OPT_INCLUDE,                                                               \
	 NULL},                                                                            \
		{"exclude",                                                                \
		 0,                                                                        \
		 "REGEX",                                                                  \
		 "hide stacks with a frame that matches; @FILE: those of LeakSanitizer's " \
		 "suppressions in FILE",                                                   \
		 LIMPET_OPT_EXCLUDE,                                                       \
		 NULL},
#define LIMPET_WINDOW_OPTIONS(text)                                                                 \
	{"from", 0, "TIME", text, LIMPET_OPT_FROM, NULL},                                           \
		{"to", 0, "TIME", "the end of that time", LIMPET_OPT_TO, NULL},                     \
		{"born-between",  0,   "A,B", "only blocks allocated between these times or marks", \
		 LIMPET_OPT_BORN, NULL},
#define LIMPET_SORT_OPTION(text) \
	{"sort", 0, "WORD", text, LIMPET_OPT_SORT, limpet_report_sort_words},
#define LIMPET_FORMAT_OPTION                       \
	{"format",                                 \
	 0,                                        \
	 "WORD",                                   \
	 "text or markdown, for an issue tracker", \
	 LIMPET_OPT_FORMAT,                        \
	 limpet_cli_format_words},
extern const char *const limpet_cli_format_words[];

struct limpet_cli_view {
	bool from_given, to_given;
	uint64_t from_ns, to_ns;
	const char *from, *to, *born; /* as given; NULL: not */
	struct limpet_filter *filter; /* NULL: none was given */
	bool include, exclude;        /* it has these */
};

/* Handles one of the options above. Returns LIMPET_EXIT_OK, or another status after a message. */
int limpet_cli_view_option(const char *command, struct limpet_cli_view *view, int option,
			   const char *argument);
void limpet_cli_view_done(struct limpet_cli_view *view);

/* The options of the filter that were given, in words: "--include and --exclude". NULL: none. */
#define LIMPET_CLI_FILTERS 80
const char *limpet_cli_view_filters(const struct limpet_cli_view *view,
				    char ret[LIMPET_CLI_FILTERS]);

/* The '@' before the window in FILE@FROM-TO; NULL: there is none. A file with exactly this name
 * takes precedence, and the name of a mark may have an '@', too. */
const char *limpet_cli_find_window(const char *argument);
/* Finds the times of the window and of the births, which may be marks of the trace. Rejects what is
 * neither, ends that are not after their beginnings, and FILE@FROM-TO: LIMPET_EXIT_USAGE, after a
 * message. */
int limpet_cli_view_times(const char *command, struct limpet_cli_view *view, const char *path);
/* Rejects a window outside the capture, which would only show zeros: LIMPET_EXIT_USAGE, after a
 * message. */
int limpet_cli_check_window(const char *command, const struct limpet_cli_view *view,
			    struct limpet_trace_reader *reader);

int limpet_cli_parse_number(const char *command, const char *option, const char *argument,
			    size_t *ret_number);
/* A hint at the words of a NULL-terminated list, and at the help. */
void limpet_cli_hint_words(const char *command, const char *const *words, struct limpet_err *err);
/* The index of `argument` in a NULL-terminated list, or -1 after a message: `what` and the word. */
int limpet_cli_parse_word(const char *command, const char *what, const char *argument,
			  const char *const *words);
int limpet_cli_parse_sort(const char *command, const char *argument,
			  enum limpet_report_sort *ret_sort);

enum limpet_cli_format { LIMPET_CLI_TEXT, LIMPET_CLI_MARKDOWN, LIMPET_CLI_JSON };
/* Of --format, the first two. */
int limpet_cli_parse_format(const char *command, const char *argument,
			    enum limpet_cli_format *ret_format);

/* For text on standard output; of Markdown it is a part, without colours and whole. */
struct limpet_report_text_options limpet_cli_text_options(enum limpet_cli_format format, bool full);

/* Standard output, or, for Markdown, memory: what is printed there becomes a block of code. */
struct limpet_cli_output {
	FILE *file; /* NULL: out of memory */
	char *text;
	size_t bytes;
};
void limpet_cli_output_begin(struct limpet_cli_output *output, enum limpet_cli_format format);
/* `result`, or -ENOMEM. Prints nothing of a text that failed. */
int limpet_cli_output_end(struct limpet_cli_output *output, int result) LIMPET_MUST_CHECK;

/* For limpet_analysis_options: a progress line on stderr, if that is a terminal, once it has taken
 * a while. The context is NULL. */
void limpet_cli_show_progress(void *context, size_t done, size_t all);
/* Erases it. */
void limpet_cli_clear_progress(void);

#endif
