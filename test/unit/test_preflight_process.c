/* What preflight says of a process as such: gone, hidden, ending, traced, captured, in any state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/proc_fixture.h"

const enum preflight_group preflight_group = PREFLIGHT_PROCESS;

static void test_nothing_to_object(void **state)
{
	(void)state;
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	assert_fine();
	assert_string_equal(preflight.name, "program");
	assert_string_equal(preflight.libc, "glibc");
	assert_true(preflight.rss_bytes == 10 * MIB);
	assert_true(preflight.unseen_rss_share < 0);
	assert_int_equal(preflight_err.code, 0);
}

static void test_gone_is_not_hidden(void **state)
{
	pid_t dead = fork();

	(void)state;
	if (dead == 0)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	assert_int_equal(preflight_look(dead, NULL), -ESRCH);
	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_GONE);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_FAILED);
	assert_int_equal(preflight_look(0, NULL), -ESRCH);
	assert_int_equal(preflight_look(-1, NULL), -ESRCH);
	/* it answers to kill(), but /proc does not show it */
	assert_int_equal(preflight_look(getppid(), NULL), -EPERM);
	assert_refused("hidepid", "hides", "sudo limpet attach");
	assert_error_is("hidepid");
}

static void test_states(void **state)
{
	const struct {
		const char *name, *comm;
		char state;
		pid_t tgid;
		unsigned threads;
		const char *id, *words, *hint; /* NULL: it is fine */
	} rows[] = {
		{"zombie", "odd) name", 'Z', preflight_pid, 1, "zombie", "zombie", ""},
		/* Three threads, none of which has memory any more: it is on its way out. */
		{"zombie with threads", "program", 'Z', preflight_pid, 3, "zombie", "zombie", ""},
		{"thread", "program", 'S', 4711, 3, "thread", "thread of process 4711",
		 "limpet attach 4711"},
		{"stopped", "program", 'T', preflight_pid, 1, NULL, "", ""},
		{"kernel thread", "kworker/u4:1-ev", 'I', preflight_pid, 1, "kernel-thread",
		 "kernel thread", ""},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		const char *complaint;
		char named[64];

		proc_fixture_status(preflight_pid, rows[i].comm, rows[i].state, rows[i].tgid,
				    rows[i].threads, "");
		if (rows[i].state == 'I')
			proc_fixture_stat(preflight_pid, "kworker/u4:1", 0x00208040, 1);
		if ((preflight_look(preflight_pid, NULL) < 0) != (rows[i].id != NULL))
			fail_msg("%s: %s", rows[i].name, preflight_err.message);
		complaint = preflight_complaint(rows[i].id, rows[i].words, rows[i].hint);
		if (complaint)
			fail_msg("%s: %s", rows[i].name, complaint);
		snprintf(named, sizeof(named), "cannot attach to '%s' (", rows[i].comm);
		if (i == 0)
			assert_non_null(strstr(preflight_err.message, named));
		if (rows[i].state == 'T') {
			assert_non_null(preflight_find("stopped"));
			assert_int_equal(preflight_find("stopped")->severity, LIMPET_FINDING_NOTE);
		}
	}
	assert_true(preflight.kernel_thread);
}

static void test_damaged_proc_is_no_verdict(void **state)
{
	(void)state;
	proc_fixture_write(in_proc("status"), "%s", "Name:\tpro");
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBADMSG);
	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_FAILED);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_FAILED);
	assert_true(preflight_err.message[0]);
}

static void test_own_process(void **state)
{
	(void)state;
	assert_true(preflight_look(getpid(), NULL) < 0);
	assert_refused("own-process", "limpet itself", "");
}

static void test_tracer_is_named(void **state)
{
	(void)state;
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
			    "TracerPid:\t99999991\nSeccomp:\t0\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBUSY);
	assert_refused("traced", "traced by '?' (99999991)", "gdb: detach");
	proc_fixture_process(99999991, "gdb");
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBUSY);
	assert_refused("traced", "traced by 'gdb' (99999991)", "gdb: detach");
	/* one thread of several is enough */
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 2,
			    "TracerPid:\t0\nSeccomp:\t0\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	proc_fixture_write(in_proc("task/99999992/status"), "%s",
			   "Name:\tworker\nTracerPid:\t99999991\nSeccomp:\t0\n");
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBUSY);
	assert_refused("traced", "'gdb' (99999991)", "");
	proc_fixture_process(99999991, "limpet");
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBUSY);
	assert_refused("traced", "'limpet'", "limpet status");
}

static unsigned naps, naps_until_it_ends;

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)time, (void)rest;
	if (++naps == naps_until_it_ends)
		proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
				    "TracerPid:\t0\nSeccomp:\t0\n");
	return 0;
}

/* LeakSanitizer's stops the program's threads, looks, and is gone. */
static void test_own_tracer_is_waited_for(void **state)
{
	(void)state;
	proc_fixture_process(99999991, "checker");
	proc_fixture_write("99999991/status",
			   "Name:\tchecker\nState:\tS (words)\nTgid:\t99999991\nPid:\t99999991\n"
			   "PPid:\t%d\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\n"
			   "VmSize:\t1 kB\nVmRSS:\t1 kB\nThreads:\t1\n",
			   preflight_pid);
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1,
			    "TracerPid:\t99999991\nSeccomp:\t0\n");
	naps = 0;
	naps_until_it_ends = 0;
	assert_int_equal(preflight_look(preflight_pid, NULL), -EBUSY);
	assert_refused("traced", "traced by 'checker' (99999991)", "");
	assert_true(naps > 0);
	naps = 0;
	naps_until_it_ends = 3;
	assert_int_equal(preflight_look(preflight_pid, NULL), 0);
	assert_int_equal(naps, 3);
}

static void test_captured_already(void **state)
{
	(void)state;
	proc_fixture_write(in_proc("maps"), "%s",
			   "7ffff7000000-7ffff7001000 r-xp 00000000 00:05 9 "
			   "/memfd:limpet-agent (deleted)\n"
			   "7ffff7dd5000-7ffff7df7000 r--p 00000000 fe:00 12 /lib/libc.so.6\n");
	(void)preflight_look(preflight_pid, NULL);
	assert_true(preflight_find("captured") || preflight_find("dormant"));
}

/* ------------------------------------------------------------------ real processes */

static void test_real_child(void **state)
{
	pid_t child = child_of(NULL);

	(void)state;
	(void)preflight_look(child, NULL);
	assert_fine();
	assert_memory_equal(preflight.libc, "glibc 2.", 8);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	assert_non_null(strstr(preflight.unfollowed, "Sanitizer"));
#else
	assert_string_equal(preflight.allocators, preflight.libc);
#endif
	assert_true(preflight.rss_bytes > 0);
	reap(child);
}

/* A pid that another process has by now says nothing about the target. */
static void test_another_process(void **state)
{
	pid_t child = child_of(NULL);
	struct limpet_target target;
	int error;

	(void)state;
	assert_int_equal(limpet_target_open(child, &target, NULL), 0);
	target.start_ticks--;
	limpet_preflight_done(&preflight);
	error = limpet_preflight_run(&target, NULL, &preflight, &preflight_err);
	limpet_target_close(&target);
	reap(child);
	assert_int_equal(error, -ESRCH);
	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_GONE);
	assert_non_null(strstr(preflight_err.message, "ended"));
}

static void test_real_zombie(void **state)
{
	pid_t child = fork();
	siginfo_t info;

	(void)state;
	if (child == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_true(preflight_look(child, NULL) < 0);
	assert_refused("zombie", "zombie", "");
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(preflight_look(child, NULL), -ESRCH);
}

static void *outlive(void *unused)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return unused;
}

static void end_leader(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, outlive, NULL))
		_exit(1);
	syscall(SYS_exit, 0);
}

/* Whoever asks for what the main thread had is answered from the one that goes on. */
static void test_real_zombie_leader(void **state)
{
	struct limpet_proc_status status;
	struct limpet_maps maps;
	pid_t child, resident;
	uint64_t entry;
	uint8_t byte;

	(void)state;
	child = fork();
	if (child == 0)
		end_leader();
	do
		assert_int_equal(limpet_proc_status_read(child, &status), 0);
	while (status.state != 'Z');
	resident = limpet_proc_resident(child);
	assert_int_not_equal(resident, child);
	assert_int_equal(limpet_proc_resident(getpid()), getpid());

	assert_int_equal(limpet_proc_maps_read(child, &maps), 0);
	assert_true(maps.count > 0);
	limpet_proc_maps_done(&maps);
	assert_int_equal(limpet_proc_auxv(child, AT_ENTRY, &entry), 0);
	assert_int_equal(limpet_memory_read(child, entry, &byte, 1), 0);
	assert_int_equal(preflight_look(child, NULL), 0);
	assert_non_null(preflight_find("zombie-leader"));
	assert_int_equal(preflight_find("zombie-leader")->severity, LIMPET_FINDING_NOTE);
	assert_true(preflight.rss_bytes > 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(limpet_memory_read(child, entry, &byte, 1), -ESRCH);
}

static pid_t traced_one;

static void trace_it(void)
{
	if (ptrace(PTRACE_SEIZE, traced_one, NULL, NULL))
		_exit(1);
}

static void test_real_tracer(void **state)
{
	struct limpet_proc_status status;
	char words[128];
	pid_t tracer;

	(void)state;
	traced_one = child_of(NULL);
	tracer = child_of(trace_it);
	assert_int_equal(limpet_proc_status_read(tracer, &status), 0);
	snprintf(words, sizeof(words), "traced by '%s' (%d)", status.name, tracer);
	assert_int_equal(preflight_look(traced_one, NULL), -EBUSY);
	assert_refused("traced", words, "");
	reap(tracer);
	(void)preflight_look(traced_one, NULL);
	assert_null(preflight_find("traced"));
	reap(traced_one);
}

/* ------------------------------------------------------------------ the list of words */

/* limpet-doctor(1) has each word in a ".It" line, continued ones included. */
static void test_every_word_is_in_the_manual(void **state)
{
	static char text[65536];
	FILE *file = fopen("man/limpet-doctor.1", "re");
	size_t bytes;
	char *at;

	(void)state;
	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	assert_true(bytes > 1000);
	while ((at = strstr(text, "\\\n")))
		memcpy(at, "  ", 2);
	for (size_t i = 0; limpet_finding_words[i].id[0]; i++) {
		const char *id = limpet_finding_words[i].id;
		bool found = false;

		for (at = text; !found && (at = strstr(at, "\n.It ")); at++) {
			const char *end = strchr(at + 1, '\n');

			for (const char *word = strstr(at, id); word && word < end;
			     word = strstr(word + 1, id))
				found |= word[-1] == ' ' && strchr(" \n", word[strlen(id)]);
		}
		if (!found)
			fail_msg("'%s' is not in limpet-doctor(1)", id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_nothing_to_object),
		WITH_ROOT(test_gone_is_not_hidden),
		WITH_ROOT(test_states),
		WITH_ROOT(test_damaged_proc_is_no_verdict),
		cmocka_unit_test(test_own_process),
		WITH_ROOT(test_tracer_is_named),
		WITH_ROOT(test_own_tracer_is_waited_for),
		WITH_ROOT(test_captured_already),
		cmocka_unit_test(test_real_child),
		cmocka_unit_test(test_another_process),
		cmocka_unit_test(test_another_process),
		cmocka_unit_test(test_real_zombie),
		cmocka_unit_test(test_real_zombie_leader),
		cmocka_unit_test(test_real_tracer),
		cmocka_unit_test(test_every_word_is_in_the_manual),
		cmocka_unit_test(test_every_refusal_was_seen),
	};

	return cmocka_run_group_tests(tests, preflight_group_begin, NULL);
}
