/* What a trace says of its losses, and what a reader makes of it: `complete`, `exact`, the reasons.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analyzer/report.h"
#include "analyzer/report_json.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

static uint64_t said; /* by the recorder that was finished last */

static void end_it(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick,
		   uint64_t losses)
{
	const struct limpet_recorder_end end = {
		.end = LIMPET_END_STOP, .time_ns = tick->time_ns, .losses = losses};

	assert_int_equal(limpet_recorder_finish(recorder, tick, &end), 0);
	said = limpet_recorder_losses(recorder);
	limpet_recorder_free(recorder);
}

static void allocate(struct limpet_recorder *recorder, uint64_t address, uint64_t size)
{
	const struct limpet_record record = {.time_ns = SECOND / 2,
					     .address = address,
					     .size = size,
					     .thread = 1,
					     .kind = LIMPET_EVENT_ALLOC};

	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
}

static json_t *report_of(const char *path)
{
	const struct limpet_report_options options = {.sort = LIMPET_REPORT_LIVE,
						      .limit = SIZE_MAX};
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	struct limpet_report *report;
	json_error_t error;
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);
	json_t *root;

	assert_int_equal(limpet_report_new(model, &options, &report), 0);
	assert_int_equal(limpet_report_json_print(report, file), 0);
	fclose(file);
	root = json_loads(text, 0, &error);
	assert_non_null(root);
	free(text);
	limpet_report_free(report);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return root;
}

static bool lists(const json_t *list, const char *key)
{
	const json_t *entry;
	size_t index;

	json_array_foreach(list, index, entry)
	{
		if (!strcmp(json_string_value(entry), key))
			return true;
	}
	return false;
}

/* Each one alone: who captures, who reads and the report agree, by the table. */
static void test_each_reason(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LIMPET_LOSS_UNFINISHED; i++) {
		const struct limpet_loss_kind *kind = &limpet_loss_kinds[i];
		const struct limpet_recorder_options options = trace_options("reason");
		const struct limpet_recorder_tick tick = {.time_ns = SECOND};
		struct limpet_recorder *recorder;
		struct trace_outcome outcome;
		json_t *root, *capture;

		unlink("reason");
		recorder = trace_record(&options);
		allocate(recorder, 4096, 100);
		end_it(recorder, &tick, LIMPET_LOSS_BIT(i));
		outcome = trace_try(trace_path("reason"));
		assert_int_equal(said, LIMPET_LOSS_BIT(i));
		assert_int_equal(outcome.losses, LIMPET_LOSS_BIT(i));
		assert_int_equal(outcome.complete, !kind->clears_complete);
		assert_int_equal(outcome.exact, !kind->clears_exact);
		assert_int_equal(limpet_losses_complete(said), outcome.complete);
		root = report_of("reason");
		capture = json_object_get(root, "capture");
		assert_int_equal(lists(json_object_get(capture, "incomplete_reasons"), kind->key),
				 kind->clears_complete);
		assert_int_equal(lists(json_object_get(capture, "inexact_reasons"), kind->key),
				 kind->clears_exact);
		assert_int_equal(json_is_true(json_object_get(capture, "exact")), outcome.exact);
		json_decref(root);
	}
}

/* What the recorder finds by itself is in the file and in what it says to whoever captures. */
static void test_what_is_counted(void **state)
{
	static const struct {
		struct limpet_recorder_tick tick;
		bool twice; /* an address is handed out that is live */
		bool nonsense;
		uint64_t losses;
	} list[] = {
		{.losses = 0},
		{.tick = {.dropped_events = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED)},
		{.tick = {.unseen_calls = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_UNSEEN)},
		{.tick = {.truncated_stacks = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_TRUNCATED)},
		{.twice = true, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_INFERRED)},
		{.nonsense = true, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED)},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const struct limpet_recorder_options options = trace_options("counted");
		struct limpet_recorder_tick tick = list[i].tick;
		struct limpet_recorder *recorder;
		struct trace_outcome outcome;

		unlink("counted");
		recorder = trace_record(&options);
		tick.time_ns = SECOND;
		allocate(recorder, 4096, 100);
		if (list[i].twice)
			allocate(recorder, 4096, 100);
		if (list[i].nonsense)
			allocate(recorder, 0, 100);
		end_it(recorder, &tick, 0);
		outcome = trace_try(trace_path("counted"));
		assert_int_equal(said, list[i].losses);
		assert_int_equal(outcome.losses, list[i].losses);
		assert_int_equal(outcome.complete, limpet_losses_complete(said));
		assert_int_equal(outcome.exact, limpet_losses_exact(said));
	}
}

/* A trace whose collector died: what it has is true, and not all. */
static void test_no_end(void **state)
{
	const struct limpet_recorder_options options = trace_options("no-end");
	struct limpet_recorder *recorder = trace_record(&options);
	struct trace_outcome outcome;

	(void)state;
	allocate(recorder, 4096, 100);
	trace_end_period(recorder, 1);
	limpet_recorder_free(recorder);
	outcome = trace_try(trace_path("no-end"));
	assert_int_equal(outcome.losses, LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED));
	assert_false(outcome.complete);
	assert_true(outcome.exact);
}

/* One that nobody knows yet says no to both, and each has a key of its own. */
static void test_the_table(void **state)
{
	(void)state;
	assert_true(limpet_losses_complete(0) && limpet_losses_exact(0));
	assert_false(limpet_losses_complete(LIMPET_LOSS_BIT(LIMPET_LOSS_COUNT)));
	assert_false(limpet_losses_exact(1ull << 63));
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++) {
		assert_non_null(limpet_loss_kinds[i].key);
		assert_non_null(limpet_loss_kinds[i].words);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(limpet_loss_kinds[i].key, limpet_loss_kinds[k].key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_reason),
		cmocka_unit_test(test_what_is_counted),
		cmocka_unit_test(test_no_end),
		cmocka_unit_test(test_the_table),
	};

	return cmocka_run_group_tests(tests, trace_enter_folder, trace_leave_folder);
}
