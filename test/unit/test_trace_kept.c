/* Not every event is kept: a compact trace, and one with a bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "common/trace_block.h"
#include "test/unit/trace_fixture.h"

static void check_all(const struct capture *capture, const char *path)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	const struct limpet_trace_damage *damage = limpet_trace_reader_damage(reader);

	trace_check_totals(capture, model);
	trace_check_sites(capture, model);
	trace_check_sizes(capture, model);
	trace_check_live(capture, reader);
	assert_true(model->complete && model->exact);
	assert_int_equal(damage->blocks_damaged + damage->blocks_lost + damage->bytes_ignored, 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

/* Of a window's limits, the periods that these are in are told whole. */
static void check_widened(const char *path)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 70 * SECOND, 100 * SECOND);
	uint64_t events = model->totals.events;

	assert_true(model->widened && model->windowed && model->exact);
	assert_in_range(model->from_ns, 55 * SECOND, 65 * SECOND);
	assert_in_range(model->to_ns, 115 * SECOND, 125 * SECOND);
	limpet_model_free(model);
	model = trace_model(reader, 90 * SECOND, 91 * SECOND);
	assert_int_equal(model->totals.events, events);
	limpet_model_free(model);
	model = trace_model(reader, 0, 3600 * SECOND);
	assert_true(!model->widened && !model->windowed);
	assert_int_equal(model->to_ns, model->duration_ns);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_compact(void **state)
{
	static struct capture capture;
	const char *path = trace_path("compact");
	uint8_t *before, *after;
	size_t before_bytes, after_bytes, span_end = 0, count;
	const struct limpet_trace_block *blocks;
	struct limpet_trace_reader *reader;
	struct trace_outcome killed, torn;

	(void)state;
	capture_begin_kept(&capture, path, 31, true, 0);
	capture.slower = 50; /* nearly four minutes */
	assert_int_equal(capture_run(&capture, 300000, 2000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	/* as a collector that is killed leaves it */
	killed = trace_try(path);
	assert_int_equal(killed.code, 0);
	assert_int_equal(killed.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(killed.live_bytes, capture.live_bytes);
	assert_true(trace_count_blocks(path, LIMPET_TRACE_PERIOD) > 4);
	path = trace_path("compact");
	before = trace_read_bytes(path, &before_bytes);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	check_all(&capture, path);
	assert_int_equal(trace_count_blocks(path, LIMPET_TRACE_EVENTS), 0);
	assert_int_equal(trace_count_blocks(path, LIMPET_TRACE_PERIOD), 4);
	after = trace_read_bytes(path, &after_bytes);
	assert_true(after_bytes < 150000);
	check_widened(path);
	/* as one leaves it that is killed while it puts one period in the place of many */
	reader = trace_open(path);
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++)
		if (blocks[i].type == LIMPET_TRACE_PERIOD)
			span_end =
				blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;
	limpet_trace_reader_free(reader);
	assert_true(span_end < before_bytes);
	memcpy(before, after, span_end);
	trace_write_bytes(trace_path("torn"), before, before_bytes);
	torn = trace_try(trace_path("torn"));
	assert_int_equal(torn.code, 0);
	assert_int_equal(torn.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(torn.live_bytes, capture.live_bytes);
	assert_int_equal(torn.site_sum, killed.site_sum);
	free(before);
	free(after);
}

static void refuse_window(struct limpet_trace_reader *reader, uint64_t from_ns, uint64_t to_ns)
{
	const struct limpet_model_options options = {.from_ns = from_ns, .to_ns = to_ns};
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};

	assert_int_equal(limpet_model_build(reader, &options, &model, &err), -ERANGE);
	assert_null(model);
	assert_non_null(strstr(err.message, "only their sum"));
	assert_string_not_equal(err.hint, "");
}

static void test_a_bound(void **state)
{
	static struct capture capture;
	const uint64_t max_bytes = 1000000, events = 1000000;
	struct limpet_trace_reader *reader, *all;
	struct limpet_model *model, *part, *whole;
	struct trace_outcome killed;
	struct stat stat;
	uint64_t from_ns, to_ns;

	(void)state;
	capture_begin_kept(&capture, trace_path("bound"), 32, false, max_bytes);
	assert_int_equal(capture_run(&capture, events, 2000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	killed = trace_try(trace_path("bound"));
	assert_int_equal(killed.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(killed.live_bytes, capture.live_bytes);
	assert_int_equal(killed.totals.peak_bytes, capture.peak_bytes);
	assert_true(killed.whole && killed.exact);
	assert_int_equal(lstat(trace_path("bound"), &stat), 0);
	/* in whole pages, and each gap has two that are not whole; some room is kept for the end */
	assert_true((uint64_t)stat.st_blocks * 512 < max_bytes + 300000);
	assert_true((uint64_t)stat.st_size > 2 * max_bytes);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	check_all(&capture, trace_path("bound"));
	assert_int_equal(lstat(trace_path("bound"), &stat), 0);
	assert_true((uint64_t)stat.st_size <= max_bytes);
	assert_true((uint64_t)stat.st_size > max_bytes / 2);

	/* the newest part says all that a full recording says of it */
	reader = trace_open(trace_path("bound"));
	model = trace_model(reader, 0, 0);
	assert_true(model->given_up_ns > model->duration_ns / 2);
	assert_true(model->timeline_count > 100 && model->timeline[0].time_ns < model->given_up_ns);
	from_ns = model->given_up_ns + (model->duration_ns - model->given_up_ns) / 3;
	to_ns = model->given_up_ns + (model->duration_ns - model->given_up_ns) * 2 / 3;
	limpet_model_free(model);
	part = trace_model(reader, from_ns, to_ns);
	trace_make(&capture, trace_path("unbound"), events, 2000, 32);
	all = trace_open(trace_path("unbound"));
	whole = trace_model(all, from_ns, to_ns);
	assert_true(part->exact && whole->totals.events > 1000);
	assert_memory_equal(&part->totals, &whole->totals,
			    offsetof(struct limpet_model_totals, dropped_events));
	assert_int_equal(part->site_count, whole->site_count);
	assert_memory_equal(part->sites, whole->sites, part->site_count * sizeof(*part->sites));
	limpet_model_free(part);
	limpet_model_free(whole);
	limpet_trace_reader_free(all);
	/* of what was given up the limits are not known: only all of it is, with what follows */
	part = trace_model(reader, 0, to_ns);
	assert_true(part->exact && part->totals.events > events / 2);
	limpet_model_free(part);
	refuse_window(reader, 1000000, to_ns);
	refuse_window(reader, 0, from_ns / 2);
	limpet_trace_reader_free(reader);
}

static void test_a_bound_that_is_too_low(void **state)
{
	static struct capture capture;
	struct trace_outcome outcome;
	int code;

	(void)state;
	capture_begin_kept(&capture, trace_path("low"), 33, false, 20000);
	code = capture_run(&capture, 300000, 2000);
	if (code == 0)
		code = capture_finish(&capture, LIMPET_END_STOP, true);
	else
		capture_finish(&capture, LIMPET_END_STOP, true);
	assert_int_equal(code, -EFBIG);
	outcome = trace_try(trace_path("low"));
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.end, LIMPET_END_SIZE_LIMIT);
	assert_false(outcome.complete);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compact),
		cmocka_unit_test(test_a_bound),
		cmocka_unit_test(test_a_bound_that_is_too_low),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
