/* Which groups of blocks hold which resident pages: by hand-made blocks, against a count byte by
 * byte, and through a trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/page_shares.h"
#include "common/array.h"
#include "common/sample.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

#define PAGE 4096u
#define BASE 0x10000000u

struct block {
	uint64_t at, size; /* from BASE */
	uint32_t group;
};

static const struct limpet_trace_run everything = {BASE, BASE + 64u * PAGE};

static struct limpet_page_division divide(const struct block *blocks, size_t count,
					  const struct limpet_trace_run *runs, size_t run_count,
					  struct limpet_page_share *groups)
{
	struct limpet_page_division division = {.page_bytes = PAGE,
						.runs = runs,
						.run_count = run_count,
						.examined = &everything,
						.examined_count = 1,
						.groups = groups};

	for (size_t i = 0; i < count; i++)
		assert_int_equal(limpet_page_division_add(&division, BASE + blocks[i].at,
							  blocks[i].size, blocks[i].group),
				 0);
	limpet_page_division_end(&division);
	return division;
}

static void check_share(const struct limpet_page_share *share, uint64_t blocks, uint64_t live,
			uint64_t resident_live, uint64_t held, uint64_t alone)
{
	assert_int_equal(share->blocks, blocks);
	assert_int_equal(share->live_bytes, live);
	assert_int_equal(share->resident_live_bytes, resident_live);
	assert_int_equal(share->held_bytes, held);
	assert_int_equal(share->alone_bytes, alone);
}

static void test_one_block_keeps_its_page(void **state)
{
	static const struct block blocks[] = {{16, 100, 0}, {PAGE + 4000, 96, 0}};
	struct limpet_page_share groups[1] = {{0}};

	(void)state;
	divide(blocks, 2, &everything, 1, groups);
	check_share(&groups[0], 2, 196, 196, 2 * PAGE, 2 * PAGE);
}

static void test_a_shared_page_is_divided_by_bytes(void **state)
{
	/* Three bytes of one, one of the other; and thirds, which cannot be exact. */
	static const struct block blocks[] = {
		{0, 300, 0},        {1000, 100, 1},   {PAGE, 10, 0},       {PAGE + 10, 10, 1},
		{PAGE + 20, 10, 2}, {2 * PAGE, 1, 2}, {2 * PAGE + 8, 1, 2}};
	struct limpet_page_share groups[3] = {{0}};

	(void)state;
	divide(blocks, LIMPET_COUNT_OF(blocks), &everything, 1, groups);
	check_share(&groups[0], 2, 310, 310, 3 * PAGE / 4 + PAGE / 3, 0);
	check_share(&groups[1], 2, 110, 110, PAGE / 4 + PAGE / 3, 0);
	check_share(&groups[2], 3, 12, 12, PAGE / 3 + 1 + PAGE, PAGE);
}

static void test_only_resident_pages_count(void **state)
{
	/* The first and the last page of a large block, and a page that it shares. */
	static const struct limpet_trace_run runs[] = {{BASE, BASE + PAGE},
						       {BASE + 3 * PAGE, BASE + 5 * PAGE}};
	static const struct block blocks[] = {
		{100, 4 * PAGE, 0}, {4 * PAGE + 100, 100, 1}, {6 * PAGE, 50, 1}};
	struct limpet_page_share groups[2] = {{0}};

	(void)state;
	divide(blocks, LIMPET_COUNT_OF(blocks), runs, 2, groups);
	check_share(&groups[0], 1, 4 * PAGE, PAGE - 100 + PAGE + 100, 2 * PAGE + PAGE / 2,
		    2 * PAGE);
	check_share(&groups[1], 2, 150, 100, PAGE / 2, 0);
}

static void test_odd_blocks(void **state)
{
	/* Empty; within another; at one address; of no end. */
	static const struct block blocks[] = {
		{0, 0, 0}, {PAGE, PAGE, 1}, {PAGE + 100, 100, 2}, {PAGE + 100, PAGE, 2}};
	struct limpet_page_share groups[3] = {{0}};
	struct limpet_page_division division;

	(void)state;
	divide(blocks, LIMPET_COUNT_OF(blocks), &everything, 1, groups);
	check_share(&groups[0], 1, 0, 0, PAGE, PAGE);
	check_share(&groups[1], 1, PAGE, PAGE, PAGE, PAGE);
	check_share(&groups[2], 2, PAGE + 100, 100, PAGE, PAGE);
	memset(groups, 0, sizeof(groups));
	division = divide((const struct block[]){{63 * PAGE, UINT64_MAX, 0}}, 1, &everything, 1,
			  groups);
	check_share(&groups[0], 1, UINT64_MAX, PAGE, PAGE, PAGE);
	assert_int_equal(division.unexamined_blocks, 1);
}

static void test_what_was_not_looked_at(void **state)
{
	static const struct block blocks[] = {{63 * PAGE + 4000, 200, 0}, {65 * PAGE, 10, 0}};
	struct limpet_page_share groups[1] = {{0}};
	struct limpet_page_division division;

	(void)state;
	division = divide(blocks, 2, &everything, 1, groups);
	check_share(&groups[0], 2, 210, 96, PAGE, PAGE);
	assert_int_equal(division.unexamined_blocks, 2);
	assert_int_equal(division.unexamined_bytes, 104 + 10);
}

/* ------------------------------------------------------------------ byte by byte */

#define PAGES 64u
#define GROUPS 3u

static uint8_t owner[PAGES * PAGE]; /* + 1; 0: none */

static void compare_with_bytes(const struct limpet_page_share groups[GROUPS],
			       const bool resident[PAGES])
{
	uint64_t all = 0, sum = 0;

	for (unsigned g = 0; g < GROUPS; g++) {
		uint64_t live = 0, alone = 0, shared = 0;
		double held = 0;

		for (unsigned page = 0; page < PAGES; page++) {
			uint64_t own = 0, others = 0;

			for (unsigned i = 0; i < PAGE && resident[page]; i++) {
				own += owner[page * PAGE + i] == g + 1;
				others += owner[page * PAGE + i] && owner[page * PAGE + i] != g + 1;
			}
			if (!own)
				continue;
			live += own;
			held += (double)PAGE * (double)own / (double)(own + others);
			alone += others ? 0 : PAGE;
			shared++;
		}
		assert_int_equal(groups[g].resident_live_bytes, live);
		assert_int_equal(groups[g].alone_bytes, alone);
		assert_true((double)groups[g].held_bytes <= held + (double)shared &&
			    (double)groups[g].held_bytes >= held - (double)shared);
		sum += groups[g].held_bytes;
	}
	for (unsigned page = 0; page < PAGES; page++)
		all += resident[page] && memchr(owner + page * PAGE, 1, PAGE)   ? PAGE
		       : resident[page] && memchr(owner + page * PAGE, 2, PAGE) ? PAGE
		       : resident[page] && memchr(owner + page * PAGE, 3, PAGE) ? PAGE
										: 0;
	assert_int_equal(sum, all);
}

static void test_against_bytes(void **state)
{
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct limpet_page_share groups[GROUPS] = {{0}};
		static struct block blocks[PAGES * PAGE];
		struct limpet_trace_run runs[PAGES];
		bool resident[PAGES];
		const uint64_t sizes = round % 3 == 0 ? 64 : round % 3 == 1 ? 3000 : 30000;
		size_t count = 0, run_count = 0;

		memset(owner, 0, sizeof(owner));
		for (unsigned i = 0; i < PAGES; i++) {
			resident[i] = limpet_sample_random(&random) % 4 != 0;
			if (resident[i] && i && resident[i - 1])
				runs[run_count - 1].end += PAGE;
			else if (resident[i])
				runs[run_count++] = (struct limpet_trace_run){
					BASE + i * PAGE, BASE + (i + 1) * PAGE};
		}
		for (uint64_t at = 0;;) {
			struct block block = {
				.at = at + limpet_sample_random(&random) % sizes,
				.size = 1 + limpet_sample_random(&random) % sizes,
				.group = (uint32_t)(limpet_sample_random(&random) % GROUPS)};

			at = block.at + block.size;
			if (at > sizeof(owner))
				break;
			memset(owner + block.at, (int)block.group + 1, block.size);
			blocks[count++] = block;
		}
		divide(blocks, count, runs, run_count, groups);
		compare_with_bytes(groups, resident);
	}
}

/* ------------------------------------------------------------------ through a trace */

static const struct limpet_recorder_run recorded_runs[] = {{BASE, BASE + PAGE},
							   {BASE + 2 * PAGE, BASE + 4 * PAGE}};

static void add_block(struct limpet_recorder *recorder, uint32_t node, uint64_t at, uint64_t size)
{
	const struct limpet_record record = {.time_ns = SECOND / 2,
					     .address = BASE + at,
					     .size = size,
					     .node = node,
					     .thread = 1,
					     .kind = LIMPET_EVENT_ALLOC};

	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
}

/* Two sites; the second one's last block lies beyond what was looked at. */
static void record(const char *path, const struct limpet_recorder_resident *resident)
{
	struct limpet_recorder_options options = trace_options(path);
	const struct limpet_recorder_tick tick = {.time_ns = SECOND};
	const struct limpet_recorder_end end = {
		.end = LIMPET_END_STOP, .time_ns = SECOND, .resident = resident};
	struct limpet_recorder *recorder = trace_record(&options);

	assert_true(limpet_recorder_add_node(recorder, 1, 0, 0x1000, 0, 0) >= 0);
	assert_true(limpet_recorder_add_node(recorder, 2, 0, 0x2000, 0, 0) >= 0);
	add_block(recorder, 1, 100, 300);
	add_block(recorder, 2, 400, 100);
	add_block(recorder, 2, PAGE, 100);
	add_block(recorder, 1, 2 * PAGE, 2 * PAGE);
	add_block(recorder, 2, 5 * PAGE, 100);
	assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
	limpet_recorder_free(recorder);
}

static int read_shares(const char *path, struct limpet_page_shares **ret)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	const struct limpet_trace_node *nodes;
	const uint32_t count = limpet_trace_reader_nodes(reader, &nodes);
	uint32_t groups[8] = {0};
	int code;

	assert_int_equal(count, 3);
	groups[1] = 1;
	groups[2] = 2;
	code = limpet_page_shares_new(reader, model, groups, 3, ret);
	if (code == -ENODATA)
		assert_non_null(limpet_page_shares_unknown(model));
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return code;
}

static void test_through_a_trace(void **state)
{
	const struct limpet_recorder_resident resident = {.from = BASE,
							  .to = BASE + 5 * PAGE,
							  .page_bytes = PAGE,
							  .runs = recorded_runs,
							  .count = 2};
	struct limpet_page_shares *shares = NULL;
	int status;
	json_t *said;

	(void)state;
	record("resident", &resident);
	assert_int_equal(trace_count_blocks("resident", LIMPET_TRACE_RESIDENT), 1);
	assert_int_equal(read_shares("resident", &shares), 0);
	check_share(&shares->groups[0], 0, 0, 0, 0, 0);
	check_share(&shares->groups[1], 2, 300 + 2 * PAGE, 300 + 2 * PAGE, 3 * PAGE / 4 + 2 * PAGE,
		    2 * PAGE);
	check_share(&shares->groups[2], 3, 300, 100, PAGE / 4, 0);
	check_share(&shares->all, 5, 600 + 2 * PAGE, 400 + 2 * PAGE, 3 * PAGE, 2 * PAGE);
	assert_int_equal(shares->page_bytes, PAGE);
	assert_int_equal(shares->unexamined_blocks, 1);
	assert_int_equal(shares->unexamined_bytes, 100);
	limpet_page_shares_free(shares);
	said = second_reader_ask("resident", &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_integer_value(json_object_get(said, "resident_bytes")), 3 * PAGE);
	json_decref(said);
	second_reader_check("resident");
}

static void test_more_runs_than_a_block_holds(void **state)
{
	enum { RUNS = (1 << 18) + 100 };
	struct limpet_recorder_run *runs = calloc(RUNS, sizeof(*runs));
	struct limpet_recorder_resident resident = {
		.from = BASE, .page_bytes = PAGE, .runs = runs, .count = RUNS};
	struct limpet_page_shares *shares = NULL;

	(void)state;
	assert_non_null(runs);
	for (uint64_t i = 0; i < RUNS; i++)
		runs[i] = (struct limpet_recorder_run){BASE + 2 * i * PAGE,
						       BASE + (2 * i + 1) * PAGE};
	resident.to = runs[RUNS - 1].end + PAGE;
	record("many", &resident);
	free(runs);
	assert_int_equal(trace_count_blocks("many", LIMPET_TRACE_RESIDENT), 2);
	assert_int_equal(read_shares("many", &shares), 0);
	assert_int_equal(shares->unexamined_blocks, 0);
	assert_int_equal(shares->all.held_bytes, 2 * PAGE);
	limpet_page_shares_free(shares);
}

static void test_a_trace_that_does_not_say(void **state)
{
	struct limpet_page_shares *shares = NULL;

	(void)state;
	record("silent", NULL);
	assert_int_equal(trace_count_blocks("silent", LIMPET_TRACE_RESIDENT), 0);
	assert_int_equal(read_shares("silent", &shares), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_block_keeps_its_page),
		cmocka_unit_test(test_a_shared_page_is_divided_by_bytes),
		cmocka_unit_test(test_only_resident_pages_count),
		cmocka_unit_test(test_odd_blocks),
		cmocka_unit_test(test_what_was_not_looked_at),
		cmocka_unit_test(test_against_bytes),
		cmocka_unit_test(test_through_a_trace),
		cmocka_unit_test(test_more_runs_than_a_block_holds),
		cmocka_unit_test(test_a_trace_that_does_not_say),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
