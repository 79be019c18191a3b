/* Agents left behind, as /proc shows them: substitute files stand in for processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/control/control.h"
#include "injector/preflight/dormant.h"
#include "injector/proc/proc.h"
#include "test/unit/clock_fixture.h"
#include "test/unit/target_of.h"

#define LIBC "7f00-7f10 r-xp 00000000 08:01 42 /usr/lib/libc.so.6\n"
#define HEAP "5500-5600 rw-p 00000000 00:00 0 [heap]\n7000-7100 rw-p 00000000 00:00 0 \n"
#define AGENT(inode) "7f20-7f30 r-xp 00001000 00:01 " inode " /memfd:limpet-agent-5f (deleted)\n"
#define SHARED(inode) "7f40-7f50 rw-s 00073000 00:01 " inode " /memfd:limpet-shared (deleted)\n"

static char root[64], runtime[64];

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/test-dormant-XXXXXX");
	strcpy(runtime, "/tmp/test-dormant-XXXXXX");
	if (!mkdtemp(root) || !mkdtemp(runtime))
		return -1;
	limpet_proc_root = root;
	return setenv("LIMPET_RUNTIME_DIR", runtime, 1);
}

static int remove_root(void **state)
{
	char command[256];

	(void)state;
	limpet_proc_root = "/proc";
	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", root, runtime);
	return system(command);
}

static void make_process(const char *name, const char *maps)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/maps", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(maps, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void expect(const char *pids)
{
	char text[256] = "";
	pid_t *list = NULL;
	int count = limpet_dormant_find(&list);

	assert_true(count >= 0);
	for (int i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ", list[i]);
	free(list);
	assert_string_equal(text, pids);
}

static void test_ordinary_processes_are_none(void **state)
{
	(void)state;
	make_process("1", LIBC HEAP);
	make_process("2", "");
	make_process("self", AGENT("7"));
	/* Files of that name, and a memfd of another. */
	make_process("3", "7f20-7f30 r-xp 00001000 08:01 7 /home/memfd:limpet-agent (deleted)\n"
			  "7f20-7f30 r-xp 00001000 08:01 7 /srv/limpet-agent.so\n"
			  "7f20-7f30 r-xp 00001000 00:01 7 /memfd:other (deleted)\n"
			  "garbage\n/memfd:limpet-agent\n");
	expect("");
	assert_int_equal(limpet_dormant_check(target_of(1)), 0);
	assert_int_equal(limpet_dormant_check(target_of(3)), 0);
	assert_int_equal(limpet_dormant_check(target_of(9)), -ENOENT);
}

static void test_agent_without_collector_is_dormant(void **state)
{
	(void)state;
	make_process("30", LIBC AGENT("7") HEAP SHARED("8"));
	make_process("4", AGENT("17"));
	make_process("5", LIBC);
	expect("4 30 ");
	assert_int_equal(limpet_dormant_check(target_of(30)), 1);
	assert_int_equal(limpet_dormant_check(target_of(4)), 1);
	assert_int_equal(limpet_dormant_check(target_of(5)), 0);
}

static void test_collector_watches_target_and_its_children(void **state)
{
	(void)state;
	make_process("100", LIBC AGENT("7") SHARED("8"));
	make_process("101", LIBC AGENT("7")); /* forked; gave the shared memory back */
	make_process("102", LIBC AGENT("7") SHARED("8"));
	make_process("200", LIBC SHARED("8") SHARED("9"));  /* the collector */
	make_process("300", LIBC AGENT("17") SHARED("18")); /* of another that died */
	expect("300 ");
	/* Who answers nobody is looked at again for some time. */
	clock_fixture_step(500000000);
	assert_int_equal(limpet_dormant_check(target_of(100)), 0);
	assert_int_equal(limpet_dormant_check(target_of(102)), 0);
	clock_fixture_step(0);
	assert_int_equal(limpet_dormant_check(target_of(300)), 1);
}

static void give_status(void *context, struct limpet_control_status *ret_status)
{
	(void)context;
	ret_status->state = LIMPET_CONTROL_CAPTURING;
}

static void ignore_stop(void *context)
{
	(void)context;
}

/* Of a collector that we may not look into, the socket still says that it is there. */
static void test_control_socket_watches_too(void **state)
{
	const struct limpet_control_handlers handlers = {.status = give_status,
							 .stop = ignore_stop};
	struct limpet_control *control;
	struct limpet_err err;

	(void)state;
	make_process("100", AGENT("7") SHARED("8"));
	make_process("101", AGENT("7"));
	assert_int_equal(limpet_control_open(100, &handlers, NULL, &control, &err), 0);
	/* It does not answer, which takes its time, but that of the test's clock. */
	clock_fixture_skip_polls(true);
	expect("");
	clock_fixture_skip_polls(false);
	limpet_control_free(control);
	expect("100 101 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ordinary_processes_are_none),
		TEST(test_agent_without_collector_is_dormant),
		TEST(test_collector_watches_target_and_its_children),
		TEST(test_control_socket_watches_too),
	};

	return cmocka_run_group_tests_name("dormant", tests, NULL, NULL);
}
