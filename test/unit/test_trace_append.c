/* Symbols are appended to a trace, whole or torn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "analyzer/model/model.h"
#include "analyzer/seal/trace_append.h"
#include "analyzer/trace/trace_reader.h"
#include "test/unit/trace_fixture.h"

static void seal_some(const char *path, const char *function, bool complete)
{
	static const uint8_t id[4] = {9, 8, 7, 6};
	struct limpet_model_frame frames[2] = {
		{.function = function, .file = "a.c", .line = 12, .inlined = true},
		{.function = "outer", .file = NULL, .line = 0},
	};
	struct limpet_trace_append *append = NULL;
	struct limpet_err err = {0};

	if (limpet_trace_append_open(path, &append, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(limpet_trace_append_file(append, 1, "/usr/bin/made-up", id, 4), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 1, 0x401000, frames, 2), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 1, 0x402000, frames + 1, 1), 0);
	assert_int_equal(limpet_trace_append_symbol(append, 2, 0x7f0000001000ull, NULL, 0), 0);
	assert_int_equal(limpet_trace_append_finish(append, complete), 0);
	limpet_trace_append_free(append);
}

static void check_symbols(const char *path, const char *function, bool complete)
{
	struct limpet_trace_reader *reader = trace_open(path);
	struct limpet_model *model = trace_model(reader, 0, 0);
	const struct limpet_model_address *addresses;
	const struct limpet_model_frame *frames = NULL;

	assert_true(model->sealed);
	assert_int_equal(model->symbols_complete, complete);
	assert_int_equal(limpet_model_symbols(model, 1, 0x401000, &frames), 2);
	assert_string_equal(frames[0].function, function);
	assert_string_equal(frames[0].file, "a.c");
	assert_int_equal(frames[0].line, 12);
	assert_true(frames[0].inlined);
	assert_string_equal(frames[1].function, "outer");
	assert_null(frames[1].file);
	assert_false(frames[1].inlined);
	assert_int_equal(limpet_model_symbols(model, 2, 0x7f0000001000ull, &frames), 0);
	assert_int_equal(limpet_model_symbols(model, 2, 0x402000, &frames), 0);
	assert_int_equal(limpet_model_addresses(model, &addresses), 2 + CAPTURE_SITES);
	assert_int_equal(addresses[0].module, 1);
	assert_int_equal(addresses[1].address, 0x402000);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

static void test_symbols_are_appended(void **state)
{
	static struct capture capture;
	struct trace_outcome before, after;

	(void)state;
	trace_make(&capture, trace_path("seal"), 500, 100, 11);
	before = trace_try(trace_path("seal"));
	seal_some(trace_path("seal"), "first", false);
	check_symbols(trace_path("seal"), "first", false);
	seal_some(trace_path("seal"), "second", true);
	check_symbols(trace_path("seal"), "second", true);
	after = trace_try(trace_path("seal"));
	assert_true(after.complete && after.whole);
	assert_memory_equal(&before.totals, &after.totals, sizeof(before.totals));
}

static void test_a_torn_trace_can_be_sealed(void **state)
{
	static struct capture capture;
	size_t count;
	uint8_t *bytes;

	(void)state;
	trace_make(&capture, trace_path("torn"), 2000, 200, 12);
	bytes = trace_read_bytes(trace_path("torn"), &count);
	for (size_t cut = count - 400; cut < count - 300; cut += 7) {
		struct trace_outcome before, after;

		trace_write_bytes(trace_path("torn"), bytes, cut);
		before = trace_try(trace_path("torn"));
		seal_some(trace_path("torn"), "first", true);
		check_symbols(trace_path("torn"), "first", true);
		after = trace_try(trace_path("torn"));
		assert_int_equal(after.end, LIMPET_END_COLLECTOR_LOST);
		assert_false(after.complete);
		assert_int_equal(before.events, after.events);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols_are_appended),
		cmocka_unit_test(test_a_torn_trace_can_be_sealed),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
