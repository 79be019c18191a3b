/* The command line of attach and run: what it means, and that nothing wrong passes for right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture_options.h"
#include "cli/ui.h"
#include "common/err.h"

#define WORDS 16

/* Splits `line` at spaces; the words live until the next call. */
static int split(const char *line, char **ret_argv)
{
	static char copy[512];
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word && argc < WORDS - 1; word = strtok(NULL, " "))
		ret_argv[argc++] = word;
	ret_argv[argc] = NULL;
	return argc;
}

/* Answers the exit status, or -1 to go on. What is said does not matter here. */
static int parse(const char *line, struct limpet_capture_options *ret_options)
{
	static char *argv[WORDS];
	int argc = split(line, argv), status = -1;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	bool go;

	fflush(stdout);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	go = limpet_capture_options_parse(!strncmp(line, "run", 3) ? LIMPET_CAPTURE_RUN
								   : LIMPET_CAPTURE_ATTACH,
					  argc, argv, ret_options, &status);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(null);
	close(out);
	close(err);
	return go ? -1 : status;
}

static void test_defaults(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	assert_int_equal(parse("attach 4711", &o), -1);
	assert_int_equal(o.pid, 4711);
	assert_null(o.config.output);
	assert_int_equal(o.config.duration_ns, 0);
	assert_int_equal(o.config.sampling.bytes, 0);
	assert_int_equal(o.config.agent_memory_bytes, LIMPET_CAPTURE_AGENT_MEMORY_BYTES);
	assert_int_equal(o.config.collector_memory_bytes, UINT64_C(512) << 20);
	assert_int_equal(o.config.attach_timeout_ns, LIMPET_CAPTURE_ATTACH_TIMEOUT_NS);
	assert_int_equal(o.config.on_overload, LIMPET_OVERLOAD_DROP);
	assert_int_equal(o.config.load, LIMPET_METHOD_ANY);
	assert_false(limpet_ui_is_quiet() || o.background || o.no_seal || o.config.partial ||
		     o.config.with_command_line || o.config.assume_seccomp_ok);
}

static void test_everything_given(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	assert_int_equal(parse("attach -q -o x.limpet --duration 1h30m --memory 8M "
			       "--attach-timeout 500ms --on-overload drop "
			       "12",
			       &o),
			 -1);
	assert_int_equal(o.pid, 12);
	assert_string_equal(o.config.output, "x.limpet");
	assert_int_equal(o.config.duration_ns, UINT64_C(5400000000000));
	assert_int_equal(o.config.agent_memory_bytes, 8 << 20);
	assert_int_equal(o.config.collector_memory_bytes, 64 << 20);
	assert_int_equal(o.config.attach_timeout_ns, 500000000);
	assert_true(limpet_ui_is_quiet());
	limpet_ui_set_quiet(false);
	assert_int_equal(parse("attach 12 --background --no-seal --partial --with-command-line "
			       "--assume-seccomp-ok --sample 64KiB -d90",
			       &o),
			 -1);
	assert_false(o.config.addresses || o.config.compact || o.config.max_bytes);
	assert_true(o.background && o.no_seal && o.config.partial && o.config.with_command_line &&
		    o.config.assume_seccomp_ok);
	assert_int_equal(o.config.duration_ns, UINT64_C(90000000000));
	assert_int_equal(o.config.sampling.bytes, 65536);
	assert_int_equal(parse("run --compact ls", &o), -1);
	assert_true(o.config.compact);
	assert_false(o.config.leaks);
	assert_int_equal(parse("run --leaks ls", &o), -1);
	assert_true(o.config.leaks);
	assert_int_equal(parse("run --max-size 8MiB ls", &o), -1);
	assert_int_equal(o.config.max_bytes, 8 << 20);
}

static void test_options_for_scripts(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	assert_int_equal(parse("attach -p 4711 --agent-memory 8MiB --collector-memory 16MiB "
			       "--load map --addresses",
			       &o),
			 -1);
	assert_true(o.config.addresses);
	assert_int_equal(o.config.load, LIMPET_METHOD_OUTSIDE);
	assert_int_equal(o.pid, 4711);
	assert_int_equal(o.config.agent_memory_bytes, 8 << 20);
	assert_int_equal(o.config.collector_memory_bytes, 16 << 20);
}

static void test_settings_come_from_the_environment(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	setenv("LIMPET_LOAD", "map", 1);
	setenv("LIMPET_ADDRESSES", "1", 1);
	assert_int_equal(parse("attach 12", &o), -1);
	assert_int_equal(o.config.load, LIMPET_METHOD_OUTSIDE);
	assert_true(o.config.addresses);
	setenv("LIMPET_LOAD", "mapped", 1);
	assert_int_equal(parse("attach 12", &o), LIMPET_EXIT_USAGE);
	unsetenv("LIMPET_LOAD");
	unsetenv("LIMPET_ADDRESSES");
}

static void test_run_leaves_the_command_alone(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	assert_int_equal(parse("run -d 3 ls -d 4 --nonsense -- x", &o), -1);
	assert_int_equal(o.config.duration_ns, UINT64_C(3000000000));
	assert_string_equal(o.command[0], "ls");
	assert_string_equal(o.command[1], "-d");
	assert_string_equal(o.command[4], "--");
	assert_string_equal(o.command[5], "x");
	assert_null(o.command[6]);
	assert_int_equal(parse("run -- -x --help", &o), -1);
	assert_string_equal(o.command[0], "-x");
}

static void test_wrong_lines_are_usage_errors(void **state)
{
	static const char *const lines[] = {
		"attach",
		"attach 0",
		"attach -5",
		"attach x",
		"attach 1 2",
		"attach 1 --nonsense",
		"attach 1 -z",
		"attach 1 -d",
		"attach 1 -d 0",
		"attach 1 -d -1",
		"attach 1 -d 1x",
		"attach 1 -d 99999999999999999999",
		"attach 1 --quiet=yes",
		"attach 1 --memory 0",
		"attach 1 --memory 1",
		"attach 1 --memory 1MB",
		"attach 1 --memory 15E",
		"attach 1 --attach-timeout 0s",
		"attach 1 --on-overload explode",
		"attach 1 --output=",
		"run",
		"run --",
		"run -p 1 ls",
		"run --nonsense ls",
		"attach 1 --max-size 8191KiB",
		"attach 1 --max-size x",
		"attach 1 --compact --max-size 1GiB",
		"attach 1 --compact --sample 1MiB",
		"attach 1 --compact --on-overload sample",
		"attach 1 --max-size 1GiB --sample 1MiB",
		"run --background true",
		"attach 1 --sample x",
		"attach 1 --sample 0",
		"attach 1 --sample 2TiB",
		"attach 1 --on-overload sample --sample 64KiB",
		"attach 1 --leaks --sample 64KiB",
		"run --leaks --on-overload sample true",
	};
	struct limpet_capture_options o;

	(void)state;
	memset(&o, 0x5a, sizeof(o));
	for (size_t i = 0; i < LIMPET_COUNT_OF(lines); i++) {
		int status = parse(lines[i], &o);

		if (status != LIMPET_EXIT_USAGE)
			fail_msg("limpet %s: %d", lines[i], status);
		assert_int_equal(o.pid, 0x5a5a5a5a);
	}
}

static void test_help_is_no_error(void **state)
{
	struct limpet_capture_options o;

	(void)state;
	assert_int_equal(parse("attach --help", &o), LIMPET_EXIT_OK);
	assert_int_equal(parse("run -h ls", &o), LIMPET_EXIT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_everything_given),
		cmocka_unit_test(test_options_for_scripts),
		cmocka_unit_test(test_settings_come_from_the_environment),
		cmocka_unit_test(test_run_leaves_the_command_alone),
		cmocka_unit_test(test_wrong_lines_are_usage_errors),
		cmocka_unit_test(test_help_is_no_error),
	};

	return cmocka_run_group_tests_name("capture options", tests, NULL, NULL);
}
