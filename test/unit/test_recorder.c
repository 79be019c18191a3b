/* The recorder: what it is told, what it drops, what it keeps when memory is short, and its thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/trace_sync.h"
#include "common/bytes.h"
#include "common/trace_block.h"
#include "common/wire.h"
#include "test/unit/skip_reason.h"
#include "test/unit/trace_fixture.h"

static void test_nodes_are_checked(void **state)
{
	static const struct {
		const char *name;
		uint32_t node, parent, module;
		int code;
	} nodes[] = {
		{"number 0", 0, 0, 0, -EINVAL},
		{"of a parent that is not there", 5, 4, 0, -EINVAL},
		{"in a module that is not there", 5, 0, 1, -EINVAL},
		{"good", 5, 0, 0, 0},
		{"there already", 5, 0, 0, -EEXIST},
		{"beyond all room", UINT32_MAX, 5, 0, -EINVAL},
	};
	const struct limpet_recorder_options options = trace_options("nodes");
	struct limpet_recorder *recorder = trace_record(&options);
	const struct limpet_record event = {
		.time_ns = 1, .address = 16, .size = 1, .node = 99, .thread = 1, .kind = 1};
	const struct limpet_recorder_tick tick = {.time_ns = 2};
	struct trace_outcome outcome;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(nodes); i++) {
		int code = limpet_recorder_add_node(recorder, nodes[i].node, nodes[i].parent, 1,
						    nodes[i].module, false);

		if (code != nodes[i].code)
			fail_msg("%s: %d", nodes[i].name, code);
	}
	/* a stack nobody described: counted as cut short */
	assert_int_equal(limpet_recorder_add_event(recorder, &event), 0);
	trace_finish(recorder, &tick);
	outcome = trace_try(trace_path("nodes"));
	assert_int_equal(outcome.totals.truncated_stacks, 1);
	assert_int_equal(outcome.totals.allocations, 1);
	assert_true(outcome.complete);
}

static void test_what_no_program_can_do_is_dropped(void **state)
{
	const struct limpet_recorder_options options = trace_options("nonsense");
	struct limpet_recorder *recorder = trace_record(&options);
	struct limpet_record records[] = {
		{.time_ns = 1, .address = 16, .size = 10, .thread = 1, .kind = 1},
		{.time_ns = 2, .address = 0, .size = 10, .thread = 1, .kind = 1},
		{.time_ns = 3, .address = 16, .size = 10, .thread = 1, .kind = 99},
		{.time_ns = 4, .address = 32, .size = 10, .thread = 1, .kind = 1},
	};
	const struct limpet_recorder_tick tick = {.time_ns = 5, .dropped_events = 7};
	struct trace_outcome outcome;

	(void)state;
	assert_int_equal(limpet_recorder_add_events(recorder, records, LIMPET_COUNT_OF(records)),
			 0);
	trace_finish(recorder, &tick);
	outcome = trace_try(trace_path("nonsense"));
	assert_int_equal(outcome.totals.dropped_events, 9);
	assert_int_equal(outcome.totals.allocations, 2);
	assert_int_equal(outcome.live_bytes, 20);
	assert_false(outcome.complete || outcome.exact);
	assert_int_equal(outcome.losses, LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED));
}

/* One call may add more rows than a block usually has. */
static void test_one_munmap_takes_very_many(void **state)
{
	const uint64_t count = 2 * LIMPET_TRACE_ROWS_PER_BLOCK, page = 4096;
	struct limpet_recorder_options options = trace_options("many");
	struct limpet_recorder *recorder;
	struct limpet_record record = {.thread = 1, .kind = LIMPET_EVENT_MMAP, .size = page};
	struct limpet_recorder_tick tick = {0};
	struct trace_outcome outcome;

	(void)state;
	options.memory_bytes = 256u << 20;
	recorder = trace_record(&options);
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
	trace_finish(recorder, &tick);
	outcome = trace_try(trace_path("many"));
	assert_true(outcome.complete && outcome.exact);
	assert_int_equal(outcome.totals.mmaps, count);
	assert_int_equal(outcome.totals.mapped_bytes, 0);
	assert_int_equal(outcome.totals.unmapped_bytes, count * page);
	assert_int_equal(outcome.totals.foreign_unmapped_bytes, 2 * count * page);
	assert_int_equal(outcome.totals.events, count + 1);
	second_reader_check(trace_path("many"));
}

/* Sizes of more than 16 bits, and of at most 12. */
static uint64_t wide_size(uint64_t i)
{
	return i * 7919 % 5000 * (i % 100 ? 1 : 1000000);
}
static uint64_t narrow_size(uint64_t i)
{
	return i % 3 ? i * 7919 % 4000 : 17; /* equal ones live at once */
}
static uint64_t recurring_size(uint64_t i)
{
	return i % 3 ? i * 7919 % 16001 : 17;
}
static uint64_t rare_size(uint64_t i)
{
	return i % 50 ? i : i % 7 + 1;
}

static uint64_t ticks_ns(uint64_t i)
{
	return i * 1000 / LIMPET_TRACE_TICK_NS * LIMPET_TRACE_TICK_NS;
}

static bool is_scattered(struct limpet_trace_reader *reader, size_t block)
{
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections, section;
	unsigned tag;

	assert_int_equal(limpet_trace_reader_load(reader, block, &buffer, &sections), 0);
	while ((tag = limpet_trace_next_section(&sections, &section)))
		if (tag == LIMPET_EVENTS_NODES)
			return true;
	return false;
}

static void check_scattered(const char *name, uint64_t count, uint64_t (*size_of)(uint64_t))
{
	const struct limpet_recorder_options options = trace_options(name);
	struct limpet_recorder *recorder = trace_record(&options);
	const uint64_t held = 700;
	struct limpet_recorder_tick tick = {0};
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	struct limpet_trace_events *events = NULL;
	struct limpet_trace_event row;
	uint64_t made = 0, gone = 0;
	size_t block_count;

	for (uint64_t i = 0; i < count; i++) {
		struct limpet_record record = {.time_ns = i * 1000, .thread = 1};

		record.address = 16 * (1 + i % held);
		record.kind = LIMPET_EVENT_FREE;
		if (i >= held)
			assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
		record.kind = LIMPET_EVENT_ALLOC;
		record.size = size_of(i);
		assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	}
	tick.time_ns = count * 1000;
	trace_finish(recorder, &tick);
	reader = trace_open(trace_path(name));
	block_count = limpet_trace_reader_blocks(reader, &blocks);
	for (size_t block = 0; block < block_count; block++) {
		if (blocks[block].type != LIMPET_TRACE_EVENTS)
			continue;
		assert_true(is_scattered(reader, block));
		assert_int_equal(limpet_trace_events_open(reader, block, &events), 0);
		while (limpet_trace_events_next(events, &row) == 1) {
			const bool is_made = row.kind == LIMPET_ROW_ALLOC;
			uint64_t i = is_made ? made++ : gone++;

			assert_int_equal(row.size, size_of(i));
			/* Of blocks of this trace's block and of earlier ones, and of equal ones.
			 */
			if (!is_made)
				assert_int_equal(row.age_ns, ticks_ns(i + held) - ticks_ns(i));
		}
		limpet_trace_events_free(events);
	}
	assert_int_equal(made, count);
	assert_int_equal(gone, count - held);
	limpet_trace_reader_free(reader);
	second_reader_check(trace_path(name));
}

/* So many different pairs that an EVENTS block names them from the newest back: every row comes
 * back as it was, frees of blocks of earlier rows included. */
static void test_scattered_pairs(void **state)
{
	(void)state;
	check_scattered("wide", 20000, wide_size);
	check_scattered("narrow", 20000, narrow_size);
	/* More than one block: the first one is not known to have equal pairs, the others are. */
	check_scattered("recurring", 200000, recurring_size);
	check_scattered("rare", 200000, rare_size);
}

/* A block that was freed at once is one record here, and two rows in the file; with addresses, too.
 */
static void test_blocks_freed_at_once(void **state)
{
	struct limpet_recorder_options options = trace_options("at-once");
	struct limpet_recorder *recorder;
	const uint64_t count = 5000;
	struct limpet_recorder_tick tick = {.time_ns = count * 1000};
	struct limpet_trace_reader *reader;
	const struct limpet_trace_block *blocks;
	struct limpet_trace_events *events = NULL;
	struct limpet_trace_event row;
	struct limpet_recorder_stats stats;
	size_t block = 0;
	uint64_t i = 0;

	(void)state;
	options.addresses = true;
	recorder = trace_record(&options);
	for (; i < count; i++) {
		struct limpet_record record = {.time_ns = i * 1000,
					       .thread = 1 + (uint32_t)(i % 3 == 0),
					       .kind = LIMPET_EVENT_ALLOC,
					       .address = 16 + i * 16,
					       .size = i * (i % 10 ? 1 : 100000),
					       .freed = i % 4 != 0};

		assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	}
	limpet_recorder_stats_read(recorder, &stats);
	assert_int_equal(stats.events, count + count / 4 * 3);
	assert_int_equal(stats.live_allocations, count / 4);
	trace_finish(recorder, &tick);
	reader = trace_open(trace_path("at-once"));
	limpet_trace_reader_blocks(reader, &blocks);
	while (blocks[block].type != LIMPET_TRACE_EVENTS)
		block++;
	assert_int_equal(limpet_trace_events_open(reader, block, &events), 0);
	for (i = 0; i < count; i++) {
		for (unsigned free = 0; free <= (i % 4 != 0); free++) {
			assert_int_equal(limpet_trace_events_next(events, &row), 1);
			assert_int_equal(row.kind, free ? LIMPET_ROW_FREE : LIMPET_ROW_ALLOC);
			assert_int_equal(row.temporary, free);
			assert_int_equal(row.address, 16 + i * 16);
			assert_int_equal(row.size, i * (i % 10 ? 1 : 100000));
			assert_int_equal(row.time_ns,
					 i * 1000 / LIMPET_TRACE_TICK_NS * LIMPET_TRACE_TICK_NS);
			assert_int_equal(row.tid, 1 + (i % 3 == 0));
		}
	}
	assert_int_equal(limpet_trace_events_next(events, &row), 0);
	limpet_trace_events_free(events);
	limpet_trace_reader_free(reader);
	second_reader_check(trace_path("at-once"));
}

static void test_batches_are_events(void **state)
{
	const struct limpet_recorder_options options = trace_options("batch");
	struct limpet_recorder *recorder = trace_record(&options);
	struct limpet_recorder_stats stats;
	struct limpet_record records[40];

	(void)state;
	for (unsigned i = 0; i < LIMPET_COUNT_OF(records); i++)
		records[i] = (struct limpet_record){
			.time_ns = i, .address = 16 + i * 16, .size = 10, .thread = 1, .kind = 1};
	assert_int_equal(limpet_recorder_add_events(recorder, records, LIMPET_COUNT_OF(records)),
			 0);
	limpet_recorder_stats_read(recorder, &stats);
	assert_int_equal(stats.events, LIMPET_COUNT_OF(records));
	assert_int_equal(stats.live_bytes, 400);
	limpet_recorder_free(recorder);
}

static void test_bounded_memory(void **state)
{
	static struct capture capture;
	struct limpet_recorder_stats stats;
	struct trace_outcome outcome;

	(void)state;
	/* room for some hundred of the three thousand blocks */
	capture_begin(&capture, trace_path("small"), 20000, 10);
	assert_int_equal(capture_run(&capture, 20000, 1000), 0);
	limpet_recorder_stats_read(capture.recorder, &stats);
	assert_true(stats.unmatched_table_full > 0);
	assert_int_equal(stats.allocations, capture.totals[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	outcome = trace_try(trace_path("small"));
	assert_false(outcome.complete || outcome.exact);
	assert_true(outcome.losses & LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED));
	assert_int_equal(outcome.events, capture.totals[LIMPET_TOTAL_EVENTS]);
	assert_int_equal(outcome.totals.allocations, capture.totals[LIMPET_TOTAL_ALLOCATIONS]);
	assert_int_equal(outcome.totals.untracked_allocations, stats.unmatched_table_full);
	assert_int_equal(outcome.live_bytes, stats.live_bytes);
	assert_int_equal(outcome.totals.frees + outcome.totals.foreign_frees,
			 capture.totals[LIMPET_TOTAL_FREES] +
				 capture.totals[LIMPET_TOTAL_FOREIGN_FREES]);
}

/* ------------------------------------------------------------------ no memory */

/* The request for memory that fails, counted from 1; 0: none. */
static unsigned failing;

static bool has_failed(void)
{
	return failing && --failing == 0;
}

bool __real_limpet_bytes_grow(struct limpet_bytes *bytes, size_t count);
bool __wrap_limpet_bytes_grow(struct limpet_bytes *bytes, size_t count);
bool __wrap_limpet_bytes_grow(struct limpet_bytes *bytes, size_t count)
{
	if (!has_failed())
		return __real_limpet_bytes_grow(bytes, count);
	bytes->failed = true;
	return false;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return has_failed() ? NULL : __real_calloc(count, bytes);
}

void *__real_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes)
{
	return has_failed() ? NULL : __real_realloc(block, bytes);
}

/* A capture in which one request for memory fails. Returns whether limpet says that something is
 * missing; *ret_failed: whether there were so many requests. */
static bool capture_short_of_memory(const struct limpet_recorder_options *options, unsigned which,
				    bool *ret_failed)
{
	struct limpet_recorder *recorder = trace_record(options);
	const struct limpet_recorder_tick tick = {.time_ns = 1000000};
	const struct limpet_recorder_end end = {.end = LIMPET_END_STOP, .time_ns = 1000000};
	bool told;

	failing = which;
	for (uint64_t i = 0; i < 60; i++)
		(void)limpet_recorder_add_event(
			recorder, &(struct limpet_record){.time_ns = i * 1000,
							  .thread = 1 + (uint32_t)(i / 20),
							  .kind = i % 3 == 2 ? LIMPET_EVENT_FREE
									     : LIMPET_EVENT_ALLOC,
							  .address = 16 + (i - i % 3 / 2) * 16,
							  .size = i * 100});
	told = limpet_recorder_finish(recorder, &tick, &end) < 0;
	*ret_failed = which && !failing;
	failing = 0;
	told |= limpet_recorder_losses(recorder) != 0;
	limpet_recorder_free(recorder);
	return told;
}

/* Each request for memory fails once: the trace is the same to the byte, or limpet says so. */
static void test_no_memory_is_told(void **state)
{
	struct limpet_recorder_options options = trace_options("short");
	uint8_t *whole, *bytes;
	size_t whole_count, count;
	unsigned which = 0, told = 0;
	bool failed;

	(void)state;
	options.addresses = true;
	assert_false(capture_short_of_memory(&options, 0, &failed));
	whole = trace_read_bytes(trace_path("short"), &whole_count);
	do {
		bool is_told;

		assert_int_equal(unlink(trace_path("short")), 0);
		is_told = capture_short_of_memory(&options, ++which, &failed);
		told += is_told;
		bytes = trace_read_bytes(trace_path("short"), &count);
		if (!is_told && (count != whole_count || memcmp(bytes, whole, count)))
			fail_msg("request %u failed, and nobody says so", which);
		free(bytes);
	} while (failed);
	assert_true(which > 20 && told > which / 2);
	free(whole);
}

/* ------------------------------------------------------------------ the compressor */

struct compressor {
	uint64_t blocked; /* signals */
	int policy;
};

/* Threads of ours that compress blocks; the last one's properties are in `ret`. One that has not
 * begun yet has no name, and one that was joined stays listed until it is gone. */
static unsigned count_compressors(struct compressor *ret)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned count = 0;

	assert_non_null(tasks);
	*ret = (struct compressor){0};
	while ((entry = readdir(tasks))) {
		char path[300], line[256];
		bool ours = false;
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			ours |= !strcmp(line, "Name:\tlimpet-compress\n");
			if (ours && !strncmp(line, "SigBlk:\t", 8))
				ret->blocked = strtoull(line + 8, NULL, 16);
		}
		if (ours)
			ret->policy = sched_getscheduler((pid_t)strtoul(entry->d_name, NULL, 10));
		if (file)
			fclose(file);
		count += ours;
	}
	closedir(tasks);
	return count;
}

static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	assert_non_null(tasks);
	while ((entry = readdir(tasks)))
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

/* Returns its properties, if there is to be one. */
static struct compressor await_compressors(unsigned wanted)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct compressor compressor;

	while (count_compressors(&compressor) != wanted)
		nanosleep(&moment, NULL);
	return compressor;
}

struct limpet_trace_sync *__real_limpet_trace_sync_new(int fd, uint64_t interval_ns);
struct limpet_trace_sync *__wrap_limpet_trace_sync_new(int fd, uint64_t interval_ns);
/* The other thread comes when it is time to: here it never is. */
struct limpet_trace_sync *__wrap_limpet_trace_sync_new(int fd, uint64_t interval_ns)
{
	(void)interval_ns;
	return __real_limpet_trace_sync_new(fd, UINT64_MAX);
}

static void make_two_threads(const char *path, bool expect_thread)
{
	static const struct sched_param none;
	static struct capture capture;
	struct compressor compressor;
	int before;

	await_compressors(0);
	before = count_threads();
	capture_begin(&capture, path, TRACE_MEMORY_BYTES, 77);
	assert_int_equal(capture_run(&capture, 2000, 0), 0);
	assert_int_equal(capture_tick(&capture), 0);
	/* Nothing to do that would want one. */
	assert_int_equal(count_threads(), before);
	/* As the collector has it until the load shows. */
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
	assert_int_equal(capture_run(&capture, 300000, 40000), 0);
	/* Without ticks, which wait: one block is filled while the other is compressed. */
	assert_int_equal(capture_run(&capture, 300000, 0), 0);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	assert_int_equal(count_threads(), before + expect_thread);
	compressor = await_compressors(expect_thread);
	if (expect_thread)
		assert_true(compressor.blocked >> (SIGINT - 1) & 1 &&
			    compressor.blocked >> (SIGTERM - 1) & 1 &&
			    compressor.blocked >> (SIGCHLD - 1) & 1);
	if (expect_thread)
		assert_int_equal(compressor.policy, SCHED_OTHER);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	await_compressors(0);
	assert_int_equal(count_threads(), before);
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
	make_two_threads(trace_path("alone"), false);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		limpet_skip("one processor");
	make_two_threads(trace_path("beside"), true);
	alone = trace_read_bytes(trace_path("alone"), &alone_count);
	beside = trace_read_bytes(trace_path("beside"), &beside_count);
	assert_int_equal(alone_count, beside_count);
	assert_memory_equal(alone, beside, alone_count);
	free(alone);
	free(beside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes_are_checked),
		cmocka_unit_test(test_what_no_program_can_do_is_dropped),
		cmocka_unit_test(test_one_munmap_takes_very_many),
		cmocka_unit_test(test_scattered_pairs),
		cmocka_unit_test(test_blocks_freed_at_once),
		cmocka_unit_test(test_batches_are_events),
		cmocka_unit_test(test_bounded_memory),
		cmocka_unit_test(test_no_memory_is_told),
		cmocka_unit_test(test_a_thread_changes_nothing),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
