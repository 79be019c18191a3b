/* What a report says of growth, of captures by a clock of their own: a round each tenth of a
 * second, looked at twice a second. Whatever grows is named, and nothing is where nothing does. */
#include "test/unit/sample_trace.h"

#include <math.h>

#include "analyzer/model/history.h"
#include "analyzer/seal/seal.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/findings.h"
#include "analyzer/views/verdict.h"

enum {
	ROUNDS = 800, /* eighty seconds */
	ROUND_NS = 100000000,
	TICK_ROUNDS = 5,
	HISTORY_STEPS = 240,
	LEAK_BELOW = 11, /* grow < leak < spin < main: another stack, the same label as LEAK */
	MANY = 12,       /* the first of those that are functions of their own */
	MANY_COUNT = 64,
	SELF = MANY + MANY_COUNT /* spin < spin < main */
};

static struct sample sample;
static struct limpet_recorder *recorder;
static struct limpet_recorder_tick gauges; /* as the next look finds them */
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

static void add_nodes(void)
{
	assert_true(limpet_recorder_add_node(recorder, LEAK_BELOW, SAMPLE_SPIN,
					     SAMPLE_BIAS + sample.leak_at + 1,
					     sample.program_module, 0) >= 0);
	assert_true(limpet_recorder_add_node(recorder, SELF, SAMPLE_SPIN,
					     SAMPLE_BIAS + sample.spin_at + 1,
					     sample.program_module, 0) >= 0);
	/* The module that has no file is the last of three. */
	for (uint32_t i = 0; i < MANY_COUNT; i++)
		assert_true(limpet_recorder_add_node(recorder, MANY + i, SAMPLE_MAIN,
						     0x7e0000002000ull + i * 64, 3, 0) >= 0);
}

static void draw(void (*round)(unsigned round), unsigned rounds, enum limpet_end why)
{
	const struct limpet_recorder_end end = {
		.end = why, .agent_unloaded = true, .agent_memory_bytes = 41 << 20};
	struct limpet_recorder_end ending = end;
	struct limpet_seal_result result;

	recorder = sample_open(&sample, -1);
	add_nodes();
	gauges = (struct limpet_recorder_tick){.rss_bytes = 50u << 20,
					       .threads = 4,
					       .agent_bytes = 1 << 20,
					       .file_bytes = 10u << 20};
	for (unsigned i = 0; i < rounds; i++) {
		sample.now_ns += ROUND_NS;
		round(i);
		gauges.time_ns = sample.now_ns;
		if (i % TICK_ROUNDS == 0)
			assert_true(limpet_recorder_tick(recorder, &gauges) >= 0);
	}
	ending.time_ns = sample.now_ns;
	assert_true(limpet_recorder_finish(recorder, &gauges, &ending) >= 0);
	limpet_recorder_free(recorder);
	assert_int_equal(limpet_seal(sample.trace, NULL, &result, NULL), 0);
}

static void find_in(uint64_t from_ns, uint64_t to_ns)
{
	const struct limpet_analysis_options options = {
		.sorted = true, .sort = LIMPET_REPORT_LIVE, .from_ns = from_ns, .to_ns = to_ns};
	struct limpet_model *whole = NULL;
	struct limpet_err err = {0};

	if (limpet_analysis_open(sample.trace, &options, &analysis, &err) < 0 ||
	    limpet_model_build(analysis.reader, NULL, &whole, &err) < 0)
		fail_msg("%s", err.message);
	if (limpet_history_build(analysis.reader, whole, HISTORY_STEPS, NULL, &history, &err) < 0)
		fail_msg("%s", err.message);
	limpet_model_free(whole);
	assert_int_equal(limpet_findings_new(&analysis.view, history, &findings), 0);
	assert_int_equal(limpet_findings_add_pools(findings, &analysis.view, analysis.reader), 0);
}

static void close_it(void)
{
	limpet_findings_free(findings);
	limpet_history_free(history);
	limpet_analysis_close(&analysis);
}

static void capture(void (*round)(unsigned round))
{
	draw(round, ROUNDS, LIMPET_END_STOP);
	find_in(0, 0);
}

/* ------------------------------------------------------------------ findings */

static unsigned count_of(enum limpet_findings_kind kind)
{
	unsigned count = 0;

	for (size_t i = 0; i < findings->count; i++)
		count += findings->list[i].kind == kind;
	return count;
}

static const struct limpet_findings_entry *only(enum limpet_findings_kind kind)
{
	const struct limpet_findings_entry *found = NULL;

	for (size_t i = 0; i < findings->count; i++) {
		if (findings->list[i].kind != kind)
			continue;
		if (found)
			fail_msg("two: '%s' and '%s'", found->text, findings->list[i].text);
		found = &findings->list[i];
	}
	for (size_t i = 0; i < findings->count && !found; i++)
		print_message("said instead: %s\n", findings->list[i].text);
	if (!found)
		fail_msg("nothing is said of kind '%s'", limpet_findings_words[kind]);
	return found;
}

/* One sentence of growth, with that in it, and not that nothing grows. */
static const struct limpet_findings_entry *assert_grows(enum limpet_findings_kind kind,
							const char *words)
{
	const struct limpet_findings_entry *found = only(kind);

	if (!strstr(found->text, words))
		fail_msg("'%s', without '%s'", found->text, words);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 0);
	return found;
}

/* ------------------------------------------------------------------ habits */

/* A cache of a megabyte that is full after a tenth of the time. */
static void cache(unsigned round)
{
	static uint64_t blocks[64];
	const unsigned place = round % 64;

	if (round >= 64)
		sample_release(&sample, recorder, blocks[place], 16400);
	blocks[place] = sample_allocate(&sample, recorder, SAMPLE_JIT, 16384);
}

static void map_more(unsigned round)
{
	cache(round);
	if (round % 10 == 9)
		sample_map(&sample, recorder, SAMPLE_SPIN, 0x10000000000ull + round * 0x100000ull,
			   256 << 10);
}

static void touch_late(unsigned round)
{
	cache(round);
	if (round >= 400)
		gauges.rss_bytes += 64 << 10;
}

/* Too little to be called growth. */
static void touch_little(unsigned round)
{
	cache(round);
	gauges.rss_bytes += 2 << 10;
}

/* Of limpet's own: what it has is all that is more. */
static void agent_grows(unsigned round)
{
	cache(round);
	gauges.rss_bytes += 32 << 10;
	gauges.agent_bytes += 32 << 10;
}

/* A backend comes to know the memory that it shares with others, and uses some of its own. */
static void touch_shared(unsigned round)
{
	cache(round);
	gauges.rss_bytes += 32 << 10;
	gauges.file_bytes += 32 << 10;
}

static void touch_both(unsigned round)
{
	touch_shared(round);
	gauges.rss_bytes += 64 << 10;
}

/* A file that is mapped and read counts once, and is told of as a mapping. */
static void map_and_read(unsigned round)
{
	map_more(round);
	if (round % 10 != 9)
		return;
	gauges.rss_bytes += 768 << 10;
	gauges.file_bytes += 256 << 10;
}

static void more_threads(unsigned round)
{
	cache(round);
	if (round % 50 == 49)
		gauges.threads++;
}

/* What one function made at the start goes as fast as another one's comes. */
static void handed_over(unsigned round)
{
	static uint64_t blocks[ROUNDS];

	for (unsigned i = 0; !round && i < ROUNDS; i++)
		blocks[i] = sample_allocate(&sample, recorder, SAMPLE_JIT, 10000);
	sample_release(&sample, recorder, blocks[round], 10008);
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 10000);
}

/* A cache that is filled in 70 seconds, and then emptied. */
static void emptied(unsigned round)
{
	static uint64_t blocks[ROUNDS];
	static unsigned count;

	if (round % 700 == 300) {
		while (count)
			sample_release(&sample, recorder, blocks[--count], 10008);
	}
	if (round % 2)
		return;
	if (!round)
		count = 0;
	blocks[count++] = sample_allocate(&sample, recorder, SAMPLE_LEAK, 10000);
}

static void slow_leak(unsigned round)
{
	cache(round);
	if (round % 50 == 20)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 100);
}

/* The same, with a list of them that is replaced each time it is full. */
static void listed_leak(unsigned round)
{
	static uint64_t list;
	static unsigned kept;

	slow_leak(round);
	if (!round)
		list = kept = 0;
	if (round % 50 != 20)
		return;
	kept++;
	if (kept & (kept - 1))
		return;
	if (list)
		sample_release(&sample, recorder, list, 16 * (kept / 2) + 8);
	list = sample_allocate(&sample, recorder, LEAK_BELOW, 16 * kept);
}

/* Seven blocks, or none but in the beginning, are no leak. */
static void few_blocks(unsigned round)
{
	cache(round);
	if (round % 120 == 20)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 100);
	if (round < 100)
		sample_allocate(&sample, recorder, SAMPLE_EVIL, 100);
}

static void many_sites(unsigned round)
{
	cache(round);
	/* Each allocates a few times, of which one block stays. */
	for (unsigned i = 0; i < 2; i++) {
		uint32_t node = MANY + (round + i * 7) % MANY_COUNT;
		uint64_t block = sample_allocate(&sample, recorder, node, 2000);

		if (round % 4)
			sample_release(&sample, recorder, block, 2008);
	}
}

static void at_the_end(unsigned round)
{
	cache(round);
	if (round >= 700)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

static void in_steps(unsigned round)
{
	cache(round);
	if (round == 350 || round == 500 || round == 650)
		for (unsigned i = 0; i < 100; i++)
			sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

/* A burst just before the middle, which is seen after it; a little of another one all the time. */
static void burst_at_the_middle(unsigned round)
{
	cache(round);
	if (round == 399)
		for (unsigned i = 0; i < 1000; i++)
			sample_allocate(&sample, recorder, SAMPLE_EVIL, 10000);
	if (round % 10 == 0)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 300);
}

/* A burst that stays, early on, and nothing that grows. */
static void early_burst(unsigned round)
{
	cache(round);
	if (round == 200)
		for (unsigned i = 0; i < 1000; i++)
			sample_allocate(&sample, recorder, SAMPLE_EVIL, 10000);
}

static uint64_t heap_blocks[1000];
static void fill_heap(bool full)
{
	for (unsigned i = 0; i < 1000; i++) {
		if (full)
			heap_blocks[i] = sample_allocate(&sample, recorder, SAMPLE_JIT, 10000);
		else
			sample_release(&sample, recorder, heap_blocks[i], 10008);
	}
}

/* Each request fills it and empties it; where the parts of the time end, it happens to be full. */
static void one_request_after_the_other(unsigned round)
{
	cache(round);
	if (round >= 180 && round % 50 == 30)
		fill_heap(true);
	if (round >= 200 && round % 50 == 10)
		fill_heap(false);
}

/* Emptied and filled again: as high as before. */
static void refilled(unsigned round)
{
	cache(round);
	if (round == 0 || round == 480)
		fill_heap(true);
	if (round == 350)
		fill_heap(false);
}

/* In the last eighth: nobody knows whether it stays. */
static void burst_at_the_end(unsigned round)
{
	cache(round);
	if (round == 780)
		fill_heap(true);
}

/* Most of a burst is freed later, a part stays. */
static void burst_that_shrinks(unsigned round)
{
	cache(round);
	if (round == 250)
		fill_heap(true);
	for (unsigned i = 0; round == 500 && i < 300; i++)
		sample_release(&sample, recorder, heap_blocks[i], 10008);
}

/* A leak, and a burst of the same function. */
static void burst_of_a_leak(unsigned round)
{
	cache(round);
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
	for (unsigned i = 0; round == 550 && i < 1000; i++)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 10000);
}

/* Until an eighth before the end. */
static void stops_early(unsigned round)
{
	cache(round);
	if (round < 690)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

/* Most blocks of a function are freed; not one of those of one of its stacks is. */
static void leak_of_a_stack(unsigned round)
{
	static uint64_t blocks[16];

	cache(round);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t *block = &blocks[(4 * round + i) % 16];

		if (4 * round + i >= 16)
			sample_release(&sample, recorder, *block, 3000);
		*block = sample_allocate(&sample, recorder, LEAK_BELOW, 3000);
	}
	if (round % 4 == 0)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 200);
}

/* What was live for a while stays resident. */
static void high_water(unsigned round)
{
	cache(round);
	if (round == 500) {
		fill_heap(true);
		gauges.rss_bytes += 10u << 20;
	}
	if (round == 600)
		fill_heap(false);
}

/* Places that are filled in no order: a block comes only where there is none yet. */
static void random_cache(unsigned round)
{
	static bool full[ROUNDS / 4];
	static unsigned seed;

	cache(round);
	for (unsigned i = 0; !round && i < ROUNDS / 4; i++)
		full[i] = false;
	seed = (round ? seed : 1) * 1103515245 + 12345;
	if (full[seed / 65536 % (ROUNDS / 4)])
		return;
	full[seed / 65536 % (ROUNDS / 4)] = true;
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 300);
}

/* All at first, and then less and less. */
static void falls(unsigned round)
{
	static uint64_t blocks[ROUNDS];

	for (unsigned i = 0; !round && i < ROUNDS; i++)
		blocks[i] = sample_allocate(&sample, recorder, SAMPLE_JIT, 10000);
	sample_release(&sample, recorder, blocks[round], 10008);
}

static void late_half(unsigned round)
{
	cache(round);
	if (round >= 100)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

/* Ten megabytes at once, and then a leak: less in the second half than in the first. */
static void after_a_burst(unsigned round)
{
	cache(round);
	if (round == 60)
		for (unsigned i = 0; i < 1000; i++)
			sample_allocate(&sample, recorder, SAMPLE_LEAK, 10000);
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

/* Each tenth second a little less: a cache that comes to be full. */
static void fills_up(unsigned round)
{
	cache(round);
	sample_allocate(&sample, recorder, SAMPLE_LEAK,
			(uint64_t)(60000 * exp(-(double)round / 400)));
}

/* A gigabyte of the first seconds; a thousandth of it more in the second half. */
static void beside_a_large_heap(unsigned round)
{
	cache(round);
	if (round < 64)
		sample_allocate(&sample, recorder, SAMPLE_EVIL, 16 << 20);
	if (round >= 64)
		sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

/* Up by a megabyte and down again, a little less each time; the middle is at a peak. */
static void teeth(unsigned round)
{
	static uint64_t blocks[66];
	const unsigned at = (round + 61) % 66;

	for (unsigned i = 0; i < 66 && at == 0; i++) {
		if (round && blocks[i] && i % 8)
			sample_release(&sample, recorder, blocks[i], 20008);
		blocks[i] = 0;
	}
	blocks[at] = sample_allocate(&sample, recorder, SAMPLE_LEAK, 20000);
}

static void one_block(unsigned round)
{
	static uint64_t block;

	cache(round);
	if (round)
		sample_release(&sample, recorder, block, 8 + 5000ull * (round - 1));
	block = sample_allocate(&sample, recorder, SAMPLE_LEAK, 5000ull * round);
}

static void two_stacks(unsigned round)
{
	cache(round);
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 2000);
	sample_allocate(&sample, recorder, LEAK_BELOW, 1000);
}

static void calls_itself(unsigned round)
{
	cache(round);
	sample_allocate(&sample, recorder, SELF, 3000);
}

static void tiny_blocks(unsigned round)
{
	cache(round);
	if (round >= 600)
		for (unsigned i = 0; i < 5; i++)
			sample_allocate(&sample, recorder, MANY + (round + i) % MANY_COUNT, 4);
}

/* Sixteen chunks of 256 KiB, each at the beginning of a page, or where malloc(3) has them. */
static void fill_pool(unsigned round, unsigned beyond_page)
{
	cache(round);
	if (round % 50 != 3)
		return;
	sample.next_block = (sample.next_block + 8191) / 4096 * 4096 + beyond_page;
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 256 << 10);
}

static void pool(unsigned round)
{
	fill_pool(round, 0);
}

static void large_blocks(unsigned round)
{
	fill_pool(round, 16);
}

static const char *file_of_runtime;

static void runtime(unsigned round)
{
	cache(round);
	if (!round)
		sample_add_module(recorder, 0x7d0000000000ull, file_of_runtime);
}

/* One grows as another falls, and as much of older blocks is freed. */
static void behind_another(unsigned round)
{
	static uint64_t blocks[400];

	sample_release(&sample, recorder, 0x10000000 + round * 4096, 3008);
	if (round < 400)
		blocks[round] = sample_allocate(&sample, recorder, SAMPLE_EVIL, 3000);
	else
		sample_release(&sample, recorder, blocks[round - 400], 3008);
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 3000);
}

static void rest(unsigned round)
{
	(void)round;
}

static void frees_only(unsigned round)
{
	sample_release(&sample, recorder, 0x10000000 + round * 4096, 0);
}

/* ------------------------------------------------------------------ what grows */

static void test_mappings(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(map_more);
	found = assert_grows(LIMPET_FINDINGS_MAPS, ", by mmap: most of it under spin (called by "
						   "main), 20.0 MiB.");
	assert_non_null(strstr(found->text, "Mapped bytes grow all the time, by "));
	assert_in_range(found->bytes, 10 << 20, (10 << 20) + (256 << 10));
	close_it();
}

static void test_resident(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(touch_late);
	found = assert_grows(LIMPET_FINDINGS_RESIDENT,
			     "RSS grows all the time, by 640.0 KiB/s (2.2 GiB an hour) in the "
			     "second half, to 74.0 MiB, without limpet's own; live bytes grew by "
			     "0 B meanwhile and mappings by 0 B.");
	assert_in_range(found->bytes, 24u << 20, 26u << 20);
	close_it();
	capture(agent_grows);
	assert_int_equal(count_of(LIMPET_FINDINGS_RESIDENT), 0);
	only(LIMPET_FINDINGS_STEADY);
	close_it();
}

/* The heap has no part in it. */
static void test_shared_memory(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(touch_shared);
	found = assert_grows(LIMPET_FINDINGS_RESIDENT,
			     "without limpet's own: pages of files and shared memory grew by 12.6 "
			     "MiB meanwhile, live bytes by 0 B, and mappings by 0 B.");
	assert_true(found->of_files);
	assert_in_range(found->bytes, 12u << 20, 13u << 20);
	close_it();
	capture(touch_both);
	found = assert_grows(
		LIMPET_FINDINGS_RESIDENT,
		"live bytes grew by 0 B meanwhile, mappings by 0 B, and pages of files "
		"and shared memory by 12.6 MiB. That leaves 25.3 MiB:");
	assert_false(found->of_files);
	assert_in_range(found->bytes, 25u << 20, 26u << 20);
	close_it();
	capture(map_and_read);
	found = assert_grows(
		LIMPET_FINDINGS_RESIDENT,
		"mappings by 10.3 MiB, and pages of files and shared memory by 10.3 MiB. "
		"That leaves 10.3 MiB to 20.5 MiB:");
	assert_false(found->of_files);
	close_it();
}

static void test_threads(void **state)
{
	(void)state;
	capture(more_threads);
	assert_grows(LIMPET_FINDINGS_THREADS,
		     "Threads grow all the time, by 9 in the second half, to 20: each has a stack");
	close_it();
}

static void test_handed_over(void **state)
{
	(void)state;
	capture(handed_over);
	assert_grows(LIMPET_FINDINGS_GROWS, "; live bytes as a whole do not grow.");
	close_it();
}

/* What is emptied now and then is not said to grow all the time because it was not emptied in the
 * second half. */
static void test_emptied(void **state)
{
	(void)state;
	capture(emptied);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	assert_grows(LIMPET_FINDINGS_ROSE, "ended 507.8 KiB above the highest before");
	close_it();
}

/* By the lives of its blocks, whatever they hold. */
static void test_slow_leak(void **state)
{
	(void)state;
	capture(slow_leak);
	assert_grows(LIMPET_FINDINGS_NEVER_FREED,
		     "grow (called by leak): 16 of the 16 blocks that it allocated are still "
		     "live, 1.6 KiB. The first one came 1m18s before the end, and more keep "
		     "coming.");
	assert_string_equal(only(LIMPET_FINDINGS_NEVER_FREED)->function, "grow");
	close_it();
	capture(listed_leak);
	assert_grows(LIMPET_FINDINGS_NEVER_FREED,
		     "grow (called by leak): 16 of the 16 blocks that one of its 2 stacks "
		     "allocated are still live, 1.6 KiB. The first one came 1m18s before the end, "
		     "and more keep coming.");
	close_it();
	capture(few_blocks);
	assert_int_equal(count_of(LIMPET_FINDINGS_NEVER_FREED), 0);
	only(LIMPET_FINDINGS_STEADY);
	close_it();
	/* The same blocks, all of them younger than ten seconds. */
	draw(slow_leak, 95, LIMPET_END_STOP);
	find_in(0, 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_NEVER_FREED), 0);
	close_it();
}

static void test_many_sites(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(many_sites);
	found = assert_grows(LIMPET_FINDINGS_ROSE, "Live bytes rose by ");
	/* Two blocks in four rounds. */
	assert_in_range(found->bytes, 390000, 410000);
	assert_non_null(strstr(found->text, ": of 32 functions that grew, "));
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	close_it();
}

/* Of each site: ascending, as many as it says, and together what the model says of it. */
static void test_steps_of_sites(void **state)
{
	(void)state;
	capture(cache);
	assert_true(history->site_count > 0);
	assert_int_equal(history->site_count, analysis.model->site_count);
	for (size_t i = 0; i < history->site_count; i++) {
		struct limpet_cursor steps = limpet_history_steps(history, &history->sites[i]);
		struct limpet_history_step step;
		struct limpet_counts sum = {0};
		size_t count = 0;
		uint32_t before = 0;

		while (limpet_history_next(&steps, &step)) {
			assert_true(!count++ || step.step > before);
			assert_in_range(step.step, 0, history->step_count - 1);
			before = step.step;
			limpet_counts_add(&sum, &step.counts);
		}
		assert_false(steps.failed);
		assert_int_equal(count, history->sites[i].count);
		assert_int_equal(sum.allocations, analysis.model->sites[i].allocations);
		assert_int_equal(sum.freed_bytes, analysis.model->sites[i].freed_bytes);
	}
	close_it();
}

static void test_end_and_steps(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(at_the_end);
	found = assert_grows(LIMPET_FINDINGS_ROSE,
			     "Live bytes grow since 1m10s, by 293.0 KiB, to 1.3 MiB: "
			     "all under grow (called by leak).");
	assert_in_range(found->from_ns, 69500000000, 70500000000);
	assert_true(found->to_ns > found->from_ns);
	close_it();
	capture(in_steps);
	assert_grows(LIMPET_FINDINGS_ROSE, "Live bytes rose in steps, by 585.9 KiB in the second "
					   "half, to 1.9 MiB: all under grow (called by leak).");
	close_it();
}

/* Of the window's own second half, and its own figures. */
static void test_window(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	draw(late_half, ROUNDS, LIMPET_END_STOP);
	find_in(40000000000, 80000000000);
	found = assert_grows(LIMPET_FINDINGS_GROWS, "in the second half of the window, to ");
	assert_in_range(found->bytes, 195 * 3000, 205 * 3000);
	assert_in_range((uint64_t)found->per_second, 29000, 31000);
	close_it();
	draw(in_steps, ROUNDS, LIMPET_END_STOP);
	find_in(36000000000, 48000000000);
	assert_non_null(strstr(only(LIMPET_FINDINGS_STEADY)->text,
			       "in the second half of the window live bytes stayed at "));
	close_it();
	find_in(36000000000, 39000000000);
	assert_non_null(strstr(only(LIMPET_FINDINGS_UNJUDGED)->text, "3.0s is too short"));
	close_it();
}

/* A window has figures of its own: of twice as many blocks, these came in it. */
static void test_kept_in_window(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	draw(slow_leak, ROUNDS, LIMPET_END_STOP);
	find_in(40000000000, 80000000000);
	found = assert_grows(LIMPET_FINDINGS_NEVER_FREED,
			     "grow (called by leak): 8 of the 8 blocks that it allocated in the "
			     "window are still live, 800 B. The first one came 38s before the end");
	assert_int_equal(found->bytes, 800);
	assert_in_range(found->from_ns, 42000000000, 43000000000);
	close_it();
}

static void test_after_a_burst(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(after_a_burst);
	found = assert_grows(LIMPET_FINDINGS_GROWS, "grow (called by leak) grows all the time, by "
						    "29.");
	assert_in_range(found->bytes, 395 * 3000, 405 * 3000);
	close_it();
	capture(fills_up);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	close_it();
}

static void test_beside_a_large_heap(void **state)
{
	(void)state;
	capture(beside_a_large_heap);
	assert_grows(LIMPET_FINDINGS_GROWS, "grow (called by leak) grows all the time, by ");
	close_it();
}

static void test_burst_at_the_middle(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(burst_at_the_middle);
	found = only(LIMPET_FINDINGS_ROSE);
	if (strstr(found->text, "grow (called by leak)"))
		fail_msg("'%s'", found->text);
	close_it();
}

/* The first sentence. */
static void assert_verdict(const char *words, const char *no_words)
{
	struct limpet_verdict verdict;

	assert_int_equal(limpet_verdict_new(&analysis.view, history, NULL, &verdict), 0);
	if (!strstr(verdict.sentences[0], words) ||
	    (no_words && strstr(verdict.sentences[0], no_words)))
		fail_msg("'%s'", verdict.sentences[0]);
	limpet_verdict_done(&verdict);
}

/* The text and, of a single finding, the time. */
static void test_early_burst(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(early_burst);
	found = only(LIMPET_FINDINGS_STEP);
	if (!strstr(found->text, " rose by 9.5 MiB at 20s, and that stayed."))
		fail_msg("'%s'", found->text);
	assert_in_range(found->from_ns, 19000000000, 20200000000);
	assert_in_range(found->to_ns, 20000000000, 21000000000);
	only(LIMPET_FINDINGS_STEADY);
	assert_verdict("rose by 10.5 MiB until 20s and stayed there, under evil", NULL);
	close_it();
}

static void test_refilled(void **state)
{
	(void)state;
	capture(refilled);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEP), 0);
	/* It has gone up and down: what is said is no more than that. */
	assert_true(only(LIMPET_FINDINGS_ROSE)->unclear);
	assert_verdict("goes up and down by 9.5 MiB, and comes back", "rose by");
	close_it();
}

static void test_what_comes_again_has_not_stayed(void **state)
{
	(void)state;
	capture(one_request_after_the_other);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEP), 0);
	close_it();
}

static void test_burst_at_the_end(void **state)
{
	(void)state;
	capture(burst_at_the_end);
	assert_int_equal(count_of(LIMPET_FINDINGS_STEP), 0);
	close_it();
}

static void test_burst_that_shrinks(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(burst_that_shrinks);
	found = only(LIMPET_FINDINGS_STEP);
	if (!strstr(found->text, " rose by 9.5 MiB at 25s; 6.7 MiB of that is left at the end."))
		fail_msg("'%s'", found->text);
	close_it();
}

/* The rate is that of the leak. */
static void test_burst_of_a_leak(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(burst_of_a_leak);
	found = only(LIMPET_FINDINGS_NEVER_FREED);
	if (found->per_second < 29000 || found->per_second > 31000)
		fail_msg("%f", found->per_second);
	found = only(LIMPET_FINDINGS_STEP);
	if (!strstr(found->text, " rose by 9.5 MiB at 55s, and that stayed."))
		fail_msg("'%s'", found->text);
	assert_verdict(", under leak (prog.c:8), through grow: ", NULL);
	close_it();
}

static void test_stops_early(void **state)
{
	(void)state;
	capture(stops_early);
	assert_int_equal(count_of(LIMPET_FINDINGS_GROWS), 0);
	assert_int_equal(count_of(LIMPET_FINDINGS_NEVER_FREED), 0);
	assert_grows(LIMPET_FINDINGS_ROSE, " in the second half, until 1m09s, and stayed at ");
	close_it();
}

static void test_leak_of_a_stack(void **state)
{
	(void)state;
	capture(leak_of_a_stack);
	assert_grows(LIMPET_FINDINGS_NEVER_FREED, "one of its 2 stacks allocated are still live");
	if (!strstr(only(LIMPET_FINDINGS_NEVER_FREED)->text, "a collector of garbage may come"))
		fail_msg("'%s'", only(LIMPET_FINDINGS_NEVER_FREED)->text);
	assert_verdict("grew by 85.9 KiB in 1m20s, under leak (prog.c:8), through grow: ", NULL);
	close_it();
}

static void test_high_water(void **state)
{
	(void)state;
	capture(high_water);
	assert_int_equal(only(LIMPET_FINDINGS_RESIDENT)->bytes, 0);
	assert_verdict("goes up and down by 9.5 MiB, and comes back", NULL);
	close_it();
}

static void test_random_cache(void **state)
{
	(void)state;
	capture(random_cache);
	assert_int_equal(count_of(LIMPET_FINDINGS_NEVER_FREED), 0);
	close_it();
}

static void test_falls(void **state)
{
	(void)state;
	capture(falls);
	if (strstr(only(LIMPET_FINDINGS_STEADY)->text, "live bytes go up and down"))
		fail_msg("'%s'", only(LIMPET_FINDINGS_STEADY)->text);
	close_it();
}

static void test_teeth(void **state)
{
	(void)state;
	capture(teeth);
	assert_grows(LIMPET_FINDINGS_ROSE, "and their lowest points rose by ");
	close_it();
}

static void test_one_block(void **state)
{
	(void)state;
	capture(one_block);
	assert_grows(LIMPET_FINDINGS_GROWS, "grow (called by leak) grows all the time, by 48.");
	close_it();
}

static void test_tiny_blocks(void **state)
{
	(void)state;
	capture(tiny_blocks);
	assert_grows(LIMPET_FINDINGS_ROSE, "Live blocks grow since ");
	close_it();
}

/* ------------------------------------------------------------------ labels, and nothing */

/* One label is one group, whatever the stacks below. */
static void test_label(void **state)
{
	const struct limpet_findings_entry *found;

	(void)state;
	capture(two_stacks);
	found = assert_grows(LIMPET_FINDINGS_GROWS, "grow (called by leak) grows all the time, by "
						    "29.");
	assert_in_range(found->bytes, 395 * 3000, 405 * 3000);
	assert_int_equal(found->node, SAMPLE_LEAK);
	found = only(LIMPET_FINDINGS_HOLDS);
	assert_int_equal(found->bytes, ROUNDS * 3000);
	assert_non_null(strstr(found->text, "in 1.6 k blocks of 2 stacks."));
	close_it();
}

/* Who called it is somebody else. */
static void test_label_of_recursion(void **state)
{
	(void)state;
	capture(calls_itself);
	assert_grows(LIMPET_FINDINGS_GROWS, "spin (called by main) grows all the time, by 29.");
	close_it();
}

static void test_behind_another(void **state)
{
	(void)state;
	capture(behind_another);
	assert_grows(LIMPET_FINDINGS_GROWS, "grow (called by leak) grows all the time, by ");
	assert_non_null(strstr(only(LIMPET_FINDINGS_GROWS)->text,
			       "none of its 800 blocks was ever freed, and they may replace older "
			       "ones that were."));
	close_it();
}

/* What is taken in large round pieces is a pool, where no malloc(3) places them so. */
static void test_pool(void **state)
{
	static const struct {
		const char *file, *words;
	} rows[] = {{"/usr/lib/jvm/lib/server/libjvm.so", "Java"},
		    {"/usr/bin/php8.2", "PHP"},
		    {"/usr/lib/erlang/erts/bin/beam.smp", "Erlang"},
		    {"/usr/bin/node_exporter", NULL},
		    {"/usr/bin/phpish", NULL}};
	const struct limpet_findings_entry *found;

	(void)state;
	capture(pool);
	found = only(LIMPET_FINDINGS_POOL);
	assert_string_equal(found->text,
			    "grow (called by leak) holds 16 large round blocks that begin with a "
			    "page, 4.0 MiB: probably a pool, or stacks, and what they hold is not "
			    "seen. A program can report its pools: limpet.h.");
	assert_int_equal(found->bytes, 4 << 20);
	close_it();
	capture(large_blocks);
	assert_int_equal(count_of(LIMPET_FINDINGS_POOL), 0);
	close_it();
	capture(map_more);
	assert_non_null(strstr(only(LIMPET_FINDINGS_POOL)->text,
			       "spin (called by main) holds 80 large round mappings, 20.0 MiB:"));
	close_it();
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		file_of_runtime = rows[i].file;
		draw(runtime, 100, LIMPET_END_STOP);
		find_in(0, 0);
		assert_int_equal(count_of(LIMPET_FINDINGS_POOL), rows[i].words != NULL);
		if (rows[i].words)
			assert_non_null(strstr(only(LIMPET_FINDINGS_POOL)->text, rows[i].words));
		close_it();
	}
}

static void test_nothing(void **state)
{
	(void)state;
	capture(cache);
	assert_string_equal(only(LIMPET_FINDINGS_STEADY)->text,
			    "Nothing grows: in the second half live bytes stayed at 1.0 MiB in 64 "
			    "blocks; RSS stayed at 49.0 MiB; 4 threads.");
	close_it();
	capture(touch_little);
	assert_non_null(
		strstr(only(LIMPET_FINDINGS_STEADY)->text,
		       "No clear growth, only what is too little or too uneven to count: in "
		       "the second half live bytes stayed at "));
	assert_non_null(strstr(only(LIMPET_FINDINGS_STEADY)->text, "; RSS rose by "));
	close_it();
	capture(rest);
	assert_string_equal(only(LIMPET_FINDINGS_IDLE)->text,
			    "No call was seen in 1m20s: the program was idle, used memory that it "
			    "had, or has an allocator that limpet does not follow.");
	close_it();
	draw(rest, 9, LIMPET_END_STOP);
	find_in(0, 0);
	only(LIMPET_FINDINGS_IDLE);
	assert_int_equal(findings->count, 1);
	close_it();
	draw(cache, 9, LIMPET_END_STOP);
	find_in(0, 0);
	assert_non_null(strstr(only(LIMPET_FINDINGS_UNJUDGED)->text, "that takes 4s at least."));
	assert_int_equal(count_of(LIMPET_FINDINGS_STEADY), 0);
	close_it();
	capture(frees_only);
	only(LIMPET_FINDINGS_STEADY);
	close_it();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_resident),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_slow_leak),
		cmocka_unit_test(test_steps_of_sites),
		cmocka_unit_test(test_many_sites),
		cmocka_unit_test(test_end_and_steps),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_kept_in_window),
		cmocka_unit_test(test_after_a_burst),
		cmocka_unit_test(test_beside_a_large_heap),
		cmocka_unit_test(test_burst_at_the_middle),
		cmocka_unit_test(test_early_burst),
		cmocka_unit_test(test_refilled),
		cmocka_unit_test(test_what_comes_again_has_not_stayed),
		cmocka_unit_test(test_burst_at_the_end),
		cmocka_unit_test(test_burst_that_shrinks),
		cmocka_unit_test(test_burst_of_a_leak),
		cmocka_unit_test(test_stops_early),
		cmocka_unit_test(test_leak_of_a_stack),
		cmocka_unit_test(test_high_water),
		cmocka_unit_test(test_random_cache),
		cmocka_unit_test(test_falls),
		cmocka_unit_test(test_teeth),
		cmocka_unit_test(test_one_block),
		cmocka_unit_test(test_tiny_blocks),
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_label_of_recursion),
		cmocka_unit_test(test_behind_another),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_emptied),
		cmocka_unit_test(test_handed_over),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
