/* Filters of system calls: of the target, and those that limpet itself runs under. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/preflight/seccomp_eval.h"
#include "test/unit/docker_profile.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/skip_reason.h"

const enum preflight_group preflight_group = PREFLIGHT_SECCOMP;

static void test_seccomp_modes(void **state)
{
	const struct limpet_preflight_options quick = {.quick = true};
	const struct limpet_preflight_options assumed = {.config.assume_seccomp_ok = true};

	(void)state;
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1, "Seccomp:\t1\n");
	assert_true(preflight_look(preflight_pid, NULL) < 0);
	assert_refused("seccomp", "strict mode", "");
	assert_true(preflight_look(preflight_pid, &quick) < 0);
	assert_refused("seccomp", "strict mode", "");
	/* /proc claims a filter, the kernel has none to show: unknown is not fine */
	proc_fixture_status(preflight_pid, "program", 'S', preflight_pid, 1, "Seccomp:\t2\n");
	assert_int_equal(preflight_look(preflight_pid, &quick), 0);
	assert_int_equal(preflight_find("seccomp")->severity, LIMPET_FINDING_NOTE);
	assert_true(preflight_look(preflight_pid, NULL) < 0);
	assert_refused("seccomp", "cannot be read", "--assume-seccomp-ok");
	assert_int_equal(preflight_look(preflight_pid, &assumed), 0);
	assert_fine();
	assert_int_equal(preflight_find("seccomp")->severity, LIMPET_FINDING_WARNING);
}

static void strict_mode(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(1);
}

/* pause() is not allowed in strict mode: it is read() that this child stays in. */
static void test_real_strict_mode(void **state)
{
	int ready[2], wait[2];
	char byte;
	pid_t child;

	(void)state;
#if defined(__SANITIZE_THREAD__)
	limpet_skip("a thread of the sanitizer would outlive exit(2), all that this mode allows");
#endif
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(wait), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(wait[1]);
		strict_mode();
		/* past any interceptor: a sanitizer's would make calls of its own */
		if (syscall(SYS_write, ready[1], "r", 1) == 1 &&
		    syscall(SYS_read, wait[0], &byte, 1) == 0)
			syscall(SYS_exit, 7);
		syscall(SYS_exit, 8);
	}
	close(wait[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_true(preflight_look(child, NULL) < 0);
	assert_refused("seccomp", "strict mode", "");
	close(wait[1]);
	close(ready[0]);
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ------------------------------------------------------------------ inside a container */

/* Who is under a filter may not read another's: as root of a container is. */
static scmp_filter_ctx inherited;

static bool one_more;

static void load_one_more(void)
{
	if (one_more && seccomp_load(inherited))
		_exit(1);
}

/* In a child under `inherited`: looks at a child of its own, and answers by its exit status. */
static int inside(scmp_filter_ctx filter, bool target_has_its_own,
		  const struct limpet_preflight_options *options, char *ret_words, size_t room)
{
	char *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	assert_ptr_not_equal(words, MAP_FAILED);
	inherited = filter;
	one_more = target_has_its_own;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		pid_t target;

		if (seccomp_load(filter))
			_exit(100);
		target = child_of(load_one_more);
		(void)preflight_look(target, options);
		snprintf(words, 4096, "%s",
			 preflight_find("seccomp") ? preflight_find("seccomp")->text
						   : preflight_err.message);
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
		_exit(preflight.verdict);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	snprintf(ret_words, room, "%s", words);
	munmap(words, 4096);
	return WEXITSTATUS(status);
}

static void test_inside_a_container(void **state)
{
	const struct limpet_preflight_options assumed = {.config.assume_seccomp_ok = true};
	const struct {
		const char *name;
		bool with_capability, target_has_its_own;
		const struct limpet_preflight_options *options;
		enum limpet_preflight_verdict verdict;
		const char *words;
	} rows[] = {
		{"the same filter", true, false, NULL, LIMPET_PREFLIGHT_OK, "limpet's own"},
		/* a filter that we do not have is a filter that we do not know */
		{"one filter more", true, true, NULL, LIMPET_PREFLIGHT_REFUSED, "cannot be read"},
		{"one filter more, assumed to be fine", true, true, &assumed, LIMPET_PREFLIGHT_OK,
		 "as you said"},
		{"without the capability", false, false, &assumed, LIMPET_PREFLIGHT_OK,
		 "limpet's own"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		scmp_filter_ctx docker = docker_profile_make(rows[i].with_capability);
		char words[512];
		int verdict = inside(docker, rows[i].target_has_its_own, rows[i].options, words,
				     sizeof(words));

		if (verdict != (int)rows[i].verdict || !strstr(words, rows[i].words))
			fail_msg("%s: verdict %d: %s", rows[i].name, verdict, words);
		seccomp_release(docker);
	}
}

static void test_inside_a_narrow_container(void **state)
{
	static const struct {
		const char *name;
		uint32_t action;
		enum limpet_preflight_verdict verdict;
		const char *words;
		int call; /* 0: memfd_create */
	} cases[] = {
		{"kill the process", SCMP_ACT_KILL_PROCESS, LIMPET_PREFLIGHT_REFUSED,
		 "would kill it at memfd_create(2)", 0},
		{"kill the thread", SCMP_ACT_KILL_THREAD, LIMPET_PREFLIGHT_REFUSED,
		 "would kill it at memfd_create(2)", 0},
		{"trap", SCMP_ACT_TRAP, LIMPET_PREFLIGHT_REFUSED,
		 "would kill it at memfd_create(2)", 0},
		{"EPERM", SCMP_ACT_ERRNO(EPERM), LIMPET_PREFLIGHT_REFUSED,
		 "answers EPERM to memfd_create(2)", 0},
		{"ENOSYS", SCMP_ACT_ERRNO(ENOSYS), LIMPET_PREFLIGHT_REFUSED,
		 "answers ENOSYS to memfd_create(2)", 0},
		{"log", SCMP_ACT_LOG, LIMPET_PREFLIGHT_OK, "limpet's own", 0},
		{"no exit", SCMP_ACT_KILL_PROCESS, LIMPET_PREFLIGHT_REFUSED,
		 "would kill it at exit(2)", SCMP_SYS(exit)},
		/* As on an old kernel. */
		{"no close_range", SCMP_ACT_ERRNO(ENOSYS), LIMPET_PREFLIGHT_REFUSED,
		 "requires Linux 5.9", SCMP_SYS(close_range)},
	};
	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		scmp_filter_ctx filter;
		char words[512];
		int verdict;

#if defined(__SANITIZE_THREAD__)
		/* the sanitizer's own thread lives on */
		if (cases[i].action == SCMP_ACT_KILL_THREAD)
			continue;
#endif
		filter = seccomp_init(SCMP_ACT_ALLOW);
		assert_non_null(filter);
		assert_int_equal(
			seccomp_rule_add(filter, cases[i].action,
					 cases[i].call ? cases[i].call : SCMP_SYS(memfd_create), 0),
			0);
		verdict = inside(filter, false, NULL, words, sizeof(words));
		if (verdict != (int)cases[i].verdict || !strstr(words, cases[i].words))
			fail_msg("%s: verdict %d: %s", cases[i].name, verdict, words);
		seccomp_release(filter);
	}
}

/* Each call of the table is really made: an error for one of them is noticed. */
static void test_probe_makes_every_needed_call(void **state)
{
	(void)state;
	for (size_t i = 0; i < limpet_seccomp_call_count; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];
		scmp_filter_ctx filter;
		int status;
		pid_t child;

		/* libc itself could not live without the answer of these */
		if (call->optional || call->number == SYS_rt_sigreturn ||
		    call->number == SYS_close || call->number == SYS_mmap ||
		    call->number == SYS_munmap || call->number == SYS_gettid ||
		    call->number == SYS_clone)
			continue;
		filter = seccomp_init(SCMP_ACT_ALLOW);
		assert_int_equal(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call->number, 0),
				 0);
		child = fork();
		if (child == 0) {
			struct limpet_seccomp_verdict verdict;

			if (seccomp_load(filter) || limpet_seccomp_probe(&verdict) < 0)
				_exit(100);
			_exit(verdict.call && verdict.call->number == call->number ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail_msg("%s: %d", call->name, status);
		seccomp_release(filter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_seccomp_modes),
		cmocka_unit_test(test_real_strict_mode),
		cmocka_unit_test(test_inside_a_container),
		cmocka_unit_test(test_inside_a_narrow_container),
		cmocka_unit_test(test_probe_makes_every_needed_call),
		cmocka_unit_test(test_every_refusal_was_seen),
	};

	return cmocka_run_group_tests(tests, preflight_group_begin, NULL);
}
