/* What reports and diffs say of a capture that looked for lost blocks, and a trace whose list of
 * these is damaged. */
#include "test/unit/sample_trace.h"

#include <errno.h>
#include <jansson.h>

#include "analyzer/seal/seal.h"
#include "analyzer/text/diff_print.h"
#include "analyzer/text/report_json.h"
#include "analyzer/text/report_markdown.h"
#include "analyzer/text/report_text.h"
#include "analyzer/trace/trace_reader_tables.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/candidates.h"
#include "analyzer/views/diff.h"
#include "common/trace_block.h"

static struct sample sample;
static struct limpet_leak_site_counts sites[5];
static struct limpet_leak_counts leaks;

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

static void judge(size_t at, uint32_t node, enum limpet_leak_state state, uint64_t blocks,
		  uint64_t bytes)
{
	sites[at].node = node;
	sites[at].amounts.of[state] = (struct limpet_leak_amount){blocks, bytes};
	leaks.amounts.of[state].blocks += blocks;
	leaks.amounts.of[state].bytes += bytes;
}

/* The live blocks of sample_write(), but for that of an unknown stack. */
static void judge_sample(void)
{
	memset(sites, 0, sizeof(sites));
	leaks = (struct limpet_leak_counts){.known = true,
					    .is_certain = true,
					    .unjudged = 1,
					    .stop_ns = 4200001,
					    .sites = sites,
					    .count = LIMPET_COUNT_OF(sites)};
	judge(0, SAMPLE_LEAK, LIMPET_LEAK_DEFINITELY, 4, 4000);
	judge(0, SAMPLE_LEAK, LIMPET_LEAK_INDIRECTLY, 1, 1000);
	judge(0, SAMPLE_LEAK, LIMPET_LEAK_REACHABLE, 1, 1000);
	judge(1, SAMPLE_COPY, LIMPET_LEAK_STACK_ONLY, 3, 300);
	judge(2, SAMPLE_JIT, LIMPET_LEAK_REACHABLE, 2, 10000);
	judge(3, SAMPLE_MALLOC1, LIMPET_LEAK_DEFINITELY, 1, 64);
	judge(3, SAMPLE_MALLOC1, LIMPET_LEAK_REACHABLE, 4, 256);
	judge(4, SAMPLE_MALLOC2, LIMPET_LEAK_REACHABLE, 5, 320);
	strcpy(sites[2].holder, "sessions (server.c:31)");
	sites[2].held_bytes = 10064;
	strcpy(sites[3].holder, "little");
	strcpy(sites[4].holder, "spare\x1b[2J");
	sample.leaks = &leaks;
}

static void write_it(void)
{
	struct limpet_seal_result result;

	sample_write(&sample);
	sample.leaks = NULL;
	assert_int_equal(limpet_seal(sample.trace, NULL, &result, NULL), 0);
}

/* ------------------------------------------------------------------ reports */

enum form { TEXT, FULL, MARKDOWN, JSON };

/* malloc'ed. `to_ns`: the end of the window; 0: none. */
static char *report_of(enum form form, uint64_t to_ns, const struct limpet_model_site *hidden)
{
	const struct limpet_report_options options = {.sort = LIMPET_REPORT_LIVE,
						      .limit = form == JSON ? SIZE_MAX : 2,
						      .merge = form != JSON,
						      .hidden = hidden};
	const struct limpet_report_text_options text = {
		.width = 80, .full = form == FULL, .bold = "", .dim = "", .warn = "", .plain = ""};
	const struct limpet_model_options window = {.to_ns = to_ns};
	struct limpet_trace_reader *reader = NULL;
	struct limpet_report *report = NULL;
	struct limpet_model *model = NULL;
	struct limpet_err err = {0};
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);

	assert_non_null(file);
	if (limpet_trace_reader_open(sample.trace, &reader, &err) < 0 ||
	    limpet_model_build(reader, &window, &model, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_report_new(model, &options, &report), 0);
	if (form == JSON)
		assert_int_equal(limpet_report_json_print(report, file), 0);
	else if (form == MARKDOWN)
		assert_int_equal(limpet_report_markdown_print(report, false, file), 0);
	else
		assert_int_equal(limpet_report_text_print(report, &text, file), 0);
	assert_int_equal(fclose(file), 0);
	limpet_report_free(report);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return out;
}

static void assert_part(enum form form, const char *part)
{
	char *text = report_of(form, 0, NULL);

	if (!strstr(text, part))
		fail_msg("no '%s' in %s", part, text);
	free(text);
}

static void test_text(void **state)
{
	static const char section[] =
		"Lost\n"
		"- 6 blocks, 4.9 KiB are lost: nothing points to them any more; 3 held from\n"
		"  stacks alone; 1 not judged.\n"
		"       bytes  lost of live blocks   site\n"
		"     4.9 KiB         5 of 6         grow, called by leak\n"
		"        64 B         1 of 10        spin, called by main\n"
		"\n";

	(void)state;
	judge_sample();
	write_it();
	/* Also of sites that the limit leaves out. */
	assert_part(TEXT, section);
	assert_part(TEXT, " 9.8 KiB at peak; held by sessions\n      (server.c:31)\n");
	assert_part(TEXT, "; 9.8 KiB at peak; 5 of 6 lost\n");
}

static void test_text_of_doubts(void **state)
{
	(void)state;
	judge_sample();
	leaks.is_certain = false;
	write_it();
	assert_part(TEXT, "- 6 blocks, 4.9 KiB are probably lost: nothing points");
	assert_part(TEXT, "; 5 of 6 probably\n      lost\n");
	judge_sample();
	leaks.amounts = (struct limpet_leak_amounts){0};
	judge(1, SAMPLE_COPY, LIMPET_LEAK_PROBABLY, 1, 100);
	judge(2, SAMPLE_JIT, LIMPET_LEAK_POSSIBLY, 1, 5000);
	write_it();
	assert_part(TEXT, "- 1 block, 100 B is probably lost: nothing points to it any more; 1 by "
			  "pointers\n  into their midst alone; 1 not judged.\n");
	/* Of a site whose own blocks are certain. */
	assert_part(TEXT, "; 5 of 6 lost\n");
}

static void test_nothing_lost(void **state)
{
	(void)state;
	judge_sample();
	memset(sites, 0, sizeof(sites));
	leaks.amounts = (struct limpet_leak_amounts){0};
	leaks.unjudged = 0;
	leaks.count = 1;
	judge(0, SAMPLE_LEAK, LIMPET_LEAK_REACHABLE, 31000, 6000);
	write_it();
	assert_part(TEXT,
		    "Lost\n- No block is lost: pointers lead to all 31.0 k that are live.\n\n");
	leaks.unjudged = 2;
	sample.leaks = &leaks;
	write_it();
	assert_part(TEXT, "all 31.0 k that were judged; 2 not judged.\n");
	leaks.amounts = (struct limpet_leak_amounts){0};
	leaks.count = 0;
	sample.leaks = &leaks;
	write_it();
	assert_part(TEXT, "- No block is lost: none was judged; 2 not judged.\n");
}

/* Nobody looked; at another moment; of a part of the blocks. */
static void test_not_known(void **state)
{
	const struct limpet_model_site hidden = {0};
	char *texts[3];

	(void)state;
	judge_sample();
	write_it();
	texts[0] = report_of(TEXT, 1900000000, NULL);
	texts[1] = report_of(TEXT, 0, &hidden);
	write_it();
	texts[2] = report_of(TEXT, 0, NULL);
	for (size_t i = 0; i < LIMPET_COUNT_OF(texts); i++) {
		assert_non_null(strstr(texts[i], "Top 2 of 6 sites"));
		assert_null(strstr(texts[i], "ost\n"));
		assert_null(strstr(texts[i], "held by"));
		free(texts[i]);
	}
}

/* Five of six are shown; two stacks that look alike are one. */
static void test_many_losers(void **state)
{
	static const uint32_t nodes[] = {0,           SAMPLE_LEAK,    SAMPLE_COPY,   SAMPLE_JIT,
					 SAMPLE_EVIL, SAMPLE_MALLOC1, SAMPLE_MALLOC2};
	static struct limpet_leak_site_counts many[LIMPET_COUNT_OF(nodes)];
	char *text;

	(void)state;
	judge_sample();
	leaks.sites = many;
	leaks.count = LIMPET_COUNT_OF(many);
	for (size_t i = 0; i < LIMPET_COUNT_OF(many); i++) {
		many[i].node = nodes[i];
		many[i].amounts.of[LIMPET_LEAK_DEFINITELY] =
			(struct limpet_leak_amount){1, 10 + (i ? i : 7)};
	}
	write_it();
	text = report_of(TEXT, 0, NULL);
	assert_non_null(strstr(text,
			       "        31 B         2 of 2         spin, called by main\n"
			       "        17 B         1 of 1         (stack unknown)\n"
			       "        14 B         1 of 1         evil?[31m??.so+0x1234\n"));
	assert_non_null(strstr(text, "\n  ... 1 more: --full\n\ntarget "));
	assert_null(strstr(text, "        11 B "));
	free(text);
	text = report_of(FULL, 0, NULL);
	assert_null(strstr(text, "--full"));
	assert_non_null(strstr(text, "        11 B         1 of 1 "));
	free(text);
}

static void test_markdown(void **state)
{
	(void)state;
	judge_sample();
	write_it();
	assert_part(MARKDOWN, "```text\nLost\n- 6 blocks, 4.9 KiB are lost: ");
	assert_part(MARKDOWN, "| live bytes | share | function | called by | lost |\n"
			      "|---:|---:|---|---|---|\n");
	assert_part(MARKDOWN, "| `[jit] 0x7f0000002345` | held by sessions (server.c:31) |\n");
	assert_part(MARKDOWN, "| `grow` | `leak` | 5 of 6 lost |\n");
	write_it();
	assert_part(MARKDOWN,
		    "| live bytes | share | function | called by |\n|---:|---:|---|---|\n");
}

/* ------------------------------------------------------------------ JSON */

/* Holds what was written against the schema. */
static json_t *checked(char *text)
{
	char path[128], command[256];
	json_error_t error;
	json_t *root = json_loads(text, 0, &error);
	FILE *file;

	if (!root)
		fail_msg("%s in %s", error.text, text);
	snprintf(path, sizeof(path), "%s/lost.json", sample.directory);
	snprintf(command, sizeof(command), "test/schema/validate cli/limpet.schema.json %s", path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(system(command), 0);
	free(text);
	return root;
}

static void assert_amount(json_t *object, const char *key, json_int_t blocks, json_int_t bytes)
{
	json_t *amount = json_object_get(object, key);

	assert_true(json_is_object(amount));
	assert_int_equal(json_integer_value(json_object_get(amount, "blocks")), blocks);
	assert_int_equal(json_integer_value(json_object_get(amount, "bytes")), bytes);
}

static void test_json(void **state)
{
	json_t *root, *lost, *site, *holder;
	unsigned known = 0, held = 0;
	size_t index;

	(void)state;
	judge_sample();
	write_it();
	root = checked(report_of(JSON, 0, NULL));
	lost = json_object_get(root, "lost");
	assert_amount(lost, "definitely", 5, 4064);
	assert_amount(lost, "indirectly", 1, 1000);
	assert_amount(lost, "probably", 0, 0);
	assert_amount(lost, "possibly", 0, 0);
	assert_amount(lost, "stack_only", 3, 300);
	assert_amount(lost, "reachable", 12, 11576);
	assert_true(json_is_true(json_object_get(lost, "certain")));
	assert_int_equal(json_integer_value(json_object_get(lost, "unjudged")), 1);
	assert_int_equal(json_integer_value(json_object_get(lost, "stop_microseconds")), 4201);
	json_array_foreach(json_object_get(root, "sites"), index, site)
	{
		const json_int_t live = json_integer_value(json_object_get(site, "live_bytes"));

		known += json_is_object(json_object_get(site, "lost"));
		holder = json_object_get(site, "holder");
		held += json_is_object(holder);
		if (live == 6000) {
			assert_amount(site, "lost", 5, 5000);
			assert_true(json_is_null(holder));
		}
		if (live == 10000) {
			assert_amount(site, "lost", 0, 0);
			assert_string_equal(json_string_value(json_object_get(holder, "name")),
					    "sessions (server.c:31)");
			assert_int_equal(json_integer_value(json_object_get(holder, "bytes")),
					 10064);
		}
	}
	assert_int_equal(known, 5);
	assert_int_equal(held, 3);
	json_decref(root);
	write_it();
	root = checked(report_of(JSON, 0, NULL));
	assert_true(json_is_null(json_object_get(root, "lost")));
	site = json_array_get(json_object_get(root, "sites"), 0);
	assert_true(json_is_null(json_object_get(site, "lost")));
	assert_true(json_is_null(json_object_get(site, "holder")));
	json_decref(root);
}

/* ------------------------------------------------------------------ diffs */

/* Of two captures with more lost in the second one; `known`: which of them looked. */
static char *diff_of(enum form form, const bool known[2])
{
	static const struct limpet_verdict *const none[2];
	const struct limpet_report_text_options text = {
		.width = 80, .bold = "", .dim = "", .warn = "", .plain = ""};
	const struct limpet_analysis_options options = {.sorted = true, .sort = LIMPET_REPORT_LIVE};
	struct limpet_analysis analyses[2];
	struct limpet_diff *diff;
	struct limpet_err err;
	char *out = NULL;
	size_t bytes;
	FILE *file = open_memstream(&out, &bytes);

	assert_non_null(file);
	for (int i = 0; i < 2; i++) {
		judge_sample();
		if (i)
			judge(2, SAMPLE_JIT, LIMPET_LEAK_DEFINITELY, 1, 5000);
		if (!known[i])
			sample.leaks = NULL;
		write_it();
		if (limpet_analysis_open(sample.trace, &options, &analyses[i], &err) < 0)
			fail_msg("%s", err.message);
	}
	assert_int_equal(limpet_diff_new(&analyses[0], &analyses[1], none, &diff), 0);
	if (form == JSON)
		assert_int_equal(limpet_diff_json_print(diff, "a", "b", SIZE_MAX, file), 0);
	else
		assert_int_equal(limpet_diff_text_print(diff, "a", "b", 20, &text, file), 0);
	assert_int_equal(fclose(file), 0);
	limpet_diff_free(diff);
	for (int i = 0; i < 2; i++)
		limpet_analysis_close(&analyses[i]);
	return out;
}

static void test_diff(void **state)
{
	static const struct {
		bool known[2];
		const char *line; /* NULL: none */
	} rows[] = {
		{{true, true},
		 "\nlost      4.9 KiB -> 9.8 KiB\n"
		 "             4.9 KiB more  [jit] < main\n\n"},
		{{true, false}, "\nlost      4.9 KiB in the old one; not known of the new\n"},
		{{false, true}, "\nlost      9.8 KiB in the new one; not known of the old\n"},
		{{false, false}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		char *text = diff_of(TEXT, rows[i].known);
		json_t *root = checked(diff_of(JSON, rows[i].known));
		json_t *lost = json_object_get(root, "lost");

		if (rows[i].line ? !strstr(text, rows[i].line) : strstr(text, "lost") != NULL)
			fail_msg("%zu: %s", i, text);
		assert_int_equal(json_is_object(lost), rows[i].line != NULL);
		if (rows[i].known[0])
			assert_amount(lost, "before", 6, 5064);
		else if (rows[i].line)
			assert_true(json_is_null(json_object_get(lost, "before")));
		if (rows[i].known[1])
			assert_amount(lost, "after", 7, 10064);
		json_decref(root);
		free(text);
	}
}

/* ------------------------------------------------------------------ long sentences */

static void test_long_sentence(void **state)
{
	static const char words[] = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19";
	const struct limpet_culprit culprit = {.node = 1}, nameless = {.node = 0};
	const struct limpet_lost lost = {.lost = {3000, 3000}, .judged = {4000, 4000}};
	const struct limpet_lost held = {.held = &sites[0]};
	char *text;

	(void)state;
	strcpy(sites[0].holder, "a b c");
	/* 30 words without the end. */
	text = limpet_evidence_sentence(&culprit, words, "none was freed", &lost);
	assert_string_equal(text, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19, and 3.0 k of "
				  "its 4.0 k blocks are lost.");
	free(text);
	text = limpet_evidence_sentence(&nameless, words + 10, "none was freed", &lost);
	assert_string_equal(text, "6 7 8 9 10 11 12 13 14 15 16 17 18 19, and 3.0 k of their 4.0 k "
				  "blocks are lost: nothing points to them.");
	free(text);
	text = limpet_evidence_sentence(&culprit, words, "1 2 3 4 5 6", &held);
	assert_string_equal(strstr(text, "19, "), "19, held by a b c: 1 2 3 4 5 6.");
	free(text);
	text = limpet_evidence_sentence(&culprit, words, "1 2 3 4 5 6 7", &held);
	assert_string_equal(strstr(text, "19, "), "19, held by a b c.");
	free(text);
}

/* ------------------------------------------------------------------ damage */

/* What a number of the list is replaced by; -1: none is. */
static int read_list(size_t numbers, long at, uint64_t value)
{
	/* certain, unjudged, stop, amounts, sites, node, amounts, no holder, held */
	uint64_t list[3 + 12 + 1 + 1 + 12 + 1 + 1] = {[15] = 1, [16] = 5};
	struct limpet_bytes inner = {0}, content = {0};
	struct limpet_trace_tables tables;
	int code;

	if (at >= 0)
		list[at] = value;
	for (size_t i = 0; i < numbers; i++)
		limpet_bytes_append_varint(&inner, list[i]);
	limpet_trace_list_append(&content, LIMPET_ENDING_LEAKS, &inner);
	assert_int_equal(limpet_trace_tables_init(&tables), 0);
	code = limpet_trace_tables_read(&tables, LIMPET_TRACE_END,
					limpet_cursor_of(content.data, content.count));
	assert_int_equal(tables.end.leaks.known, code == 0);
	limpet_trace_tables_done(&tables);
	limpet_bytes_done(&content);
	return code;
}

static void test_damage(void **state)
{
	const size_t numbers = 31;

	(void)state;
	assert_int_equal(read_list(numbers, -1, 0), 0);
	for (size_t i = 0; i < numbers; i++)
		assert_int_equal(read_list(i, -1, 0), -EBADMSG);
	assert_int_equal(read_list(numbers, 0, 2), -EBADMSG);
	assert_int_equal(read_list(numbers, 15, LIMPET_LEAK_SITES_MAX + 1), -EBADMSG);
	assert_int_equal(read_list(numbers, 15, 2), -EBADMSG);
	assert_int_equal(read_list(numbers, 16, 1ull << 32), -EBADMSG);
	assert_int_equal(read_list(numbers, 16, UINT32_MAX), 0);
	assert_int_equal(read_list(numbers, 29, LIMPET_LEAK_HOLDER_BYTES), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),          cmocka_unit_test(test_text_of_doubts),
		cmocka_unit_test(test_nothing_lost),  cmocka_unit_test(test_not_known),
		cmocka_unit_test(test_many_losers),   cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_json),          cmocka_unit_test(test_diff),
		cmocka_unit_test(test_long_sentence), cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
