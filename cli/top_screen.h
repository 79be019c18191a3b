/* The screen of `limpet top`: its contents, and its keys. One at a time; main thread. */
#ifndef LIMPET_CLI_TOP_SCREEN_H
#define LIMPET_CLI_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/top_page.h"
#include "cli/top_rows.h"
#include "cli/top_source.h"
#include "common/err.h"

/* Between two updates of a running capture. */
#define LIMPET_TOP_DELAY_NS 1000000000ull

struct limpet_top_options {
	uint64_t duration_ns; /* of the capture; 0: no limit, or unknown */
	enum limpet_report_sort sort;
	struct limpet_filter *filter; /* borrowed; NULL: none */
};

struct limpet_top_screen {
	struct limpet_top_source *source;
	struct limpet_top_options options;
	struct limpet_top_view look;
	struct limpet_top_rows *rows;
	enum limpet_top_kind kind;
	const struct limpet_view *view;
	uint64_t selected;  /* key of a row */
	size_t at, first;   /* row that is selected, row at the top */
	unsigned page_rows; /* rows that fit */
	bool paused, help, colour, utf8;
	/* An update of a running capture, in pieces: keys are handled in between. */
	bool reading, news;
	uint64_t begun_ns, busy_ns;  /* of the update */
	uint64_t next_ns;            /* time of the next update */
	uint64_t figures_ns;         /* when the shown figures were up to date */
	bool no_threads;             /* the trace has none */
	struct limpet_filter *typed; /* filter that was typed here */
	unsigned marks;              /* the last that was set, or found to be set, here */
	char filter[128], search[128];
	char message[1024];  /* shown until the next key */
	const char *finding; /* of the capture; NULL: none */
	struct limpet_top_page page;
	/* A line that is being typed. */
	const char *prompt; /* NULL: none */
	char typed_text[128];
	size_t typed_bytes;
};

/* Runs until the user quits, or a signal arrives. Restores the terminal. 0, or -errno with a
 * message: -ENOTTY: no terminal, or an unknown one. */
int limpet_top_screen_run(struct limpet_top_source *source,
			  const struct limpet_top_options *options, struct limpet_err *err);

/* ------------------------------------------------------------------ for top_screen.c, top_draw.c
 */

/* Lines of the terminal above the rows; the line before the last of these has the lists' names. */
#define LIMPET_TOP_HEAD_ROWS 5
#define LIMPET_TOP_TABS_ROW 3

/* Whether the list that is shown can be sorted so: the peak of a running capture is unknown, and
 * what its threads hold. */
bool limpet_top_screen_can_sort(const struct limpet_top_screen *screen,
				enum limpet_report_sort sort);
/* By what it is sorted. */
enum limpet_report_sort limpet_top_screen_sort(const struct limpet_top_screen *screen);

/* Draws the whole screen. */
void limpet_top_draw(struct limpet_top_screen *screen);
/* The list whose name is shown at this column of that line; -1: none. */
int limpet_top_draw_tab_at(int column);

#endif
