/* Whoever shows a figure shows the same: text, JSON and the data of the page, of traces that are
 * drawn at random. With mappings, samples, drops, threads, windows, sums without single events.
 *
 * LIMPET_SAME_SEEDS=N: so many traces instead of the few that are always tried; a failure names the
 * seed, which LIMPET_SAME_FIRST=SEED begins with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyzer/html/html.h"
#include "analyzer/text/report_json.h"
#include "analyzer/text/report_text.h"
#include "analyzer/views/analysis.h"
#include "common/units.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

enum { SEEDS = 30, SITES = 12, BLOCKS = 600, PAGES = 40, THREADS = 4, STEPS = 12000, PARTS = 240 };

static uint64_t seed;

/* ------------------------------------------------------------------ drawn */

struct drawn {
	struct limpet_recorder *recorder;
	uint64_t random, now_ns, pace_ns;
	uint64_t sample_bytes;
	bool drops, dropping, compact;
	unsigned leak_share; /* of a hundred steps, so many leak */
	bool live[BLOCKS], in_trace[BLOCKS];
	uint64_t size[BLOCKS], leaked;
	struct limpet_recorder_tick tick;
};

static uint64_t below(struct drawn *drawn, uint64_t limit)
{
	drawn->random = drawn->random * 6364136223846793005ull + 1442695040888963407ull;
	return (drawn->random >> 33) % limit;
}

static void tell(struct drawn *drawn, uint32_t kind, uint64_t address, uint64_t size, uint32_t node)
{
	const struct limpet_record record = {.time_ns = drawn->now_ns,
					     .address = address,
					     .size = size,
					     .node = node,
					     .thread = 100 + (uint32_t)below(drawn, THREADS),
					     .kind = kind};
	struct limpet_dropped *dropped = &drawn->tick.dropped;
	uint64_t *const kinds[][2] = {
		[LIMPET_EVENT_ALLOC] = {&dropped->allocations, &dropped->allocated_bytes},
		[LIMPET_EVENT_FREE] = {&dropped->frees, &dropped->freed_bytes},
		[LIMPET_EVENT_MMAP] = {&dropped->mmaps, &dropped->mmap_bytes},
		[LIMPET_EVENT_MUNMAP] = {&dropped->munmaps, &dropped->munmap_bytes},
	};

	if (!drawn->dropping) {
		assert_int_equal(limpet_recorder_add_event(drawn->recorder, &record), 0);
		return;
	}
	drawn->tick.dropped_events++;
	*kinds[kind][0] += 1;
	*kinds[kind][1] += size;
}

static bool is_sampled(struct drawn *drawn, uint64_t size)
{
	const double share =
		drawn->sample_bytes
			? 1 - exp(-(double)limpet_sample_charge(size) / (double)drawn->sample_bytes)
			: 1;

	return (double)below(drawn, 1u << 20) < share * (1u << 20);
}

static void step_block(struct drawn *drawn)
{
	const unsigned at = (unsigned)below(drawn, BLOCKS);
	const uint64_t address = 0x7f0000000000ull + at * 8192ull;

	drawn->live[at] = !drawn->live[at];
	if (!drawn->live[at]) {
		if (drawn->in_trace[at])
			tell(drawn, LIMPET_EVENT_FREE, address, (drawn->size[at] + 23) / 16 * 16,
			     0);
		return;
	}
	drawn->size[at] = below(drawn, 20) ? below(drawn, 600) : below(drawn, 1u << 20);
	drawn->in_trace[at] = is_sampled(drawn, drawn->size[at]);
	if (drawn->in_trace[at])
		tell(drawn, LIMPET_EVENT_ALLOC, address, drawn->size[at],
		     (uint32_t)below(drawn, SITES) + 1);
}

static void step_pages(struct drawn *drawn)
{
	const uint64_t first = below(drawn, PAGES), count = 1 + below(drawn, PAGES - first);

	tell(drawn, below(drawn, 2) ? LIMPET_EVENT_MMAP : LIMPET_EVENT_MUNMAP,
	     0x7d0000000000ull + first * 4096, count * 4096, (uint32_t)below(drawn, SITES) + 1);
}

static void step(struct drawn *drawn)
{
	const uint64_t what = below(drawn, 100);

	drawn->now_ns += 1 + below(drawn, drawn->pace_ns);
	if (drawn->drops && below(drawn, 700) == 0)
		drawn->dropping = !drawn->dropping;
	if (what == 0)
		step_pages(drawn);
	else if (what < 3 && !drawn->sample_bytes)
		tell(drawn, LIMPET_EVENT_FREE, 0x5550000 + below(drawn, 1000) * 16, 32, 0);
	else if (what < 3 + drawn->leak_share && is_sampled(drawn, 900))
		tell(drawn, LIMPET_EVENT_ALLOC, 0x600000000000ull + drawn->leaked++ * 1024, 900, 1);
	else
		step_block(drawn);
}

static void draw_trace(const char *path)
{
	struct limpet_recorder_options options = trace_options(path);
	struct drawn drawn = {.random = seed * LIMPET_GOLDEN};
	const struct limpet_recorder_end end = {.end = LIMPET_END_STOP};
	struct limpet_recorder_end last = end;
	const struct limpet_recorder_module module = {
		.start = 0x400000, .end = 0x500000, .bias = 0x400000, .path = "/usr/bin/drawn"};

	unlink(path);
	drawn.pace_ns = below(&drawn, 3) ? 1600000 : 40000;
	drawn.drops = below(&drawn, 3) == 0;
	drawn.leak_share = below(&drawn, 2) ? 10 : 0;
	options.sampling.bytes = drawn.sample_bytes = below(&drawn, 4) ? 0 : 4096;
	options.compact = !drawn.sample_bytes && below(&drawn, 5) == 0;
	options.mode = below(&drawn, 2) ? LIMPET_MODE_RUN : LIMPET_MODE_ATTACH;
	if (below(&drawn, 4) == 0)
		options.memory_bytes = 20000; /* some blocks find no room */
	drawn.recorder = trace_record(&options);
	assert_int_equal(limpet_recorder_add_module(drawn.recorder, &module), 1);
	for (uint32_t i = 1; i <= SITES; i++)
		assert_int_equal(
			limpet_recorder_add_node(drawn.recorder, i, i / 3, 0x400000 + i * 16, 1, 0),
			0);
	for (unsigned i = 0; i < STEPS; i++) {
		step(&drawn);
		drawn.tick.time_ns = drawn.now_ns;
		drawn.tick.rss_bytes = 50000000 + below(&drawn, 1u << 20);
		drawn.tick.agent_bytes = 2000000 + i * 100ull;
		if (below(&drawn, 150) == 0)
			assert_int_equal(limpet_recorder_tick(drawn.recorder, &drawn.tick), 0);
	}
	last.time_ns = drawn.tick.time_ns = drawn.now_ns + 1000;
	assert_int_equal(limpet_recorder_finish(drawn.recorder, &drawn.tick, &last), 0);
	limpet_recorder_free(drawn.recorder);
}

/* ------------------------------------------------------------------ shown */

struct shown {
	struct limpet_analysis analysis;
	char *text;
	json_t *json, *page;
};

static char *print_report(const struct limpet_analysis *analysis,
			  const struct limpet_verdict *verdict, bool json)
{
	const struct limpet_report_options options = {.sort = json ? LIMPET_REPORT_ALLOCATED
								   : LIMPET_REPORT_LIVE,
						      .limit = SIZE_MAX,
						      .merge = !json,
						      .capture_events = analysis->events,
						      .verdict = verdict};
	const struct limpet_report_text_options text = {
		.bold = "", .dim = "", .warn = "", .plain = ""};
	struct limpet_report *report;
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);

	assert_int_equal(limpet_report_new(analysis->model, &options, &report), 0);
	assert_int_equal(json ? limpet_report_json_print(report, file)
			      : limpet_report_text_print(report, &text, file),
			 0);
	limpet_report_free(report);
	assert_int_equal(fclose(file), 0);
	return out;
}

static json_t *parse(const char *text, size_t flags)
{
	json_error_t error;
	json_t *root = json_loads(text, flags, &error);

	if (!root)
		fail_msg("seed %lu: line %d: %s", (unsigned long)seed, error.line, error.text);
	return root;
}

/* What a browser reads of an element of the page: base64, in which zlib's bytes are. */
static json_t *page_part(const char *page, const char *id)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char begin[64], *text = calloc(1, 1 << 24);
	uint8_t *packed = calloc(1, 1 << 24);
	const char *from, *digit;
	uLongf bytes = (1 << 24) - 1;
	uint32_t word = 0;
	size_t count = 0;
	json_t *root;

	snprintf(begin, sizeof(begin), "id=\"%s\">", id);
	from = strstr(page, begin);
	assert_true(from && text && packed);
	from += strlen(begin);
	for (unsigned i = 1; (digit = *from ? strchr(digits, *from) : NULL); i++, from++) {
		word = word << 6 | (uint32_t)(digit - digits);
		if (i % 4 != 1)
			packed[count++] = (uint8_t)(word >> (8 - i % 4 * 2) % 8);
	}
	assert_int_equal(uncompress((Bytef *)text, &bytes, packed, count), Z_OK);
	root = parse(text, 0);
	free(text);
	free(packed);
	return root;
}

static json_t *print_page(const struct limpet_analysis *analysis,
			  const struct limpet_history *history,
			  const struct limpet_verdict *verdict)
{
	const struct limpet_replay_options selection = {0};
	struct limpet_html_subject subject = {.reader = analysis->reader,
					      .model = analysis->model,
					      .history = history,
					      .verdict = verdict,
					      .events = analysis->events};
	struct limpet_thread_timeline *thread_timeline = NULL;
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);
	int code = limpet_thread_timeline_build(analysis->reader, analysis->model, history,
						&selection, &thread_timeline);
	json_t *root, *lives;

	assert_true(code == 0 || code == -ENODATA);
	subject.thread_timeline = thread_timeline;
	assert_int_equal(limpet_html_print(&subject, file), 0);
	assert_int_equal(fclose(file), 0);
	root = page_part(out, "data");
	lives = thread_timeline ? page_part(out, "lives") : json_array();
	assert_int_equal(json_object_set_new(root, "lives", lives), 0);
	limpet_thread_timeline_free(thread_timeline);
	free(out);
	return root;
}

static void show(const char *path, struct shown *shown)
{
	const struct limpet_analysis_options options = {.sorted = true, .sort = LIMPET_REPORT_LIVE};
	struct limpet_verdict verdict;
	struct limpet_history *history;
	struct limpet_err err = {0};
	char *json;

	if (limpet_analysis_open(path, &options, &shown->analysis, &err) < 0 ||
	    limpet_history_build(shown->analysis.reader, shown->analysis.model, PARTS, NULL,
				 &history, &err) < 0)
		fail_msg("seed %lu: %s", (unsigned long)seed, err.message);
	assert_int_equal(limpet_verdict_new(&shown->analysis.view, history, shown->analysis.reader,
					    NULL, &verdict),
			 0);
	shown->text = print_report(&shown->analysis, &verdict, false);
	json = print_report(&shown->analysis, &verdict, true);
	shown->json = parse(json, 0);
	shown->page = print_page(&shown->analysis, history, &verdict);
	free(json);
	limpet_verdict_done(&verdict);
	limpet_history_free(history);
}

static void hide(struct shown *shown)
{
	json_decref(shown->json);
	json_decref(shown->page);
	free(shown->text);
	limpet_analysis_close(&shown->analysis);
}

/* ------------------------------------------------------------------ compared */

static uint64_t number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("seed %lu: no number '%s'", (unsigned long)seed, key);
	return (uint64_t)json_integer_value(value);
}

static uint64_t sum(const json_t *list)
{
	const json_t *value;
	uint64_t all = 0;
	size_t index;

	json_array_foreach(list, index, value) all += (uint64_t)json_integer_value(value);
	return all;
}

static uint64_t sum_of(const json_t *list, const char *key)
{
	const json_t *entry;
	uint64_t all = 0;
	size_t index;

	json_array_foreach(list, index, entry)
	{
		const json_t *value = json_object_get(entry, key);

		all += json_is_array(value) ? sum(value) : (uint64_t)json_integer_value(value);
	}
	return all;
}

static void same(const char *what, uint64_t is, uint64_t should, uint64_t by)
{
	if ((is > should ? is - should : should - is) > by)
		fail_msg("seed %lu: %s: %lu instead of %lu", (unsigned long)seed, what,
			 (unsigned long)is, (unsigned long)should);
}

/* Estimates are rounded one by one: sums of them by as many halves. */
static uint64_t slack(const struct shown *shown, const json_t *list)
{
	return shown->analysis.model->sample_bytes ? json_array_size(list) + 1 : 0;
}

/* Sites, mappings, sizes and threads add up to the totals. */
static void check_sums(const struct shown *shown)
{
	const json_t *totals = json_object_get(shown->json, "totals");
	const json_t *sites = json_object_get(shown->json, "sites");
	const json_t *sizes = json_object_get(shown->json, "sizes");
	const json_t *maps = json_object_get(shown->json, "maps");
	static const char *const keys[] = {"allocations", "allocated_bytes", "live_allocations",
					   "live_bytes",  "frees",           "peak_bytes"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(keys); i++)
		if (!shown->analysis.model->sample_bytes || strcmp(keys[i], "peak_bytes") != 0)
			same(keys[i], sum_of(sites, keys[i]), number(totals, keys[i]),
			     slack(shown, sites));
	same("sizes", sum_of(sizes, "allocations"), number(totals, "allocations"),
	     slack(shown, sizes));
	same("bytes of sizes", sum_of(sizes, "allocated_bytes"), number(totals, "allocated_bytes"),
	     slack(shown, sizes));
	same("mappings", sum_of(maps, "mapped_bytes"), number(totals, "mapped_bytes"), 0);
	same("mmaps", sum_of(maps, "mmaps"), number(totals, "mmaps"), 0);
}

static int compare_rows(const void *a, const void *b)
{
	return memcmp(a, b, 4 * sizeof(uint64_t));
}

/* Each site of the page is one of the JSON's, figure by figure. */
static void check_page_sites(const struct shown *shown)
{
	const json_t *ours = json_object_get(shown->json, "sites"), *site;
	const json_t *theirs = json_object_get(shown->page, "sites");
	const bool sampled = shown->analysis.model->sample_bytes;
	uint64_t mine[SITES + 1][4] = {0}, yours[SITES + 1][4] = {0};
	size_t index, count = 0;

	assert_true(json_array_size(ours) <= SITES);
	json_array_foreach(ours, index, site)
	{
		mine[index][0] = number(site, "allocated_bytes");
		mine[index][1] = number(site, "allocations");
		mine[index][2] = number(site, "live_bytes");
		mine[index][3] = sampled ? 0 : number(site, "peak_bytes");
	}
	json_array_foreach(theirs, index, site)
	{
		const uint64_t bytes = sum(json_object_get(site, "ab"));

		if (!bytes)
			continue;
		assert_true(count <= SITES);
		yours[count][0] = bytes;
		yours[count][1] = sum(json_object_get(site, "a"));
		yours[count][2] = bytes - sum(json_object_get(site, "fb"));
		yours[count++][3] = sampled ? 0 : number(site, "peak");
	}
	same("sites of the page", count, json_array_size(ours), 0);
	qsort(mine, SITES + 1, sizeof(*mine), compare_rows);
	qsort(yours, SITES + 1, sizeof(*yours), compare_rows);
	for (size_t i = 0; i <= SITES; i++)
		for (unsigned k = 0; k < 4; k++)
			same("a site of the page", yours[i][k], mine[i][k], 0);
}

/* What survived, by the step of its allocation, is what is live; and no more of it was allocated
 * until any edge than was live there. */
static void check_survivors(const struct shown *shown)
{
	const json_t *sites = json_object_get(shown->page, "sites"), *site;
	const bool sampled = shown->analysis.model->sample_bytes;
	int64_t live[PARTS + 2] = {0}, left[PARTS + 2] = {0};
	size_t index;

	if (!json_is_true(json_object_get(json_object_get(shown->page, "kept"), "survivors")))
		return;
	json_array_foreach(sites, index, site)
	{
		const json_t *steps = json_object_get(site, "b"), *step;
		size_t i;

		same("survivors", sum(json_object_get(site, "sb")),
		     sum(json_object_get(site, "ab")) - sum(json_object_get(site, "fb")),
		     sampled ? 1 : 0);
		same("number of survivors", sum(json_object_get(site, "sn")),
		     sum(json_object_get(site, "a")) - sum(json_object_get(site, "f")),
		     sampled ? 1 : 0);
		json_array_foreach(steps, i, step) live[json_integer_value(step)] +=
			json_integer_value(json_array_get(json_object_get(site, "ab"), i)) -
			json_integer_value(json_array_get(json_object_get(site, "fb"), i));
		steps = json_object_get(site, "s");
		json_array_foreach(steps, i, step) left[json_integer_value(step)] +=
			json_integer_value(json_array_get(json_object_get(site, "sb"), i));
	}
	for (size_t i = 1; i < LIMPET_COUNT_OF(live) && !sampled; i++) {
		live[i] += live[i - 1];
		left[i] += left[i - 1];
		if (left[i - 1] > live[i - 1])
			fail_msg("seed %lu: %ld left of %ld after step %zu", (unsigned long)seed,
				 (long)left[i - 1], (long)live[i - 1], i - 1);
	}
}

/* What threads allocated by a site is what was allocated by it, and by all sites what the threads
 * did. */
static void check_threads_of_sites(const struct shown *shown, const json_t *threads)
{
	const json_t *sites = json_object_get(shown->page, "sites"), *site, *thread, *tid;
	const bool sampled = shown->analysis.model->sample_bytes;
	size_t index, i, k;

	json_array_foreach(sites, index, site)
	{
		const json_t *bytes = json_object_get(site, "thb");

		same("bytes of a site by thread", sum(bytes), sum(json_object_get(site, "ab")),
		     slack(shown, bytes));
		for (size_t at = 1; at < json_array_size(bytes); at++)
			assert_true(json_integer_value(json_array_get(bytes, at - 1)) >=
				    json_integer_value(json_array_get(bytes, at)));
	}
	json_array_foreach(threads, i, thread)
	{
		uint64_t bytes = 0;

		json_array_foreach(sites, index, site)
			json_array_foreach(json_object_get(site, "th"), k,
					   tid) if (json_equal(tid, json_object_get(thread, "tid")))
				bytes += (uint64_t)json_integer_value(
					json_array_get(json_object_get(site, "thb"), k));
		same("bytes of a thread by site", bytes, sum(json_object_get(thread, "ab")),
		     sampled ? PARTS + SITES : 0);
	}
}

static void check_page(const struct shown *shown)
{
	static const char *const keys[] = {"target", "capture",    "window",
					   "totals", "allocators", "findings"};
	const json_t *totals = json_object_get(shown->json, "totals"), *point;
	const json_t *points = json_object_get(shown->json, "timeline");
	const json_t *threads = json_object_get(shown->page, "threads");
	const json_t *lives = json_object_get(shown->page, "lives");
	const json_t *live = json_object_get(json_object_get(shown->page, "timeline"), "live");
	size_t index;

	for (size_t i = 0; i < LIMPET_COUNT_OF(keys); i++)
		if (!json_equal(json_object_get(shown->json, keys[i]),
				json_object_get(shown->page, keys[i])))
			fail_msg("seed %lu: '%s' of the page is another", (unsigned long)seed,
				 keys[i]);
	check_page_sites(shown);
	/* What is whole is told step by step. */
	assert_int_equal(
		json_is_true(json_object_get(json_object_get(shown->page, "kept"), "inOne")),
		shown->analysis.model->sample_bytes != 0);
	same("points", json_array_size(live), json_array_size(points), 0);
	json_array_foreach(points, index, point)
		same("a point", (uint64_t)json_integer_value(json_array_get(live, index)),
		     number(point, "live_bytes"), 0);
	check_survivors(shown);
	if (!json_is_array(threads))
		return;
	check_threads_of_sites(shown, threads);
	same("threads", sum_of(threads, "a"), number(totals, "allocations"),
	     shown->analysis.model->sample_bytes ? PARTS * THREADS : 0);
	same("lives", sum_of(lives, "alive"), number(totals, "live_allocations"),
	     shown->analysis.model->sample_bytes ? LIMPET_REPLAY_AGES * SITES : 0);
}

/* ------------------------------------------------------------------ text */

static void has(const struct shown *shown, const char *line)
{
	if (!strstr(shown->text, line))
		fail_msg("seed %lu: no '%s' in\n%s", (unsigned long)seed, line, shown->text);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* "12.0 MiB to 14.0 MiB", by what the JSON says. */
static void between(char ret[128], const json_t *totals, const char *key,
		    char *(*say)(char *, uint64_t))
{
	char min_key[64], max_key[64], min[LIMPET_UNITS_TEXT], max[LIMPET_UNITS_TEXT];
	const json_t *low, *high;

	snprintf(min_key, sizeof(min_key), "%s_min", key);
	snprintf(max_key, sizeof(max_key), "%s_max", key);
	low = json_object_get(totals, min_key);
	high = json_object_get(totals, max_key);
	if (json_is_null(low) && json_is_null(high)) {
		snprintf(ret, 128, "%s", say(min, number(totals, key)));
		return;
	}
	if (json_is_null(low) || json_is_null(high)) {
		const char *one = json_is_null(low) ? max_key : min_key;

		snprintf(ret, 128, "at %s %s", json_is_null(low) ? "most" : "least",
			 say(min, number(totals, one)));
		return;
	}
	assert_in_range(number(totals, key), number(totals, min_key), number(totals, max_key));
	say(min, number(totals, min_key));
	say(max, number(totals, max_key));
	if (number(totals, min_key) == number(totals, max_key))
		snprintf(ret, 128, "%s", min);
	else
		snprintf(ret, 128, "%s to %s", min, max);
}

/* Nothing bounds what is live, and what was recorded may not be it. */
static bool is_unknown(const struct shown *shown)
{
	static const char *const bounds[] = {"live_bytes_min", "live_bytes_max",
					     "live_allocations_min", "live_allocations_max"};
	const json_t *totals = json_object_get(shown->json, "totals"), *reason;
	const json_t *reasons =
		json_object_get(json_object_get(shown->json, "capture"), "inexact_reasons");
	bool inexact = false;
	size_t index;

	for (size_t i = 0; i < LIMPET_COUNT_OF(bounds); i++)
		if (!json_is_null(json_object_get(totals, bounds[i])))
			return false;
	json_array_foreach(reasons, index, reason) inexact |=
		strcmp(json_string_value(reason), "sampled") != 0;
	return inexact;
}

/* Less limpet's own part: the last that is known, and the highest; the page has the same. */
static void check_rss(const struct shown *shown)
{
	const json_t *points = json_object_get(shown->json, "timeline"), *point;
	const json_t *page = json_object_get(json_object_get(shown->page, "timeline"), "rss");
	char line[128], bytes[LIMPET_UNITS_TEXT], most[LIMPET_UNITS_TEXT];
	uint64_t last = 0, highest = 0;
	size_t index;

	json_array_foreach(points, index, point)
	{
		if (json_is_null(json_object_get(point, "rss_bytes")))
			continue;
		last = number(point, "rss_bytes") - number(point, "agent_bytes");
		highest = last > highest ? last : highest;
		same("rss", (uint64_t)json_integer_value(json_array_get(page, index)), last, 0);
	}
	assert_true(last > 0);
	assert_true(json_is_true(
		json_object_get(json_object_get(shown->page, "timeline"), "without_own_part")));
	snprintf(line, sizeof(line), "memory    RSS %s, at most %s%s, without limpet's own part\n",
		 limpet_units_format_bytes(bytes, last), limpet_units_format_bytes(most, highest),
		 shown->analysis.model->compact ? " at the ends of minutes" : "");
	has(shown, line);
}

static void check_head(const struct shown *shown)
{
	const json_t *totals = json_object_get(shown->json, "totals");
	char figure[128], count[128], bytes[LIMPET_UNITS_TEXT], frees[LIMPET_UNITS_TEXT];
	char line[512];

	between(figure, totals, "live_bytes", limpet_units_format_bytes);
	between(count, totals, "live_allocations", limpet_units_format_count);
	snprintf(line, sizeof(line), "live      %s%s in %s block%s",
		 is_unknown(shown) ? "recorded " : "", figure, count,
		 plural(number(totals, "live_allocations")));
	has(shown, line);
	between(figure, totals, "peak_bytes", limpet_units_format_bytes);
	snprintf(line, sizeof(line), "peak      %s at ", figure);
	has(shown, line);
	limpet_units_format_count(count, number(totals, "allocations"));
	snprintf(line, sizeof(line), "calls     %s allocation%s (", count,
		 plural(number(totals, "allocations")));
	has(shown, line);
	snprintf(line, sizeof(line), ", %s in all), %s free%s\n",
		 limpet_units_format_bytes(bytes, number(totals, "allocated_bytes")),
		 limpet_units_format_count(frees, number(totals, "frees")),
		 plural(number(totals, "frees")));
	has(shown, line);
	if (number(totals, "mmaps")) {
		between(figure, totals, "mapped_bytes", limpet_units_format_bytes);
		snprintf(line, sizeof(line), ", %s still mapped\n", figure);
		has(shown, line);
	}
}

/* The JSON names each reason, the page has the same, and the text says it: by its count, if there
 * is one, or by its words. */
static void check_reasons(const struct shown *shown, const json_t *capture)
{
	static const struct {
		const char *reason, *words;
	} counted[] = {{"dropped-events", " dropped"},
		       {"untracked", "beyond the collector's memory"},
		       {"inferred-frees", " not seen"},
		       {"sampled", ", a sample every "}};
	const json_t *losses = json_object_get(capture, "losses"), *loss;
	const json_t *page = json_object_get(json_object_get(shown->page, "capture"), "losses");
	size_t index, incomplete = 0, inexact = 0;

	assert_true(json_equal(losses, page));
	json_array_foreach(losses, index, loss)
	{
		const char *reason = json_string_value(json_object_get(loss, "reason"));
		const char *words = json_string_value(json_object_get(loss, "words"));

		incomplete += json_is_true(json_object_get(loss, "incomplete"));
		inexact += json_is_true(json_object_get(loss, "inexact"));
		for (size_t i = 0; i < LIMPET_COUNT_OF(counted); i++)
			if (!strcmp(reason, counted[i].reason) &&
			    strstr(shown->text, counted[i].words))
				words = counted[i].words;
		has(shown, words);
	}
	same("reasons", incomplete, json_array_size(json_object_get(capture, "incomplete_reasons")),
	     0);
	same("reasons of figures", inexact,
	     json_array_size(json_object_get(capture, "inexact_reasons")), 0);
	if (!shown->analysis.model->sample_bytes)
		assert_int_equal(!json_is_true(json_object_get(capture, "exact")),
				 strstr(shown->text, "the trace is not complete") ||
					 strstr(shown->text, "the figures are not exact") ||
					 strstr(shown->text, "sites and peak are approximate"));
}

static void check_losses(const struct shown *shown)
{
	const json_t *capture = json_object_get(shown->json, "capture");
	const uint64_t dropped = number(capture, "dropped_events");
	const bool complete = json_is_true(json_object_get(capture, "complete"));
	char line[128], count[LIMPET_UNITS_TEXT];

	snprintf(line, sizeof(line), "%s event%s dropped",
		 limpet_units_format_count(count, dropped), plural(dropped));
	if (dropped)
		has(shown, line);
	assert_int_equal(complete, !strstr(shown->text, "the trace is not complete"));
	assert_int_equal(complete, shown->analysis.model->complete);
	assert_int_equal(json_array_size(json_object_get(capture, "incomplete_reasons")) == 0,
			 complete);
	assert_int_equal(json_array_size(json_object_get(capture, "inexact_reasons")) == 0,
			 json_is_true(json_object_get(capture, "exact")));
	assert_true(complete || !dropped || strstr(shown->text, "losses    "));
	check_reasons(shown, capture);
}

/* Each finding is in the text, and none besides; the figures that it names are those of sites. */
static void check_findings(const struct shown *shown)
{
	const json_t *findings = json_object_get(shown->json, "findings"), *finding;
	const json_t *totals = json_object_get(shown->json, "totals");
	const bool run = shown->analysis.model->target->mode == LIMPET_MODE_RUN;
	const json_t *said = json_object_get(json_object_get(shown->json, "verdict"), "sentences");
	size_t index, lines = 0;

	for (const char *at = shown->text; (at = strstr(at, "\n- ")); at++)
		lines++;
	same("verdict and findings", lines, json_array_size(said) + json_array_size(findings), 0);
	json_array_foreach(findings, index, finding)
	{
		const char *kind = json_string_value(json_object_get(finding, "kind"));
		char line[1024], bytes[LIMPET_UNITS_TEXT];
		const uint64_t figure = number(finding, "bytes");
		uint64_t whole = number(totals, run ? "peak_bytes" : "live_bytes");

		snprintf(line, sizeof(line), "\n- %s\n",
			 json_string_value(json_object_get(finding, "text")));
		has(shown, line);
		limpet_units_format_bytes(bytes, figure);
		if (!strcmp(kind, "holds")) {
			assert_non_null(strstr(line, bytes));
			if (figure > whole + slack(shown, json_object_get(shown->json, "sites")))
				fail_msg("seed %lu: %lu of %lu: %s", (unsigned long)seed,
					 (unsigned long)figure, (unsigned long)whole, line);
			assert_true(fabs(json_real_value(json_object_get(finding, "share")) -
					 (double)figure / (double)whole) < 1e-9);
		}
		if (!strcmp(kind, "leak") || !strcmp(kind, "growth"))
			assert_true(figure <= whole);
	}
}

/* The list of sites adds up to its title, as far as figures for people do. */
static void check_site_lines(const struct shown *shown)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
	const json_t *totals = json_object_get(shown->json, "totals");
	const char *at = strstr(shown->text, " by live bytes");
	double all = 0, slack_bytes = 1;

	if (!number(totals, "live_bytes"))
		return;
	assert_non_null(at);
	for (; (at = strchr(at, '\n')) && strncmp(at, "\nMapped by", 10) != 0 &&
	       strncmp(at, "\nSizes of", 9) != 0;
	     at++) {
		double value, unit = 1;
		char word[8], *end;

		if (strncmp(at, "\n ", 2) != 0 || strtoul(at + 1, &end, 10) == 0 || end - at != 4 ||
		    sscanf(end, "%lf %7s", &value, word) != 2)
			continue;
		for (unsigned i = 0; i < LIMPET_COUNT_OF(units); i++, unit *= 1024)
			if (!strcmp(word, units[i]))
				break;
		all += value * unit;
		slack_bytes += 0.051 * unit;
	}
	if (shown->analysis.model->sample_bytes)
		slack_bytes += SITES;
	same("sites of the text", (uint64_t)llround(all), number(totals, "live_bytes"),
	     (uint64_t)slack_bytes);
}

/* ------------------------------------------------------------------ windows */

static void check_windows(const char *path, const struct shown *shown)
{
	const struct limpet_model *whole = shown->analysis.model;
	struct limpet_trace_reader *reader;
	struct limpet_model *first, *second;
	struct drawn drawn = {.random = seed};
	uint64_t at_ns = 1 + below(&drawn, whole->duration_ns / LIMPET_TRACE_TICK_NS - 2);

	if (whole->compact)
		return;
	reader = trace_open(path);
	at_ns *= LIMPET_TRACE_TICK_NS;
	first = trace_model(reader, 0, at_ns);
	second = trace_model(reader, at_ns, 0);
	same("calls of two windows", first->totals.allocations + second->totals.allocations,
	     whole->totals.allocations, whole->sample_bytes ? 2 : 0);
	same("frees of two windows", first->totals.frees + second->totals.frees,
	     whole->totals.frees, whole->sample_bytes ? 2 : 0);
	same("mmaps of two windows", first->totals.mmaps + second->totals.mmaps,
	     whole->totals.mmaps, 0);
	same("live at the end of the second", second->totals.live_bytes, whole->totals.live_bytes,
	     whole->sample_bytes ? 2 : 0);
	if (!whole->sample_bytes) {
		same("growth", (uint64_t)second->totals.growth_bytes,
		     whole->totals.live_bytes - first->totals.live_bytes, 0);
		same("peak",
		     first->totals.peak_bytes > second->totals.peak_bytes
			     ? first->totals.peak_bytes
			     : second->totals.peak_bytes,
		     whole->totals.peak_bytes, 0);
	}
	assert_int_equal(first->losses, whole->losses);
	assert_int_equal(second->exact, whole->exact);
	limpet_model_free(first);
	limpet_model_free(second);
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ births */

/* Of the blocks that were made in a part of the time. */
static void show_births(const char *path, uint64_t from_ns, uint64_t to_ns,
			struct limpet_analysis *ret)
{
	struct limpet_filter *filter = limpet_filter_new();
	const struct limpet_replay_options selection = {.filter = filter};
	struct limpet_analysis_options options = {
		.filter = filter, .series = true, .sorted = true, .sort = LIMPET_REPORT_LIVE};
	struct limpet_history *history;
	struct limpet_err err;

	assert_non_null(filter);
	limpet_filter_set_births(filter, from_ns, to_ns);
	if (limpet_analysis_open(path, &options, ret, &err) < 0)
		fail_msg("seed %lu: %s", (unsigned long)seed, err.message);
	assert_true(ret->filtered && ret->model->born);
	/* The page has the same, by steps. */
	assert_int_equal(
		limpet_history_build(ret->reader, ret->model, PARTS, &selection, &history, &err),
		0);
	assert_false(history->in_one);
	limpet_history_free(history);
	limpet_filter_free(filter);
}

static void check_births(const char *path, const struct shown *shown)
{
	const struct limpet_model *whole = shown->analysis.model;
	const struct limpet_model_site *all = &shown->analysis.view.totals;
	struct drawn drawn = {.random = seed};
	const uint64_t at_ns = LIMPET_TRACE_TICK_NS *
			       (1 + below(&drawn, whole->duration_ns / LIMPET_TRACE_TICK_NS - 2));
	struct limpet_analysis older, younger, none;
	const struct limpet_model_site *first, *second;

	if (whole->compact || whole->sample_bytes)
		return;
	show_births(path, 0, at_ns, &older);
	show_births(path, at_ns, UINT64_MAX, &younger);
	first = &older.view.totals;
	second = &younger.view.totals;
	same("blocks made", first->allocations + second->allocations, all->allocations, 0);
	same("bytes", first->allocated_bytes + second->allocated_bytes, all->allocated_bytes, 0);
	same("released", first->frees + second->frees, all->frees, 0);
	same("live", first->live_allocations + second->live_allocations, all->live_allocations, 0);
	same("live bytes", first->live_bytes + second->live_bytes, all->live_bytes, 0);
	same("at the peak", first->peak_bytes + second->peak_bytes, all->peak_bytes, 0);
	same("hidden", older.hidden.live_bytes, second->live_bytes, 0);
	same("mapped", older.model->totals.mapped_bytes + younger.model->totals.mapped_bytes,
	     whole->totals.mapped_bytes, 0);
	limpet_analysis_close(&older);
	limpet_analysis_close(&younger);
	show_births(path, whole->duration_ns + SECOND, UINT64_MAX, &none);
	same("never", none.view.totals.allocations + none.view.totals.live_bytes, 0, 0);
	limpet_analysis_close(&none);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

static void test_all_say_the_same(void **state)
{
	const uint64_t first = from_environment("LIMPET_SAME_FIRST", 1);
	const uint64_t count = from_environment("LIMPET_SAME_SEEDS", SEEDS);
	unsigned sampled = 0, compact = 0, dropped = 0, untracked = 0, findings = 0;

	(void)state;
	for (seed = first; seed < first + count; seed++) {
		struct shown shown;

		draw_trace("drawn");
		show("drawn", &shown);
		check_sums(&shown);
		check_page(&shown);
		check_head(&shown);
		check_rss(&shown);
		check_losses(&shown);
		check_findings(&shown);
		check_site_lines(&shown);
		check_windows("drawn", &shown);
		check_births("drawn", &shown);
		sampled += shown.analysis.model->sample_bytes != 0;
		compact += shown.analysis.model->compact;
		dropped += shown.analysis.model->totals.dropped_events != 0;
		untracked += shown.analysis.model->totals.untracked_allocations != 0;
		findings += json_array_size(json_object_get(shown.json, "findings")) > 0;
		hide(&shown);
	}
	/* Of each kind there were some. */
	assert_true(count < SEEDS || (sampled && compact && dropped && untracked && findings));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_say_the_same)};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
