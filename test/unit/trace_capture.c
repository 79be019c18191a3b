#include "test/unit/trace_capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"

#define BASE 0x7f0000000000ull
#define PAGE_BASE 0x10000000ull
#define PAGE 4096u

static uint64_t below(struct capture *capture, uint64_t limit)
{
	capture->random ^= capture->random << 13;
	capture->random ^= capture->random >> 7;
	capture->random ^= capture->random << 17;
	return capture->random % limit;
}

/* The agent's numbers need not be dense. Each site's stack: main (1), a caller, the leaf. */
uint32_t capture_agent_node(uint32_t site)
{
	return 1000 + site * 7;
}

uint32_t capture_trace_node(uint32_t site)
{
	return 3 + site;
}

static void add_stacks(struct capture *capture)
{
	static const uint8_t build_id[20] = {1, 2, 3, 4};
	struct limpet_recorder_module program = {.start = 0x400000,
						 .end = 0x500000,
						 .bias = 0,
						 .path = "/usr/bin/made-up",
						 .build_id = build_id,
						 .build_id_bytes = sizeof(build_id)};
	struct limpet_recorder_module libc = {.start = BASE,
					      .end = BASE + 0x200000,
					      .bias = BASE,
					      .path = "/lib/libc.so.6",
					      .allocator = true};

	assert_int_equal(limpet_recorder_add_module(capture->recorder, &program), 1);
	assert_int_equal(limpet_recorder_add_module(capture->recorder, &libc), 2);
	assert_int_equal(limpet_recorder_add_node(capture->recorder, 1, 0, 0x401000, 1, false), 0);
	assert_int_equal(limpet_recorder_add_node(capture->recorder, 2, 1, 0x402000, 1, true), 0);
	for (uint32_t i = 0; i < CAPTURE_SITES; i++)
		assert_int_equal(limpet_recorder_add_node(capture->recorder, capture_agent_node(i),
							  1 + i % 2, BASE + 0x1000 + i * 16, 2,
							  false),
				 0);
}

static void begin(struct capture *capture, const char *path, uint64_t memory_bytes, uint64_t seed,
		  bool compact, uint64_t max_bytes, struct limpet_trace_sink *sink)
{
	struct limpet_recorder_options options = {.path = path,
						  .sink = sink,
						  .owner_uid = geteuid(),
						  .owner_gid = getegid(),
						  .memory_bytes = memory_bytes,
						  .mode = LIMPET_MODE_RUN,
						  .pid = 4711,
						  .comm = "made-up",
						  .command = "./made-up",
						  .executable = "/usr/bin/made-up",
						  .start_ticks = 123456,
						  .wall_ns = 1700000000000000000ull,
						  .compact = compact,
						  .max_bytes = max_bytes,
						  .max_depth = 128,
						  .unseen_rss_share = 0.25,
						  .allocators = "glibc 2.36",
						  .container = CAPTURE_CONTAINER,
						  .cgroup_limit_bytes = 1u << 30};
	struct limpet_err err = {0};

	memset(capture, 0, sizeof(*capture));
	capture->random = seed * 0x9E3779B97F4A7C15ull + 1;
	for (uint32_t i = 0; i < CAPTURE_THREADS; i++)
		capture->last_block[i] = -1;
	if (limpet_recorder_open(&options, &capture->recorder, &err) < 0)
		fail_msg("%s", err.message);
	add_stacks(capture);
}

void capture_begin(struct capture *capture, const char *path, uint64_t memory_bytes, uint64_t seed)
{
	begin(capture, path, memory_bytes, seed, false, 0, NULL);
}

void capture_begin_kept(struct capture *capture, const char *path, uint64_t seed, bool compact,
			uint64_t max_bytes)
{
	begin(capture, path, 8u << 20, seed, compact, max_bytes, NULL);
}

void capture_begin_sink(struct capture *capture, struct limpet_trace_sink *sink, uint64_t seed,
			bool compact)
{
	begin(capture, NULL, 8u << 20, seed, compact, 0, sink);
}

/* ------------------------------------------------------------------ what the program does */

static int record_event(struct capture *capture, struct limpet_record event)
{
	event.time_ns = capture->time_ns;
	capture->totals[LIMPET_TOTAL_EVENTS]++;
	return limpet_recorder_add_event(capture->recorder, &event);
}

static int record(struct capture *capture, uint32_t kind, uint32_t thread, uint64_t address,
		  uint64_t size, uint32_t node)
{
	return record_event(capture, (struct limpet_record){.address = address,
							    .size = size,
							    .node = node,
							    .thread = 100 + thread,
							    .kind = (uint8_t)kind});
}

static int take_block(struct capture *capture, uint32_t number, uint32_t thread)
{
	struct capture_block *block = &capture->blocks[number];
	uint32_t site =
		(uint32_t)(below(capture, 4) ? below(capture, 5) : below(capture, CAPTURE_SITES));
	/* few sizes a site, now and then a large one */
	uint64_t size = below(capture, 50) ? site * 24 + below(capture, 3) * 8
					   : 1 + below(capture, 1u << 20);
	struct capture_site *sum = &capture->sites[site];

	*block = (struct capture_block){.live = true,
					.size = size,
					.time_ns = capture->time_ns,
					.site = site,
					.thread = thread};
	capture->totals[LIMPET_TOTAL_ALLOCATIONS]++;
	capture->totals[LIMPET_TOTAL_ALLOCATED_BYTES] += size;
	capture->size_counts[limpet_trace_size_bucket(size)]++;
	capture->live_bytes += size;
	sum->allocations++;
	sum->allocated_bytes += size;
	sum->live++;
	sum->live_bytes += size;
	capture->last_block[thread] = number;
	if (capture->live_bytes > capture->peak_bytes) {
		capture->peak_bytes = capture->live_bytes;
		capture->peak_ns = capture->time_ns;
		for (uint32_t i = 0; i < CAPTURE_SITES; i++) {
			capture->sites[i].peak = capture->sites[i].live;
			capture->sites[i].peak_bytes = capture->sites[i].live_bytes;
		}
	}
	return record(capture, LIMPET_EVENT_ALLOC, thread, BASE + number * 32ull, size,
		      capture_agent_node(site));
}

static int give_block(struct capture *capture, uint32_t number, uint32_t thread)
{
	struct capture_block *block = &capture->blocks[number];
	struct capture_site *sum = &capture->sites[block->site];
	/* Each seventh block goes by a realloc. */
	const bool is_moved = number % 7 == 0;
	bool temporary;

	capture->totals[LIMPET_TOTAL_FREES]++;
	capture->totals[LIMPET_TOTAL_FREED_BYTES] += block->size;
	capture->live_bytes -= block->size;
	sum->frees++;
	sum->freed_bytes += block->size;
	sum->live--;
	sum->live_bytes -= block->size;
	capture->totals[LIMPET_TOTAL_REALLOCATIONS] += is_moved;
	sum->reallocations += is_moved;
	temporary = !is_moved && block->thread == thread &&
		    capture->last_block[thread] == (int64_t)number;
	if (capture->last_block[block->thread] == (int64_t)number)
		capture->last_block[block->thread] = -1;
	if (temporary) {
		capture->totals[LIMPET_TOTAL_TEMPORARY]++;
		sum->temporary++;
	}
	block->live = false;
	return record_event(capture, (struct limpet_record){.address = BASE + number * 32ull,
							    .size = block->size + 8,
							    .thread = 100 + thread,
							    .kind = LIMPET_EVENT_FREE,
							    .temporary = temporary,
							    .realloc = is_moved});
}

static int foreign_free(struct capture *capture, uint32_t thread)
{
	uint64_t size = below(capture, 1000);

	capture->totals[LIMPET_TOTAL_FOREIGN_FREES]++;
	capture->totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += size;
	return record(capture, LIMPET_EVENT_FREE, thread, 0x5550000 + below(capture, 1000) * 16,
		      size, 0);
}

static int map_pages(struct capture *capture, uint32_t thread)
{
	uint64_t first = below(capture, CAPTURE_PAGES);
	uint64_t count = 1 + below(capture, CAPTURE_PAGES - first);
	uint32_t site = (uint32_t)below(capture, 3);

	for (uint64_t page = first; page < first + count; page++) {
		if (capture->page_site[page])
			capture->totals[LIMPET_TOTAL_UNMAPPED_BYTES] += PAGE;
		capture->page_site[page] = site + 1;
	}
	capture->totals[LIMPET_TOTAL_MMAPS]++;
	capture->totals[LIMPET_TOTAL_MMAP_BYTES] += count * PAGE;
	return record(capture, LIMPET_EVENT_MMAP, thread, PAGE_BASE + first * PAGE, count * PAGE,
		      capture_agent_node(site));
}

static int unmap_pages(struct capture *capture, uint32_t thread)
{
	uint64_t first = below(capture, CAPTURE_PAGES);
	uint64_t count = 1 + below(capture, CAPTURE_PAGES - first);

	for (uint64_t page = first; page < first + count; page++) {
		capture->totals[capture->page_site[page] ? LIMPET_TOTAL_UNMAPPED_BYTES
							 : LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] +=
			PAGE;
		capture->page_site[page] = 0;
	}
	capture->totals[LIMPET_TOTAL_MUNMAPS]++;
	return record(capture, LIMPET_EVENT_MUNMAP, thread, PAGE_BASE + first * PAGE, count * PAGE,
		      0);
}

static int step(struct capture *capture)
{
	uint32_t thread = (uint32_t)below(capture, CAPTURE_THREADS);
	uint32_t number = (uint32_t)below(capture, CAPTURE_BLOCKS);
	uint64_t what = below(capture, 100);

	capture->time_ns += below(capture, 30000) * (capture->slower ? capture->slower : 1);
	if (what == 0)
		return map_pages(capture, thread);
	if (what == 1)
		return unmap_pages(capture, thread);
	if (what < 6)
		return foreign_free(capture, thread);
	/* some blocks are freed at once: temporary */
	if (what < 30 && capture->last_block[thread] >= 0)
		return give_block(capture, (uint32_t)capture->last_block[thread], thread);
	if (capture->blocks[number].live)
		return give_block(capture, number, thread);
	return take_block(capture, number, thread);
}

int capture_run(struct capture *capture, uint64_t events, uint64_t tick_events)
{
	for (uint64_t i = 0; i < events; i++) {
		int code = step(capture);

		if (code == 0 && tick_events && i % tick_events == tick_events - 1)
			code = capture_tick(capture);
		if (code < 0)
			return code;
	}
	return 0;
}

static struct limpet_recorder_tick tick_of(struct capture *capture)
{
	capture->ticks++;
	return (struct limpet_recorder_tick){
		.time_ns = capture->time_ns,
		.rss_bytes = 1000000 + capture->ticks,
		/* unknown now and then */
		.cgroup_bytes = capture->ticks % 3 ? 2000000 + capture->ticks : 0,
		.dropped_events = 0,
		.truncated_stacks = capture->ticks};
}

int capture_tick(struct capture *capture)
{
	struct limpet_recorder_tick tick = tick_of(capture);

	return limpet_recorder_tick(capture->recorder, &tick);
}

/* Of nodes that are there, and of one that is not. */
static struct limpet_leak_site_counts leak_sites[] = {
	{.node = 1, .amounts.of[LIMPET_LEAK_DEFINITELY] = {3, 300}},
	{.node = 2,
	 .amounts.of[LIMPET_LEAK_REACHABLE] = {4, 400},
	 .holder = "sessions (server.c:31)",
	 .held_bytes = 500},
	{.node = 1u << 31, .amounts.of[LIMPET_LEAK_PROBABLY] = {1, 1ull << 60}}};
static const struct limpet_leak_counts leaks = {.known = true,
						.unjudged = 7,
						.stop_ns = 12345678,
						.amounts.of[LIMPET_LEAK_DEFINITELY] = {3, 300},
						.amounts.of[LIMPET_LEAK_PROBABLY] = {1, 1ull << 60},
						.amounts.of[LIMPET_LEAK_REACHABLE] = {4, 400},
						.sites = leak_sites,
						.count = LIMPET_COUNT_OF(leak_sites)};

int capture_finish(struct capture *capture, enum limpet_end end, bool complete)
{
	struct limpet_recorder_tick tick = tick_of(capture);
	struct limpet_recorder_end last = {.end = end,
					   .time_ns = capture->time_ns + 5,
					   .losses = complete ? 0
							      : LIMPET_LOSS_BIT(LIMPET_LOSS_SLOTS),
					   .agent_unloaded = true,
					   .attach_stop_us = 333,
					   .detach_stop_us = -1,
					   .agent_memory_bytes = 1u << 20,
					   .leaks = &leaks};
	int code = limpet_recorder_finish(capture->recorder, &tick, &last);

	limpet_recorder_free(capture->recorder);
	capture->recorder = NULL;
	return code;
}
