#include "test/unit/sample_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "analyzer/model/model.h"
#include "analyzer/seal/seal.h"

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

static off_t trace_bytes(void)
{
	struct stat stat_of;

	assert_int_equal(stat(sample.trace, &stat_of), 0);
	return stat_of.st_size;
}

static void test_sealing_again_adds_nothing(void **state)
{
	struct limpet_seal_result result;
	off_t sealed;

	(void)state;
	sample_write(&sample);
	must_seal(NULL, &result);
	sealed = trace_bytes();
	must_seal(NULL, &result);
	assert_int_equal(result.resolved, 6);
	assert_int_equal(trace_bytes(), sealed);
}

/* Complete, with nothing lost; answers whether it is sealed. */
static bool check_whole(void)
{
	struct limpet_trace_reader *reader;
	struct limpet_model *model;
	bool sealed;

	assert_int_equal(limpet_trace_reader_open(sample.trace, &reader, NULL), 0);
	assert_int_equal(limpet_model_build(reader, NULL, &model, NULL), 0);
	assert_true(model->complete);
	assert_true(model->exact);
	assert_false(model->damage->truncated);
	assert_int_equal(model->damage->blocks_lost + model->damage->blocks_damaged, 0);
	assert_int_equal(model->totals.live_bytes, SAMPLE_LIVE_BYTES);
	sealed = model->symbols_complete;
	limpet_model_free(model);
	limpet_trace_reader_free(reader);
	return sealed;
}

/* What a seal leaves that ends within its write, whichever byte was the last. */
static void test_a_torn_seal_hides_nothing(void **state)
{
	struct limpet_seal_result result;
	off_t before, after;
	char functions[256];
	uint8_t *whole;
	int fd;

	(void)state;
	sample_write(&sample);
	before = trace_bytes();
	must_seal(NULL, &result);
	after = trace_bytes();
	whole = malloc((size_t)after);
	fd = open(sample.trace, O_RDWR | O_CLOEXEC);
	assert_true(whole && fd >= 0);
	assert_int_equal(pread(fd, whole, (size_t)after, 0), after);
	for (off_t cut = before; cut < after; cut++) {
		assert_int_equal(pwrite(fd, whole, (size_t)cut, 0), cut);
		assert_int_equal(ftruncate(fd, cut), 0);
		assert_false(check_whole());
		if ((cut - before) % 32 != 7)
			continue;
		must_seal(NULL, &result);
		assert_int_equal(result.resolved, 6);
		assert_true(check_whole());
		functions_of(SAMPLE_LEAK, functions, sizeof(functions));
		assert_string_equal(functions, "grow:5<leak:8");
	}
	close(fd);
	free(whole);
}

/* What a seal does to the file, and at what it is killed. */
enum moment { MOMENT_BEFORE, MOMENT_HALF, MOMENT_AFTER, MOMENTS };
static unsigned changes_left; /* up to that one; 0: it is not */
static enum moment moment;

ssize_t __real_pwrite(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	bool last = changes_left && !--changes_left;
	ssize_t wrote;

	if (last && moment == MOMENT_BEFORE)
		kill(getpid(), SIGKILL);
	wrote = __real_pwrite(fd, data, last && moment == MOMENT_HALF ? bytes / 2 : bytes, offset);
	if (last)
		kill(getpid(), SIGKILL);
	return wrote;
}

int __real_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes)
{
	bool last = changes_left && !--changes_left;
	int result;

	if (last && moment != MOMENT_AFTER)
		kill(getpid(), SIGKILL);
	result = __real_ftruncate(fd, bytes);
	if (last)
		kill(getpid(), SIGKILL);
	return result;
}

/* Answers whether it was killed. */
static bool seal_in_child(unsigned changes, enum moment at)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct limpet_seal_result result;
		struct limpet_err err = {0};

		changes_left = changes;
		moment = at;
		_exit(limpet_seal(sample.trace, NULL, &result, &err) < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSIGNALED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	assert_int_equal(WTERMSIG(status), SIGKILL);
	return true;
}

static void check_sealed_after(void)
{
	struct limpet_seal_result result;
	char functions[256];

	(void)check_whole();
	must_seal(NULL, &result);
	assert_int_equal(result.resolved, 6);
	assert_true(check_whole());
	functions_of(SAMPLE_LEAK, functions, sizeof(functions));
	assert_string_equal(functions, "grow:5<leak:8");
}

static void test_killed_at_any_change(void **state)
{
	unsigned killed = 0, killed_again = 0;

	(void)state;
	for (enum moment at = MOMENT_BEFORE; at < MOMENTS; at++)
		for (unsigned changes = 1;; changes++) {
			sample_write(&sample);
			if (!seal_in_child(changes, at))
				break;
			killed++;
			check_sealed_after();
		}
	/* Another one, which finds a change that is not whole, and takes it back. */
	for (enum moment at = MOMENT_BEFORE; at < MOMENTS; at++)
		for (unsigned changes = 1;; changes++) {
			sample_write(&sample);
			assert_true(seal_in_child(1, MOMENT_HALF));
			if (!seal_in_child(changes, at))
				break;
			killed_again++;
			check_sealed_after();
		}
	print_message("# %u seals, %u after another one\n", killed, killed_again);
	assert_true(killed >= MOMENTS && killed_again >= 2 * MOMENTS);
}

/* At moments that nobody chose; SEAL_ROUNDS of them. */
static void test_killed_at_any_moment(void **state)
{
	const char *wanted = getenv("SEAL_ROUNDS");
	long rounds = wanted ? strtol(wanted, NULL, 10) : 5;

	(void)state;
	for (long round = 0; round < rounds; round++) {
		struct timespec wait = {.tv_nsec = (round * 7919 % 1000) * 30000};
		pid_t child;

		sample_write(&sample);
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			struct limpet_seal_result result;
			struct limpet_err err = {0};

			for (;;)
				if (limpet_seal(sample.trace, NULL, &result, &err) < 0)
					_exit(1);
		}
		nanosleep(&wait, NULL);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, NULL, 0), child);
		check_sealed_after();
	}
}

static void write_map(int fd, const char *text)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
}

static void test_code_that_the_program_made(void **state)
{
	struct limpet_seal_options options = {.has_perf_map = true};
	struct limpet_seal_result result;
	char functions[256];

	(void)state;
	options.perf_map_fd = (int)memfd_create("map", MFD_CLOEXEC);
	assert_true(options.perf_map_fd >= 0);
	sample_write(&sample);
	/* The call is before its return address: 0x...1234 and 0x...2345. */
	write_map(options.perf_map_fd, "7f0000001200 35 JS:*leaky /srv/app.js:22:16\n"
				       "7f0000002346 10 not this one\n");
	must_seal(&options, &result);
	assert_int_equal(result.addresses, 7);
	assert_int_equal(result.made, 2);
	assert_int_equal(result.made_named, 1);
	functions_of(SAMPLE_JIT, functions, sizeof(functions));
	assert_string_equal(functions, "leaky:22");
	functions_of(SAMPLE_JIT_OUTER, functions, sizeof(functions));
	assert_string_equal(functions, "");
	/* Later its addresses may be other code's: what is known stays. */
	write_map(options.perf_map_fd, "7f0000001200 35 another\n7f0000002300 46 outer\n");
	must_seal(&options, &result);
	assert_int_equal(result.made_named, 2);
	functions_of(SAMPLE_JIT, functions, sizeof(functions));
	assert_string_equal(functions, "leaky:22");
	functions_of(SAMPLE_JIT_OUTER, functions, sizeof(functions));
	assert_string_equal(functions, "outer:0");
	must_seal(NULL, &result);
	functions_of(SAMPLE_JIT_OUTER, functions, sizeof(functions));
	assert_string_equal(functions, "outer:0");
	close(options.perf_map_fd);
}

static void test_more_at_hand_adds_lines(void **state)
{
	struct limpet_seal_result result;
	char functions[256], command[512], dir[128];
	const char *const dirs[] = {dir, NULL};
	const struct limpet_seal_options options = {.debug_dirs = dirs};

	(void)state;
	sample_write(&sample);
	snprintf(dir, sizeof(dir), "%s/debug", sample.directory);
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

static int seal_for(struct calls *calls, const char *const *dirs, char functions[256])
{
	const struct limpet_seal_options options = {
		.missing = on_missing, .context = calls, .debug_dirs = dirs};
	struct limpet_seal_result result;

	*calls = (struct calls){.code = 0};
	must_seal(&options, &result);
	functions_of(SAMPLE_LEAK, functions, 256);
	/* One of them is SAMPLE_EVIL_PATH, which comes last. */
	return calls->missing > 1;
}

static void build(const char *options)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "cc -g -O2 -Wl,--build-id=none %s -o %s.new %s.c && mv %s.new %s", options,
		 sample.program, sample.program, sample.program, sample.program);
	assert_int_equal(system(command), 0);
}

/* Another build in its place has no names for it, in a directory of the user neither; a stripped
 * one leads to its debug file. */
static void test_another_build_without_build_id(void **state)
{
	char functions[256], command[768], dir[128];
	const char *const dirs[] = {dir, NULL};
	struct calls calls;

	(void)state;
	build("");
	sample_write(&sample);
	snprintf(dir, sizeof(dir), "%s/other", sample.directory);
	snprintf(command, sizeof(command), "mkdir -p %s && cp -p %s %s/kept", dir, sample.program,
		 sample.directory);
	assert_int_equal(system(command), 0);
	/* As large, and of the same time. */
	build("-O1 -fno-inline");
	snprintf(command, sizeof(command), "cp -p %s %s/prog && touch -r %s/kept %s %s/prog",
		 sample.program, dir, sample.directory, sample.program, dir);
	assert_int_equal(system(command), 0);
	assert_true(seal_for(&calls, dirs, functions));
	assert_string_equal(functions, "");

	snprintf(
		command, sizeof(command),
		"cd %s && rm -r other && cp kept prog && objcopy --only-keep-debug prog prog.dbg &&"
		" objcopy --strip-all --add-gnu-debuglink=prog.dbg prog",
		sample.directory);
	assert_int_equal(system(command), 0);
	assert_false(seal_for(&calls, NULL, functions));
	assert_string_equal(functions, "grow:5<leak:8");
	build("");
}

/* The file that was captured, in a directory of the user. */
static void test_the_build_in_a_directory(void **state)
{
	char functions[256], command[512], dir[128];
	const char *const dirs[] = {dir, NULL};
	struct calls calls;

	(void)state;
	build("");
	sample_write(&sample);
	snprintf(dir, sizeof(dir), "%s/kept.d", sample.directory);
	snprintf(command, sizeof(command), "mkdir -p %s && cp %s %s/prog", dir, sample.program,
		 dir);
	assert_int_equal(system(command), 0);
	build("-O1 -fno-inline");
	assert_false(seal_for(&calls, dirs, functions));
	assert_string_equal(functions, "grow:5<leak:8");
	build("");
}

/* In doubt there are no names. */
static void test_an_unknown_build(void **state)
{
	const struct limpet_trace_module *modules;
	struct limpet_trace_reader *reader;
	const struct limpet_symbolizer_options options = {
		.path = sample.program,
		.fd = -1,
		.identity = &(struct limpet_file_identity){.has_status = false}};
	struct limpet_symbolizer *symbolizer;
	struct limpet_err err = {0};

	(void)state;
	sample_write(&sample);
	assert_int_equal(limpet_trace_reader_open(sample.trace, &reader, NULL), 0);
	assert_true(limpet_trace_reader_modules(reader, &modules) > sample.program_module);
	assert_true(modules[sample.program_module].identity.has_checksum);
	assert_false(modules[sample.program_module].identity.has_status);
	limpet_trace_reader_free(reader);
	assert_int_equal(limpet_symbolizer_open(&options, &symbolizer, &err), -ENODATA);
	assert_non_null(strstr(err.message, "no build-id"));
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
		cmocka_unit_test(test_sealing_again_adds_nothing),
		cmocka_unit_test(test_a_torn_seal_hides_nothing),
		cmocka_unit_test(test_killed_at_any_change),
		cmocka_unit_test(test_killed_at_any_moment),
		cmocka_unit_test(test_code_that_the_program_made),
		cmocka_unit_test(test_more_at_hand_adds_lines),
		cmocka_unit_test(test_cancel_keeps_what_was_found),
		cmocka_unit_test(test_open_descriptors_outlive_names),
		cmocka_unit_test(test_another_build_without_build_id),
		cmocka_unit_test(test_the_build_in_a_directory),
		cmocka_unit_test(test_an_unknown_build),
		cmocka_unit_test(test_not_while_it_is_captured),
		cmocka_unit_test(test_errors),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
