#include "test/unit/sample_trace.h"

#include <errno.h>
#include <fcntl.h>

#include "analyzer/model.h"
#include "analyzer/seal.h"

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

static void must_seal(const struct limpet_seal_options *options, struct limpet_seal_result *result)
{
	struct limpet_err err = {0};

	memset(result, 0, sizeof(*result));
	if (limpet_seal(sample.trace, options, result, &err) < 0)
		fail_msg("%s", err.message);
}

/* Functions of the frames of a node in the trace, innermost first, as "a<b". */
static void functions_of(uint32_t node, char *out, size_t bytes)
{
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	const struct limpet_model_frame *frames;
	uint32_t count;

	assert_int_equal(limpet_trace_reader_open(sample.trace, &reader, NULL), 0);
	assert_int_equal(limpet_model_build(reader, NULL, &model, NULL), 0);
	assert_true(node < model->node_count);
	count = limpet_model_symbols(model, model->nodes[node].module, model->nodes[node].address,
				     &frames);
	out[0] = '\0';
	for (uint32_t i = 0; i < count; i++)
		snprintf(out + strlen(out), bytes - strlen(out), "%s%s:%u", i ? "<" : "",
			 frames[i].function ? frames[i].function : "?", frames[i].line);
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
}

struct calls {
	uint64_t last_done, total;
	unsigned missing;
	char path[256];
	int code;
	volatile sig_atomic_t cancel;
	uint64_t cancel_at;
};

static void on_progress(void *context, uint64_t done, uint64_t total)
{
	struct calls *calls = context;

	assert_true(done >= calls->last_done && done <= total);
	calls->last_done = done;
	calls->total = total;
	if (calls->cancel_at && done >= calls->cancel_at)
		calls->cancel = 1;
}

static void on_missing(void *context, const char *path, uint64_t addresses,
		       const struct limpet_err *err)
{
	struct calls *calls = context;

	assert_true(addresses > 0);
	calls->missing++;
	snprintf(calls->path, sizeof(calls->path), "%s", path);
	calls->code = err->code;
}

static void test_seals_what_has_files(void **state)
{
	struct calls calls = {0};
	const struct limpet_seal_options options = {
		.progress = on_progress, .missing = on_missing, .context = &calls};
	struct limpet_seal_result result;
	char functions[256];

	(void)state;
	sample_write(&sample);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "");
	must_seal(&options, &result);
	/* main, leak, spin; strdup, malloc twice; evil */
	assert_int_equal(result.addresses, 7);
	assert_int_equal(result.resolved, 6);
	assert_true(result.lines >= 3);
	assert_int_equal(result.skipped, 0);
	assert_false(result.cancelled);
	assert_int_equal(result.modules, 3);
	assert_int_equal(result.modules_missing, 1);
	assert_int_equal(calls.missing, 1);
	assert_string_equal(calls.path, SAMPLE_EVIL_PATH);
	assert_int_equal(calls.code, -ENOENT);
	assert_int_equal(calls.last_done, 7);
	assert_int_equal(calls.total, 7);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	functions_of(SAMPLE_MAIN, functions, sizeof(functions));
	assert_string_equal(functions, "main:15");
	functions_of(SAMPLE_COPY, functions, sizeof(functions));
	assert_int_equal(strncmp(functions, "strdup:", 7), 0);
}

static void test_sealing_again_keeps_what_is_known(void **state)
{
	struct limpet_seal_result result;
	char functions[256], command[512];

	(void)state;
	sample_write(&sample);
	must_seal(NULL, &result);
	assert_int_equal(result.resolved, 6);
	/* Symbols only, then no file at all. */
	snprintf(command, sizeof(command), "cp %s %s.kept && strip -g %s", sample.program,
		 sample.program, sample.program);
	assert_int_equal(system(command), 0);
	must_seal(NULL, &result);
	assert_int_equal(result.resolved, 6);
	assert_true(result.lines >= 3);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	assert_int_equal(unlink(sample.program), 0);
	must_seal(NULL, &result);
	assert_int_equal(result.resolved, 6);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	snprintf(command, sizeof(command), "mv %s.kept %s", sample.program, sample.program);
	assert_int_equal(system(command), 0);
}

static void test_more_at_hand_adds_lines(void **state)
{
	struct limpet_seal_result result;
	char functions[256], command[512], dir[128];
	const char *const dirs[] = {dir, NULL};
	const struct limpet_seal_options options = {.debug_dirs = dirs};

	(void)state;
	sample_write(&sample);
	snprintf(dir, sizeof(dir), "%s/debug", sample.folder);
	snprintf(command, sizeof(command), "mkdir -p %s && cp %s %s/prog && strip -g %s", dir,
		 sample.program, dir, sample.program);
	assert_int_equal(system(command), 0);
	must_seal(NULL, &result);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "leak:0");
	/* The stripped file is still in its place. */
	must_seal(&options, &result);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	snprintf(command, sizeof(command), "mv %s/prog %s", dir, sample.program);
	assert_int_equal(system(command), 0);
}

static void test_cancel_keeps_what_was_found(void **state)
{
	struct calls calls = {.cancel_at = 3};
	struct limpet_seal_options options = {
		.progress = on_progress, .context = &calls, .cancel = &calls.cancel};
	struct limpet_seal_result result;
	char functions[256];

	(void)state;
	sample_write(&sample);
	/* The program's three addresses come first; the end of its module is a progress call. */
	must_seal(&options, &result);
	assert_true(result.cancelled);
	assert_int_equal(result.skipped, 4);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	functions_of(SAMPLE_COPY, functions, sizeof(functions));
	assert_string_equal(functions, "");

	memset(&calls, 0, sizeof(calls));
	must_seal(&options, &result);
	assert_false(result.cancelled);
	assert_int_equal(result.resolved, 6);

	/* Before the first address. */
	sample_write(&sample);
	calls = (struct calls){.cancel = 1};
	must_seal(&options, &result);
	assert_true(result.cancelled);
	assert_int_equal(result.skipped, 7);
	assert_int_equal(result.resolved, 0);
}

static void test_open_descriptors_outlive_names(void **state)
{
	struct limpet_seal_source source;
	struct limpet_seal_options options = {.sources = &source, .source_count = 1};
	struct limpet_seal_result result;
	char functions[256], kept[128];

	(void)state;
	sample_write(&sample);
	source.module = sample.program_module;
	source.fd = open(sample.program, O_RDONLY | O_CLOEXEC);
	assert_true(source.fd >= 0);
	snprintf(kept, sizeof(kept), "%s.kept", sample.program);
	assert_int_equal(rename(sample.program, kept), 0);
	must_seal(&options, &result);
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
	assert_true(fcntl(source.fd, F_GETFD) >= 0);
	close(source.fd);
	assert_int_equal(rename(kept, sample.program), 0);
}

static void test_not_while_it_is_captured(void **state)
{
	struct limpet_recorder *recorder = sample_open(&sample, -1);
	struct limpet_seal_result result;
	struct limpet_err err = {0};

	(void)state;
	sample_allocate(&sample, recorder, SAMPLE_LEAK, 10);
	sample.now_ns = 1000;
	sample_tick(&sample, recorder);
	assert_int_equal(limpet_seal(sample.trace, NULL, &result, &err), -EBUSY);
	assert_true(err.message[0] != '\0');
	sample_finish(&sample, recorder, 0);
	must_seal(NULL, &result);
}

static void test_errors(void **state)
{
	struct limpet_seal_result result;
	struct limpet_err err = {0};

	(void)state;
	assert_int_equal(limpet_seal("/nowhere/trace", NULL, &result, &err), -ENOENT);
	assert_true(err.message[0] != '\0');
	err = (struct limpet_err){0};
	assert_int_equal(limpet_seal(sample.program, NULL, &result, &err), -ENOMSG);
	assert_true(err.message[0] != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seals_what_has_files),
		cmocka_unit_test(test_sealing_again_keeps_what_is_known),
		cmocka_unit_test(test_more_at_hand_adds_lines),
		cmocka_unit_test(test_cancel_keeps_what_was_found),
		cmocka_unit_test(test_open_descriptors_outlive_names),
		cmocka_unit_test(test_not_while_it_is_captured),
		cmocka_unit_test(test_errors),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
