#include "test/unit/sample_trace.h"

#include <errno.h>
#include <jansson.h>

#include "analyzer/model/model.h"
#include "analyzer/seal/seal.h"
#include "analyzer/text/report_json.h"
#include "analyzer/text/report_text.h"
#include "analyzer/views/report.h"
#include "common/plain_text.h"

static struct sample sample;

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

struct opened {
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	struct limpet_report *report;
};

static void open_report(struct opened *opened, const struct limpet_report_options *options,
			const struct limpet_model_options *window)
{
	struct limpet_err err = {0};

	if (limpet_trace_reader_open(sample.trace, &opened->reader, &err) < 0 ||
	    limpet_model_build(opened->reader, window, &opened->model, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_report_new(opened->model, options, &opened->report), 0);
}

static void close_report(struct opened *opened)
{
	limpet_report_free(opened->report);
	limpet_model_free(opened->model);
	limpet_trace_reader_free(opened->reader);
}

static void write_sealed(void)
{
	struct limpet_seal_result result;

	sample_write(&sample);
	assert_int_equal(limpet_seal(sample.trace, NULL, &result, NULL), 0);
}

static char *text_of(const struct limpet_report_options *options, unsigned width, bool full)
{
	const struct limpet_report_text_options text = {
		.width = width, .full = full, .bold = "", .dim = "", .warn = "", .plain = ""};
	struct opened opened;
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);

	assert_non_null(file);
	open_report(&opened, options, NULL);
	assert_int_equal(limpet_report_text_print(opened.report, &text, file), 0);
	close_report(&opened);
	assert_int_equal(fclose(file), 0);
	return out;
}

static json_t *json_of(const struct limpet_report_options *options,
		       const struct limpet_model_options *window)
{
	struct opened opened;
	json_error_t error;
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);
	json_t *root;

	assert_non_null(file);
	open_report(&opened, options, window);
	assert_int_equal(limpet_report_json_print(opened.report, file), 0);
	close_report(&opened);
	assert_int_equal(fclose(file), 0);
	root = json_loads(out, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("line %d: %s in %s", error.line, error.text, out);
	free(out);
	return root;
}

static const struct limpet_report_options people = {
	.sort = LIMPET_REPORT_LIVE, .limit = 10, .merge = true};
static const struct limpet_report_options programs = {.sort = LIMPET_REPORT_LIVE,
						      .limit = SIZE_MAX};

/* Number of lines with `part`. */
static unsigned lines_with(const char *text, const char *part)
{
	unsigned count = 0;

	for (const char *at = text; *at;) {
		size_t length = strcspn(at, "\n");
		char line[1024];

		snprintf(line, sizeof(line), "%.*s", (int)length, at);
		count += strstr(line, part) != NULL;
		at += length + (at[length] == '\n');
	}
	return count;
}

static json_int_t integer_at(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("'%s' is no integer", key);
	return json_integer_value(value);
}

/* ------------------------------------------------------------------ sites */

static void test_figures_add_up(void **state)
{
	struct limpet_report_options options = people;
	uint64_t live = 0, allocations = 0;
	struct opened opened;

	(void)state;
	write_sealed();
	options.limit = SIZE_MAX;
	/* By allocations every site has a figure. */
	options.sort = LIMPET_REPORT_ALLOCATIONS;
	open_report(&opened, &options, NULL);
	for (size_t i = 0; i < opened.report->site_count; i++) {
		live += opened.report->sites[i].figures.live_bytes;
		allocations += opened.report->sites[i].figures.allocations;
	}
	assert_int_equal(live, SAMPLE_LIVE_BYTES);
	assert_int_equal(allocations, SAMPLE_ALLOCATIONS);
	assert_int_equal(opened.model->totals.live_bytes, SAMPLE_LIVE_BYTES);
	close_report(&opened);
}

/* The largest site by each word. */
static void test_orders(void **state)
{
	static const struct {
		enum limpet_report_sort sort;
		uint32_t node;
		int64_t figure;
	} list[] = {
		{LIMPET_REPORT_LIVE, SAMPLE_JIT, 10000},
		{LIMPET_REPORT_PEAK, SAMPLE_LEAK, 10000},
		{LIMPET_REPORT_ALLOCATIONS, SAMPLE_LEAK, 10},
		{LIMPET_REPORT_ALLOCATED, SAMPLE_LEAK, 10000},
		{LIMPET_REPORT_GROWTH, SAMPLE_JIT, 10000},
	};

	(void)state;
	write_sealed();
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		struct limpet_report_options options = people;
		struct opened opened;
		int64_t before = INT64_MAX;

		options.sort = list[i].sort;
		open_report(&opened, &options, NULL);
		assert_true(opened.report->site_count > 1);
		for (size_t k = 0; k < opened.report->site_count; k++) {
			int64_t figure = limpet_report_figure(&opened.report->sites[k].figures,
							      list[i].sort);

			assert_true(figure <= before && figure > 0);
			before = figure;
		}
		assert_int_equal(
			limpet_report_figure(&opened.report->sites[0].figures, list[i].sort),
			list[i].figure);
		if (list[i].sort != LIMPET_REPORT_PEAK &&
		    list[i].sort != LIMPET_REPORT_ALLOCATIONS &&
		    list[i].sort != LIMPET_REPORT_ALLOCATED)
			assert_int_equal(opened.report->sites[0].figures.node, list[i].node);
		close_report(&opened);
	}
}

static void test_stacks_that_look_alike_are_one(void **state)
{
	struct limpet_report_options options = people;
	struct opened opened;
	size_t stacks = 0, merged, whole, raw;

	(void)state;
	write_sealed();
	open_report(&opened, &options, NULL);
	merged = opened.report->all_sites;
	for (size_t i = 0; i < opened.report->site_count; i++) {
		const struct limpet_report_site *site = &opened.report->sites[i];

		if (site->stacks > 1) {
			stacks = site->stacks;
			assert_int_equal(site->figures.allocations, 10);
			assert_int_equal(site->figures.live_bytes, 640);
		}
	}
	assert_int_equal(stacks, 2);
	close_report(&opened);

	options.full = true;
	open_report(&opened, &options, NULL);
	whole = opened.report->all_sites;
	close_report(&opened);
	options.merge = false;
	open_report(&opened, &options, NULL);
	raw = opened.report->all_sites;
	close_report(&opened);
	/* LEAK, COPY, JIT, EVIL, unknown, and the two of malloc as one. */
	assert_int_equal(merged, 6);
	assert_int_equal(raw, 7);
	assert_in_range(whole, merged, raw);
}

static void test_limit(void **state)
{
	struct limpet_report_options options = people;
	struct opened opened;

	(void)state;
	write_sealed();
	options.limit = 2;
	open_report(&opened, &options, NULL);
	assert_int_equal(opened.report->site_count, 2);
	assert_int_equal(opened.report->all_sites, 6);
	assert_int_equal(opened.report->shown_figure, 16000);
	close_report(&opened);
	options.limit = 0;
	open_report(&opened, &options, NULL);
	assert_int_equal(opened.report->site_count, 0);
	close_report(&opened);
}

/* ------------------------------------------------------------------ JSON */

static void test_json_keeps_the_contract(void **state)
{
	static const char *const integers[] = {
		"allocations",      "frees",
		"allocated_bytes",  "freed_bytes",
		"live_allocations", "live_bytes",
		"peak_bytes",       "temporary_allocations",
		"foreign_frees",    "foreign_freed_bytes",
		"reallocations",
	};
	struct limpet_report_options options = programs;
	json_t *root, *object, *sites, *site, *frame;
	json_int_t live = 0, allocations = 0;
	size_t index;

	(void)state;
	write_sealed();
	options.capture_events = 4711;
	root = json_of(&options, NULL);
	assert_string_equal(json_string_value(json_object_get(root, "format")), "limpet-report");
	assert_int_equal(integer_at(root, "version"), 1);

	object = json_object_get(root, "target");
	assert_int_equal(integer_at(object, "pid"), 4711);
	assert_string_equal(json_string_value(json_object_get(object, "command")), "./prog");
	assert_string_equal(json_string_value(json_object_get(object, "executable")),
			    sample.program);

	object = json_object_get(root, "capture");
	assert_string_equal(json_string_value(json_object_get(object, "mode")), "attach");
	assert_string_equal(json_string_value(json_object_get(object, "end")), "stop");
	assert_true(json_is_true(json_object_get(object, "complete")));
	assert_true(json_is_true(json_object_get(object, "agent_unloaded")));
	assert_true(json_real_value(json_object_get(object, "duration_seconds")) == 2.0);
	assert_int_equal(integer_at(object, "events"), 4711);
	assert_int_equal(integer_at(object, "dropped_events"), 0);
	assert_int_equal(integer_at(object, "truncated_stacks"), 0);
	assert_int_equal(integer_at(object, "sample_bytes"), 0);
	assert_int_equal(integer_at(object, "attach_stop_microseconds"), 417);
	assert_int_equal(integer_at(object, "detach_stop_microseconds"), 1200);

	object = json_object_get(root, "totals");
	for (size_t i = 0; i < LIMPET_COUNT_OF(integers); i++)
		integer_at(object, integers[i]);
	assert_true(json_is_real(json_object_get(object, "peak_seconds")));
	assert_int_equal(integer_at(object, "allocations"), SAMPLE_ALLOCATIONS);
	assert_int_equal(integer_at(object, "live_bytes"), SAMPLE_LIVE_BYTES);
	assert_int_equal(integer_at(object, "foreign_frees"), 1);
	assert_int_equal(integer_at(object, "foreign_freed_bytes"), 48);
	assert_int_equal(integer_at(object, "mapped_bytes"), 1 << 20);

	sites = json_object_get(root, "sites");
	assert_int_equal(json_array_size(sites), 7);
	json_array_foreach(sites, index, site)
	{
		live += integer_at(site, "live_bytes");
		allocations += integer_at(site, "allocations");
		integer_at(site, "allocated_bytes");
		integer_at(site, "live_allocations");
		integer_at(site, "peak_bytes");
		integer_at(site, "temporary_allocations");
		integer_at(site, "reallocations");
		assert_true(json_is_array(json_object_get(site, "stack")));
		if (integer_at(site, "live_bytes") != 6000)
			continue;
		/* grow, inlined into leak, called by main */
		assert_int_equal(json_array_size(json_object_get(site, "stack")), 3);
		frame = json_array_get(json_object_get(site, "stack"), 0);
		assert_string_equal(json_string_value(json_object_get(frame, "function")), "grow");
		assert_true(json_is_true(json_object_get(frame, "inlined")));
		assert_int_equal(integer_at(frame, "line"), 5);
		assert_non_null(
			strstr(json_string_value(json_object_get(frame, "file")), "/prog.c"));
		assert_string_equal(json_string_value(json_object_get(frame, "module")),
				    sample.program);
		frame = json_array_get(json_object_get(site, "stack"), 1);
		assert_string_equal(json_string_value(json_object_get(frame, "function")), "leak");
		assert_true(json_is_false(json_object_get(frame, "inlined")));
		assert_int_equal(integer_at(frame, "line"), 8);
	}
	assert_int_equal(live, SAMPLE_LIVE_BYTES);
	assert_int_equal(allocations, SAMPLE_ALLOCATIONS);

	assert_true(json_array_size(json_object_get(root, "timeline")) > 0);
	json_array_foreach(json_object_get(root, "timeline"), index, object)
	{
		assert_true(json_is_real(json_object_get(object, "seconds")));
		integer_at(object, "live_bytes");
		integer_at(object, "rss_bytes");
		assert_int_equal(integer_at(object, "cgroup_bytes"), 70u << 20);
		integer_at(object, "allocations");
	}
	object = json_object_get(root, "target");
	assert_string_equal(json_string_value(json_object_get(object, "container")),
			    SAMPLE_CONTAINER);
	assert_int_equal(integer_at(object, "cgroup_limit_bytes"), 1u << 30);
	assert_true(json_is_string(json_object_get(object, "host")));
	assert_true(json_is_string(json_object_get(object, "kernel")));
	object = json_array_get(json_object_get(root, "modules"), 0);
	assert_string_equal(json_string_value(json_object_get(object, "module")), sample.program);
	assert_true(json_is_null(json_object_get(object, "build_id")));
	allocations = 0;
	json_array_foreach(json_object_get(root, "sizes"), index, object)
	{
		assert_true(integer_at(object, "from_bytes") <= integer_at(object, "to_bytes"));
		allocations += integer_at(object, "allocations");
		integer_at(object, "allocated_bytes");
	}
	assert_int_equal(allocations, SAMPLE_ALLOCATIONS);
	json_decref(root);
}

static void test_json_without_symbols(void **state)
{
	json_t *root, *site, *frame;
	size_t index, at;
	unsigned jit = 0, evil = 0;

	(void)state;
	sample_write(&sample);
	root = json_of(&programs, NULL);
	json_array_foreach(json_object_get(root, "sites"), index, site)
	{
		json_array_foreach(json_object_get(site, "stack"), at, frame)
		{
			const char *module = json_string_value(json_object_get(frame, "module"));

			assert_true(json_is_null(json_object_get(frame, "function")));
			assert_true(json_is_null(json_object_get(frame, "file")));
			assert_true(json_is_null(json_object_get(frame, "line")));
			if (!module)
				jit += json_is_string(json_object_get(frame, "address"));
			else if (strstr(module, "evil"))
				/* The broken byte is replaced, the rest is kept. */
				evil += !strcmp(module, "/nowhere/evil\x1b[31m\xef\xbf\xbd\n.so");
		}
	}
	assert_int_equal(jit, 2);
	assert_int_equal(evil, 1);
	json_decref(root);
}

static void test_json_window(void **state)
{
	const struct limpet_model_options window = {.from_ns = 1000000000, .to_ns = 2000000000};
	json_t *root, *totals;

	(void)state;
	write_sealed();
	root = json_of(&programs, &window);
	totals = json_object_get(root, "totals");
	assert_int_equal(integer_at(totals, "allocations"), SAMPLE_ALLOCATIONS - 13);
	assert_int_equal(integer_at(totals, "live_bytes"), SAMPLE_LIVE_BYTES);
	assert_true(json_real_value(json_object_get(json_object_get(root, "window"),
						    "from_seconds")) == 1.0);
	json_decref(root);
}

/* ------------------------------------------------------------------ text */

static void test_text_for_people(void **state)
{
	char *text;

	(void)state;
	write_sealed();
	text = text_of(&people, 0, false);
	assert_int_equal(strncmp(text, "target    prog (pid 4711)", 25), 0);
	assert_non_null(strstr(text, "capture   2.0s by attach, ended by limpet stop"));
	assert_non_null(strstr(text, "losses    none: every event is in the trace"));
	assert_null(strstr(text, "unseen    "));
	assert_non_null(strstr(text, "stopped   0.42 ms at attach, 1.20 ms at detach"));
	assert_non_null(strstr(text, "live      16.6 KiB"));
	assert_non_null(strstr(text, "Top 6 of 6 sites by live bytes"));
	/* strdup is folded, and said. */
	assert_int_equal(lines_with(text, "(via strdup)"), 1);
	assert_non_null(strstr(text, "  grow (inlined)  "));
	assert_non_null(strstr(text, "memory    RSS 50.0 MiB, at most 50.0 MiB, of which limpet up "
				     "to 1.0 MiB; cgroup 70.0 MiB, "
				     "at most 70.0 MiB, limit 1.0 GiB"));
	assert_non_null(strstr(text, "host      "));
	assert_non_null(strstr(text, ", container 0123456789ab\n"));
	assert_non_null(strstr(text, "/prog.c:5"));
	assert_non_null(strstr(text, "[jit] 0x7f0000001234"));
	assert_non_null(strstr(text, "; 2 stacks"));
	assert_non_null(strstr(text, "(stack unknown)"));
	assert_non_null(strstr(text, "evil?[31m??.so+0x1234"));
	assert_null(strchr(text, '\x1b'));
	assert_non_null(strstr(text, "Mapped by mmap and not unmapped: 1.0 MiB"));
	assert_non_null(strstr(text, "Sizes of allocations"));
	free(text);
}

static void test_text_in_full(void **state)
{
	struct limpet_report_options options = people;
	char *text;

	(void)state;
	write_sealed();
	options.full = true;
	text = text_of(&options, 0, true);
	assert_non_null(strstr(text, "      strdup"));
	assert_non_null(strstr(text, "grow (inlined)"));
	assert_non_null(strstr(text, "[jit] 0x7f0000001234"));
	assert_non_null(strstr(text, "[jit] 0x7f0000002345"));
	free(text);
}

static void test_text_fits_the_terminal(void **state)
{
	static const unsigned widths[] = {80, 60, 40, 20};

	(void)state;
	write_sealed();
	for (size_t i = 0; i < LIMPET_COUNT_OF(widths); i++) {
		char *text = text_of(&people, widths[i], false);
		char *rest = text;

		for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
			if (limpet_plain_text_columns(line) > widths[i])
				fail_msg("%u columns: '%s'", widths[i], line);
		}
		free(text);
	}
}

static void test_text_says_losses(void **state)
{
	struct limpet_recorder *recorder = sample_open(&sample, 0.38);
	char *text;

	(void)state;
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 10);
	sample.now_ns = 1000000000;
	sample_finish(&sample, recorder, 12345);
	text = text_of(&people, 80, false);
	assert_int_equal(strncmp(text, "partial   38 % of RSS is out of reach", 37), 0);
	assert_non_null(strstr(text, "losses    12.3 k events dropped"));
	assert_non_null(strstr(text, "the trace is not complete"));
	assert_null(strstr(text, "none"));
	free(text);
}

static void test_nothing_happened(void **state)
{
	struct limpet_recorder *recorder = sample_open(&sample, -1);
	json_t *root;
	char *text;

	(void)state;
	sample_finish(&sample, recorder, 0);
	text = text_of(&people, 80, false);
	assert_non_null(strstr(text, "No site has any live bytes."));
	/* Of what the program holds nothing is known. */
	assert_non_null(strstr(text, "\ncalls     no allocation was seen, nor any other call\n"));
	assert_null(strstr(text, "0 B"));
	free(text);
	root = json_of(&programs, NULL);
	assert_int_equal(json_array_size(json_object_get(root, "sites")), 0);
	json_decref(root);
}

/* Where all is freed, the sort that has something is named. */
static void test_nothing_is_live(void **state)
{
	struct limpet_recorder *recorder = sample_open(&sample, -1);
	char *text;

	(void)state;
	sample_release(&sample, recorder, sample_allocate(&sample, recorder, SAMPLE_LEAK, 1000),
		       1008);
	sample.now_ns = 1000000000;
	sample_finish(&sample, recorder, 0);
	text = text_of(&people, 80, false);
	assert_non_null(strstr(text, "No site has any live bytes; `--sort allocated` lists all "
				     "that allocated."));
	free(text);
}

/* Older blocks whose sizes nobody knows are not said to be of 0 bytes; what of the agent was
 * resident stands beside what was mapped. */
static void test_what_is_not_known(void **state)
{
	const struct limpet_recorder_tick tick = {.rss_bytes = 50u << 20, .agent_bytes = 3 << 20};
	const struct limpet_recorder_end end = {.end = LIMPET_END_STOP,
						.time_ns = 1000000000,
						.agent_memory_bytes = 41 << 20,
						.agent_resident_bytes = 3 << 20};
	struct limpet_recorder *recorder = sample_open(&sample, -1);
	json_t *root, *totals;
	char *text;

	(void)state;
	sample_release(&sample, recorder, 0x10000000, 0);
	assert_true(limpet_recorder_finish(recorder, &tick, &end) >= 0);
	limpet_recorder_free(recorder);
	text = text_of(&people, 0, false);
	assert_non_null(
		strstr(text, "foreign   1 free of older blocks, whose sizes are not known\n"));
	assert_non_null(strstr(text,
			       "agent     at most 3.0 MiB of memory in the target, of 41.0 MiB "
			       "mapped\n"));
	assert_non_null(strstr(
		text, "memory    RSS 47.0 MiB, at most 47.0 MiB, without limpet's own part\n"));
	free(text);
	root = json_of(&programs, NULL);
	totals = json_object_get(root, "totals");
	assert_true(json_is_null(json_object_get(totals, "foreign_freed_bytes")));
	assert_int_equal(integer_at(totals, "foreign_frees"), 1);
	assert_int_equal(integer_at(json_object_get(root, "capture"), "agent_resident_bytes"),
			 3 << 20);
	json_decref(root);
}

static void test_plain_text(void **state)
{
	static const struct {
		const char *in, *repaired, *clean;
	} list[] = {
		{"plain", "plain", "plain"},
		{"", "", ""},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"a\x1b[2J", "a\x1b[2J", "a?[2J"},
		{"\xc2\x9b"
		 "31m",
		 "\xc2\x9b"
		 "31m",
		 "?31m"},
		{"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd", "??"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd", "??"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd", "??"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "???"},
		{"a\xe2\x80\xae"
		 "b",
		 "a\xe2\x80\xae"
		 "b",
		 "a?b"},
		{"\xd8\x9c", "\xd8\x9c", "?"},
		{"\xf0\x9f\x90\x9a", "\xf0\x9f\x90\x9a", "\xf0\x9f\x90\x9a"},
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "????"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		char *repaired = limpet_plain_text_repair(list[i].in);
		char *clean = strdup(list[i].in);

		assert_non_null(repaired);
		assert_non_null(clean);
		assert_string_equal(repaired, list[i].repaired);
		assert_string_equal(limpet_plain_text_clean(clean), list[i].clean);
		free(repaired);
		free(clean);
	}
	assert_int_equal(limpet_plain_text_columns("gr\xc3\xbc\xc3\x9f"), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures_add_up),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_stacks_that_look_alike_are_one),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_json_keeps_the_contract),
		cmocka_unit_test(test_json_without_symbols),
		cmocka_unit_test(test_json_window),
		cmocka_unit_test(test_text_for_people),
		cmocka_unit_test(test_text_in_full),
		cmocka_unit_test(test_text_fits_the_terminal),
		cmocka_unit_test(test_text_says_losses),
		cmocka_unit_test(test_nothing_happened),
		cmocka_unit_test(test_nothing_is_live),
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_plain_text),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
