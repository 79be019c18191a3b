/* The trace: what is written is read back to the last byte, by our reader and by one of another
 * make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "test/unit/trace_fixture.h"

static void check_identity(const struct limpet_model *model)
{
	const struct limpet_trace_target *target = model->target;

	assert_true(target->known);
	assert_int_equal(target->pid, 4711);
	assert_string_equal(target->comm, "made-up");
	assert_string_equal(target->command, "./made-up");
	assert_string_equal(target->executable, "/usr/bin/made-up");
	assert_string_equal(target->allocators, "glibc 2.36");
	assert_int_equal(target->mode, LIMPET_MODE_RUN);
	assert_int_equal(target->start_ticks, 123456);
	assert_int_equal(target->wall_ns, 1700000000000000000ull);
	assert_int_equal(target->max_depth, 128);
	assert_true(target->unseen_rss_share > 0.2499 && target->unseen_rss_share < 0.2501);
	assert_string_not_equal(target->kernel, "");
	assert_string_equal(target->container, CAPTURE_CONTAINER);
	assert_int_equal(target->cgroup_limit_bytes, 1u << 30);
	assert_int_equal(model->module_count, 3);
	assert_string_equal(model->modules[1].path, "/usr/bin/made-up");
	assert_int_equal(model->modules[1].build_id_bytes, 20);
	assert_int_equal(model->modules[1].build_id[3], 4);
	assert_false(model->modules[1].allocator);
	assert_true(model->modules[2].allocator);
	assert_int_equal(model->modules[2].bias, 0x7f0000000000ull);
	assert_int_equal(model->node_count, 3 + CAPTURE_SITES);
	assert_int_equal(model->nodes[1].address, 0x401000);
	assert_true(model->nodes[2].truncated);
	assert_int_equal(model->nodes[2].parent, 1);
	assert_int_equal(model->nodes[capture_trace_node(1)].parent, 2);
	assert_int_equal(model->nodes[capture_trace_node(5)].address, 0x7f0000001050ull);
	assert_int_equal(model->nodes[capture_trace_node(5)].module, 2);
}

static void test_round_trip(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;

	(void)state;
	/* more than two blocks' worth, and periods that events close, not ticks */
	trace_make(&capture, trace_path("round"), 200000, 99991, 1);
	reader = trace_open(trace_path("round"));
	model = trace_model(reader, 0, 0);
	check_identity(model);
	trace_check_totals(&capture, model);
	trace_check_sites(&capture, model);
	trace_check_sizes(&capture, model);
	trace_check_live(&capture, reader);
	assert_true(model->complete);
	assert_true(model->exact);
	assert_false(model->sealed);
	assert_int_equal(model->end->end, LIMPET_END_DURATION);
	assert_true(model->end->agent_unloaded);
	assert_int_equal(model->end->attach_stop_us, 333);
	assert_int_equal(model->end->detach_stop_us, -1);
	assert_int_equal(model->duration_ns, capture.time_ns + 5);
	assert_int_equal(model->totals.truncated_stacks, capture.ticks);
	assert_true(model->timeline_count >= capture.ticks);
	assert_int_equal(model->timeline[model->timeline_count - 1].live_bytes, capture.live_bytes);
	assert_int_equal(model->timeline[model->timeline_count - 1].allocations,
			 capture.totals[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(model->timeline[model->timeline_count - 1].rss_bytes,
			 1000000 + capture.ticks);
	assert_int_equal(model->timeline[model->timeline_count - 1].cgroup_bytes,
			 capture.ticks % 3 ? 2000000 + capture.ticks : 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_names_of_threads(void **state)
{
	static const char odd[] = "\xff\n;";
	const bool compact[] = {false, true};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		static struct capture capture;
		const char *path = trace_path(compact[i] ? "compact threads" : "threads");
		struct limpet_trace_reader *reader;

		capture_begin_kept(&capture, path, 3, compact[i], 0);
		limpet_recorder_name_thread(capture.recorder, 9, "main");
		limpet_recorder_name_thread(capture.recorder, 7, "starting");
		limpet_recorder_name_thread(capture.recorder, 1, odd);
		assert_int_equal(capture_run(&capture, 1000, 100), 0);
		limpet_recorder_name_thread(capture.recorder, 7, "worker");
		limpet_recorder_name_thread(capture.recorder, 8, "");
		assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
		reader = trace_open(path);
		assert_string_equal(limpet_trace_reader_thread_name(reader, 9), "main");
		assert_string_equal(limpet_trace_reader_thread_name(reader, 7), "worker");
		assert_string_equal(limpet_trace_reader_thread_name(reader, 1), odd);
		assert_string_equal(limpet_trace_reader_thread_name(reader, 8), "");
		assert_string_equal(limpet_trace_reader_thread_name(reader, 4711), "");
		limpet_trace_reader_free(reader);
	}
}

/* ------------------------------------------------------------------ replay against aggregates */

struct replay {
	struct limpet_totals totals;
	struct limpet_trace_site sites[CAPTURE_SITES + 3];
	uint64_t live_bytes, peak_bytes;
	uint32_t rows, peak_row;
};

static void replay_row(struct replay *replay, const struct limpet_trace_event *row)
{
	struct limpet_trace_site *site = &replay->sites[row->node];
	struct limpet_totals *totals = &replay->totals;

	replay->rows++;
	totals->events += row->counted;
	switch (row->kind) {
	case LIMPET_ROW_ALLOC:
		site->counts.allocations++;
		site->counts.allocated_bytes += row->size;
		totals->counts.allocations++;
		totals->counts.allocated_bytes += row->size;
		replay->live_bytes += row->size;
		if (replay->live_bytes > replay->peak_bytes) {
			replay->peak_bytes = replay->live_bytes;
			replay->peak_row = replay->rows;
		}
		break;
	case LIMPET_ROW_FREE:
		site->counts.frees++;
		site->counts.freed_bytes += row->size;
		site->counts.temporary += row->temporary;
		site->counts.reallocations += row->realloc;
		totals->counts.frees++;
		totals->counts.freed_bytes += row->size;
		totals->counts.temporary += row->temporary;
		totals->counts.reallocations += row->realloc;
		replay->live_bytes -= row->size;
		break;
	case LIMPET_ROW_FOREIGN_FREE:
		totals->foreign_frees++;
		totals->foreign_freed_bytes += row->size;
		break;
	case LIMPET_ROW_MMAP:
		totals->mmaps++;
		totals->mmap_bytes += row->size;
		break;
	case LIMPET_ROW_MUNMAP:
		totals->munmaps++;
		break;
	case LIMPET_ROW_UNMAPPED:
		totals->unmapped_bytes += row->size;
		break;
	default:
		fail_msg("row of kind %u", row->kind);
	}
}

static void check_period(struct limpet_trace_reader *reader, size_t block, struct replay *replay)
{
	struct limpet_trace_period *period;
	uint64_t listed = 0, touched = 0;

	assert_int_equal(limpet_trace_period_load(reader, block, &period), 0);
	/* bytes that munmap took and nobody had seen are not in single rows */
	replay->totals.foreign_unmapped_bytes = period->totals.foreign_unmapped_bytes;
	assert_memory_equal(&period->totals, &replay->totals, sizeof(replay->totals));
	assert_int_equal(period->rows, replay->rows);
	assert_int_equal(period->peak_bytes, replay->peak_bytes);
	assert_int_equal(period->peak_row, replay->peak_row);
	for (uint32_t i = 0; i < period->site_count; i++) {
		const struct limpet_trace_site *site = &period->sites[i];
		struct limpet_trace_site expected = replay->sites[site->node];

		expected.node = site->node;
		assert_memory_equal(site, &expected, sizeof(expected));
		listed++;
	}
	for (uint32_t i = 0; i < CAPTURE_SITES + 3; i++)
		touched += replay->sites[i].counts.allocations || replay->sites[i].counts.frees;
	assert_int_equal(listed, touched);
	memset(replay->sites, 0, sizeof(replay->sites));
	replay->rows = replay->peak_row = 0;
	replay->peak_bytes = replay->live_bytes;
	limpet_trace_period_free(period);
}

static void test_events_say_what_periods_say(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	struct replay replay = {0};
	uint64_t last_ns = 0;
	size_t count, periods = 0;

	(void)state;
	trace_make(&capture, trace_path("replay"), 150000, 10000, 2);
	reader = trace_open(trace_path("replay"));
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_events *events;
		struct limpet_trace_event row;
		int code;

		if (blocks[i].type == LIMPET_TRACE_PERIOD) {
			check_period(reader, i, &replay);
			periods++;
		}
		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		assert_int_equal(limpet_trace_events_open(reader, i, &events), 0);
		while ((code = limpet_trace_events_next(events, &row)) == 1) {
			assert_true(row.time_ns >= last_ns);
			last_ns = row.time_ns;
			assert_in_range(row.tid, 100, 100 + CAPTURE_THREADS - 1);
			replay_row(&replay, &row);
		}
		assert_int_equal(code, 0);
		limpet_trace_events_free(events);
	}
	assert_true(periods > 8);
	assert_int_equal(replay.totals.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ not every event kept */

static void test_a_second_reader_agrees(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	json_t *answer;
	int status;

	(void)state;
	trace_make(&capture, "second", 80000, 7000, 14);
	second_reader_check("second");
	bytes = trace_read_bytes("second", &count);
	trace_write_bytes("second", bytes, count / 2);
	second_reader_check("second");
	free(bytes);
	/* with a table too small for it all */
	capture_begin(&capture, "second-small", 20000, 15);
	assert_int_equal(capture_run(&capture, 20000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_TARGET_KILLED, true), 0);
	second_reader_check("second-small");
	capture_begin_kept(&capture, "second-compact", 16, true, 0);
	capture.slower = 200;
	assert_int_equal(capture_run(&capture, 40000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	second_reader_check("second-compact");
	capture_begin_kept(&capture, "second-bound", 17, false, 300000);
	assert_int_equal(capture_run(&capture, 200000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_true(trace_count_blocks("second-bound", LIMPET_TRACE_GAP) > 0);
	second_reader_check("second-bound");
	/* it can say no */
	trace_write_bytes("second", (const uint8_t *)"no trace", 8);
	answer = second_reader_ask("second", &status);
	assert_null(answer);
	assert_int_equal(status, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_names_of_threads),
		cmocka_unit_test(test_events_say_what_periods_say),
		cmocka_unit_test(test_a_second_reader_agrees),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
