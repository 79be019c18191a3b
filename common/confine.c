#include "common/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/arch_path.h"
#include "common/subprocess.h"

/* clang-format off */
#include LIMPET_ARCH_STRING(common/arch/LIMPET_ARCH/trapped_call.h)
/* clang-format on */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#define NOBODY 65534

static struct limpet_confinement confinement;

/* ------------------------------------------------------------------ the limits of the system */

static int limit(int resource, uint64_t value)
{
	const struct rlimit both = {.rlim_cur = value, .rlim_max = value};
	struct rlimit now;

	/* The current limit may already be lower, and cannot be raised. */
	if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max <= value)
		return 0;
	return setrlimit((__rlimit_resource_t)resource, &both) < 0 ? -errno : 0;
}

static int set_limits(void)
{
	int code = limit(RLIMIT_CPU, confinement.cpu_seconds);

	if (code < 0 || IS_SANITIZED)
		return code;
	code = limit(RLIMIT_AS, confinement.memory_bytes);
	if (code == 0)
		code = limit(RLIMIT_NOFILE, confinement.descriptors);
	if (code == 0)
		code = limit(RLIMIT_FSIZE, 0);
	return code == 0 ? limit(RLIMIT_CORE, 0) : code;
}

/* If memory is short, the kernel should kill this process before any other, in particular before
 * the examined program. */
static void go_first(void)
{
	static const char most[] = "1000";
	LIMPET_CLOSE int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, most, sizeof(most) - 1) < 0)
		return; /* This protects only others; what this process reads is limited anyway. */
}

/* ------------------------------------------------------------------ users and capabilities */

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* An empty root directory that stays empty: the /proc directory of a process that shared our
 * root directory, and has ended. Without permission for that, or without /proc, only the filter
 * keeps names from leading anywhere. */
static void leave_root(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL);

	if (child == 0)
		_exit(chroot("/proc/self/fdinfo") < 0 || chdir("/") < 0);
	if (child > 0)
		(void)limpet_subprocess_wait(child);
}

/* root may be the only possible user: in a user namespace without another one, or without the
 * capabilities to change. The filter allows nothing for which the user matters. */
static void leave_user(void)
{
	if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	    setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return;
}

static int drop_privileges(void)
{
	if (geteuid() == 0) {
		leave_root();
		leave_user();
	}
	return drop_capabilities();
}

/* ------------------------------------------------------------------ the filter */

/* The calls that malloc, libelf, libdw, liblzma and limpet itself need to compute on open files. */
static const int allowed[] = {
	SCMP_SYS(read),         SCMP_SYS(pread64),        SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),      SCMP_SYS(close),          SCMP_SYS(fstat),
	SCMP_SYS(lseek),        SCMP_SYS(munmap),         SCMP_SYS(mremap),
	SCMP_SYS(brk),          SCMP_SYS(madvise),        SCMP_SYS(futex),
	SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(exit),
	SCMP_SYS(exit_group),   SCMP_SYS(clock_gettime),  SCMP_SYS(getrandom),
	SCMP_SYS(sysinfo),      SCMP_SYS(getpid),         SCMP_SYS(gettid),
	SCMP_SYS(poll),         SCMP_SYS(ppoll),          SCMP_SYS(restart_syscall),
};
static const int fcntl_allowed[] = {F_GETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC};
/* Handled by on_trap(). */
static const int trapped[] = {SCMP_SYS(open), SCMP_SYS(openat)};

static int fill(scmp_filter_ctx filter)
{
	static const int without_code[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect)};
	int code = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(allowed) && code == 0; i++)
		code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(trapped) && code == 0; i++)
		code = seccomp_rule_add(filter, SCMP_ACT_TRAP, trapped[i], 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(without_code) && code == 0; i++)
		code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, without_code[i], 1,
					SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* Other commands would make the kernel send signals on behalf of this process, or lock
	 * files. */
	for (size_t i = 0; i < LIMPET_COUNT_OF(fcntl_allowed) && code == 0; i++)
		code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
					SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)fcntl_allowed[i]));
	/* libc's fstat(). With a name, in a root directory that is not empty, it shows only that
	 * the file exists. */
	if (code == 0)
		code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(newfstatat), 1,
					SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH));
	return code;
}

static int install_filter(void)
{
	/* Forbidden calls fail rather than kill: libraries then use another way, or report what
	 * they could not do. */
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int code = filter ? fill(filter) : -ENOMEM;

	if (code == 0)
		code = seccomp_load(filter);
	seccomp_release(filter);
	return code;
}

/* ------------------------------------------------------------------ files by name */

static void on_trap(int number, siginfo_t *info, void *context)
{
	const unsigned index = info->si_syscall == SYS_openat;
	const int saved = errno;
	const char *path;
	int64_t answer = -EACCES;

	(void)number;
	path = (const char *)(uintptr_t)limpet_arch_trapped_argument(context, index);
	if (confinement.open_file && path)
		answer = confinement.open_file(confinement.context, path);
	limpet_arch_trapped_answer(context, answer);
	errno = saved;
}

static int catch_traps(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
	sigset_t trap;

	sigemptyset(&action.sa_mask);
	/* If the signal were blocked the kernel would kill the process. */
	sigemptyset(&trap);
	sigaddset(&trap, SIGSYS);
	if (sigprocmask(SIG_UNBLOCK, &trap, NULL) < 0)
		return -errno;
	return sigaction(SIGSYS, &action, NULL) < 0 ? -errno : 0;
}

static int check_code(struct limpet_err *err, const char *what, int code)
{
	return code < 0 ? limpet_err_set(err, code, "%s: %s", what, strerror(-code)) : 0;
}

int limpet_confine(const struct limpet_confinement *wanted, struct limpet_err *err)
{
	int code;

	confinement = *wanted;
	go_first();
	code = check_code(err, "limits", set_limits());
	if (code < 0 || IS_SANITIZED)
		return code;
	code = check_code(err, "no new privileges",
			  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0);
	if (code == 0)
		code = check_code(err, "dumpable",
				  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0);
	if (code == 0)
		code = check_code(err, "privileges", drop_privileges());
	if (code == 0)
		code = check_code(err, "SIGSYS", catch_traps());
	/* Changing the user clears this setting. */
	if (code == 0)
		code = check_code(err, "parent", prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0);
	return code == 0 ? check_code(err, "seccomp", install_filter()) : code;
}
