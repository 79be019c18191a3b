/* Views as text, for people: tables and trees that fit the width. */
#ifndef LIMPET_ANALYZER_TEXT_VIEW_TEXT_H
#define LIMPET_ANALYZER_TEXT_VIEW_TEXT_H

#include <stdio.h>

#include "analyzer/text/report_text.h"
#include "analyzer/views/analysis.h"

enum limpet_view_kind {
	LIMPET_VIEW_SITES = 0, /* the report itself: report_text.h, report_json.h */
	LIMPET_VIEW_BOTTOM_UP,
	LIMPET_VIEW_TOP_DOWN,
	LIMPET_VIEW_FUNCTIONS,
	LIMPET_VIEW_CALLERS,
	LIMPET_VIEW_THREADS,
	LIMPET_VIEW_MODULES,
	LIMPET_VIEW_SIZES,
	LIMPET_VIEW_LIFETIMES,
	LIMPET_VIEW_TIMELINE,
	LIMPET_VIEW_PAGES,
	LIMPET_VIEW_COUNT
};
/* The words of --view, in the order of the enum; ends with NULL. */
extern const char *const limpet_view_words[LIMPET_VIEW_COUNT + 1];
bool limpet_view_needs_replay(enum limpet_view_kind kind);
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
