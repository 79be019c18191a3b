#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/descriptor.h"
#include "injector/memory.h"
#include "injector/preflight.h"
#include "injector/preflight_allocators.h"
#include "injector/preflight_check.h"
#include "injector/preflight_permission.h"
#include "injector/proc.h"
#include "injector/seccomp_eval.h"
#include "test/unit/docker_profile.h"
#include "test/unit/proc_fixture.h"

#define MIB ((uint64_t)1 << 20)
#define NOBODY 65534

static struct limpet_preflight preflight;
static struct limpet_err err;

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

static int look(pid_t pid, const struct limpet_preflight_options *options)
{
	int r;

	memset(&err, 0, sizeof(err));
	r = limpet_preflight_run(pid, options, &preflight, &err);
	for (size_t i = 0; i < preflight.count; i++)
		if (preflight.list[i].severity == LIMPET_FINDING_REFUSE)
			refused_with[place_of(preflight.list[i].id)] = true;
	return r;
}

static const struct limpet_finding *find(const char *id)
{
	for (size_t i = 0; i < preflight.count; i++)
		if (!strcmp(preflight.list[i].id, id))
			return &preflight.list[i];
	return NULL;
}

static void assert_fine(void)
{
	if (preflight.verdict != LIMPET_PREFLIGHT_OK)
		fail_msg("%s (hint: %s)", err.message, err.hint);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_OK);
}

/* The whole of what a user sees of a refusal. */
static void assert_refused(const char *id, const char *words, const char *hint)
{
	const struct limpet_finding *finding = find(id);

	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_REFUSED);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_REFUSED);
	assert_non_null(finding);
	assert_int_equal(finding->severity, LIMPET_FINDING_REFUSE);
	assert_true(finding->brief[0]);
	if (!strstr(finding->text, words))
		fail_msg("'%s' is not in: %s", words, finding->text);
	if (!strstr(finding->hint, hint))
		fail_msg("'%s' is not in: %s", hint, finding->hint);
	/* one sentence, no full stop, and something to do about it */
	assert_true(finding->hint[0] && err.hint[0]);
	assert_null(strchr(finding->text, '\n'));
	assert_int_not_equal(finding->text[strlen(finding->text) - 1], '.');
	assert_true(err.code < 0);
}

static void assert_error_is(const char *id)
{
	assert_non_null(strstr(err.message, find(id)->text));
	assert_string_equal(err.hint, find(id)->hint);
}

/* ------------------------------------------------------------------ substitutes */

/* A process that exists, so that nobody takes it for gone; what /proc says of it is ours. */
static pid_t pid;

static const char *in_proc(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	return path;
}

static int begin(void **state)
{
	(void)state;
	proc_fixture_begin();
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	proc_fixture_process(pid, "program");
	return pid < 0;
}

static int end(void **state)
{
	(void)state;
	limpet_preflight_sys_root = "/sys";
	proc_fixture_end();
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) != pid;
}

static void test_nothing_to_object(void **state)
{
	(void)state;
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
	assert_string_equal(preflight.name, "program");
	assert_string_equal(preflight.libc, "glibc");
	assert_true(preflight.rss_bytes == 10 * MIB);
	assert_true(preflight.unseen_rss_share < 0);
	assert_int_equal(err.code, 0);
}

static void test_gone_is_not_hidden(void **state)
{
	pid_t dead = fork();

	(void)state;
	if (dead == 0)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	assert_int_equal(look(dead, NULL), -ESRCH);
	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_GONE);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_FAILED);
	assert_int_equal(look(0, NULL), -ESRCH);
	assert_int_equal(look(-1, NULL), -ESRCH);
	/* it answers to kill(), but /proc does not show it */
	assert_int_equal(look(getppid(), NULL), -EPERM);
	assert_refused("hidepid", "hides", "sudo limpet attach");
	assert_error_is("hidepid");
}

static void test_states(void **state)
{
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "%d/status", pid);
	proc_fixture_status(pid, "odd) name", 'Z', pid, 1, "");
	assert_true(look(pid, NULL) < 0);
	assert_refused("zombie", "zombie", "");
	assert_non_null(strstr(err.message, "cannot attach to 'odd) name' ("));
	/* Three threads, none of which has memory any more: it is on its way out. */
	proc_fixture_status(pid, "program", 'Z', pid, 3, "");
	assert_true(look(pid, NULL) < 0);
	assert_refused("zombie", "zombie", "");
	proc_fixture_status(pid, "program", 'S', 4711, 3, "");
	assert_true(look(pid, NULL) < 0);
	assert_refused("thread", "thread of process 4711", "limpet attach 4711");
	proc_fixture_status(pid, "program", 'T', pid, 1, "");
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
	assert_non_null(find("stopped"));
	assert_int_equal(find("stopped")->severity, LIMPET_FINDING_NOTE);
	proc_fixture_status(pid, "kworker/u4:1-ev", 'I', pid, 1, "");
	proc_fixture_stat(pid, "kworker/u4:1", 0x00208040, 1);
	assert_true(look(pid, NULL) < 0);
	assert_refused("kernel-thread", "kernel thread", "");
	assert_true(preflight.kernel_thread);
}

static void test_damaged_proc_is_no_verdict(void **state)
{
	(void)state;
	proc_fixture_write(in_proc("status"), "%s", "Name:\tpro");
	assert_int_equal(look(pid, NULL), -EBADMSG);
	assert_int_equal(preflight.verdict, LIMPET_PREFLIGHT_FAILED);
	assert_int_equal(limpet_preflight_exit(&preflight), LIMPET_EXIT_FAILED);
	assert_true(err.message[0]);
}

static void test_own_process(void **state)
{
	(void)state;
	assert_true(look(getpid(), NULL) < 0);
	assert_refused("own-process", "limpet itself", "");
}

static void test_tracer_is_named(void **state)
{
	(void)state;
	proc_fixture_status(pid, "program", 'S', pid, 1, "TracerPid:\t99999991\nSeccomp:\t0\n");
	assert_int_equal(look(pid, NULL), -EBUSY);
	assert_refused("traced", "traced by '?' (99999991)", "gdb: detach");
	proc_fixture_process(99999991, "gdb");
	assert_int_equal(look(pid, NULL), -EBUSY);
	assert_refused("traced", "traced by 'gdb' (99999991)", "gdb: detach");
	/* one thread of several is enough */
	proc_fixture_status(pid, "program", 'S', pid, 2, "TracerPid:\t0\nSeccomp:\t0\n");
	assert_int_equal(look(pid, NULL), 0);
	proc_fixture_write(in_proc("task/99999992/status"), "%s",
			   "Name:\tworker\nTracerPid:\t99999991\nSeccomp:\t0\n");
	assert_int_equal(look(pid, NULL), -EBUSY);
	assert_refused("traced", "'gdb' (99999991)", "");
	proc_fixture_process(99999991, "limpet");
	assert_int_equal(look(pid, NULL), -EBUSY);
	assert_refused("traced", "'limpet'", "limpet status");
}

static void test_captured_already(void **state)
{
	(void)state;
	proc_fixture_write(in_proc("maps"), "%s",
			   "7ffff7000000-7ffff7001000 r-xp 00000000 00:05 9 "
			   "/memfd:limpet-agent (deleted)\n"
			   "7ffff7dd5000-7ffff7df7000 r--p 00000000 fe:00 12 /lib/libc.so.6\n");
	(void)look(pid, NULL);
	assert_true(find("captured") || find("dormant"));
}

/* ------------------------------------------------------------------ permission */

#define CAPABILITY_PTRACE (1ull << 19)

static const struct limpet_permission_facts same_user = {
	.uid = 1000,
	.gid = 1000,
	.target_uid = {1000, 1000, 1000},
	.target_gid = {1000, 1000, 1000},
	.dumpable = true,
	.same_user_namespace = true,
	.yama = -1,
	.label = "",
};

static void test_each_rule_of_ptrace(void **state)
{
	struct limpet_permission_facts facts = same_user;

	(void)state;
	/* nothing of ours refuses: somebody else did */
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
	facts.yama = 0;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
	facts.yama = 1;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_YAMA_CHILD);
	facts.is_descendant = true;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
	facts.yama = 2;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_YAMA_ADMIN);
	facts.capable = true;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
	facts.yama = 3;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_YAMA_NOBODY);

	/* any of the six ids */
	for (int i = 0; i < 6; i++) {
		facts = same_user;
		(i < 3 ? facts.target_uid : facts.target_gid)[i % 3] = 0;
		assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_UID);
		facts.capable = true;
		assert_int_equal(limpet_permission_explain(&facts),
				 LIMPET_PERMISSION_SECURITY_MODULE);
	}
	facts = same_user;
	facts.dumpable = false;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_DUMPABLE);
	facts = same_user;
	facts.target_capabilities = CAPABILITY_PTRACE;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_CAPABILITIES);
	facts.capabilities = CAPABILITY_PTRACE;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
	facts = same_user;
	facts.same_user_namespace = false;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_USER_NAMESPACE);
	/* root of a container has no say over its neighbour; the machine's root has */
	facts.capable = true;
	facts.in_container = true;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_USER_NAMESPACE);
	facts.in_container = false;
	assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_SECURITY_MODULE);
}

/* Runs `body` as nobody in a child of its own; it exits by the assertion that failed. As any other
 * user nothing needs to change. */
static void as_nobody(void (*body)(void))
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
		fail_msg("line %d", WIFEXITED(status) ? 256 + WEXITSTATUS(status) : -1);
}

/* Exit statuses have 8 bits: the line number modulo 256 tells which. */
#define CHILD_ASSERT(condition)                                                              \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
				err.message);                                                \
			_exit(__LINE__ % 255 + 1);                                           \
		}                                                                            \
	} while (0)

static void expect_in_child(const char *id, const char *words, const char *hint)
{
	const struct limpet_finding *finding;

	CHILD_ASSERT(look(pid, NULL) == -EPERM);
	CHILD_ASSERT(preflight.verdict == LIMPET_PREFLIGHT_REFUSED);
	finding = find(id);
	CHILD_ASSERT(finding != NULL);
	CHILD_ASSERT(strstr(finding->text, words) != NULL);
	CHILD_ASSERT(strstr(finding->hint, hint) != NULL);
	/* never this advice */
	CHILD_ASSERT(strstr(finding->hint, "ptrace_scope") == NULL);
	CHILD_ASSERT(strstr(err.message, finding->text) != NULL);
}

static void expect_capabilities(void)
{
	expect_in_child("permission-capabilities", "capabilities that this user has not",
			"sudo limpet attach");
}

static void expect_yama_child(void)
{
	expect_in_child("permission-yama", "ptrace_scope is 1", "sudo limpet attach");
}

static void expect_yama_admin(void)
{
	expect_in_child("permission-yama", "ptrace_scope is 2", "sudo limpet attach");
}

static void expect_yama_nobody(void)
{
	expect_in_child("permission-yama", "ptrace_scope is 3", "ask who set it");
}

static void expect_dumpable(void)
{
	expect_in_child("permission-dumpable", "not dumpable", "sudo limpet attach");
}

static void expect_module(void)
{
	expect_in_child("permission-lsm", "its label is confined_t", "journalctl");
}

static void expect_uid(void)
{
	expect_in_child("permission-uid", "another user", "sudo limpet attach");
}

/* The kernel's "no" is a file that cannot be opened; the rest is /proc's word. */
static void test_permission_end_to_end(void **state)
{
	static const char own_ids[] = "TracerPid:\t0\nSeccomp:\t0\n";
	uid_t user = geteuid() ? geteuid() : NOBODY;
	char status[512];

	(void)state;
	snprintf(status, sizeof(status),
		 "Name:\tprogram\nState:\tS (sleeping)\nTgid:\t%d\nPid:\t%d\nPPid:\t1\n"
		 "Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nThreads:\t1\n%s",
		 pid, pid, user, user, user, user, geteuid() ? getgid() : NOBODY,
		 geteuid() ? getgid() : NOBODY, geteuid() ? getgid() : NOBODY, NOBODY, own_ids);
	proc_fixture_write(in_proc("status"), "%s", status);
	assert_int_equal(chmod(proc_fixture_path(in_proc("mem")), 0), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(proc_fixture_path(in_proc("maps")), NOBODY, NOBODY), 0);
	proc_fixture_write(in_proc("attr/current"), "%s", "confined_t\n");
	as_nobody(expect_module);
	proc_fixture_write("sys/kernel/yama/ptrace_scope", "%s", "0\n");
	as_nobody(expect_module);
	proc_fixture_write("sys/kernel/yama/ptrace_scope", "%s", "1\n");
	as_nobody(expect_yama_child);
	proc_fixture_write("sys/kernel/yama/ptrace_scope", "%s", "2\n");
	as_nobody(expect_yama_admin);
	proc_fixture_write("sys/kernel/yama/ptrace_scope", "%s", "3\n");
	as_nobody(expect_yama_nobody);
	proc_fixture_remove("sys/kernel/yama/ptrace_scope");
	proc_fixture_write(in_proc("status"), "%sCapPrm:\t0000000000000400\n", status);
	as_nobody(expect_capabilities);
	proc_fixture_write(in_proc("status"), "%s", status);
	if (geteuid() != 0) {
		print_message("# the rest needs another user\n");
		return;
	}
	assert_int_equal(chown(proc_fixture_path(in_proc("maps")), 0, 0), 0);
	as_nobody(expect_dumpable);
	proc_fixture_process(pid, "program");
	assert_int_equal(chmod(proc_fixture_path(in_proc("mem")), 0), 0);
	as_nobody(expect_uid);
}

/* ------------------------------------------------------------------ programs */

static void put_program(const struct proc_fixture_elf *what)
{
	size_t bytes;
	void *elf = proc_fixture_elf(what, &bytes);

	proc_fixture_write_bytes(in_proc("exe"), elf, bytes);
	free(elf);
}

static const char libc_map[] =
	"7ffff7dd5000-7ffff7df7000 r--p 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/libc.so.6\n";

static void test_other_classes_and_static_programs(void **state)
{
	static const char *const none[] = {"main", NULL};
	static const char *const go[] = {"main.main", "runtime.mallocgc", NULL};
	static const char *const glibc[] = {"main", "malloc", "free", "_IO_2_1_stdout_", NULL};
	struct proc_fixture_elf what = {.class_bits = 32};

	(void)state;
	put_program(&what);
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("elf-class", "32-bit", "");

	proc_fixture_write(in_proc("maps"), "%s", "400000-500000 r-xp 00000000 fe:00 11 /x\n");
	what = (struct proc_fixture_elf){.symbols = none};
	put_program(&what);
	assert_int_equal(look(pid, &(struct limpet_preflight_options){.partial = true}), -ENOTSUP);
	assert_refused("static", "fully static,", "");
	what.symbols = go;
	put_program(&what);
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("static", "Go program without C code", "go tool pprof");
	/* with names, by which it may be hooked; not in this process, which has another program */
	what.symbols = glibc;
	put_program(&what);
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_null(find("static"));
	assert_refused("allocator", "its malloc is linked into the executable", "");
	assert_string_equal(preflight.libc, "glibc, static");

	/* started as `ld.so program`: no interpreter, and dynamic all the same */
	what = (struct proc_fixture_elf){.symbols = none};
	put_program(&what);
	proc_fixture_write(in_proc("maps"), "%s", libc_map);
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
}

static void test_musl_and_others(void **state)
{
	struct proc_fixture_elf what = {.interpreter = "/lib/ld-musl-x86_64.so.1"};

	(void)state;
	put_program(&what);
	proc_fixture_write(in_proc("maps"), "%s",
			   "7ffff7f00000-7ffff7f20000 r--p 00000000 fe:00 5 "
			   "/lib/ld-musl-x86_64.so.1\n");
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
	assert_string_equal(preflight.libc, "musl");
	what.interpreter = "/system/bin/linker64";
	put_program(&what);
	proc_fixture_write(in_proc("maps"), "%s",
			   "7ffff7f00000-7ffff7f20000 r--p 00000000 fe:00 5 /apex/libc_other\n");
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("libc", "/system/bin/linker64", "");
	/* at its entry point, before the loader has mapped anything */
	what.interpreter = "/lib64/ld-linux-x86-64.so.2";
	put_program(&what);
	proc_fixture_write(in_proc("maps"), "%s", "400000-500000 r-xp 00000000 fe:00 11 /x\n");
	assert_int_equal(look(pid, &(struct limpet_preflight_options){.launched = true}), 0);
	assert_fine();
}

static void test_own_allocators_are_named(void **state)
{
	static const struct {
		const char *symbol, *name;
	} cases[] = {
		{"_rjem_malloc", "jemalloc"},
		{"je_malloc", "jemalloc"},
		{"_rjem_je_arena_malloc_hard", "jemalloc"},
		{"mi_malloc", "mimalloc"},
		{"_mi_malloc_generic", "mimalloc"},
		{"tc_malloc", "tcmalloc"},
		{"_ZN8tcmalloc10CentralFreeList", "tcmalloc"},
		{"rawAlloc__system_5334", "Nim's allocator"},
		{"rawAlloc__mE4QEVyMvGRVliDWDngZCQ", "Nim's allocator"},
		{"GC_malloc", "the Boehm collector"},
		{"__asan_init", "AddressSanitizer"},
		{"malloc", "its own malloc"},
	};
	const struct limpet_preflight_options partial = {.partial = true};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		const char *const symbols[] = {"_Zaa", "main", cases[i].symbol, "zz", NULL};
		struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2"};
		char words[80];

		snprintf(words, sizeof(words), "%s is linked into the executable", cases[i].name);
		for (int dynamic = 0; dynamic < 2; dynamic++) {
			what.symbols = dynamic ? NULL : symbols;
			what.dynamics = dynamic ? symbols : NULL;
			put_program(&what);
			assert_int_equal(look(pid, NULL), -ENOTSUP);
			assert_refused("allocator", words, "--partial");
			assert_error_is("allocator");
			assert_non_null(strstr(preflight.allocators, cases[i].name));
			assert_true(preflight.unseen_rss_share >= 0 &&
				    preflight.unseen_rss_share <= 1);
			assert_int_equal(look(pid, &partial), 0);
			assert_fine();
			assert_int_equal(find("allocator")->severity, LIMPET_FINDING_WARNING);
			assert_true(preflight.unseen_rss_share >= 0);
		}
		/* a program that only calls it is no such program */
		what.dynamics = NULL;
		what.undefined = symbols;
		put_program(&what);
		assert_int_equal(look(pid, NULL), 0);
		assert_fine();
	}
}

static void test_stripped_allocators_are_found_by_their_texts(void **state)
{
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2"};

	(void)state;
	what.rodata = "usage: malloc\n<jemalloc>: Error allocating TSD\n";
	put_program(&what);
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("allocator", "jemalloc is linked", "");
	what.rodata = "mimalloc: warning: ";
	put_program(&what);
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("allocator", "mimalloc is linked", "");
	what.rodata = "malloc(%d): jemalloc-5.3.0 tcmalloc: mi";
	put_program(&what);
	assert_int_equal(look(pid, NULL), 0);
	what.rodata = "x";
	/* dynamic: with a C side */
	what.section = ".go.buildinfo";
	put_program(&what);
	assert_int_equal(look(pid, NULL), 0);
	assert_non_null(find("allocator"));
	assert_int_equal(find("allocator")->severity, LIMPET_FINDING_WARNING);
	assert_non_null(strstr(find("allocator")->text, "Go's own heap stays unseen"));
}

/* Texts at every place relative to the window in which a file is searched. */
static void test_texts_across_the_search_window(void **state)
{
	enum { WINDOW = 1 << 20 };
	static const char text[] = "<jemalloc>: ";
	char *rodata = malloc(2 * WINDOW + 1);

	(void)state;
	assert_non_null(rodata);
	for (int shift = -80; shift <= 80; shift++) {
		struct proc_fixture_elf what = {.rodata = rodata};
		struct limpet_program program;
		size_t bytes;
		void *elf;
		int fd;

		memset(rodata, 'x', 2 * WINDOW);
		rodata[2 * WINDOW] = '\0';
		memcpy(rodata + WINDOW + shift, text, strlen(text));
		elf = proc_fixture_elf(&what, &bytes);
		fd = memfd_create("elf", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, elf, bytes), bytes);
		assert_int_equal(limpet_program_read(fd, &program), 0);
		if (!program.own_allocator)
			fail_msg("not found at %d", shift);
		close(fd);
		free(elf);
	}
	free(rodata);
}

static void test_libraries_are_named_and_followed(void **state)
{
	(void)state;
	proc_fixture_write(
		in_proc("maps"),
		"7ffff7000000-7ffff7010000 r--p 00000000 fe:00 21 /usr/lib/libjemalloc.so.2\n"
		"7ffff7010000-7ffff7020000 r-xp 00010000 fe:00 21 /usr/lib/libjemalloc.so.2\n"
		"7ffff7100000-7ffff7110000 r--p 00000000 fe:00 22 /usr/lib/libpython3.11.so.1.0\n"
		"7ffff7200000-7ffff7210000 r--p 00000000 fe:00 23 /usr/lib/libjemallocator.so\n"
		"%s",
		libc_map);
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
	assert_string_equal(preflight.allocators, "glibc, jemalloc");
	assert_non_null(strstr(find("allocator-library")->text, "jemalloc"));
	assert_non_null(strstr(find("runtime")->text, "pymalloc"));
	assert_true(preflight.unseen_rss_share < 0);

	assert_string_equal(limpet_allocator_of_library("/x/libtcmalloc_minimal.so.4"), "tcmalloc");
	assert_string_equal(limpet_allocator_of_library("/x/libmimalloc.so.2.0"), "mimalloc");
	assert_null(limpet_allocator_of_library("/x/libmimallocx.so"));
	assert_null(limpet_allocator_of_library("/libjemalloc.so/x"));
	assert_null(limpet_allocator_of_library("/x/libjemalloc.a"));
}

static void test_broken_executables(void **state)
{
	static const char *const symbols[] = {"main", "_rjem_malloc", NULL};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2",
					.symbols = symbols,
					.dynamics = symbols,
					.rodata = "malloc"};
	struct limpet_program program;
	unsigned char *elf, *copy;
	unsigned random = 1;
	size_t bytes;
	int fd;

	(void)state;
	proc_fixture_write(in_proc("exe"), "%s", "#!/bin/sh\n");
	assert_int_equal(look(pid, NULL), -ENOEXEC);
	assert_refused("executable", "cannot be read", "");
	proc_fixture_remove(in_proc("exe"));
	assert_int_equal(look(pid, NULL), -ENOENT);
	assert_refused("executable", "cannot be read", "");

	elf = proc_fixture_elf(&what, &bytes);
	copy = malloc(bytes);
	fd = memfd_create("elf", MFD_CLOEXEC);
	assert_true(copy && fd >= 0);
	/* cut at every length */
	assert_int_equal(pwrite(fd, elf, bytes, 0), bytes);
	assert_int_equal(limpet_program_read(fd, &program), 0);
	assert_string_equal(program.own_allocator, "jemalloc");
	for (size_t length = bytes; length-- > 0;) {
		assert_int_equal(ftruncate(fd, (off_t)length), 0);
		(void)limpet_program_read(fd, &program);
	}
	/* and with bytes turned at random: any answer will do, but an answer */
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, elf, bytes);
		for (int i = 0; i < 4; i++) {
			random = random * 1103515245 + 12345;
			copy[(random >> 8) % (i % 2 ? bytes : 64)] = (unsigned char)(random >> 24);
		}
		assert_int_equal(pwrite(fd, copy, bytes, 0), bytes);
		(void)limpet_program_read(fd, &program);
	}
	close(fd);
	free(copy);
	free(elf);
}

static void test_cache_knows_changed_files(void **state)
{
	static const char *const symbols[] = {"mi_malloc", NULL};
	struct proc_fixture_elf what = {.interpreter = "/lib64/ld-linux-x86-64.so.2"};
	struct limpet_preflight_options options = {.cache = limpet_preflight_cache_new()};

	(void)state;
	assert_non_null(options.cache);
	for (int i = 0; i < 3; i++) {
		what.symbols = i == 1 ? symbols : NULL;
		put_program(&what);
		for (int again = 0; again < 2; again++)
			assert_int_equal(look(pid, &options), i == 1 ? -ENOTSUP : 0);
	}
	limpet_preflight_cache_free(options.cache);
}

static void test_huge_maps(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	(void)state;
	assert_non_null(file);
	for (unsigned i = 0; i < 65000; i++)
		fprintf(file, "%x-%x rw-p 00000000 fe:00 77 /srv/data (%u).bin\n",
			0x10000 + i * 0x2000, 0x11000 + i * 0x2000, i);
	fputs(libc_map, file);
	fclose(file);
	proc_fixture_write_bytes(in_proc("maps"), text, bytes);
	free(text);
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
}

/* ------------------------------------------------------------------ limits */

static void test_descriptors(void **state)
{
	char path[64];

	(void)state;
	proc_fixture_write(
		in_proc("limits"), "%s",
		"Max open files            64                   4096        files     \n");
	for (int i = 0; i < 56; i++) {
		snprintf(path, sizeof(path), "fd/%d", i);
		proc_fixture_write(in_proc(path), "%s", "");
	}
	/* numbers beyond a limit that was lowered later do not count */
	proc_fixture_write(in_proc("fd/100"), "%s", "");
	assert_int_equal(look(pid, NULL), 0);
	assert_fine();
	proc_fixture_write(in_proc("fd/60"), "%s", "");
	assert_int_equal(look(pid, NULL), -EMFILE);
	assert_refused("descriptors", "57 of 64 descriptors", "prlimit --pid");
}

static void test_address_space(void **state)
{
	const struct limpet_preflight_options little = {.agent_memory_bytes = 8 * MIB};

	(void)state;
	/* It has 20 MiB. */
	proc_fixture_write(
		in_proc("limits"), "%s",
		"Max address space         104857600            104857600   bytes     \n");
	assert_int_equal(look(pid, NULL), -ENOMEM);
	assert_refused("address-space", "100.0 MiB", "prlimit --pid");
	assert_int_equal(look(pid, &little), 0);
	proc_fixture_write(
		in_proc("limits"), "%s",
		"Max address space         41943040             41943040    bytes     \n");
	assert_int_equal(look(pid, &little), -ENOMEM);
	assert_refused("address-space", "40.0 MiB", "prlimit --pid");
	proc_fixture_write(
		in_proc("limits"), "%s",
		"Max data size             31457280             31457280    bytes     \n");
	assert_int_equal(look(pid, NULL), -ENOMEM);
	assert_refused("data-size", "30.0 MiB", "prlimit --pid");
	proc_fixture_write(
		in_proc("limits"), "%s",
		"Max data size             204857600            unlimited   bytes     \n");
	assert_int_equal(look(pid, NULL), 0);
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

static void test_memory_headroom(void **state)
{
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
		put_group(unified, "/pod/box one", none, "1", "");
		put_group(unified, "/pod", none, "1", "");
		assert_int_equal(look(pid, NULL), 0);
		assert_null(find("memory"));
		/* 200 - 64 MiB: just enough for twice 64 */
		put_group(unified, "/pod/box one", "209715200", "67108864", "");
		assert_int_equal(look(pid, NULL), 0);
		assert_non_null(strstr(find("memory")->text, "136.0 MiB left"));
		/* the limit of a parent counts too */
		put_group(unified, "/pod", "209715200", "83886080", "");
		assert_int_equal(look(pid, NULL), -ENOMEM);
		assert_refused("memory", "120.0 MiB of memory left, and limpet wants 128.0 MiB",
			       "--agent-memory 60M");
		assert_int_equal(look(pid, &(struct limpet_preflight_options){.agent_memory_bytes =
										      60 * MIB}),
				 0);
		/* files that nobody reads make room */
		put_group(unified, "/pod", "209715200", "83886080", cache);
		assert_int_equal(look(pid, NULL), 0);
		put_group(unified, "/pod", "209715200", "209715200", "");
		assert_int_equal(look(pid, NULL), -ENOMEM);
		assert_refused("memory", "0 B of memory left",
			       "raise the container's memory limit");
		put_group(unified, "/pod", none, "1", "");
		if (unified) {
			proc_fixture_write("cg/pod/memory.high", "%s", "1048576\n");
			assert_int_equal(look(pid, NULL), -ENOMEM);
			proc_fixture_remove("cg/pod/memory.high");
		}
		/* a group outside of what is mounted here */
		proc_fixture_write(in_proc("cgroup"), "%s",
				   unified ? "0::/../elsewhere\n" : "4:memory:/../elsewhere\n");
		assert_int_equal(look(pid, NULL), 0);
	}
}

static void test_kernel_settings(void **state)
{
	(void)state;
	proc_fixture_status(pid, "program", 'S', pid, 1, "x86_Thread_features:\t\n");
	assert_int_equal(look(pid, NULL), 0);
	proc_fixture_status(pid, "program", 'S', pid, 1, "x86_Thread_features:\tshstk wrss \n");
	assert_int_equal(look(pid, NULL), -ENOTSUP);
	assert_refused("shadow-stack", "shadow stack", "");
}

static void test_clock_source(void **state)
{
	static const char path[] = "sys/devices/system/clocksource/clocksource0/"
				   "current_clocksource";
	char root[256];

	(void)state;
	snprintf(root, sizeof(root), "%s", proc_fixture_path("sys"));
	limpet_preflight_sys_root = root;
	proc_fixture_write(path, "%s", "tsc\n");
	assert_int_equal(look(pid, NULL), 0);
	assert_true(preflight.clock_is_tsc);
	assert_null(find("clock"));
	proc_fixture_write(path, "%s", "kvm-clock\n");
	assert_int_equal(look(pid, NULL), 0);
	assert_false(preflight.clock_is_tsc);
	assert_non_null(strstr(find("clock")->text, "kvm-clock"));
	assert_int_equal(find("clock")->severity, LIMPET_FINDING_NOTE);
}

static void test_seccomp_modes(void **state)
{
	const struct limpet_preflight_options quick = {.quick = true};
	const struct limpet_preflight_options assumed = {.assume_seccomp_ok = true};

	(void)state;
	proc_fixture_status(pid, "program", 'S', pid, 1, "Seccomp:\t1\n");
	assert_true(look(pid, NULL) < 0);
	assert_refused("seccomp", "strict mode", "");
	assert_true(look(pid, &quick) < 0);
	assert_refused("seccomp", "strict mode", "");
	/* /proc claims a filter, the kernel has none to show: unknown is not fine */
	proc_fixture_status(pid, "program", 'S', pid, 1, "Seccomp:\t2\n");
	assert_int_equal(look(pid, &quick), 0);
	assert_int_equal(find("seccomp")->severity, LIMPET_FINDING_NOTE);
	assert_true(look(pid, NULL) < 0);
	assert_refused("seccomp", "cannot be read", "--assume-seccomp-ok");
	assert_int_equal(look(pid, &assumed), 0);
	assert_fine();
	assert_int_equal(find("seccomp")->severity, LIMPET_FINDING_WARNING);
}

/* ------------------------------------------------------------------ real processes */

/* A child that runs `body` (which may be NULL), says so, and waits to be killed. */
static pid_t child_of(void (*body)(void))
{
	int ready[2];
	char byte;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (body)
			body();
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

static void reap(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_real_child(void **state)
{
	pid_t child = child_of(NULL);

	(void)state;
	(void)look(child, NULL);
	assert_fine();
	assert_memory_equal(preflight.libc, "glibc 2.", 8);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	assert_non_null(strstr(preflight.allocators, "Sanitizer"));
#else
	assert_string_equal(preflight.allocators, preflight.libc);
#endif
	assert_true(preflight.rss_bytes > 0);
	reap(child);
}

static void test_real_zombie(void **state)
{
	pid_t child = fork();
	siginfo_t info;

	(void)state;
	if (child == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_true(look(child, NULL) < 0);
	assert_refused("zombie", "zombie", "");
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(look(child, NULL), -ESRCH);
}

static void *outlive(void *unused)
{
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
	int pidfd, copy;

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
	pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(pidfd >= 0);
	copy = limpet_descriptor_get(child, pidfd, STDERR_FILENO);
	if (limpet_descriptor_reachable(child)) {
		assert_true(copy >= 0);
		close(copy);
		assert_int_equal(look(child, NULL), 0);
		assert_non_null(find("zombie-leader"));
		assert_int_equal(find("zombie-leader")->severity, LIMPET_FINDING_NOTE);
		assert_true(preflight.rss_bytes > 0);
	} else {
		assert_true(look(child, NULL) < 0);
		assert_refused("zombie-leader", "before 6.9", "");
	}
	assert_int_equal(limpet_descriptor_get(child, pidfd, 9999), -EBADF);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(limpet_memory_read(child, entry, &byte, 1), -ESRCH);
	close(pidfd);
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
	assert_int_equal(look(traced_one, NULL), -EBUSY);
	assert_refused("traced", words, "");
	reap(tracer);
	(void)look(traced_one, NULL);
	assert_null(find("traced"));
	reap(traced_one);
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
	print_message(
		"# a thread of the sanitizer would outlive exit(2), all that this mode allows\n");
	skip();
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
	assert_true(look(child, NULL) < 0);
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
		(void)look(target, options);
		snprintf(words, 4096, "%s", find("seccomp") ? find("seccomp")->text : err.message);
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

static void assert_words(const char *words, const char *part)
{
	if (!strstr(words, part))
		fail_msg("'%s' is not in: %s", part, words);
}

static void test_inside_a_container(void **state)
{
	const struct limpet_preflight_options assumed = {.assume_seccomp_ok = true};
	scmp_filter_ctx docker = docker_profile_make(true);
	char words[512];

	(void)state;
	assert_int_equal(inside(docker, false, NULL, words, sizeof(words)), LIMPET_PREFLIGHT_OK);
	assert_words(words, "limpet's own");
	/* a filter that we do not have is a filter that we do not know */
	assert_int_equal(inside(docker, true, NULL, words, sizeof(words)),
			 LIMPET_PREFLIGHT_REFUSED);
	assert_words(words, "cannot be read");
	assert_int_equal(inside(docker, true, &assumed, words, sizeof(words)), LIMPET_PREFLIGHT_OK);
	assert_words(words, "as you said");
	seccomp_release(docker);
	/* without the capability the channel cannot be had either: said by its own name */
	docker = docker_profile_make(false);
	assert_int_equal(inside(docker, false, &assumed, words, sizeof(words)),
			 LIMPET_PREFLIGHT_REFUSED);
	assert_words(words, "pidfd_getfd(2) is forbidden");
	seccomp_release(docker);
}

static void test_inside_a_narrow_container(void **state)
{
	static const struct {
		uint32_t action;
		const char *words;
	} cases[] = {
		{SCMP_ACT_KILL_PROCESS, "would kill it at memfd_create(2)"},
		{SCMP_ACT_KILL_THREAD, "would kill it at memfd_create(2)"},
		{SCMP_ACT_TRAP, "would kill it at memfd_create(2)"},
		{SCMP_ACT_ERRNO(EPERM), "answers EPERM to memfd_create(2)"},
		{SCMP_ACT_ERRNO(ENOSYS), "answers ENOSYS to memfd_create(2)"},
		{SCMP_ACT_LOG, "limpet's own"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		scmp_filter_ctx filter;
		char words[512];

#if defined(__SANITIZE_THREAD__)
		/* the sanitizer's own thread lives on */
		if (cases[i].action == SCMP_ACT_KILL_THREAD)
			continue;
#endif
		filter = seccomp_init(SCMP_ACT_ALLOW);
		assert_non_null(filter);
		assert_int_equal(
			seccomp_rule_add(filter, cases[i].action, SCMP_SYS(memfd_create), 0), 0);
		assert_int_equal(inside(filter, false, NULL, words, sizeof(words)),
				 i + 1 < LIMPET_COUNT_OF(cases) ? LIMPET_PREFLIGHT_REFUSED
								: LIMPET_PREFLIGHT_OK);
		assert_words(words, cases[i].words);
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
		    call->number == SYS_munmap || call->number == SYS_gettid)
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

/* ------------------------------------------------------------------ other users */

static pid_t observed;

static void expect_real_refusal(void)
{
	const struct limpet_finding *finding;

	CHILD_ASSERT(look(observed, NULL) == -EPERM);
	finding = find("permission-uid");
	CHILD_ASSERT(finding != NULL);
	CHILD_ASSERT(strstr(finding->hint, "sudo limpet attach") != NULL);
}

static void test_real_other_user(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("# needs root, to be somebody else\n");
		skip();
	}
	observed = child_of(NULL);
	as_nobody(expect_real_refusal);
	reap(observed);
}

static void become_undumpable_nobody(void)
{
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY) ||
	    prctl(PR_SET_DUMPABLE, 0))
		_exit(1);
}

static void expect_undumpable(void)
{
	CHILD_ASSERT(look(observed, NULL) == -EPERM);
	CHILD_ASSERT(find("permission-dumpable") != NULL);
}

static void test_real_undumpable(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("# needs root, to be somebody else\n");
		skip();
	}
	observed = child_of(become_undumpable_nobody);
	as_nobody(expect_undumpable);
	/* root may */
	(void)look(observed, NULL);
	assert_non_null(find("permission"));
	reap(observed);
}

static void *fill_arena(void *unused)
{
	/* a secondary arena, in small blocks; never freed: the child is killed */
	for (int i = 0; i < 16 * 1024; i++) {
		volatile char *block = malloc(1000);

		if (!block)
			_exit(1);
		block[0] = 1;
		block[999] = 1;
	}
	return unused;
}

static void fill_memory(void)
{
	pthread_t thread;
	char *maps =
		mmap(NULL, 24 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (maps == MAP_FAILED)
		_exit(1);
	memset(maps, 1, 24 * MIB);
	if (pthread_create(&thread, NULL, fill_arena, NULL) || pthread_join(thread, NULL))
		_exit(1);
}

static void test_unseen_share_leaves_arenas_out(void **state)
{
	uint64_t unseen_bytes, rss_bytes;
	pid_t child;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	print_message("# no glibc arenas under a sanitizer\n");
	skip();
#endif
	child = child_of(fill_memory);
	assert_int_equal(limpet_unseen_rss(child, &unseen_bytes, &rss_bytes), 0);
	assert_true(rss_bytes > 40 * MIB);
	if (unseen_bytes < 24 * MIB || unseen_bytes > 28 * MIB)
		fail_msg("%llu of %llu bytes", (unsigned long long)unseen_bytes,
			 (unsigned long long)rss_bytes);
	reap(child);
}

/* ------------------------------------------------------------------ the list of words */

/* The last of all tests: by then each refusal has been seen, with its words and its hint. */
static void test_every_refusal_was_seen(void **state)
{
	/* these take a target of another kind: test/integration/{namespaces,refusals,entries}.bats;
	 * the last one is a note from Linux 6.9 on */
	static const char *const elsewhere[] = {"permission-namespace", "captured",
						"alloc-functions", "zombie-leader"};

	(void)state;
	if (geteuid() != 0) {
		print_message("# some take another user, which only root can become\n");
		skip();
	}
	for (size_t i = 0; limpet_finding_words[i].id[0]; i++) {
		bool found = refused_with[i];

		assert_true(i < WORDS_LIMIT);
		for (size_t k = 0; k < LIMPET_COUNT_OF(elsewhere); k++)
			found = found || !strcmp(limpet_finding_words[i].id, elsewhere[k]);
		if (limpet_finding_words[i].worst == LIMPET_FINDING_REFUSE && !found)
			fail_msg("no test was refused with '%s'", limpet_finding_words[i].id);
	}
}

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
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = {
		WITH_ROOT(test_nothing_to_object),
		WITH_ROOT(test_gone_is_not_hidden),
		WITH_ROOT(test_states),
		WITH_ROOT(test_damaged_proc_is_no_verdict),
		cmocka_unit_test(test_own_process),
		WITH_ROOT(test_tracer_is_named),
		WITH_ROOT(test_captured_already),
		cmocka_unit_test(test_each_rule_of_ptrace),
		WITH_ROOT(test_permission_end_to_end),
		WITH_ROOT(test_other_classes_and_static_programs),
		WITH_ROOT(test_musl_and_others),
		WITH_ROOT(test_own_allocators_are_named),
		WITH_ROOT(test_stripped_allocators_are_found_by_their_texts),
		cmocka_unit_test(test_texts_across_the_search_window),
		WITH_ROOT(test_libraries_are_named_and_followed),
		WITH_ROOT(test_broken_executables),
		WITH_ROOT(test_cache_knows_changed_files),
		WITH_ROOT(test_huge_maps),
		WITH_ROOT(test_descriptors),
		WITH_ROOT(test_address_space),
		WITH_ROOT(test_memory_headroom),
		WITH_ROOT(test_kernel_settings),
		WITH_ROOT(test_clock_source),
		WITH_ROOT(test_seccomp_modes),
		cmocka_unit_test(test_real_child),
		cmocka_unit_test(test_real_zombie),
		cmocka_unit_test(test_real_zombie_leader),
		cmocka_unit_test(test_real_tracer),
		cmocka_unit_test(test_real_strict_mode),
		cmocka_unit_test(test_inside_a_container),
		cmocka_unit_test(test_inside_a_narrow_container),
		cmocka_unit_test(test_probe_makes_every_needed_call),
		cmocka_unit_test(test_real_other_user),
		cmocka_unit_test(test_real_undumpable),
		cmocka_unit_test(test_unseen_share_leaves_arenas_out),
		cmocka_unit_test(test_every_word_is_in_the_manual),
		cmocka_unit_test(test_every_refusal_was_seen),
	};

	refused_with = mmap(NULL, WORDS_LIMIT * sizeof(*refused_with), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (refused_with == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
