#include "cli/top_screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "analyzer/text/report_printer.h"
#include "cli/top_editor.h"
#include "cli/top_pace.h"
#include "cli/ui.h"
#include "collector/control/control_client.h"
#include "common/clock.h"
#include "common/mark_name.h"
#include "common/plain_text.h"
#include "common/units.h"

#define KEY_ESCAPE 27
#define KEY_DELETE 127
/* What one step of the mouse's wheel moves by. */
#define WHEEL_ROWS 3u
/* Of a message about a function, beside its name; and of that at least. */
#define MESSAGE_COLUMNS 56
#define NAME_COLUMNS 12
/* Keeps the shown age of figures up to date. */
#define LONGEST_WAIT_MS 1000

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
	(void)number;
	ending = 1;
}

static void say(struct limpet_top_screen *screen, const char *words)
{
	snprintf(screen->message, sizeof(screen->message), "%s", words);
}

/* ------------------------------------------------------------------ figures */

static void select_row(struct limpet_top_screen *screen, size_t at)
{
	const struct limpet_top_row *list;
	size_t count = limpet_top_rows_list(screen->rows, &list);

	if (!count)
		return;
	screen->at = at < count ? at : count - 1;
	screen->selected = list[screen->at].key;
}

/* Finds the row with this key. */
static void select_key(struct limpet_top_screen *screen, uint64_t key)
{
	const struct limpet_top_row *list;
	size_t count = limpet_top_rows_list(screen->rows, &list);

	for (size_t i = 0; i < count; i++) {
		if (list[i].key == key) {
			select_row(screen, i);
			return;
		}
	}
}

/* Makes a new list; the selection moves with its row, unless it is the first one. */
static int fill(struct limpet_top_screen *screen)
{
	const uint64_t key = screen->at ? screen->selected : 0;
	int result = limpet_top_rows_fill(screen->rows, screen->source, screen->view, screen->kind);

	screen->no_threads = result == -ENODATA;
	if (result < 0 && result != -ENODATA)
		return result;
	select_row(screen, screen->at);
	if (key)
		select_key(screen, key);
	return 0;
}

/* Reads all figures again. */
static int look(struct limpet_top_screen *screen)
{
	int result;

	screen->look.filter = screen->typed ? screen->typed : screen->options.filter;
	result = limpet_top_source_view(screen->source, &screen->look, &screen->view);
	if (result >= 0)
		result = limpet_top_source_finding(screen->source, &screen->look, &screen->finding);
	return result < 0 ? result : fill(screen);
}

/* ------------------------------------------------------------------ typed lines */

static void prompt(struct limpet_top_screen *screen, const char *words, const char *text)
{
	screen->prompt = words;
	snprintf(screen->typed_text, sizeof(screen->typed_text), "%s", text);
	screen->typed_bytes = strlen(screen->typed_text);
}

static const char search_prompt[] = "search: ", filter_prompt[] = "only stacks with: ";

static int find(struct limpet_top_screen *screen, bool backwards)
{
	uint64_t key;
	int result;

	if (!screen->search[0]) {
		say(screen, "no text to search for: press / first");
		return 0;
	}
	key = limpet_top_rows_find(screen->rows, screen->selected, backwards);
	if (!key) {
		snprintf(screen->message, sizeof(screen->message), "nothing matches '%s'",
			 screen->search);
		return 0;
	}
	result = fill(screen);
	select_key(screen, key);
	return result;
}

static int search(struct limpet_top_screen *screen)
{
	int result;

	snprintf(screen->search, sizeof(screen->search), "%s", screen->typed_text);
	result = limpet_top_rows_search(screen->rows, screen->search);
	if (result == 0)
		result = fill(screen);
	return result < 0 || !screen->search[0] ? result : find(screen, false);
}

static int apply_filter(struct limpet_top_screen *screen)
{
	struct limpet_filter *typed = screen->typed_text[0] ? limpet_filter_new() : NULL;
	struct limpet_err err = {0};

	if (screen->typed_text[0] && !typed)
		return -ENOMEM;
	if (typed)
		limpet_filter_ignore_case(typed);
	if (typed && limpet_filter_add(typed, screen->typed_text, false, &err) < 0) {
		limpet_filter_free(typed);
		snprintf(screen->message, sizeof(screen->message), "%.200s", err.message);
		return 0;
	}
	if (typed && limpet_filter_has_threads(typed)) {
		limpet_filter_free(typed);
		say(screen, "threads cannot be filtered: list 5 shows each");
		return 0;
	}
	limpet_filter_free(screen->typed);
	screen->typed = typed;
	snprintf(screen->filter, sizeof(screen->filter), "%s", screen->typed_text);
	screen->at = screen->first = 0;
	return look(screen);
}

static int typed_key(struct limpet_top_screen *screen, int key)
{
	const char *what = screen->prompt;

	if (key == KEY_ESCAPE) {
		screen->prompt = NULL;
	} else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		screen->prompt = NULL;
		return what == search_prompt ? search(screen) : apply_filter(screen);
	} else if (key == KEY_BACKSPACE || key == KEY_DELETE || key == '\b') {
		/* A character may have several bytes. */
		while (screen->typed_bytes &&
		       ((unsigned char)screen->typed_text[--screen->typed_bytes] & 0xc0) == 0x80)
			;
		screen->typed_text[screen->typed_bytes] = '\0';
	} else if (key == 'U' - '@') {
		screen->typed_bytes = 0;
		screen->typed_text[0] = '\0';
	} else if (key >= ' ' && key <= 0xff &&
		   screen->typed_bytes + 1 < sizeof(screen->typed_text)) {
		screen->typed_text[screen->typed_bytes++] = (char)key;
		screen->typed_text[screen->typed_bytes] = '\0';
	}
	return 0;
}

/* ------------------------------------------------------------------ keys */

bool limpet_top_screen_can_sort(const struct limpet_top_screen *screen,
				enum limpet_report_sort sort)
{
	if (!limpet_top_source_is_live(screen->source))
		return true;
	if (screen->kind != LIMPET_TOP_THREADS)
		return sort != LIMPET_REPORT_PEAK;
	return sort == LIMPET_REPORT_ALLOCATIONS || sort == LIMPET_REPORT_ALLOCATED ||
	       sort == LIMPET_REPORT_TEMPORARY;
}

/* Threads whose figures are equal are in order of what they allocated. */
enum limpet_report_sort limpet_top_screen_sort(const struct limpet_top_screen *screen)
{
	const enum limpet_report_sort sort = screen->look.sort;

	return limpet_top_screen_can_sort(screen, sort) ? sort : LIMPET_REPORT_ALLOCATED;
}

static int sort_by(struct limpet_top_screen *screen, enum limpet_report_sort sort)
{
	if (!limpet_top_screen_can_sort(screen, sort)) {
		say(screen, screen->kind == LIMPET_TOP_THREADS
				    ? "what a thread holds is known when the capture has ended"
				    : "what each site held at the peak is known when the capture "
				      "has ended");
		return 0;
	}
	screen->look.sort = sort;
	screen->at = screen->first = 0;
	return look(screen);
}

static int sort_next(struct limpet_top_screen *screen, int step)
{
	int sort = (int)limpet_top_screen_sort(screen);

	do
		sort = (sort + step + LIMPET_REPORT_SORT_COUNT) % LIMPET_REPORT_SORT_COUNT;
	while (!limpet_top_screen_can_sort(screen, (enum limpet_report_sort)sort));
	return sort_by(screen, (enum limpet_report_sort)sort);
}

static int show(struct limpet_top_screen *screen, int kind)
{
	screen->kind = (enum limpet_top_kind)((kind + LIMPET_TOP_KINDS) % LIMPET_TOP_KINDS);
	screen->at = screen->first = 0;
	if (screen->kind == LIMPET_TOP_THREADS && !limpet_top_source_is_live(screen->source)) {
		say(screen, "reading all events...");
		limpet_top_draw(screen);
		screen->message[0] = '\0';
	}
	return fill(screen);
}

static int next_window(struct limpet_top_screen *screen)
{
	static const uint64_t windows[] = {10000000000, 60000000000, 0};
	size_t at = 0;

	if (!limpet_top_source_is_live(screen->source)) {
		say(screen, "the capture has ended: the figures are of all of it");
		return 0;
	}
	while (at + 1 < LIMPET_COUNT_OF(windows) && windows[at] != screen->look.window_ns)
		at++;
	screen->look.window_ns = windows[(at + 1) % LIMPET_COUNT_OF(windows)];
	return look(screen);
}

static const struct limpet_top_row *selected_row(const struct limpet_top_screen *screen)
{
	const struct limpet_top_row *list;
	size_t count = limpet_top_rows_list(screen->rows, &list);

	return screen->at < count ? &list[screen->at] : NULL;
}

static int unfold(struct limpet_top_screen *screen, bool open)
{
	const struct limpet_top_row *row = selected_row(screen);
	uint64_t parent;

	if (!row)
		return 0;
	if (!open && !row->open) {
		parent = limpet_top_rows_parent(screen->rows, row->key);
		if (parent)
			select_key(screen, parent);
		return 0;
	}
	limpet_top_rows_open(screen->rows, row->key, open);
	return fill(screen);
}

static int unfold_all(struct limpet_top_screen *screen, bool open)
{
	const struct limpet_top_row *row = selected_row(screen);

	if (!open)
		screen->at = screen->first = 0;
	limpet_top_rows_open_all(screen->rows, row && open ? row->key : 0, open);
	return fill(screen);
}

/* Names that are taken, by another limpet top too, are passed over. */
static void set_mark(struct limpet_top_screen *screen)
{
	const uint32_t pid = limpet_top_source_model(screen->source)->target->pid;
	char name[LIMPET_MARK_NAME_ROOM], text[LIMPET_UNITS_TEXT];
	struct limpet_err err = {0};
	uint64_t time_ns = 0;
	int result = -EEXIST;

	if (!limpet_top_source_is_live(screen->source)) {
		say(screen, "the capture has ended: marks are set while it runs");
		return;
	}
	while (result == -EEXIST && screen->marks < LIMPET_MARKS_MAX) {
		snprintf(name, sizeof(name), "top-%u", ++screen->marks);
		result = limpet_control_mark((pid_t)pid, name, &time_ns, &err);
	}
	if (result < 0)
		snprintf(screen->message, sizeof(screen->message), "%.200s", err.message);
	else
		snprintf(screen->message, sizeof(screen->message), "mark '%s' at %s", name,
			 limpet_units_format_time(text, time_ns));
}

static void write_page(struct limpet_top_screen *screen)
{
	struct limpet_err err = {0};

	if (limpet_top_page_start(&screen->page, limpet_top_source_path(screen->source), &err) < 0)
		snprintf(screen->message, sizeof(screen->message), "%.200s", err.message);
	else
		say(screen, "writing the page...");
}

/* Says why the place cannot be opened; false: it can. */
static bool print_unknown(struct limpet_top_screen *screen, const struct limpet_top_place *place)
{
	const int room = COLS - MESSAGE_COLUMNS;
	LIMPET_FREE char *name = NULL;

	if (!place->function) {
		say(screen, "only functions have a source: they are in lists 1, 2 and 3");
		return true;
	}
	if (place->file)
		return false;
	name = limpet_function_name(place->function, false);
	if (name)
		limpet_printer_cut(name, room > NAME_COLUMNS ? (size_t)room : NAME_COLUMNS, true);
	snprintf(screen->message, sizeof(screen->message), "no source known for %s%s",
		 name ? name : "?", place->function->named ? ": no debug information" : "");
	limpet_plain_text_clean(screen->message);
	return true;
}

static void print_file(struct limpet_top_screen *screen, const char *file, int code)
{
	snprintf(screen->message, sizeof(screen->message), "cannot open '%s': %s", file,
		 code == -EILSEQ   ? "its name has control characters or invalid UTF-8"
		 : code == -EINVAL ? "not a regular file"
				   : strerror(-code));
	limpet_plain_text_clean(screen->message);
}

/* Of sh(1). */
#define SHELL_NOT_FOUND 127

static void print_status(struct limpet_top_screen *screen, const char *command, int status)
{
	if (status < 0)
		snprintf(screen->message, sizeof(screen->message), "cannot run '%.60s': %s",
			 command, strerror(-status));
	else if (WIFSIGNALED(status))
		snprintf(screen->message, sizeof(screen->message),
			 "'%.60s' was killed by signal %d", command, WTERMSIG(status));
	else if (WEXITSTATUS(status) == SHELL_NOT_FOUND)
		snprintf(screen->message, sizeof(screen->message),
			 "cannot run '%.60s': command not found (set EDITOR)", command);
	else if (WEXITSTATUS(status))
		snprintf(screen->message, sizeof(screen->message), "'%.60s' ended with status %d",
			 command, WEXITSTATUS(status));
	limpet_plain_text_clean(screen->message);
}

/* Opens the source of the selected row in the user's editor, which has the terminal meanwhile. */
static void edit(struct limpet_top_screen *screen)
{
	const struct limpet_top_row *row = selected_row(screen);
	const char *command = limpet_top_editor_command();
	struct limpet_top_place place = {.function = NULL};
	LIMPET_FREE char *path = NULL;
	int result;

	if (row)
		place = limpet_top_rows_place(screen->rows, row);
	if (print_unknown(screen, &place))
		return;
	result = limpet_top_editor_find(place.file, place.function->module, &path);
	if (result < 0) {
		print_file(screen, place.file, result);
		return;
	}
	endwin();
	result = limpet_top_editor_run(command, path, place.line);
	/* Enters curses' mode again, but for the keypad's, which is otherwise left to the next
	 * getch(): it would come after the first key. */
	clearok(curscr, TRUE);
	refresh();
	keypad(stdscr, TRUE);
	print_status(screen, command, result);
}

/* Moves the selection; false: the key has another use. */
static bool move_key(struct limpet_top_screen *screen, int key)
{
	const size_t page = screen->page_rows > 1 ? screen->page_rows - 1 : 1;

	switch (key) {
	case KEY_UP:
	case 'k':
		select_row(screen, screen->at ? screen->at - 1 : 0);
		return true;
	case KEY_DOWN:
	case 'j':
		select_row(screen, screen->at + 1);
		return true;
	case KEY_PPAGE:
		select_row(screen, screen->at > page ? screen->at - page : 0);
		return true;
	case KEY_NPAGE:
		select_row(screen, screen->at + page);
		return true;
	case KEY_HOME:
		select_row(screen, 0);
		return true;
	case KEY_END:
		select_row(screen, SIZE_MAX);
		return true;
	default:
		return false;
	}
}

static int sort_key(struct limpet_top_screen *screen, int key)
{
	static const struct {
		int key;
		enum limpet_report_sort sort;
	} sorts[] = {
		{'L', LIMPET_REPORT_LIVE},        {'G', LIMPET_REPORT_GROWTH},
		{'A', LIMPET_REPORT_ALLOCATIONS}, {'B', LIMPET_REPORT_ALLOCATED},
		{'T', LIMPET_REPORT_TEMPORARY},   {'P', LIMPET_REPORT_PEAK},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(sorts); i++)
		if (sorts[i].key == key)
			return sort_by(screen, sorts[i].sort);
	return 0;
}

static int view_key(struct limpet_top_screen *screen, int key)
{
	const struct limpet_top_row *row = selected_row(screen);

	switch (key) {
	case '\n':
	case '\r':
	case KEY_ENTER:
	case ' ':
		return unfold(screen, !row || !row->open);
	case KEY_RIGHT:
		return unfold(screen, true);
	case KEY_LEFT:
		return unfold(screen, false);
	case '*':
		return unfold_all(screen, true);
	case '-':
		return unfold_all(screen, false);
	case '\t':
		return show(screen, (int)screen->kind + 1);
	case KEY_BTAB:
		return show(screen, (int)screen->kind - 1);
	case 's':
		return sort_next(screen, 1);
	case 'S':
		return sort_next(screen, -1);
	case 'w':
		return next_window(screen);
	case 'z':
		screen->look.full = !screen->look.full;
		return look(screen);
	case 'n':
		return find(screen, false);
	case 'N':
		return find(screen, true);
	default:
		if (key >= '1' && key < '1' + LIMPET_TOP_KINDS)
			return show(screen, key - '1');
		return sort_key(screen, key);
	}
}

/* A click selects a row, or unfolds the selected one, or selects a list; the wheel moves. */
static int click(struct limpet_top_screen *screen)
{
	const int rows_end = LIMPET_TOP_HEAD_ROWS + (int)screen->page_rows;
	MEVENT event;
	size_t at;
	int tab;

	if (getmouse(&event) == ERR)
		return 0;
	if (event.bstate & BUTTON4_PRESSED)
		select_row(screen, screen->at > WHEEL_ROWS ? screen->at - WHEEL_ROWS : 0);
	else if (event.bstate & BUTTON5_PRESSED)
		select_row(screen, screen->at + WHEEL_ROWS);
	else if (event.y == LIMPET_TOP_TABS_ROW) {
		tab = limpet_top_draw_tab_at(event.x);
		return tab < 0 ? 0 : show(screen, tab);
	} else if (event.y >= LIMPET_TOP_HEAD_ROWS && event.y < rows_end) {
		const struct limpet_top_row *list;

		at = screen->first + (size_t)(event.y - LIMPET_TOP_HEAD_ROWS);
		if (at == screen->at)
			return view_key(screen, '\n');
		if (at < limpet_top_rows_list(screen->rows, &list))
			select_row(screen, at);
	}
	return 0;
}

static int press(struct limpet_top_screen *screen, int key)
{
	if (key == KEY_RESIZE)
		return 0;
	if (screen->prompt)
		return key == KEY_MOUSE ? 0 : typed_key(screen, key);
	screen->message[0] = '\0';
	if (screen->help) {
		screen->help = false;
		return 0;
	}
	if (move_key(screen, key))
		return 0;
	switch (key) {
	case KEY_MOUSE:
		return click(screen);
	case 'q':
		ending = 1;
		return 0;
	case '?':
		screen->help = true;
		return 0;
	case 'e':
		edit(screen);
		return 0;
	case 'h':
		write_page(screen);
		return 0;
	case 'p':
		screen->paused = !screen->paused;
		return 0;
	case '/':
		prompt(screen, search_prompt, "");
		return 0;
	case 'f':
		prompt(screen, filter_prompt, screen->filter);
		return 0;
	case 'm':
		set_mark(screen);
		return 0;
	case 'L' - '@':
		clearok(curscr, TRUE);
		return 0;
	default:
		return view_key(screen, key);
	}
}

/* ------------------------------------------------------------------ the loop */

/* Whether the cursor can be moved, which ncurses itself does not require. */
static bool can_draw(void)
{
	return (intptr_t)tigetstr("cup") > 0;
}

/* Reads what is new in the trace, or a piece of it, at the pace of top_pace.h: what counts is the
 * processor's time, since on a busy machine an update takes long, but costs no more. */
static int update(struct limpet_top_screen *screen, struct limpet_err *err)
{
	const uint64_t begun = limpet_monotonic_ns(), used = limpet_thread_time_ns();
	int result;

	if (screen->paused || !limpet_top_source_is_live(screen->source) ||
	    (!screen->reading && begun < screen->next_ns))
		return 0;
	if (!screen->reading) {
		screen->begun_ns = begun;
		screen->busy_ns = 0;
	}
	result = limpet_top_source_update(screen->source, err);
	screen->news |= result > 0;
	screen->reading = result >= 0 && limpet_top_source_is_behind(screen->source);
	if (result >= 0 && !screen->reading) {
		result = screen->news ? look(screen) : 0;
		screen->news = false;
		screen->figures_ns = screen->begun_ns;
	}
	screen->busy_ns += limpet_thread_time_ns() - used;
	screen->next_ns = limpet_top_pace_next(screen->begun_ns, limpet_monotonic_ns(),
					       screen->busy_ns, LIMPET_TOP_DELAY_NS);
	return result < 0 ? result : 0;
}

/* How long to wait for a key; -1: without limit, since nothing else happens. */
static int wait_ms(const struct limpet_top_screen *screen)
{
	const uint64_t now = limpet_monotonic_ns();
	uint64_t wait;

	if (screen->paused || !limpet_top_source_is_live(screen->source))
		return -1;
	if (screen->reading || screen->next_ns <= now)
		return 0;
	wait = (screen->next_ns - now) / 1000000 + 1;
	return wait < LONGEST_WAIT_MS ? (int)wait : LONGEST_WAIT_MS;
}

/* Also waits for the page that is being written. */
static int wait_for_key(struct limpet_top_screen *screen)
{
	struct pollfd polls[] = {
		{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = screen->page.limpet ? screen->page.fd : -1, .events = POLLIN}};

	/* A signal also ends the wait, for example SIGWINCH. */
	if (poll(polls, LIMPET_COUNT_OF(polls), wait_ms(screen)) > 0) {
		if (polls[0].revents & (POLLHUP | POLLERR))
			ending = 1;
		if (polls[1].revents)
			limpet_top_page_read(&screen->page, screen->message,
					     sizeof(screen->message));
	}
	return getch();
}

static int loop(struct limpet_top_screen *screen, struct limpet_err *err)
{
	int result = look(screen), key;

	screen->figures_ns = limpet_monotonic_ns();
	while (result >= 0 && !ending) {
		limpet_top_draw(screen);
		while (!ending && result >= 0 && (key = wait_for_key(screen)) != ERR) {
			result = press(screen, key);
			limpet_top_draw(screen);
		}
		if (result >= 0 && !ending)
			result = update(screen, err);
	}
	return result < 0 ? result : 0;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = on_signal};

	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

static int begin(struct limpet_top_screen *screen, SCREEN **ret_terminal, struct limpet_err *err)
{
	const char *term = getenv("TERM");

	setlocale(LC_CTYPE, "");
	screen->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	*ret_terminal = term && term[0] ? newterm(NULL, stdout, stdin) : NULL;
	if (*ret_terminal && !can_draw()) {
		endwin();
		delscreen(*ret_terminal);
		*ret_terminal = NULL;
	}
	if (!*ret_terminal) {
		limpet_err_set(err, -ENOTTY, "cannot draw on this terminal (TERM is '%s')",
			       term ? term : "");
		limpet_err_hint(err, "TERM=xterm limpet top ..., or limpet report FILE");
		return -ENOTTY;
	}
	/* After newterm(), which installs handlers of its own. */
	catch_signals();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	if (limpet_ui_has_colour(stdout) && has_colors() && start_color() == OK) {
		use_default_colors();
		init_pair(1, COLOR_GREEN, -1);
		init_pair(2, COLOR_YELLOW, -1);
		init_pair(3, COLOR_RED, -1);
		init_pair(4, COLOR_CYAN, -1);
		screen->colour = true;
	}
	return 0;
}

int limpet_top_screen_run(struct limpet_top_source *source,
			  const struct limpet_top_options *options, struct limpet_err *err)
{
	struct limpet_top_screen screen = {
		.source = source,
		.options = *options,
		.look = {.window_ns = 10000000000, .sort = options->sort},
		.rows = limpet_top_rows_new(),
	};
	SCREEN *terminal;
	int result;

	if (!screen.rows)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	result = begin(&screen, &terminal, err);
	if (result == 0) {
		if (!limpet_top_source_is_live(source) && !limpet_top_source_model(source)->sealed)
			say(&screen, "no names: `limpet seal FILE` adds them to the trace");
		result = loop(&screen, err);
		endwin();
		delscreen(terminal);
	}
	limpet_top_page_stop(&screen.page);
	limpet_top_rows_free(screen.rows);
	limpet_filter_free(screen.typed);
	if (result < 0 && !err->message[0])
		limpet_err_set(err, result, "cannot go on: %s", strerror(-result));
	return result;
}
