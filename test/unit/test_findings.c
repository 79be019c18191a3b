/* What a report says in words, of captures by a clock of their own: a program with the habits of
 * test/targets/habits.c, a round a millisecond, looked at every half second. */
#include "test/unit/sample_trace.h"

#include "analyzer/model/filter.h"
#include "analyzer/model/history.h"
#include "analyzer/seal/seal.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/findings.h"
#include "analyzer/views/verdict.h"

enum {
	LEAK = SAMPLE_LEAK,
	CACHE = SAMPLE_JIT,
	CHURN = SAMPLE_MALLOC1,
	LOAD = SAMPLE_EVIL,
	RISE = SAMPLE_COPY
};

enum {
	LEAK_BYTES = 700,
	CACHE_BYTES = 3000,
	CACHE_BLOCKS = 400,
	CHURN_BLOCKS = 40,
	CHURN_BYTES = 100,
	LOAD_BLOCKS = 500,
	LOAD_BYTES = 4000,
	RISE_BLOCKS = 48 << 10,
	RISE_BYTES = 1000,
	TICK_ROUNDS = 500,
	HISTORY_STEPS = 256
};

struct habits {
	bool leak, cache, churn, load;
	bool slow;     /* the cache is full of blocks from before the capture */
	unsigned late; /* so many of the rounds go by before the habits begin */
};

static struct sample sample;
static struct limpet_recorder *recorder;
static uint64_t rounds, rss_bytes, agent_bytes, file_bytes;
static struct limpet_dropped dropped; /* told at the end */
static uint64_t losses;               /* likewise */
static struct limpet_analysis analysis;
static struct limpet_history *history;
static struct limpet_findings *findings;

static int setup(void **state)
{
	(void)state;
	sample_init(&sample);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sample_done(&sample);
	return 0;
}

/* ------------------------------------------------------------------ captures */

static void begin(void)
{
	recorder = sample_open(&sample, -1);
	rounds = 0;
	rss_bytes = 50u << 20;
}

static void pass_round(void)
{
	const struct limpet_recorder_tick tick = {.time_ns = sample.now_ns + 1000000,
						  .rss_bytes = rss_bytes,
						  .agent_bytes = agent_bytes,
						  .file_bytes = file_bytes};

	sample.now_ns += 1000000;
	if (++rounds % TICK_ROUNDS == 0)
		assert_true(limpet_recorder_tick(recorder, &tick) >= 0);
}

static void follow(const struct habits *habits, unsigned count)
{
	static uint64_t cached[CACHE_BLOCKS];

	for (unsigned round = 0; round < count; round++) {
		uint64_t *place = &cached[round % CACHE_BLOCKS];

		pass_round();
		if (round < habits->late)
			continue;
		if (habits->leak)
			sample_allocate(&sample, recorder, LEAK, LEAK_BYTES);
		if (habits->slow)
			sample_release(&sample, recorder, 0x10000000 + round * 4096,
				       CACHE_BYTES + 8);
		else if (habits->cache && round >= CACHE_BLOCKS)
			sample_release(&sample, recorder, *place, CACHE_BYTES + 8);
		if (habits->slow || habits->cache)
			*place = sample_allocate(&sample, recorder, CACHE, CACHE_BYTES);
		for (unsigned i = 0; habits->churn && i < CHURN_BLOCKS; i++)
			sample_release(&sample, recorder,
				       sample_allocate(&sample, recorder, CHURN, CHURN_BYTES),
				       CHURN_BYTES + 4);
		for (unsigned i = 0; habits->load && !round && i < LOAD_BLOCKS; i++)
			sample_allocate(&sample, recorder, LOAD, LOAD_BYTES);
	}
}

static void finish(enum limpet_end why)
{
	const struct limpet_analysis_options options = {.sorted = true, .sort = LIMPET_REPORT_LIVE};
	const struct limpet_recorder_tick tick = {.time_ns = sample.now_ns,
						  .rss_bytes = rss_bytes,
						  .agent_bytes = agent_bytes,
						  .file_bytes = file_bytes,
						  .dropped_events =
							  dropped.allocations + dropped.frees,
						  .dropped = dropped};
	const struct limpet_recorder_end end = {.end = why,
						.time_ns = sample.now_ns,
						.losses = losses,
						.agent_unloaded = true,
						.agent_memory_bytes = 1 << 20};
	struct limpet_seal_result result;
	struct limpet_err err = {0};

	assert_true(limpet_recorder_finish(recorder, &tick, &end) >= 0);
	limpet_recorder_free(recorder);
	assert_int_equal(limpet_seal(sample.trace, NULL, &result, NULL), 0);
	if (limpet_analysis_open(sample.trace, &options, &analysis, &err) < 0 ||
	    limpet_history_build(analysis.reader, analysis.model, HISTORY_STEPS, NULL, &history,
				 &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_findings_new(&analysis.view, history, &findings), 0);
}

static void close_it(void)
{
	limpet_findings_free(findings);
	limpet_history_free(history);
	limpet_analysis_close(&analysis);
}

static void capture(const struct habits *habits, unsigned count)
{
	begin();
	follow(habits, count);
	finish(LIMPET_END_STOP);
}

/* ------------------------------------------------------------------ findings */

static const struct limpet_findings_entry *find(enum limpet_findings_kind kind, uint32_t node)
{
	const struct limpet_findings_entry *found = NULL;

	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].kind == kind && findings->list[i].node == node)
			found = &findings->list[i];
	return found;
}

static unsigned count_of(enum limpet_findings_kind kind)
{
	unsigned count = 0;

	for (size_t i = 0; i < findings->count; i++)
		count += findings->list[i].kind == kind;
	return count;
}

static void assert_near(double is, double should, double by)
{
	if (is < should - by || is > should + by)
		fail_msg("%f instead of %f", is, should);
}

/* The first sentence, and the function that it is about. */
static void assert_verdict(enum limpet_verdict_kind kind, const char *sentence, const char *culprit)
{
	struct limpet_verdict verdict;

	assert_int_equal(limpet_verdict_new(&analysis.view, history, NULL, &verdict), 0);
	assert_string_equal(verdict.sentences[0], sentence);
	assert_int_equal(verdict.kind, kind);
	if (culprit)
		assert_string_equal(verdict.culprit, culprit);
	else
		assert_null(verdict.culprit);
	limpet_verdict_done(&verdict);
}

/* A leak grows; a cache, what was loaded at the start and churn do not. */
static void test_leak(void **state)
{
	static const struct habits all = {.leak = true, .cache = true, .churn = true, .load = true};
	const struct limpet_findings_entry *found;

	(void)state;
	capture(&all, 8000);
	found = find(LIMPET_FINDINGS_GROWS, LEAK);
	assert_non_null(found);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 1);
	assert_string_equal(found->function, "grow");
	assert_string_equal(found->caller, "leak");
	/* 700 bytes a millisecond, for four seconds. */
	assert_near(found->per_second, 700000, 1000);
	assert_near((double)found->bytes, 2800000, 4000);
	assert_near(found->share, 1, 0.01);
	assert_string_equal(found->text,
			    "grow (called by leak) grows all the time, by 683.8 KiB/s (2.3 GiB an "
			    "hour) in the second half, to 5.3 MiB: none of its 8.0 k blocks was "
			    "ever freed.");
	found = find(LIMPET_FINDINGS_CHURNS, CHURN);
	assert_non_null(found);
	assert_near(found->per_second, 40000, 1);
	assert_int_equal(count_of(LIMPET_FINDINGS_CHURNS), 1);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_TURNOVER), 0);
	assert_null(find(LIMPET_FINDINGS_HOLDS, CHURN));
	assert_true(find(LIMPET_FINDINGS_GROWS, LEAK)->to_ns > 0);
	assert_verdict(
		LIMPET_VERDICT_LEAK,
		"Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow: none "
		"of 8.0 k blocks was freed.",
		"leak");
	close_it();
}

/* A cache that is full is steady, and so is a program that only churns. */
static void test_steady(void **state)
{
	static const struct habits all = {.cache = true, .churn = true, .load = true};
	const struct limpet_findings_entry *found;

	(void)state;
	capture(&all, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_TURNOVER), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 1);
	found = find(LIMPET_FINDINGS_STEADY, 0);
	assert_non_null(found);
	assert_non_null(
		strstr(found->text, "Nothing grows: in the second half live bytes stayed at 3."));
	assert_non_null(find(LIMPET_FINDINGS_CHURNS, CHURN));
	assert_non_null(find(LIMPET_FINDINGS_HOLDS, LOAD));
	assert_int_equal(count_of(LIMPET_FINDINGS_HOLDS), 1);
	assert_verdict(LIMPET_VERDICT_STEADY,
		       "Nothing grows: of what was allocated in 8.0s, 3.1 MiB is live, 62 % of it "
		       "under evil?[31m??.so+0x1234.",
		       NULL);
	close_it();
}

/* Less than a thousand calls a second is no churn. */
static void test_little_churn(void **state)
{
	static const struct habits all = {.churn = true, .late = 7820};

	(void)state;
	capture(&all, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_CHURNS), 0);
	close_it();
}

/* Too short a capture says nothing of growth; the shortest that does. */
static void test_short(void **state)
{
	static const struct habits leak = {.leak = true};
	static const unsigned lengths[] = {1000, 3999, 4000};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(lengths); i++) {
		const bool enough = lengths[i] == 4000;

		capture(&leak, lengths[i]);
		assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), enough);
		assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 0);
		assert_int_equal(count_of(LIMPET_FINDINGS_HOLDS), 1);
		assert_non_null(find(LIMPET_FINDINGS_HOLDS, LEAK));
		if (!enough)
			assert_verdict(
				LIMPET_VERDICT_STEADY,
				i ? "4.0s is too short to tell what grows; 2.7 MiB is live, "
				    "100 % of it under leak (prog.c:8), through grow."
				  : "1.0s is too short to tell what grows; 683.6 KiB is live, "
				    "100 % of it under leak (prog.c:8), through grow.",
				NULL);
		close_it();
	}
}

/* A leak that came to rest in the first half; one that began in the second. */
static void test_growth_of_a_half(void **state)
{
	static const struct habits leak = {.leak = true}, late = {.leak = true, .late = 6000};

	(void)state;
	begin();
	follow(&leak, 2000);
	follow(&(struct habits){.late = 6000}, 6000);
	finish(LIMPET_END_STOP);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 1);
	close_it();
	capture(&late, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	close_it();
}

/* A cache that was there before the capture is no leak: its blocks are replaced one after the
 * other, and as much was freed as is new. */
static void test_turnover(void **state)
{
	static const struct habits slow = {.slow = true};
	const struct limpet_findings_entry *found;

	(void)state;
	capture(&slow, 5000);
	assert_int_equal(analysis.model->totals.foreign_frees, 5000);
	assert_int_equal(analysis.model->totals.live_bytes, 5000 * CACHE_BYTES);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_TURNOVER), 1);
	found = find(LIMPET_FINDINGS_TURNOVER, 0);
	assert_non_null(found);
	assert_near(found->per_second, 3000000, 3000);
	assert_verdict(LIMPET_VERDICT_STEADY,
		       "Nothing grows: what was allocated in 5.0s replaced older blocks that were "
		       "freed.",
		       NULL);
	close_it();
}

/* ------------------------------------------------------------------ a rise and a fall */

static uint64_t risen[RISE_BLOCKS];

static void rise(void)
{
	for (unsigned i = 0; i < RISE_BLOCKS; i++)
		risen[i] = sample_allocate(&sample, recorder, RISE, RISE_BYTES);
	rss_bytes += RISE_BLOCKS * 1024ull;
}

/* All but one in each page, or all. */
static void fall(bool all)
{
	for (unsigned i = 0; i < RISE_BLOCKS; i++)
		if (all || i % 4)
			sample_release(&sample, recorder, risen[i], RISE_BYTES + 8);
}

/* After so many rounds each; `given_back` of the resident memory goes with it. */
static void rise_and_fall(unsigned before, unsigned between, unsigned after, bool all,
			  uint64_t given_back)
{
	/* Where nothing happens nothing is written, and little is known of when. */
	const struct habits churn = {.churn = true};

	begin();
	follow(&churn, before);
	rise();
	follow(&churn, between);
	fall(all);
	rss_bytes -= given_back;
	follow(&churn, after);
}

static void pass(unsigned count)
{
	const struct habits churn = {.churn = true};

	follow(&churn, count);
}

/* A program that frees everything as it ends is not called steady; one that goes on may be. */
static void test_end_in_order(void **state)
{
	static const enum limpet_end ends[] = {LIMPET_END_TARGET_EXIT, LIMPET_END_STOP};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(ends); i++) {
		rise_and_fall(3000, 2000, 10, true, RISE_BLOCKS * 1024ull);
		finish(ends[i]);
		assert_true(analysis.model->totals.live_bytes <
			    analysis.model->totals.peak_bytes / 2);
		assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), ends[i] == LIMPET_END_STOP);
		close_it();
	}
}

/* What the allocator keeps after a fall, and what it gave back. */
static void test_retained(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	rise_and_fall(10, 1500, 1500, false, 0);
	finish(LIMPET_END_STOP);
	assert_int_equal(count_of(LIMPET_FINDINGS_RETAINED), 1);
	found = find(LIMPET_FINDINGS_RETAINED, 0);
	assert_non_null(found);
	assert_int_equal(found->bytes, RISE_BLOCKS / 4 * 3 * RISE_BYTES);
	assert_near(found->share, (double)found->bytes / (double)rss_bytes, 0.001);
	assert_string_equal(found->text,
			    "RSS stayed at 98.0 MiB when live bytes fell from 46.9 MiB to "
			    "11.7 MiB: the allocator keeps what was freed, or other memory took "
			    "its place.");
	close_it();
	rise_and_fall(10, 1500, 1500, false, RISE_BLOCKS / 4 * 3 * 1024ull);
	finish(LIMPET_END_STOP);
	assert_int_equal(count_of(LIMPET_FINDINGS_RETAINED), 0);
	close_it();
}

/* Nor what was never resident, nor what is limpet's. */
static void test_not_retained(void **state)
{
	(void)state;
	begin();
	rss_bytes = 30u << 20;
	rise();
	rss_bytes = 30u << 20;
	pass(1500);
	fall(true);
	pass(1500);
	finish(LIMPET_END_STOP);
	assert_int_equal(count_of(LIMPET_FINDINGS_RETAINED), 0);
	close_it();
	begin();
	rise();
	pass(1500);
	fall(true);
	agent_bytes = RISE_BLOCKS * 1024ull;
	pass(1500);
	finish(LIMPET_END_STOP);
	assert_int_equal(count_of(LIMPET_FINDINGS_RETAINED), 0);
	agent_bytes = 0;
	close_it();
}

/* What was lost is said of each finding that rests on it, and of no other. */
static void test_losses(void **state)
{
	static const struct habits all = {.leak = true, .churn = true};
	const struct limpet_findings_entry *found;

	(void)state;
	dropped = (struct limpet_dropped){.frees = 3000, .freed_bytes = 3000 * 704};
	capture(&all, 8000);
	found = find(LIMPET_FINDINGS_GROWS, LEAK);
	assert_non_null(found);
	assert_true(found->qualified);
	assert_int_equal(found->freed_blocks_max, 3000);
	assert_non_null(strstr(found->text, "ever freed. Up to 3.0 k of these may have been freed: "
					    "3.0 k frees were dropped."));
	found = find(LIMPET_FINDINGS_CHURNS, CHURN);
	assert_non_null(found);
	assert_false(found->qualified);
	assert_int_equal(found->freed_blocks_max, 0);
	close_it();
	/* More frees than it has blocks. */
	dropped.frees = 100000;
	capture(&all, 8000);
	found = find(LIMPET_FINDINGS_GROWS, LEAK);
	assert_non_null(found);
	assert_int_equal(found->freed_blocks_max, 8000);
	close_it();
	dropped = (struct limpet_dropped){.allocations = 5, .allocated_bytes = 5000};
	capture(&all, 8000);
	found = find(LIMPET_FINDINGS_GROWS, LEAK);
	assert_non_null(found);
	assert_true(found->qualified && !found->freed_blocks_max);
	assert_non_null(strstr(found->text, "5 more allocations, 4.9 KiB, are not followed"));
	found = find(LIMPET_FINDINGS_CHURNS, CHURN);
	assert_non_null(found);
	assert_non_null(strstr(found->text, "5 more allocations were dropped: rates are higher"));
	close_it();
	dropped = (struct limpet_dropped){0};
	capture(&all, 8000);
	for (size_t i = 0; i < findings->count; i++)
		assert_false(findings->list[i].qualified);
	close_it();
}

/* A reason without a figure. */
static void test_reasons(void **state)
{
	static const struct habits all = {.leak = true, .churn = true};
	const struct limpet_findings_entry *found;

	(void)state;
	losses = LIMPET_LOSS_BIT(LIMPET_LOSS_STORED) | LIMPET_LOSS_BIT(LIMPET_LOSS_SLOTS);
	capture(&all, 8000);
	found = find(LIMPET_FINDINGS_GROWS, LEAK);
	assert_non_null(found);
	assert_true(found->qualified);
	assert_non_null(
		strstr(found->text, "It may be off: the program freed blocks through an address"));
	assert_non_null(strstr(found->text, "It may be off: some modules' calls"));
	losses = 0;
	close_it();
}

/* What was lost may be all that happened, or all that grew, and may have been there before. */
static void test_hidden(void **state)
{
	static const struct habits nothing = {0}, cache = {.cache = true}, slow = {.slow = true};
	const struct limpet_findings_entry *found;

	(void)state;
	dropped = (struct limpet_dropped){.allocations = 1000000, .allocated_bytes = 1u << 30};
	capture(&nothing, 8000);
	found = find(LIMPET_FINDINGS_IDLE, 0);
	assert_non_null(found);
	assert_true(found->qualified);
	assert_non_null(strstr(found->text, "but 1.0 M calls of the capture were lost"));
	close_it();
	capture(&cache, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 0);
	found = find(LIMPET_FINDINGS_UNJUDGED, 0);
	assert_non_null(found);
	assert_non_null(strstr(found->text, "Nothing that was recorded grows; what was not"));
	close_it();
	capture(&slow, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_TURNOVER), 0);
	close_it();
	dropped = (struct limpet_dropped){0};
	capture(&slow, 8000);
	assert_int_equal(count_of(LIMPET_FINDINGS_TURNOVER), 1);
	close_it();
}

static const struct limpet_findings_entry *only(enum limpet_findings_kind kind)
{
	assert_int_equal(count_of(kind), 1);
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].kind == kind)
			return &findings->list[i];
	return NULL;
}

/* Early, so that it is not growth of the second half: of 64 MiB of files, and others. */
static void capture_early_rise(uint64_t bytes)
{
	begin();
	file_bytes = 8u << 20;
	agent_bytes = 4096;
	pass(500);
	rss_bytes += bytes;
	file_bytes += 64u << 20;
	pass(4500);
	finish(LIMPET_END_STOP);
	file_bytes = agent_bytes = 0;
}

static void test_pages_of_files(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture_early_rise(64u << 20);
	found = only(LIMPET_FINDINGS_RESIDENT);
	assert_string_equal(found->text,
			    "RSS grew by 64.0 MiB: pages of files and shared memory by "
			    "64.0 MiB, live bytes by 0 B, and mappings by 0 B.");
	assert_true(found->of_files);
	assert_int_equal(found->bytes, 64u << 20);
	close_it();
	capture_early_rise(128u << 20);
	found = only(LIMPET_FINDINGS_RESIDENT);
	assert_non_null(strstr(found->text,
			       "RSS grew by 128.0 MiB, live bytes by 0 B, mappings by "
			       "0 B, and pages of files and shared memory by 64.0 MiB: "
			       "the rest is freed memory"));
	assert_false(found->of_files);
	assert_int_equal(found->bytes, 64u << 20);
	close_it();
}

/* Of pages it is known who touched them first, not what uses them now: no function is said to hold
 * memory, or not to free it. That RSS grows is certain. */
static void test_pages(void **state)
{
	static const struct habits all = {.leak = true, .churn = true};
	static const char *const not_known[] = {"hold", "live", "freed", "leaks", ") grow"};
	const struct limpet_findings_entry *found;

	(void)state;
	sample.pages = true;
	begin();
	for (unsigned i = 0; i < 16; i++) {
		follow(&all, 500);
		rss_bytes += 500 * LEAK_BYTES;
	}
	finish(LIMPET_END_STOP);
	sample.pages = false;
	found = only(LIMPET_FINDINGS_TOUCHED);
	assert_string_equal(found->function, "grow");
	assert_string_equal(found->text, "grow (called by leak) first touched 5.3 MiB, 100 % of "
					 "the new pages that are resident.");
	assert_string_equal(only(LIMPET_FINDINGS_TOUCHES)->text,
			    "grow (called by leak) touches new pages all the time: those that are "
			    "resident grow by 683.8 KiB/s (2.3 GiB an hour) in the second half, to "
			    "5.3 MiB.");
	assert_non_null(strstr(only(LIMPET_FINDINGS_RESIDENT)->text, "RSS grows all the time"));
	assert_non_null(strstr(only(LIMPET_FINDINGS_CHURNS)->text, "are returned again"));
	assert_string_equal(only(LIMPET_FINDINGS_KEEPER)->text,
			    "A page counts for the stack that touched it first. If an allocator "
			    "frees it and uses it again, another function may keep it: `limpet "
			    "attach` tells which, if it can follow the allocator.");
	assert_int_equal(findings->count, 5);
	for (size_t i = 0; i < findings->count; i++)
		for (size_t k = 0; k < LIMPET_COUNT_OF(not_known); k++)
			if (strstr(findings->list[i].text, not_known[k]))
				fail_msg("not known of pages: %s", findings->list[i].text);
	close_it();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_little_churn),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_growth_of_a_half),
		cmocka_unit_test(test_turnover),
		cmocka_unit_test(test_end_in_order),
		cmocka_unit_test(test_retained),
		cmocka_unit_test(test_not_retained),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_hidden),
		cmocka_unit_test(test_pages_of_files),
		cmocka_unit_test(test_pages),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
