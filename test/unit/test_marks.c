/* Marks: what their names may be, and that each is in the trace when it is set, whatever becomes of
 * the capture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/analysis.h"
#include "common/mark_name.h"
#include "common/trace_block.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

static void test_names(void **state)
{
	static const struct {
		const char *name, *why;
	} names[] = {
		{"load", NULL},
		{"after load, 2nd", NULL},
		{"top-1", NULL},
		{"gr\xc3\xbc\xc3\x9f"
		 "e",
		 NULL},
		{"10", "is a time"},
		{"10s", "is a time"},
		{"99999999999999999999abc", NULL},
		{"10 s", NULL},
		{"", "is empty"},
		{"a\tb", "contains control characters"},
		{"\x7f", "contains control characters"},
		{"\xc2\x85", "contains control characters"},
		{"\xe2\x80\xae", "contains control characters"},
		{"\xff", "is not UTF-8"},
		{"\n\xc3", "is not UTF-8"},
	};
	char name[LIMPET_MARK_NAME_ROOM + 1];

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++) {
		const char *why = limpet_mark_name_refuse(names[i].name);

		if (!why != !names[i].why || (why && strcmp(why, names[i].why) != 0))
			fail_msg("'%s' %s", names[i].name, why ?: "is accepted");
	}
	memset(name, 'x', sizeof(name));
	name[LIMPET_MARK_NAME_MAX_BYTES + 1] = '\0';
	assert_string_equal(limpet_mark_name_refuse(name), "is longer than 64 bytes");
	name[LIMPET_MARK_NAME_MAX_BYTES] = '\0';
	assert_null(limpet_mark_name_refuse(name));
}

static int set_mark(struct capture *capture, const char *name)
{
	/* A time of its own: what comes next has it or a later one. */
	const uint64_t time_ns =
		(capture->time_ns / LIMPET_TRACE_TICK_NS + 1) * LIMPET_TRACE_TICK_NS;
	const struct limpet_recorder_tick tick = {.time_ns = time_ns};
	int code = limpet_recorder_add_mark(capture->recorder, name, &tick);

	if (code == 0)
		capture->time_ns = time_ns;
	return code;
}

static void check_marks(const char *path, const char *const *names, const uint64_t *times,
			size_t count)
{
	struct limpet_trace_reader *reader = trace_open(path);
	const struct limpet_trace_user_mark *marks;

	assert_int_equal(limpet_trace_reader_marks(reader, &marks), count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(marks[i].name, names[i]);
		assert_int_equal(marks[i].time_ns, times[i]);
	}
	limpet_trace_reader_free(reader);
}

static void check_second_reader(const char *path, const char *const *names, const uint64_t *times,
				size_t count)
{
	int status;
	json_t *answer = second_reader_ask(path, &status);
	const json_t *marks = json_object_get(answer, "marks");

	assert_int_equal(status, 0);
	assert_int_equal(json_array_size(marks), count);
	for (size_t i = 0; i < count; i++) {
		const json_t *mark = json_array_get(marks, i);

		assert_string_equal(json_string_value(json_object_get(mark, "name")), names[i]);
		assert_int_equal(json_integer_value(json_object_get(mark, "ns")), times[i]);
	}
	json_decref(answer);
}

/* Of a plain, a compact and a bounded trace: each mark is there as soon as it is set, as a
 * collector that is killed leaves it, and in the end, though what is around it may not be. */
static void test_marks_stay(void **state)
{
	static const struct {
		const char *name;
		bool compact;
		uint64_t max_bytes;
	} kinds[] = {{"plain", false, 0}, {"compact", true, 0}, {"bounded", false, 400000}};
	static const char *const names[] = {"start", "one", "two", "three"};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++) {
		static struct capture capture;
		uint64_t times[LIMPET_COUNT_OF(names)];
		struct trace_outcome outcome;

		capture_begin_kept(&capture, trace_path(kinds[i].name), 41, kinds[i].compact,
				   kinds[i].max_bytes);
		capture.slower = kinds[i].compact ? 50 : 0;
		for (size_t at = 0; at < LIMPET_COUNT_OF(names); at++) {
			assert_int_equal(capture_run(&capture, at ? 100000 : 0, 2000), 0);
			assert_int_equal(set_mark(&capture, names[at]), 0);
			times[at] = capture.time_ns;
			check_marks(trace_path(kinds[i].name), names, times, at + 1);
		}
		outcome = trace_try(trace_path(kinds[i].name));
		assert_int_equal(outcome.events, capture.totals[LIMPET_TOTAL_EVENTS]);
		assert_int_equal(outcome.duration_ns, times[LIMPET_COUNT_OF(names) - 1]);
		assert_int_equal(capture_run(&capture, 100000, 2000), 0);
		assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
		check_marks(trace_path(kinds[i].name), names, times, LIMPET_COUNT_OF(names));
		outcome = trace_try(trace_path(kinds[i].name));
		assert_true(outcome.complete && outcome.exact && outcome.whole);
		assert_int_equal(outcome.events, capture.totals[LIMPET_TOTAL_EVENTS]);
		assert_int_equal(outcome.live_bytes, capture.live_bytes);
		check_second_reader(trace_path(kinds[i].name), names, times,
				    LIMPET_COUNT_OF(names));
	}
}

/* Sums of a compact trace are kept up to each mark: a window between two is exact. */
static void test_windows_of_a_compact_trace(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	uint64_t times[2], events[2];

	(void)state;
	capture_begin_kept(&capture, trace_path("spans"), 42, true, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(capture_run(&capture, 20000, 2000), 0);
		assert_int_equal(set_mark(&capture, i ? "b" : "a"), 0);
		times[i] = capture.time_ns;
		events[i] = capture.totals[LIMPET_TOTAL_EVENTS];
	}
	assert_int_equal(capture_run(&capture, 20000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	reader = trace_open(trace_path("spans"));
	model = trace_model(reader, times[0], times[1]);
	assert_false(model->widened);
	assert_int_equal(model->totals.events, events[1] - events[0]);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

/* Three generations, of which each site is one, as a heap of those between two marks has them. */
static void test_generations(void **state)
{
	enum { OLD = 5, MIDDLE = 30, YOUNG = 7, DROPPED = 20, BYTES = 100, MILLI = 1000000 };
	const struct limpet_recorder_options recorder_options = trace_options("generations");
	struct limpet_recorder *recorder = trace_record(&recorder_options);
	static const unsigned made[] = {OLD, MIDDLE, YOUNG};
	struct limpet_recorder_tick tick = {0};
	uint64_t address = 16, now_ns = MILLI;
	static const struct {
		uint64_t from_ms, to_ms, end_ms;
		uint64_t allocations, frees, live, hidden;
	} parts[] = {
		{0, 2, 0, OLD, 1, OLD - 1, MIDDLE - DROPPED + YOUNG},
		{2, 3, 0, MIDDLE, DROPPED, MIDDLE - DROPPED, OLD - 1 + YOUNG},
		{3, UINT64_MAX, 0, YOUNG, 0, YOUNG, OLD - 1 + MIDDLE - DROPPED},
		{2, UINT64_MAX, 0, MIDDLE + YOUNG, DROPPED, MIDDLE - DROPPED + YOUNG, OLD - 1},
		/* as it was when the third began */
		{2, UINT64_MAX, 3, MIDDLE, 0, MIDDLE, OLD},
		{0, 2, 3, OLD, 0, OLD, MIDDLE},
	};

	(void)state;
	for (unsigned i = 0; i < LIMPET_COUNT_OF(made); i++, now_ns += MILLI)
		for (unsigned k = 0; k < made[i]; k++, address += 16) {
			const struct limpet_record record = {.time_ns = now_ns,
							     .address = address,
							     .size = BYTES,
							     .thread = 1,
							     .kind = LIMPET_EVENT_ALLOC};

			assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
		}
	for (unsigned k = 0; k <= DROPPED; k++) {
		const struct limpet_record record = {.time_ns = now_ns,
						     .address = 16 * (OLD + k),
						     .thread = 1,
						     .kind = LIMPET_EVENT_FREE};

		assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	}
	tick.time_ns = now_ns;
	trace_finish(recorder, &tick);
	for (size_t i = 0; i < LIMPET_COUNT_OF(parts); i++) {
		struct limpet_filter *filter = limpet_filter_new();
		const struct limpet_analysis_options options = {.filter = filter,
								.to_ns = parts[i].end_ms * MILLI};
		const struct limpet_model_totals *totals;
		struct limpet_analysis analysis;
		struct limpet_err err;

		limpet_filter_set_births(filter, parts[i].from_ms * MILLI,
					 parts[i].to_ms == UINT64_MAX ? UINT64_MAX
								      : parts[i].to_ms * MILLI);
		if (limpet_analysis_open(trace_path("generations"), &options, &analysis, &err) < 0)
			fail_msg("%s", err.message);
		totals = &analysis.model->totals;
		assert_int_equal(totals->allocations, parts[i].allocations);
		assert_int_equal(totals->frees, parts[i].frees);
		assert_int_equal(totals->live_allocations, parts[i].live);
		assert_int_equal(totals->live_bytes, parts[i].live * BYTES);
		assert_int_equal(analysis.hidden.live_allocations, parts[i].hidden);
		limpet_analysis_close(&analysis);
		limpet_filter_free(filter);
	}
}

/* Where only sums are kept, or samples, it is not known when a block was made: that is said, with
 * what can be done. */
static void test_generations_that_are_not_known(void **state)
{
	static struct capture capture;
	struct limpet_filter *filter = limpet_filter_new();
	const struct limpet_analysis_options options = {.filter = filter};
	struct limpet_model *model;
	struct limpet_trace_reader *reader;
	struct limpet_analysis analysis;
	struct limpet_err err;

	(void)state;
	limpet_filter_set_births(filter, 1, UINT64_MAX);
	capture_begin_kept(&capture, trace_path("sums"), 44, true, 0);
	assert_int_equal(capture_run(&capture, 20000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_int_equal(limpet_analysis_open(trace_path("sums"), &options, &analysis, &err),
			 -ENODATA);
	assert_non_null(strstr(err.message, "has only sums"));
	assert_non_null(strstr(err.hint, "without --compact"));

	capture_begin_kept(&capture, trace_path("ring"), 45, false, 400000);
	assert_int_equal(capture_run(&capture, 400000, 2000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_int_equal(limpet_analysis_open(trace_path("ring"), &options, &analysis, &err),
			 -ERANGE);
	assert_non_null(strstr(err.message, "only sums are kept"));
	assert_non_null(strstr(err.hint, "--born-between can begin later than"));
	reader = trace_open(trace_path("ring"));
	model = trace_model(reader, 0, 0);
	assert_true(model->given_up_ns > 0);
	/* Of what came later all is known. */
	limpet_filter_set_births(
		filter, model->duration_ns - (model->duration_ns - model->given_up_ns) / 100,
		UINT64_MAX);
	assert_int_equal(limpet_analysis_open(trace_path("ring"), &options, &analysis, &err), 0);
	assert_true(analysis.model->totals.live_allocations > 0);
	assert_true(analysis.model->totals.live_allocations < model->totals.live_allocations);
	limpet_analysis_close(&analysis);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	limpet_filter_free(filter);
}

static void test_refusals(void **state)
{
	static struct capture capture;
	const struct limpet_trace_user_mark *marks;
	struct limpet_trace_reader *reader;
	char name[32];

	(void)state;
	capture_begin(&capture, trace_path("refusals"), TRACE_MEMORY_BYTES, 43);
	assert_int_equal(set_mark(&capture, "a\nb"), -EINVAL);
	for (unsigned i = 0; i < LIMPET_MARKS_MAX; i++) {
		snprintf(name, sizeof(name), "mark %u", i);
		assert_int_equal(set_mark(&capture, name), 0);
	}
	assert_int_equal(set_mark(&capture, "mark 7"), -EEXIST);
	assert_int_equal(set_mark(&capture, "one more"), -E2BIG);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	reader = trace_open(trace_path("refusals"));
	assert_int_equal(limpet_trace_reader_marks(reader, &marks), LIMPET_MARKS_MAX);
	limpet_trace_reader_free(reader);
}

/* A finished capture of no events, and a MARKS block after it with this list. */
static void append_marks(const char *path, const struct limpet_bytes *list)
{
	struct limpet_trace_mark mark = {.type = LIMPET_TRACE_MARKS};
	struct limpet_bytes content = {0}, out = {0};
	const struct limpet_trace_block *blocks;
	struct limpet_trace_reader *reader;
	static struct capture capture;
	ZSTD_CCtx *zstd = limpet_trace_zstd_new();
	FILE *file;

	trace_make(&capture, path, 0, 0, 1);
	reader = trace_open(path);
	mark.sequence = (uint32_t)limpet_trace_reader_blocks(reader, &blocks);
	limpet_trace_reader_free(reader);
	limpet_trace_content_begin(&content);
	limpet_trace_section_append(&content, LIMPET_MARKS_LIST, list->data, list->count);
	assert_int_equal(limpet_trace_block_append(&out, zstd, &mark, &content), 0);
	file = fopen(path, "ae");
	assert_non_null(file);
	assert_int_equal(fwrite(out.data, 1, out.count, file), out.count);
	fclose(file);
	ZSTD_freeCCtx(zstd);
	limpet_bytes_done(&content);
	limpet_bytes_done(&out);
}

static void put_mark(struct limpet_bytes *list, uint64_t time_ns, const char *name, size_t bytes)
{
	limpet_bytes_append_varint(list, time_ns);
	limpet_bytes_append_varint(list, bytes);
	limpet_bytes_append(list, name, strlen(name));
}

/* A reader accepts any name that has a length, and takes marks in any order. */
static void test_hostile_lists(void **state)
{
	static const char *const names[] = {"first", "\x1b[2J"};
	static const uint64_t times[] = {5, UINT64_MAX};
	struct limpet_bytes list = {0};

	(void)state;
	limpet_bytes_append_varint(&list, 2);
	put_mark(&list, UINT64_MAX, "\x1b[2J", 4);
	put_mark(&list, 5, "first", 5);
	append_marks(trace_path("order"), &list);
	check_marks(trace_path("order"), names, times, 2);

	for (int i = 0; i < 4; i++) {
		const struct limpet_trace_user_mark *marks;
		struct limpet_trace_reader *reader;

		limpet_bytes_clear(&list);
		limpet_bytes_append_varint(&list, i == 0 ? LIMPET_MARKS_MAX + 1 : 2);
		put_mark(&list, 1, "good", 4);
		if (i == 1) /* longer than what is there */
			put_mark(&list, 2, "cut", 60);
		else if (i == 2)
			put_mark(&list, 2, "", 0);
		else
			put_mark(&list, 2,
				 "longer than any name may be, whoever it was that wrote "
				 "it down here",
				 67);
		append_marks(trace_path("hostile"), &list);
		reader = trace_open(trace_path("hostile"));
		assert_int_equal(limpet_trace_reader_marks(reader, &marks), i != 0);
		assert_int_equal(limpet_trace_reader_damage(reader)->blocks_damaged, 1);
		limpet_trace_reader_free(reader);
	}
	limpet_bytes_done(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_marks_stay),
		cmocka_unit_test(test_windows_of_a_compact_trace),
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_generations_that_are_not_known),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_hostile_lists),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
