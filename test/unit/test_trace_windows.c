/* Windows: of a part of the time the model says what the events in it say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "analyzer/trace/trace_reader.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

/* The whole file event by event, as the header of model.h says it counts. */
struct window {
	uint64_t events, allocations, frees, live_bytes, peak_bytes, peak_ns;
	uint64_t site_allocations[CAPTURE_SITES + 3], site_live[CAPTURE_SITES + 3],
		site_peak[CAPTURE_SITES + 3], site_start[CAPTURE_SITES + 3];
	bool started;
};

static void start_window(struct window *window, uint64_t from_ns)
{
	window->started = true;
	window->peak_bytes = window->live_bytes;
	window->peak_ns = from_ns;
	memcpy(window->site_peak, window->site_live, sizeof(window->site_peak));
	memcpy(window->site_start, window->site_live, sizeof(window->site_start));
}

static void window_row(struct window *window, const struct limpet_trace_event *row)
{
	window->events += window->started && row->counted;
	if (row->kind == LIMPET_ROW_FREE) {
		window->live_bytes -= row->size;
		window->site_live[row->node] -= row->size;
		window->frees += window->started;
	}
	if (row->kind != LIMPET_ROW_ALLOC)
		return;
	window->live_bytes += row->size;
	window->site_live[row->node] += row->size;
	window->allocations += window->started;
	window->site_allocations[row->node] += window->started;
	if (window->started && window->live_bytes > window->peak_bytes) {
		window->peak_bytes = window->live_bytes;
		window->peak_ns = row->time_ns;
		memcpy(window->site_peak, window->site_live, sizeof(window->site_peak));
	}
}

static void sum_window(struct limpet_trace_reader *reader, uint64_t from_ns, uint64_t to_ns,
		       struct window *window)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);

	memset(window, 0, sizeof(*window));
	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_events *events;
		struct limpet_trace_event row;

		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		assert_int_equal(limpet_trace_events_open(reader, i, &events), 0);
		while (limpet_trace_events_next(events, &row) == 1) {
			if (row.time_ns >= to_ns)
				break;
			if (!window->started && row.time_ns >= from_ns)
				start_window(window, from_ns);
			window_row(window, &row);
		}
		limpet_trace_events_free(events);
	}
	if (!window->started)
		start_window(window, from_ns);
}

/* With the others left out, a thread has the same blocks, whoever frees them. */
static void check_thread(struct limpet_trace_reader *reader, const struct limpet_model *model,
			 const struct limpet_replay_thread *thread)
{
	struct limpet_filter *filter = limpet_filter_new();
	const struct limpet_replay_options options = {.filter = filter};
	struct limpet_replay *replay = NULL;
	char pattern[32];

	snprintf(pattern, sizeof(pattern), "thread:%u", thread->tid);
	assert_int_equal(limpet_filter_add(filter, pattern, false, NULL), 0);
	assert_int_equal(limpet_replay_new(reader, model, &options, &replay), 0);
	assert_int_equal(replay->thread_count, 1);
	assert_memory_equal(&replay->threads[0].figures, &thread->figures, sizeof(thread->figures));
	limpet_replay_free(replay);
	limpet_filter_free(filter);
}

/* Sums of periods and the events one by one are of the same time. */
static void check_replay(struct limpet_trace_reader *reader, const struct limpet_model *model)
{
	const struct limpet_replay_options options = {0};
	struct limpet_model_site sums = {0};
	struct limpet_replay *replay = NULL;

	assert_int_equal(limpet_replay_new(reader, model, &options, &replay), 0);
	for (size_t i = 0; i < replay->thread_count; i++) {
		const struct limpet_model_site *figures = &replay->threads[i].figures;

		sums.allocations += figures->allocations;
		sums.allocated_bytes += figures->allocated_bytes;
		sums.frees += figures->frees;
		sums.live_bytes += figures->live_bytes;
		sums.peak_bytes += figures->peak_bytes;
		sums.growth_bytes += figures->growth_bytes;
		check_thread(reader, model, &replay->threads[i]);
	}
	assert_int_equal(sums.allocations, model->totals.allocations);
	assert_int_equal(sums.allocated_bytes, model->totals.allocated_bytes);
	assert_int_equal(sums.frees, model->totals.frees);
	assert_int_equal(sums.live_bytes, model->totals.live_bytes);
	assert_int_equal(sums.peak_bytes, model->totals.peak_bytes);
	assert_int_equal(sums.growth_bytes, model->totals.growth_bytes);
	limpet_replay_free(replay);
}

static void check_window(struct limpet_trace_reader *reader, uint64_t from_ns, uint64_t to_ns)
{
	static struct window window;
	struct limpet_model *model;

	from_ns -= from_ns % LIMPET_TRACE_TICK_NS;
	to_ns -= to_ns % LIMPET_TRACE_TICK_NS;
	if (to_ns <= from_ns)
		to_ns = from_ns + LIMPET_TRACE_TICK_NS;
	sum_window(reader, from_ns, to_ns, &window);
	model = trace_model(reader, from_ns, to_ns);
	assert_true(model->exact);
	assert_int_equal(model->windowed, from_ns || to_ns < model->duration_ns);
	assert_true(model->from_ns == from_ns && model->to_ns >= from_ns);
	assert_true(model->to_ns == to_ns || model->to_ns == model->duration_ns ||
		    from_ns > model->duration_ns);
	assert_int_equal(model->totals.events, window.events);
	assert_int_equal(model->totals.allocations, window.allocations);
	assert_int_equal(model->totals.frees, window.frees);
	assert_int_equal(model->totals.live_bytes, window.live_bytes);
	assert_int_equal(model->totals.peak_bytes, window.peak_bytes);
	for (uint32_t node = 0; node < CAPTURE_SITES + 3; node++) {
		const struct limpet_model_site *site = trace_site(model, node);

		assert_int_equal(site->allocations, window.site_allocations[node]);
		assert_int_equal(site->live_bytes, window.site_live[node]);
		assert_int_equal(site->peak_bytes, window.site_peak[node]);
		assert_int_equal(site->growth_bytes,
				 (int64_t)(window.site_live[node] - window.site_start[node]));
	}
	check_replay(reader, model);
	limpet_model_free(model);
}

static void test_windows(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	uint64_t end;

	(void)state;
	trace_make(&capture, trace_path("window"), 40000, 1500, 3);
	reader = trace_open(trace_path("window"));
	end = capture.time_ns;
	for (uint64_t i = 0; i < 12; i++)
		for (uint64_t n = i; n < 12; n++)
			check_window(reader, end / 11 * i + i * 70000, end / 11 * n + n * 350000);
	/* the limits of periods themselves */
	check_window(reader, 0, end * 2);
	check_window(reader, end * 2, end * 3);
	check_window(reader, 0, LIMPET_TRACE_TICK_NS);
	limpet_trace_reader_free(reader);
}

static void test_an_empty_window_is_an_error(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	struct limpet_model_options options = {.from_ns = 100, .to_ns = 50};
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};

	(void)state;
	trace_make(&capture, trace_path("empty-window"), 10, 0, 4);
	reader = trace_open(trace_path("empty-window"));
	assert_int_equal(limpet_model_build(reader, &options, &model, &err), -EINVAL);
	assert_string_not_equal(err.message, "");
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ late events */

#define LATE_MS 1000000ull

static void put_at(struct limpet_recorder *recorder, const struct limpet_record *like,
		   uint64_t time_ns, uint64_t address)
{
	struct limpet_record record = *like;

	record.time_ns = time_ns;
	record.address = address;
	record.thread = 1 + address / 4096 % 3;
	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
}

/* Three seconds; what happens in the last milliseconds of a period is merged after it was written.
 */
static void write_late(const char *path)
{
	const struct limpet_recorder_options options = trace_options(path);
	struct limpet_recorder *recorder = trace_record(&options);
	const struct limpet_record alloc = {.kind = LIMPET_EVENT_ALLOC, .size = 100, .node = 1};
	const struct limpet_record gone = {.kind = LIMPET_EVENT_FREE};
	const struct limpet_recorder_tick tick = {.time_ns = 3 * SECOND};
	uint64_t at = 0x10000000;

	assert_int_equal(limpet_recorder_add_node(recorder, 1, 0, 0x400001, 0, false), 0);
	for (uint64_t second = 0; second < 3; second++) {
		for (uint64_t ms = 990; second && ms < 1000; ms++, at += 4096)
			put_at(recorder, &alloc, (second - 1) * SECOND + ms * LATE_MS, at);
		for (uint64_t ms = 0; ms < 990; ms += 10, at += 4096) {
			put_at(recorder, &alloc, second * SECOND + ms * LATE_MS, at);
			if (ms % 30 == 0)
				put_at(recorder, &gone, second * SECOND + ms * LATE_MS, at);
		}
		if (second < 2)
			trace_end_period(recorder, second + 1);
	}
	trace_finish(recorder, &tick);
}

static void test_windows_of_late_events(void **state)
{
	const uint64_t limits[] = {0,    500,  985,  991,  995,  999,  1000, 1001,
				   1010, 1500, 1989, 1990, 1996, 2000, 2001, 3000};
	struct limpet_trace_reader *reader;

	(void)state;
	write_late(trace_path("late"));
	reader = trace_open(trace_path("late"));
	for (size_t i = 0; i < LIMPET_COUNT_OF(limits); i++)
		for (size_t n = i + 1; n < LIMPET_COUNT_OF(limits); n++)
			check_window(reader, limits[i] * LATE_MS, limits[n] * LATE_MS);
	limpet_trace_reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_an_empty_window_is_an_error),
		cmocka_unit_test(test_windows_of_late_events),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
