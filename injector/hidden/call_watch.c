#include "injector/hidden/call_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/subprocess.h"
#include "injector/hidden/arch.h"
#include "injector/proc/descriptor.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
#define RING_PAGES 128u
#define MOST_THREADS 128u
/* Each costs, when it is set, when the function is called, and when it is removed. */
#define MOST_PROBES 200u
#define SPARE_FILES 128u
#define KINDS 2u /* of probes: calls, and returns where they are wanted */
#define POLL_NS 1000000u
/* A thread that uses no processor in this time is not watched: each probe costs, most of all when
 * it is removed (the kernel waits for all processors, for one after the other). */
#define ACTIVE_NS 300000000u
/* The kernel waits for all processors whenever it removes a probe: several processes wait at once.
 */
#define CLOSERS 64u
/* The kernel's ENOTSUPP, which it has no public name for: it cannot step over the instruction. */
#define CANNOT_PROBE (-524)
/* Of perf_event_attr.config: a probe at the return. /sys/bus/event_source/devices/uprobe/format */
#define RETURNS_BIT 1u

struct ring {
	int owner; /* an event without events, to which the ring belongs */
	struct perf_event_mmap_page *head;
	const uint8_t *data;
	uint64_t at;
	uint64_t last_ns; /* of its last record so far; 0: none was read yet */
};

struct probe {
	int fd;
	uint64_t id;
	uint8_t function;
	bool returns;
	bool is_done; /* it is to be closed */
};

/* What the process that watches leaves for limpet. */
struct report {
	bool is_done; /* otherwise it has ended before */
	int error;
	struct limpet_err err;
	size_t count, capacity;
	struct limpet_watched_call calls[];
};

struct run {
	const struct limpet_call_watch *watch;
	struct report *report;
	int lifeline;  /* ends with limpet */
	uint32_t type; /* of the kernel's events: uprobe */
	char path[64];
	struct ring rings[MOST_THREADS];
	size_t ring_count;
	struct probe *probes;
	size_t probe_count, probe_capacity;
	uint64_t end_ns; /* later calls do not count: some of them may not have been recorded */
	bool is_late;    /* what comes now comes after the end */
	bool unsuited;   /* a function that the kernel cannot probe */
	bool lost;       /* a ring was full */
};

/* ---------------------------------------------------------------- opening */

/* Nobody waits for an answer any more. */
static void end_with_limpet(const struct run *run)
{
	struct pollfd lifeline = {.fd = run->lifeline};

	if (poll(&lifeline, 1, 0) > 0)
		_exit(0);
}

static int refuse(struct run *run, int error)
{
	const pid_t pid = run->watch->target->pid;
	struct limpet_err *err = &run->report->err;

	switch (error) {
	case -EACCES:
	case -EPERM:
		limpet_err_set(err, error,
			       "the kernel does not let limpet watch calls in process %d", pid);
		limpet_err_hint(
			err, "run it as root, or with CAP_PERFMON and CAP_IPC_LOCK, on the host");
		return error;
	case -E2BIG:
	case -EMFILE:
	case -ENFILE:
		return limpet_err_set(err, error, "process %d has too many busy threads to watch",
				      pid);
	case -ENOENT:
	case -ENOSYS:
	case -EOPNOTSUPP:
	case CANNOT_PROBE:
		limpet_err_set(err, error, "this kernel cannot watch calls");
		limpet_err_hint(err, "it needs CONFIG_UPROBE_EVENTS");
		return error;
	case -ENODATA:
		limpet_err_set(err, error, "the kernel's uprobes are not found");
		limpet_err_hint(err, "mount /sys");
		return error;
	default:
		return limpet_err_set(err, error, "cannot watch calls in process %d: %s", pid,
				      strerror(-error));
	}
}

/* -ENODATA: there is no /sys that could tell. */
static int read_type(struct run *run)
{
	LIMPET_FCLOSE FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	char line[32];

	if (!file && access("/sys/bus/event_source/devices", F_OK) < 0)
		return -ENODATA;
	if (!file || !fgets(line, sizeof(line), file))
		return -ENOENT;
	run->type = (uint32_t)strtoul(line, NULL, 10);
	return 0;
}

static int open_probe(struct run *run, pid_t tid, unsigned function, bool returns)
{
	struct perf_event_attr attr = {
		.type = run->type,
		.size = sizeof(attr),
		.config = returns ? RETURNS_BIT : 0,
		.uprobe_path = (uint64_t)(uintptr_t)run->path,
		.probe_offset = run->watch->offsets[function],
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_REGS_USER,
		.disabled = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.sample_regs_user = LIMPET_PROBED_REGISTERS,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int make_ring(struct ring *ring, pid_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
		.exclude_kernel = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	void *map;

	if (fd < 0)
		return -errno;
	map = mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (map == MAP_FAILED) {
		const int error = -errno;

		close((int)fd);
		return error;
	}
	ring->owner = (int)fd;
	ring->head = map;
	ring->data = (const uint8_t *)map + PAGE;
	return 0;
}

static int add_probe(struct run *run, pid_t tid, struct ring *ring, unsigned function, bool returns)
{
	const int fd = open_probe(run, tid, function, returns);
	struct probe *probe;

	if (fd < 0)
		return fd;
	if (limpet_reserve(&run->probes, &run->probe_capacity, run->probe_count + 1,
			   sizeof(*run->probes)) < 0) {
		close(fd);
		return -ENOMEM;
	}
	probe = &run->probes[run->probe_count++];
	*probe = (struct probe){.fd = fd, .function = (uint8_t)function, .returns = returns};
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->owner) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ID, &probe->id) < 0)
		return -errno;
	return 0;
}

/* 0 also for a thread that is gone. */
static int add_thread(struct run *run, pid_t tid)
{
	struct ring *ring = &run->rings[run->ring_count];
	int error = make_ring(ring, tid);

	if (error)
		return error == -ESRCH ? 0 : error;
	run->ring_count++;
	for (unsigned i = 0; i < run->watch->count * KINDS; i++) {
		const bool returns = i % KINDS != 0;

		if (returns && !run->watch->gives[i / KINDS])
			continue;
		error = add_probe(run, tid, ring, i / KINDS, returns);
		if (error == -ESRCH)
			break;
		/* It is no more watched than one that is not called. */
		run->unsuited |= error == CANNOT_PROBE;
		if (error && error != CANNOT_PROBE)
			return error;
	}
	return 0;
}

/* Keeps those that run; returns how many, or -ENOMEM. */
static int keep_active(const struct run *run, pid_t *tids, int count)
{
	const struct timespec pause = {0, ACTIVE_NS};
	LIMPET_FREE uint64_t *before = calloc((size_t)count, sizeof(*before));
	uint64_t after;
	int kept = 0;

	if (!before)
		return -ENOMEM;
	for (int i = 0; i < count; i++)
		if (limpet_proc_run_time(run->watch->target->pid, tids[i], &before[i]) < 0)
			before[i] = UINT64_MAX;
	nanosleep(&pause, NULL);
	for (int i = 0; i < count; i++)
		if (limpet_proc_run_time(run->watch->target->pid, tids[i], &after) < 0 ||
		    after != before[i])
			tids[kept++] = tids[i];
	return kept;
}

static unsigned probes_of_thread(const struct limpet_call_watch *watch)
{
	unsigned probes = watch->count;

	for (unsigned i = 0; i < watch->count; i++)
		probes += watch->gives[i];
	return probes;
}

static int open_all(struct run *run)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(run->watch->target->pid, &tids), error = read_type(run);
	unsigned probes;

	if (error)
		return error;
	if (count <= 0)
		return count ? count : -ESRCH;
	count = keep_active(run, tids, count);
	if (count < 0)
		return count;
	probes = (unsigned)count * probes_of_thread(run->watch);
	if (count > (int)MOST_THREADS || probes > MOST_PROBES)
		return -E2BIG;
	snprintf(run->path, sizeof(run->path), "/proc/self/fd/%d", run->watch->fd);
	limpet_descriptor_raise_limit(probes + SPARE_FILES);
	for (int i = 0; i < count && !error; i++) {
		end_with_limpet(run);
		error = add_thread(run, tids[i]);
	}
	if (!error && !run->probe_count && run->unsuited)
		error = CANNOT_PROBE;
	return error;
}

/* ---------------------------------------------------------------- closing */

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Where a fatal signal comes while a thread closes a probe, the kernel gives up in the midst of it
 * and leaves the breakpoint ("leaking uprobe", kernel/events/uprobes.c). A process that is ending
 * takes no more signals: so the last descriptor of each probe goes with a process, of which limpet
 * is not one. */
struct closing {
	int ready[2], go[2]; /* pipes: to the process that watches, and from it */
	pid_t pids[CLOSERS]; /* 0: could not be started */
};

static size_t closer_of(size_t probe)
{
	return probe % CLOSERS;
}

/* Ends with the descriptors of its share alone, once the others have theirs. */
static void __attribute__((noreturn))
run_closer(const struct run *run, const struct closing *closing, size_t closer)
{
	char byte = 0;

	close(closing->go[1]);
	for (size_t i = 0; i < run->probe_count; i++)
		if (!run->probes[i].is_done || closer_of(i) != closer)
			close(run->probes[i].fd);
	while (write(closing->ready[1], &byte, 1) < 0 && errno == EINTR)
		;
	close(closing->ready[1]);
	while (read(closing->go[0], &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void start_closers(const struct run *run, struct closing *closing)
{
	char byte;

	for (size_t i = 0; i < CLOSERS && i < run->probe_count; i++) {
		const pid_t pid = fork();

		if (!pid)
			run_closer(run, closing, i);
		closing->pids[i] = pid > 0 ? pid : 0;
	}
	close(closing->ready[1]);
	closing->ready[1] = -1;
	/* Until each has its share, or has ended. */
	while (read(closing->ready[0], &byte, 1) > 0)
		;
}

/* Removes the probes that are done, as far as processes can be had; all others go when this one
 * ends. Takes them out of the list. */
static void close_done(struct run *run)
{
	struct closing closing = {.ready = {-1, -1}, .go = {-1, -1}};
	size_t kept = 0;

	if (pipe2(closing.ready, O_CLOEXEC) == 0 && pipe2(closing.go, O_CLOEXEC) == 0)
		start_closers(run, &closing);
	for (size_t i = 0; i < run->probe_count; i++) {
		if (!run->probes[i].is_done)
			run->probes[kept++] = run->probes[i];
		else if (closing.pids[closer_of(i)])
			close(run->probes[i].fd);
	}
	run->probe_count = kept;
	for (size_t i = 0; i < 2; i++) {
		close_if(closing.ready[i]);
		close_if(closing.go[i]);
	}
	for (size_t i = 0; i < CLOSERS; i++)
		if (closing.pids[i])
			(void)limpet_subprocess_wait(closing.pids[i]);
}

static void close_all(struct run *run)
{
	for (size_t i = 0; i < run->probe_count; i++)
		run->probes[i].is_done = true;
	close_done(run);
	for (size_t i = 0; i < run->ring_count; i++) {
		munmap(run->rings[i].head, (RING_PAGES + 1) * PAGE);
		close(run->rings[i].owner);
	}
}

/* ---------------------------------------------------------------- reading */

static void copy_from(const struct ring *ring, uint64_t at, void *ret, size_t bytes)
{
	const uint64_t from = at % (RING_PAGES * PAGE), first = RING_PAGES * PAGE - from;

	if (bytes <= first) {
		memcpy(ret, ring->data + from, bytes);
	} else {
		memcpy(ret, ring->data + from, first);
		memcpy((uint8_t *)ret + first, ring->data, bytes - first);
	}
}

/* A sample, as open_probe() asks for it. */
struct sample {
	uint64_t id;
	uint32_t pid, tid;
	uint64_t time_ns, abi;
	uint64_t registers[LIMPET_PROBED_COUNT];
};

/* The kernel's numbers ascend. */
static const struct probe *probe_of(const struct run *run, uint64_t id)
{
	const size_t i = LIMPET_PARTITION_POINT(k, run->probe_count, run->probes[k].id < id);

	return i < run->probe_count && run->probes[i].id == id ? &run->probes[i] : NULL;
}

static void add_sample(struct run *run, const struct sample *sample)
{
	const struct probe *probe = probe_of(run, sample->id);
	const uint64_t *registers = sample->registers;

	if (!probe || sample->abi != PERF_SAMPLE_REGS_ABI_64 ||
	    run->report->count == run->report->capacity)
		return;
	run->report->calls[run->report->count++] = (struct limpet_watched_call){
		.time_ns = sample->time_ns,
		.tid = sample->tid,
		.function = probe->function,
		.returns = probe->returns,
		.is_late = run->is_late,
		.sp = registers[LIMPET_PROBED_SP],
		.args = {registers[LIMPET_PROBED_ARG_1], registers[LIMPET_PROBED_ARG_2]},
		.results = {registers[LIMPET_PROBED_RESULT], registers[LIMPET_PROBED_RESULT_2]},
	};
}

static void read_ring(struct run *run, struct ring *ring)
{
	/* Pairs with the kernel's barrier before it moves the head. */
	const uint64_t end = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);

	while (ring->at < end) {
		struct perf_event_header header;
		struct sample sample;

		copy_from(ring, ring->at, &header, sizeof(header));
		/* What was lost before the first record was before the watch. */
		if ((header.type == PERF_RECORD_LOST && ring->last_ns && !run->is_late) ||
		    header.size < sizeof(header) || header.size > end - ring->at) {
			run->lost = true;
			if (ring->last_ns < run->end_ns)
				run->end_ns = ring->last_ns;
			break;
		}
		if (header.type == PERF_RECORD_SAMPLE &&
		    header.size >= sizeof(header) + sizeof(sample)) {
			copy_from(ring, ring->at + sizeof(header), &sample, sizeof(sample));
			ring->last_ns = sample.time_ns;
			add_sample(run, &sample);
		}
		ring->at += header.size;
	}
	__atomic_store_n(&ring->head->data_tail, ring->at, __ATOMIC_RELEASE);
}

static void skip_ring(struct ring *ring)
{
	ring->at = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
	__atomic_store_n(&ring->head->data_tail, ring->at, __ATOMIC_RELEASE);
}

static void order(const struct run *run, unsigned long request)
{
	for (size_t i = 0; i < run->probe_count; i++)
		(void)ioctl(run->probes[i].fd, request, 0);
}

/* Keeps the calls of the time in which all probes were on. */
static void keep_between(struct run *run, uint64_t begin_ns)
{
	struct limpet_watched_call *calls = run->report->calls;
	size_t kept = 0;

	for (size_t i = 0; i < run->report->count; i++)
		if (calls[i].time_ns >= begin_ns && calls[i].time_ns <= run->end_ns)
			calls[kept++] = calls[i];
	run->report->count = kept;
}

static void watch_calls(struct run *run)
{
	const struct limpet_call_watch *watch = run->watch;
	const struct timespec pause = {0, POLL_NS};
	uint64_t begin_ns, now_ns;

	run->end_ns = UINT64_MAX;
	order(run, PERF_EVENT_IOC_ENABLE);
	for (size_t i = 0; i < run->ring_count; i++)
		skip_ring(&run->rings[i]);
	begin_ns = limpet_monotonic_ns();
	do {
		nanosleep(&pause, NULL);
		end_with_limpet(run);
		now_ns = limpet_monotonic_ns();
		for (size_t i = 0; i < run->ring_count; i++)
			read_ring(run, &run->rings[i]);
	} while (now_ns - begin_ns < watch->most_ns && run->report->count < watch->most_calls &&
		 !run->lost);
	/* What was read last is complete up to the poll before it. */
	if (now_ns - POLL_NS < run->end_ns)
		run->end_ns = now_ns - POLL_NS;
	keep_between(run, begin_ns);
}

/* Functions that were hardly called are watched while the probes of the others are removed. */
static void watch_idle(struct run *run)
{
	uint32_t calls[LIMPET_WATCHED_MAX] = {0};

	run->is_late = true;
	for (size_t i = 0; i < run->report->count; i++)
		calls[run->report->calls[i].function]++;
	for (size_t i = 0; i < run->probe_count; i++) {
		struct probe *probe = &run->probes[i];

		probe->is_done = calls[probe->function] >= LIMPET_WATCHED_ENOUGH;
		if (probe->is_done)
			(void)ioctl(probe->fd, PERF_EVENT_IOC_DISABLE, 0);
	}
	/* What has come meanwhile belongs to calls of which the rest is missing. */
	for (size_t i = 0; i < run->ring_count; i++)
		skip_ring(&run->rings[i]);
	close_done(run);
	for (size_t i = 0; i < run->ring_count; i++)
		read_ring(run, &run->rings[i]);
}

/* In the process that watches, which nobody signals: not the terminal, nor who ends limpet. */
static void __attribute__((noreturn)) run_watch(struct run *run)
{
	struct report *report = run->report;
	sigset_t all;
	int error;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	error = open_all(run);
	if (!error && run->probe_count) {
		watch_calls(run);
		watch_idle(run);
	}
	close_all(run);
	report->error = error ? refuse(run, error) : 0;
	report->is_done = true;
	_exit(0);
}

/* Waits until that process has ended: then there are no probes. */
static int watch_in_child(struct run *run, struct limpet_err *err)
{
	int lifeline[2];
	pid_t pid;

	if (pipe2(lifeline, O_CLOEXEC) < 0)
		return limpet_err_set(err, -errno, "cannot watch calls: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		close(lifeline[1]);
		run->lifeline = lifeline[0];
		run_watch(run);
	}
	close(lifeline[0]);
	if (pid < 0)
		limpet_err_set(err, -errno, "cannot watch calls: %s", strerror(errno));
	if (pid > 0)
		(void)limpet_subprocess_wait(pid);
	close(lifeline[1]);
	if (pid < 0)
		return err->code;
	if (!run->report->is_done)
		return limpet_err_set(err, -EIO, "the process that watched calls was ended");
	if (run->report->error)
		*err = run->report->err;
	return run->report->error;
}

int limpet_call_watch_run(const struct limpet_call_watch *watch, struct limpet_watched_call **ret,
			  size_t *ret_count, struct limpet_err *err)
{
	const size_t capacity = 2 * watch->most_calls + 1;
	const size_t bytes = sizeof(struct report) + capacity * sizeof(struct limpet_watched_call);
	LIMPET_FREE struct run *run = calloc(1, sizeof(*run));
	struct report *report =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int error;

	if (!run || report == MAP_FAILED) {
		error = limpet_err_set(err, -ENOMEM, "out of memory");
	} else {
		report->capacity = capacity;
		run->watch = watch;
		run->report = report;
		error = watch_in_child(run, err);
	}
	if (!error) {
		*ret = calloc(report->count + 1, sizeof(**ret));
		*ret_count = report->count;
		if (*ret)
			memcpy(*ret, report->calls, report->count * sizeof(**ret));
		else
			error = limpet_err_set(err, -ENOMEM, "out of memory");
	}
	if (report != MAP_FAILED)
		munmap(report, bytes);
	return error;
}
