/* What a trace says of its losses, and what a reader makes of it: `complete`, `exact`, the reasons.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analyzer/model/tail.h"
#include "analyzer/text/diff_print.h"
#include "analyzer/text/report_json.h"
#include "analyzer/text/report_text.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/diff.h"
#include "analyzer/views/report.h"
#include "common/wire.h"
#include "test/unit/trace_fixture.h"

static uint64_t said; /* by the recorder that was finished last */

static void end_because(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick,
			uint64_t losses, const char *because)
{
	const struct limpet_recorder_end end = {.end = LIMPET_END_STOP,
						.time_ns = tick->time_ns,
						.losses = losses,
						.because = because};

	assert_int_equal(limpet_recorder_finish(recorder, tick, &end), 0);
	said = limpet_recorder_losses(recorder);
	limpet_recorder_free(recorder);
}

static void end_it(struct limpet_recorder *recorder, const struct limpet_recorder_tick *tick,
		   uint64_t losses)
{
	end_because(recorder, tick, losses, NULL);
}

static void allocate(struct limpet_recorder *recorder, uint64_t address, uint64_t size)
{
	const struct limpet_record record = {.time_ns = SECOND / 2,
					     .address = address,
					     .size = size,
					     .thread = 1,
					     .kind = LIMPET_EVENT_ALLOC};

	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
}

static char *print_report(const char *path, bool json)
{
	const struct limpet_report_options options = {.sort = LIMPET_REPORT_LIVE,
						      .limit = SIZE_MAX};
	const struct limpet_report_text_options lines = {
		.bold = "", .dim = "", .warn = "", .plain = ""};
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	struct limpet_report *report;
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	assert_int_equal(limpet_report_new(model, &options, &report), 0);
	assert_int_equal(json ? limpet_report_json_print(report, file)
			      : limpet_report_text_print(report, &lines, file),
			 0);
	fclose(file);
	limpet_report_free(report);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return text;
}

static json_t *report_of(const char *path)
{
	json_error_t error;
	char *text = print_report(path, true);
	json_t *root = json_loads(text, 0, &error);

	assert_non_null(root);
	free(text);
	return root;
}

static bool lists(const json_t *list, const char *key)
{
	const json_t *entry;
	size_t index;

	json_array_foreach(list, index, entry)
	{
		if (!strcmp(json_string_value(entry), key))
			return true;
	}
	return false;
}

/* Each one alone: who captures, who reads and the report agree, by the table. */
static void test_each_reason(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LIMPET_LOSS_UNFINISHED; i++) {
		const struct limpet_loss_kind *kind = &limpet_loss_kinds[i];
		const struct limpet_recorder_options options = trace_options("reason");
		const struct limpet_recorder_tick tick = {.time_ns = SECOND};
		struct limpet_recorder *recorder;
		struct trace_outcome outcome;
		json_t *root, *capture;

		unlink("reason");
		recorder = trace_record(&options);
		allocate(recorder, 4096, 100);
		end_it(recorder, &tick, LIMPET_LOSS_BIT(i));
		outcome = trace_try(trace_path("reason"));
		assert_int_equal(said, LIMPET_LOSS_BIT(i));
		assert_int_equal(outcome.losses, LIMPET_LOSS_BIT(i));
		assert_int_equal(outcome.complete, !kind->clears_complete);
		assert_int_equal(outcome.exact, !kind->clears_exact);
		assert_int_equal(limpet_losses_complete(said), outcome.complete);
		root = report_of("reason");
		capture = json_object_get(root, "capture");
		assert_int_equal(lists(json_object_get(capture, "incomplete_reasons"), kind->key),
				 kind->clears_complete);
		assert_int_equal(lists(json_object_get(capture, "inexact_reasons"), kind->key),
				 kind->clears_exact);
		assert_int_equal(json_is_true(json_object_get(capture, "exact")), outcome.exact);
		json_decref(root);
	}
}

/* The stacks that were cut short, with the module in which most of them end: three in the first of
 * two, of `others` that end in the second. */
static void assert_words_of_cut(unsigned others, const char *words)
{
	const struct limpet_recorder_options options = trace_options("cut");
	const struct limpet_recorder_tick tick = {.time_ns = SECOND, .truncated_stacks = 7};
	struct limpet_recorder *recorder;
	char *text;

	unlink("cut");
	recorder = trace_record(&options);
	for (uint32_t module = 1; module <= 2; module++) {
		const struct limpet_recorder_module it = {
			.start = module << 20,
			.end = (module << 20) + 4096,
			.path = module == 1 ? "/usr/lib/libfirst.so.1" : "/usr/lib/libother.so"};

		assert_int_equal(limpet_recorder_add_module(recorder, &it), module);
	}
	for (uint32_t node = 1; node <= 3 + others; node++) {
		const uint32_t module = node <= 3 ? 1 : 2;

		assert_int_equal(limpet_recorder_add_node(recorder, node, 0, (module << 20) + node,
							  module, LIMPET_TRACE_NODE_TRUNCATED),
				 0);
	}
	allocate(recorder, 4096, 100);
	end_it(recorder, &tick, 0);
	text = print_report("cut", false);
	assert_non_null(strstr(text, words));
	free(text);
}

static void test_where_stacks_are_cut(void **state)
{
	(void)state;
	assert_words_of_cut(0, "7 stacks cut short, most of them in libfirst.so.1\n");
	assert_words_of_cut(2, "7 stacks cut short, most of them in libfirst.so.1\n");
	assert_words_of_cut(3, "7 stacks cut short\n");
}

/* Of many at once, each has its line in the text and its entry in the JSON: with a sentence of its
 * own where the trace has one. A cut list has the first sentence alone. */
static void test_many_reasons(void **state)
{
	const uint64_t all = LIMPET_LOSSES_WRITTEN & (LIMPET_LOSS_BIT(LIMPET_LOSS_STACKS + 1) - 1) &
			     ~LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED);
	const struct {
		uint64_t losses;
		const char *because;
		const char *lines[4];
	} list[] = {
		{.losses = all, .because = ""},
		{.losses = LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS) |
			   LIMPET_LOSS_BIT(LIMPET_LOSS_LATE_MODULES) |
			   LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED) |
			   LIMPET_LOSS_BIT(LIMPET_LOSS_NAMED),
		 .because = "7 functions of it; 3 modules; a signature of mine is wrong",
		 .lines = {"not complete: 7 functions of it\n", "not complete: 3 modules\n",
			   "not complete: the collector's memory was too small for all live "
			   "blocks\n",
			   "not complete: a signature of mine is wrong\n"}},
		{.losses = LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS) |
			   LIMPET_LOSS_BIT(LIMPET_LOSS_STORED),
		 .because = "the first alone",
		 .lines = {"not complete: the first alone\n",
			   "not complete: the program freed blocks through an address that it "
			   "had stored\n"}},
		{.losses = LIMPET_LOSS_BIT(LIMPET_LOSS_SLOTS) |
			   limpet_losses_known(UINT64_C(1) << 63),
		 .because = "another limpet knew why; and how",
		 .lines = {"not complete: some modules' calls could not be hooked\n",
			   "not complete: another limpet knew why; and how\n",
			   "live      recorded 100 B in 1 block; the true figure is not known\n"}},
		{.losses = LIMPET_LOSS_BIT(LIMPET_LOSS_INFERRED),
		 .because = "",
		 .lines = {"the figures are not exact: frees were not seen\n"}},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const struct limpet_recorder_options options = trace_options("many");
		const struct limpet_recorder_tick tick = {.time_ns = SECOND};
		struct limpet_recorder *recorder;
		const json_t *losses, *loss;
		size_t index;
		json_t *root;
		char *text;

		unlink("many");
		recorder = trace_record(&options);
		allocate(recorder, 4096, 100);
		end_because(recorder, &tick, list[i].losses, list[i].because);
		text = print_report("many", false);
		root = report_of("many");
		losses = json_object_get(json_object_get(root, "capture"), "losses");
		for (size_t k = 0; k < LIMPET_COUNT_OF(list[i].lines) && list[i].lines[k]; k++)
			if (!strstr(text, list[i].lines[k]))
				fail_msg("no '%s' in\n%s", list[i].lines[k], text);
		assert_true(json_array_size(losses) > 0);
		json_array_foreach(losses, index, loss)
		{
			char line[LIMPET_LOSS_WORDS + 4];

			snprintf(line, sizeof(line), ": %s\n",
				 json_string_value(json_object_get(loss, "words")));
			if (!strstr(text, line))
				fail_msg("no '%s' in\n%s", line, text);
		}
		assert_null(strstr(text, "none"));
		json_decref(root);
		free(text);
	}
}

/* What a capture says of each loss that has words of its own comes back, whatever it names. */
static void test_words_of_each(void **state)
{
	uint64_t losses = LIMPET_LOSS_BIT(LIMPET_LOSS_SLOTS);
	char because[256] = "", words[LIMPET_LOSS_WORDS];

	(void)state;
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++)
		losses |= limpet_loss_if(limpet_loss_has_words((enum limpet_loss)i),
					 (enum limpet_loss)i);
	limpet_loss_report(because, sizeof(because), "%u functions", 2);
	limpet_loss_report(because, sizeof(because), "heaps");
	limpet_loss_report(because, sizeof(because), "a; b.so has an allocator");
	assert_string_equal(because, "2 functions; heaps; a, b.so has an allocator");
	assert_string_equal(limpet_loss_words(words, LIMPET_LOSS_FUNCTIONS, losses, because),
			    "2 functions");
	assert_string_equal(limpet_loss_words(words, LIMPET_LOSS_THREAD_HEAPS, losses, because),
			    "heaps");
	assert_string_equal(limpet_loss_words(words, LIMPET_LOSS_LATE_ALLOCATOR, losses, because),
			    "a, b.so has an allocator");
	assert_string_equal(limpet_loss_words(words, LIMPET_LOSS_SLOTS, losses, because),
			    limpet_loss_kinds[LIMPET_LOSS_SLOTS].words);
	assert_string_equal(limpet_loss_words(words, LIMPET_LOSS_STORED, losses, because),
			    limpet_loss_kinds[LIMPET_LOSS_STORED].words);
	/* No room: what there is of it. */
	limpet_loss_report(because, 50, "cut short");
	assert_string_equal(because, "2 functions; heaps; a, b.so has an allocator; cut");
}

/* What the recorder finds by itself is in the file and in what it says to whoever captures. */
static void test_what_is_counted(void **state)
{
	static const struct {
		struct limpet_recorder_tick tick;
		bool twice; /* an address is handed out that is live */
		bool nonsense;
		uint64_t losses;
	} list[] = {
		{.losses = 0},
		{.tick = {.dropped_events = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED)},
		{.tick = {.unseen_calls = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_UNSEEN)},
		{.tick = {.truncated_stacks = 1}, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_TRUNCATED)},
		{.twice = true, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_INFERRED)},
		{.nonsense = true, .losses = LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED)},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const struct limpet_recorder_options options = trace_options("counted");
		struct limpet_recorder_tick tick = list[i].tick;
		struct limpet_recorder *recorder;
		struct trace_outcome outcome;

		unlink("counted");
		recorder = trace_record(&options);
		tick.time_ns = SECOND;
		allocate(recorder, 4096, 100);
		if (list[i].twice)
			allocate(recorder, 4096, 100);
		if (list[i].nonsense)
			allocate(recorder, 0, 100);
		end_it(recorder, &tick, 0);
		outcome = trace_try(trace_path("counted"));
		assert_int_equal(said, list[i].losses);
		assert_int_equal(outcome.losses, list[i].losses);
		assert_int_equal(outcome.complete, limpet_losses_complete(said));
		assert_int_equal(outcome.exact, limpet_losses_exact(said));
	}
}

static void add_mapping(struct limpet_recorder *recorder, uint64_t address)
{
	const struct limpet_record record = {.time_ns = SECOND / 2,
					     .address = address,
					     .size = 4096,
					     .thread = 1,
					     .kind = LIMPET_EVENT_MMAP};

	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
}

/* Its collector has died: read at once, or followed. */
static void check_no_end(const char *path, uint64_t losses)
{
	const struct trace_outcome outcome = trace_try(trace_path(path));
	const uint64_t all = losses | LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED);
	struct limpet_tail *tail;
	struct limpet_err err;

	assert_int_equal(outcome.end, LIMPET_END_COLLECTOR_LOST);
	assert_int_equal(outcome.losses, all);
	assert_false(outcome.complete);
	assert_int_equal(outcome.exact, limpet_losses_exact(losses));
	assert_int_equal(limpet_tail_open(path, &tail, &err), 0);
	assert_int_equal(limpet_tail_model(tail)->losses, all);
	limpet_tail_free(tail);
}

static void check_reason(uint64_t losses, bool compact)
{
	const struct limpet_recorder_tick tick = {.time_ns = (compact ? 61 : 1) * SECOND,
						  .losses = losses};
	struct limpet_recorder_options options = trace_options("no-end");
	struct limpet_recorder *recorder;

	unlink("no-end");
	options.compact = compact;
	recorder = trace_record(&options);
	allocate(recorder, 4096, 100);
	assert_int_equal(limpet_recorder_tick(recorder, &tick), 0);
	limpet_recorder_free(recorder);
	check_no_end("no-end", losses);
}

/* A trace without an end: what it has is true but for the reasons that were known by then, each of
 * them alone, and not all. */
static void test_no_end(void **state)
{
	(void)state;
	/* The last one: none. */
	for (unsigned i = 0; i <= LIMPET_LOSS_UNFINISHED; i++) {
		const uint64_t losses = LIMPET_LOSS_BIT(i) & LIMPET_LOSSES_WRITTEN;

		check_reason(losses, false);
		check_reason(losses, true);
	}
}

/* Known before the first event, or later without one; judged anew, it may be none any more. */
static void test_no_end_and_no_news(void **state)
{
	static const struct {
		uint64_t first, second;
	} list[] = {
		{LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS), LIMPET_LOSS_BIT(LIMPET_LOSS_FUNCTIONS)},
		{0, LIMPET_LOSS_BIT(LIMPET_LOSS_LATE_MODULES)},
		{LIMPET_LOSS_BIT(LIMPET_LOSS_NAMED), 0},
	};
	const struct limpet_recorder_options options = trace_options("no-news");

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		struct limpet_recorder_tick tick = {.losses = list[i].first};
		struct limpet_recorder *recorder;

		unlink("no-news");
		recorder = trace_record(&options);
		assert_int_equal(limpet_recorder_tick(recorder, &tick), 0);
		tick = (struct limpet_recorder_tick){.time_ns = 1, .losses = list[i].second};
		assert_int_equal(limpet_recorder_tick(recorder, &tick), 0);
		limpet_recorder_free(recorder);
		check_no_end("no-news", list[i].second);
	}
}

/* Mappings beyond the collector's memory have no count. */
static void test_no_end_and_mappings_untracked(void **state)
{
	struct limpet_recorder_options options = trace_options("untracked");
	struct limpet_recorder_stats stats;
	struct limpet_recorder *recorder;
	uint64_t address = 0x10000;

	(void)state;
	options.memory_bytes = 1;
	recorder = trace_record(&options);
	do {
		add_mapping(recorder, address);
		address += 2 * 4096;
		limpet_recorder_stats_read(recorder, &stats);
	} while (!stats.unmatched_table_full);
	trace_end_period(recorder, 1);
	limpet_recorder_free(recorder);
	check_no_end("untracked", LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED));
}

/* ------------------------------------------------------------------ between what the truth lies */

enum { SLOTS = 400, STEPS = 20000, STEPS_IN_A_TICK = 500 };

/* A program that knows what it holds, and an agent that drops now and then. */
struct program {
	struct limpet_recorder *recorder;
	uint64_t random, now_ns;
	uint64_t size[SLOTS];
	bool live[SLOTS];
	bool dropping, unsized;
	struct limpet_recorder_tick tick;
	uint64_t live_bytes, live_blocks, peak_bytes;
};

static uint64_t draw(struct program *program)
{
	program->random = program->random * 6364136223846793005ull + 1442695040888963407ull;
	return program->random >> 33;
}

static uint64_t usable(uint64_t size)
{
	return (size + 8 + 15) / 16 * 16;
}

static void tell(struct program *program, uint32_t kind, unsigned slot, uint64_t size)
{
	const struct limpet_record record = {.time_ns = program->now_ns,
					     .address = 0x10000 + slot * 4096ull,
					     .size = size,
					     .thread = 1,
					     .kind = kind};
	struct limpet_dropped *dropped = &program->tick.dropped;

	if (!program->dropping) {
		assert_int_equal(limpet_recorder_add_event(program->recorder, &record), 0);
		return;
	}
	program->tick.dropped_events++;
	dropped->allocations += kind == LIMPET_EVENT_ALLOC;
	dropped->allocated_bytes += kind == LIMPET_EVENT_ALLOC ? size : 0;
	dropped->frees += kind == LIMPET_EVENT_FREE;
	dropped->freed_bytes += kind == LIMPET_EVENT_FREE ? size : 0;
	dropped->unsized_frees += kind == LIMPET_EVENT_FREE && !size;
}

static void do_alloc(struct program *program, unsigned slot, uint64_t size)
{
	program->now_ns += 1000;
	program->live[slot] = true;
	program->size[slot] = size;
	program->live_bytes += size;
	program->live_blocks++;
	if (program->live_bytes > program->peak_bytes)
		program->peak_bytes = program->live_bytes;
	tell(program, LIMPET_EVENT_ALLOC, slot, size);
}

static void do_free(struct program *program, unsigned slot)
{
	program->now_ns += 1000;
	program->live[slot] = false;
	program->live_bytes -= program->size[slot];
	program->live_blocks--;
	tell(program, LIMPET_EVENT_FREE, slot, program->unsized ? 0 : usable(program->size[slot]));
}

static void begin_program(struct program *program, const char *path, uint64_t seed)
{
	const struct limpet_recorder_options options = trace_options(path);

	unlink(path);
	*program = (struct program){.recorder = trace_record(&options), .random = seed};
}

static void end_program(struct program *program)
{
	program->tick.time_ns = program->now_ns + 1000;
	end_it(program->recorder, &program->tick, 0);
}

static void assert_between(uint64_t truth, const struct limpet_model_bound *bound)
{
	assert_true(bound->has_min && bound->has_max);
	assert_true(bound->min <= bound->max);
	assert_in_range(truth, bound->min, bound->max);
}

/* Whatever is dropped: the truth is between. */
static void test_the_truth_is_between(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 24; seed++) {
		struct program program;
		struct limpet_trace_reader *reader;
		struct limpet_model *model;

		begin_program(&program, "between", seed);
		program.unsized = seed % 4 == 0;
		for (unsigned i = 0; i < STEPS; i++) {
			const unsigned slot = (unsigned)(draw(&program) % SLOTS);

			/* Never in the first seeds; for a while in others. */
			if (seed > 2 && draw(&program) % 1000 == 0)
				program.dropping = !program.dropping;
			if (program.live[slot])
				do_free(&program, slot);
			else
				do_alloc(&program, slot, 1 + draw(&program) % 3000);
			program.tick.time_ns = program.now_ns;
			if (i % STEPS_IN_A_TICK == 0)
				assert_int_equal(
					limpet_recorder_tick(program.recorder, &program.tick), 0);
		}
		end_program(&program);
		reader = trace_open(trace_path("between"));
		model = trace_model(reader, 0, 0);
		assert_between(program.live_bytes, &model->bounds.live_bytes);
		assert_between(program.live_blocks, &model->bounds.live_allocations);
		assert_between(program.peak_bytes, &model->bounds.peak_bytes);
		assert_int_equal(model->exact, seed <= 2);
		if (seed <= 2) {
			assert_int_equal(model->bounds.live_bytes.min,
					 model->bounds.live_bytes.max);
			assert_int_equal(model->totals.live_bytes, program.live_bytes);
		}
		limpet_model_free(model);
		limpet_trace_reader_free(reader);
	}
}

/* A thousand blocks, of which three hundred are freed unseen; a hundred of their addresses come
 * again. */
static void test_dropped_frees_are_not_live_without_a_word(void **state)
{
	struct program program;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	json_t *root, *totals;

	(void)state;
	begin_program(&program, "frees", 1);
	for (unsigned i = 0; i < SLOTS; i++)
		do_alloc(&program, i, 100);
	assert_int_equal(limpet_recorder_tick(program.recorder, &program.tick), 0);
	program.dropping = true;
	for (unsigned i = 0; i < 300; i++)
		do_free(&program, i);
	program.dropping = false;
	for (unsigned i = 0; i < 100; i++)
		do_alloc(&program, i, 100);
	end_program(&program);
	reader = trace_open(trace_path("frees"));
	model = trace_model(reader, 0, 0);
	assert_int_equal(model->totals.live_allocations, SLOTS);
	assert_int_equal(model->totals.inferred_frees, 100);
	/* 300 dropped, 100 of them inferred. */
	assert_int_equal(model->bounds.unseen_frees, 200);
	assert_int_equal(model->bounds.live_allocations.min, SLOTS - 200);
	assert_int_equal(model->bounds.live_allocations.max, SLOTS);
	assert_int_equal(program.live_blocks, SLOTS - 200);
	assert_int_equal(model->bounds.live_bytes.min,
			 SLOTS * 100 - (300 * usable(100) - 100 * 100));
	assert_int_equal(model->bounds.live_bytes.max, SLOTS * 100);
	assert_false(model->complete || model->exact);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	root = report_of("frees");
	totals = json_object_get(root, "totals");
	assert_int_equal(json_integer_value(json_object_get(totals, "live_allocations_min")),
			 SLOTS - 200);
	assert_int_equal(json_integer_value(json_object_get(totals, "live_allocations_max")),
			 SLOTS);
	json_decref(root);
}

/* What nobody knows the kind of may have been anything: there is no most, and no bound at all where
 * what was lost was not counted. */
static void test_losses_of_no_known_kind(void **state)
{
	static const struct {
		struct limpet_recorder_tick tick;
		uint64_t losses;
		bool has_min, has_max;
		uint64_t min;
	} list[] = {
		{{.dropped_events = 7}, 0, true, false, SLOTS - 7},
		{{.unseen_calls = 9}, 0, true, false, SLOTS - 9},
		{{0}, LIMPET_LOSS_BIT(LIMPET_LOSS_SLOTS), false, false, 0},
		{{0}, LIMPET_LOSS_BIT(LIMPET_LOSS_TRUNCATED), true, true, SLOTS},
		{{.dropped_events = 7, .dropped = {.mmaps = 7, .mmap_bytes = 4096}},
		 0,
		 true,
		 true,
		 SLOTS},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const struct limpet_model_bound *bound;
		struct program program;
		struct limpet_trace_reader *reader;
		struct limpet_model *model;

		begin_program(&program, "unknown", 1);
		for (unsigned slot = 0; slot < SLOTS; slot++)
			do_alloc(&program, slot, 100);
		program.tick = list[i].tick;
		program.tick.time_ns = program.now_ns + 1000;
		end_it(program.recorder, &program.tick, list[i].losses);
		reader = trace_open(trace_path("unknown"));
		model = trace_model(reader, 0, 0);
		bound = &model->bounds.live_allocations;
		assert_int_equal(bound->has_min, list[i].has_min);
		assert_int_equal(bound->has_max, list[i].has_max);
		if (list[i].has_min)
			assert_int_equal(bound->min, list[i].min);
		assert_int_equal(model->bounds.live_bytes.has_max, list[i].has_max);
		assert_true(!list[i].tick.dropped.mmaps ||
			    model->bounds.mapped_bytes.max == list[i].tick.dropped.mmap_bytes);
		limpet_model_free(model);
		limpet_trace_reader_free(reader);
	}
}

/* Of touched pages whose faults were lost, the last look knows all but their stacks: unless the
 * program ended before it, or a part of the stacks is asked for. */
static void test_pages_of_lost_faults(void **state)
{
	static const struct {
		enum limpet_end end;
		uint64_t more;
		const char *line;
		bool known;
	} list[] = {
		{LIMPET_END_STOP, 0, "resident  4.0 KiB in 1 page\n", true},
		{LIMPET_END_DURATION, 0, "resident  4.0 KiB in 1 page\n", true},
		{LIMPET_END_STOP, LIMPET_LOSS_BIT(LIMPET_LOSS_UNSAID),
		 "resident  recorded 4.0 KiB in 1 page; the true figure is not known\n", false},
		{LIMPET_END_TARGET_EXIT, 0,
		 "resident  recorded 4.0 KiB in 1 page; the true figure is not known\n", false},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		struct limpet_recorder_options options = trace_options("faults");
		const struct limpet_recorder_tick tick = {.time_ns = SECOND};
		const struct limpet_recorder_end end = {
			.end = list[i].end,
			.time_ns = SECOND,
			.losses = LIMPET_LOSS_BIT(LIMPET_LOSS_STACKS) | list[i].more,
			.because = "3 faults came faster"};
		struct limpet_trace_reader *reader;
		struct limpet_recorder *recorder;
		struct limpet_model *model;
		char *text;

		unlink("faults");
		options.pages = true;
		recorder = trace_record(&options);
		allocate(recorder, 4096, 4096);
		assert_int_equal(limpet_recorder_finish(recorder, &tick, &end), 0);
		limpet_recorder_free(recorder);
		text = print_report("faults", false);
		if (!strstr(text, list[i].line))
			fail_msg("no '%s' in\n%s", list[i].line, text);
		assert_non_null(strstr(text, "the trace is not complete: 3 faults came faster\n"));
		free(text);
		reader = trace_open(trace_path("faults"));
		model = trace_model(reader, 0, 0);
		assert_int_equal(model->bounds.live_bytes.has_min, list[i].known);
		assert_int_equal(model->bounds.live_bytes.has_max, list[i].known);
		assert_true(!list[i].known || model->bounds.live_bytes.max == 4096);
		assert_false(model->bounds.peak_bytes.has_min);
		limpet_model_bound_again(model);
		assert_false(model->bounds.live_bytes.has_min);
		limpet_model_free(model);
		limpet_trace_reader_free(reader);
	}
}

static void take_turn(struct limpet_recorder *recorder, uint32_t thread, uint32_t place,
		      uint64_t size)
{
	struct limpet_record record = {.time_ns = SECOND / 2,
				       .address = 4096ull * thread,
				       .size = size,
				       .thread = thread,
				       .kind = LIMPET_EVENT_ALLOC,
				       .place = place};

	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
	record.kind = LIMPET_EVENT_FREE;
	record.place++;
	assert_int_equal(limpet_recorder_add_event(recorder, &record), 0);
}

/* `pass`: two threads have a block each in one pass; otherwise in passes that are apart. */
static void record_turns(const char *path, bool pass)
{
	const struct limpet_recorder_options options = trace_options(path);
	const struct limpet_recorder_tick tick = {.time_ns = SECOND};
	struct limpet_recorder *recorder = trace_record(&options);

	assert_int_equal(limpet_recorder_take_passes(recorder), 0);
	take_turn(recorder, 1, 1, 1 << 20);
	for (uint32_t i = 0; i < 5 && !pass; i++)
		limpet_recorder_end_pass(recorder, 3 + i);
	take_turn(recorder, 2, 10, 2 << 20);
	limpet_recorder_end_pass(recorder, 12);
	end_it(recorder, &tick, 0);
}

static void check_peak(uint64_t from_ns, uint64_t min, uint64_t max)
{
	struct limpet_trace_reader *reader = trace_open(trace_path("turns"));
	struct limpet_model *model = trace_model(reader, from_ns, from_ns ? SECOND : 0);
	const struct limpet_model_bounds *bounds = &model->bounds;

	assert_int_equal(model->totals.peak_bytes, from_ns ? 0 : 2 << 20);
	assert_int_equal(bounds->peak_bytes.min, min);
	assert_int_equal(bounds->peak_bytes.max, max);
	assert_true(bounds->live_bytes.has_min && bounds->live_bytes.has_max);
	assert_int_equal(bounds->live_bytes.min, bounds->live_bytes.max);
	assert_true(model->complete && model->exact);
	limpet_model_bound_again(model);
	assert_int_equal(bounds->peak_bytes.has_max, min == max);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_the_peak_of_many_threads(void **state)
{
	char *text;

	(void)state;
	record_turns("turns", true);
	assert_int_equal(said, 0);
	check_peak(0, 2 << 20, 3 << 20);
	check_peak(SECOND * 3 / 4, 0, 3 << 20);
	text = print_report("turns", false);
	assert_non_null(strstr(text, "peak      2.0 MiB to 3.0 MiB at "));
	free(text);
	text = print_report("turns", true);
	assert_non_null(strstr(text, "\"peak_bytes_min\":2097152"));
	free(text);
	unlink("turns");
	record_turns("turns", false);
	check_peak(0, 2 << 20, 2 << 20);
	text = print_report("turns", false);
	assert_non_null(strstr(text, "peak      2.0 MiB at "));
	free(text);
}

/* More addresses come again than frees are known to be lost: then others were, too. */
static void test_more_was_missed_than_counted(void **state)
{
	struct program program;
	struct limpet_trace_reader *reader;
	struct limpet_model *model;

	(void)state;
	begin_program(&program, "more", 1);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned slot = 0; slot < 10; slot++)
			do_alloc(&program, slot, 100);
	program.dropping = true;
	do_free(&program, 0);
	end_program(&program);
	reader = trace_open(trace_path("more"));
	model = trace_model(reader, 0, 0);
	assert_true(model->bounds.live_bytes.has_max);
	assert_false(model->bounds.live_bytes.has_min);
	assert_false(model->bounds.live_allocations.has_min);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

/* Ten blocks; the frees of `dropped` of them are dropped. */
static void open_one_with_drops(const char *path, unsigned dropped, bool again,
				struct limpet_analysis *ret)
{
	const struct limpet_analysis_options options = {.sorted = true, .sort = LIMPET_REPORT_LIVE};
	struct limpet_err err = {0};
	struct program program;

	begin_program(&program, path, 1);
	for (unsigned slot = 0; slot < 10; slot++)
		do_alloc(&program, slot, 1000);
	program.dropping = true;
	for (unsigned slot = 0; slot < dropped; slot++)
		do_free(&program, slot);
	program.dropping = false;
	/* An address that is live is handed out once more. */
	if (again)
		allocate(program.recorder, 0x10000 + 9 * 4096ull, 1000);
	end_program(&program);
	assert_int_equal(limpet_analysis_open(trace_path(path), &options, ret, &err), 0);
}

/* A difference says of which side the figures are not the true ones, why, and how far off. */
static void test_the_sides_of_a_difference(void **state)
{
	const struct limpet_report_text_options lines = {
		.bold = "", .dim = "", .warn = "", .plain = ""};
	const struct limpet_verdict *const none[2] = {NULL, NULL};
	struct limpet_analysis old_heap, new_heap;
	struct limpet_diff *diff;
	char *text = NULL, *json = NULL;
	size_t bytes;
	FILE *file;
	json_t *root, *side;

	(void)state;
	open_one_with_drops("inferred", 0, true, &old_heap);
	open_one_with_drops("dropped", 4, false, &new_heap);
	assert_int_equal(limpet_diff_new(&old_heap, &new_heap, none, &diff), 0);
	file = open_memstream(&text, &bytes);
	assert_int_equal(limpet_diff_text_print(diff, "old", "new", 10, &lines, file), 0);
	fclose(file);
	if (!strstr(text, "\n          the old one is not exact: at most 9.8 KiB live (frees were "
			  "not seen)\n") ||
	    !strstr(text,
		    "\n          the new one is neither complete nor exact: 5.8 KiB to 9.8 KiB "
		    "live (events were dropped)\n"))
		fail_msg("%s", text);
	file = open_memstream(&json, &bytes);
	assert_int_equal(limpet_diff_json_print(diff, "old", "new", 10, file), 0);
	fclose(file);
	root = json_loads(json, 0, NULL);
	side = json_object_get(root, "old");
	assert_true(json_is_true(json_object_get(side, "complete")));
	assert_true(json_is_false(json_object_get(side, "exact")));
	assert_true(lists(json_object_get(side, "inexact_reasons"), "inferred-frees"));
	assert_true(json_is_null(json_object_get(side, "live_bytes_min")));
	side = json_object_get(root, "new");
	assert_true(json_is_false(json_object_get(side, "exact")));
	assert_true(lists(json_object_get(side, "incomplete_reasons"), "dropped-events"));
	assert_int_equal(json_integer_value(json_object_get(side, "live_bytes_max")), 10000);
	assert_int_equal(json_array_size(json_object_get(side, "losses")), 1);
	json_decref(root);
	free(json);
	free(text);
	limpet_diff_free(diff);
	limpet_analysis_close(&old_heap);
	limpet_analysis_close(&new_heap);
}

/* One that nobody knows yet says no to both, and each has a key of its own. */
static void test_the_table(void **state)
{
	(void)state;
	assert_true(limpet_losses_complete(0) && limpet_losses_exact(0));
	assert_false(limpet_losses_complete(LIMPET_LOSS_BIT(LIMPET_LOSS_COUNT)));
	assert_false(limpet_losses_exact(1ull << 63));
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++) {
		assert_non_null(limpet_loss_kinds[i].key);
		assert_non_null(limpet_loss_kinds[i].words);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(limpet_loss_kinds[i].key, limpet_loss_kinds[k].key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_reason),
		cmocka_unit_test(test_where_stacks_are_cut),
		cmocka_unit_test(test_many_reasons),
		cmocka_unit_test(test_words_of_each),
		cmocka_unit_test(test_what_is_counted),
		cmocka_unit_test(test_no_end),
		cmocka_unit_test(test_no_end_and_no_news),
		cmocka_unit_test(test_no_end_and_mappings_untracked),
		cmocka_unit_test(test_the_table),
		cmocka_unit_test(test_the_truth_is_between),
		cmocka_unit_test(test_dropped_frees_are_not_live_without_a_word),
		cmocka_unit_test(test_losses_of_no_known_kind),
		cmocka_unit_test(test_pages_of_lost_faults),
		cmocka_unit_test(test_the_peak_of_many_threads),
		cmocka_unit_test(test_more_was_missed_than_counted),
		cmocka_unit_test(test_the_sides_of_a_difference),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
