/* The live line: on a pseudo-terminal as a user sees it, on a pipe as a log file does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/ui.h"

#define S UINT64_C(1000000000)

struct screen {
	int master, slave;
	char text[65536];
};

static void open_screen(struct screen *screen, unsigned short columns)
{
	struct winsize size = {.ws_row = 24, .ws_col = columns};
	struct termios raw;

	assert_int_equal(openpty(&screen->master, &screen->slave, NULL, NULL, &size), 0);
	assert_int_equal(tcgetattr(screen->slave, &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(screen->slave, TCSANOW, &raw), 0);
	assert_int_equal(fcntl(screen->master, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(setenv("TERM", "xterm", 1), 0);
}

static const char *read_screen(struct screen *screen)
{
	size_t length = 0;
	ssize_t bytes;

	while ((bytes = read(screen->master, screen->text + length,
			     sizeof(screen->text) - 1 - length)) > 0)
		length += (size_t)bytes;
	screen->text[length] = '\0';
	return screen->text;
}

static void close_screen(struct screen *screen)
{
	close(screen->master);
	close(screen->slave);
}

static void test_line_on_a_terminal(void **state)
{
	struct limpet_progress_sample sample = {.elapsed_ns = 123 * S,
						.duration_ns = 600 * S,
						.live_bytes = 191260263,
						.growing = "deflateInit2_",
						.growing_bytes = 12 << 20};
	struct limpet_progress *progress;
	struct screen screen;

	(void)state;
	open_screen(&screen, 80);
	progress = limpet_progress_new(screen.slave);
	limpet_progress_update(progress, &sample);
	read_screen(&screen);
	sample.elapsed_ns += S;
	sample.events = 3100000;
	limpet_progress_update(progress, &sample);
	assert_string_equal(read_screen(&screen), "\r2m04s/10m00s  182.4 MiB live  3.1 M/s  "
						  "+12.0 MiB in deflateInit2_\033[K");
	/* Losses come before what they put in doubt. */
	sample.elapsed_ns += S;
	sample.dropped_events = 1234;
	limpet_progress_update(progress, &sample);
	assert_string_equal(read_screen(&screen),
			    "\r2m05s/10m00s  1.2 k dropped  182.4 MiB live  0 /s  "
			    "+12.0 MiB in deflateInit2_\033[K");
	limpet_progress_free(progress);
	assert_string_equal(read_screen(&screen), "\r\033[K");
	close_screen(&screen);
}

static void test_line_is_drawn_five_times_a_second(void **state)
{
	struct limpet_progress_sample sample = {0};
	struct limpet_progress *progress;
	struct screen screen;
	const char *text;
	size_t draws = 0;

	(void)state;
	open_screen(&screen, 80);
	progress = limpet_progress_new(screen.slave);
	for (int i = 0; i < 1000; i++) {
		sample.elapsed_ns = (uint64_t)i * S / 1000;
		limpet_progress_update(progress, &sample);
	}
	for (text = read_screen(&screen); (text = strchr(text, '\r')); text++)
		draws++;
	assert_int_equal(draws, 5);

	/* A new phase is shown at once, the same one is not. */
	sample.phase = "detaching";
	limpet_progress_update(progress, &sample);
	assert_non_null(strstr(read_screen(&screen), "detaching"));
	limpet_progress_update(progress, &sample);
	assert_string_equal(read_screen(&screen), "");
	sample.phase = "sealing 40 %";
	limpet_progress_update(progress, &sample);
	assert_non_null(strstr(read_screen(&screen), "sealing 40 %"));
	limpet_progress_free(progress);
	close_screen(&screen);
}

static void test_line_never_wraps(void **state)
{
	struct limpet_progress_sample sample = {.duration_ns = 3600 * S,
						.events = UINT64_MAX,
						.dropped_events = UINT64_MAX,
						.live_bytes = UINT64_MAX,
						.growing_bytes = UINT64_MAX};
	char name[2000];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memcpy(name, "nameless-", strlen("nameless-"));
	sample.growing = name;
	for (unsigned short columns = 1; columns < 1000; columns++) {
		struct screen screen;
		struct limpet_progress *progress;
		const char *text;
		size_t visible;

		open_screen(&screen, columns);
		progress = limpet_progress_new(screen.slave);
		limpet_progress_update(progress, &sample);
		text = read_screen(&screen);
		assert_int_equal(text[0], '\r');
		visible = strlen(text) - strlen("\r\033[K");
		assert_true(visible > 0);
		/* Narrower than 20 is treated as 20. */
		if (visible >= (columns < 20 ? 20u : columns))
			fail_msg("%u columns: %zu used: %s", columns, visible, text + 1);
		/* Nor is room given away: the name fills what there is, from its beginning. */
		if (columns >= 80 && columns < 300) {
			assert_int_equal(visible, columns - 1u);
			assert_non_null(strstr(text, " in nameless-nn"));
			assert_non_null(strstr(text, "nn..\033[K"));
		}
		limpet_progress_free(progress);
		close_screen(&screen);
	}
}

static void test_names_cannot_steer_the_terminal(void **state)
{
	struct limpet_progress_sample sample = {.growing = "a\033[2J\r\n\xc2\x9b"
							   "2J\xff"
							   "b",
						.growing_bytes = 1};
	struct limpet_progress *progress;
	struct screen screen;

	(void)state;
	open_screen(&screen, 80);
	progress = limpet_progress_new(screen.slave);
	limpet_progress_update(progress, &sample);
	assert_string_equal(read_screen(&screen),
			    "\r0s  0 B live  0 /s  +1 B in a?[2J????2J?b\033[K");
	limpet_progress_free(progress);
	close_screen(&screen);
}

/* Nobody reads: as after Ctrl-S. Blocking would hang this test, and its time limit would end it. */
static void test_held_terminal_does_not_hold_us(void **state)
{
	struct limpet_progress_sample sample = {0};
	struct limpet_progress *progress;
	struct screen screen;

	(void)state;
	open_screen(&screen, 80);
	progress = limpet_progress_new(screen.slave);
	for (int i = 0; i < 5000; i++) {
		sample.elapsed_ns += S;
		limpet_progress_update(progress, &sample);
	}
	limpet_progress_free(progress);
	assert_true(strlen(read_screen(&screen)) > 0);
	close_screen(&screen);
}

static void test_plain_lines_after_twice_the_time(void **state)
{
	struct limpet_progress_sample sample = {.live_bytes = 2048};
	struct limpet_progress *progress;
	char text[4096] = "";
	size_t lines = 0;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	progress = limpet_progress_new(fds[1]);
	for (int i = 0; i <= 850; i++) {
		sample.elapsed_ns = (uint64_t)i * S / 10;
		sample.events = (uint64_t)i * 100;
		limpet_progress_update(progress, &sample);
	}
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "limpet: 10s, 2.0 KiB live, 1.0 k/s\n"
				  "limpet: 20s, 2.0 KiB live, 1.0 k/s\n"
				  "limpet: 40s, 2.0 KiB live, 1.0 k/s\n"
				  "limpet: 1m20s, 2.0 KiB live, 1.0 k/s\n");
	/* A capture of a week writes few more: after 160 seconds, 320, ... 327680. */
	for (uint64_t i = 86; i <= 7 * 86400; i++) {
		sample.elapsed_ns = i * S;
		limpet_progress_update(progress, &sample);
	}
	limpet_progress_free(progress);
	memset(text, 0, sizeof(text));
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_int_equal(lines, 12);
	close(fds[0]);
	close(fds[1]);
}

static void test_quiet_draws_nothing(void **state)
{
	struct limpet_progress_sample sample = {.elapsed_ns = 100 * S};
	struct limpet_progress *progress;
	struct screen screen;

	(void)state;
	open_screen(&screen, 80);
	limpet_ui_set_quiet(true);
	progress = limpet_progress_new(screen.slave);
	limpet_progress_update(progress, &sample);
	limpet_progress_free(progress);
	limpet_ui_set_quiet(false);
	assert_string_equal(read_screen(&screen), "");
	close_screen(&screen);
}

static void test_dumb_terminal_gets_plain_lines(void **state)
{
	struct limpet_progress_sample sample = {.elapsed_ns = 10 * S};
	struct limpet_progress *progress;
	struct screen screen;

	(void)state;
	open_screen(&screen, 80);
	assert_int_equal(setenv("TERM", "dumb", 1), 0);
	progress = limpet_progress_new(screen.slave);
	limpet_progress_update(progress, &sample);
	limpet_progress_free(progress);
	assert_string_equal(read_screen(&screen), "limpet: 10s, 0 B live, 0 /s\n");
	close_screen(&screen);
}

static void test_messages_take_the_line_away(void **state)
{
	struct limpet_progress_sample sample = {.elapsed_ns = S};
	struct limpet_progress *progress;
	struct screen screen;
	int saved = dup(STDERR_FILENO);

	(void)state;
	open_screen(&screen, 80);
	assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
	progress = limpet_progress_new(screen.slave);
	limpet_progress_update(progress, &sample);
	read_screen(&screen);
	assert_true(dup2(screen.slave, STDERR_FILENO) >= 0);
	limpet_ui_note("hello");
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	assert_string_equal(read_screen(&screen), "\r\033[Klimpet: hello\n");
	/* And it is back with the next sample, however soon. */
	limpet_progress_update(progress, &sample);
	assert_string_equal(read_screen(&screen), "\r1.0s  0 B live  0 /s\033[K");
	limpet_progress_free(progress);
	unsetenv("NO_COLOR");
	close_screen(&screen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_on_a_terminal),
		cmocka_unit_test(test_line_is_drawn_five_times_a_second),
		cmocka_unit_test(test_line_never_wraps),
		cmocka_unit_test(test_names_cannot_steer_the_terminal),
		cmocka_unit_test(test_held_terminal_does_not_hold_us),
		cmocka_unit_test(test_plain_lines_after_twice_the_time),
		cmocka_unit_test(test_quiet_draws_nothing),
		cmocka_unit_test(test_dumb_terminal_gets_plain_lines),
		cmocka_unit_test(test_messages_take_the_line_away),
	};

	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
