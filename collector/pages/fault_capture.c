#include "collector/pages/fault_capture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "collector/capture/own_priority.h"
#include "collector/capture/trace_session.h"
#include "collector/pages/counted_maps.h"
#include "collector/pages/fault_events.h"
#include "collector/pages/fault_losses.h"
#include "collector/pages/fault_stacks.h"
#include "collector/pages/page_set.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/losses.h"
#include "common/number_table.h"
#include "common/wire.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/pages.h"
#include "injector/proc/target_process.h"

#define PAGE LIMPET_PAGE_SET_PAGE
#define STACK_MEMORY_SHARE 2u /* of the memory, in addition to it */
/* 2 TiB of addresses: limpet-pages(1) says so. */
#define MOST_BLOCKS (1u << 20)
#define TICK_NS 500000000u
#define BUSY_WAIT_NS 25000000u
#define IDLE_WAIT_NS 250000000u
#define BUSY_NS 1000000000u
/* A look at the pages: so often, but in a fiftieth of the time at most. */
#define SCAN_NS 1000000000u
#define SCAN_SHARE 50u
/* Earlier, if so much more is recorded than is resident. */
#define EARLY_SCAN_NS 20000000u
#define EARLY_SLACK_BYTES (UINT64_C(4) << 20)
#define EARLY_SLACK_SHARE 32u
/* The kernel reports a fault before it brings the page. The last fault of a thread is not taken as
 * done for so long, as the thread may wait for a processor meanwhile. */
#define UNDONE_NS 3000000000u
#define MOST_THREADS 65536u
#define MAPS_SHARE 20u /* of the time, for reading the list of mappings */
#define BATCH 512u

struct limpet_fault_capture {
	const struct limpet_fault_capture_setup *setup;
	struct limpet_trace_session trace;
	struct limpet_fault_events *events;
	struct limpet_fault_stacks *stacks;
	struct limpet_page_set *set;
	struct limpet_counted_maps maps;
	struct limpet_cgroup cgroup;
	struct limpet_priority priority;
	bool has_cgroup, executed, maps_are_old, begun;
	bool holds_maps;     /* they are walked, and must stay as they are */
	bool faults_on_hand; /* the kernel makes faults on pages that are there (NUMA balancing) */
	bool unread;         /* the last look has failed: nothing has found pages of lost faults */
	bool may_have_lost;  /* faults, without their number */
	bool no_room;        /* for pages, which are not recorded */
	uint64_t begin_ns, end_ns; /* end_ns: 0 while the capture runs */
	uint64_t last_ns;          /* of an event, since the beginning */
	uint64_t tick_ns, event_ns, scanned_ns, scan_took_ns, maps_next_ns;
	uint64_t faults_at_scan, faults, lost, broken, rss_bytes;
	uint64_t other_bytes; /* of RSS at the last look, in pages that are not recorded */
	/* The last fault of each thread. */
	struct limpet_number_table threads;
	struct last_fault {
		uint64_t page, time_ns;
	} * last_faults;
	size_t last_capacity;
	struct limpet_record batch[BATCH];
	size_t batched;
};

static uint64_t now_of(const struct limpet_fault_capture *capture)
{
	return (capture->end_ns ?: limpet_monotonic_ns()) - capture->begin_ns;
}

/* ---------------------------------------------------------------- for other terminals */

static void add_status(void *context, struct limpet_control_status *ret)
{
	const struct limpet_fault_capture *capture = context;

	if (capture->begin_ns)
		ret->elapsed_ns = now_of(capture);
	ret->dropped_events = capture->lost;
}

static void show(struct limpet_fault_capture *capture)
{
	struct limpet_capture_progress progress = {.duration_ns = capture->setup->duration_ns,
						   .elapsed_ns = now_of(capture),
						   .dropped_events = capture->lost};
	struct limpet_recorder_stats stats;

	if (!capture->setup->progress)
		return;
	limpet_recorder_stats_read(capture->trace.recorder, &stats);
	progress.events = stats.events;
	progress.live_bytes = stats.live_bytes;
	capture->setup->progress(capture->setup->context, &progress);
}

/* ---------------------------------------------------------------- events of the trace */

static void flush(struct limpet_fault_capture *capture)
{
	limpet_recorder_keep_error(&capture->trace.file_error,
				   limpet_recorder_add_events(capture->trace.recorder,
							      capture->batch, capture->batched));
	capture->batched = 0;
}

/* Times in the trace do not decrease, but a fault on one processor may be read after a later one on
 * another. */
static void record(struct limpet_fault_capture *capture, enum limpet_event_type kind, uint64_t page,
		   uint32_t node, uint32_t tid, uint64_t time_ns)
{
	if (time_ns > capture->last_ns)
		capture->last_ns = time_ns;
	capture->batch[capture->batched++] = (struct limpet_record){.time_ns = capture->last_ns,
								    .address = page,
								    .size = PAGE,
								    .node = node,
								    .thread = tid,
								    .kind = (uint8_t)kind};
	if (capture->batched == BATCH)
		flush(capture);
}

static void read_maps(struct limpet_fault_capture *capture)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	struct limpet_maps maps;

	if (limpet_proc_maps_read(capture->setup->target->pid, &maps) == 0) {
		if (limpet_counted_maps_set(&capture->maps, &maps) == 0)
			capture->maps_are_old = false;
		limpet_fault_stacks_refresh(capture->stacks, &maps);
		limpet_proc_maps_done(&maps);
	}
	capture->maps_next_ns =
		limpet_monotonic_ns() + (limpet_monotonic_ns() - began_ns) * MAPS_SHARE;
}

/* Whether the page of that fault is recorded. What is mapped there may be newer than the list,
 * which is then read again, though not all the time; the next look corrects what was taken wrongly.
 */
static bool is_counted(struct limpet_fault_capture *capture, uint64_t address)
{
	const struct limpet_counted_map *map = limpet_counted_maps_find(&capture->maps, address);

	if ((!map || capture->maps_are_old) && !capture->holds_maps &&
	    limpet_monotonic_ns() >= capture->maps_next_ns) {
		read_maps(capture);
		map = limpet_counted_maps_find(&capture->maps, address);
	}
	/* A file that is mapped privately: most writes make a page of the process's own. */
	return !map || (map->counts && (!map->own || map->writable));
}

static void note_last(struct limpet_fault_capture *capture, uint32_t tid, uint64_t page,
		      uint64_t time_ns)
{
	uint32_t index;

	/* Of threads that have ended, most likely. */
	if (capture->threads.count >= MOST_THREADS)
		limpet_number_table_clear(&capture->threads);
	index = limpet_number_table_of(&capture->threads, tid);
	if (index && limpet_reserve(&capture->last_faults, &capture->last_capacity, index,
				    sizeof(*capture->last_faults)) == 0)
		capture->last_faults[index - 1] = (struct last_fault){page, time_ns};
}

static void handle_fault(struct limpet_fault_capture *capture,
			 const struct limpet_fault_record *fault)
{
	const uint64_t page = fault->address & ~(uint64_t)(PAGE - 1);
	uint64_t time_ns = 0;
	uint32_t node;
	int was_there;

	if (fault->pid != (uint32_t)capture->setup->target->pid || !page ||
	    !is_counted(capture, page))
		return;
	/* It is there at the beginning. */
	if (!capture->begun) {
		capture->no_room |=
			limpet_page_set_touch(capture->set, page, 0, fault->time_ns) < 0;
		return;
	}
	capture->faults++;
	if (fault->time_ns > capture->begin_ns)
		time_ns = fault->time_ns - capture->begin_ns;
	node = limpet_fault_stacks_node(capture->stacks, fault, &capture->maps);
	note_last(capture, fault->tid, page, fault->time_ns);
	was_there = limpet_page_set_touch(capture->set, page, node, fault->time_ns);
	if (was_there < 0) {
		capture->no_room = true;
		return;
	}
	/* Before the beginning: the page is among those that are there at the beginning. */
	if (was_there && (!time_ns || capture->faults_on_hand))
		return;
	if (was_there)
		record(capture, LIMPET_EVENT_FREE, page, 0, fault->tid, time_ns);
	record(capture, LIMPET_EVENT_ALLOC, page, node, fault->tid, time_ns);
}

/* Reads what was recorded up to now. Returns the number of faults. Those after an exec are of
 * another program. */
static uint64_t drain(struct limpet_fault_capture *capture)
{
	const uint64_t before = capture->faults;
	struct limpet_fault_record fault;
	int got;

	limpet_fault_events_refresh(capture->events);
	while ((got = limpet_fault_events_next(capture->events, &fault)) != 0) {
		if (got < 0) {
			capture->broken++;
			continue;
		}
		switch (fault.kind) {
		case LIMPET_FAULT_TAKEN:
			if (!capture->executed)
				handle_fault(capture, &fault);
			break;
		case LIMPET_FAULT_LOST:
			if (capture->begun)
				capture->lost += fault.lost;
			break;
		case LIMPET_FAULT_CODE:
		case LIMPET_FAULT_MAPPED:
			capture->maps_are_old = true;
			break;
		case LIMPET_FAULT_EXEC:
			capture->executed |= fault.pid == (uint32_t)capture->setup->target->pid;
			break;
		case LIMPET_FAULT_OTHER:
			break;
		}
	}
	flush(capture);
	return capture->faults - before;
}

/* ---------------------------------------------------------------- looks at the pages */

static void note_gone(void *context, uint64_t page)
{
	struct limpet_fault_capture *capture = context;

	if (capture->begun)
		record(capture, LIMPET_EVENT_FREE, page, 0, (uint32_t)capture->setup->target->pid,
		       now_of(capture));
}

static void note_unfaulted(void *context, uint64_t page, uint32_t node)
{
	struct limpet_fault_capture *capture = context;

	if (capture->begun)
		record(capture, LIMPET_EVENT_ALLOC, page,
		       node ?: limpet_fault_stacks_unfaulted(capture->stacks),
		       (uint32_t)capture->setup->target->pid, now_of(capture));
}

/* Faults are read meanwhile: a ring is full after some hundred. */
static int scan_map(struct limpet_fault_capture *capture, struct limpet_pages *pages,
		    const struct limpet_counted_map *map)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];

	for (uint64_t at = map->start; at < map->end;) {
		const int count = limpet_pages_next(pages, at, map->end, map->own, ranges, &at);

		if (count < 0)
			return count;
		for (int i = 0; i < count; i++)
			capture->no_room |= limpet_page_set_present(capture->set, ranges[i].start,
								    ranges[i].end) < 0;
		(void)drain(capture);
	}
	return 0;
}

static int scan(struct limpet_fault_capture *capture)
{
	struct limpet_pages *pages;
	int error = limpet_pages_new(capture->setup->target, LIMPET_PAGES_SCAN, &pages);

	if (error)
		return error;
	limpet_pages_be_exact(pages);
	capture->holds_maps = true;
	for (size_t i = 0; i < capture->maps.count && !error; i++)
		if (capture->maps.list[i].counts)
			error = scan_map(capture, pages, &capture->maps.list[i]);
	capture->holds_maps = false;
	limpet_pages_free(pages);
	return error;
}

static void read_rss(struct limpet_fault_capture *capture)
{
	struct limpet_proc_status status;

	if (limpet_proc_status_read(limpet_proc_resident(capture->setup->target->pid), &status) ==
	    0)
		capture->rss_bytes = status.rss_bytes;
}

static void expect_undone(struct limpet_fault_capture *capture)
{
	const uint64_t now_ns = limpet_monotonic_ns();

	for (size_t i = 0; i < capture->threads.count && i < capture->last_capacity; i++)
		if (now_ns - capture->last_faults[i].time_ns < UNDONE_NS)
			limpet_page_set_expect(capture->set, capture->last_faults[i].page);
}

/* Whether what a look has found is the program's memory. A process that ends has none some time
 * before its pidfd is readable: it has not given that memory back. */
static bool is_the_same(const struct limpet_fault_capture *capture)
{
	return !capture->executed && capture->maps.count && capture->rss_bytes;
}

/* Compares the pages that are present with those that are known. -errno: nothing was learnt;
 * -ESRCH: the process ends, or has executed another program. */
static int scan_pages(struct limpet_fault_capture *capture)
{
	const struct limpet_page_set_changes changes = {note_gone, note_unfaulted, capture};
	const uint64_t began_ns = limpet_monotonic_ns();
	uint64_t known;
	int error;

	(void)drain(capture);
	read_maps(capture);
	limpet_page_set_scan_begin(capture->set, limpet_monotonic_ns());
	error = scan(capture);
	/* Faults of pages that the scan has seen. */
	(void)drain(capture);
	read_rss(capture);
	if (!error && !is_the_same(capture))
		error = -ESRCH;
	if (!error) {
		expect_undone(capture);
		limpet_page_set_scan_end(capture->set, &changes);
		flush(capture);
	}
	known = limpet_page_set_count(capture->set) * PAGE;
	capture->other_bytes = capture->rss_bytes > known ? capture->rss_bytes - known : 0;
	capture->faults_at_scan = capture->faults;
	capture->scanned_ns = limpet_monotonic_ns();
	capture->scan_took_ns = capture->scanned_ns - began_ns;
	return error;
}

/* Far more is recorded than is resident: pages were given back. */
static bool is_too_much(struct limpet_fault_capture *capture)
{
	const uint64_t known = limpet_page_set_count(capture->set) * PAGE + capture->other_bytes;

	read_rss(capture);
	return known >
	       capture->rss_bytes + EARLY_SLACK_BYTES + capture->rss_bytes / EARLY_SLACK_SHARE;
}

static bool scan_is_due(struct limpet_fault_capture *capture, uint64_t now_ns)
{
	const uint64_t since_ns = now_ns - capture->scanned_ns;

	if (since_ns < capture->scan_took_ns * SCAN_SHARE || since_ns < EARLY_SCAN_NS)
		return false;
	if (since_ns >= SCAN_NS)
		return true;
	return capture->faults != capture->faults_at_scan && is_too_much(capture);
}

/* ---------------------------------------------------------------- the stream */

static struct limpet_fault_losses losses_of(const struct limpet_fault_capture *capture)
{
	return (struct limpet_fault_losses){
		.lost = capture->lost,
		.may_have_lost = capture->may_have_lost,
		.broken = capture->broken,
		.partial = limpet_fault_events_are_partial(capture->events),
		.stacks = limpet_fault_stacks_lost(capture->stacks),
		.no_room = capture->no_room,
	};
}

static void fill_tick(struct limpet_fault_capture *capture, struct limpet_recorder_tick *ret)
{
	struct limpet_fault_losses losses;
	struct limpet_proc_status status;

	memset(ret, 0, sizeof(*ret));
	ret->time_ns = now_of(capture);
	if (ret->time_ns < capture->last_ns)
		ret->time_ns = capture->last_ns;
	if (limpet_proc_status_read(limpet_proc_resident(capture->setup->target->pid), &status) ==
	    0) {
		ret->rss_bytes = status.rss_bytes;
		ret->threads = status.threads;
	}
	if (capture->has_cgroup)
		(void)limpet_cgroup_usage(&capture->cgroup, &ret->cgroup_bytes);
	/* The pages of faults that were lost are not: the next look finds them. */
	ret->truncated_stacks = limpet_fault_stacks_truncated(capture->stacks);
	losses = losses_of(capture);
	ret->losses = limpet_loss_if(limpet_fault_losses_any(&losses), LIMPET_LOSS_STACKS);
	if (ret->losses && (capture->unread || capture->no_room))
		ret->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_UNSAID);
}

static void tick(struct limpet_fault_capture *capture)
{
	struct limpet_recorder_tick now;

	fill_tick(capture, &now);
	limpet_trace_session_tick(&capture->trace, &now);
	capture->tick_ns = limpet_monotonic_ns();
}

static void begin_mark(void *context, struct limpet_recorder_tick *ret)
{
	(void)drain(context);
	fill_tick(context, ret);
	/* Times in the trace are in ticks: it is after all that were recorded. */
	ret->time_ns = (ret->time_ns / LIMPET_TRACE_TICK_NS + 1) * LIMPET_TRACE_TICK_NS;
}

/* LIMPET_END_RUNNING: continue. */
static enum limpet_end check_end(struct limpet_fault_capture *capture)
{
	const uint64_t now_ns = limpet_monotonic_ns();
	const enum limpet_end end = limpet_trace_session_poll(
		&capture->trace, now_of(capture), capture->executed, capture->setup->interrupted);

	/* The trace has no limit of its own: that of files (ulimit -f) is room, too. */
	if (end == LIMPET_END_SIZE_LIMIT)
		return LIMPET_END_DISK_FULL;
	if (end != LIMPET_END_RUNNING)
		return end;
	if (scan_is_due(capture, now_ns))
		(void)scan_pages(capture);
	if (now_ns - capture->tick_ns >= TICK_NS) {
		tick(capture);
		if (capture->trace.perf_map_fd < 0)
			limpet_trace_session_open_perf_map(&capture->trace);
	}
	return LIMPET_END_RUNNING;
}

static uint64_t wait_time(const struct limpet_fault_capture *capture)
{
	const uint64_t time_ns = now_of(capture), duration_ns = capture->setup->duration_ns;
	uint64_t wait_ns =
		limpet_monotonic_ns() - capture->event_ns < BUSY_NS ? BUSY_WAIT_NS : IDLE_WAIT_NS;

	if (duration_ns && duration_ns > time_ns && duration_ns - time_ns < wait_ns)
		wait_ns = duration_ns - time_ns;
	return wait_ns;
}

static enum limpet_end stream(struct limpet_fault_capture *capture)
{
	struct pollfd fds[] = {{.fd = capture->setup->target->pidfd, .events = POLLIN},
			       {.fd = limpet_control_fd(capture->trace.control), .events = POLLIN}};

	for (;;) {
		enum limpet_end end;

		if (drain(capture))
			capture->event_ns = limpet_monotonic_ns();
		end = check_end(capture);
		if (end != LIMPET_END_RUNNING)
			return end;
		show(capture);
		(void)limpet_fault_events_wait(capture->events, fds, LIMPET_COUNT_OF(fds),
					       wait_time(capture), capture->setup->wait_mask);
		if (fds[1].revents)
			limpet_control_dispatch(capture->trace.control);
	}
}

/* ---------------------------------------------------------------- beginning and end */

static int open_recorder(struct limpet_fault_capture *capture, struct limpet_err *err)
{
	const struct limpet_fault_capture_setup *setup = capture->setup;
	struct limpet_recorder_options options = {
		.path = setup->output,
		.owner_uid = setup->owner_uid,
		.owner_gid = setup->owner_gid,
		.memory_bytes = setup->memory_bytes,
		.mode = LIMPET_MODE_ATTACH,
		.max_depth = LIMPET_STACK_FRAMES,
		.unseen_rss_share = -1,
		.pages = true,
		.labels = setup->labels,
		.allocators = limpet_fault_events_see_kernel(capture->events)
				      ? "pages by their faults"
				      : "pages by their faults outside of system calls",
	};

	return limpet_trace_session_create(&capture->trace, &options, setup->output_fd,
					   setup->with_command_line, err);
}

/* The pages that are there at the beginning. */
static int begin_pages(struct limpet_fault_capture *capture, struct limpet_err *err)
{
	int error;

	capture->set = limpet_page_set_new(MOST_BLOCKS);
	if (!capture->set)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	limpet_fault_events_start(capture->events);
	error = scan_pages(capture);
	if (error) {
		(void)limpet_proc_explain(capture->setup->target->pid, error,
					  "read the page tables of", err);
		return error == -EACCES || error == -EPERM ? -ENOTSUP : error;
	}
	limpet_fault_events_forget_lost(capture->events);
	capture->begin_ns = limpet_monotonic_ns();
	capture->begun = true;
	return 0;
}

static int begin(struct limpet_fault_capture *capture, struct limpet_err *err)
{
	const struct limpet_fault_capture_setup *setup = capture->setup;
	uint64_t numa_balancing;
	int error = limpet_trace_session_open(&capture->trace, setup->target, err);

	if (error)
		return error;
	error = limpet_fault_events_open(setup->target, &capture->events, err);
	if (error && error != -ENOMEM && error != -ESRCH)
		return -ENOTSUP; /* with the message about what the kernel refuses */
	if (limpet_proc_number_read("sys/kernel/numa_balancing", &numa_balancing) == 0)
		capture->faults_on_hand = numa_balancing != 0;
	if (!error)
		error = open_recorder(capture, err);
	if (!error)
		error = limpet_fault_stacks_new(setup->target, capture->trace.recorder,
						setup->memory_bytes / STACK_MEMORY_SHARE,
						&capture->stacks, err);
	if (error)
		return error;
	capture->has_cgroup = limpet_cgroup_find(setup->target, &capture->cgroup) == 0;
	return begin_pages(capture, err);
}

static void capture_free(struct limpet_fault_capture *capture)
{
	limpet_fault_events_free(capture->events);
	limpet_fault_stacks_free(capture->stacks);
	limpet_page_set_free(capture->set);
	limpet_counted_maps_done(&capture->maps);
	limpet_number_table_done(&capture->threads);
	free(capture->last_faults);
	limpet_trace_session_done(&capture->trace);
	free(capture);
}

/* Faults that no record told of, since none came after them on their processor. */
static void count_untold(struct limpet_fault_capture *capture)
{
	uint64_t lost;

	capture->may_have_lost = limpet_fault_events_untold(capture->events, &lost) != 0;
	capture->lost += lost;
}

static void detach(struct limpet_fault_capture *capture, struct limpet_fault_capture_result *result)
{
	int status;

	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_DETACHING);
	limpet_fault_events_stop(capture->events);
	(void)drain(capture);
	count_untold(capture);
	if (result->end == LIMPET_END_TARGET_EXIT) {
		result->end = limpet_trace_session_exit(&capture->trace, &status);
	} else if (result->end != LIMPET_END_TARGET_EXEC) {
		capture->unread = scan_pages(capture) < 0;
		limpet_trace_session_open_perf_map(&capture->trace);
	}
	capture->end_ns = limpet_monotonic_ns();
}

static void report_losses(const struct limpet_fault_capture *capture,
			  struct limpet_fault_capture_result *result)
{
	const struct limpet_fault_losses losses = losses_of(capture);
	struct limpet_recorder_stats totals;

	if (result->end == LIMPET_END_DISK_FULL)
		limpet_loss_report(result->because, sizeof(result->because), "it ended early: %s",
				   limpet_trace_session_why_early(&capture->trace, result->end));
	limpet_fault_losses_report(&losses, result->because, sizeof(result->because));
	if (limpet_fault_losses_any(&losses) && capture->unread)
		limpet_loss_report(result->because, sizeof(result->because),
				   "the pages could not be read at the end, so what is resident is "
				   "not known");
	limpet_recorder_stats_read(capture->trace.recorder, &totals);
	limpet_trace_session_report_given_up(&totals, result->because, sizeof(result->because));
}

static void close_trace(struct limpet_fault_capture *capture,
			struct limpet_fault_capture_result *result)
{
	struct limpet_recorder_tick last;
	struct limpet_recorder_end end;

	limpet_fault_stacks_identify_modules(capture->stacks);
	fill_tick(capture, &last);
	report_losses(capture, result);
	end = (struct limpet_recorder_end){
		.end = result->end,
		.agent_unloaded = true,
		.attach_stop_us = -1,
		.detach_stop_us = -1,
		.because = result->because,
	};
	result->losses = limpet_trace_session_close(&capture->trace, &last, &end);
	result->complete = limpet_losses_complete(result->losses);
	result->stream_failed = limpet_trace_session_stream_failed(&capture->trace);
	result->saw_kernel = limpet_fault_events_see_kernel(capture->events);
	result->events = capture->trace.last.events;
	result->dropped_events = capture->lost;
	result->file_bytes = capture->trace.last.file_bytes;
	result->duration_ns = last.time_ns;
}

int limpet_fault_capture_run(const struct limpet_fault_capture_setup *setup,
			     struct limpet_fault_capture **ret,
			     struct limpet_fault_capture_result *ret_result, struct limpet_err *err)
{
	struct limpet_fault_capture *capture = calloc(1, sizeof(*capture));
	struct limpet_fault_capture_result result = {.end = LIMPET_END_RUNNING};
	int error;

	if (!capture)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	capture->setup = setup;
	limpet_trace_session_init(&capture->trace, setup->duration_ns, add_status, begin_mark,
				  capture);
	capture->priority = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	error = begin(capture, err);
	limpet_priority_restore(capture->priority);
	if (error) {
		capture_free(capture);
		return error;
	}
	limpet_own_priority_lower(capture->priority);
	tick(capture);
	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_CAPTURING);
	if (setup->started)
		setup->started(setup->context, capture->trace.path);
	result.end = stream(capture);
	detach(capture, &result);
	limpet_priority_set_nice(capture->priority.nice);
	close_trace(capture, &result);
	limpet_trace_session_set_state(&capture->trace, LIMPET_CONTROL_SEALING);
	*ret = capture;
	*ret_result = result;
	return 0;
}

const char *limpet_fault_capture_trace(const struct limpet_fault_capture *capture)
{
	return capture->trace.path;
}

struct limpet_trace_stream *limpet_fault_capture_stream(const struct limpet_fault_capture *capture)
{
	return capture->trace.stream;
}

size_t limpet_fault_capture_sources(const struct limpet_fault_capture *capture,
				    const struct limpet_collector_source **ret)
{
	return limpet_fault_stacks_sources(capture->stacks, ret);
}

int limpet_fault_capture_perf_map(const struct limpet_fault_capture *capture)
{
	return capture->trace.perf_map_fd;
}

void limpet_fault_capture_serve(struct limpet_fault_capture *capture)
{
	limpet_control_dispatch(capture->trace.control);
}

void limpet_fault_capture_finish(struct limpet_fault_capture *capture, enum limpet_exit status)
{
	limpet_control_finish(capture->trace.control, status);
	capture_free(capture);
}
