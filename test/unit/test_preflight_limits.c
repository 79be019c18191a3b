/* Limits of a process and settings of the kernel under which a capture would not fit, or not work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "injector/preflight/preflight_check.h"
#include "injector/ptrace/priority.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/proc_fixture.h"

const enum preflight_group preflight_group = PREFLIGHT_LIMITS;

static void test_mappings(void **state)
{
	(void)state;
	proc_fixture_write("sys/vm/max_map_count", "%s", "65530\n");
	preflight_look(preflight_pid, NULL);
	assert_null(preflight_find("mappings"));
	/* More memory takes more of them. */
	proc_fixture_write("sys/vm/max_map_count", "%s", "420\n");
	preflight_look(preflight_pid, NULL);
	assert_null(preflight_find("mappings"));
	assert_int_equal(preflight_look(preflight_pid,
					&(const struct limpet_preflight_options){
						.config.agent_memory_bytes = 256 * MIB}),
			 -ENOMEM);
	assert_refused("mappings", "needs 576 more", "vm.max_map_count=840");
	/* But not more and more. */
	assert_int_equal(preflight_look(preflight_pid,
					&(const struct limpet_preflight_options){
						.config.agent_memory_bytes = 65536 * MIB}),
			 -ENOMEM);
	assert_refused("mappings", "needs 2368 more", "vm.max_map_count=2");
	proc_fixture_write("sys/vm/max_map_count", "%s", "300\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), -ENOMEM);
	assert_refused("mappings", "of 300 mappings", "vm.max_map_count=600");
}

static void test_address_space(void **state)
{
	/* It has 20 MiB. */
	static const struct {
		const char *name, *limits;
		uint64_t agent_memory_bytes; /* 0: the default */
		const char *id, *words;      /* NULL: enough */
	} rows[] = {
		{"100 MiB",
		 "Max address space         104857600            104857600   bytes     \n", 0,
		 "address-space", "100.0 MiB"},
		{"100 MiB, and a small agent",
		 "Max address space         104857600            104857600   bytes     \n", 8 * MIB,
		 NULL, ""},
		{"40 MiB, and a small agent",
		 "Max address space         41943040             41943040    bytes     \n", 8 * MIB,
		 "address-space", "40.0 MiB"},
		{"30 MiB of data",
		 "Max data size             31457280             31457280    bytes     \n", 0,
		 "data-size", "30.0 MiB"},
		{"200 MiB of data",
		 "Max data size             204857600            unlimited   bytes     \n", 0, NULL,
		 ""},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		const struct limpet_preflight_options options = {
			.config.agent_memory_bytes = rows[i].agent_memory_bytes};
		const char *complaint;
		int code;

		proc_fixture_write(in_proc("limits"), "%s", rows[i].limits);
		code = preflight_look(preflight_pid,
				      options.config.agent_memory_bytes ? &options : NULL);
		if (code != (rows[i].id ? -ENOMEM : 0))
			fail_msg("%s: %d", rows[i].name, code);
		complaint = preflight_complaint(rows[i].id, rows[i].words, "prlimit --pid");
		if (complaint)
			fail_msg("%s: %s", rows[i].name, complaint);
	}
}

/* It has 20 MiB. */
static void test_locked_memory(void **state)
{
	static const struct {
		const char *name, *status, *limit;
		bool elsewhere; /* in another user namespace */
		uint64_t agent_memory_bytes;
		const char *words, *hint; /* NULL: enough */
	} rows[] = {
		{"all is locked", "VmLck:\t20480 kB\nCapEff:\t0\n", "67108864", false, 0,
		 "64.0 MiB", "--memory 43M"},
		{"with as much as the hint says", "VmLck:\t20480 kB\nCapEff:\t0\n", "67108864",
		 false, 43 * MIB, NULL, NULL},
		{"no memory would do", "VmLck:\t20480 kB\nCapEff:\t0\n", "33554432", false, 8 * MIB,
		 "32.0 MiB", "--memlock=unlimited"},
		{"no limit", "VmLck:\t20480 kB\nCapEff:\t0\n", "unlimited", false, 0, NULL, NULL},
		{"a secret is locked", "VmLck:\t64 kB\nCapEff:\t0\n", "8388608", false, 0, NULL,
		 NULL},
		{"it may lock all", "VmLck:\t20480 kB\nCapEff:\t4000\n", "8388608", false, 0, NULL,
		 NULL},
		{"it may in a namespace", "VmLck:\t20480 kB\nCapEff:\t4000\n", "8388608", true, 0,
		 "8.0 MiB", "--memlock=unlimited"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		const struct limpet_preflight_options options = {
			.config.agent_memory_bytes = rows[i].agent_memory_bytes};
		const char *complaint;

		proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
				    rows[i].status);
		proc_fixture_write(in_proc("limits"),
				   "Max locked memory         %s            %s   bytes     \n",
				   rows[i].limit, rows[i].limit);
		if (rows[i].elsewhere)
			proc_fixture_link(in_proc("ns/user"), "user:[7]");
		preflight_look(preflight_pid, options.config.agent_memory_bytes ? &options : NULL);
		complaint = preflight_complaint(rows[i].words ? "locked-memory" : NULL,
						rows[i].words, rows[i].hint);
		if (complaint)
			fail_msg("%s: %s", rows[i].name, complaint);
	}
}

static void put_group(bool unified, const char *path, const char *limit, const char *usage,
		      const char *stat)
{
	char name[256];

	snprintf(name, sizeof(name), "cg%s/memory.%s", path, unified ? "max" : "limit_in_bytes");
	proc_fixture_write(name, "%s\n", limit);
	snprintf(name, sizeof(name), "cg%s/memory.%s", path,
		 unified ? "current" : "usage_in_bytes");
	proc_fixture_write(name, "%s\n", usage);
	snprintf(name, sizeof(name), "cg%s/memory.stat", path);
	proc_fixture_write(name, "anon 1\n%s", stat);
}

#define NO_LIMIT NULL
#define LIMIT "209715200"

/* The target is in /pod/box one. */
static void test_memory_headroom(void **state)
{
	static const struct {
		const char *name;
		const char *box_limit, *box_usage, *limit, *usage;
		bool cache;
		uint64_t agent_memory_bytes; /* 0: the default */
		const char *refused, *hint;  /* NULL: enough, which is told */
		const char *told;            /* by this; "": in no word; NULL: in any */
	} rows[] = {
		{"no limit", NO_LIMIT, "1", NO_LIMIT, "1", .told = ""},
		/* 200 - 64 MiB */
		{"just enough for twice 64", LIMIT, "67108864", NO_LIMIT, "1",
		 .told = "136.0 MiB left"},
		{"of a parent", LIMIT, "67108864", LIMIT, "83886080",
		 .refused = "120.0 MiB of memory left, and limpet wants 128.0 MiB",
		 .hint = "--memory 60M"},
		{"of a parent, and a smaller agent", LIMIT, "67108864", LIMIT, "83886080",
		 .agent_memory_bytes = 60 * MIB},
		{"files that nobody reads make room", LIMIT, "67108864", LIMIT, "83886080",
		 .cache = true},
		{"nothing left", LIMIT, "67108864", LIMIT, "209715200",
		 .refused = "0 B of memory left", .hint = "raise the container's memory limit"},
	};

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		const char *none = unified ? "max" : "9223372036854771712";
		const char *cache = unified ? "inactive_file 67108864\n"
					    : "inactive_file 0\ntotal_inactive_file 67108864\n";

		if (unified) {
			proc_fixture_write("self/mountinfo",
					   "30 23 0:26 / %s/cg rw shared:4 - cgroup2 cgroup2 rw\n",
					   proc_fixture_path(""));
			proc_fixture_write(in_proc("cgroup"), "%s", "0::/pod/box one\n");
		} else {
			proc_fixture_write("self/mountinfo",
					   "29 23 0:25 / /none rw - cgroup cgroup rw,cpu\n"
					   "30 23 0:26 / %s/cg rw - cgroup cgroup rw,memory\n",
					   proc_fixture_path(""));
			proc_fixture_write(in_proc("cgroup"), "%s",
					   "5:cpu:/other\n4:hugetlb,memory:/pod/box one\n0::/x\n");
		}
		for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
			const struct limpet_preflight_options options = {
				.config.agent_memory_bytes = rows[i].agent_memory_bytes};
			const struct limpet_finding *finding;
			const char *complaint;
			int code;

			put_group(unified, "/pod/box one",
				  rows[i].box_limit ? rows[i].box_limit : none, rows[i].box_usage,
				  "");
			put_group(unified, "/pod", rows[i].limit ? rows[i].limit : none,
				  rows[i].usage, rows[i].cache ? cache : "");
			code = preflight_look(preflight_pid,
					      options.config.agent_memory_bytes ? &options : NULL);
			if (code != (rows[i].refused ? -ENOMEM : 0))
				fail_msg("%s, version %d: %d", rows[i].name, unified + 1, code);
			complaint = preflight_complaint(rows[i].refused ? "memory" : NULL,
							rows[i].refused, rows[i].hint);
			if (complaint)
				fail_msg("%s, version %d: %s", rows[i].name, unified + 1,
					 complaint);
			finding = preflight_find("memory");
			if (rows[i].told &&
			    (!rows[i].told[0] ? finding != NULL
					      : !finding || !strstr(finding->text, rows[i].told)))
				fail_msg("%s, version %d: said is '%s'", rows[i].name, unified + 1,
					 finding ? finding->text : "");
		}
		put_group(unified, "/pod", none, "1", "");
		if (unified) {
			proc_fixture_write("cg/pod/memory.high", "%s", "1048576\n");
			assert_int_equal(preflight_look(preflight_pid, NULL), -ENOMEM);
			proc_fixture_remove("cg/pod/memory.high");
		}
		/* a group outside of what is mounted here */
		proc_fixture_write(in_proc("cgroup"), "%s",
				   unified ? "0::/../elsewhere\n" : "4:memory:/../elsewhere\n");
		assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	}
}

/* The target is in /pod/box one; either group may have a limit. */
static void test_threads_left(void **state)
{
	static const struct {
		const char *box_limit, *box_count, *limit, *count;
		bool refused;
	} rows[] = {
		{"max", "7", "max", "9", false},
		{"8", "7", "max", "9", false},
		{"7", "7", "max", "9", true},
		{"max", "7", "9", "9", true},
		{"max", "7", "10", "9", false},
		/* It was lowered below what is there. */
		{"3", "7", "max", "9", true},
	};

	(void)state;
	for (int unified = 0; unified < 2; unified++) {
		proc_fixture_write("self/mountinfo",
				   unified ? "30 23 0:26 / %s/cg rw shared:4 - cgroup2 cgroup2 rw\n"
					   : "30 23 0:26 / %s/cg rw - cgroup cgroup rw,pids\n",
				   proc_fixture_path(""));
		proc_fixture_write(in_proc("cgroup"), "%s",
				   unified ? "0::/pod/box one\n" : "4:pids:/pod/box one\n");
		for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
			proc_fixture_write("cg/pod/box one/pids.max", "%s\n", rows[i].box_limit);
			proc_fixture_write("cg/pod/box one/pids.current", "%s\n",
					   rows[i].box_count);
			proc_fixture_write("cg/pod/pids.max", "%s\n", rows[i].limit);
			proc_fixture_write("cg/pod/pids.current", "%s\n", rows[i].count);
			assert_int_equal(preflight_look(preflight_pid, NULL),
					 rows[i].refused ? -EAGAIN : 0);
			if (rows[i].refused)
				assert_refused("threads-left", "pids.max", "--pids-limit");
		}
	}
}

static void test_kernel_settings(void **state)
{
	(void)state;
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
			    "x86_Thread_features:\t\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
			    "x86_Thread_features:\tshstk wrss \n");
	assert_int_equal(preflight_look(preflight_pid, NULL), -ENOTSUP);
	assert_refused("shadow-stack", "shadow stack", "");
}

static void expect_priority(void)
{
	const struct limpet_finding *finding;

	preflight_look(preflight_pid, NULL);
	finding = preflight_find("priority");
	CHILD_ASSERT(!finding == limpet_priority_is_allowed());
	CHILD_ASSERT(!finding || strstr(finding->text, "CAP_SYS_NICE"));
}

/* Whoever may raise its priority is told nothing, and nobody may. */
static void test_priority(void **state)
{
	(void)state;
	preflight_look(preflight_pid, NULL);
	assert_int_equal(!preflight_find("priority"), limpet_priority_is_allowed());
	as_nobody("priority", expect_priority);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_mappings),      WITH_ROOT(test_address_space),
		WITH_ROOT(test_locked_memory), WITH_ROOT(test_memory_headroom),
		WITH_ROOT(test_threads_left),  WITH_ROOT(test_kernel_settings),
		WITH_ROOT(test_priority),      cmocka_unit_test(test_every_refusal_was_seen),
	};

	return cmocka_run_group_tests(tests, preflight_group_begin, NULL);
}
