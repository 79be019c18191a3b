/* Views as text, for people: tables and trees that fit the width. */
#ifndef LIMPET_ANALYZER_TEXT_VIEW_TEXT_H
#define LIMPET_ANALYZER_TEXT_VIEW_TEXT_H

#include <stdio.h>

#include "analyzer/text/report_text.h"
#include "analyzer/views/analysis.h"

/* The views: kind, word of --view, what prints it as text and as JSON (in view_text.c and
 * view_json.c; NULL: not by this table), and what it needs. The first is the report itself:
 * report_text.h, report_json.h. */
#define LIMPET_VIEWS(X)                                                   \
	X(SITES, "sites", NULL, NULL, SUMS)                               \
	X(BOTTOM_UP, "bottom-up", print_tree, print_tree, SUMS)           \
	X(TOP_DOWN, "top-down", print_tree, print_tree, SUMS)             \
	X(FUNCTIONS, "functions", print_functions, print_functions, SUMS) \
	X(CALLERS, "callers", print_calls, NULL, SUMS)                    \
	X(THREADS, "threads", print_threads, print_threads, BLOCKS)       \
	X(MODULES, "modules", print_modules, print_modules, SUMS)         \
	X(SIZES, "sizes", print_lives, print_lives, EVENTS)               \
	X(LIFETIMES, "lifetimes", print_lives, print_lives, BLOCKS)       \
	X(TIMELINE, "timeline", print_timeline, print_timeline, EVENTS)   \
	X(PAGES, "pages", print_pages, print_pages, SUMS)

#define LIMPET_VIEW_KIND(kind, word, text, json, needs) LIMPET_VIEW_##kind,
enum limpet_view_kind { LIMPET_VIEWS(LIMPET_VIEW_KIND) LIMPET_VIEW_COUNT };
/* The words of --view, in the order of the enum; ends with NULL. */
extern const char *const limpet_view_words[LIMPET_VIEW_COUNT + 1];
/* Beside sums: single events; threads of blocks, and when each was freed. */
enum limpet_view_needs {
	LIMPET_VIEW_NEEDS_SUMS,
	LIMPET_VIEW_NEEDS_EVENTS,
	LIMPET_VIEW_NEEDS_BLOCKS
};
enum limpet_view_needs limpet_view_needs(enum limpet_view_kind kind);
/* Number of moments in a timeline. */
#define LIMPET_VIEW_MOMENTS 16

struct limpet_view_options {
	enum limpet_view_kind kind;
	size_t limit;         /* of rows, or of children of one node of a tree; SIZE_MAX: all */
	double least_share;   /* of the whole, for a row or a node of a tree to be shown as text */
	const char *function; /* for LIMPET_VIEW_CALLERS */
};

/* -ENOMEM, and the errors of limpet_view_calls_new() with a message in `err`; errors of `file` are
 * found by ferror(). */
int limpet_view_text_print(struct limpet_analysis *analysis,
			   const struct limpet_view_options *options,
			   const struct limpet_report_text_options *text, FILE *file,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

/* Sets `err` for -ENOENT and -ENOTUNIQ of limpet_view_calls_new(). Returns `code`. */
int limpet_view_explain(const struct limpet_view *view, const char *name,
			const struct limpet_view_calls *calls, int code, struct limpet_err *err);

#endif
