/* Who may look into a process: each rule of the kernel has words of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "injector/preflight/preflight_permission.h"
#include "test/unit/preflight_fixture.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/skip_reason.h"

const enum preflight_group preflight_group = PREFLIGHT_PERMISSION;

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
	static const struct {
		const char *name;
		int yama; /* + 1: 0 is none */
		bool is_descendant, capable, in_container, not_dumpable, other_namespace;
		uint64_t capabilities, target_capabilities;
		enum limpet_permission_reason reason;
	} rows[] = {
		/* nothing of ours refuses: somebody else did */
		{.name = "nothing", .reason = LIMPET_PERMISSION_SECURITY_MODULE},
		{.name = "Yama 0", .yama = 1, .reason = LIMPET_PERMISSION_SECURITY_MODULE},
		{.name = "Yama 1", .yama = 2, .reason = LIMPET_PERMISSION_YAMA_CHILD},
		{.name = "Yama 1, a child",
		 .yama = 2,
		 .is_descendant = true,
		 .reason = LIMPET_PERMISSION_SECURITY_MODULE},
		{.name = "Yama 2, a child",
		 .yama = 3,
		 .is_descendant = true,
		 .reason = LIMPET_PERMISSION_YAMA_ADMIN},
		{.name = "Yama 2, capable",
		 .yama = 3,
		 .is_descendant = true,
		 .capable = true,
		 .reason = LIMPET_PERMISSION_SECURITY_MODULE},
		{.name = "Yama 3, capable",
		 .yama = 4,
		 .is_descendant = true,
		 .capable = true,
		 .reason = LIMPET_PERMISSION_YAMA_NOBODY},
		{.name = "not dumpable",
		 .not_dumpable = true,
		 .reason = LIMPET_PERMISSION_DUMPABLE},
		{.name = "more capabilities",
		 .target_capabilities = CAPABILITY_PTRACE,
		 .reason = LIMPET_PERMISSION_CAPABILITIES},
		{.name = "the same capabilities",
		 .target_capabilities = CAPABILITY_PTRACE,
		 .capabilities = CAPABILITY_PTRACE,
		 .reason = LIMPET_PERMISSION_SECURITY_MODULE},
		{.name = "another user namespace",
		 .other_namespace = true,
		 .reason = LIMPET_PERMISSION_USER_NAMESPACE},
		/* root of a container has no say over its neighbour; the machine's root has */
		{.name = "another user namespace, root of a container",
		 .other_namespace = true,
		 .capable = true,
		 .in_container = true,
		 .reason = LIMPET_PERMISSION_USER_NAMESPACE},
		{.name = "another user namespace, root",
		 .other_namespace = true,
		 .capable = true,
		 .reason = LIMPET_PERMISSION_SECURITY_MODULE},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		struct limpet_permission_facts facts = same_user;
		enum limpet_permission_reason reason;

		facts.yama = rows[i].yama - 1;
		facts.is_descendant = rows[i].is_descendant;
		facts.capable = rows[i].capable;
		facts.in_container = rows[i].in_container;
		facts.dumpable = !rows[i].not_dumpable;
		facts.same_user_namespace = !rows[i].other_namespace;
		facts.capabilities = rows[i].capabilities;
		facts.target_capabilities = rows[i].target_capabilities;
		reason = limpet_permission_explain(&facts);
		if (reason != rows[i].reason)
			fail_msg("%s: reason %d", rows[i].name, (int)reason);
	}
	/* any of the six ids */
	for (int i = 0; i < 6; i++) {
		struct limpet_permission_facts facts = same_user;

		(i < 3 ? facts.target_uid : facts.target_gid)[i % 3] = 0;
		assert_int_equal(limpet_permission_explain(&facts), LIMPET_PERMISSION_UID);
		facts.capable = true;
		assert_int_equal(limpet_permission_explain(&facts),
				 LIMPET_PERMISSION_SECURITY_MODULE);
	}
}

/* The kernel's "no" is a file that cannot be opened; the rest is /proc's word. */
static const struct refusal {
	const char *name;
	const char *yama; /* NULL: none */
	const char *capabilities;
	const char *id, *words, *hint;
	/* whose its files are; another than the user that looks only root can make them */
	enum { OURS, OWNED_BY_ROOT, OF_ROOT } whose;
} refusals[] = {
	{"security module", NULL, "", "permission-lsm", "its label is confined_t", "journalctl",
	 OURS},
	{"Yama 0", "0\n", "", "permission-lsm", "its label is confined_t", "journalctl", OURS},
	{"Yama 1", "1\n", "", "permission-yama", "ptrace_scope is 1", "sudo limpet attach", OURS},
	{"Yama 2", "2\n", "", "permission-yama", "ptrace_scope is 2", "sudo limpet attach", OURS},
	{"Yama 3", "3\n", "", "permission-yama", "ptrace_scope is 3", "ask who set it", OURS},
	{"capabilities", NULL, "CapPrm:\t0000000000000400\n", "permission-capabilities",
	 "capabilities that this user lacks", "sudo limpet attach", OURS},
	{"not dumpable", NULL, "", "permission-dumpable", "not dumpable", "sudo limpet attach",
	 OWNED_BY_ROOT},
	{"another user", NULL, "", "permission-uid", "another user", "sudo limpet attach", OF_ROOT},
};
static const struct refusal *refusal;

static void expect_refusal(void)
{
	const struct limpet_finding *finding;

	CHILD_ASSERT(preflight_look(preflight_pid, NULL) == -EPERM);
	CHILD_ASSERT(preflight.verdict == LIMPET_PREFLIGHT_REFUSED);
	finding = preflight_find(refusal->id);
	CHILD_ASSERT(finding != NULL);
	CHILD_ASSERT(strstr(finding->text, refusal->words) != NULL);
	CHILD_ASSERT(strstr(finding->hint, refusal->hint) != NULL);
	/* never this advice */
	CHILD_ASSERT(strstr(finding->hint, "ptrace_scope") == NULL);
	CHILD_ASSERT(strstr(preflight_err.message, finding->text) != NULL);
}

static void test_permission_end_to_end(void **state)
{
	const uid_t user = geteuid() ? geteuid() : NOBODY;
	const gid_t group = geteuid() ? getgid() : NOBODY;

	(void)state;
	proc_fixture_write(in_proc("attr/current"), "%s", "confined_t\n");
	for (size_t i = 0; i < LIMPET_COUNT_OF(refusals); i++) {
		refusal = &refusals[i];
		if (geteuid() != 0 && refusal->whose != OURS) {
			print_message("# the rest needs another user\n");
			return;
		}
		if (refusal->whose == OF_ROOT)
			proc_fixture_process(preflight_pid, "program");
		else
			proc_fixture_write(
				in_proc("status"),
				"Name:\tprogram\nState:\tS "
				"(sleeping)\nTgid:\t%d\nPid:\t%d\nPPid:\t1\n"
				"Uid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\nThreads:\t1\n"
				"TracerPid:\t0\nSeccomp:\t0\n%s",
				preflight_pid, preflight_pid, user, user, user, user, group, group,
				group, group, refusal->capabilities);
		assert_int_equal(chmod(proc_fixture_path(in_proc("mem")), 0), 0);
		if (geteuid() == 0) {
			const uid_t owner = refusal->whose == OURS ? NOBODY : 0;

			assert_int_equal(chown(proc_fixture_path(in_proc("maps")), owner, owner),
					 0);
		}
		if (refusal->yama)
			proc_fixture_write("sys/kernel/yama/ptrace_scope", "%s", refusal->yama);
		as_nobody(refusal->name, expect_refusal);
		if (refusal->yama)
			proc_fixture_remove("sys/kernel/yama/ptrace_scope");
	}
}

/* ------------------------------------------------------------------ other users */

static pid_t observed;

static void expect_real_refusal(void)
{
	const struct limpet_finding *finding;

	CHILD_ASSERT(preflight_look(observed, NULL) == -EPERM);
	finding = preflight_find("permission-uid");
	CHILD_ASSERT(finding != NULL);
	CHILD_ASSERT(strstr(finding->hint, "sudo limpet attach") != NULL);
}

static void test_real_other_user(void **state)
{
	(void)state;
	if (geteuid() != 0)
		limpet_skip("needs root, to be somebody else");
	observed = child_of(NULL);
	as_nobody("another user", expect_real_refusal);
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
	CHILD_ASSERT(preflight_look(observed, NULL) == -EPERM);
	CHILD_ASSERT(preflight_find("permission-dumpable") != NULL);
}

static void test_real_undumpable(void **state)
{
	(void)state;
	if (geteuid() != 0)
		limpet_skip("needs root, to be somebody else");
	observed = child_of(become_undumpable_nobody);
	as_nobody("not dumpable", expect_undumpable);
	/* root may */
	(void)preflight_look(observed, NULL);
	assert_non_null(preflight_find("permission"));
	reap(observed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_rule_of_ptrace),
		WITH_ROOT(test_permission_end_to_end),
		cmocka_unit_test(test_real_other_user),
		cmocka_unit_test(test_real_undumpable),
		cmocka_unit_test(test_every_refusal_was_seen),
	};

	return cmocka_run_group_tests(tests, preflight_group_begin, NULL);
}
