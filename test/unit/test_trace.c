/* The trace: what is written is read back to the last byte, whole or in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/export.h"
#include "analyzer/model.h"
#include "analyzer/replay.h"
#include "analyzer/trace_append.h"
#include "analyzer/trace_reader.h"
#include "common/crc32.h"
#include "common/trace_block.h"
#include "common/wire.h"
#include "test/unit/skip_reason.h"
#include "test/unit/trace_capture.h"

#define MEMORY_BYTES (8u << 20)
#define SECOND 1000000000ull

static char folder[] = "/tmp/limpet-test-trace-XXXXXX";
static char second_reader[PATH_MAX];
static char corpus[PATH_MAX];

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int enter_folder(void **state)
{
	(void)state;
	if (!realpath("scripts/limpet-trace-read", second_reader) ||
	    !realpath("test/fuzz/corpus/trace", corpus))
		return -1;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	char command[300];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static struct limpet_trace_reader *open_trace(const char *path)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(path, &reader, &err) < 0)
		fail_msg("%s", err.message);
	return reader;
}

static struct limpet_model *build_model(struct limpet_trace_reader *reader, uint64_t from_ns,
					uint64_t to_ns)
{
	struct limpet_model_options options = {.from_ns = from_ns, .to_ns = to_ns};
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};

	if (limpet_model_build(reader, &options, &model, &err) < 0)
		fail_msg("%s", err.message);
	return model;
}

/* A finished capture of so many events. */
static void make_trace(struct capture *capture, const char *path, uint64_t events,
		       uint64_t tick_events, uint64_t seed)
{
	unlink(path);
	capture_begin(capture, path, MEMORY_BYTES, seed);
	assert_int_equal(capture_run(capture, events, tick_events), 0);
	assert_int_equal(capture_finish(capture, LIMPET_END_DURATION, true), 0);
}

/* ------------------------------------------------------------------ round trip */

static void check_totals(const struct capture *capture, const struct limpet_model *model)
{
	const uint64_t *expected = capture->totals;
	const struct limpet_model_totals *totals = &model->totals;

	assert_int_equal(totals->events, expected[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(totals->allocations, expected[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(totals->allocated_bytes, expected[LIMPET_TOTAL_ALLOCATED_BYTES]);
	assert_int_equal(totals->frees, expected[LIMPET_TOTAL_FREES]);
	assert_int_equal(totals->freed_bytes, expected[LIMPET_TOTAL_FREED_BYTES]);
	assert_int_equal(totals->temporary_allocations, expected[LIMPET_TOTAL_TEMPORARY]);
	assert_int_equal(totals->foreign_frees, expected[LIMPET_TOTAL_FOREIGN_FREES]);
	assert_int_equal(totals->foreign_freed_bytes, expected[LIMPET_TOTAL_FOREIGN_FREED_BYTES]);
	assert_int_equal(totals->live_bytes, capture->live_bytes);
	assert_int_equal(totals->growth_bytes, capture->live_bytes);
	assert_int_equal(totals->peak_bytes, capture->peak_bytes);
	assert_int_equal(totals->peak_ns, capture->peak_ns);
	assert_int_equal(totals->mmaps, expected[LIMPET_TOTAL_MMAPS]);
	assert_int_equal(totals->mmap_bytes, expected[LIMPET_TOTAL_MMAP_BYTES]);
	assert_int_equal(totals->munmaps, expected[LIMPET_TOTAL_MUNMAPS]);
	assert_int_equal(totals->unmapped_bytes, expected[LIMPET_TOTAL_UNMAPPED_BYTES]);
	assert_int_equal(totals->foreign_unmapped_bytes,
			 expected[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES]);
	assert_int_equal(totals->mapped_bytes,
			 expected[LIMPET_TOTAL_MMAP_BYTES] - expected[LIMPET_TOTAL_UNMAPPED_BYTES]);
}

static const struct limpet_model_site *site_of(const struct limpet_model *model, uint32_t node)
{
	static const struct limpet_model_site none;

	for (size_t i = 0; i < model->site_count; i++)
		if (model->sites[i].node == node)
			return &model->sites[i];
	return &none;
}

static void check_sites(const struct capture *capture, const struct limpet_model *model)
{
	for (uint32_t i = 0; i < CAPTURE_SITES; i++) {
		const struct capture_site *expected = &capture->sites[i];
		const struct limpet_model_site *site = site_of(model, capture_trace_node(i));

		assert_int_equal(site->allocations, expected->allocations);
		assert_int_equal(site->allocated_bytes, expected->allocated_bytes);
		assert_int_equal(site->frees, expected->frees);
		assert_int_equal(site->freed_bytes, expected->freed_bytes);
		assert_int_equal(site->temporary_allocations, expected->temporary);
		assert_int_equal(site->live_allocations, expected->live);
		assert_int_equal(site->live_bytes, expected->live_bytes);
		assert_int_equal(site->peak_allocations, expected->peak);
		assert_int_equal(site->peak_bytes, expected->peak_bytes);
	}
}

static void check_sizes(const struct capture *capture, const struct limpet_model *model)
{
	size_t at = 0;

	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		if (!capture->size_counts[i])
			continue;
		assert_true(at < model->size_count);
		assert_int_equal(model->sizes[at].allocations, capture->size_counts[i]);
		assert_int_equal(limpet_trace_size_bucket(model->sizes[at].from_bytes), i);
		assert_int_equal(limpet_trace_size_bucket(model->sizes[at].to_bytes), i);
		at++;
	}
	assert_int_equal(at, model->size_count);
}

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

/* The LIVE blocks against the blocks that the program holds. */
static void check_live(const struct capture *capture, struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);
	uint64_t live = 0, mapped_bytes = 0, expected = 0, last = 0;

	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_live *list;
		int64_t entries;

		if (blocks[i].type != LIMPET_TRACE_LIVE)
			continue;
		entries = limpet_trace_live_load(reader, i, &list);
		assert_true(entries > 0);
		for (int64_t n = 0; n < entries; n++) {
			const struct capture_block *block;

			if (list[n].mapping) {
				mapped_bytes += list[n].size;
				continue;
			}
			assert_true(list[n].address > last);
			last = list[n].address;
			block = &capture->blocks[(list[n].address - 0x7f0000000000ull) / 32];
			assert_true(block->live);
			assert_int_equal(list[n].size, block->size);
			assert_int_equal(list[n].node, capture_trace_node(block->site));
			assert_int_equal(list[n].tid, 100 + block->thread);
			assert_int_equal(list[n].time_ns / LIMPET_TRACE_TICK_NS,
					 block->time_ns / LIMPET_TRACE_TICK_NS);
			live++;
		}
		free(list);
	}
	for (uint32_t i = 0; i < CAPTURE_BLOCKS; i++)
		expected += capture->blocks[i].live;
	assert_int_equal(live, expected);
	assert_int_equal(mapped_bytes, capture->totals[LIMPET_TOTAL_MMAP_BYTES] -
					       capture->totals[LIMPET_TOTAL_UNMAPPED_BYTES]);
}

static void test_round_trip(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;

	(void)state;
	/* more than two blocks' worth, and periods that events close, not ticks */
	make_trace(&capture, path_of("round"), 200000, 99991, 1);
	reader = open_trace(path_of("round"));
	model = build_model(reader, 0, 0);
	check_identity(model);
	check_totals(&capture, model);
	check_sites(&capture, model);
	check_sizes(&capture, model);
	check_live(&capture, reader);
	assert_true(model->complete);
	assert_true(model->exact);
	assert_false(model->sealed);
	assert_int_equal(model->end->end, LIMPET_END_DURATION);
	assert_true(model->end->agent_unloaded);
	assert_int_equal(model->end->attach_stop_us, 333);
	assert_int_equal(model->end->detach_stop_us, -1);
	assert_int_equal(model->duration_ns, capture.time_ns + 5);
	assert_int_equal(model->totals.truncated_stacks, capture.ticks);
	assert_int_equal(model->totals.unseen_calls, 2 * capture.ticks);
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

/* ------------------------------------------------------------------ replay against aggregates */

struct replay {
	uint64_t totals[LIMPET_TOTAL_COUNT];
	struct limpet_trace_site sites[CAPTURE_SITES + 3];
	uint64_t live_bytes, peak_bytes;
	uint32_t rows, peak_row;
};

static void replay_row(struct replay *replay, const struct limpet_trace_event *row)
{
	struct limpet_trace_site *site = &replay->sites[row->node];
	uint64_t *totals = replay->totals;

	replay->rows++;
	totals[LIMPET_TOTAL_EVENTS] += row->counted;
	switch (row->kind) {
	case LIMPET_ROW_ALLOC:
		site->allocations++;
		site->allocated_bytes += row->size;
		totals[LIMPET_TOTAL_ALLOCATIONS]++;
		totals[LIMPET_TOTAL_ALLOCATED_BYTES] += row->size;
		replay->live_bytes += row->size;
		if (replay->live_bytes > replay->peak_bytes) {
			replay->peak_bytes = replay->live_bytes;
			replay->peak_row = replay->rows;
		}
		break;
	case LIMPET_ROW_FREE:
		site->frees++;
		site->freed_bytes += row->size;
		site->temporary += row->temporary;
		totals[LIMPET_TOTAL_FREES]++;
		totals[LIMPET_TOTAL_FREED_BYTES] += row->size;
		totals[LIMPET_TOTAL_TEMPORARY] += row->temporary;
		replay->live_bytes -= row->size;
		break;
	case LIMPET_ROW_FOREIGN_FREE:
		totals[LIMPET_TOTAL_FOREIGN_FREES]++;
		totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += row->size;
		break;
	case LIMPET_ROW_MMAP:
		totals[LIMPET_TOTAL_MMAPS]++;
		totals[LIMPET_TOTAL_MMAP_BYTES] += row->size;
		break;
	case LIMPET_ROW_MUNMAP:
		totals[LIMPET_TOTAL_MUNMAPS]++;
		break;
	case LIMPET_ROW_UNMAPPED:
		totals[LIMPET_TOTAL_UNMAPPED_BYTES] += row->size;
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
	replay->totals[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] =
		period->totals[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES];
	assert_memory_equal(period->totals, replay->totals, sizeof(replay->totals));
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
		touched += replay->sites[i].allocations || replay->sites[i].frees;
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
	make_trace(&capture, path_of("replay"), 150000, 10000, 2);
	reader = open_trace(path_of("replay"));
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
	assert_int_equal(replay.totals[LIMPET_TOTAL_EVENTS], capture.totals[LIMPET_TOTAL_EVENTS]);
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ windows */

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
	model = build_model(reader, from_ns, to_ns);
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
		const struct limpet_model_site *site = site_of(model, node);

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
	make_trace(&capture, path_of("window"), 40000, 1500, 3);
	reader = open_trace(path_of("window"));
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
	make_trace(&capture, path_of("empty-window"), 10, 0, 4);
	reader = open_trace(path_of("empty-window"));
	assert_int_equal(limpet_model_build(reader, &options, &model, &err), -EINVAL);
	assert_string_not_equal(err.message, "");
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ damage */

static uint8_t *read_whole(const char *path, size_t *ret_count)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	long count;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	count = ftell(file);
	rewind(file);
	bytes = malloc((size_t)count + 1);
	assert_int_equal(fread(bytes, 1, (size_t)count, file), (size_t)count);
	fclose(file);
	*ret_count = (size_t)count;
	return bytes;
}

static void write_whole(const char *path, const uint8_t *bytes, size_t count)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

struct outcome {
	int code; /* of open or build */
	bool complete, whole, exact;
	enum limpet_end end;
	uint64_t events, live_bytes;
	uint64_t duration_ns;
	struct limpet_model_totals totals;
	uint64_t site_sum;
};

/* All that a reader can do with the file, so that a sanitizer sees it. */
static struct outcome try_trace(const char *path)
{
	struct outcome outcome = {0};
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err = {0};
	const struct limpet_trace_damage *damage;

	outcome.code = limpet_trace_reader_open(path, &reader, &err);
	if (outcome.code < 0) {
		assert_int_equal(err.code, outcome.code);
		assert_string_not_equal(err.message, "");
		return outcome;
	}
	outcome.code = limpet_model_build(reader, NULL, &model, &err);
	assert_int_equal(outcome.code, 0);
	damage = limpet_trace_reader_damage(reader);
	outcome.complete = model->complete;
	outcome.exact = model->exact;
	outcome.whole = !damage->blocks_damaged && !damage->blocks_lost && !damage->bytes_ignored &&
			!damage->truncated;
	outcome.end = model->end->end;
	outcome.events = model->totals.events;
	outcome.live_bytes = model->totals.live_bytes;
	outcome.duration_ns = model->duration_ns;
	outcome.totals = model->totals;
	for (size_t i = 0; i < model->site_count; i++)
		outcome.site_sum += model->sites[i].live_bytes +
				    model->sites[i].allocated_bytes * 3 +
				    model->sites[i].peak_bytes * 5;
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return outcome;
}

static void test_cut_at_every_byte(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	uint64_t events = 0;
	struct outcome last = {0};

	(void)state;
	make_trace(&capture, path_of("whole"), 300, 60, 5);
	bytes = read_whole(path_of("whole"), &count);
	for (size_t cut = 0; cut < count; cut++) {
		write_whole(path_of("cut"), bytes, cut);
		last = try_trace(path_of("cut"));
		if (last.code < 0) {
			/* before the first block is whole, and at no later place */
			assert_int_equal(last.code, -ENODATA);
			assert_int_equal(events, 0);
			assert_true(cut < 500);
			continue;
		}
		assert_false(last.complete);
		assert_int_equal(last.end, LIMPET_END_COLLECTOR_LOST);
		/* what was there stays there */
		assert_true(last.events >= events);
		events = last.events;
	}
	assert_int_equal(events, capture.totals[LIMPET_TOTAL_EVENTS]);
	write_whole(path_of("cut"), bytes, count);
	last = try_trace(path_of("cut"));
	assert_true(last.complete && last.whole);
	free(bytes);
}

static void test_flipped_bits(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	struct outcome good, bad;

	(void)state;
	make_trace(&capture, path_of("good"), 300, 60, 6);
	good = try_trace(path_of("good"));
	bytes = read_whole(path_of("good"), &count);
	for (size_t at = 0; at < count; at++) {
		bytes[at] ^= (uint8_t)(1u << at % 8);
		write_whole(path_of("bad"), bytes, count);
		bytes[at] ^= (uint8_t)(1u << at % 8);
		bad = try_trace(path_of("bad"));
		/* one flipped bit cannot cost the whole file */
		assert_int_equal(bad.code, 0);
		assert_false(bad.whole);
		assert_false(bad.complete);
		/* either aggregates or events are left of each period, and totals are cumulative */
		assert_int_equal(bad.events, good.events);
		assert_int_equal(bad.live_bytes, good.live_bytes);
		if (bad.exact)
			assert_int_equal(bad.totals.peak_bytes, good.totals.peak_bytes);
	}
	free(bytes);
}

/* Content that no checksum warns of: each byte of each content changed, and framed anew. */
static void test_hostile_content(void **state)
{
	static struct capture capture;
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	ZSTD_CCtx *zstd = limpet_trace_zstd_new();
	struct limpet_bytes file = {0}, content = {0};
	size_t count, whole_count;
	uint8_t *whole;

	(void)state;
	make_trace(&capture, path_of("tame"), 150, 50, 7);
	whole = read_whole(path_of("tame"), &whole_count);
	reader = open_trace(path_of("tame"));
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++) {
		struct limpet_cursor sections;
		uint8_t *buffer;
		size_t bytes,
			after = blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;

		assert_int_equal(limpet_trace_reader_load(reader, i, &buffer, &sections), 0);
		bytes = limpet_cursor_left(&sections);
		for (size_t at = 0; at < bytes; at++) {
			static const uint8_t values[] = {0xff, 0x00, 0x7f, 0x80};
			struct limpet_trace_mark mark = {.type = blocks[i].type,
							 .sequence = blocks[i].sequence,
							 .first_ns = blocks[i].first_ns,
							 .last_ns = blocks[i].last_ns};
			struct outcome outcome;

			limpet_bytes_clear(&file);
			limpet_trace_content_begin(&content);
			limpet_bytes_put(&content, sections.at, bytes);
			content.data[LIMPET_TRACE_CONTENT_HEAD_BYTES + at] = values[at % 4];
			limpet_bytes_put(&file, whole, blocks[i].offset);
			assert_int_equal(limpet_trace_block_put(&file, zstd, &mark, &content), 0);
			limpet_bytes_put(&file, whole + after, whole_count - after);
			write_whole(path_of("hostile"), file.data, file.count);
			outcome = try_trace(path_of("hostile"));
			assert_int_equal(outcome.code, 0);
		}
		free(buffer);
	}
	limpet_trace_reader_free(reader);
	limpet_bytes_done(&file);
	limpet_bytes_done(&content);
	ZSTD_freeCCtx(zstd);
	free(whole);
}

/* ------------------------------------------------------------------ the press */

static int count_threads(uint64_t *ret_blocked)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	assert_non_null(tasks);
	*ret_blocked = 0;
	while ((entry = readdir(tasks))) {
		char path[300], line[256];
		bool ours = false;
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		count++;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			ours |= !strcmp(line, "Name:\tlimpet-press\n");
			if (ours && !strncmp(line, "SigBlk:\t", 8))
				*ret_blocked = strtoull(line + 8, NULL, 16);
		}
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

static void make_two_threads(const char *path, bool expect_thread)
{
	static struct capture capture;
	uint64_t blocked;
	int before = count_threads(&blocked);

	capture_begin(&capture, path, MEMORY_BYTES, 77);
	assert_int_equal(capture_run(&capture, 2000, 0), 0);
	assert_int_equal(capture_tick(&capture), 0);
	/* Nothing to do that would want one. */
	assert_int_equal(count_threads(&blocked), before);
	assert_int_equal(capture_run(&capture, 300000, 40000), 0);
	assert_int_equal(count_threads(&blocked), before + expect_thread);
	if (expect_thread)
		assert_true(blocked >> (SIGINT - 1) & 1 && blocked >> (SIGTERM - 1) & 1 &&
			    blocked >> (SIGCHLD - 1) & 1);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_int_equal(count_threads(&blocked), before);
}

/* With one processor there is no thread, and the trace is the same to the byte. */
static void test_a_thread_changes_nothing(void **state)
{
	cpu_set_t all, one;
	size_t alone_count, beside_count;
	uint8_t *alone, *beside;
	int first = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	make_two_threads(path_of("alone"), false);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		limpet_skip("one processor");
	make_two_threads(path_of("beside"), true);
	alone = read_whole(path_of("alone"), &alone_count);
	beside = read_whole(path_of("beside"), &beside_count);
	assert_int_equal(alone_count, beside_count);
	assert_memory_equal(alone, beside, alone_count);
	free(alone);
	free(beside);
}

/* ------------------------------------------------------------------ who writes, and what is no
 * trace */

static void test_a_writer_is_seen(void **state)
{
	static struct capture capture;
	struct limpet_trace_append *append = NULL;
	struct limpet_err err = {0};
	struct outcome outcome;

	(void)state;
	capture_begin(&capture, path_of("running"), MEMORY_BYTES, 8);
	assert_int_equal(capture_run(&capture, 1000, 0), 0);
	assert_int_equal(capture_tick(&capture), 0);
	outcome = try_trace(path_of("running"));
	assert_int_equal(outcome.end, LIMPET_END_RUNNING);
	assert_int_equal(outcome.events, 1000);
	assert_false(outcome.complete);
	assert_int_equal(limpet_trace_append_open(path_of("running"), &append, &err), -EBUSY);
	/* the collector is gone, and said nothing */
	limpet_recorder_free(capture.recorder);
	outcome = try_trace(path_of("running"));
	assert_int_equal(outcome.end, LIMPET_END_COLLECTOR_LOST);
	assert_int_equal(outcome.events, 1000);
	assert_int_equal(outcome.duration_ns, capture.time_ns);
	assert_false(outcome.complete);
}

static void check_no_trace(const void *bytes, size_t count, int code, const char *word)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};

	write_whole(path_of("no-trace"), bytes, count);
	assert_int_equal(limpet_trace_reader_open(path_of("no-trace"), &reader, &err), code);
	if (!strstr(err.message, word))
		fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static void test_what_is_no_trace(void **state)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};
	struct limpet_trace_mark mark = {.version = LIMPET_TRACE_VERSION + 1,
					 .type = LIMPET_TRACE_HEADER};
	uint8_t bytes[LIMPET_TRACE_MARK_BYTES];
	static const uint8_t other[] = {
		0x5c, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd', 0, 0, 0, 0, 0, 0, 0, 0,
		0,    0,    0,    0,    0, 0, 0, 0, 0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0,
		0,    0,    0,    0,    0, 0, 0, 0, 0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0};

	(void)state;
	check_no_trace("", 0, -ENODATA, "empty");
	check_no_trace("#!/bin/sh\n", 10, -ENOMSG, "not a limpet trace");
	check_no_trace(other, sizeof(other), -ENOMSG, "not a limpet trace");
	check_no_trace("\x5c\x2a", 2, -ENODATA, "cut short");
	limpet_trace_mark_encode(&mark, bytes);
	check_no_trace(bytes, sizeof(bytes), -EPROTONOSUPPORT, "newer");
	assert_int_equal(limpet_trace_reader_open(path_of("missing"), &reader, &err), -ENOENT);
	assert_int_equal(limpet_trace_reader_open(folder, &reader, &err), -EISDIR);
	assert_int_equal(limpet_trace_reader_open("/dev/zero", &reader, &err), -ENOMSG);
	assert_null(reader);
}

/* ------------------------------------------------------------------ the file */

static int open_recorder(const char *path, const char *comm, struct limpet_recorder **ret)
{
	struct limpet_recorder_options options = {.path = path,
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = MEMORY_BYTES,
						  .pid = 12,
						  .comm = comm,
						  .unseen_rss_share = -1};
	struct limpet_err err = {0};

	return limpet_recorder_open(&options, ret, &err);
}

static void test_the_file_is_new_and_private(void **state)
{
	struct limpet_recorder *recorder = NULL;
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(open_recorder(path_of("private"), "x", &recorder), 0);
	umask(mask);
	assert_string_equal(limpet_recorder_path(recorder), path_of("private"));
	assert_int_equal(stat(path_of("private"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	limpet_recorder_free(recorder);
	assert_int_equal(open_recorder(path_of("private"), "x", &recorder), -EEXIST);
	assert_int_equal(symlink("nowhere", path_of("link")), 0);
	assert_int_equal(open_recorder(path_of("link"), "x", &recorder), -EEXIST);
	assert_int_equal(open_recorder(path_of("no/such/folder"), "x", &recorder), -ENOENT);
}

static void test_default_names(void **state)
{
	static const struct {
		const char *comm, *path;
	} list[] = {
		{"node", "node.12.limpet"},   {"node", "node.12.limpet.1"},
		{"node", "node.12.limpet.2"}, {"../../etc/x", "_._.._etc_x.12.limpet"},
		{"-rf", "_rf.12.limpet"},     {"a b\n\033[31m", "a_b___31m.12.limpet"},
		{"", "_.12.limpet"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		struct limpet_recorder *recorder = NULL;

		assert_int_equal(open_recorder(NULL, list[i].comm, &recorder), 0);
		assert_string_equal(limpet_recorder_path(recorder), list[i].path);
		limpet_recorder_free(recorder);
	}
}

/* In a child: the limits and mounts are its own. Exit status 77: cannot be set up here. */
static int in_child(void (*body)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define CHECK_IN_CHILD(condition)                                               \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                               \
		}                                                               \
	} while (0)

static struct capture child_capture;

static void check_full(const char *path, int error, enum limpet_end end)
{
	struct limpet_recorder_stats stats;
	struct outcome outcome;
	int code;

	capture_begin(&child_capture, path, MEMORY_BYTES, 9);
	code = capture_run(&child_capture, 1000000, 5000);
	CHECK_IN_CHILD(code == error);
	/* it sticks, and the books go on */
	limpet_recorder_stats_read(child_capture.recorder, &stats);
	CHECK_IN_CHILD(stats.live_bytes == child_capture.live_bytes);
	CHECK_IN_CHILD(capture_run(&child_capture, 10, 0) == error);
	CHECK_IN_CHILD(capture_tick(&child_capture) == error);
	CHECK_IN_CHILD(capture_finish(&child_capture, LIMPET_END_DURATION, true) == error);
	outcome = try_trace(path);
	CHECK_IN_CHILD(outcome.code == 0);
	CHECK_IN_CHILD(outcome.end == end);
	CHECK_IN_CHILD(!outcome.complete);
	CHECK_IN_CHILD(outcome.events >= 5000);
	CHECK_IN_CHILD(outcome.events <= child_capture.totals[LIMPET_TOTAL_EVENTS]);
}

static void fill_disk(void)
{
	if (unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", folder, "tmpfs", 0, "size=512k") < 0)
		_exit(77);
	check_full(path_of("full"), -ENOSPC, LIMPET_END_DISK_FULL);
}

static void test_a_full_disk(void **state)
{
	int status = in_child(fill_disk);

	(void)state;
	if (status == 77) {
		print_message("# skip reason: no file system can be mounted here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void exceed_limit(void)
{
	struct rlimit limit = {.rlim_cur = 300000, .rlim_max = 300000};

	/* whose default action would end us */
	signal(SIGXFSZ, SIG_DFL);
	CHECK_IN_CHILD(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	check_full(path_of("limited"), -EFBIG, LIMPET_END_SIZE_LIMIT);
}

static void test_a_file_size_limit(void **state)
{
	(void)state;
	assert_int_equal(in_child(exceed_limit), 0);
}

static void test_bounded_memory(void **state)
{
	static struct capture capture;
	struct limpet_recorder_stats stats;
	struct outcome outcome;

	(void)state;
	/* room for some hundred of the three thousand blocks */
	capture_begin(&capture, path_of("small"), 20000, 10);
	assert_int_equal(capture_run(&capture, 20000, 1000), 0);
	limpet_recorder_stats_read(capture.recorder, &stats);
	assert_true(stats.unmatched_table_full > 0);
	assert_int_equal(stats.allocations, capture.totals[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	outcome = try_trace(path_of("small"));
	assert_true(outcome.complete && outcome.exact);
	assert_int_equal(outcome.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(outcome.totals.allocations, capture.totals[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(outcome.totals.untracked_allocations, stats.unmatched_table_full);
	assert_int_equal(outcome.live_bytes, stats.live_bytes);
	assert_int_equal(outcome.totals.frees + outcome.totals.foreign_frees,
			 capture.totals[LIMPET_TOTAL_FREES] +
				 capture.totals[LIMPET_TOTAL_FOREIGN_FREES]);
}

/* ------------------------------------------------------------------ what the recorder is told */

static void test_nodes_are_checked(void **state)
{
	struct limpet_recorder *recorder = NULL;
	struct limpet_record event = {
		.time_ns = 1, .address = 16, .size = 1, .node = 99, .thread = 1, .kind = 1};
	struct limpet_recorder_tick tick = {.time_ns = 2};
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .complete = true};
	struct outcome outcome;

	(void)state;
	assert_int_equal(open_recorder(path_of("nodes"), "x", &recorder), 0);
	assert_int_equal(limpet_recorder_add_node(recorder, 0, 0, 1, 0, false), -EINVAL);
	assert_int_equal(limpet_recorder_add_node(recorder, 5, 4, 1, 0, false), -EINVAL);
	assert_int_equal(limpet_recorder_add_node(recorder, 5, 0, 1, 1, false), -EINVAL);
	assert_int_equal(limpet_recorder_add_node(recorder, 5, 0, 1, 0, false), 0);
	assert_int_equal(limpet_recorder_add_node(recorder, 5, 0, 1, 0, false), -EEXIST);
	assert_int_equal(limpet_recorder_add_node(recorder, UINT32_MAX, 5, 1, 0, false), -EINVAL);
	/* a stack nobody described: counted as cut short */
	assert_int_equal(limpet_recorder_add_event(recorder, &event), 0);
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
	outcome = try_trace(path_of("nodes"));
	assert_int_equal(outcome.totals.truncated_stacks, 1);
	assert_int_equal(outcome.totals.allocations, 1);
	assert_true(outcome.complete);
}

static void test_what_no_program_can_do_is_dropped(void **state)
{
	struct limpet_recorder *recorder = NULL;
	struct limpet_record records[] = {
		{.time_ns = 1, .address = 16, .size = 10, .thread = 1, .kind = 1},
		{.time_ns = 2, .address = 0, .size = 10, .thread = 1, .kind = 1},
		{.time_ns = 3, .address = 16, .size = 10, .thread = 1, .kind = 99},
		{.time_ns = 4, .address = 32, .size = 10, .thread = 1, .kind = 1},
	};
	struct limpet_recorder_tick tick = {.time_ns = 5, .dropped_events = 7};
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .complete = true};
	struct outcome outcome;

	(void)state;
	assert_int_equal(open_recorder(path_of("nonsense"), "x", &recorder), 0);
	assert_int_equal(limpet_recorder_add_events(recorder, records, LIMPET_COUNT_OF(records)),
			 0);
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
	outcome = try_trace(path_of("nonsense"));
	assert_int_equal(outcome.totals.dropped_events, 9);
	assert_int_equal(outcome.totals.allocations, 2);
	assert_int_equal(outcome.live_bytes, 20);
	assert_false(outcome.complete);
}

static void check_against_second_reader(const char *path);

/* One call may add more rows than a block usually has. */
static void test_one_munmap_takes_very_many(void **state)
{
	const uint64_t count = 2 * LIMPET_TRACE_ROWS_PER_BLOCK, page = 4096;
	struct limpet_recorder *recorder = NULL;
	struct limpet_record record = {.thread = 1, .kind = LIMPET_EVENT_MMAP, .size = page};
	struct limpet_recorder_tick tick = {0};
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .complete = true};
	struct outcome outcome;
	struct limpet_recorder_options options = {.path = path_of("many"),
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = 256u << 20,
						  .comm = "x",
						  .unseen_rss_share = -1};
	struct limpet_err err = {0};

	(void)state;
	assert_int_equal(limpet_recorder_open(&options, &recorder, &err), 0);
	for (uint64_t i = 1; i <= count; i++) {
		record.address = i * 2 * page;
		record.time_ns += 1000;
		assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	}
	record.kind = LIMPET_EVENT_MUNMAP;
	record.address = page;
	record.size = 3 * count * page;
	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	tick.time_ns = record.time_ns;
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
	outcome = try_trace(path_of("many"));
	assert_true(outcome.complete && outcome.exact);
	assert_int_equal(outcome.totals.mmaps, count);
	assert_int_equal(outcome.totals.mapped_bytes, 0);
	assert_int_equal(outcome.totals.unmapped_bytes, count * page);
	assert_int_equal(outcome.totals.foreign_unmapped_bytes, 2 * count * page);
	assert_int_equal(outcome.totals.events, count + 1);
	check_against_second_reader(path_of("many"));
}

static void test_batches_are_events(void **state)
{
	struct limpet_recorder *recorder = NULL;
	struct limpet_recorder_stats stats;
	struct limpet_record records[40];

	(void)state;
	for (unsigned i = 0; i < LIMPET_COUNT_OF(records); i++)
		records[i] = (struct limpet_record){
			.time_ns = i, .address = 16 + i * 16, .size = 10, .thread = 1, .kind = 1};
	assert_int_equal(open_recorder(path_of("batch"), "x", &recorder), 0);
	assert_int_equal(limpet_recorder_add_events(recorder, records, LIMPET_COUNT_OF(records)),
			 0);
	limpet_recorder_stats_read(recorder, &stats);
	assert_int_equal(stats.events, LIMPET_COUNT_OF(records));
	assert_int_equal(stats.live_bytes, 400);
	limpet_recorder_free(recorder);
}

/* ------------------------------------------------------------------ symbols */

static void seal_some(const char *path, const char *function, bool complete)
{
	static const uint8_t id[4] = {9, 8, 7, 6};
	struct limpet_model_frame frames[2] = {
		{.function = function, .file = "a.c", .line = 12, .inlined = true},
		{.function = "outer", .file = NULL, .line = 0},
	};
	struct limpet_trace_append *append = NULL;
	struct limpet_err err = {0};

	if (limpet_trace_append_open(path, &append, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_trace_append_file(append, 1, "/usr/bin/made-up", id, 4), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 1, 0x401000, frames, 2), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 1, 0x402000, frames + 1, 1), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 2, 0x7f0000001000ull, NULL, 0), 0);
	assert_int_equal(limpet_trace_append_finish(append, complete), 0);
	limpet_trace_append_free(append);
}

static void check_symbols(const char *path, const char *function, bool complete)
{
	struct limpet_trace_reader *reader = open_trace(path);
	struct limpet_model *model = build_model(reader, 0, 0);
	const struct limpet_model_address *addresses;
	const struct limpet_model_frame *frames = NULL;

	assert_true(model->sealed);
	assert_int_equal(model->symbols_complete, complete);
	assert_int_equal(limpet_model_symbols(model, 1, 0x401000, &frames), 2);
	assert_string_equal(frames[0].function, function);
	assert_string_equal(frames[0].file, "a.c");
	assert_int_equal(frames[0].line, 12);
	assert_true(frames[0].inlined);
	assert_string_equal(frames[1].function, "outer");
	assert_null(frames[1].file);
	assert_false(frames[1].inlined);
	assert_int_equal(limpet_model_symbols(model, 2, 0x7f0000001000ull, &frames), 0);
	assert_int_equal(limpet_model_symbols(model, 2, 0x402000, &frames), 0);
	assert_int_equal(limpet_model_addresses(model, &addresses), 2 + CAPTURE_SITES);
	assert_int_equal(addresses[0].module, 1);
	assert_int_equal(addresses[1].address, 0x402000);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_symbols_are_appended(void **state)
{
	static struct capture capture;
	struct outcome before, after;

	(void)state;
	make_trace(&capture, path_of("seal"), 500, 100, 11);
	before = try_trace(path_of("seal"));
	seal_some(path_of("seal"), "first", false);
	check_symbols(path_of("seal"), "first", false);
	seal_some(path_of("seal"), "second", true);
	check_symbols(path_of("seal"), "second", true);
	after = try_trace(path_of("seal"));
	assert_true(after.complete && after.whole);
	assert_memory_equal(&before.totals, &after.totals, sizeof(before.totals));
}

static void test_a_torn_trace_can_be_sealed(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;

	(void)state;
	make_trace(&capture, path_of("torn"), 2000, 200, 12);
	bytes = read_whole(path_of("torn"), &count);
	for (size_t cut = count - 400; cut < count - 300; cut += 7) {
		struct outcome before, after;

		write_whole(path_of("torn"), bytes, cut);
		before = try_trace(path_of("torn"));
		seal_some(path_of("torn"), "first", true);
		check_symbols(path_of("torn"), "first", true);
		after = try_trace(path_of("torn"));
		assert_int_equal(after.end, LIMPET_END_COLLECTOR_LOST);
		assert_false(after.complete);
		assert_int_equal(before.events, after.events);
	}
	free(bytes);
}

/* ------------------------------------------------------------------ not every event kept */

static void check_all(const struct capture *capture, const char *path)
{
	struct limpet_trace_reader *reader = open_trace(path);
	struct limpet_model *model = build_model(reader, 0, 0);
	const struct limpet_trace_damage *damage = limpet_trace_reader_damage(reader);

	check_totals(capture, model);
	check_sites(capture, model);
	check_sizes(capture, model);
	check_live(capture, reader);
	assert_true(model->complete && model->exact);
	assert_int_equal(damage->blocks_damaged + damage->blocks_lost + damage->bytes_ignored, 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static size_t count_blocks(const char *path, enum limpet_trace_block_type type)
{
	struct limpet_trace_reader *reader = open_trace(path);
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks), of_type = 0;

	for (size_t i = 0; i < count; i++)
		of_type += blocks[i].type == type && !blocks[i].damaged;
	limpet_trace_reader_free(reader);
	return of_type;
}

/* Of a window's limits, the periods that these are in are told whole. */
static void check_widened(const char *path)
{
	struct limpet_trace_reader *reader = open_trace(path);
	struct limpet_model *model = build_model(reader, 70 * SECOND, 100 * SECOND);
	uint64_t events = model->totals.events;

	assert_true(model->widened && model->windowed && model->exact);
	assert_in_range(model->from_ns, 55 * SECOND, 65 * SECOND);
	assert_in_range(model->to_ns, 115 * SECOND, 125 * SECOND);
	limpet_model_free(model);
	model = build_model(reader, 90 * SECOND, 91 * SECOND);
	assert_int_equal(model->totals.events, events);
	limpet_model_free(model);
	model = build_model(reader, 0, 3600 * SECOND);
	assert_true(!model->widened && !model->windowed);
	assert_int_equal(model->to_ns, model->duration_ns);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_compact(void **state)
{
	static struct capture capture;
	const char *path = path_of("compact");
	uint8_t *before, *after;
	size_t before_bytes, after_bytes, span_end = 0, count;
	const struct limpet_trace_block *blocks;
	struct limpet_trace_reader *reader;
	struct outcome killed, torn;

	(void)state;
	capture_begin_kept(&capture, path, 31, true, 0);
	capture.slower = 50; /* nearly four minutes */
	assert_int_equal(capture_run(&capture, 300000, 2000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	/* as a collector that is killed leaves it */
	killed = try_trace(path);
	assert_int_equal(killed.code, 0);
	assert_int_equal(killed.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(killed.live_bytes, capture.live_bytes);
	assert_true(count_blocks(path, LIMPET_TRACE_PERIOD) > 4);
	path = path_of("compact");
	before = read_whole(path, &before_bytes);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	check_all(&capture, path);
	assert_int_equal(count_blocks(path, LIMPET_TRACE_EVENTS), 0);
	assert_int_equal(count_blocks(path, LIMPET_TRACE_PERIOD), 4);
	after = read_whole(path, &after_bytes);
	assert_true(after_bytes < 150000);
	check_widened(path);
	/* as one leaves it that is killed while it puts one period in the place of many */
	reader = open_trace(path);
	count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t i = 0; i < count; i++)
		if (blocks[i].type == LIMPET_TRACE_PERIOD)
			span_end =
				blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;
	limpet_trace_reader_free(reader);
	assert_true(span_end < before_bytes);
	memcpy(before, after, span_end);
	write_whole(path_of("torn"), before, before_bytes);
	torn = try_trace(path_of("torn"));
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
	struct outcome killed;
	struct stat stat;
	uint64_t from_ns, to_ns;

	(void)state;
	capture_begin_kept(&capture, path_of("bound"), 32, false, max_bytes);
	assert_int_equal(capture_run(&capture, events, 2000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	killed = try_trace(path_of("bound"));
	assert_int_equal(killed.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(killed.live_bytes, capture.live_bytes);
	assert_int_equal(killed.totals.peak_bytes, capture.peak_bytes);
	assert_true(killed.whole && killed.exact);
	assert_int_equal(lstat(path_of("bound"), &stat), 0);
	/* in whole pages, and each gap has two that are not whole; some room is kept for the end */
	assert_true((uint64_t)stat.st_blocks * 512 < max_bytes + 300000);
	assert_true((uint64_t)stat.st_size > 2 * max_bytes);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	check_all(&capture, path_of("bound"));
	assert_int_equal(lstat(path_of("bound"), &stat), 0);
	assert_true((uint64_t)stat.st_size <= max_bytes);
	assert_true((uint64_t)stat.st_size > max_bytes / 2);

	/* the newest part says all that a full recording says of it */
	reader = open_trace(path_of("bound"));
	model = build_model(reader, 0, 0);
	assert_true(model->given_up_ns > model->duration_ns / 2);
	assert_true(model->timeline_count > 100 && model->timeline[0].time_ns < model->given_up_ns);
	from_ns = model->given_up_ns + (model->duration_ns - model->given_up_ns) / 3;
	to_ns = model->given_up_ns + (model->duration_ns - model->given_up_ns) * 2 / 3;
	limpet_model_free(model);
	part = build_model(reader, from_ns, to_ns);
	make_trace(&capture, path_of("unbound"), events, 2000, 32);
	all = open_trace(path_of("unbound"));
	whole = build_model(all, from_ns, to_ns);
	assert_true(part->exact && whole->totals.events > 1000);
	assert_memory_equal(&part->totals, &whole->totals,
			    offsetof(struct limpet_model_totals, dropped_events));
	assert_int_equal(part->site_count, whole->site_count);
	assert_memory_equal(part->sites, whole->sites, part->site_count * sizeof(*part->sites));
	limpet_model_free(part);
	limpet_model_free(whole);
	limpet_trace_reader_free(all);
	/* of what was given up the limits are not known: only all of it is, with what follows */
	part = build_model(reader, 0, to_ns);
	assert_true(part->exact && part->totals.events > events / 2);
	limpet_model_free(part);
	refuse_window(reader, 1000000, to_ns);
	refuse_window(reader, 0, from_ns / 2);
	limpet_trace_reader_free(reader);
}

static void test_a_bound_that_is_too_low(void **state)
{
	static struct capture capture;
	struct outcome outcome;
	int code;

	(void)state;
	capture_begin_kept(&capture, path_of("low"), 33, false, 20000);
	code = capture_run(&capture, 300000, 2000);
	if (code == 0)
		code = capture_finish(&capture, LIMPET_END_STOP, true);
	else
		capture_finish(&capture, LIMPET_END_STOP, true);
	assert_int_equal(code, -EFBIG);
	outcome = try_trace(path_of("low"));
	assert_int_equal(outcome.code, 0);
	assert_int_equal(outcome.end, LIMPET_END_SIZE_LIMIT);
	assert_false(outcome.complete);
}

/* ------------------------------------------------------------------ a reader of another make */

/* What scripts/limpet-trace-read says of the file. It compares all sums with a replay of its own.
 */
static json_t *ask_second_reader(const char *path, int *ret_status)
{
	char command[2 * PATH_MAX];
	json_error_t error;
	json_t *answer;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "'%s' '%s'", second_reader, path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	answer = json_loadf(pipe, 0, &error);
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	*ret_status = WEXITSTATUS(status);
	return answer;
}

static uint64_t number_in(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("no number \"%s\"", key);
	return (uint64_t)json_integer_value(value);
}

static void check_against_second_reader(const char *path)
{
	struct limpet_trace_reader *reader = open_trace(path);
	struct limpet_model *model = build_model(reader, 0, 0);
	const struct limpet_model_totals *totals = &model->totals;
	json_t *answer, *theirs, *capture;
	int status;

	answer = ask_second_reader(path, &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_array_size(json_object_get(answer, "wrong")), 0);
	theirs = json_object_get(answer, "totals");
	assert_int_equal(number_in(theirs, "events"), totals->events);
	assert_int_equal(number_in(theirs, "allocations"), totals->allocations);
	assert_int_equal(number_in(theirs, "freed_bytes"), totals->freed_bytes);
	assert_int_equal(number_in(theirs, "temporary_allocations"), totals->temporary_allocations);
	assert_int_equal(number_in(theirs, "foreign_unmapped_bytes"),
			 totals->foreign_unmapped_bytes);
	assert_int_equal(number_in(theirs, "untracked_bytes"), totals->untracked_bytes);
	assert_int_equal(number_in(theirs, "live_bytes"), totals->live_bytes);
	assert_int_equal(number_in(theirs, "peak_bytes"), totals->peak_bytes);
	assert_int_equal(number_in(theirs, "peak_ns"), totals->peak_ns);
	capture = json_object_get(answer, "capture");
	assert_int_equal(json_is_true(json_object_get(capture, "complete")), model->complete);
	assert_string_equal(json_string_value(json_object_get(capture, "end")),
			    limpet_trace_end_word(model->end->end));
	theirs = json_object_get(answer, "sites");
	assert_int_equal(json_array_size(theirs), model->site_count);
	for (size_t i = 0; i < model->site_count; i++) {
		const json_t *site = json_array_get(theirs, i);

		assert_int_equal(number_in(site, "node"), model->sites[i].node);
		assert_int_equal(number_in(site, "allocations"), model->sites[i].allocations);
		assert_int_equal(number_in(site, "live_bytes"), model->sites[i].live_bytes);
		assert_int_equal(number_in(site, "peak_bytes"), model->sites[i].peak_bytes);
	}
	assert_int_equal(number_in(answer, "nodes") + 1, model->node_count);
	if (model->target->container[0]) {
		theirs = json_object_get(answer, "target");
		assert_string_equal(json_string_value(json_object_get(theirs, "container")),
				    model->target->container);
		assert_int_equal(number_in(theirs, "cgroup_limit_bytes"),
				 model->target->cgroup_limit_bytes);
	}
	theirs = json_object_get(answer, "timeline");
	assert_int_equal(json_array_size(theirs), model->timeline_count);
	for (size_t i = 0; i < model->timeline_count; i++) {
		const json_t *point = json_array_get(theirs, i);
		const json_t *group = json_object_get(point, "cgroup_bytes");

		assert_int_equal(number_in(point, "rss_bytes"), model->timeline[i].rss_bytes);
		assert_int_equal((uint64_t)json_integer_value(group),
				 model->timeline[i].cgroup_bytes);
	}
	json_decref(answer);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_a_second_reader_agrees(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;
	json_t *answer;
	int status;

	(void)state;
	make_trace(&capture, path_of("second"), 80000, 7000, 14);
	check_against_second_reader(path_of("second"));
	bytes = read_whole(path_of("second"), &count);
	write_whole(path_of("second"), bytes, count / 2);
	check_against_second_reader(path_of("second"));
	free(bytes);
	/* with a table too small for it all */
	capture_begin(&capture, path_of("second-small"), 20000, 15);
	assert_int_equal(capture_run(&capture, 20000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_TARGET_KILLED, true), 0);
	check_against_second_reader(path_of("second-small"));
	capture_begin_kept(&capture, path_of("second-compact"), 16, true, 0);
	capture.slower = 200;
	assert_int_equal(capture_run(&capture, 40000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	check_against_second_reader(path_of("second-compact"));
	capture_begin_kept(&capture, path_of("second-bound"), 17, false, 300000);
	assert_int_equal(capture_run(&capture, 200000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_true(count_blocks(path_of("second-bound"), LIMPET_TRACE_GAP) > 0);
	check_against_second_reader(path_of("second-bound"));
	/* it can say no */
	write_whole(path_of("second"), (const uint8_t *)"no trace", 8);
	answer = ask_second_reader(path_of("second"), &status);
	assert_null(answer);
	assert_int_equal(status, 2);
}

/* ------------------------------------------------------------------ what a fuzzer has found */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void test_fuzz_corpus(void **state)
{
	DIR *directory = opendir(corpus);
	const struct dirent *entry;
	unsigned replayed = 0;

	(void)state;
	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		char path[PATH_MAX + 256];
		uint8_t *data, *exact;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", corpus, entry->d_name);
		data = read_whole(path, &size);
		/* a block of its very size, so that a sanitizer sees a byte too far */
		exact = malloc(size ? size : 1);
		memcpy(exact, data, size);
		free(data);
		assert_int_equal(LLVMFuzzerTestOneInput(exact, size), 0);
		free(exact);
		replayed++;
	}
	closedir(directory);
	assert_true(replayed >= 4);
}

static void test_crc32(void **state)
{
	(void)state;
	/* the check value that catalogues of CRCs give */
	assert_int_equal(limpet_crc32(0, "123456789", 9), 0xCBF43926u);
	assert_int_equal(limpet_crc32(limpet_crc32(0, "1234", 4), "56789", 5), 0xCBF43926u);
}

/* ------------------------------------------------------------------ overloads */

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

static void end_period(struct limpet_recorder *recorder, uint64_t seconds)
{
	struct limpet_recorder_tick tick = {.time_ns = seconds * SECOND};

	assert_int_equal(limpet_recorder_tick(recorder, &tick), 0);
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
	struct limpet_recorder_options options = {.path = path,
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = MEMORY_BYTES,
						  .sampling = {.overload_bytes = 4096},
						  .comm = "x",
						  .unseen_rss_share = -1};
	const struct limpet_record alloc = {.kind = LIMPET_EVENT_ALLOC, .size = 100};
	const struct limpet_record overload = {.kind = LIMPET_EVENT_OVERLOAD, .address = 1};
	const struct limpet_record room = {.kind = LIMPET_EVENT_ROOM, .address = 1};
	struct limpet_record before = alloc, sample = alloc, after = alloc, gone = {0};
	struct limpet_recorder_tick tick = {.time_ns = 9 * SECOND};
	struct limpet_recorder_end end = {
		.end = LIMPET_END_STOP, .time_ns = 9 * SECOND, .complete = true};
	struct limpet_recorder *recorder = NULL;
	struct limpet_err err = {0};

	assert_int_equal(limpet_recorder_open(&options, &recorder, &err), 0);
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
	end_period(recorder, 3);
	gone.address = sample.address;
	put_some(recorder, gone, 3, 1);
	gone.address = 0x40000000;
	put_some(recorder, gone, 3, 77);
	put_some(recorder, room, 4, 1);
	put_some(recorder, after, 5, 300);
	put_some(recorder, gone, 5, 10);
	end_period(recorder, 6);
	put_some(recorder, overload, 7, 1);
	before.address = 0x50000000;
	before.sampled = 1;
	put_some(recorder, before, 8, 1);
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
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
	struct limpet_recorder_options options = {.path = path,
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = MEMORY_BYTES,
						  .comm = "x",
						  .unseen_rss_share = -1};
	const struct limpet_record alloc = {.kind = LIMPET_EVENT_ALLOC, .size = 100, .node = 1};
	const struct limpet_record gone = {.kind = LIMPET_EVENT_FREE};
	struct limpet_recorder_tick tick = {.time_ns = 3 * SECOND};
	struct limpet_recorder_end end = {
		.end = LIMPET_END_STOP, .time_ns = 3 * SECOND, .complete = true};
	struct limpet_recorder *recorder = NULL;
	struct limpet_err err = {0};
	uint64_t at = 0x10000000;

	assert_int_equal(limpet_recorder_open(&options, &recorder, &err), 0);
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
			end_period(recorder, second + 1);
	}
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
}

static void test_windows_of_late_events(void **state)
{
	const uint64_t limits[] = {0,    500,  985,  991,  995,  999,  1000, 1001,
				   1010, 1500, 1989, 1990, 1996, 2000, 2001, 3000};
	struct limpet_trace_reader *reader;

	(void)state;
	write_late(path_of("late"));
	reader = open_trace(path_of("late"));
	for (size_t i = 0; i < LIMPET_COUNT_OF(limits); i++)
		for (size_t n = i + 1; n < LIMPET_COUNT_OF(limits); n++)
			check_window(reader, limits[i] * LATE_MS, limits[n] * LATE_MS);
	limpet_trace_reader_free(reader);
}

/* The column `weight` of events of that kind, added up. */
static double add_weights(const char *path, const char *kind)
{
	const struct limpet_heap_options options = {0};
	char head[32], *text = NULL, *line, *rest;
	struct limpet_err err = {0};
	struct limpet_heap heap;
	double sum = 0;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	snprintf(head, sizeof(head), ",%s,", kind);
	assert_non_null(file);
	assert_int_equal(limpet_heap_open(path, &options, &heap, &err), 0);
	assert_int_equal(limpet_export(&heap, LIMPET_EXPORT_CSV, 0, file, &err), 0);
	assert_int_equal(fclose(file), 0);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, head))
			sum += strtod(strrchr(line, ',') + 1, NULL);
	limpet_heap_close(&heap);
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
	write_overloads(path_of("overloads"));
	reader = open_trace(path_of("overloads"));
	model = build_model(reader, 0, 0);
	assert_true(model->complete && model->exact);
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
	assert_true(fabs(add_weights(path_of("overloads"), "alloc") - 1300 - 6 * weight) < 1e-6);
	assert_true(fabs(add_weights(path_of("overloads"), "free") - 400 - weight) < 1e-6);
	limpet_model_free(model);

	/* A window without an overload: all calls in it are certain. */
	model = build_model(reader, 9 * SECOND / 2, 13 * SECOND / 2);
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
	answer = ask_second_reader(path_of("overloads"), &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_array_size(json_object_get(answer, "wrong")), 0);
	json_decref(answer);
}

/* Set up for overloads, and there was none: a trace like any other. */
static void test_no_overload(void **state)
{
	struct limpet_recorder_options options = {.path = path_of("no-overload"),
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = MEMORY_BYTES,
						  .sampling = {.overload_bytes = 4096},
						  .comm = "x",
						  .unseen_rss_share = -1};
	const struct limpet_record gone = {.kind = LIMPET_EVENT_FREE, .address = 0x1000};
	struct limpet_recorder_tick tick = {.time_ns = SECOND};
	struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .complete = true};
	struct limpet_recorder *recorder = NULL;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err = {0};

	(void)state;
	assert_int_equal(limpet_recorder_open(&options, &recorder, &err), 0);
	put_some(recorder, gone, 1, 3);
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
	reader = open_trace(path_of("no-overload"));
	model = build_model(reader, 0, 0);
	assert_int_equal(model->sample_bytes, 0);
	assert_int_equal(model->totals.foreign_frees, 3);
	assert_int_equal(model->overload_count, 0);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_events_say_what_periods_say),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_an_empty_window_is_an_error),
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_hostile_content),
		cmocka_unit_test(test_a_writer_is_seen),
		cmocka_unit_test(test_what_is_no_trace),
		cmocka_unit_test(test_the_file_is_new_and_private),
		cmocka_unit_test(test_default_names),
		cmocka_unit_test(test_a_full_disk),
		cmocka_unit_test(test_a_file_size_limit),
		cmocka_unit_test(test_bounded_memory),
		cmocka_unit_test(test_nodes_are_checked),
		cmocka_unit_test(test_what_no_program_can_do_is_dropped),
		cmocka_unit_test(test_one_munmap_takes_very_many),
		cmocka_unit_test(test_batches_are_events),
		cmocka_unit_test(test_compact),
		cmocka_unit_test(test_a_bound),
		cmocka_unit_test(test_a_bound_that_is_too_low),
		cmocka_unit_test(test_a_thread_changes_nothing),
		cmocka_unit_test(test_fuzz_corpus),
		cmocka_unit_test(test_symbols_are_appended),
		cmocka_unit_test(test_a_torn_trace_can_be_sealed),
		cmocka_unit_test(test_a_second_reader_agrees),
		cmocka_unit_test(test_windows_of_late_events),
		cmocka_unit_test(test_overloads),
		cmocka_unit_test(test_no_overload),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
