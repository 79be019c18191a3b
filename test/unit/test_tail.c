/* A trace that is followed while it is written says at any time what it says when it is read anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/model/tail.h"
#include "analyzer/trace/trace_reader.h"
#include "test/unit/trace_capture.h"

static char directory[] = "/tmp/limpet-test-tail-XXXXXX";

static int enter_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave_directory(void **state)
{
	char command[300];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static struct limpet_tail *open_tail(const char *path)
{
	struct limpet_tail *tail = NULL;
	struct limpet_err err = {0};

	if (limpet_tail_open(path, &tail, &err) < 0)
		fail_msg("%s", err.message);
	return tail;
}

static bool update(struct limpet_tail *tail)
{
	struct limpet_err err = {0};
	int result = limpet_tail_update(tail, &err);

	if (result < 0)
		fail_msg("%s", err.message);
	return result == 1;
}

static const struct limpet_model *figures(struct limpet_tail *tail, uint64_t window_ns)
{
	const struct limpet_model *model;

	limpet_tail_window(tail, window_ns);
	model = limpet_tail_model(tail);
	assert_non_null(model);
	return model;
}

/* What is known at all while a trace is written. */
static void same_sites(const struct limpet_model *tail, const struct limpet_model *read)
{
	size_t at = 0;

	for (size_t i = 0; i < read->site_count; i++) {
		const struct limpet_model_site *want = &read->sites[i], *got = NULL;

		for (at = 0; at < tail->site_count && !got; at++)
			if (tail->sites[at].node == want->node)
				got = &tail->sites[at];
		if (!got) {
			/* Nothing happened, and nothing is held: only the peak knew it. */
			assert_int_equal(want->allocations + want->frees + want->live_allocations,
					 0);
			continue;
		}
		assert_int_equal(got->allocations, want->allocations);
		assert_int_equal(got->allocated_bytes, want->allocated_bytes);
		assert_int_equal(got->frees, want->frees);
		assert_int_equal(got->freed_bytes, want->freed_bytes);
		assert_int_equal(got->temporary_allocations, want->temporary_allocations);
		assert_int_equal(got->reallocations, want->reallocations);
		assert_int_equal(got->live_allocations, want->live_allocations);
		assert_int_equal(got->live_bytes, want->live_bytes);
		assert_int_equal(got->growth_bytes, want->growth_bytes);
	}
}

static void same_totals(const struct limpet_model *tail, const struct limpet_model *read)
{
	const struct limpet_model_totals *got = &tail->totals, *want = &read->totals;

	assert_int_equal(got->events, want->events);
	assert_int_equal(got->allocations, want->allocations);
	assert_int_equal(got->allocated_bytes, want->allocated_bytes);
	assert_int_equal(got->frees, want->frees);
	assert_int_equal(got->freed_bytes, want->freed_bytes);
	assert_int_equal(got->temporary_allocations, want->temporary_allocations);
	assert_int_equal(got->reallocations, want->reallocations);
	assert_int_equal(got->foreign_frees, want->foreign_frees);
	assert_int_equal(got->live_allocations, want->live_allocations);
	assert_int_equal(got->live_bytes, want->live_bytes);
	assert_int_equal(got->growth_bytes, want->growth_bytes);
	assert_int_equal(got->mapped_bytes, want->mapped_bytes);
	assert_int_equal(got->dropped_events, want->dropped_events);
}

/* Both ways of reading the same file, now. */
static void same_as_read_anew(struct limpet_tail *tail, const char *path)
{
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(path, &reader, &err) < 0 ||
	    limpet_model_build(reader, NULL, &model, &err) < 0)
		fail_msg("%s", err.message);
	same_totals(figures(tail, 0), model);
	same_sites(figures(tail, 0), model);
	assert_int_equal(limpet_tail_model(tail)->node_count, model->node_count);
	assert_int_equal(limpet_tail_model(tail)->duration_ns, model->duration_ns);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

/* The last while, as a window of what is read anew. Windows begin with a period. */
static void same_window(struct limpet_tail *tail, const char *path, uint64_t window_ns)
{
	const struct limpet_model *now = figures(tail, window_ns);
	struct limpet_model_options options = {.from_ns = now->from_ns,
					       .to_ns = now->to_ns + 10000};
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_err err = {0};
	uint64_t length = now->to_ns - now->from_ns;

	assert_true(now->windowed);
	assert_in_range(length, 1, window_ns + 2000000000);
	if (limpet_trace_reader_open(path, &reader, &err) < 0 ||
	    limpet_model_build(reader, &options, &model, &err) < 0)
		fail_msg("%s", err.message);
	/* Ticks of 10 microseconds stand at the limits: an event at the very edge may be on either
	 * side; what is held does not depend on it. */
	assert_int_equal(now->totals.live_bytes, model->totals.live_bytes);
	assert_true(llabs((long long)now->totals.allocations -
			  (long long)model->totals.allocations) <= 2);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void follow(const char *path, bool compact, uint64_t max_bytes, unsigned rounds,
		   uint64_t slower)
{
	struct capture capture;
	struct limpet_tail *tail;

	if (compact || max_bytes)
		capture_begin_kept(&capture, path, 5, compact, max_bytes);
	else
		capture_begin(&capture, path, 8u << 20, 5);
	capture.slower = slower;
	assert_int_equal(capture_tick(&capture), 0);
	tail = open_tail(path);
	assert_false(limpet_tail_is_over(tail));
	for (unsigned i = 0; i < rounds; i++) {
		assert_int_equal(capture_run(&capture, 20000, 3000), 0);
		assert_int_equal(capture_tick(&capture), 0);
		/* Now and then it falls behind. */
		if (i % 7 >= 4)
			continue;
		assert_true(update(tail));
		assert_false(update(tail));
		same_as_read_anew(tail, path);
	}
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	update(tail);
	assert_true(limpet_tail_is_over(tail));
	assert_int_equal(limpet_tail_model(tail)->end->end, LIMPET_END_STOP);
	same_as_read_anew(tail, path);
	if (!compact && !max_bytes)
		same_window(tail, path, 3000000000);
	limpet_tail_free(tail);
}

static void test_follows_a_trace(void **state)
{
	(void)state;
	follow("plain.limpet", false, 0, 30, 0);
}

static void test_follows_a_compact_trace(void **state)
{
	struct stat stat_of;

	(void)state;
	/* Several minutes, each of which takes the place of its seconds. */
	follow("compact.limpet", true, 0, 40, 40);
	assert_int_equal(stat("compact.limpet", &stat_of), 0);
}

static void test_follows_a_bounded_trace(void **state)
{
	(void)state;
	follow("bounded.limpet", false, 600000, 40, 0);
}

/* In pieces: each update takes one period, as even one is more than the bound; the last has all. */
static void test_takes_pieces(void **state)
{
	struct capture capture;
	struct limpet_tail *tail;
	const struct limpet_model *model;
	uint64_t before = 0;
	unsigned pieces = 0;

	(void)state;
	capture_begin(&capture, "pieces.limpet", 8u << 20, 5);
	assert_int_equal(capture_run(&capture, 20000, 3000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	tail = open_tail("pieces.limpet");
	assert_false(limpet_tail_is_behind(tail));
	assert_int_equal(capture_run(&capture, 100000, 3000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	limpet_tail_bound(tail, 1);
	do {
		assert_true(update(tail));
		model = figures(tail, 0);
		assert_true(!before || model->totals.events > before);
		before = model->totals.events;
		pieces++;
	} while (limpet_tail_is_behind(tail));
	assert_in_range(pieces, 3, 100000 / 3000 + 3);
	assert_false(update(tail));
	same_as_read_anew(tail, "pieces.limpet");
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	limpet_tail_free(tail);
}

/* Opened in the middle, or when all is over: it is the same. */
static void test_begins_anywhere(void **state)
{
	struct capture capture;
	struct limpet_tail *tail;

	(void)state;
	capture_begin(&capture, "middle.limpet", 8u << 20, 9);
	assert_int_equal(capture_run(&capture, 100000, 3000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	tail = open_tail("middle.limpet");
	same_as_read_anew(tail, "middle.limpet");
	same_window(tail, "middle.limpet", 700000000);
	assert_int_equal(capture_run(&capture, 50000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_DURATION, true), 0);
	assert_true(update(tail));
	same_as_read_anew(tail, "middle.limpet");
	limpet_tail_free(tail);
	tail = open_tail("middle.limpet");
	assert_true(limpet_tail_is_over(tail));
	same_as_read_anew(tail, "middle.limpet");
	limpet_tail_free(tail);
}

/* Periods may take no time: what came late is in them. */
static void test_periods_without_time(void **state)
{
	struct capture capture;
	struct limpet_tail *tail;

	(void)state;
	capture_begin(&capture, "late.limpet", 8u << 20, 11);
	assert_int_equal(capture_run(&capture, 20000, 3000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	tail = open_tail("late.limpet");
	for (unsigned i = 0; i < 5; i++) {
		capture.time_ns -= 1000000;
		assert_int_equal(capture_run(&capture, 10, 0), 0);
		assert_int_equal(capture_tick(&capture), 0);
		assert_true(update(tail));
		same_as_read_anew(tail, "late.limpet");
	}
	limpet_tail_free(tail);
	tail = open_tail("late.limpet");
	same_as_read_anew(tail, "late.limpet");
	limpet_tail_free(tail);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
}

/* What threads did adds up to what was done. */
static void test_threads(void **state)
{
	struct limpet_replay_thread *list;
	struct capture capture;
	struct limpet_tail *tail;
	uint64_t length_ns, allocations = 0, frees = 0;
	const struct limpet_model *model;
	int64_t count;

	(void)state;
	capture_begin(&capture, "threads.limpet", 8u << 20, 3);
	assert_int_equal(capture_tick(&capture), 0);
	tail = open_tail("threads.limpet");
	assert_int_equal(capture_run(&capture, 60000, 3000), 0);
	assert_int_equal(capture_tick(&capture), 0);
	assert_true(update(tail));
	model = figures(tail, LIMPET_TAIL_WINDOW_MAX_NS);
	count = limpet_tail_threads(tail, &list, &length_ns);
	assert_int_equal(count, CAPTURE_THREADS);
	for (int64_t i = 0; i < count; i++) {
		assert_in_range(list[i].tid, 100, 100 + CAPTURE_THREADS - 1);
		allocations += list[i].figures.allocations;
		frees += list[i].own_frees;
		if (i)
			assert_true(list[i - 1].figures.allocated_bytes >=
				    list[i].figures.allocated_bytes);
	}
	assert_int_equal(allocations, model->totals.allocations);
	assert_int_equal(frees, model->totals.frees);
	assert_int_equal(length_ns, model->to_ns - model->from_ns);
	free(list);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	limpet_tail_free(tail);
}

/* Half a block at the end is left for the next time, and is no damage. */
static void test_waits_for_the_rest_of_a_block(void **state)
{
	struct capture capture;
	struct limpet_tail *tail;
	uint8_t *bytes;
	size_t count, part;
	struct stat stat_of;
	FILE *file;
	int copy;

	(void)state;
	capture_begin(&capture, "whole.limpet", 8u << 20, 4);
	assert_int_equal(capture_run(&capture, 30000, 3000), 0);
	assert_int_equal(capture_finish(&capture, LIMPET_END_STOP, true), 0);
	assert_int_equal(stat("whole.limpet", &stat_of), 0);
	count = (size_t)stat_of.st_size;
	bytes = malloc(count);
	file = fopen("whole.limpet", "re");
	assert_non_null(bytes);
	assert_non_null(file);
	assert_int_equal(fread(bytes, 1, count, file), count);
	fclose(file);
	copy = open("grows.limpet", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(copy >= 0);
	part = count / 3;
	assert_int_equal(write(copy, bytes, part), part);
	tail = open_tail("grows.limpet");
	for (size_t at = part; at < count; at += part) {
		part = count - at < 997 ? count - at : 997;
		assert_int_equal(write(copy, bytes + at, part), part);
		update(tail);
	}
	assert_int_equal(limpet_tail_model(tail)->damage->blocks_damaged, 0);
	assert_int_equal(limpet_tail_model(tail)->damage->bytes_ignored, 0);
	assert_true(limpet_tail_model(tail)->complete);
	same_as_read_anew(tail, "grows.limpet");
	limpet_tail_free(tail);
	close(copy);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows_a_trace),
		cmocka_unit_test(test_follows_a_compact_trace),
		cmocka_unit_test(test_follows_a_bounded_trace),
		cmocka_unit_test(test_begins_anywhere),
		cmocka_unit_test(test_takes_pieces),
		cmocka_unit_test(test_periods_without_time),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_waits_for_the_rest_of_a_block),
	};

	return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
