/* Printing for the text report, text views and `top`: lines that are harmless and fit the width,
 * and figures for people. */
#ifndef LIMPET_ANALYZER_TEXT_REPORT_PRINTER_H
#define LIMPET_ANALYZER_TEXT_REPORT_PRINTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/model_losses.h"
#include "analyzer/views/report.h"
#include "common/mark_name.h"
#include "common/units.h"

/* The figure to sort by, for headings. */
const char *limpet_printer_title(const struct limpet_model *model, enum limpet_report_sort sort);
/* What the figures of stacks mean in a trace of pages, where nothing else says it. */
extern const char limpet_printer_first_touch[];

struct limpet_report_text_options {
	unsigned width; /* columns; 0: lines are not cut */
	bool full;      /* every frame, names with parameters */
	/* Escape sequences, "" without colours. */
	const char *bold, *dim, *warn, *plain;
};

struct limpet_printer {
	FILE *file;
	const struct limpet_report_text_options *options;
	struct limpet_report *report;
	int error;                        /* the first; 0: none. After it nothing is printed */
	char units[8][LIMPET_UNITS_TEXT]; /* used in turn */
	unsigned next;
};

/* Keeps `code` if it is the first error. Returns whether there is none. Errors of the file are not
 * among them: they are found by ferror(). */
static inline bool limpet_printer_check(struct limpet_printer *printer, int code)
{
	if (!printer->error && code < 0)
		printer->error = code;
	return !printer->error;
}

/* Formats one line, makes it harmless, cuts it to the width and prints it in `style` (one of the
 * options'; "" none). */
void limpet_printer_line(struct limpet_printer *printer, const char *style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, but wraps long lines: further ones begin with `indent` spaces. Only a word that is
 * longer than a line is cut. */
void limpet_printer_wrap(struct limpet_printer *printer, const char *style, unsigned indent,
			 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A row of a head: `word`, of nine columns at most, and the text beside it, wrapped. */
void limpet_printer_row(struct limpet_printer *printer, const char *style, const char *word,
			const char *format, ...) __attribute__((format(printf, 4, 5)));
void limpet_printer_blank(struct limpet_printer *printer);

/* Figures; each text is valid for seven more calls, so that one line can show several. */
const char *limpet_printer_bytes(struct limpet_printer *printer, uint64_t value);
const char *limpet_printer_bytes_change(struct limpet_printer *printer, int64_t value);
const char *limpet_printer_count(struct limpet_printer *printer, uint64_t value);
const char *limpet_printer_duration(struct limpet_printer *printer, uint64_t ns);
const char *limpet_printer_time(struct limpet_printer *printer, uint64_t ns);
const char *limpet_printer_stop(struct limpet_printer *printer,
				uint64_t us); /* as limpet attach says it */
const char *limpet_printer_rate(struct limpet_printer *printer, uint64_t value, uint64_t ns);
/* " (pid 4711)"; "" if it is unknown. */
const char *limpet_printer_pid(struct limpet_printer *printer, const struct limpet_model *model);
/* A figure of `sort`, in its unit. */
const char *limpet_printer_figure(struct limpet_printer *printer, enum limpet_report_sort sort,
				  int64_t figure);
/* "66 %"; "" if there is no whole. */
const char *limpet_printer_share(struct limpet_printer *printer, uint64_t part, uint64_t whole);
/* "" for one, "s" for others. */
const char *limpet_printer_plural(uint64_t value);
/* Whether the model never has a block. */
bool limpet_printer_is_empty(const struct limpet_model *model);
/* For such a model: prints what there was instead, as one line that begins with `calls`. */
void limpet_printer_print_empty(struct limpet_printer *printer, const struct limpet_model *model);

/* limpet_model_losses() without those that the text has elsewhere: sampled, still running. */
size_t limpet_printer_losses(const struct limpet_model *model,
			     struct limpet_model_loss ret[LIMPET_LOSS_COUNT]);

/* The mark that is set at that time, if there is one, and the time. Its name may become three times
 * as long when it is made harmless. */
#define LIMPET_PRINTER_MOMENT (3 * LIMPET_MARK_NAME_ROOM + LIMPET_UNITS_TEXT + 8)
const char *limpet_printer_moment(struct limpet_printer *printer, const struct limpet_model *model,
				  uint64_t time_ns, char ret[LIMPET_PRINTER_MOMENT]);
/* Instead of findings, if there is a filter: its options. */
#define LIMPET_REPORT_NO_FINDINGS \
	"Findings are made from all that was recorded: none are shown with %s."
/* Where the names of functions are from, if they are not the trace's. False: they are. */
#define LIMPET_PRINTER_NAMES 160
bool limpet_printer_format_names(const struct limpet_model *model, char ret[LIMPET_PRINTER_NAMES]);
/* The same as a row, if there is something to say. */
void limpet_printer_names(struct limpet_printer *printer, const struct limpet_model *model);
/* Those of limpet_printer_births() alone: "blocks allocated between load and 10m". */
#define LIMPET_PRINTER_BIRTHS (2 * LIMPET_PRINTER_MOMENT + 40)
const char *limpet_printer_format_births(struct limpet_printer *printer,
					 const struct limpet_model *model,
					 char ret[LIMPET_PRINTER_BIRTHS]);
/* A row: the blocks that all figures are of, if they are those that were made in a part of the
 * time. */
void limpet_printer_births(struct limpet_printer *printer, const struct limpet_model *model);

/* Cuts `text` in place to `columns`, with "..." for what is gone: at the end, or at the start where
 * the end says more (paths, qualified names). */
void limpet_printer_cut(char *text, size_t columns, bool at_start);

/* ------------------------------------------------------------------ the parts of the report */

/* Target, window, losses, totals: the first prints all of them. */
void limpet_report_head_print(struct limpet_printer *printer);
/* Not a loss: memory that limpet does not follow. */
void limpet_report_unfollowed_print(struct limpet_printer *printer);
void limpet_report_losses_print(struct limpet_printer *printer);
void limpet_report_totals_print(struct limpet_printer *printer);
/* Which blocks were lost, and where; nothing if it is not known. */
void limpet_report_lost_print(struct limpet_printer *printer);
/* "30.0 k of 31.0 k lost", "held by sessions (server.c:31)", both, or ""; malloc'ed. NULL: no
 * memory. */
char *limpet_report_site_lost(struct limpet_printer *printer, const struct limpet_lost *lost);

/* `figures`, the function's name, `detail`, and the stack of `node`, `frames` of it at most. */
void limpet_report_stack_print(struct limpet_printer *printer, uint32_t node, const char *figures,
			       const char *detail, size_t frames);

/* The functions that name a stack, as its heading has them: malloc'ed. Begins as all zeros. */
struct limpet_report_names {
	char *name;   /* NULL: the stack is unknown */
	char *via;    /* the library's function that it called; NULL: none */
	char *caller; /* NULL: it is the outermost */
};
/* 0 or -ENOMEM. */
int limpet_report_stack_names(struct limpet_report *report, uint32_t node,
			      struct limpet_report_names *ret) LIMPET_MUST_CHECK;
/* In place of the name of such a stack. */
const char *limpet_report_nameless(const struct limpet_report *report, uint32_t node);
void limpet_report_sites_print(struct limpet_printer *printer);
/* The whole that the sites' figures are parts of; 0: there is none. */
uint64_t limpet_report_sites_total(const struct limpet_report *report);
/* What is mapped outside of the heap. */
void limpet_report_maps_print(struct limpet_printer *printer);
void limpet_report_sizes_print(struct limpet_printer *printer);

#endif
