/* instead: what limpet asks of its libraries, answered and counted here (LD_PRELOAD). Each part is
 * on where its variable is set; what it counted goes to the file that this names, as limpet ends.
 *
 *	INSTEAD_CLOCK=FILE	a clock that only waiting moves, of the main thread: a pause of
 *				20 ms is 20 ms, however long it took, and a look at the clock is
 *				a microsecond; pauses, and milliseconds of that clock
 *	INSTEAD_RANDOM=SEED	the same random numbers in each run with this seed
 *	INSTEAD_FILE=FILE	a file that limpet has made in a thread of the target's and opens is
 *				this one; `grown`: its own, to which a program has added a page
 *
 * In other programs, which limpet is started by or starts, it does nothing. */
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
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ll
/* What a look at the clock takes: who watches it in a loop gets on, too. */
#define LOOK_NS 1000
/* What a pause really is, at the most. */
#define NAP_NS 500000

static const char *clock_file, *seed, *file;
static _Atomic int64_t first_ns, ahead_ns;
static _Atomic uint64_t pauses;

__attribute__((constructor)) static void begin(void)
{
	if (strcmp(program_invocation_short_name, "limpet") != 0)
		return;
	clock_file = getenv("INSTEAD_CLOCK");
	seed = getenv("INSTEAD_RANDOM");
	file = getenv("INSTEAD_FILE");
}

__attribute__((format(printf, 2, 3))) static void tell(const char *path, const char *format, ...)
{
	va_list args;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	va_start(args, format);
	vdprintf(fd, format, args);
	va_end(args);
	close(fd);
}

__attribute__((destructor)) static void end(void)
{
	if (clock_file)
		tell(clock_file, "{\"pauses\":%lu,\"milliseconds\":%ld}\n", pauses,
		     ahead_ns / 1000000);
}

/* ------------------------------------------------------------------ clock */

static int64_t ns_of(const struct timespec *time)
{
	return time->tv_sec * SECOND_NS + time->tv_nsec;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
	int64_t now_ns, none = 0;

	if (syscall(SYS_clock_gettime, id, ret) < 0)
		return -1;
	if (!clock_file || id != CLOCK_MONOTONIC)
		return 0;
	atomic_compare_exchange_strong(&first_ns, &none, ns_of(ret));
	now_ns = first_ns + atomic_fetch_add(&ahead_ns, LOOK_NS);
	*ret = (struct timespec){now_ns / SECOND_NS, now_ns % SECOND_NS};
	return 0;
}

int nanosleep(const struct timespec *pause, struct timespec *left)
{
	struct timespec nap = *pause;

	/* Other threads pause meanwhile. */
	if (!clock_file || getpid() != gettid())
		return (int)syscall(SYS_nanosleep, pause, left);
	pauses++;
	ahead_ns += ns_of(pause);
	if (ns_of(&nap) > NAP_NS)
		nap = (struct timespec){0, NAP_NS};
	syscall(SYS_nanosleep, &nap, NULL);
	return 0;
}

/* What waits for something waits as long as ever, and only what came to nothing counts. */
int sigtimedwait(const sigset_t *set, siginfo_t *ret, const struct timespec *limit)
{
	long got = syscall(SYS_rt_sigtimedwait, set, ret, limit, _NSIG / 8);

	if (clock_file && limit && got < 0 && errno == EAGAIN)
		ahead_ns += ns_of(limit);
	return (int)got;
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
	struct timespec left = limit ? *limit : (struct timespec){0};
	long got = syscall(SYS_ppoll, fds, count, limit ? &left : NULL, mask, _NSIG / 8);

	if (clock_file && limit && !got)
		ahead_ns += ns_of(limit);
	return (int)got;
}

/* ------------------------------------------------------------------ random numbers */

ssize_t getrandom(void *buffer, size_t bytes, unsigned flags)
{
	uint64_t word;

	if (!seed)
		return syscall(SYS_getrandom, buffer, bytes, flags);
	/* SplitMix64; the same for each who asks. */
	for (size_t at = 0; at < bytes; at += sizeof(word)) {
		word = (strtoull(seed, NULL, 10) + at) * 0x9e3779b97f4a7c15ull;
		word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
		word = (word ^ word >> 27) * 0x94d049bb133111ebull;
		word ^= word >> 31;
		memcpy((char *)buffer + at, &word,
		       bytes - at < sizeof(word) ? bytes - at : sizeof(word));
	}
	return (ssize_t)bytes;
}

/* ------------------------------------------------------------------ files */

int open(const char *path, int flags, ...)
{
	const bool is_made = file && strstr(path, "/task/") && strstr(path, "/fd/");
	va_list args;
	int fd, mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
	va_end(args);
	fd = (int)syscall(SYS_openat, AT_FDCWD, is_made && strcmp(file, "grown") != 0 ? file : path,
			  flags, mode);
	if (is_made && fd >= 0 && !strcmp(file, "grown") && ftruncate(fd, 4096) < 0)
		abort();
	return fd;
}
