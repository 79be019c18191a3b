/* How long a target stands still for limpet, beside a tracer that does nothing.
 *
 *	stoptimes [-n ROUNDS] [-s] [-l] [-j] [-c] PROGRAM [ARGUMENT...]
 *	stoptimes [-n ROUNDS] [-s] [-l] [-j] [-c] -p PID
 *
 * PROGRAM is a target such as build/targets/gaps, PID any process. Each round enters, leaves, and
 * then stops and resumes one thread by SEIZE, INTERRUPT, DETACH and nothing else (idle). Printed
 * are p50, p99 and the longest, in microseconds, of
 *
 *	stated	what limpet says itself (attach_stop_microseconds, detach_stop_microseconds)
 *	away	from the first INTERRUPT of a thread to the return of its DETACH, seen from
 *		below limpet: the calls of ptrace() themselves are watched
 *	net	the same without what the thread and limpet waited for a processor
 *	gap	the longest time for which a spinning thread could not read its clock
 *	gap net	the same without what this thread waited for a processor
 *	answer	the longest time in which a thread in read() answered; net: likewise
 *
 * and how often any one thread was stopped and resumed, how many threads were, and what limpet did
 * while a thread was away. `below`: rounds in which the target saw more (gap net) than limpet
 * stated, a tenth of it and NOISE_NS besides. `stolen`: the share of all processors' time that a
 * hypervisor took meanwhile: what it took from the target is in gap net, and never all in stated.
 *
 * -s prints each call of one round with its time: where a stop goes. -j prints JSON. -l ends with
 * status 4 when the limits are not kept: net at most 1 ms (p99) and 5 ms (longest) at attach, 5 ms
 * (p99) at detach, and three trips. Status 1: a round failed.
 *
 * -c gives limpet a clock that moves only when one of the watched calls is made, by another amount
 * each time: then `stated` has to be, to the nanosecond, the time from one INTERRUPT of a thread to
 * one of its DETACHes, and that of no thread may be longer. `wrong` counts the rounds in which it
 * is not. No figure of such a run is a time; how fast the machine is does not matter.
 *
 * Figures mean most on a machine with nothing else to do: `make bench-stops` prints them for one
 * thread that never rests, four that allocate and serve, and five hundred. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

#define MAX_TIDS 4096u
#define MAX_STEPS 4096u
#define MAX_TRIPS 65536u
#define NOISE_NS 200000u
#define MOVING_WAITS 200u /* of an average 53 us */

/* ------------------------------------------------------------------ watching from below
 *
 * The linker puts these between limpet and the C library (--wrap). */

struct thread {
	pid_t tid;
	int delay_file;
	bool away;
	uint64_t since_ns, waited_ns; /* waited: by it and by us, at the beginning */
	unsigned trips, resumes;
};
struct phase {
	uint64_t away_ns, net_ns;       /* the longest, each by itself */
	unsigned stops, trips, resumes; /* the last two of the thread with the most */
	unsigned calls;                 /* made while some thread was away */
	uint64_t read_bytes, written_bytes;
};

/* Of one thread, from INTERRUPT to DETACH; kept with -c only. */
struct trip {
	pid_t tid;
	uint64_t from_ns, to_ns; /* to: 0 while it is away */
};

static struct thread threads[MAX_TIDS];
static unsigned thread_count, away_count;
static struct trip trips[MAX_TRIPS];
static unsigned trip_count;
static struct phase phase;
static pid_t target;
static int own_delay_file;

struct step {
	const char *name;
	uint64_t from_ns, to_ns;
	uint64_t bytes;
};
static struct step steps[MAX_STEPS];
static unsigned step_count;
static bool steps_wanted;

static bool own_clock; /* -c */
static uint64_t own_clock_ns = 1000000000000u;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!own_clock || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, time);
	time->tv_sec = (time_t)(own_clock_ns / 1000000000u);
	time->tv_nsec = (long)(own_clock_ns % 1000000000u);
	return 0;
}

/* Amounts that no few of which add up to the same as some others. */
static void clock_moves(void)
{
	static uint64_t moves;

	own_clock_ns += own_clock ? 1009 + moves++ * 7919 % 104729 : 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ssize_t __real_pread(int fd, void *buffer, size_t bytes, off_t at);
ssize_t __real_read(int fd, void *buffer, size_t bytes);
int __real_open(const char *path, int flags, ...);

static uint64_t delay_of(int file)
{
	char text[96];
	ssize_t got = file >= 0 ? __real_pread(file, text, sizeof(text) - 1, 0) : -1;
	char *second;

	text[got > 0 ? got : 0] = '\0';
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) : 0;
}

static void phase_begin(void)
{
	phase = (struct phase){.away_ns = 0};
	for (unsigned i = 0; i < thread_count; i++)
		close(threads[i].delay_file);
	thread_count = step_count = trip_count = 0;
}

static struct thread *thread_of(pid_t tid)
{
	char path[64];

	for (unsigned i = 0; i < thread_count; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	if (thread_count == MAX_TIDS)
		abort();
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", target, tid);
	threads[thread_count] =
		(struct thread){.tid = tid, .delay_file = __real_open(path, O_RDONLY | O_CLOEXEC)};
	return &threads[thread_count++];
}

static void leaves(struct thread *thread)
{
	if (thread->away)
		return;
	thread->away = true;
	away_count++;
	phase.stops++;
	if (++thread->trips > phase.trips)
		phase.trips = thread->trips;
	thread->waited_ns = delay_of(thread->delay_file) + delay_of(own_delay_file);
	thread->since_ns = now_ns();
	if (own_clock && trip_count < MAX_TRIPS)
		trips[trip_count++] = (struct trip){thread->tid, thread->since_ns, 0};
}

static void trip_ends(pid_t tid)
{
	for (unsigned i = trip_count; i-- > 0;)
		if (trips[i].tid == tid) {
			trips[i].to_ns = now_ns();
			return;
		}
}

/* A thread that had no turn between two trips counts as away all the while, and that is known to
 * limpet alone: any of a thread's ends may belong to any of its earlier beginnings. */
static bool is_true(uint64_t stated_ns)
{
	bool found = stated_ns == 0 && trip_count == 0;

	if (trip_count == MAX_TRIPS)
		return false;
	for (unsigned i = 0; i < trip_count; i++) {
		if (!trips[i].to_ns || trips[i].to_ns - trips[i].from_ns > stated_ns)
			return false;
		for (unsigned j = i; j < trip_count && !found; j++)
			found = trips[j].tid == trips[i].tid &&
				trips[j].to_ns - trips[i].from_ns == stated_ns;
	}
	return found;
}

static void is_back(struct thread *thread)
{
	uint64_t away_ns = now_ns() - thread->since_ns, waited_ns, net_ns;

	if (!thread->away)
		return;
	thread->away = false;
	away_count--;
	if (own_clock)
		trip_ends(thread->tid);
	waited_ns = delay_of(thread->delay_file) + delay_of(own_delay_file) - thread->waited_ns;
	net_ns = away_ns > waited_ns ? away_ns - waited_ns : 0;
	if (away_ns > phase.away_ns)
		phase.away_ns = away_ns;
	if (net_ns > phase.net_ns)
		phase.net_ns = net_ns;
}

static void resumed(struct thread *thread)
{
	if (++thread->resumes > phase.resumes)
		phase.resumes = thread->resumes;
}

static void note_step(const char *name, uint64_t from_ns, uint64_t bytes)
{
	if (!away_count)
		return;
	phase.calls++;
	if (steps_wanted && step_count < MAX_STEPS)
		steps[step_count++] = (struct step){name, from_ns, now_ns(), bytes};
}

/* Looking whether it is time yet is no work, and one step however often it is done. */
static void note_wait(const char *name, uint64_t from_ns, uint64_t bytes)
{
	struct step *last = step_count ? &steps[step_count - 1] : NULL;

	if (!away_count || !steps_wanted)
		return;
	if (last && !strcmp(last->name, name))
		last->to_ns = now_ns();
	else if (step_count < MAX_STEPS)
		steps[step_count++] = (struct step){name, from_ns, now_ns(), bytes};
}

static const char *request_name(int request)
{
	switch (request) {
	case PTRACE_SEIZE:
		return "seize";
	case PTRACE_INTERRUPT:
		return "interrupt";
	case PTRACE_DETACH:
		return "detach";
	case PTRACE_CONT:
		return "continue";
	case PTRACE_SYSCALL:
		return "syscall";
	case PTRACE_GETREGSET:
		return "get registers";
	case PTRACE_SETREGSET:
		return "set registers";
	default:
		return "ptrace";
	}
}

long __real_ptrace(int request, ...);
long __wrap_ptrace(int request, ...);
long __wrap_ptrace(int request, ...)
{
	struct thread *thread;
	uint64_t from_ns;
	void *address, *data;
	pid_t tid;
	long answer;
	int error;
	va_list arguments;

	va_start(arguments, request);
	tid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	thread = thread_of(tid);
	if (request == PTRACE_INTERRUPT)
		leaves(thread);
	from_ns = now_ns();
	answer = __real_ptrace(request, tid, address, data);
	error = errno;
	clock_moves();
	note_step(request_name(request), from_ns, 0);
	if (request == PTRACE_DETACH || request == PTRACE_CONT || request == PTRACE_SYSCALL)
		resumed(thread);
	if (request == PTRACE_DETACH)
		is_back(thread);
	errno = error;
	return answer;
}

#define WRAP(note, result, name, parameters, arguments, bytes)             \
	result __real_##name parameters;                                   \
	result __wrap_##name parameters;                                   \
	result __wrap_##name parameters                                    \
	{                                                                  \
		uint64_t from_ns = now_ns();                               \
		result answer = __real_##name arguments;                   \
		int error = errno;                                         \
                                                                           \
		clock_##note();                                            \
		note(#name, from_ns, (bytes) > 0 ? (uint64_t)(bytes) : 0); \
		errno = error;                                             \
		return answer;                                             \
	}
/* How often limpet looks in vain is no matter of its own: no patience ends for want of a processor.
 * But it does get to the calls in which it sleeps. */
static void clock_note_wait(void)
{
	static unsigned in_a_row;

	if (away_count && in_a_row < MOVING_WAITS) {
		in_a_row++;
		clock_moves();
	} else if (!away_count) {
		in_a_row = 0;
	}
}
static void clock_note_step(void)
{
	clock_moves();
}

#define WATCHED(...) WRAP(note_step, __VA_ARGS__)
#define AWAITED(...) WRAP(note_wait, __VA_ARGS__)

static ssize_t count_read(ssize_t bytes)
{
	if (bytes > 0 && away_count)
		phase.read_bytes += (uint64_t)bytes;
	return bytes;
}

static ssize_t count_written(ssize_t bytes)
{
	if (bytes > 0 && away_count)
		phase.written_bytes += (uint64_t)bytes;
	return bytes;
}

/* One that does not stop in the time that limpet gives it is let go later: it stands still from its
 * stop on at most, which comes behind the last look in vain. */
static ssize_t not_yet(pid_t tid, pid_t answer)
{
	const uint64_t patience_ns = 90000000u;
	struct thread *thread = answer == 0 ? thread_of(tid) : NULL;

	if (thread && thread->away && now_ns() - thread->since_ns > patience_ns)
		thread->since_ns = now_ns();
	return 0;
}

WATCHED(ssize_t, process_vm_readv,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
	 unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags), count_read(answer))
WATCHED(ssize_t, process_vm_writev,
	(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *remote,
	 unsigned long remotes, unsigned long flags),
	(pid, local, locals, remote, remotes, flags), count_written(answer))
WATCHED(ssize_t, read, (int fd, void *buffer, size_t bytes), (fd, buffer, bytes), answer)
WATCHED(ssize_t, pread, (int fd, void *buffer, size_t bytes, off_t at), (fd, buffer, bytes, at),
	count_read(answer))
WATCHED(ssize_t, pwrite, (int fd, const void *buffer, size_t bytes, off_t at),
	(fd, buffer, bytes, at), count_written(answer))
WATCHED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
	answer)
WATCHED(ssize_t, recv, (int fd, void *buffer, size_t bytes, int flags), (fd, buffer, bytes, flags),
	answer)
AWAITED(pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags),
	not_yet(pid, answer))
AWAITED(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *time),
	(set, info, time), 0)
AWAITED(int, ppoll,
	(struct pollfd * fds, nfds_t count, const struct timespec *time, const sigset_t *mask),
	(fds, count, time, mask), 0)
AWAITED(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest), 0)

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	uint64_t from_ns = now_ns();
	va_list arguments;
	int answer, error;

	va_start(arguments, flags);
	answer = __real_open(path, flags, flags & O_CREAT ? va_arg(arguments, int) : 0);
	va_end(arguments);
	error = errno;
	clock_moves();
	note_step("open", from_ns, 0);
	errno = error;
	return answer;
}

/* ------------------------------------------------------------------ the target */

static int to_target = -1, from_target = -1;

struct gaps {
	uint64_t gap_ns, gap_net_ns, answer_ns, answer_net_ns;
};

static void broken(const char *what)
{
	fprintf(stderr, "stoptimes: %s\n", what);
	if (to_target >= 0)
		kill(target, SIGKILL);
	exit(1);
}

static void hear(char *line, size_t bytes)
{
	size_t n = 0;

	for (;;) {
		struct pollfd input = {from_target, POLLIN, 0};

		if (poll(&input, 1, 60000) <= 0 || __real_read(from_target, line + n, 1) != 1)
			broken("the target does not answer");
		if (line[n] == '\n')
			break;
		if (n + 2 < bytes)
			n++;
	}
	line[n] = '\0';
}

static void start_target(char **arguments)
{
	int in[2], out[2];
	char line[128];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		broken("pipe");
	target = fork();
	if (target == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execvp(arguments[0], arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	to_target = in[1];
	from_target = out[0];
	hear(line, sizeof(line));
	if (strncmp(line, "ready ", 6) != 0)
		broken("the target is not ready");
}

/* What the target saw since the last call. */
static struct gaps end_window(void)
{
	struct gaps gaps = {0, 0, 0, 0};
	char line[128];

	if (to_target < 0)
		return gaps;
	if (write(to_target, "window\n", 7) != 7)
		broken("the target is gone");
	hear(line, sizeof(line));
	if (sscanf(line, "gaps %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &gaps.gap_ns,
		   &gaps.gap_net_ns, &gaps.answer_ns, &gaps.answer_net_ns) != 4)
		broken("the target does not say what it saw");
	return gaps;
}

static int end_target(void)
{
	int status;

	if (to_target < 0)
		return 0;
	if (write(to_target, "quit\n", 5) != 5 || waitpid(target, &status, 0) != target)
		broken("the target is gone");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* ------------------------------------------------------------------ figures */

enum { STATED, AWAY, NET, GAP, GAP_NET, ANSWER, ANSWER_NET, FIGURES };
static const char *const figure_names[FIGURES] = {"stated",  "away",   "net",       "gap",
						  "gap net", "answer", "answer net"};
static const char *const figure_keys[FIGURES] = {"stated",  "away",   "net",       "gap",
						 "gap_net", "answer", "answer_net"};

enum { ATTACH, DETACH, IDLE, KINDS };
static const char *const kind_names[KINDS] = {"attach", "detach", "idle"};

struct kind {
	uint64_t *figures[FIGURES];
	unsigned trips, stops, resumes, calls, below, wrong;
	uint64_t read_bytes, written_bytes;
};
static struct kind kinds[KINDS];
static unsigned rounds_done;

/* Of all processors since the machine started, in its ticks: what passed, what was stolen. */
struct machine_time {
	uint64_t all_ticks, stolen_ticks;
};
static struct machine_time machine_before;

static struct machine_time machine_time(void)
{
	enum { STOLEN = 7, FIELDS };
	struct machine_time time = {0, 0};
	uint64_t field;
	FILE *file = fopen("/proc/stat", "re");

	if (file && fscanf(file, "cpu") == 0)
		for (unsigned i = 0; i < FIELDS && fscanf(file, "%" SCNu64, &field) == 1; i++) {
			time.all_ticks += field;
			time.stolen_ticks += i == STOLEN ? field : 0;
		}
	if (file)
		fclose(file);
	return time;
}

static double stolen_percent(void)
{
	struct machine_time now = machine_time();
	uint64_t all_ticks = now.all_ticks - machine_before.all_ticks;

	return all_ticks ? 100.0 * (double)(now.stolen_ticks - machine_before.stolen_ticks) /
				   (double)all_ticks
			 : 0;
}

static void most(unsigned *most_yet, unsigned value)
{
	if (value > *most_yet)
		*most_yet = value;
}

static void keep(unsigned which, uint64_t stated_ns, const struct gaps *gaps)
{
	struct kind *kind = &kinds[which];
	const uint64_t values[FIGURES] = {
		[STATED] = stated_ns,
		[AWAY] = phase.away_ns,
		[NET] = phase.net_ns,
		[GAP] = gaps->gap_ns,
		[GAP_NET] = gaps->gap_net_ns,
		[ANSWER] = gaps->answer_ns,
		[ANSWER_NET] = gaps->answer_net_ns,
	};

	for (unsigned i = 0; i < FIGURES; i++)
		kind->figures[i][rounds_done] = values[i];
	most(&kind->trips, phase.trips);
	most(&kind->stops, phase.stops);
	most(&kind->resumes, phase.resumes);
	most(&kind->calls, phase.calls);
	if (phase.read_bytes > kind->read_bytes)
		kind->read_bytes = phase.read_bytes;
	if (phase.written_bytes > kind->written_bytes)
		kind->written_bytes = phase.written_bytes;
	kind->below += gaps->gap_net_ns > stated_ns + stated_ns / 10 + NOISE_NS;
	if (!own_clock || is_true(stated_ns))
		return;
	kind->wrong++;
	fprintf(stderr, "stoptimes: round %u, %s: %" PRIu64 " ns are stated\n", rounds_done,
		kind_names[which], stated_ns);
	for (unsigned i = 0; i < trip_count; i++)
		fprintf(stderr, "  %d: from %" PRIu64 " on for %" PRIu64 " ns\n", trips[i].tid,
			trips[i].from_ns, trips[i].to_ns - trips[i].from_ns);
}

static void print_steps(const char *what)
{
	uint64_t origin = step_count ? steps[0].from_ns : 0;

	if (!steps_wanted)
		return;
	printf("%s:\n", what);
	for (unsigned i = 0; i < step_count; i++)
		printf("%8.1f %+7.1f %s %" PRIu64 "\n", (double)(steps[i].from_ns - origin) / 1e3,
		       (double)(steps[i].to_ns - steps[i].from_ns) / 1e3, steps[i].name,
		       steps[i].bytes);
}

/* ------------------------------------------------------------------ rounds */

static const struct limpet_capture_config options = {.agent_memory_bytes = 64u << 20,
						     .attach_timeout_ns = 600000000000u};

static void check(int error, const char *what, const struct limpet_err *err)
{
	char words[1024];

	if (!error)
		return;
	snprintf(words, sizeof(words), "round %u: %s: %s (%d)", rounds_done, what, err->message,
		 error);
	broken(words);
}

static struct limpet_tracer *tracer;

static void enter_and_leave(void)
{
	struct limpet_target process;
	struct limpet_session *session;
	struct limpet_err err = {0};
	struct gaps gaps;

	check(limpet_target_open(target, &process, &err), "open", &err);
	check(limpet_session_prepare(tracer, &process, &options, NULL, &session, &err), "prepare",
	      &err);
	end_window();
	phase_begin();
	check(limpet_session_attach(session, NULL, &err), "attach", &err);
	gaps = end_window();
	keep(ATTACH, limpet_session_stats(session)->attach_stop_ns, &gaps);
	print_steps(kind_names[ATTACH]);

	end_window();
	phase_begin();
	check(limpet_session_detach(session, &err), "detach", &err);
	gaps = end_window();
	keep(DETACH, limpet_session_stats(session)->detach_stop_ns, &gaps);
	print_steps(kind_names[DETACH]);
	limpet_session_free(session);
	limpet_target_close(&process);
}

/* All that a tracer costs which wants nothing. */
static void only_stop(void)
{
	struct limpet_err err = {0};
	struct gaps gaps;
	uint64_t since_ns;
	int status;

	end_window();
	phase_begin();
	check(ptrace(PTRACE_SEIZE, target, NULL, NULL) < 0 ? -errno : 0, "seize", &err);
	since_ns = now_ns();
	check(ptrace(PTRACE_INTERRUPT, target, NULL, NULL) < 0 ? -errno : 0, "interrupt", &err);
	check(waitpid(target, &status, __WALL) < 0 ? -errno : 0, "wait", &err);
	if (!WIFSTOPPED(status) || status >> 16 != PTRACE_EVENT_STOP) {
		fprintf(stderr, "stoptimes: the target: status %#x\n", (unsigned)status);
		broken("the target did not stop as it was asked to");
	}
	check(ptrace(PTRACE_DETACH, target, NULL, NULL) < 0 ? -errno : 0, "detach", &err);
	since_ns = now_ns() - since_ns;
	gaps = end_window();
	keep(IDLE, since_ns, &gaps);
}

/* ------------------------------------------------------------------ printing */

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static uint64_t percentile_us(unsigned kind, unsigned figure, unsigned percent)
{
	uint64_t at = (uint64_t)(rounds_done - 1) * percent / 100;

	return kinds[kind].figures[figure][at] / 1000;
}

static void print_table(void)
{
	printf("%u rounds, microseconds%*s%9s %9s %9s\n", rounds_done, 1, "", "p50", "p99", "max");
	for (unsigned k = 0; k < KINDS; k++) {
		const struct kind *kind = &kinds[k];

		for (unsigned i = 0; i < (to_target < 0 ? GAP : FIGURES); i++)
			printf("%-7s %-17s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
			       i ? "" : kind_names[k], figure_names[i], percentile_us(k, i, 50),
			       percentile_us(k, i, 99), percentile_us(k, i, 100));
		printf("        at most %u trips, %u stops, %u resumes, %u calls, %" PRIu64
		       " bytes read, %" PRIu64 " written\n",
		       kind->trips, kind->stops, kind->resumes, kind->calls, kind->read_bytes,
		       kind->written_bytes);
		if (to_target >= 0 && k != IDLE)
			printf("        below in %u of %u rounds, %.1f %% stolen\n", kind->below,
			       rounds_done, stolen_percent());
	}
}

static void print_json(void)
{
	printf("{\"rounds\":%u,\"stolen_percent\":%.1f", rounds_done, stolen_percent());
	for (unsigned k = 0; k < KINDS; k++) {
		const struct kind *kind = &kinds[k];

		printf(",\"%s\":{", kind_names[k]);
		for (unsigned i = 0; i < FIGURES; i++)
			printf("\"%s\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],", figure_keys[i],
			       percentile_us(k, i, 50), percentile_us(k, i, 99),
			       percentile_us(k, i, 100));
		printf("\"trips\":%u,\"stops\":%u,\"resumes\":%u,\"calls\":%u,\"read_bytes\":"
		       "%" PRIu64 ",\"written_bytes\":%" PRIu64 ",\"below\":%u,\"wrong\":%u}",
		       kind->trips, kind->stops, kind->resumes, kind->calls, kind->read_bytes,
		       kind->written_bytes, kind->below, kind->wrong);
	}
	printf("}\n");
}

static bool within_limits(void)
{
	return percentile_us(ATTACH, NET, 99) <= 1000 && percentile_us(ATTACH, NET, 100) <= 5000 &&
	       percentile_us(DETACH, NET, 99) <= 5000 && kinds[ATTACH].trips <= 3;
}

int main(int argc, char **argv)
{
	unsigned rounds = 20;
	bool json = false, limits = false;
	int option;

	while ((option = getopt(argc, argv, "+n:p:sljc")) != -1) {
		switch (option) {
		case 'n':
			rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			target = (pid_t)strtol(optarg, NULL, 10);
			break;
		case 's':
			steps_wanted = true;
			break;
		case 'l':
			limits = true;
			break;
		case 'j':
			json = true;
			break;
		case 'c':
			own_clock = true;
			break;
		default:
			return 2;
		}
	}
	if (!rounds || (target <= 0) == (optind == argc)) {
		fprintf(stderr, "usage: stoptimes [-n ROUNDS] [-s] [-l] [-j] [-c] -p PID | PROGRAM "
				"[ARGUMENT...]\n");
		return 2;
	}
	if (limpet_tracer_new(&tracer) < 0)
		broken("no tracer");
	own_delay_file = __real_open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (target <= 0)
		start_target(argv + optind);
	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < FIGURES; i++) {
			kinds[k].figures[i] = calloc(rounds, sizeof(uint64_t));
			if (!kinds[k].figures[i])
				broken("out of memory");
		}
	machine_before = machine_time();
	for (; rounds_done < rounds; rounds_done++) {
		enter_and_leave();
		only_stop();
		steps_wanted = false;
	}
	for (unsigned k = 0; k < KINDS; k++)
		for (unsigned i = 0; i < FIGURES; i++)
			qsort(kinds[k].figures[i], rounds, sizeof(uint64_t), compare);
	if (json)
		print_json();
	else
		print_table();
	if (end_target())
		broken("the target ended with an error");
	return limits && !within_limits() ? 4 : 0;
}
