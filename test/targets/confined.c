/* confined: runs a command as container engines and service managers do.
 *
 *	confined [OPTION...] COMMAND [ARG...]
 *
 *	--docker              under Docker's default seccomp profile
 *	--docker-ptrace       the same with --cap-add SYS_PTRACE
 *	--no-new-code         under systemd's filters for MemoryDenyWriteExecute=
 *	--mdwe                the same by prctl(2), as newer ones do (Linux 6.3) */
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>

#include "test/targets/target.h"
#include "test/unit/docker_profile.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

/* seccomp_memory_deny_write_execute() of systemd, src/shared/seccomp-util.c */
static scmp_filter_ctx no_new_code(void)
{
	const unsigned both = PROT_WRITE | PROT_EXEC;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	if (!filter ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, both, both)) ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)) ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(pkey_mprotect), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)) ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(shmat), 1,
			     SCMP_A2(SCMP_CMP_MASKED_EQ, SHM_EXEC, SHM_EXEC)))
		target_broken("cannot make the filter");
	return filter;
}

static void load(scmp_filter_ctx filter)
{
	int error = seccomp_load(filter);

	if (error)
		target_broken("seccomp: %s", strerror(-error));
	seccomp_release(filter);
}

int main(int argc, char **argv)
{
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--docker"))
			load(docker_profile_make(false));
		else if (!strcmp(argv[at], "--docker-ptrace"))
			load(docker_profile_make(true));
		else if (!strcmp(argv[at], "--no-new-code"))
			load(no_new_code());
		else if (strcmp(argv[at], "--mdwe"))
			target_broken("unknown option %s", argv[at]);
		else if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0))
			target_broken("PR_SET_MDWE: %s", strerror(errno));
	}
	if (at == argc)
		target_broken("no command");
	execvp(argv[at], argv + at);
	target_broken("%s: %s", argv[at], strerror(errno));
}
