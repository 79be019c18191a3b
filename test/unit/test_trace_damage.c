/* A large trace, cut and damaged at random places. What is left is read, and nothing of it is
 * wrong.
 *
 * DAMAGES says how many places (300), DAMAGE_SEED with what seed ("time": another one each time,
 * which is printed). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "common/trace_block.h"
#include "test/unit/trace_capture.h"

#define EVENTS 400000u
#define MEMORY_BYTES (8u << 20)

static char path[] = "/tmp/limpet-test-damage-XXXXXX";
static struct capture capture;
static uint64_t whole_bytes;
static uint64_t random_state;
static unsigned damages = 300;

/* What is known once a block is there: a row a block. */
static struct state {
	uint64_t end; /* of the block in the file */
	uint16_t type;
	uint64_t events, live_bytes; /* by the blocks up to here */
} * states;
static size_t state_count;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull % limit;
}

static struct limpet_trace_reader *open_trace(void)
{
	struct limpet_trace_reader *reader = NULL;
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(path, &reader, &err) < 0)
		fail_msg("%s", err.message);
	return reader;
}

static struct limpet_model *build_model(struct limpet_trace_reader *reader)
{
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};

	if (limpet_model_build(reader, NULL, &model, &err) < 0)
		fail_msg("%s", err.message);
	return model;
}

/* Row by row, by plain means. */
static void replay(struct limpet_trace_reader *reader, size_t block, struct state *state)
{
	struct limpet_trace_events *events;
	struct limpet_trace_event event;

	assert_int_equal(limpet_trace_events_open(reader, block, &events), 0);
	while (limpet_trace_events_next(events, &event) == 1) {
		state->events += event.counted;
		if (event.kind == LIMPET_ROW_ALLOC)
			state->live_bytes += event.size;
		else if (event.kind == LIMPET_ROW_FREE || event.kind == LIMPET_ROW_INFERRED_FREE)
			state->live_bytes -= event.size;
	}
	limpet_trace_events_free(events);
}

static int make_trace(void **unused)
{
	const char *count = getenv("DAMAGES"), *seed = getenv("DAMAGE_SEED");
	const struct limpet_trace_block *blocks;
	struct limpet_trace_reader *reader;
	struct state now = {0};
	int fd = mkstemp(path);

	(void)unused;
	if (fd < 0 || close(fd) < 0 || unlink(path) < 0)
		return -1;
	if (count)
		damages = (unsigned)strtoul(count, NULL, 10);
	random_state = 88172645463325252ull;
	if (seed && !strcmp(seed, "time"))
		random_state = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15ull;
	else if (seed)
		random_state = strtoull(seed, NULL, 0);
	random_state += !random_state;
	printf("# seed %#lx\n", (unsigned long)random_state);
	capture_begin(&capture, path, MEMORY_BYTES, 21);
	if (capture_run(&capture, EVENTS, 9000) < 0 ||
	    capture_finish(&capture, LIMPET_END_STOP, true) < 0)
		return -1;
	reader = open_trace();
	whole_bytes = limpet_trace_reader_file_bytes(reader);
	state_count = limpet_trace_reader_blocks(reader, &blocks);
	states = calloc(state_count, sizeof(*states));
	if (!states)
		return -1;
	for (size_t i = 0; i < state_count; i++) {
		if (blocks[i].type == LIMPET_TRACE_EVENTS)
			replay(reader, i, &now);
		now.type = blocks[i].type;
		now.end = blocks[i].offset + LIMPET_TRACE_MARK_BYTES + blocks[i].frame_bytes;
		states[i] = now;
	}
	limpet_trace_reader_free(reader);
	return now.events == capture.totals[LIMPET_TOTAL_EVENTS] &&
			       now.live_bytes == capture.live_bytes && now.end == whole_bytes
		       ? 0
		       : -1;
}

static int remove_trace(void **unused)
{
	(void)unused;
	free(states);
	return unlink(path);
}

static int compare_falling(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? 1 : left > right ? -1 : 0;
}

/* From the end on, each cut a shorter file. */
static void test_cut_at_random_places(void **unused)
{
	uint64_t *cuts = calloc(damages, sizeof(*cuts));
	size_t blocks = state_count;
	char copy[sizeof(path) + 8], command[256];

	(void)unused;
	assert_non_null(cuts);
	snprintf(copy, sizeof(copy), "%s.whole", path);
	snprintf(command, sizeof(command), "cp '%s' '%s'", path, copy);
	assert_int_equal(system(command), 0);
	for (unsigned i = 0; i < damages; i++)
		cuts[i] = states[0].end + random_below(whole_bytes - states[0].end);
	qsort(cuts, damages, sizeof(*cuts), compare_falling);
	for (unsigned i = 0; i < damages; i++) {
		struct limpet_trace_reader *reader;
		struct limpet_model *model;
		const struct limpet_trace_damage *damage;

		assert_int_equal(truncate(path, (off_t)cuts[i]), 0);
		while (states[blocks - 1].end > cuts[i])
			blocks--;
		reader = open_trace();
		model = build_model(reader);
		damage = limpet_trace_reader_damage(reader);
		assert_int_equal(model->totals.events, states[blocks - 1].events);
		assert_int_equal(model->totals.live_bytes, states[blocks - 1].live_bytes);
		assert_int_equal(model->end->end, LIMPET_END_COLLECTOR_LOST);
		assert_false(model->complete);
		assert_int_equal(damage->bytes_ignored, cuts[i] - states[blocks - 1].end);
		assert_int_equal(damage->blocks_damaged + damage->blocks_lost, 0);
		limpet_model_free(model);
		limpet_trace_reader_free(reader);
	}
	free(cuts);
	assert_int_equal(rename(copy, path), 0);
}

/* One bit: it is found, and costs its block. Totals run on, so that no later one is wrong. */
static void test_flipped_at_random_places(void **unused)
{
	FILE *file = fopen(path, "r+b");

	(void)unused;
	assert_non_null(file);
	for (unsigned i = 0; i < damages; i++) {
		long at = (long)random_below(whole_bytes);
		uint8_t byte, bad;
		size_t hit = 0;
		struct limpet_trace_reader *reader;
		struct limpet_model *model;
		const struct limpet_trace_damage *damage;
		const struct limpet_trace_block *blocks;

		assert_true(fseek(file, at, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1);
		bad = byte ^ (uint8_t)(1u << random_below(8));
		assert_true(fseek(file, at, SEEK_SET) == 0 && fwrite(&bad, 1, 1, file) == 1 &&
			    fflush(file) == 0);
		while (states[hit].end <= (uint64_t)at)
			hit++;
		reader = open_trace();
		model = build_model(reader);
		damage = limpet_trace_reader_damage(reader);
		/* a block whose mark was hit is a number that is missing; behind the last there
		 * is none */
		if (hit + 1 < state_count)
			assert_int_equal(damage->blocks_damaged + damage->blocks_lost, 1);
		else
			assert_true(damage->blocks_damaged + damage->truncated == 1);
		assert_true(limpet_trace_reader_blocks(reader, &blocks) >= state_count - 1);
		assert_false(model->complete);
		assert_int_equal(model->totals.events, capture.totals[LIMPET_TOTAL_EVENTS]);
		assert_int_equal(model->totals.live_bytes, capture.live_bytes);
		limpet_model_free(model);
		limpet_trace_reader_free(reader);
		assert_true(fseek(file, at, SEEK_SET) == 0 && fwrite(&byte, 1, 1, file) == 1 &&
			    fflush(file) == 0);
	}
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_random_places),
		cmocka_unit_test(test_flipped_at_random_places),
	};

	return cmocka_run_group_tests(tests, make_trace, remove_trace);
}
