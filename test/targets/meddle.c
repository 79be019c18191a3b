/* meddle.so, preloaded into limpet: moments that are a number of calls, not of microseconds; and a
 * clock that is known to have moved while a thread stood still.
 *
 *	MEDDLE_COUNT=FILE        at the end, "PTRACES CALLS" is written: how many calls of ptrace
 *	                         there were, and how many of all that are watched
 *	MEDDLE_AT=N:WORDS:FILE   at the Nth call WORDS are written to FILE as a line, or at the end
 *	                         if there were fewer; "pN": at the Nth of ptrace
 *	MEDDLE_KILL=N[:PID]      at the Nth call ("pN": of ptrace) limpet is killed, or PID, by
 *	                         SIGKILL; nobody is if there were fewer
 *	MEDDLE_STOP=N[:WAY]      at the Nth call ("pN": of ptrace) limpet is sent SIGTSTP; WAY
 *	                         "stop": SIGSTOP; "hold": SIGSTOP, and again at each call after it
 *	MEDDLE_LONGER=NS         each PTRACE_DETACH takes so long by CLOCK_MONOTONIC
 *	MEDDLE_LATE=NS           the first PTRACE_INTERRUPT is made when limpet reads that clock
 *	                         so much later, or after that: a thread that does not stop in time.
 *	                         From one look at the clock to the next no more than 10 ms go by,
 *	                         whoever else had the processor meanwhile
 *
 * What hears the words does what it does while limpet goes on; three times of four limpet lets it
 * have a part of a millisecond first. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_ulong ptraces, calls;
static unsigned long at;
static bool at_ptrace, is_killed, is_kept;
static atomic_bool said = true;
static char words[256], words_file[256];
static const char *count_file;
static uint64_t longer_ns;
static _Atomic uint64_t ahead_ns;
static uint64_t late_ns, due_ns; /* 0: none is late */
static bool is_slow;
static pid_t late_tid;
static pid_t self, killed_pid;
static int kill_signal = SIGKILL;

static int (*real_open)(const char *path, int flags, ...);

/* The real one of a name; found before main, while there is one thread. */
#define REAL(name) (*(void **)&real_##name = dlsym(RTLD_NEXT, #name))
static long (*real_ptrace)(int request, ...);
static ssize_t (*real_process_vm_readv)(pid_t pid, const struct iovec *local, unsigned long locals,
					const struct iovec *remote, unsigned long remotes,
					unsigned long flags);
static ssize_t (*real_process_vm_writev)(pid_t pid, const struct iovec *local, unsigned long locals,
					 const struct iovec *remote, unsigned long remotes,
					 unsigned long flags);
static ssize_t (*real_pwrite)(int fd, const void *bytes, size_t count, off_t offset);
static int (*real_ppoll)(struct pollfd *fds, nfds_t count, const struct timespec *time,
			 const sigset_t *mask);
static int (*real_clock_gettime)(clockid_t clock, struct timespec *time);

static void put(const char *path, int flags, const char *line)
{
	int fd = real_open(path, O_WRONLY | O_CLOEXEC | flags, 0600);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		_exit(99);
	close(fd);
}

static void say(void)
{
	const struct timespec nap = {0, (long)(at % 4) * 300000};
	int error = errno;

	if (!atomic_exchange(&said, true)) {
		put(words_file, O_NONBLOCK, words);
		nanosleep(&nap, NULL);
	}
	errno = error;
}

static void one_call(bool is_ptrace)
{
	unsigned long all = atomic_fetch_add(&calls, 1) + 1;
	unsigned long of_ptrace = atomic_fetch_add(&ptraces, is_ptrace) + is_ptrace;

	if (at_ptrace ? is_ptrace && of_ptrace == at : all == at) {
		if (is_killed)
			kill(killed_pid, kill_signal);
		say();
	} else if (is_kept && (at_ptrace ? of_ptrace : all) > at) {
		kill(self, SIGSTOP);
	}
}

__attribute__((constructor)) static void begin(void)
{
	const char *order = getenv("MEDDLE_AT"), *killed = getenv("MEDDLE_KILL");
	const char *stopped = getenv("MEDDLE_STOP"), *longer = getenv("MEDDLE_LONGER"),
		   *late = getenv("MEDDLE_LATE");

	REAL(open);
	REAL(ptrace);
	REAL(process_vm_readv);
	REAL(process_vm_writev);
	REAL(pwrite);
	REAL(ppoll);
	REAL(clock_gettime);
	self = getpid();
	count_file = getenv("MEDDLE_COUNT");
	longer_ns = longer ? strtoull(longer, NULL, 10) : 0;
	late_ns = late ? strtoull(late, NULL, 10) : 0;
	is_slow = late != NULL;
	if (order) {
		at_ptrace = *order == 'p';
		if (sscanf(order + at_ptrace, "%lu:%254[^:]:%255s", &at, words, words_file) != 3)
			_exit(99);
		strcat(words, "\n");
		said = false;
	}
	if (stopped) {
		killed = stopped;
		is_kept = strstr(stopped, ":hold");
		kill_signal = is_kept || strstr(stopped, ":stop") ? SIGSTOP : SIGTSTP;
	}
	if (killed) {
		at_ptrace = *killed == 'p';
		is_killed = true;
		killed_pid = self;
		if (sscanf(killed + at_ptrace, "%lu:%d", &at, &killed_pid) < 1)
			_exit(99);
	}
	/* Whatever it starts is itself again. */
	unsetenv("LD_PRELOAD");
}

__attribute__((destructor)) static void end(void)
{
	char line[64];

	if (getpid() != self)
		return;
	say();
	snprintf(line, sizeof(line), "%lu %lu\n", ptraces, calls);
	if (count_file)
		put(count_file, O_CREAT | O_TRUNC, line);
}

static uint64_t in_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* Only the thread that asked for it may: others are refused, and it stays due. */
static void interrupt_if_due(const struct timespec *now)
{
	if (due_ns && in_ns(now) >= due_ns && !real_ptrace(PTRACE_INTERRUPT, late_tid, NULL, NULL))
		due_ns = 0;
}

long ptrace(enum __ptrace_request request, ...)
{
	struct timespec now;
	va_list arguments;
	pid_t tid;
	void *address, *data;
	long answer;

	va_start(arguments, request);
	tid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	one_call(true);
	if (request == PTRACE_INTERRUPT && late_ns) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		due_ns = in_ns(&now) + late_ns;
		late_tid = tid;
		late_ns = 0;
		return 0;
	}
	answer = real_ptrace(request, tid, address, data);
	if (request == PTRACE_DETACH)
		ahead_ns += longer_ns;
	return answer;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	one_call(false);
	return real_process_vm_readv(pid, local, locals, remote, remotes, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
			  const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	one_call(false);
	return real_process_vm_writev(pid, local, locals, remote, remotes, flags);
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
	va_end(arguments);
	if (!real_open)
		REAL(open);
	one_call(false);
	return real_open(path, flags, mode);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
	one_call(false);
	return real_pwrite(fd, bytes, count, offset);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time, const sigset_t *mask)
{
	one_call(false);
	return real_ppoll(fds, count, time, mask);
}

/* The clock of one thread; others' looks would only make it go faster. */
static uint64_t slow(uint64_t real)
{
	enum { STEP_NS = 10000000 };
	static _Atomic uint64_t last_real, shown;
	uint64_t step = real - atomic_exchange(&last_real, real);

	if (!shown)
		shown = real;
	else
		shown += step < STEP_NS ? step : STEP_NS;
	return shown;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int answer;
	uint64_t ns;

	if (!real_clock_gettime)
		REAL(clock_gettime);
	answer = real_clock_gettime(clock, time);
	if (answer || clock != CLOCK_MONOTONIC)
		return answer;
	ns = in_ns(time) + ahead_ns;
	if (is_slow)
		ns = slow(ns);
	time->tv_sec = (time_t)(ns / 1000000000u);
	time->tv_nsec = (long)(ns % 1000000000u);
	interrupt_if_due(time);
	return 0;
}
