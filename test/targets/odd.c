/* clang-format off */
/* odd: a program in a state that attaching must not disturb, or must refuse.
 *
 *	odd [OPTION...]       "ready PID", then "work N" allocates in odd_work, "check" tells whether
 *			      the state is still the one that was asked for, "quit"
 *
 *	--signals-blocked     every signal is blocked
 *	--trap-ignored        SIGTRAP, SIGSEGV and SIGCHLD are ignored
 *	--trap-handled        SIGTRAP and SIGSEGV have handlers, which must never run
 *	--signals-pending     SIGUSR1 and five real-time signals are blocked and wait, and are there
 *			      in their order at the end
 *	--kill CALL           a seccomp filter answers this call with KILL_PROCESS (memfd_create,
 *			      socketpair, mmap, getrandom)
 *	--docker              a filter as containers have: a few calls answered by EPERM
 *	--few-files N         the limit of open files is reached but for so many
 *	--uid N               gives up its user id
 *	--not-dumpable        PR_SET_DUMPABLE 0
 *	--callbacks           allocates through copies of malloc's and free's addresses in its own
 *			      data
 *	--sparse GIB          so does this, with the copies in the midst of so much memory that was
 *			      never touched but for a few pages
 *
 * Also: "copy" takes those copies anew; "close" closes every descriptor that was not there at the
 * start, and answers how many there were. */
/* clang-format on */
#include <fcntl.h>
#include <linux/audit.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "test/call_filter.h"
#include "test/targets/target.h"

enum { FDS = 1024, QUEUED = 5 };

static bool signals_blocked, signals_pending, trap_ignored, trap_handled, callbacks;
static volatile sig_atomic_t trapped;
static bool had_fd[FDS];

/* As libcurl, libxml2 and glib keep them: in writable memory, taken at run time. */
static struct table {
	void *(*allocate)(size_t);
	void (*release)(void *);
} * table;

TARGET_FRAME static void odd_work(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		void *p = callbacks ? table->allocate(200) : malloc(200);

		if (!p)
			target_broken("no memory");
		memset(p, 7, 200);
		if (callbacks)
			table->release(p);
		else
			free(p);
	}
}

/* Of its own, or the compiler loads the two addresses once, at the program's start. */
TARGET_FRAME static void copy_callbacks(void)
{
	if (!table)
		target_broken("no table");
	*table = (struct table){malloc, free};
}

/* As a sanitizer's shadow memory, or what a collector of garbage sets aside. */
static void map_sparse(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		target_broken("mmap: %s", strerror(errno));
	for (unsigned i = 0; i < 4; i++)
		memory[bytes / 4 * i] = 1;
	memory[bytes - 1] = 1;
	table = (struct table *)(void *)(memory + bytes / 8 * 5 + sizeof(*table));
}

static void on_trap(int number)
{
	(void)number;
	trapped++;
}

static void install_filter(const char *killed)
{
	static const struct {
		const char *name;
		unsigned number;
	} known[] = {{"memfd_create", SYS_memfd_create},
		     {"clone", SYS_clone},
		     {"close_range", SYS_close_range},
		     {"socketpair", SYS_socketpair},
		     {"mmap", SYS_mmap},
		     {"getrandom", SYS_getrandom},
		     {"munlock", SYS_munlock}};
	static const unsigned denied[] = {
		SYS_kexec_load,        SYS_swapon, SYS_reboot, SYS_init_module,
		SYS_open_by_handle_at, SYS_add_key};
	struct call_filter filter = {0};
	int error;
	unsigned killed_number = ~0u;

	for (size_t i = 0; killed && i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(killed, known[i].name))
			killed_number = known[i].number;
	if (killed && killed_number == ~0u)
		target_broken("no such call: %s", killed);
	call_filter_load(&filter, offsetof(struct seccomp_data, arch));
	call_filter_skip(&filter, AUDIT_ARCH_X86_64, 1, 0);
	call_filter_end(&filter, SECCOMP_RET_KILL_PROCESS);
	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	if (killed)
		call_filter_judge(&filter, killed_number, SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; !killed && i < sizeof(denied) / sizeof(denied[0]); i++)
		call_filter_judge(&filter, denied[i], SECCOMP_RET_ERRNO | EPERM);
	call_filter_end(&filter, SECCOMP_RET_ALLOW);
	error = call_filter_install(&filter, 0);
	if (error)
		target_broken("seccomp: %s", strerror(-error));
}

static void remember_descriptors(void)
{
	for (int fd = 0; fd < FDS; fd++)
		had_fd[fd] = fcntl(fd, F_GETFD) >= 0;
}

static unsigned close_new(void)
{
	struct rlimit limit;
	unsigned count = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		target_broken("getrlimit: %s", strerror(errno));
	for (rlim_t fd = 3; fd < limit.rlim_cur; fd++) {
		if ((fd < FDS && had_fd[fd]) || fcntl((int)fd, F_GETFD) < 0)
			continue;
		close((int)fd);
		count++;
	}
	return count;
}

static void few_files(int left)
{
	struct rlimit limit = {64, 64};

	if (setrlimit(RLIMIT_NOFILE, &limit))
		target_broken("setrlimit: %s", strerror(errno));
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) < 63 - left)
		;
}

static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void queue_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	for (int i = 0; i < QUEUED; i++)
		if (sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 100 + i}))
			target_broken("sigqueue: %s", strerror(errno));
}

static bool queue_is_kept(void)
{
	const struct timespec none = {0, 0};
	sigset_t set;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	for (int i = 0; i < QUEUED; i++)
		if (sigtimedwait(&set, &info, &none) != SIGRTMIN ||
		    info.si_value.sival_int != 100 + i)
			return false;
	return sigtimedwait(&set, &info, &none) < 0;
}

static bool state_is_kept(void)
{
	static const int traps[] = {SIGTRAP, SIGSEGV};
	sigset_t now;
	struct sigaction action;

	sigprocmask(SIG_SETMASK, NULL, &now);
	if (signals_pending) {
		sigset_t pending;

		sigpending(&pending);
		return sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGRTMIN) &&
		       sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2);
	}
	for (int number = 1; number < 32; number++)
		if (number != SIGKILL && number != SIGSTOP &&
		    sigismember(&now, number) != (int)signals_blocked)
			return false;
	for (int i = 0; i < 2; i++) {
		if (sigaction(traps[i], NULL, &action))
			return false;
		if (trap_ignored && action.sa_handler != SIG_IGN)
			return false;
		if (trap_handled && action.sa_handler != on_trap)
			return false;
	}
	return !trapped;
}

static void obey(void)
{
	char line[256];
	unsigned long n;

	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "work", &n)) {
			odd_work(n);
			target_say("worked");
		} else if (target_word(line, "check", &n)) {
			target_say(state_is_kept() ? "kept" : "lost");
		} else if (target_word(line, "copy", &n)) {
			copy_callbacks();
			target_say("copied");
		} else if (target_word(line, "close", &n)) {
			target_say("closed %u", close_new());
		} else if (target_word(line, "quit", &n)) {
			return;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--signals-blocked")) {
			signals_blocked = true;
			block_signals();
		} else if (!strcmp(argv[i], "--signals-pending")) {
			signals_pending = true;
			queue_signals();
		} else if (!strcmp(argv[i], "--trap-ignored")) {
			trap_ignored = true;
			signal(SIGTRAP, SIG_IGN);
			signal(SIGSEGV, SIG_IGN);
			signal(SIGCHLD, SIG_IGN);
		} else if (!strcmp(argv[i], "--trap-handled")) {
			trap_handled = true;
			signal(SIGTRAP, on_trap);
			signal(SIGSEGV, on_trap);
		} else if (!strcmp(argv[i], "--kill") && argv[i + 1]) {
			install_filter(argv[++i]);
		} else if (!strcmp(argv[i], "--docker")) {
			install_filter(NULL);
		} else if (!strcmp(argv[i], "--few-files") && argv[i + 1]) {
			few_files(atoi(argv[++i]));
		} else if (!strcmp(argv[i], "--uid") && argv[i + 1]) {
			uid_t uid = (uid_t)strtoul(argv[++i], NULL, 10);

			if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
				target_broken("setresuid: %s", strerror(errno));
		} else if (!strcmp(argv[i], "--not-dumpable")) {
			prctl(PR_SET_DUMPABLE, 0);
		} else if (!strcmp(argv[i], "--callbacks")) {
			callbacks = true;
			table = malloc(sizeof(*table));
			copy_callbacks();
		} else if (!strcmp(argv[i], "--sparse") && argv[i + 1]) {
			callbacks = true;
			map_sparse((size_t)strtoull(argv[++i], NULL, 10) << 30);
			copy_callbacks();
		} else {
			target_broken("unknown option %s", argv[i]);
		}
	}
	odd_work(10);
	remember_descriptors();
	target_say("ready %d", getpid());
	obey();
	return state_is_kept() && (!signals_pending || queue_is_kept()) ? 0 : TARGET_EXIT_BROKEN;
}
