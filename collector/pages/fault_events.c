#include "collector/pages/fault_events.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "collector/pages/arch.h"
#include "collector/pages/ring_room.h"
#include "common/array.h"
#include "common/clock.h"
#include "injector/proc/descriptor.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
/* All rings together, and one of them: a power of 2 of pages. */
#define RINGS_PAGES 32768u
#define RING_PAGES 2048u
#define RING_PAGES_LEAST 8u
/* The kernel wakes limpet when so much of a ring is filled. */
#define WAKE_SHARE 8u
/* Descriptors: an event takes about a kilobyte of the kernel's memory. */
#define MOST_EVENTS 32768u
#define SPARE_FILES 128u
#define STACKS_PER_RING 2u
/* Copied of each stack: the event loop of libuv alone (node.js) takes 12 KiB. Where a ring is too
 * small for that, the least. Multiples of 8. */
#define STACK_BYTES (24u << 10)
#define STACK_BYTES_LEAST (8u << 10)
#define ENOUGH_PASSES 10u
#define MOST_PROCESSORS 4096
#define MOST_RECORD_BYTES 65536u
/* perf_event_attr.inherit_thread of Linux 5.13; older headers lack it. */
#define INHERIT_THREAD_BIT 35
/* PERF_FORMAT_LOST of Linux 6.0. */
#define FORMAT_LOST (1u << 4)
/* Of a fault, without its stack. */
#define FAULT_BYTES (sizeof(struct perf_event_header) + (6 + LIMPET_SAMPLED_COUNT) * 8)

struct ring {
	int processor;
	int fd; /* of the event that owns the ring, also in `fds`; -1: it does not wake limpet */
	struct perf_event_mmap_page *head;
	const uint8_t *data;
	uint64_t bytes;   /* a power of 2 */
	uint64_t end, at; /* up to which it is read now, and how far it was read */
	bool has_next;    /* the record at `at` is in `next` */
	struct limpet_fault_record next;
	uint64_t next_bytes;
	uint8_t *whole; /* a copy of a record that crosses the end of the ring */
	struct limpet_ring_room room;
};

struct limpet_fault_events {
	const struct limpet_target *target;
	uint32_t stack_bytes;
	uint64_t ring_pages; /* of each ring, a power of 2, without its head */
	struct ring *rings;
	size_t ring_count;
	int *fds;
	size_t fd_count, fd_capacity;
	struct ring *current; /* whose record the caller has */
	struct pollfd *polls;
	bool see_kernel, threads_only, partial;
	bool count_lost;        /* the kernel counts them for each event */
	uint64_t reported_lost; /* by records */
};

/* ---------------------------------------------------------------- permission */

int limpet_fault_events_explain(const struct limpet_target *target, int error,
				struct limpet_err *err)
{
	uint64_t paranoid;
	const bool known =
		limpet_proc_number_read("sys/kernel/perf_event_paranoid", &paranoid) == 0;

	switch (error) {
	case -ENOSYS:
	case -ENOENT:
	case -EOPNOTSUPP:
		limpet_err_set(err, error, "this kernel cannot record page faults");
		limpet_err_hint(err, "it needs CONFIG_PERF_EVENTS");
		return error;
	case -ENODATA:
		limpet_err_set(err, error, "cannot find out which processors there are");
		limpet_err_hint(err, "mount /sys, or a whole /proc");
		return error;
	case -E2BIG:
		return limpet_err_set(err, error,
				      "process %d has too many threads: times processors, more "
				      "than %u",
				      target->pid, MOST_EVENTS);
	case -EMFILE:
	case -ENFILE:
		limpet_err_set(err, error,
			       "process %d has more threads times processors than limpet may have "
			       "descriptors",
			       target->pid);
		limpet_err_hint(err, "raise the limit: ulimit -n %u, as root",
				MOST_EVENTS + SPARE_FILES);
		return error;
	case -ENOBUFS:
		limpet_err_set(err, error,
			       "limpet may not lock enough memory for what the kernel records");
		limpet_err_hint(err, "run it as root, or raise kernel.perf_event_mlock_kb");
		return error;
	case -EACCES:
	case -EPERM:
		break;
	default:
		return limpet_err_set(err, error, "cannot record page faults of process %d: %s",
				      target->pid, strerror(-error));
	}
	limpet_err_set(err, error,
		       "the kernel does not let limpet record page faults of process %d",
		       target->pid);
	/* Debian and Android: 3 forbids it to all but the privileged. The value is an int. */
	if (known && (int64_t)paranoid > 2)
		limpet_err_hint(err, "run it as root, with CAP_PERFMON, or after: sysctl "
				     "kernel.perf_event_paranoid=2");
	else if (error == -EPERM)
		limpet_err_hint(err,
				"inside a container its seccomp filter may forbid it: run limpet "
				"on the host, or with CAP_PERFMON");
	else
		limpet_err_hint(err,
				"run it as root or as the user of the process; inside a container "
				"CAP_PERFMON is needed");
	return error;
}

/* ---------------------------------------------------------------- opening */

static struct perf_event_attr describe(const struct limpet_fault_events *events)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type = limpet_fault_sample_type(),
		.read_format = events->count_lost ? FORMAT_LOST : 0,
		.disabled = 1,
		.inherit = 1,
		.exclude_kernel = !events->see_kernel,
		.exclude_hv = 1,
		.mmap = 1,
		.mmap_data = 1,
		.comm = 1,
		.comm_exec = 1,
		.watermark = 1,
		.sample_id_all = 1,
		.exclude_callchain_kernel = 1,
		.mmap2 = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.sample_regs_user = LIMPET_SAMPLED_REGISTERS,
		.sample_stack_user = events->stack_bytes,
		.wakeup_watermark = RING_PAGES_LEAST * PAGE / 2,
	};
	uint64_t flags;
	uint8_t *at = (uint8_t *)&attr + offsetof(struct perf_event_attr, read_format) +
		      sizeof(attr.read_format);

	/* The word of flags follows read_format. */
	memcpy(&flags, at, sizeof(flags));
	if (events->threads_only)
		flags |= UINT64_C(1) << INHERIT_THREAD_BIT;
	memcpy(at, &flags, sizeof(flags));
	return attr;
}

static int open_event(struct limpet_fault_events *events, pid_t tid, int processor,
		      uint32_t wake_bytes)
{
	struct perf_event_attr attr = describe(events);
	long fd;

	attr.wakeup_watermark = wake_bytes;
	fd = syscall(SYS_perf_event_open, &attr, tid, processor, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* Finds out with one event what this kernel allows. */
static int probe(struct limpet_fault_events *events)
{
	int fd = open_event(events, events->target->pid, -1, PAGE);

	if (fd == -EINVAL && events->count_lost) {
		events->count_lost = false;
		fd = open_event(events, events->target->pid, -1, PAGE);
	}
	if (fd == -EINVAL && events->threads_only) {
		events->threads_only = false;
		fd = open_event(events, events->target->pid, -1, PAGE);
	}
	if ((fd == -EACCES || fd == -EPERM) && events->see_kernel) {
		events->see_kernel = false;
		fd = open_event(events, events->target->pid, -1, PAGE);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int add_processor(struct limpet_fault_events *events, size_t *capacity, long number)
{
	if (number < 0 || number >= MOST_PROCESSORS)
		return 0;
	if (limpet_reserve_zeroed(&events->rings, capacity, events->ring_count + 1,
				  sizeof(*events->rings)) < 0)
		return -ENOMEM;
	events->rings[events->ring_count++] = (struct ring){.processor = (int)number, .fd = -1};
	return 0;
}

/* "0-3,8" */
static int list_from_sys(struct limpet_fault_events *events, FILE *file)
{
	size_t capacity = 0;
	char line[4096];

	if (!fgets(line, sizeof(line), file))
		return -EBADMSG;
	for (char *at = line, *end; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
		const long first = strtol(at, &end, 10);
		const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		for (long i = first; i <= last && i < MOST_PROCESSORS; i++)
			if (add_processor(events, &capacity, i) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* A line "cpu3 ..." for each. */
static int list_from_stat(struct limpet_fault_events *events)
{
	LIMPET_FREE char *text = NULL;
	size_t capacity = 0, bytes;
	int error = limpet_proc_file_read(0, "stat", &text, &bytes);

	for (const char *at = error ? NULL : text; at && !error; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, "cpu", 3) && at[3] >= '0' && at[3] <= '9')
			error = add_processor(events, &capacity, strtol(at + 3, NULL, 10));
	}
	return error;
}

/* A ring for each. Without /sys (a small container) by what /proc says. -ENODATA: unknown. */
static int list_processors(struct limpet_fault_events *events)
{
	LIMPET_FCLOSE FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	const int error = file ? list_from_sys(events, file) : list_from_stat(events);

	if (error == -ENOMEM)
		return error;
	return events->ring_count ? 0 : -ENODATA;
}

/* -ENOBUFS: without privileges there is a limit on locked memory (perf_event_mlock_kb). */
static int make_ring(struct limpet_fault_events *events, struct ring *ring, int fd)
{
	const uint64_t pages = events->ring_pages;
	void *map = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return errno == EPERM || errno == ENOMEM ? -ENOBUFS : -errno;
	ring->head = map;
	ring->data = (const uint8_t *)map + PAGE;
	ring->bytes = pages * PAGE;
	ring->fd = fd;
	return 0;
}

static int keep_fd(struct limpet_fault_events *events, int fd)
{
	if (limpet_reserve(&events->fds, &events->fd_capacity, events->fd_count + 1,
			   sizeof(*events->fds)) < 0) {
		close(fd);
		return -ENOMEM;
	}
	events->fds[events->fd_count++] = fd;
	return 0;
}

/* The first event of a processor owns its ring, the others write to it. A thread that is gone, or a
 * processor that was switched off, is no error. */
static int open_on(struct limpet_fault_events *events, pid_t tid, struct ring *ring)
{
	const uint32_t wake_bytes = (uint32_t)(events->ring_pages * PAGE / WAKE_SHARE);
	int fd = open_event(events, tid, ring->processor, wake_bytes), error;

	if (fd == -ESRCH || fd == -ENODEV)
		return 0;
	if (fd < 0)
		return fd;
	error = keep_fd(events, fd);
	if (error)
		return error;
	if (!ring->head)
		return make_ring(events, ring, fd);
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0 ? -errno : 0;
}

static void close_all(struct limpet_fault_events *events)
{
	for (size_t i = 0; i < events->ring_count; i++) {
		struct ring *ring = &events->rings[i];

		if (ring->head)
			munmap(ring->head, ring->bytes + PAGE);
		ring->head = NULL;
		ring->fd = -1;
		ring->bytes = 0;
	}
	for (size_t i = 0; i < events->fd_count; i++)
		close(events->fds[i]);
	events->fd_count = 0;
}

static int open_all(struct limpet_fault_events *events, const pid_t *tids, int count)
{
	if ((uint64_t)count * events->ring_count > MOST_EVENTS)
		return -E2BIG;
	for (int i = 0; i < count; i++)
		for (size_t k = 0; k < events->ring_count; k++) {
			int error = open_on(events, tids[i], &events->rings[k]);

			if (error)
				return error;
		}
	return 0;
}

/* With rings of one size, the largest that limpet may have. */
static int open_largest(struct limpet_fault_events *events, const pid_t *tids, int count)
{
	for (;;) {
		const int error = open_all(events, tids, count);

		/* A ring has room for some faults. */
		if (error != -ENOBUFS || events->ring_pages / 2 < RING_PAGES_LEAST)
			return error;
		if (events->ring_pages * PAGE / 2 <
		    STACKS_PER_RING * (uint64_t)events->stack_bytes) {
			if (events->stack_bytes == STACK_BYTES_LEAST)
				return error;
			events->stack_bytes = STACK_BYTES_LEAST;
		}
		close_all(events);
		events->ring_pages /= 2;
	}
}

static bool is_new(const pid_t *before, int before_count, const pid_t *tids, int count)
{
	int at = 0;

	for (int i = 0; i < count; i++) {
		while (at < before_count && before[at] < tids[i])
			at++;
		if (at == before_count || before[at] != tids[i])
			return true;
	}
	return false;
}

/* A thread that came meanwhile has inherited the events of its creator, or not, if that had none
 * yet: a pass during which one came is made again, so that no fault is recorded twice. */
static int open_threads(struct limpet_fault_events *events)
{
	for (unsigned pass = 1;; pass++) {
		LIMPET_FREE pid_t *tids = NULL;
		LIMPET_FREE pid_t *after = NULL;
		int count = limpet_proc_tasks(events->target->pid, &tids), after_count, error;

		if (count <= 0)
			return count ? count : -ESRCH;
		error = open_largest(events, tids, count);
		if (error)
			return error;
		after_count = limpet_proc_tasks(events->target->pid, &after);
		if (after_count < 0)
			return after_count;
		if (!is_new(tids, count, after, after_count))
			return events->fd_count ? 0 : -ESRCH;
		if (pass == ENOUGH_PASSES) {
			events->partial = true;
			return 0;
		}
		close_all(events);
	}
}

int limpet_fault_events_open(const struct limpet_target *target, struct limpet_fault_events **ret,
			     struct limpet_err *err)
{
	struct limpet_fault_events *events = calloc(1, sizeof(*events));
	int error;

	if (!events)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	events->target = target;
	events->stack_bytes = STACK_BYTES;
	events->see_kernel = events->threads_only = events->count_lost = true;
	limpet_descriptor_raise_limit(MOST_EVENTS + SPARE_FILES);
	error = list_processors(events);
	events->ring_pages = RING_PAGES;
	while (events->ring_pages > RING_PAGES_LEAST &&
	       events->ring_pages * events->ring_count > RINGS_PAGES)
		events->ring_pages /= 2;
	if (!error)
		error = probe(events);
	if (!error)
		error = open_threads(events);
	if (error) {
		limpet_fault_events_free(events);
		return limpet_fault_events_explain(target, error, err);
	}
	*ret = events;
	return 0;
}

void limpet_fault_events_free(struct limpet_fault_events *events)
{
	if (!events)
		return;
	close_all(events);
	for (size_t i = 0; i < events->ring_count; i++)
		free(events->rings[i].whole);
	free(events->rings);
	free(events->fds);
	free(events->polls);
	free(events);
}

static void order(const struct limpet_fault_events *events, unsigned long request)
{
	for (size_t i = 0; i < events->fd_count; i++)
		(void)ioctl(events->fds[i], request, 0);
}

void limpet_fault_events_start(struct limpet_fault_events *events)
{
	order(events, PERF_EVENT_IOC_ENABLE);
}

void limpet_fault_events_stop(struct limpet_fault_events *events)
{
	order(events, PERF_EVENT_IOC_DISABLE);
}

bool limpet_fault_events_see_kernel(const struct limpet_fault_events *events)
{
	return events->see_kernel;
}

bool limpet_fault_events_are_partial(const struct limpet_fault_events *events)
{
	return events->partial;
}

/* ---------------------------------------------------------------- reading */

void limpet_fault_events_refresh(struct limpet_fault_events *events)
{
	for (size_t i = 0; i < events->ring_count; i++) {
		struct ring *ring = &events->rings[i];

		/* Pairs with the kernel's barrier before it moves the head. */
		if (ring->head)
			ring->end = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
	}
}

/* The kernel may write there from now on: nothing of it is read any more. */
static void release_to(const struct limpet_fault_events *events, struct ring *ring, uint64_t to)
{
	const uint64_t from = ring->at;

	ring->at = to;
	/* What is written later finds the room, what was lost for lack of it was lost before. */
	__atomic_store_n(&ring->head->data_tail, to, __ATOMIC_SEQ_CST);
	limpet_ring_room_check(&ring->room, ring->bytes, FAULT_BYTES + events->stack_bytes, from,
			       __atomic_load_n(&ring->head->data_head, __ATOMIC_SEQ_CST));
}

/* `bytes` bytes of the ring, in one piece; NULL: no memory. */
static const uint8_t *in_one_part(struct ring *ring, uint64_t at, uint64_t bytes)
{
	const uint64_t from = at & (ring->bytes - 1), first = ring->bytes - from;

	if (bytes <= first)
		return ring->data + from;
	if (!ring->whole)
		ring->whole = malloc(MOST_RECORD_BYTES);
	if (!ring->whole)
		return NULL;
	memcpy(ring->whole, ring->data + from, first);
	memcpy(ring->whole + first, ring->data, bytes - first);
	return ring->whole;
}

/* Reads the record at `at`. -EBADMSG: the rest of the ring is skipped. */
static int read_next(struct limpet_fault_events *events, struct ring *ring)
{
	struct perf_event_header header;
	const uint64_t left = ring->end - ring->at;
	const uint8_t *at;

	if (ring->has_next || !left)
		return 0;
	/* Records are multiples of 8 bytes: a header is never split. */
	memcpy(&header, ring->data + (ring->at & (ring->bytes - 1)), sizeof(header));
	at = header.size < sizeof(header) || header.size % 8 || header.size > left
		     ? NULL
		     : in_one_part(ring, ring->at, header.size);
	if (!at || limpet_fault_record_read(at, header.size, &ring->next) < 0) {
		release_to(events, ring, ring->end);
		return -EBADMSG;
	}
	ring->has_next = true;
	if (ring->next.kind == LIMPET_FAULT_LOST)
		events->reported_lost += ring->next.lost;
	ring->next_bytes = header.size;
	return 0;
}

int limpet_fault_events_next(struct limpet_fault_events *events, struct limpet_fault_record *ret)
{
	struct ring *first = NULL;

	if (events->current) {
		struct ring *ring = events->current;

		ring->has_next = false;
		release_to(events, ring, ring->at + ring->next_bytes);
		events->current = NULL;
	}
	for (size_t i = 0; i < events->ring_count; i++) {
		struct ring *ring = &events->rings[i];
		int error = ring->head ? read_next(events, ring) : 0;

		if (error)
			return error;
		if (ring->has_next && (!first || ring->next.time_ns < first->next.time_ns))
			first = ring;
	}
	if (!first)
		return 0;
	events->current = first;
	*ret = first->next;
	return 1;
}

void limpet_fault_events_forget_lost(struct limpet_fault_events *events)
{
	for (size_t i = 0; i < events->ring_count; i++)
		events->rings[i].room.was_full = false;
}

/* -errno: the kernel does not count them. */
static int read_lost(const struct limpet_fault_events *events, uint64_t *ret)
{
	struct {
		uint64_t faults, lost;
	} value;
	uint64_t lost = 0;

	if (!events->count_lost)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < events->fd_count; i++) {
		if (read(events->fds[i], &value, sizeof(value)) != (ssize_t)sizeof(value))
			return -EBADMSG;
		lost += value.lost;
	}
	*ret = lost;
	return 0;
}

int limpet_fault_events_untold(const struct limpet_fault_events *events, uint64_t *ret_lost)
{
	bool is_unsure = false;
	uint64_t lost;

	*ret_lost = 0;
	for (size_t i = 0; i < events->ring_count; i++)
		is_unsure |=
			limpet_ring_room_is_unsure(&events->rings[i].room, events->rings[i].at);
	if (!is_unsure)
		return 0;
	if (read_lost(events, &lost) < 0)
		return 1;
	if (lost > events->reported_lost)
		*ret_lost = lost - events->reported_lost;
	return 0;
}

int limpet_fault_events_wait(struct limpet_fault_events *events, struct pollfd *fds, nfds_t count,
			     uint64_t wait_ns, const sigset_t *mask)
{
	const struct timespec wait = limpet_timespec(wait_ns);
	struct pollfd *polls = events->polls;
	int ready;

	if (!polls)
		polls = events->polls = calloc(events->ring_count + count, sizeof(*polls));
	if (!polls)
		return -ENOMEM;
	memcpy(polls, fds, count * sizeof(*fds));
	for (size_t i = 0; i < events->ring_count; i++)
		polls[count + i] = (struct pollfd){.fd = events->rings[i].fd, .events = POLLIN};
	ready = ppoll(polls, count + events->ring_count, &wait, mask);
	if (ready < 0)
		return -errno;
	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = polls[i].revents;
	/* The thread of the event has ended; those of other threads still write to its ring, which
	 * is read by the clock alone. */
	for (size_t i = 0; i < events->ring_count; i++)
		if (polls[count + i].revents & (POLLHUP | POLLERR))
			events->rings[i].fd = -1;
	return ready;
}
