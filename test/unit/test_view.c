#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/open_blocks.h"
#include "analyzer/seal/seal.h"
#include "analyzer/views/analysis.h"
#include "test/unit/sample_trace.h"

static struct sample sample;

static int setup(void **state)
{
	struct limpet_seal_result result;

	(void)state;
	sample_init(&sample);
	sample_write(&sample);
	return limpet_seal(sample.trace, NULL, &result, NULL);
}

static int teardown(void **state)
{
	(void)state;
	sample_done(&sample);
	return 0;
}

/* ------------------------------------------------------------------ suppressions */

static void test_suppression_patterns(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool suppresses;
	} list[] = {
		{"leak", "my_leaker", true},
		{"leak", "my_lea", false},
		{"^leak", "my_leaker", false},
		{"^my_", "my_leaker", true},
		{"ker$", "my_leaker", true},
		{"lea$", "my_leaker", false},
		{"^my_leaker$", "my_leaker", true},
		{"^my_leaker$", "my_leaker2", false},
		{"my*er", "my_leaker", true},
		{"my*er$", "my_leaker_er", true},
		{"my*er$", "my_leaker_x", false},
		{"^m*l*r$", "my_leaker", true},
		{"^y*", "my_leaker", false},
		{"*", "anything", true},
		{"libc.so", "/usr/lib/libc.so.6", true},
		{"", "anything", true},
		{"a$", "aba", true},
		{"leak", "", false},
		{"leak", NULL, false},
		{"ab*ab", "ab", false},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		if (limpet_filter_suppresses(list[i].pattern, list[i].text) != list[i].suppresses)
			fail_msg("'%s' and '%s'", list[i].pattern, list[i].text);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void test_suppression_files(void **state)
{
	struct limpet_filter *filter = limpet_filter_new();
	struct limpet_err err = {0};
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/suppressions", sample.directory);
	write_file(path, "# comment\n\n  leak:one \r\nrace:two\n");
	assert_int_equal(limpet_filter_add_suppressions(filter, path, &err), 0);
	assert_false(limpet_filter_is_empty(filter));
	write_file(path, "leak:one\nnonsense\n");
	assert_int_equal(limpet_filter_add_suppressions(filter, path, &err), -EINVAL);
	assert_non_null(strstr(err.message, "line 2"));
	unlink(path);
	assert_int_equal(limpet_filter_add_suppressions(filter, path, &err), -ENOENT);
	limpet_filter_free(filter);
}

static void test_threads_of_a_filter(void **state)
{
	struct limpet_filter *filter = limpet_filter_new();
	struct limpet_err err = {0};

	(void)state;
	assert_true(limpet_filter_keeps_thread(filter, 12, ""));
	assert_int_equal(limpet_filter_add(filter, "thread:1[0-9]", false, &err), 0);
	assert_true(limpet_filter_has_threads(filter));
	assert_true(limpet_filter_keeps_thread(filter, 12, ""));
	assert_false(limpet_filter_keeps_thread(filter, 1, "worker-12"));
	assert_false(limpet_filter_keeps_thread(filter, 123, ""));
	assert_int_equal(limpet_filter_add(filter, "thread:12", true, &err), 0);
	assert_false(limpet_filter_keeps_thread(filter, 12, ""));
	assert_true(limpet_filter_keeps_thread(filter, 13, ""));
	assert_int_equal(limpet_filter_add(filter, "thread:work", false, &err), 0);
	assert_true(limpet_filter_keeps_thread(filter, 7, "worker-1"));
	assert_false(limpet_filter_keeps_thread(filter, 7, "main"));
	assert_false(limpet_filter_keeps_thread(filter, 12, "worker-1"));
	assert_int_equal(limpet_filter_add(filter, "thread:поток|#3", false, &err), 0);
	assert_true(limpet_filter_keeps_thread(filter, 7, "поток 5"));
	assert_true(limpet_filter_keeps_thread(filter, 7, "io#3"));
	assert_int_equal(limpet_filter_add(filter, "thread:1[[:digit:]]+", false, &err), 0);
	assert_false(limpet_filter_keeps_thread(filter, 7, "pool-12"));
	assert_int_equal(limpet_filter_add(filter, "a[", true, &err), -EINVAL);
	assert_int_equal(limpet_filter_add(filter, "thread:a[", true, &err), -EINVAL);
	assert_int_equal(limpet_filter_add(filter, "", true, &err), -EINVAL);
	limpet_filter_free(filter);
}

/* ------------------------------------------------------------------ open blocks */

static uint64_t count_open(const struct limpet_open_blocks *blocks)
{
	struct limpet_open_block block;
	uint64_t count = 0, some;
	size_t at = 0;

	while ((some = limpet_open_blocks_next(blocks, &at, &block)))
		count += some;
	return count;
}

static uint32_t hash_of(const struct limpet_open_block *block)
{
	return limpet_open_hash(limpet_open_seed(block->node, block->size), block->tick);
}

static bool take(struct limpet_open_blocks *blocks, const struct limpet_open_block *like)
{
	return limpet_open_blocks_remove(blocks, like, hash_of(like));
}

/* Held against a plain list; many are alike. */
static void test_open_blocks(void **state)
{
	enum { MOST = 9000, STEPS = 60000, LOOKS = 1000 };
	static struct limpet_open_block list[MOST];
	struct limpet_open_blocks blocks = {0};
	struct limpet_open_block none = {.size = 8};
	size_t count = 0;
	uint64_t random = 7;

	(void)state;
	assert_false(take(&blocks, &list[0]));
	for (unsigned step = 0; step < STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		if (count < MOST && (count == 0 || random >> 40 & 3)) {
			struct limpet_open_block block = {.size = random >> 33 & 7,
							  .tick = random >> 36 & 31,
							  .node = (uint32_t)(random >> 45) & 3,
							  .thread = (uint32_t)(random >> 48) & 7,
							  .sampled = random >> 52 & 1};

			list[count++] = block;
			assert_int_equal(limpet_open_blocks_add(&blocks, &block, hash_of(&block)),
					 0);
		} else {
			size_t at = (random >> 20) % count;

			assert_true(take(&blocks, &list[at]));
			list[at] = list[--count];
		}
		if (step % LOOKS == 0)
			assert_int_equal(count_open(&blocks), count);
	}
	assert_false(take(&blocks, &none));
	assert_in_range(blocks.used, 1, 8 * 32 * 4 * 8 * 2); /* alike in all are one */
	while (count) {
		struct limpet_open_block other = list[--count];

		other.thread = UINT32_MAX;
		assert_false(take(&blocks, &other));
		assert_true(take(&blocks, &list[count]));
	}
	assert_int_equal(count_open(&blocks), 0);
	assert_int_equal(blocks.used, 0);
	limpet_open_blocks_done(&blocks);
}

/* ------------------------------------------------------------------ the views of the sample */

static void open_heap(struct limpet_analysis *analysis, struct limpet_analysis_options *options)
{
	struct limpet_err err;

	options->sorted = true;
	options->sort = LIMPET_REPORT_LIVE;
	if (limpet_analysis_open(sample.trace, options, analysis, &err) < 0)
		fail_msg("%s", err.message);
}

static uint64_t live_of(const struct limpet_view *view, const struct limpet_view_rows *rows,
			const char *name, bool self)
{
	for (size_t i = 0; i < rows->count; i++)
		if (!strcmp(view->locations->functions[rows->rows[i].function].name, name))
			return self ? rows->rows[i].self.live_bytes
				    : rows->rows[i].total.live_bytes;
	return UINT64_MAX;
}

/* leak() is inlined into nothing, grow() into leak(): LEAK, and COPY's strdup below it. */
static void test_functions(void **state)
{
	struct limpet_analysis_options options = {0};
	struct limpet_view_rows rows;
	struct limpet_analysis analysis;

	(void)state;
	open_heap(&analysis, &options);
	assert_int_equal(analysis.view.totals.live_bytes, SAMPLE_LIVE_BYTES);
	assert_int_equal(limpet_view_functions(&analysis.view, &rows), 0);
	assert_int_equal(live_of(&analysis.view, &rows, "grow", true), 6300);
	assert_int_equal(live_of(&analysis.view, &rows, "leak", true), 0);
	assert_int_equal(live_of(&analysis.view, &rows, "leak", false), 6300);
	assert_int_equal(live_of(&analysis.view, &rows, "[jit]", true), 10000);
	assert_int_equal(live_of(&analysis.view, &rows, "spin", true), 640);
	assert_int_equal(live_of(&analysis.view, &rows, "main", false), 6300 + 10000 + 640);
	assert_int_equal(live_of(&analysis.view, &rows, "(stack unknown)", true), 7);
	/* Noise is folded. */
	assert_int_equal(live_of(&analysis.view, &rows, "strdup", true), UINT64_MAX);
	limpet_view_rows_done(&rows);
	analysis.view.full = true;
	assert_int_equal(limpet_view_functions(&analysis.view, &rows), 0);
	assert_int_equal(live_of(&analysis.view, &rows, "strdup", true), 300);
	limpet_view_rows_done(&rows);
	limpet_analysis_close(&analysis);
}

/* Both trees hold the totals at their root, and no node less than its children. */
static void test_trees(void **state)
{
	struct limpet_analysis_options options = {0};
	struct limpet_analysis analysis;

	(void)state;
	open_heap(&analysis, &options);
	for (int bottom_up = 0; bottom_up < 2; bottom_up++) {
		struct limpet_view_tree *tree;
		size_t seen = 0;

		assert_int_equal(limpet_view_tree_new(&analysis.view, bottom_up, &tree), 0);
		assert_int_equal(tree->nodes[0].figures.live_bytes, SAMPLE_LIVE_BYTES);
		assert_int_equal(tree->nodes[0].figures.allocations, SAMPLE_ALLOCATIONS);
		for (uint32_t i = 0; i < tree->count; i++) {
			uint64_t sum = 0, before = UINT64_MAX;

			for (uint32_t at = tree->nodes[i].first_child; at;
			     at = tree->nodes[at].next) {
				assert_int_equal(tree->nodes[at].parent, i);
				assert_true(tree->nodes[at].figures.live_bytes <= before);
				before = tree->nodes[at].figures.live_bytes;
				sum += before;
				seen++;
			}
			assert_true(sum <= tree->nodes[i].figures.live_bytes);
			if (!i)
				assert_int_equal(sum, SAMPLE_LIVE_BYTES);
		}
		assert_int_equal(seen, tree->count - 1);
		limpet_view_tree_free(tree);
	}
	limpet_analysis_close(&analysis);
}

static uint32_t function_named(const struct limpet_locations *locations, const char *name)
{
	for (uint32_t i = 0; i < locations->function_count; i++)
		if (!strcmp(locations->functions[i].name, name))
			return i;
	fail_msg("no function '%s'", name);
	return 0;
}

/* With [jit] as spin, what main called of both is one node; without, it is two. */
static void test_alike(void **state)
{
	struct limpet_analysis_options options = {0};
	struct limpet_view_tree *apart, *together;
	struct limpet_analysis analysis;
	uint32_t *alike, spin;
	uint64_t live_bytes = 0;

	(void)state;
	open_heap(&analysis, &options);
	assert_int_equal(limpet_view_tree_new(&analysis.view, true, &apart), 0);
	alike = calloc(analysis.locations->function_count, sizeof(*alike));
	assert_non_null(alike);
	for (uint32_t i = 0; i < analysis.locations->function_count; i++)
		alike[i] = i;
	spin = function_named(analysis.locations, "spin");
	alike[function_named(analysis.locations, "[jit]")] = spin;
	analysis.view.alike = alike;
	assert_int_equal(limpet_view_tree_new(&analysis.view, true, &together), 0);
	assert_true(together->count < apart->count);
	assert_int_equal(together->nodes[0].figures.live_bytes, SAMPLE_LIVE_BYTES);
	for (uint32_t at = together->nodes[0].first_child; at; at = together->nodes[at].next)
		if (together->nodes[at].function == spin)
			live_bytes += together->nodes[at].figures.live_bytes;
	assert_int_equal(live_bytes, 10000 + 640);
	limpet_view_tree_free(apart);
	limpet_view_tree_free(together);
	free(alike);
	limpet_analysis_close(&analysis);
}

static void test_callers(void **state)
{
	struct limpet_analysis_options options = {0};
	struct limpet_view_calls *calls;
	struct limpet_analysis analysis;

	(void)state;
	open_heap(&analysis, &options);
	assert_int_equal(limpet_view_calls_new(&analysis.view, "leak", &calls), 0);
	assert_int_equal(calls->total.live_bytes, 6300);
	assert_int_equal(calls->self.live_bytes, 0);
	assert_int_equal(live_of(&analysis.view, &calls->callers, "main", false), 6300);
	assert_int_equal(live_of(&analysis.view, &calls->callees, "grow", false), 6300);
	assert_int_equal(calls->lines.count, 1);
	assert_int_equal(analysis.locations->locations[calls->lines.rows[0].function].line, 8);
	limpet_view_calls_free(calls);
	/* A part of one name; of none; of several. */
	assert_int_equal(limpet_view_calls_new(&analysis.view, "gro", &calls), 0);
	assert_int_equal(calls->self.live_bytes, 6300);
	limpet_view_calls_free(calls);
	assert_int_equal(limpet_view_calls_new(&analysis.view, "no such", &calls), -ENOENT);
	limpet_view_calls_free(calls);
	assert_int_equal(limpet_view_calls_new(&analysis.view, "i", &calls), -ENOTUNIQ);
	assert_true(calls->chosen_count > 1);
	limpet_view_calls_free(calls);
	limpet_analysis_close(&analysis);
}

static void check_filter(const char *pattern, bool exclude, uint64_t live_bytes)
{
	struct limpet_analysis_options options = {0};
	struct limpet_filter *filter = limpet_filter_new();
	struct limpet_analysis analysis;
	struct limpet_err err;

	assert_int_equal(limpet_filter_add(filter, pattern, exclude, &err), 0);
	options.filter = filter;
	for (int replay = 0; replay < 2; replay++) {
		options.replay = options.series = replay;
		open_heap(&analysis, &options);
		if (analysis.view.totals.live_bytes != live_bytes)
			fail_msg("%s '%s': %llu instead of %llu", exclude ? "exclude" : "include",
				 pattern, (unsigned long long)analysis.view.totals.live_bytes,
				 (unsigned long long)live_bytes);
		assert_int_equal(analysis.hidden.live_bytes, SAMPLE_LIVE_BYTES - live_bytes);
		assert_int_equal(analysis.model->totals.live_bytes, live_bytes);
		limpet_analysis_close(&analysis);
	}
	limpet_filter_free(filter);
}

static void test_filters(void **state)
{
	(void)state;
	check_filter("function:^leak$", false, 6300);
	check_filter("function:^leak$", true, SAMPLE_LIVE_BYTES - 6300);
	check_filter("^strdup$", false, 300);
	check_filter("module:libc", false, 300 + 640);
	check_filter("file:prog\\.c$", false, 6300 + 10000 + 640);
	check_filter("module:^leak$", false, 0);
	check_filter("evil", false, 10);
	check_filter("thread:4711", false, SAMPLE_LIVE_BYTES);
	check_filter("thread:471", false, 0);
	check_filter("thread:4711", true, 0);
}

/* Ages: LEAK's blocks came 50 ms apart, four went at 1.5 s; all others live. */
static void test_lifetimes(void **state)
{
	struct limpet_analysis_options options = {.replay = true, .moments = 4};
	struct limpet_view_lives lives;
	struct limpet_view_tree *tree;
	struct limpet_analysis analysis;
	uint64_t freed = 0, alive = 0;

	(void)state;
	open_heap(&analysis, &options);
	assert_int_equal(limpet_view_tree_new(&analysis.view, false, &tree), 0);
	assert_int_equal(limpet_view_lives(&analysis.view, tree, analysis.replay, &lives), 0);
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++) {
		freed += lives.all.freed.blocks[i];
		alive += lives.all.alive.bytes[i];
	}
	assert_int_equal(freed, 4);
	assert_int_equal(alive, SAMPLE_LIVE_BYTES);
	/* A site keeps those ages alone at which it has blocks. */
	for (size_t i = 0; i < analysis.replay->site_count; i++) {
		const struct limpet_replay_site *site = &analysis.replay->sites[i];

		for (size_t k = 0; k < site->age_count; k++)
			assert_true(site->ages[k].blocks);
		assert_in_range(site->age_count, 0, site->figures.allocations);
	}
	/* Between 1.3 s and 1.45 s. */
	assert_int_equal(lives.all.freed.blocks[2], 4);
	/* The oldest that lives is LEAK's fifth: from 250 ms to 2 s. */
	assert_int_equal(lives.all.oldest_ns, 1750000000);
	/* Quarters of two seconds: live at their ends. */
	assert_int_equal(analysis.replay->moment_count, 4);
	assert_int_equal(analysis.replay->moments[0].last_bytes, 9000);
	assert_int_equal(analysis.replay->moments[1].last_bytes, 10300);
	assert_int_equal(analysis.replay->moments[1].live_bytes, 10300);
	assert_int_equal(analysis.replay->moments[2].last_bytes, 10300);
	assert_int_equal(analysis.replay->moments[3].last_bytes, SAMPLE_LIVE_BYTES);
	assert_true(analysis.replay->moments[3].live_bytes > SAMPLE_LIVE_BYTES);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
	limpet_analysis_close(&analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suppression_patterns),
		cmocka_unit_test(test_suppression_files),
		cmocka_unit_test(test_threads_of_a_filter),
		cmocka_unit_test(test_open_blocks),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_callers),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_lifetimes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
