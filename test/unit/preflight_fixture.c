#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/preflight/preflight_check.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/skip_reason.h"
#include "test/unit/target_of.h"

struct limpet_preflight preflight;

struct limpet_err preflight_err;

/* Words with which something was refused, by their place in the list; children share it. */
static bool *refused_with;

enum { WORDS_LIMIT = 128 };

static size_t place_of(const char *id)
{
	size_t at = 0;

	while (limpet_finding_words[at].id[0] && strcmp(limpet_finding_words[at].id, id) != 0)
		at++;
	return at;
}

int preflight_look(pid_t pid, const struct limpet_preflight_options *options)
{
	int r;

	memset(&preflight_err, 0, sizeof(preflight_err));
	limpet_preflight_done(&preflight);
	r = limpet_preflight_run(target_of(pid), options, &preflight, &preflight_err);
	for (size_t i = 0; i < preflight.count; i++)
		if (preflight.list[i].severity == LIMPET_FINDING_REFUSE)
			refused_with[place_of(preflight.list[i].id)] = true;
	return r;
}

const struct limpet_finding *preflight_find(const char *id)
{
	for (size_t i = 0; i < preflight.count; i++)
		if (!strcmp(preflight.list[i].id, id))
			return &preflight.list[i];
	return NULL;
}

__attribute__((format(printf, 1, 2))) static const char *complain(const char *format, ...)
{
	static char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return text;
}

const char *preflight_complaint(const char *id, const char *words, const char *hint)
{
	const struct limpet_finding *finding;

	if (!id && (preflight.verdict != LIMPET_PREFLIGHT_OK ||
		    limpet_preflight_exit(&preflight) != LIMPET_EXIT_OK))
		return complain("%s (hint: %s)", preflight_err.message, preflight_err.hint);
	if (!id)
		return NULL;
	finding = preflight_find(id);
	if (preflight.verdict != LIMPET_PREFLIGHT_REFUSED ||
	    limpet_preflight_exit(&preflight) != LIMPET_EXIT_REFUSED)
		return "not refused";
	if (!finding || finding->severity != LIMPET_FINDING_REFUSE)
		return complain("not refused with '%s'", id);
	if (!finding->brief[0])
		return "nothing in brief";
	if (!strstr(finding->text, words))
		return complain("'%s' is not in: %s", words, finding->text);
	if (!strstr(finding->hint, hint))
		return complain("'%s' is not in: %s", hint, finding->hint);
	/* one sentence, no full stop, and something to do about it */
	if (!finding->hint[0] || !preflight_err.hint[0])
		return "no hint";
	if (strchr(finding->text, '\n') || finding->text[strlen(finding->text) - 1] == '.')
		return complain("more than a sentence: %s", finding->text);
	return preflight_err.code < 0 ? NULL : "no error";
}

void assert_fine(void)
{
	const char *complaint = preflight_complaint(NULL, "", "");

	if (complaint)
		fail_msg("%s", complaint);
}

void assert_refused(const char *id, const char *words, const char *hint)
{
	const char *complaint = preflight_complaint(id, words, hint);

	if (complaint)
		fail_msg("%s", complaint);
}

void assert_error_is(const char *id)
{
	assert_non_null(strstr(preflight_err.message, preflight_find(id)->text));
	assert_string_equal(preflight_err.hint, preflight_find(id)->hint);
}

/* ------------------------------------------------------------------ substitutes */

pid_t preflight_pid;

const char *in_proc(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%d/%s", preflight_pid, name);
	return path;
}

int preflight_begin(void **state)
{
	(void)state;
	proc_fixture_begin();
	preflight_pid = fork();
	if (preflight_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	proc_fixture_process(preflight_pid, "program");
	return preflight_pid < 0;
}

int preflight_end(void **state)
{
	(void)state;
	proc_fixture_end();
	kill(preflight_pid, SIGKILL);
	return waitpid(preflight_pid, NULL, 0) != preflight_pid;
}

void as_nobody(const char *name, void (*body)(void))
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (geteuid() == 0 &&
		    (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
			_exit(100);
		/* dumpable again, or we could not read our own /proc */
		prctl(PR_SET_DUMPABLE, 1);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("%s: line %d", name, WIFEXITED(status) ? 256 + WEXITSTATUS(status) : -1);
}

pid_t child_of(void (*body)(void))
{
	int ready[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (body)
			body();
		/* Also when a test fails; another user's would have lost it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

void reap(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

void put_program(const struct proc_fixture_elf *what)
{
	size_t bytes;
	void *elf = proc_fixture_elf(what, &bytes);

	proc_fixture_write_bytes(in_proc("exe"), elf, bytes);
	free(elf);
}

const char libc_map[] =
	"7ffff7dd5000-7ffff7df7000 r--p 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n";

/* ------------------------------------------------------------------ the list of words */

static const struct {
	const char *id;
	enum preflight_group group;
} refusals[] = {
	{"address-space", PREFLIGHT_LIMITS},
	{"data-size", PREFLIGHT_LIMITS},
	{"locked-memory", PREFLIGHT_LIMITS},
	{"mappings", PREFLIGHT_LIMITS},
	{"threads-left", PREFLIGHT_LIMITS},
	{"memory", PREFLIGHT_LIMITS},
	{"shadow-stack", PREFLIGHT_LIMITS},
	{"allocator", PREFLIGHT_PROGRAMS},
	{"elf-class", PREFLIGHT_PROGRAMS},
	{"executable", PREFLIGHT_PROGRAMS},
	{"libc", PREFLIGHT_PROGRAMS},
	{"static", PREFLIGHT_PROGRAMS},
	{"hidepid", PREFLIGHT_PROCESS},
	{"kernel-thread", PREFLIGHT_PROCESS},
	{"own-process", PREFLIGHT_PROCESS},
	{"thread", PREFLIGHT_PROCESS},
	{"traced", PREFLIGHT_PROCESS},
	{"zombie", PREFLIGHT_PROCESS},
	{"permission-capabilities", PREFLIGHT_PERMISSION},
	{"permission-dumpable", PREFLIGHT_PERMISSION},
	{"permission-lsm", PREFLIGHT_PERMISSION},
	{"permission-uid", PREFLIGHT_PERMISSION},
	{"permission-yama", PREFLIGHT_PERMISSION},
	{"kernel", PREFLIGHT_SECCOMP},
	{"seccomp", PREFLIGHT_SECCOMP},
	/* these take a target of another kind: namespaces.bats, refusals.bats, entries.bats,
	 * mapped.bats */
	{"agent", PREFLIGHT_ELSEWHERE},
	{"alloc-functions", PREFLIGHT_ELSEWHERE},
	{"captured", PREFLIGHT_ELSEWHERE},
	{"permission-namespace", PREFLIGHT_ELSEWHERE},
	/* refusals.bats, frozen.bats */
	{"calls", PREFLIGHT_ELSEWHERE},
	{"frozen", PREFLIGHT_ELSEWHERE},
	{"translator", PREFLIGHT_ELSEWHERE},
	/* legal.bats */
	{"message-queue", PREFLIGHT_ELSEWHERE},
	{"raw-thread", PREFLIGHT_ELSEWHERE},
	/* a note from Linux 6.9 on */
	{"zombie-leader", PREFLIGHT_ELSEWHERE},
};

int preflight_group_begin(void **state)
{
	(void)state;
	refused_with = mmap(NULL, WORDS_LIMIT * sizeof(*refused_with), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return refused_with == MAP_FAILED ? -1 : 0;
}

void test_every_refusal_was_seen(void **state)
{
	(void)state;
	if (geteuid() != 0 && preflight_group == PREFLIGHT_PERMISSION)
		limpet_skip("some refusals take another user, which only root can become");
	for (size_t i = 0; limpet_finding_words[i].id[0]; i++) {
		const char *id = limpet_finding_words[i].id;
		size_t row = 0;

		assert_true(i < WORDS_LIMIT);
		if (limpet_finding_words[i].worst != LIMPET_FINDING_REFUSE)
			continue;
		while (row < LIMPET_COUNT_OF(refusals) && strcmp(refusals[row].id, id) != 0)
			row++;
		if (row == LIMPET_COUNT_OF(refusals))
			fail_msg("no group of tests answers for '%s'", id);
		if (refusals[row].group == preflight_group && !refused_with[i])
			fail_msg("no test was refused with '%s'", id);
	}
}
