/* What a report says in words, of captures by a clock of their own: a program with the habits of
 * test/targets/habits.c, a round a millisecond, looked at every half second. */
#include "test/unit/sample_trace.h"

#include "analyzer/model/filter.h"
#include "analyzer/model/history.h"
#include "analyzer/seal/seal.h"
#include "analyzer/views/analysis.h"
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
static struct limpet_dropped dropped;                      /* told at the end */
static uint64_t losses;                                    /* likewise */
static const struct limpet_resident_account *account_then; /* likewise */
static const struct limpet_object_counts *objects_then;
static struct limpet_analysis analysis;
static struct limpet_history *history;
static struct limpet_verdict verdict;

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
						.account = account_then,
						.objects = objects_then,
						.leaks = sample.leaks,
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
	assert_int_equal(
		limpet_verdict_new(&analysis.view, history, analysis.reader, NULL, &verdict), 0);
}

static void close_it(void)
{
	limpet_verdict_done(&verdict);
	limpet_history_free(history);
	limpet_analysis_close(&analysis);
}

static void capture(const struct habits *habits, unsigned count)
{
	begin();
	follow(habits, count);
	finish(LIMPET_END_STOP);
}

/* ------------------------------------------------------------------ what is said */

/* NULL: none of this kind. */
static const struct limpet_heap_finding *find(enum limpet_heap_finding_kind kind)
{
	const struct limpet_heap_finding *found = NULL;

	for (size_t i = 0; i < verdict.findings.count; i++)
		if (verdict.findings.list[i].kind == kind) {
			assert_null(found);
			found = &verdict.findings.list[i];
		}
	return found;
}

/* The first sentence, and the function that it is about. */
static void assert_verdict(enum limpet_heap_finding_kind kind, const char *sentence,
			   const char *culprit)
{
	assert_string_equal(verdict.sentences[0], sentence);
	assert_int_equal(verdict.about.kind, kind);
	if (culprit)
		assert_string_equal(verdict.about.culprit.function, culprit);
	else
		assert_null(verdict.about.culprit.function);
}

/* ------------------------------------------------------------------ habits */

/* A leak grows; a cache, what was loaded at the start and churn do not. */
static void test_leak(void **state)
{
	static const struct habits all = {.leak = true, .cache = true, .churn = true, .load = true};
	const struct limpet_heap_finding *found;

	(void)state;
	capture(&all, 8000);
	assert_verdict(LIMPET_HEAP_LEAK,
		       "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow: "
		       "none of 8.0 k blocks was freed.",
		       "leak");
	assert_int_equal(verdict.about.bytes, 8000 * LEAK_BYTES);
	assert_string_equal(verdict.about.evidence,
			    "683.6 KiB a second; 8.0 k blocks allocated, 0 freed, by 1 stack; from "
			    "750ms to 7.4s");
	found = find(LIMPET_HEAP_CHURNS);
	assert_non_null(found);
	assert_non_null(strstr(found->text, " makes 95 % of all allocations, 40.0 k/s; nearly all "
					    "are freed again."));
	assert_true(found->share > 0.95 && found->share < 0.96);
	/* It is the verdict's. */
	assert_null(find(LIMPET_HEAP_HOLDS));
	assert_int_equal(verdict.findings.count, 1);
	close_it();
}

/* A second function that grows is a finding, if what it grows by matters. */
static void test_further(void **state)
{
	static const struct habits leak = {.leak = true};
	static const unsigned each[] = {10, 200};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(each); i++) {
		begin();
		for (unsigned round = 0; round < 80; round++) {
			follow(&leak, 100);
			for (unsigned k = 0; k < each[i]; k++)
				sample_allocate(&sample, recorder, LOAD, 100);
		}
		finish(LIMPET_END_STOP);
		assert_non_null(strstr(verdict.sentences[0], "under leak (prog.c:8)"));
		if (each[i] == 10) {
			assert_int_equal(verdict.findings.count, 0);
		} else {
			assert_int_equal(verdict.findings.count, 1);
			assert_non_null(strstr(verdict.findings.list[0].text,
					       " grew by 1.5 MiB: none of 16.0 k blocks was "
					       "freed."));
			assert_int_equal(verdict.findings.list[0].kind, LIMPET_HEAP_LEAK);
			assert_int_equal(verdict.findings.list[0].bytes, 1600000);
		}
		close_it();
	}
}

/* A cache that is full is steady, and so is a program that only churns. */
static void test_steady(void **state)
{
	static const struct habits all = {.cache = true, .churn = true, .load = true};

	(void)state;
	capture(&all, 8000);
	assert_verdict(LIMPET_HEAP_STEADY,
		       "Nothing grows: of what was allocated in 8.0s, 3.1 MiB is live, 62 % of it "
		       "under evil?[31m??.so+0x1234.",
		       NULL);
	assert_non_null(find(LIMPET_HEAP_CHURNS));
	/* The verdict says it. */
	assert_null(find(LIMPET_HEAP_HOLDS));
	close_it();
}

/* Less than a thousand calls a second is no churn. */
static void test_little_churn(void **state)
{
	static const struct habits all = {.churn = true, .late = 7820};

	(void)state;
	capture(&all, 8000);
	assert_null(find(LIMPET_HEAP_CHURNS));
	close_it();
}

/* Too short a capture says nothing of growth; the shortest that does. */
static void test_short(void **state)
{
	static const struct habits leak = {.leak = true};
	static const struct {
		unsigned rounds;
		enum limpet_heap_finding_kind kind;
		const char *sentence, *culprit;
	} rows[] = {
		{1000, LIMPET_HEAP_STEADY,
		 "1.0s is too short to tell what grows (4 s would do); 683.6 KiB is live, 100 % of "
		 "it under leak "
		 "(prog.c:8), through grow.",
		 NULL},
		{3999, LIMPET_HEAP_STEADY,
		 "4.0s is too short to tell what grows (4 s would do); 2.7 MiB is live, 100 % of "
		 "it under leak "
		 "(prog.c:8), through grow.",
		 NULL},
		{4000, LIMPET_HEAP_LEAK,
		 "Live memory grew by 2.7 MiB in 4.0s, under leak (prog.c:8), through grow: none "
		 "of 4.0 k blocks was freed.",
		 "leak"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		capture(&leak, rows[i].rounds);
		assert_verdict(rows[i].kind, rows[i].sentence, rows[i].culprit);
		close_it();
	}
}

/* A leak that came to rest in the first half, as when the load stops; one that began in the second;
 * what came as the capture began, as a cache that fills. */
static void test_growth_of_a_half(void **state)
{
	static const struct habits leak = {.leak = true}, late = {.leak = true, .late = 6000};

	(void)state;
	begin();
	follow(&leak, 2000);
	follow(&(struct habits){.late = 6000}, 6000);
	finish(LIMPET_END_STOP);
	assert_verdict(LIMPET_HEAP_RISE,
		       "Live memory rose by 1.3 MiB until 1.9s and stayed there, under leak "
		       "(prog.c:8), through grow: none of 2.0 k blocks was freed.",
		       "leak");
	close_it();
	capture(&late, 8000);
	assert_verdict(LIMPET_HEAP_LEAK,
		       "Live memory grew by 1.3 MiB in 8.0s, under leak (prog.c:8), through grow: "
		       "none of 2.0 k blocks was freed.",
		       "leak");
	close_it();
	begin();
	follow(&leak, 800);
	follow(&(struct habits){.late = 7200}, 7200);
	finish(LIMPET_END_STOP);
	assert_int_equal(verdict.about.kind, LIMPET_HEAP_STEADY);
	close_it();
}

/* As a realloc leaves it. */
static uint64_t move_block(uint64_t block, uint64_t usable, uint64_t size)
{
	struct limpet_record record = {.time_ns = sample.now_ns,
				       .address = block,
				       .size = usable,
				       .thread = 4711,
				       .kind = LIMPET_EVENT_FREE,
				       .realloc = true};

	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
	record.address = sample.next_block;
	record.size = size;
	record.node = LEAK;
	record.kind = LIMPET_EVENT_ALLOC;
	sample.next_block += (size + 31) & ~15ull;
	assert_true(limpet_recorder_add_event(recorder, &record) >= 0);
	return record.address;
}

/* `once`: each block grows once, and one in `kept` stays. Else one block grows in all rounds. */
static void grow_blocks(bool once, unsigned kept)
{
	uint64_t block = 0;

	begin();
	for (unsigned round = 0; round < 8000; round++) {
		pass_round();
		if (once || !block)
			block = sample_allocate(&sample, recorder, once ? LEAK : RISE, 500);
		block = move_block(block, 508, once ? 1000 : 500 + 500 * round);
		if (once && round % kept)
			sample_release(&sample, recorder, block, 1008);
	}
	finish(LIMPET_END_STOP);
}

/* A realloc does not free a block: many that grow are a leak, one that grows is growth. */
static void test_reallocs(void **state)
{
	(void)state;
	grow_blocks(false, 1);
	assert_verdict(LIMPET_HEAP_GROWTH,
		       "Live memory grew by 3.8 MiB in 8.0s, under leak (prog.c:8), through grow: "
		       "one block, reallocated 8.0 k times.",
		       "leak");
	assert_non_null(strstr(verdict.about.evidence,
			       "; 1 blocks allocated, 8.0 k reallocations, 0 freed, by 1 stack;"));
	assert_null(find(LIMPET_HEAP_CHURNS));
	close_it();
	grow_blocks(true, 1);
	assert_verdict(LIMPET_HEAP_LEAK,
		       "Live memory grew by 7.6 MiB in 8.0s, under leak (prog.c:8), through grow: "
		       "none of 8.0 k blocks was freed.",
		       "leak");
	assert_null(find(LIMPET_HEAP_CHURNS));
	close_it();
	grow_blocks(true, 4);
	assert_verdict(LIMPET_HEAP_GROWTH,
		       "Live memory grew by 1.9 MiB in 8.0s, under leak (prog.c:8), through grow: "
		       "2.0 k blocks are live.",
		       "leak");
	close_it();
}

/* A cache that was there before the capture is no leak: its blocks are replaced one after the
 * other, and as much was freed as is new. */
static void test_turnover(void **state)
{
	static const struct habits slow = {.slow = true};

	(void)state;
	capture(&slow, 5000);
	assert_int_equal(analysis.model->totals.foreign_frees, 5000);
	assert_int_equal(analysis.model->totals.live_bytes, 5000 * CACHE_BYTES);
	assert_verdict(LIMPET_HEAP_STEADY,
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

/* What rises and falls is no growth, whether the program ends or goes on. */
static void test_rise_and_fall(void **state)
{
	static const enum limpet_end ends[] = {LIMPET_END_TARGET_EXIT, LIMPET_END_STOP};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(ends); i++) {
		rise_and_fall(3000, 2000, 1000, true, RISE_BLOCKS * 1024ull);
		finish(ends[i]);
		assert_verdict(LIMPET_HEAP_STEADY,
			       "Nothing grows: live memory goes up and down by 46.9 MiB, and comes "
			       "back.",
			       NULL);
		close_it();
	}
}

/* What is left of a rise after a fall is held. */
static void test_left_after_a_fall(void **state)
{
	(void)state;
	rise_and_fall(10, 1500, 3000, false, 0);
	finish(LIMPET_END_STOP);
	assert_int_equal(verdict.about.kind, LIMPET_HEAP_STEADY);
	assert_non_null(find(LIMPET_HEAP_HOLDS));
	assert_int_equal(find(LIMPET_HEAP_HOLDS)->bytes, RISE_BLOCKS / 4 * RISE_BYTES);
	close_it();
}

/* What was lost may be all that happened, or all that grew. */
static void test_hidden(void **state)
{
	static const struct habits nothing = {0}, cache = {.cache = true};

	(void)state;
	dropped = (struct limpet_dropped){.allocations = 1000000, .allocated_bytes = 1u << 30};
	capture(&nothing, 8000);
	assert_verdict(LIMPET_HEAP_STEADY, "No call was recorded in 8.0s, but 1.0 M were lost.",
		       NULL);
	close_it();
	capture(&cache, 8000);
	assert_non_null(strstr(verdict.sentences[0], "Nothing that was recorded grows: "));
	close_it();
	dropped = (struct limpet_dropped){0};
	capture(&nothing, 8000);
	assert_verdict(LIMPET_HEAP_STEADY, "Nothing was allocated or freed in 8.0s.", NULL);
	close_it();
}

/* Of pages it is known who touched them first, not what uses them now: no function is said to hold
 * memory, or not to free it. */
static void test_pages(void **state)
{
	static const struct habits all = {.leak = true, .churn = true};
	static const char *const not_known[] = {"hold", "live", "freed", "leaks", ") grow"};

	(void)state;
	sample.pages = true;
	begin();
	for (unsigned i = 0; i < 16; i++) {
		follow(&all, 500);
		rss_bytes += 500 * LEAK_BYTES;
	}
	finish(LIMPET_END_STOP);
	sample.pages = false;
	assert_verdict(LIMPET_HEAP_LEAK,
		       "5.3 MiB more of new pages are resident, first touched under leak "
		       "(prog.c:8), through grow.",
		       "leak");
	assert_non_null(strstr(verdict.sentences[1] ?: "", "tells what keeps pages, if it can "
							   "follow the allocator."));
	assert_non_null(find(LIMPET_HEAP_CHURNS));
	assert_non_null(strstr(find(LIMPET_HEAP_CHURNS)->text, "all are returned again."));
	for (size_t i = 0; i < verdict.findings.count; i++)
		for (size_t k = 0; k < LIMPET_COUNT_OF(not_known); k++)
			if (strstr(verdict.findings.list[i].text, not_known[k]))
				fail_msg("not known of pages: %s", verdict.findings.list[i].text);
	close_it();
}

/* ------------------------------------------------------------------ objects */

static struct limpet_resident_account account_of(struct limpet_resident_row *row, uint64_t bytes)
{
	*row = (struct limpet_resident_row){
		.kind = "v8-heap", .owner = "V8's heap", .bytes = bytes};
	return (struct limpet_resident_account){
		.known = true, .rss_bytes = bytes, .rows = row, .count = 1};
}

/* Of a heap of V8 that grows by 20 MiB the objects that became more. */
static void assert_objects(const struct limpet_object_counts *before,
			   const struct limpet_object_counts *after, const char *sentence)
{
	static const struct habits nothing = {0};
	struct limpet_resident_row rows[2];
	const struct limpet_resident_account first = account_of(&rows[0], 10 << 20);
	const struct limpet_resident_account last = account_of(&rows[1], 30 << 20);

	sample.account = &first;
	sample.objects = before;
	account_then = &last;
	objects_then = after;
	capture(&nothing, 8000);
	assert_int_equal(verdict.about.kind, LIMPET_HEAP_RUNTIME);
	assert_string_equal(verdict.sentences[0], sentence);
	close_it();
	sample.account = account_then = NULL;
	sample.objects = objects_then = NULL;
}

static void test_objects(void **state)
{
	struct limpet_object_row before[] = {
		{LIMPET_OBJECT_INSTANCES, "Session", "file:///srv/chain.js", 12, 500, 20000, 0},
		{LIMPET_OBJECT_INSTANCES, "Session", "file:///srv/other.js", 12, 90000, 2000000, 0},
	};
	struct limpet_object_row after[] = {
		{LIMPET_OBJECT_INSTANCES, "Object", "", 0, 90000, 9000000, 0},
		{LIMPET_OBJECT_STRINGS, "characters", "", 0, 90000, 8000000, 0},
		{LIMPET_OBJECT_INSTANCES, "Session", "file:///srv/other.js", 12, 90000, 2000000, 0},
		{LIMPET_OBJECT_INSTANCES, "Timer", "node:timers", 8, 99000, 4000000, 0},
		{LIMPET_OBJECT_INSTANCES, "Session", "file:///srv/chain.js", 12, 40500, 1620000,
		 2000000},
	};
	const struct limpet_object_counts first = {true, before, 2}, last = {true, after, 5};
	const struct limpet_object_counts unknown = {.known = false};

	(void)state;
	/* What the program's own code makes, if it is a tenth of the growth. */
	assert_objects(&first, &last,
		       "JavaScript objects grew by 20.0 MiB in 8.0s, to 30.0 MiB: 40.0 k more of "
		       "Session (chain.js:12).");
	after[4].outside_bytes = 0;
	after[4].count = 600;
	after[4].bytes = 24000;
	assert_objects(&first, &last,
		       "JavaScript objects grew by 20.0 MiB in 8.0s, to 30.0 MiB: 90.0 k more of "
		       "Object, and 100 more of Session (chain.js:12).");
	after[4].count = 510;
	assert_objects(&first, &last,
		       "JavaScript objects grew by 20.0 MiB in 8.0s, to 30.0 MiB: 90.0 k more of "
		       "Object.");
	after[4] = (struct limpet_object_row){
		LIMPET_OBJECT_CLOSURES, "(anonymous)", "/srv/bus.js", 9, 30000, 9000000, 0};
	assert_objects(&first, &last,
		       "JavaScript objects grew by 20.0 MiB in 8.0s, to 30.0 MiB: 30.0 k more "
		       "closures made at bus.js:9.");
	after[4] = (struct limpet_object_row){
		LIMPET_OBJECT_CLOSURES, "onTick", "/srv/bus.js", 7, 30000, 9000000, 0};
	assert_objects(&first, &last,
		       "JavaScript objects grew by 20.0 MiB in 8.0s, to 30.0 MiB: 30.0 k more "
		       "closures of onTick (bus.js:7).");
	assert_objects(&unknown, &last,
		       "V8's heap (JavaScript) grew by 20.0 MiB in 8.0s, to 30.0 MiB: objects of "
		       "the language, no leak of native memory.");
}

/* ------------------------------------------------------------------ lost blocks */

static struct limpet_leak_counts leaks_of(struct limpet_leak_site_counts *sites, size_t count)
{
	struct limpet_leak_counts counts = {
		.known = true, .is_certain = true, .sites = sites, .count = count};

	for (size_t i = 0; i < count; i++)
		for (unsigned k = 0; k < LIMPET_LEAK_STATES; k++) {
			counts.amounts.of[k].blocks += sites[i].amounts.of[k].blocks;
			counts.amounts.of[k].bytes += sites[i].amounts.of[k].bytes;
		}
	return counts;
}

static void lose(struct limpet_leak_site_counts *site, enum limpet_leak_state state,
		 uint64_t blocks, uint64_t bytes)
{
	site->amounts.of[state] = (struct limpet_leak_amount){blocks, blocks * bytes};
}

/* Of a leak that goes on: lost, lost by all that was seen, for the lesser part, and held. */
static void test_lost_growth(void **state)
{
	static const struct habits leak = {.leak = true};
	static const struct {
		uint64_t lost;
		bool is_certain;
		const char *holder, *sentence;
	} rows[] = {
		{7900, true, "sessions (server.c:31)",
		 "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow, and "
		 "7.9 k of its 8.0 k blocks are lost: nothing points to them."},
		{7900, false, "",
		 "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow, and "
		 "7.9 k of its 8.0 k blocks are probably lost: nothing points to them."},
		{4000, true, "sessions (server.c:31)",
		 "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow, held "
		 "by sessions (server.c:31): none of 8.0 k blocks was freed."},
		{100, true, "a\x1b[31m (x.c:1)",
		 "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow, held "
		 "by a?[31m (x.c:1): none of 8.0 k blocks was freed."},
		{100, true, "",
		 "Live memory grew by 5.3 MiB in 8.0s, under leak (prog.c:8), through grow: none "
		 "of 8.0 k blocks was freed."},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		struct limpet_leak_site_counts site = {.node = LEAK};
		struct limpet_leak_counts leaks;

		lose(&site, LIMPET_LEAK_DEFINITELY, rows[i].lost, LEAK_BYTES);
		lose(&site, LIMPET_LEAK_REACHABLE, 8000 - rows[i].lost, LEAK_BYTES);
		strcpy(site.holder, rows[i].holder);
		leaks = leaks_of(&site, 1);
		leaks.is_certain = rows[i].is_certain;
		sample.leaks = &leaks;
		capture(&leak, 8000);
		assert_verdict(LIMPET_HEAP_LEAK, rows[i].sentence, "leak");
		/* What is lost beside growth that is held is a finding. */
		assert_int_equal(find(LIMPET_HEAP_LEAK) != NULL,
				 rows[i].lost < 7900 && rows[i].lost * LEAK_BYTES > 64 << 10);
		close_it();
	}
	sample.leaks = NULL;
}

/* Where blocks were lost at one time, or others are freed, it is a leak nevertheless. A holder of
 * less than half of the blocks is not named. */
static void test_lost_rise(void **state)
{
	static const struct habits leak = {.leak = true};
	struct limpet_leak_site_counts sites[] = {{.node = LEAK}, {.node = RISE}};
	struct limpet_leak_counts leaks;

	(void)state;
	lose(&sites[0], LIMPET_LEAK_INDIRECTLY, 2000, LEAK_BYTES);
	leaks = leaks_of(sites, 1);
	sample.leaks = &leaks;
	begin();
	follow(&leak, 2000);
	follow(&(struct habits){.late = 6000}, 6000);
	finish(LIMPET_END_STOP);
	assert_verdict(LIMPET_HEAP_LEAK,
		       "Live memory grew by 1.3 MiB in 8.0s, under leak (prog.c:8), through grow, "
		       "and 2.0 k of its 2.0 k blocks are lost: nothing points to them.",
		       "leak");
	assert_true(verdict.changed);
	close_it();
	sites[0].amounts = (struct limpet_leak_amounts){0};
	lose(&sites[0], LIMPET_LEAK_REACHABLE, 1000, 1000);
	lose(&sites[1], LIMPET_LEAK_REACHABLE, 1100, 1000);
	for (unsigned i = 0; i < 3; i++) {
		strcpy(sites[0].holder, i ? "sessions (server.c:31)" : "others (server.c:32)");
		strcpy(sites[1].holder, i < 2 ? "sessions (server.c:31)" : "");
		leaks = leaks_of(sites, 2);
		begin();
		for (unsigned round = 0; round < 8000; round++) {
			pass_round();
			sample_allocate(&sample, recorder, round % 2 ? LEAK : RISE, 500);
		}
		finish(LIMPET_END_STOP);
		assert_int_equal(strstr(verdict.sentences[0],
					", held by sessions (server.c:31): none of ") != NULL,
				 i < 2);
		assert_null(strstr(verdict.sentences[0], "others"));
		close_it();
	}
	sample.leaks = NULL;
}

/* Where nothing grows what is lost is said, if it is enough of it. */
static void test_lost_at_rest(void **state)
{
	static const struct habits load = {.load = true};
	struct limpet_leak_site_counts site = {.node = LOAD};
	struct limpet_leak_counts leaks;

	(void)state;
	lose(&site, LIMPET_LEAK_DEFINITELY, 5, LOAD_BYTES);
	lose(&site, LIMPET_LEAK_REACHABLE, LOAD_BLOCKS - 5, LOAD_BYTES);
	leaks = leaks_of(&site, 1);
	sample.leaks = &leaks;
	capture(&load, 8000);
	assert_string_equal(
		verdict.sentences[0],
		"19.5 KiB in 5 blocks are lost: nothing points to them; allocated under "
		"evil?[31m??.so+0x1234.");
	assert_int_equal(verdict.about.kind, LIMPET_HEAP_LEAK);
	assert_int_equal(verdict.about.bytes, 5 * LOAD_BYTES);
	assert_true(verdict.about.share > 0.0099 && verdict.about.share < 0.0101);
	/* It lies there: nothing is known of when. */
	assert_false(verdict.changed);
	assert_int_equal(verdict.about.to_ns, 0);
	close_it();
	lose(&site, LIMPET_LEAK_DEFINITELY, 4, LOAD_BYTES);
	leaks = leaks_of(&site, 1);
	capture(&load, 8000);
	assert_int_equal(verdict.about.kind, LIMPET_HEAP_STEADY);
	assert_null(find(LIMPET_HEAP_LEAK));
	close_it();
	lose(&site, LIMPET_LEAK_DEFINITELY, 0, 0);
	lose(&site, LIMPET_LEAK_PROBABLY, 1, 66000);
	leaks = leaks_of(&site, 1);
	capture(&load, 8000);
	assert_non_null(strstr(verdict.sentences[0],
			       "64.5 KiB in 1 block is probably lost: nothing points to it; "));
	close_it();
	sample.leaks = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leak),          cmocka_unit_test(test_further),
		cmocka_unit_test(test_steady),        cmocka_unit_test(test_little_churn),
		cmocka_unit_test(test_short),         cmocka_unit_test(test_growth_of_a_half),
		cmocka_unit_test(test_reallocs),      cmocka_unit_test(test_turnover),
		cmocka_unit_test(test_rise_and_fall), cmocka_unit_test(test_left_after_a_fall),
		cmocka_unit_test(test_hidden),        cmocka_unit_test(test_pages),
		cmocka_unit_test(test_objects),       cmocka_unit_test(test_lost_growth),
		cmocka_unit_test(test_lost_rise),     cmocka_unit_test(test_lost_at_rest),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
