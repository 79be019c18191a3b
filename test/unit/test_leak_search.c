/* The search for lost blocks at the end of a capture, in a child whose memory is known: what is
 * freed or made while it runs counts as neither lost nor reachable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/capture/leak_search.h"
#include "common/wire.h"
#include "injector/proc/target_process.h"
#include "test/unit/trace_fixture.h"

#define ROOM ((size_t)1 << 16)
#define BLOCK_BYTES 64u

/* Of the child: blocks at multiples of 256 bytes, and the only words that point to them. */
static char *blocks;
static void **roots;

enum { HELD = 1, LOST, FREED, REUSED, BY_LOST, MADE };

static uint64_t block(unsigned number)
{
	return (uint64_t)(uintptr_t)blocks + 256 * number;
}

static void *map(void)
{
	void *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(memory, 0, ROOM);
	return memory;
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void add(struct limpet_recorder *recorder, enum limpet_event_type kind, unsigned number,
		uint64_t time_ms)
{
	const struct limpet_record event = {.time_ns = time_ms * 1000000,
					    .address = block(number),
					    .size = BLOCK_BYTES,
					    .node = number,
					    .thread = 1,
					    .kind = (uint8_t)kind};

	assert_int_equal(limpet_recorder_add_event(recorder, &event), 0);
}

static const struct limpet_leak_site_counts *site_of(const struct limpet_leak_counts *counts,
						     uint32_t node)
{
	for (size_t i = 0; i < counts->count; i++)
		if (counts->sites[i].node == node)
			return &counts->sites[i];
	fail_msg("no site %u", node);
	return NULL;
}

static void expect_lost(const struct limpet_leak_counts *counts, uint32_t node,
			uint64_t blocks_lost)
{
	const struct limpet_leak_site_counts *site = site_of(counts, node);
	const struct limpet_leak_amount lost = limpet_leak_amounts_lost(&site->amounts);

	assert_int_equal(lost.blocks, blocks_lost);
	assert_int_equal(lost.bytes, blocks_lost * BLOCK_BYTES);
	assert_int_equal(site->amounts.of[LIMPET_LEAK_REACHABLE].blocks, 1 - blocks_lost);
}

static void wait_for(struct limpet_leak_search *search)
{
	struct pollfd end = {.fd = limpet_leak_search_fd(search), .events = POLLIN};

	assert_int_equal(poll(&end, 1, 120000), 1);
	assert_true(limpet_leak_search_has_ended(search));
}

static void test_what_changes_meanwhile(void **state)
{
	const struct limpet_recorder_options options = trace_options("lost");
	struct limpet_recorder *recorder = trace_record(&options);
	const struct limpet_recorder_tick tick = {.time_ns = 100000000};
	struct limpet_leak_search *search = NULL;
	struct limpet_leak_counts counts;
	struct limpet_target target;
	pid_t pid;

	(void)state;
	blocks = map();
	roots = map();
	roots[7] = (void *)(uintptr_t)block(HELD);
	*(void **)(uintptr_t)(block(LOST) + 32) = (void *)(uintptr_t)block(BY_LOST);
	pid = start_child();
	assert_int_equal(limpet_target_open(pid, &target, NULL), 0);
	for (unsigned number = HELD; number <= BY_LOST; number++) {
		assert_int_equal(limpet_recorder_add_node(recorder, number, 0, number, 0, false),
				 0);
		add(recorder, LIMPET_EVENT_ALLOC, number, number);
	}
	assert_int_equal(limpet_recorder_add_node(recorder, MADE, 0, MADE, 0, false), 0);
	assert_int_equal(limpet_leak_search_begin(&target, recorder, NULL, &search), 0);
	wait_for(search);
	add(recorder, LIMPET_EVENT_FREE, FREED, 10);
	add(recorder, LIMPET_EVENT_FREE, REUSED, 11);
	add(recorder, LIMPET_EVENT_ALLOC, REUSED, 12);
	add(recorder, LIMPET_EVENT_ALLOC, MADE, 13);
	assert_int_equal(limpet_leak_search_count(search, recorder, &counts), 0);
	assert_true(counts.known);
	assert_int_equal(counts.unjudged, 2);
	assert_int_equal(counts.count, 3);
	expect_lost(&counts, HELD, 0);
	expect_lost(&counts, LOST, 1);
	expect_lost(&counts, BY_LOST, 1);
	assert_int_equal(limpet_leak_amounts_lost(&counts.amounts).blocks, 2);
	free(counts.sites);
	limpet_leak_search_free(search);
	trace_finish(recorder, &tick);
	limpet_target_close(&target);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(blocks, ROOM);
	munmap(roots, ROOM);
}

/* It ends before the search has begun, or in it: nothing is known. */
static void test_a_program_that_ends(void **state)
{
	const struct limpet_recorder_options options = trace_options("gone");
	struct limpet_recorder *recorder = trace_record(&options);
	const struct limpet_recorder_tick tick = {.time_ns = 100000000};
	struct limpet_leak_search *search = NULL;
	struct limpet_leak_counts counts;
	struct limpet_target target;
	pid_t pid = start_child();

	(void)state;
	assert_int_equal(limpet_target_open(pid, &target, NULL), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(limpet_leak_search_begin(&target, recorder, NULL, &search), 0);
	wait_for(search);
	assert_int_equal(limpet_leak_search_count(search, recorder, &counts), 0);
	assert_false(counts.known);
	assert_int_equal(counts.count, 0);
	limpet_leak_search_free(search);
	trace_finish(recorder, &tick);
	limpet_target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_changes_meanwhile),
		cmocka_unit_test(test_a_program_that_ends),
	};

	return cmocka_run_group_tests(tests, trace_enter_directory, trace_leave_directory);
}
