/* Drawing for cli/top_screen.h. */
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "analyzer/text/report_printer.h"
#include "cli/top_memory.h"
#include "cli/top_pace.h"
#include "cli/top_screen.h"
#include "common/clock.h"
#include "common/plain_text.h"
#include "common/units.h"

/* Pairs of colours. */
enum { PLAIN = 0, GREEN, YELLOW, RED, CYAN };

/* Minimum width of a name; and width at which there is room for its caller beside it. */
#define NAME_COLUMNS 24
#define NAMES_COLUMNS 50
/* The longest text of a figure, and a blank. */
#define FIGURE_COLUMNS (LIMPET_UNITS_BYTES_MAX + 1)
#define CHANGE_COLUMNS (LIMPET_UNITS_CHANGE_MAX + 1)
#define SHARE_COLUMNS ((int)sizeof("100 %"))

/* ------------------------------------------------------------------ words */

/* Prints as much of `text` as fits, followed by blanks if `fill`. Returns the columns used. */
static int put(int row, int column, int columns, const char *text, bool fill)
{
	mbstate_t state = {0};
	size_t left = strlen(text);
	const char *at = text;
	int used = 0;

	if (columns <= 0 || row < 0 || row >= LINES)
		return 0;
	while (left) {
		wchar_t character;
		size_t bytes = mbrtowc(&character, at, left, &state);
		int width;

		if (bytes == 0 || bytes > left)
			break;
		width = wcwidth(character);
		if (width < 0 || used + width > columns)
			break;
		used += width;
		at += bytes;
		left -= bytes;
	}
	mvaddnstr(row, column, text, (int)(at - text));
	for (int i = used; fill && i < columns; i++)
		addch(' ');
	return used;
}

/* Without a suitable locale, characters outside ASCII cannot be shown. */
static void to_ascii(const struct limpet_top_screen *screen, char *text)
{
	for (; !screen->utf8 && *text; text++)
		if ((unsigned char)*text >= 0x80)
			*text = '?';
}

static void style(const struct limpet_top_screen *screen, int pair, attr_t attributes)
{
	attrset(attributes | (screen->colour ? (attr_t)COLOR_PAIR(pair) : 0));
}

static double window_seconds(const struct limpet_top_screen *screen)
{
	const struct limpet_model *model = limpet_top_source_model(screen->source);

	return model->to_ns > model->from_ns ? (double)(model->to_ns - model->from_ns) / 1e9 : 0;
}

/* Figures of calls are per second, unless they are of the whole capture. */
static bool by_second(const struct limpet_top_screen *screen)
{
	return limpet_top_source_is_live(screen->source) && screen->look.window_ns;
}

/* The time that the rows' figures are of: for threads all events are read, little by little. */
static double row_seconds(const struct limpet_top_screen *screen)
{
	if (screen->kind == LIMPET_TOP_THREADS && limpet_top_rows_threads_ns(screen->rows))
		return (double)limpet_top_rows_threads_ns(screen->rows) / 1e9;
	return window_seconds(screen);
}

static double per_second(double value, double seconds)
{
	return seconds > 0 ? value / seconds : 0;
}

static void format_change(char ret[LIMPET_UNITS_TEXT], double bytes)
{
	limpet_units_format_bytes_change(ret, (int64_t)bytes);
}

/* ------------------------------------------------------------------ columns */

enum column { LIVE, SHARE, BLOCKS, PEAK, GROWTH, ALLOCATIONS, BYTES, TEMPORARY, COLUMNS_ALL };

struct columns {
	enum column list[COLUMNS_ALL];
	unsigned count;
	int room; /* columns of the terminal that are left for more */
};

static int column_width(enum column column)
{
	return column == SHARE ? SHARE_COLUMNS : column == GROWTH ? CHANGE_COLUMNS : FIGURE_COLUMNS;
}

/* Puts a text at the right of its column. Returns the columns used: those of `column`, if the
 * terminal has them, whatever the text. */
static int print_figure(int row, int at, enum column column, const char *text)
{
	const int width = column_width(column), room = COLS - at;
	char cell[LIMPET_UNITS_TEXT + 2];

	snprintf(cell, sizeof(cell), "%*s ", width - 1, text);
	put(row, at, room < width ? room : width, cell, true);
	return width;
}

static bool is_of_pages(const struct limpet_top_screen *screen)
{
	return limpet_top_source_model(screen->source)->target->pages;
}

static const char *column_title(const struct limpet_top_screen *screen, enum column column)
{
	const bool rate = by_second(screen), pages = is_of_pages(screen);

	switch (column) {
	case LIVE:
		return pages ? "RESIDENT" : "LIVE";
	case SHARE:
		return "SHARE";
	case BLOCKS:
		return pages ? "PAGES" : "BLOCKS";
	case PEAK:
		return "AT PEAK";
	case GROWTH:
		return rate ? "GROWTH/s" : "GROWTH";
	case ALLOCATIONS:
		if (pages)
			return rate ? "TOUCHED/s" : "TOUCHED";
		return rate ? "ALLOCS/s" : "ALLOCS";
	case BYTES:
		return rate ? "BYTES/s" : "BYTES";
	default:
		return "TEMPORARY";
	}
}

static enum column column_of_sort(enum limpet_report_sort sort)
{
	static const enum column columns[LIMPET_REPORT_SORT_COUNT] = {
		[LIMPET_REPORT_PEAK] = PEAK,
		[LIMPET_REPORT_LIVE] = LIVE,
		[LIMPET_REPORT_ALLOCATIONS] = ALLOCATIONS,
		[LIMPET_REPORT_ALLOCATED] = BYTES,
		[LIMPET_REPORT_TEMPORARY] = TEMPORARY,
		[LIMPET_REPORT_GROWTH] = GROWTH,
	};

	return columns[sort];
}

/* Adds it if it fits and is not there yet; false: it does not fit. */
static bool add_column(struct columns *columns, enum column column)
{
	for (unsigned i = 0; i < columns->count; i++)
		if (columns->list[i] == column)
			return true;
	if (columns->room < column_width(column))
		return false;
	columns->room -= column_width(column);
	columns->list[columns->count++] = column;
	return true;
}

/* How much of a row figures may use: names come first, until they have room for callers, then half
 * of the row. */
static int room_for_figures(void)
{
	const int least = COLS - NAME_COLUMNS < FIGURE_COLUMNS + SHARE_COLUMNS
				  ? COLS - NAME_COLUMNS
				  : FIGURE_COLUMNS + SHARE_COLUMNS;
	const int most = COLS / 2 < COLS - NAMES_COLUMNS ? COLS / 2 : COLS - NAMES_COLUMNS;

	if (COLS / 2 < CHANGE_COLUMNS)
		return 0;
	if (most > least)
		return most;
	return least > CHANGE_COLUMNS ? least : CHANGE_COLUMNS;
}

/* The column of the sort order is always shown; the width decides on the others. */
static struct columns choose_columns(const struct limpet_top_screen *screen)
{
	static const enum column wanted[] = {LIVE,        SHARE, PEAK,   GROWTH,
					     ALLOCATIONS, BYTES, BLOCKS, TEMPORARY};
	const bool live = limpet_top_source_is_live(screen->source);
	/* For a running capture it is unknown what a thread holds. */
	const bool held = screen->kind != LIMPET_TOP_THREADS || !live;
	struct columns columns = {.room = room_for_figures()};

	add_column(&columns, column_of_sort(limpet_top_screen_sort(screen)));
	/* Shares are of the column before them. */
	if (screen->look.sort == LIMPET_REPORT_PEAK)
		add_column(&columns, SHARE);
	for (size_t i = 0; i < LIMPET_COUNT_OF(wanted); i++) {
		const enum column column = wanted[i];
		const bool of_calls =
			column == ALLOCATIONS || column == BYTES || column == TEMPORARY;

		if ((held || of_calls) && (column != PEAK || !live) &&
		    !add_column(&columns, column))
			break;
	}
	return columns;
}

static void format_share(const struct limpet_top_screen *screen,
			 const struct limpet_model_site *figures, char ret[LIMPET_UNITS_TEXT])
{
	const struct limpet_model_site *all = &screen->view->totals;
	const bool peak = screen->look.sort == LIMPET_REPORT_PEAK;
	struct limpet_printer printer = {0};

	snprintf(ret, LIMPET_UNITS_TEXT, "%s",
		 limpet_printer_share(&printer, peak ? figures->peak_bytes : figures->live_bytes,
				      peak ? all->peak_bytes : all->live_bytes));
}

static void format_figure(const struct limpet_top_screen *screen,
			  const struct limpet_model_site *figures, enum column column,
			  char ret[LIMPET_UNITS_TEXT])
{
	const bool rate = by_second(screen);
	const double seconds = row_seconds(screen);
	double value;

	switch (column) {
	case LIVE:
		limpet_units_format_bytes(ret, figures->live_bytes);
		break;
	case SHARE:
		format_share(screen, figures, ret);
		break;
	case BLOCKS:
		limpet_units_format_count(ret, figures->live_allocations);
		break;
	case PEAK:
		limpet_units_format_bytes(ret, figures->peak_bytes);
		break;
	case GROWTH:
		value = (double)figures->growth_bytes;
		format_change(ret, rate ? per_second(value, seconds) : value);
		break;
	case ALLOCATIONS:
		value = (double)figures->allocations;
		limpet_units_format_count(
			ret, (uint64_t)(rate ? per_second(value, seconds) + 0.5 : value));
		break;
	case BYTES:
		value = (double)figures->allocated_bytes;
		limpet_units_format_bytes(ret,
					  (uint64_t)(rate ? per_second(value, seconds) : value));
		break;
	default:
		/* For samples it is unknown. */
		if (figures->allocations && !limpet_top_source_model(screen->source)->sample_bytes)
			snprintf(ret, LIMPET_UNITS_TEXT, "%.0f %%",
				 100.0 * (double)figures->temporary_allocations /
					 (double)figures->allocations);
		else
			snprintf(ret, LIMPET_UNITS_TEXT, "-");
	}
}

/* ------------------------------------------------------------------ the head */

/* The maximum of each interval, as bars of eight heights. */
static void draw_sparkline(const struct limpet_top_screen *screen, int row, int column, bool rss)
{
	static const char *const bars[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
					   "\u2585", "\u2586", "\u2587", "\u2588"};
	static const char *const plain[] = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
	const struct limpet_model *model = limpet_top_source_model(screen->source);
	const uint64_t end = model->to_ns ? model->to_ns : 1;
	const int width = COLS - column;
	uint64_t values[512] = {0}, highest = 1;
	int columns = width < 512 ? width : 512, last = 0;

	for (size_t i = 0; columns > 0 && i < model->timeline_count; i++) {
		const struct limpet_model_point *point = &model->timeline[i];
		uint64_t value = rss ? limpet_model_point_rss(point) : point->live_bytes;
		int at = (int)((double)point->time_ns / (double)end * (columns - 1));

		if (at < 0 || at >= columns)
			continue;
		/* Between two distant points the value is that of the first. */
		for (int k = last + 1; k < at; k++)
			values[k] = values[last];
		if (value > values[at])
			values[at] = value;
		last = at;
		if (value > highest)
			highest = value;
	}
	move(row, column);
	for (int i = 0; i <= last && i < columns; i++) {
		int bar = values[i] ? 1 + (int)((double)values[i] / (double)highest * 7) : 0;

		addstr(screen->utf8 ? bars[bar] : plain[bar]);
	}
}

static const char *state_words(const struct limpet_top_screen *screen)
{
	static const char *const ends[LIMPET_END_COUNT] = {
		[LIMPET_END_DURATION] = "ended after its duration",
		[LIMPET_END_INTERRUPT] = "ended by interrupt",
		[LIMPET_END_STOP] = "ended by limpet stop",
		[LIMPET_END_TARGET_EXIT] = "target exited",
		[LIMPET_END_TARGET_EXEC] = "target executed another program",
		[LIMPET_END_TARGET_KILLED] = "target was killed",
		[LIMPET_END_DISK_FULL] = "ended because the disk was full, or could not be written",
		[LIMPET_END_SIZE_LIMIT] = "ended at the size limit",
		[LIMPET_END_COLLECTOR_LOST] = "the collector died",
	};
	const struct limpet_trace_end *end = limpet_top_source_model(screen->source)->end;

	if (screen->paused)
		return "PAUSED";
	if ((unsigned)end->end < LIMPET_END_COUNT && ends[end->end])
		return ends[end->end];
	return "capturing";
}

/* " (4s old)", or nothing. */
static void format_age(const struct limpet_top_screen *screen, char ret[LIMPET_UNITS_TEXT + 8])
{
	uint64_t age_ns = 0;
	char age[LIMPET_UNITS_TEXT];

	if (!screen->paused && limpet_top_source_is_live(screen->source))
		age_ns = limpet_top_pace_age(limpet_monotonic_ns(), screen->figures_ns,
					     LIMPET_TOP_DELAY_NS);
	limpet_units_format_duration(age, age_ns - age_ns % 1000000000);
	snprintf(ret, LIMPET_UNITS_TEXT + 8, "%s%s%s", age_ns ? " (" : "", age_ns ? age : "",
		 age_ns ? " old)" : "");
}

static void draw_title(const struct limpet_top_screen *screen)
{
	const struct limpet_model *model = limpet_top_source_model(screen->source);
	char line[512], elapsed[LIMPET_UNITS_TEXT], whole[LIMPET_UNITS_TEXT] = "";
	char events[LIMPET_UNITS_TEXT + 16], age[LIMPET_UNITS_TEXT + 8];
	const double seconds = window_seconds(screen);

	limpet_units_format_duration(elapsed, model->to_ns);
	if (screen->options.duration_ns && limpet_top_source_is_live(screen->source))
		limpet_units_format_duration(whole, screen->options.duration_ns);
	limpet_units_format_count(
		events, seconds > 0 ? (uint64_t)((double)model->totals.events / seconds) : 0);
	format_age(screen, age);
	snprintf(line, sizeof(line), "limpet top  %s (%u)  %s  %s%s%s%s", model->target->comm,
		 model->target->pid, state_words(screen), elapsed, whole[0] ? "/" : "", whole, age);
	strcat(events, " events/s");
	/* Whole, or not at all. */
	if (strlen(line) + 2 + strlen(events) <= (size_t)COLS)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "  %s", events);
	limpet_plain_text_clean(line);
	to_ascii(screen, line);
	style(screen, PLAIN, A_BOLD);
	put(0, 0, COLS, line, false);
	if (model->totals.dropped_events) {
		int used = (int)strlen(line) + 2;

		limpet_units_format_count(events, model->totals.dropped_events);
		snprintf(line, sizeof(line), "%s dropped", events);
		style(screen, RED, A_BOLD);
		put(0, used, COLS - used, line, false);
	}
}

/* Where graphs begin: the parts of RSS need room beside them. */
static int graph_column(bool has_parts)
{
	const int wanted = COLS * 5 / 8;

	if (COLS < 60)
		return COLS;
	if (!has_parts)
		return 36;
	return wanted < 48 ? 48 : wanted > 100 ? 100 : wanted;
}

/* "live    5.7 MiB  +1.2 MiB/s". */
static void format_live(const struct limpet_top_screen *screen, char *ret, size_t room)
{
	const struct limpet_model *model = limpet_top_source_model(screen->source);
	char live[LIMPET_UNITS_TEXT], growth[LIMPET_UNITS_TEXT], most[LIMPET_UNITS_TEXT];
	const struct limpet_model_bound *bound = &model->bounds.live_bytes;
	const bool between = bound->has_min && bound->has_max && bound->min != bound->max;
	const double grew = (double)model->totals.growth_bytes;

	limpet_units_format_bytes(live, between ? bound->min : model->totals.live_bytes);
	limpet_units_format_bytes(most, bound->max);
	format_change(growth, by_second(screen) ? per_second(grew, window_seconds(screen)) : grew);
	snprintf(ret, room, "%s %s%10s%s%s  %s%s", is_of_pages(screen) ? "new " : "live",
		 model->sample_bytes ? "~" : " ", live, between ? " to " : "", between ? most : "",
		 growth, by_second(screen) ? "/s" : "");
}

/* What the capture saw in the first line, what the kernel says in the second; graphs of both beside
 * them. */
static void draw_memory(const struct limpet_top_screen *screen)
{
	const struct limpet_model *model = limpet_top_source_model(screen->source);
	struct limpet_parts parts;
	int graph;
	char live[128], rss[LIMPET_TOP_MEMORY_TEXT], mapped[LIMPET_UNITS_TEXT + 8];
	char text[LIMPET_UNITS_TEXT];
	uint64_t rss_bytes = 0;

	for (size_t i = model->timeline_count; i-- > 0 && !rss_bytes;)
		if (model->timeline[i].rss_bytes)
			rss_bytes = limpet_model_point_rss(&model->timeline[i]);
	limpet_parts_last(model, &parts);
	graph = graph_column(parts.known);
	format_live(screen, live, sizeof(live));
	limpet_top_memory_format(rss_bytes, &parts, graph - 1, rss);
	snprintf(mapped, sizeof(mapped), "  mmap %s",
		 limpet_units_format_bytes(text, model->totals.mapped_bytes));
	if (!parts.known)
		strcat(rss, mapped);
	else if ((int)(strlen(live) + strlen(mapped)) < graph)
		strcat(live, mapped);
	style(screen, PLAIN, A_BOLD);
	put(1, 0, graph - 1, live, false);
	put(2, 0, graph - 1, rss, false);
	if (graph < COLS) {
		style(screen, GREEN, A_NORMAL);
		draw_sparkline(screen, 1, graph, false);
		style(screen, CYAN, A_NORMAL);
		draw_sparkline(screen, 2, graph, true);
	}
}

static const char *const tabs[LIMPET_TOP_KINDS] = {"1 sites", "2 callers", "3 callees", "4 modules",
						   "5 threads"};
static const char tab_gap[] = "  ";

int limpet_top_draw_tab_at(int column)
{
	int from = 0;

	for (int i = 0; i < LIMPET_TOP_KINDS; i++) {
		const int to = from + (int)strlen(tabs[i]);

		if (column >= from && column < to)
			return i;
		from = to + (int)strlen(tab_gap);
	}
	return -1;
}

static void draw_tabs(const struct limpet_top_screen *screen)
{
	char line[256], window[LIMPET_UNITS_TEXT];
	const struct limpet_model *model = limpet_top_source_model(screen->source);
	const enum limpet_report_sort sort = limpet_top_screen_sort(screen);
	int column = 0;

	for (int i = 0; i < LIMPET_TOP_KINDS; i++) {
		style(screen, PLAIN, i == (int)screen->kind ? A_REVERSE | A_BOLD : A_NORMAL);
		column += put(3, column, COLS - column, tabs[i], false);
		style(screen, PLAIN, A_NORMAL);
		column += put(3, column, COLS - column, tab_gap, false);
	}
	if (screen->kind == LIMPET_TOP_THREADS && limpet_top_rows_threads_ns(screen->rows))
		limpet_units_format_duration(window, limpet_top_rows_threads_ns(screen->rows));
	else
		limpet_units_format_duration(
			window, model->to_ns > model->from_ns ? model->to_ns - model->from_ns : 0);
	snprintf(line, sizeof(line), "by %s, %s %s%s",
		 is_of_pages(screen) && sort == LIMPET_REPORT_LIVE ? "resident"
								   : limpet_report_sort_words[sort],
		 by_second(screen) ? "last" : "all", window, screen->look.full ? ", full" : "");
	to_ascii(screen, line);
	style(screen, YELLOW, A_NORMAL);
	put(3, column, COLS - column, line, false);
}

/* ------------------------------------------------------------------ the list */

#define HEAD_ROWS LIMPET_TOP_HEAD_ROWS

static void draw_column_titles(const struct limpet_top_screen *screen,
			       const struct columns *columns)
{
	const enum column sorted = column_of_sort(limpet_top_screen_sort(screen));
	int column = 0;

	for (unsigned i = 0; i < columns->count; i++) {
		style(screen, PLAIN, A_UNDERLINE | (columns->list[i] == sorted ? A_BOLD : 0));
		column += print_figure(4, column, columns->list[i],
				       column_title(screen, columns->list[i]));
	}
	style(screen, PLAIN, A_UNDERLINE);
	put(4, column, COLS - column,
	    screen->kind == LIMPET_TOP_SITES     ? is_of_pages(screen)
							   ? "  FIRST TOUCHED BY FUNCTION < CALLERS"
							   : "  FUNCTION < CALLERS"
	    : screen->kind == LIMPET_TOP_MODULES ? "  MODULE"
	    : screen->kind == LIMPET_TOP_THREADS ? "  THREAD"
						 : "  FUNCTION",
	    true);
}

static void draw_row(const struct limpet_top_screen *screen, const struct columns *columns, int at,
		     const struct limpet_top_row *row, bool selected)
{
	attr_t attributes = selected ? A_REVERSE : A_NORMAL;
	char *text;
	char figure[LIMPET_UNITS_TEXT];
	int column = 0, indent;

	style(screen, PLAIN, attributes);
	for (unsigned i = 0; i < columns->count; i++) {
		int pair = PLAIN;

		figure[0] = '\0';
		if (!row->is_frame) {
			format_figure(screen, &row->figures, columns->list[i], figure);
			if (columns->list[i] == GROWTH && row->figures.growth_bytes > 0)
				pair = YELLOW;
		}
		style(screen, pair, attributes);
		column += print_figure(at, column, columns->list[i], figure);
	}
	style(screen, PLAIN, attributes);
	indent = 2 * (int)(row->depth < 200 ? row->depth : 200);
	if (indent > (COLS - column) / 2)
		indent = (COLS - column) / 2;
	put(at, column, COLS - column, "", true);
	column += indent;
	column += put(at, column, COLS - column,
		      !row->has_children ? "  "
		      : row->open        ? "- "
					 : "+ ",
		      false);
	text = limpet_top_rows_text(screen->rows, row, COLS > column ? (size_t)(COLS - column) : 1);
	style(screen, row->found ? GREEN : PLAIN, attributes | (row->found ? A_BOLD : 0));
	if (text)
		to_ascii(screen, text);
	put(at, column, COLS - column, text ? text : "?", false);
	free(text);
}

/* Why the list is empty. */
static void draw_nothing(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	char frees[LIMPET_UNITS_TEXT], mmaps[LIMPET_UNITS_TEXT], line[160];

	if (model->target->pages || totals->allocations || totals->live_allocations) {
		put(HEAD_ROWS + 1, 2, COLS - 2, "Nothing to show.", false);
		return;
	}
	snprintf(line, sizeof(line),
		 "No allocation was seen%s; %s free%s of older blocks, %s mmap%s.",
		 model->end->end == LIMPET_END_RUNNING ? " yet" : "",
		 limpet_units_format_count(frees, totals->foreign_frees),
		 totals->foreign_frees == 1 ? "" : "s",
		 limpet_units_format_count(mmaps, totals->mmaps), totals->mmaps == 1 ? "" : "s");
	put(HEAD_ROWS + 1, 2, COLS - 2, line, false);
}

static void draw_list(struct limpet_top_screen *screen)
{
	const struct columns columns = choose_columns(screen);
	const struct limpet_top_row *list;
	size_t count = limpet_top_rows_list(screen->rows, &list);

	draw_column_titles(screen, &columns);
	for (unsigned i = 0; i < screen->page_rows && screen->first + i < count; i++)
		draw_row(screen, &columns, HEAD_ROWS + (int)i, &list[screen->first + i],
			 screen->first + i == screen->at);
	style(screen, PLAIN, A_NORMAL);
	if (screen->no_threads)
		put(HEAD_ROWS + 1, 2, COLS - 2,
		    "This trace has no single events: what each thread did is not known.", false);
	else if (!count)
		draw_nothing(limpet_top_source_model(screen->source));
}

/* ------------------------------------------------------------------ the foot, help */

/* A low terminal has no room for more than the keys. */
static bool has_notes(void)
{
	return LINES >= 16;
}

/* As many keys as fit into the columns; each complete. */
static void fitting_keys(char *ret, size_t room, int columns)
{
	static const char *const keys[] = {
		"? help",   "  q quit",   "  Enter unfold", "  s sort", "  / find", "  f filter",
		"  e edit", "  w window", "  p pause",      "  m mark", "  h page",
	};
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < LIMPET_COUNT_OF(keys); i++) {
		const size_t more = strlen(keys[i]);

		if (columns < 0 || used + more > (size_t)columns || used + more >= room)
			return;
		memcpy(ret + used, keys[i], more + 1);
		used += more;
	}
}

static void draw_note(const struct limpet_top_screen *screen, int row, int pair, char *text)
{
	if (!text)
		return;
	if (!screen->look.full)
		limpet_top_rows_drop_nameless(text);
	limpet_printer_cut(text, (size_t)COLS, false);
	to_ascii(screen, text);
	style(screen, pair, A_NORMAL);
	put(row, 0, COLS, text, false);
	free(text);
}

/* What is known of the selected row, and of the capture, above the keys. */
static void draw_notes(const struct limpet_top_screen *screen)
{
	const struct limpet_top_row *list;
	const size_t count = limpet_top_rows_list(screen->rows, &list);

	if (!has_notes())
		return;
	if (screen->at < count)
		draw_note(screen, LINES - 3, CYAN,
			  limpet_top_rows_detail(screen->rows, &list[screen->at], (size_t)COLS));
	if (screen->finding)
		draw_note(screen, LINES - 2, YELLOW, strdup(screen->finding));
}

/* Cuts a message within its path, of which the end says most. */
static void cut_message(char *line, int columns)
{
	char *path = strchr(line, '/');
	const size_t have = limpet_plain_text_columns(line);
	const size_t room = columns > 0 ? (size_t)columns : 0;
	size_t of_path;

	if (!path || have <= room)
		return;
	of_path = limpet_plain_text_columns(path);
	limpet_printer_cut(path, of_path > have - room ? of_path - (have - room) : 0, true);
}

static void draw_foot(const struct limpet_top_screen *screen)
{
	const struct limpet_top_row *list;
	char line[sizeof(screen->message)], place[64];
	size_t count = limpet_top_rows_list(screen->rows, &list);
	int used;

	if (screen->prompt) {
		style(screen, PLAIN, A_BOLD);
		used = put(LINES - 1, 0, COLS, screen->prompt, false);
		used += put(LINES - 1, used, COLS - used, screen->typed_text, false);
		move(LINES - 1, used < COLS ? used : COLS - 1);
		return;
	}
	snprintf(place, sizeof(place), " %zu/%zu ", count ? screen->at + 1 : 0, count);
	if (screen->message[0])
		snprintf(line, sizeof(line), "%s", screen->message);
	else if (screen->filter[0])
		snprintf(line, sizeof(line), "only stacks with '%s': f changes it, ? help",
			 screen->filter);
	else
		fitting_keys(line, sizeof(line), COLS - (int)strlen(place) - 1);
	used = (int)strlen(place);
	if (screen->message[0])
		cut_message(line, COLS - used - 1);
	to_ascii(screen, line);
	style(screen, screen->message[0] ? YELLOW : PLAIN, screen->message[0] ? A_BOLD : A_DIM);
	put(LINES - 1, 0, COLS - used - 1, line, true);
	style(screen, PLAIN, A_NORMAL);
	put(LINES - 1, COLS - used - 1, used, place, false);
}

static const char *const help[] = {
	"limpet top                                                 any key: back",
	"",
	"1 2 3 4 5, Tab   sites, callers, callees, modules, threads",
	"Up Down, j k     move; PgUp, PgDn, Home, End go further; wheel and click too",
	"Enter, Space     unfold or fold; Right unfolds, Left folds or goes up",
	"* and -          unfold all below; fold everything",
	"L G A B T P      sort by live, growth, allocations, bytes, temporary, peak",
	"s, S             sort by the next, the one before",
	"/ n N            search functions, files, modules; next, the one before",
	"f                show only stacks that match (a regular expression)",
	"w                window of rates: 10 s, 1 min, the whole capture",
	"z                show the frames of libraries and allocators too",
	"m                set a mark: top-1, top-2... for report --born-between",
	"e                open the source of the row's function ($VISUAL, else $EDITOR)",
	"h                write a page (limpet html) of what was captured so far",
	"p                stop and resume the display",
	"q, Ctrl-C        quit; the capture goes on",
	"",
	"LIVE is what was allocated since the capture began and is not freed; RESIDENT",
	"(limpet pages) what a stack touched first: another function may keep it.",
	"Callers: who allocates, and on whose behalf. Callees: from main down.",
	"The graphs show live bytes and RSS since the capture began.",
};

static void draw_help(const struct limpet_top_screen *screen)
{
	style(screen, PLAIN, A_NORMAL);
	for (int i = 0; i < (int)(sizeof(help) / sizeof(help[0])) && i < LINES; i++)
		put(i, 0, COLS, help[i], false);
}

/* Scrolls so that the selected row is visible. */
static void keep_in_sight(struct limpet_top_screen *screen)
{
	const struct limpet_top_row *list;
	size_t count = limpet_top_rows_list(screen->rows, &list);
	const int foot = has_notes() ? 3 : 1;

	screen->page_rows = LINES > HEAD_ROWS + foot ? (unsigned)(LINES - HEAD_ROWS - foot) : 1;
	if (screen->at >= count)
		screen->at = count ? count - 1 : 0;
	if (screen->at < screen->first)
		screen->first = screen->at;
	if (screen->at >= screen->first + screen->page_rows)
		screen->first = screen->at - screen->page_rows + 1;
	if (screen->first && screen->first + screen->page_rows > count)
		screen->first = count > screen->page_rows ? count - screen->page_rows : 0;
}

void limpet_top_draw(struct limpet_top_screen *screen)
{
	erase();
	keep_in_sight(screen);
	if (screen->help) {
		draw_help(screen);
	} else {
		draw_title(screen);
		draw_memory(screen);
		draw_tabs(screen);
		draw_list(screen);
		draw_notes(screen);
		draw_foot(screen);
	}
	curs_set(screen->prompt ? 1 : 0);
	refresh();
}
