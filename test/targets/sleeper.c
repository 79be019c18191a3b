/* clang-format off */
/* sleeper: a thread that is blocked in the system call that it is told, which has to end as if
 * nobody had ever stopped it.
 *
 *	sleeper --list                            the kinds of call
 *	sleeper [--bystander|--company] [--ms N] KIND
 *		"ready PID" names the process that sleeps; this one wakes it. Or "ready none
 *		REASON": not here.
 *
 * The sleeping process has one thread; with --bystander it is the second one, and the first waits
 * for the end of a pipe; with --company it is the first one, and the second waits. Calls that time
 * ends take N ms.
 *
 * Commands: "state" answers "asleep N" or "ended N", N being the number of calls that ended with
 * EINTR and were made again; "call" answers "call NUMBER LIMIT" or "call ended", NUMBER being the
 * system call in which it sleeps (restart_syscall: the kernel goes on with one that was
 * interrupted) and LIMIT "less" when the kernel wrote back that time has gone by, "whole" before
 * that and "-" where it never does; "release" lets the call end and answers "good N US" or "bad
 * ...", US being how many microseconds longer than asked a call took that time ended, less the time
 * in which it waited for a processor; "quit". */
/* clang-format on */
#include "test/targets/sleeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "test/targets/target.h"

/* How long a sleeper has to fall asleep, or to wake up. */
#define PATIENCE_S 600

struct sleeper_shared *sleeper_shared;
pid_t sleeper_pid;
unsigned sleeper_ms = 1500;
int sleeper_ends[2], sleeper_sockets[2];
char sleeper_data[1 << 16];

static const struct sleeper_kind *kind;
static int never[2]; /* a pipe that nobody writes to */

void sleeper_must(bool good, const char *what)
{
	if (!good)
		target_broken("%s: %s", what, strerror(errno));
}

void sleeper_impossible(const char *why)
{
	char line[8];

	target_say("ready none %s: %s", why, strerror(errno));
	while (target_listen(line, sizeof(line)))
		;
	exit(0);
}

void sleeper_make_pipe(void)
{
	sleeper_must(!pipe2(sleeper_ends, O_CLOEXEC), "pipe2");
}
void sleeper_make_sockets(void)
{
	sleeper_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sleeper_sockets),
		     "socketpair");
}
void sleeper_send_hello(void)
{
	int fd = sleeper_sockets[1] > 0 ? sleeper_sockets[1] : sleeper_ends[1];

	sleeper_must(write(fd, "hello", 5) == 5, "write");
}

static void on_signal(int number)
{
	(void)number;
}
static sigset_t the_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return set;
}
void sleeper_signal(void)
{
	sleeper_must(!syscall(SYS_tgkill, sleeper_pid, sleeper_shared->tid, SIGUSR1), "tgkill");
}
void sleeper_catch_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sleeper_must(!sigaction(SIGUSR1, &action, NULL), "sigaction");
}
void sleeper_block_signal(void)
{
	sigset_t set = the_signal();

	sleeper_must(!sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

static struct timespec from_ns(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}
struct timespec sleeper_time(void)
{
	return from_ns(sleeper_ms * 1000000ull);
}
static uint64_t now_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
struct timespec sleeper_due(clockid_t clock)
{
	sleeper_shared->clock = clock;
	sleeper_shared->due_ns = now_of(clock) + sleeper_ms * 1000000ull;
	return from_ns(sleeper_shared->due_ns);
}

/* proc(5), schedstat: the time that this thread was ready to run, and did not. */
static uint64_t delay_ns(void)
{
	char text[128] = "";
	unsigned long long ran, waited = 0;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
	    sscanf(text, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (fd >= 0)
		close(fd);
	return waited;
}

static void *sleep_now(void *context)
{
	uint64_t delayed_ns, started_ns, started_ticks_ns;
	int result;

	(void)context;
	sleeper_shared->tid = (int)syscall(SYS_gettid);
	if (kind->prepare_sleeper)
		kind->prepare_sleeper();
	delayed_ns = delay_ns();
	started_ns = target_now_ns();
	started_ticks_ns = now_of(CLOCK_MONOTONIC_COARSE);
	for (;;) {
		errno = 0;
		result = kind->sleep();
		if (result >= 0 || errno != EINTR)
			break;
		sleeper_shared->interruptions++;
	}
	sleeper_shared->error = errno;
	sleeper_shared->slept_ns = target_now_ns() - started_ns;
	sleeper_shared->slept_ticks_ns = now_of(CLOCK_MONOTONIC_COARSE) - started_ticks_ns;
	sleeper_shared->ended_ns = now_of(sleeper_shared->clock);
	sleeper_shared->delay_ns = delay_ns() - delayed_ns;
	sleeper_shared->result = result;
	/* Alive until told otherwise: what was done to it shows in its exit status. */
	for (;;)
		pause();
	return NULL;
}

static void *keep_company(void *context)
{
	char c;

	(void)context;
	_exit(read(never[0], &c, 1) == 0 ? 0 : TARGET_EXIT_BROKEN);
}

static void sleeper_main(bool bystander, bool company)
{
	pthread_t thread;
	sigset_t set = the_signal();
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(never[1]);
	if (company && pthread_create(&thread, NULL, keep_company, NULL))
		target_broken("pthread_create");
	if (!bystander)
		sleep_now(NULL);
	if (pthread_create(&thread, NULL, sleep_now, NULL))
		target_broken("pthread_create");
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Told that it ends, and nothing else: a stop would have to answer EINTR. */
	_exit(read(never[0], &c, 1) == 0 ? 0 : TARGET_EXIT_BROKEN);
}

static bool has_ended(void)
{
	return sleeper_shared->result != SLEEPER_NONE;
}

/* The system call that it is in; < 0: it runs. */
static long call_now(void)
{
	char path[64], text[32] = "";
	long number = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", sleeper_pid, sleeper_shared->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] >= '0' && text[0] <= '9')
		number = strtol(text, NULL, 10);
	if (fd >= 0)
		close(fd);
	return number;
}

/* In its call, or past it already. After a stop the number may be the one of restart_syscall. */
static bool is_asleep(void)
{
	long number = call_now();

	return has_ended() || number == kind->number || number == SYS_restart_syscall;
}

/* Until `condition` holds; false: it never did. */
static bool wait_for(bool (*condition)(void))
{
	uint64_t deadline_ns = target_now_ns() + PATIENCE_S * 1000000000ull;
	const struct timespec nap = {0, 1000000};

	while (!condition()) {
		if (target_now_ns() > deadline_ns)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

/* How much too early time ended the call, by the clock that it goes by: the one of an absolute
 * time, or ticks. These a hypervisor may keep from the kernel, which then makes up for several at
 * once: the coarse clock leaps with them. */
static int64_t early_ns(void)
{
	const int64_t asked_ns = sleeper_ms * 1000000ll;
	struct timespec tick;

	if (sleeper_shared->due_ns)
		return (int64_t)(sleeper_shared->due_ns - sleeper_shared->ended_ns);
	if (kind->number != SYS_recvfrom && kind->number != SYS_semtimedop)
		return asked_ns - (int64_t)sleeper_shared->slept_ns;
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	return asked_ns - (int64_t)sleeper_shared->slept_ticks_ns - 2 * tick.tv_nsec;
}

static void say_call(void)
{
	const struct timespec *limit = &sleeper_shared->limit;
	int64_t left_ns = limit->tv_sec * 1000000000ll +
			  limit->tv_nsec * (kind->number == SYS_select ? 1000 : 1);

	if (!wait_for(is_asleep))
		target_broken("it runs, and does not fall asleep again");
	long number = call_now();

	if (has_ended() || number < 0)
		target_say("call ended");
	else
		target_say("call %ld %s", number,
			   !left_ns                           ? "-"
			   : left_ns < sleeper_ms * 1000000ll ? "less"
							      : "whole");
}

static void answer(void)
{
	int64_t over_us = 0;

	if (kind->release) {
		if (has_ended()) {
			target_say("bad: ended before its time");
			return;
		}
		kind->release();
	}
	if (!wait_for(has_ended)) {
		target_say("bad: the call never ended");
		return;
	}
	if (!kind->release) {
		over_us = (int64_t)(sleeper_shared->slept_ns / 1000u) - sleeper_ms * 1000ll;
		if (early_ns() > 0) {
			target_say("bad: %ld ns too short", early_ns());
			return;
		}
		over_us -= (int64_t)(sleeper_shared->delay_ns / 1000u);
		if (over_us < 0)
			over_us = 0;
	}
	if (sleeper_shared->result != 5)
		target_say("bad: answered %d, %s", sleeper_shared->result,
			   strerror(sleeper_shared->error));
	else
		target_say("good %d %ld", sleeper_shared->interruptions, over_us);
}

static void obey(void)
{
	char line[64];
	unsigned long n;

	while (target_listen(line, sizeof(line)))
		if (target_word(line, "release", &n))
			answer();
		else if (target_word(line, "call", &n))
			say_call();
		else if (target_word(line, "state", &n))
			target_say("%s %d", has_ended() ? "ended" : "asleep",
				   sleeper_shared->interruptions);
		else if (target_word(line, "quit", &n))
			return;
}

static const struct sleeper_kind *const lists[] = {sleeper_io_kinds, sleeper_time_kinds,
						   sleeper_ipc_kinds};

static const struct sleeper_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct sleeper_kind *one = lists[i]; one->name; one++) {
			if (!name)
				target_say("%s", one->name);
			else if (!strcmp(one->name, name))
				return one;
		}
	return NULL;
}

static void clean_up(void)
{
	kill(sleeper_pid, SIGKILL);
	sleeper_io_clean_up();
	sleeper_ipc_clean_up();
}

/* A test that fails ends its targets so; what outlives a process must not stay behind. */
static void end_early(int number)
{
	clean_up();
	_exit(128 + number);
}

int main(int argc, char **argv)
{
	bool bystander = false, company = false;
	int status;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			return find_kind(NULL) != NULL;
		if (!strcmp(argv[i], "--bystander"))
			bystander = true;
		else if (!strcmp(argv[i], "--company"))
			company = true;
		else if (!strcmp(argv[i], "--ms") && i + 1 < argc)
			sleeper_ms = (unsigned)strtoul(argv[++i], NULL, 10);
		else
			kind = find_kind(argv[i]);
	}
	if (!kind)
		target_broken("usage: sleeper --list | [--bystander|--company] [--ms N] KIND");
	sleeper_shared = mmap(NULL, sizeof(*sleeper_shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sleeper_must(sleeper_shared != MAP_FAILED, "mmap");
	sleeper_shared->result = SLEEPER_NONE;
	sleeper_must(!pipe2(never, O_CLOEXEC), "pipe2");
	if (kind->prepare)
		kind->prepare();
	sleeper_pid = fork();
	sleeper_must(sleeper_pid >= 0, "fork");
	if (sleeper_pid == 0)
		sleeper_main(bystander, company);
	signal(SIGTERM, end_early);
	if (!wait_for(is_asleep))
		target_broken("it does not fall asleep");
	target_say("ready %d %s", sleeper_pid, kind->release ? "released" : "timed");
	obey();
	/* Still the same process, ended by nothing but this. */
	bool alive = waitpid(sleeper_pid, &status, WNOHANG) == 0;
	clean_up();
	waitpid(sleeper_pid, &status, 0);
	if (!alive)
		target_broken("the sleeper ended by itself");
	return 0;
}
