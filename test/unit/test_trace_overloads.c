/* Overloads: what was recorded in full and what is estimated, told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "analyzer/export/export_formats.h"
#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

static void put_some(struct limpet_recorder *recorder, struct limpet_record record,
		     uint64_t seconds, uint32_t count)
{
	record.time_ns = seconds * SECOND;
	record.thread = 1;
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
		record.address += 4096;
	}
}

static const struct limpet_model_site *estimated_site(const struct limpet_model *model,
						      uint32_t node,
						      struct limpet_model_range *ret_calls)
{
	for (size_t i = 0; i < model->site_count; i++) {
		if (model->sites[i].node != node)
			continue;
		*ret_calls = limpet_model_estimates_range(
			&model->site_estimates[i], LIMPET_FIGURE_ALLOCATIONS, model->sample_bytes);
		return &model->sites[i];
	}
	fail_msg("no site %u", node);
	return NULL;
}

static void write_overloads(const char *path)
{
	struct limpet_recorder_options options = trace_options(path);
	const struct limpet_record alloc = {.kind = LIMPET_EVENT_ALLOC, .size = 100};
	const struct limpet_record overload = {.kind = LIMPET_EVENT_OVERLOAD, .address = 1};
	const struct limpet_record room = {.kind = LIMPET_EVENT_ROOM, .address = 1};
	struct limpet_record before = alloc, sample = alloc, after = alloc, gone = {0};
	const struct limpet_recorder_tick tick = {.time_ns = 9 * SECOND};
	struct limpet_recorder *recorder;

	options.sampling.overload_bytes = 4096;
	recorder = trace_record(&options);
	for (uint32_t node = 1; node <= 3; node++)
		assert_int_equal(
			limpet_recorder_add_node(recorder, node, 0, 0x400000 + node, 0, false), 0);
	before.node = 1;
	before.address = 0x10000000;
	sample.node = 2;
	sample.address = 0x20000000;
	sample.sampled = 1;
	after.node = 3;
	after.address = 0x30000000;
	gone.kind = LIMPET_EVENT_FREE;
	gone.address = before.address;
	put_some(recorder, before, 1, 1000);
	put_some(recorder, overload, 2, 1);
	put_some(recorder, sample, 2, 5);
	put_some(recorder, gone, 2, 400);
	trace_end_period(recorder, 3);
	gone.address = sample.address;
	put_some(recorder, gone, 3, 1);
	gone.address = 0x40000000;
	put_some(recorder, gone, 3, 77);
	put_some(recorder, room, 4, 1);
	put_some(recorder, after, 5, 300);
	put_some(recorder, gone, 5, 10);
	trace_end_period(recorder, 6);
	put_some(recorder, overload, 7, 1);
	before.address = 0x50000000;
	before.sampled = 1;
	put_some(recorder, before, 8, 1);
	trace_finish(recorder, &tick);
}

static unsigned count_live_samples(struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);
	unsigned samples = 0;

	for (size_t i = 0; i < count; i++) {
		LIMPET_FREE struct limpet_trace_live *list = NULL;
		int64_t entries;

		if (blocks[i].type != LIMPET_TRACE_LIVE)
			continue;
		entries = limpet_trace_live_load(reader, i, &list);
		assert_true(entries >= 0);
		for (int64_t k = 0; k < entries; k++) {
			samples += list[k].sampled;
			assert_int_equal(list[k].sampled,
					 list[k].address >= 0x20000000 &&
							 list[k].address < 0x30000000
						 ? 1
						 : list[k].address == 0x50000000);
		}
	}
	return samples;
}

/* The column `weight` of events of that kind, added up. */
static double add_weights(const char *path, const char *kind)
{
	const struct limpet_analysis_options options = {0};
	char head[32], *text = NULL, *line, *rest;
	struct limpet_err err = {0};
	struct limpet_analysis analysis;
	double sum = 0;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	snprintf(head, sizeof(head), ",%s,", kind);
	assert_non_null(file);
	assert_int_equal(limpet_analysis_open(path, &options, &analysis, &err), 0);
	assert_int_equal(limpet_export(&analysis, &limpet_export_csv, 0, file, &err), 0);
	assert_int_equal(fclose(file), 0);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, head)) {
			*strrchr(line, ',') = '\0';
			sum += strtod(strrchr(line, ',') + 1, NULL);
		}
	limpet_analysis_close(&analysis);
	free(text);
	return sum;
}

/* What was recorded in full and what is estimated, told apart: by block, by site and by time. */
static void test_overloads(void **state)
{
	const double weight = 1 / -expm1(-116.0 / 4096); /* 35.8 */
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	const struct limpet_model_site *site;
	struct limpet_model_range calls;
	json_t *answer;
	int status;

	(void)state;
	write_overloads(trace_path("overloads"));
	reader = trace_open(trace_path("overloads"));
	model = trace_model(reader, 0, 0);
	assert_true(model->complete && !model->exact);
	assert_int_equal(model->losses, LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED));
	assert_int_equal(model->sample_bytes, 4096);
	assert_int_equal(model->target->sample_bytes, 0);
	assert_int_equal(model->overload_count, 2);
	assert_int_equal(model->overloads[0].from_ns, 2 * SECOND);
	assert_int_equal(model->overloads[0].to_ns, 4 * SECOND);
	assert_int_equal(model->overloads[1].from_ns, 7 * SECOND);
	assert_int_equal(model->overloads[1].to_ns, 8 * SECOND);
	site = estimated_site(model, 1, &calls);
	assert_int_equal(site->allocations, (uint64_t)(1000 + weight + 0.5));
	assert_int_equal(site->frees, 400);
	assert_int_equal(site->live_allocations, (uint64_t)(600 + weight + 0.5));
	assert_true(calls.low > 1000 && calls.low < 1010 && calls.high > 1100);
	site = estimated_site(model, 2, &calls);
	assert_int_equal(site->allocations, (uint64_t)(5 * weight + 0.5));
	assert_int_equal(site->live_allocations, (uint64_t)(4 * weight + 0.5));
	assert_true(calls.low < site->allocations - 50 && calls.high > site->allocations + 50);
	site = estimated_site(model, 3, &calls);
	assert_int_equal(site->allocations, 300);
	assert_int_equal(calls.low, 300);
	assert_int_equal(calls.high, 300);
	assert_int_equal(model->totals.allocations, (uint64_t)(1300 + 6 * weight + 0.5));
	assert_int_equal(model->totals.foreign_frees, 0);
	assert_int_equal(model->totals.events, 1000 + 5 + 400 + 1 + 300 + 1);
	assert_int_equal(count_live_samples(reader), 5);
	assert_true(fabs(add_weights(trace_path("overloads"), "alloc") - 1300 - 6 * weight) < 1e-6);
	assert_true(fabs(add_weights(trace_path("overloads"), "free") - 400 - weight) < 1e-6);
	limpet_model_free(model);

	/* A window without an overload: all calls in it are certain. */
	model = trace_model(reader, 9 * SECOND / 2, 13 * SECOND / 2);
	site = estimated_site(model, 3, &calls);
	assert_int_equal(model->totals.allocations, 300);
	assert_int_equal(calls.low, calls.high);
	assert_int_equal(limpet_model_estimates_range(&model->estimates, LIMPET_FIGURE_ALLOCATIONS,
						      model->sample_bytes)
				 .high,
			 300);
	assert_int_equal(model->overload_count, 2);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	answer = second_reader_ask(trace_path("overloads"), &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_array_size(json_object_get(answer, "wrong")), 0);
	json_decref(answer);
}

/* Set up for overloads, and there was none: a trace like any other. */
static void test_no_overload(void **state)
{
	struct limpet_recorder_options options = trace_options("no-overload");
	const struct limpet_record gone = {.kind = LIMPET_EVENT_FREE, .address = 0x1000};
	struct limpet_recorder_tick tick = {.time_ns = SECOND};
	struct limpet_recorder *recorder;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;

	(void)state;
	options.sampling.overload_bytes = 4096;
	recorder = trace_record(&options);
	put_some(recorder, gone, 1, 3);
	trace_finish(recorder, &tick);
	reader = trace_open(trace_path("no-overload"));
	model = trace_model(reader, 0, 0);
	assert_int_equal(model->sample_bytes, 0);
	assert_int_equal(model->totals.foreign_frees, 3);
	assert_int_equal(model->overload_count, 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overloads),
		cmocka_unit_test(test_no_overload),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
