/* The collector: what lies in the shared memory comes through once and in order, and whatever else
 * lies there does no harm. The target of the tests with made-up contents is a child that sleeps,
 * and their clocks are moved by hand; in the last one it is this process itself, with the agent's
 * own hooks writing.
 *
 * time-limit: 180 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/recorder.h"
#include "collector/stream/collector.h"
#include "collector/stream/reorder.h"
#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"
#include "test/unit/agent_fixture.h"
#include "test/unit/clock_fixture.h"

#define MEMORY_BYTES (8u << 20)
#define DATA_BYTES (LIMPET_CHUNK_BYTES - sizeof(struct limpet_chunk))
#define RECORDS_PER_CHUNK (DATA_BYTES / 24)

static struct {
	pid_t child;
	char directory[64], path[96];
	struct limpet_tracer *tracer;
	struct limpet_target target;
	struct limpet_session *session;
	struct limpet_recorder *recorder;
	struct limpet_collector *collector;
	struct agent_fixture memory; /* for its accessors: no agent is started */
	uint32_t offsets[64];        /* written bytes of the chunks */
	uint32_t numbers[LIMPET_ORDER_COUNTERS];
	uint64_t temporary, reallocs; /* records that said so */
	uint32_t stacks[256];         /* nodes of the first records */
	uint64_t events, last_ns;
} it;

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

/* ------------------------------------------------------------------ time */

#define MS 1000000ull
/* Whether the clock goes by itself. */
static bool real_time;

int __real_limpet_recorder_add_events(struct limpet_recorder *recorder,
				      struct limpet_record *records, size_t count);
int __wrap_limpet_recorder_add_events(struct limpet_recorder *recorder,
				      struct limpet_record *records, size_t count);
int __wrap_limpet_recorder_add_events(struct limpet_recorder *recorder,
				      struct limpet_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		it.temporary += records[i].temporary;
		it.reallocs += records[i].realloc;
		it.last_ns = records[i].time_ns;
		it.stacks[it.events++ % LIMPET_COUNT_OF(it.stacks)] = records[i].node;
	}
	return __real_limpet_recorder_add_events(recorder, records, count);
}

/* ------------------------------------------------------------------ another pid namespace */

/* The target's own numbers of its threads are as much higher; 0: it is in our namespace. */
static uint32_t tids_differ_by;
/* At the next read the process has the same number inside as outside; its threads have not. */
static bool leader_looks_alike;
/* This read of a status from here on fails once with `status_error`; 0: none. */
static unsigned status_fails_at;
static int status_error;

int __real_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret);
int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret);
int __wrap_limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret)
{
	int answer = status_fails_at && !--status_fails_at
			     ? status_error
			     : __real_limpet_proc_status_read(pid, ret);

	if (!answer) {
		ret->other_pid_ns = tids_differ_by;
		ret->ns_pid += leader_looks_alike ? 0 : (pid_t)tids_differ_by;
	}
	leader_looks_alike = false;
	return answer;
}

/* ------------------------------------------------------------------ a capture without an agent */

static pid_t start_sleeper(void)
{
	pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static void open_capture(pid_t pid, uint64_t memory_bytes)
{
	const struct limpet_capture_config options = {.agent_memory_bytes = memory_bytes,
						      .attach_timeout_ns = 1000000000};
	struct limpet_recorder_options record = {.path = it.path,
						 .owner_uid = getuid(),
						 .owner_gid = getgid(),
						 .memory_bytes = 64u << 20,
						 .mode = LIMPET_MODE_ATTACH,
						 .pid = pid,
						 .comm = "sleeper",
						 .command = "sleeper",
						 .executable = "/bin/sleeper",
						 .max_depth = 256,
						 .unseen_rss_share = -1,
						 .allocators = "none"};
	struct limpet_err err = {.code = 0};
	int answer = limpet_target_open(pid, &it.target, &err);

	if (!answer)
		answer = limpet_tracer_new(&it.tracer);
	if (!answer)
		answer = limpet_session_prepare(it.tracer, &it.target, &options, NULL, &it.session,
						&err);
	if (answer)
		fail_msg("%s", err.message);
	strcpy(it.directory, "/tmp/limpet-collector-XXXXXX");
	assert_non_null(mkdtemp(it.directory));
	snprintf(it.path, sizeof(it.path), "%s/trace", it.directory);
	answer = limpet_recorder_open(&record, &it.recorder, &err);
	if (answer)
		fail_msg("%s", err.message);
	it.memory.segment = limpet_session_segment(it.session);
	it.memory.shm = it.memory.segment->shm;
	it.memory.shm->max_depth = 256;
	assert_int_equal(limpet_collector_new(it.session, it.recorder, &it.collector), 0);
}

static void close_capture(void)
{
	limpet_collector_free(it.collector);
	limpet_recorder_free(it.recorder);
	limpet_session_free(it.session);
	limpet_tracer_free(it.tracer);
	limpet_target_close(&it.target);
	unlink(it.path);
	rmdir(it.directory);
}

static int begin(void **state)
{
	(void)state;
	memset(&it, 0, sizeof(it));
	it.child = start_sleeper();
	open_capture(it.child, MEMORY_BYTES);
	limpet_collector_begin(it.collector);
	return 0;
}

static int end(void **state)
{
	(void)state;
	close_capture();
	kill(it.child, SIGKILL);
	assert_int_equal(waitpid(it.child, NULL, 0), it.child);
	return 0;
}

static struct limpet_recorder_stats figures(void)
{
	struct limpet_recorder_stats stats;

	limpet_recorder_stats_read(it.recorder, &stats);
	return stats;
}

static struct limpet_recorder_tick losses(void)
{
	struct limpet_recorder_tick tick;

	limpet_collector_fill_tick(it.collector, &tick);
	return tick;
}

/* ------------------------------------------------------------------ writing as the agent does */

static void claim(uint32_t thread, uint32_t tid, uint32_t first_chunk)
{
	struct limpet_thread *entry = fixture_thread(&it.memory, thread);

	entry->tid = tid;
	entry->generation++;
	entry->first_chunk = first_chunk;
	it.memory.shm->states_used[thread / 64] |= 1ull << thread % 64;
	__atomic_store_n(&entry->thread_pointer, 0x7f0000001000 + thread * 4096ull,
			 __ATOMIC_RELEASE);
}

static void open_chunk(uint32_t chunk, uint32_t thread, uint32_t tid, uint64_t sequence)
{
	struct limpet_chunk *head = fixture_chunk(&it.memory, chunk);

	memset(head, 0, sizeof(*head));
	head->thread = thread;
	head->generation = fixture_thread(&it.memory, thread)->generation;
	head->tid = tid;
	head->sequence = sequence;
	it.offsets[chunk] = 0;
	fixture_chunk_map(&it.memory)[(chunk - 1) / 64] &= ~(1ull << ((chunk - 1) % 64));
}

static bool is_free(uint32_t chunk)
{
	return fixture_chunk_map(&it.memory)[(chunk - 1) / 64] >> ((chunk - 1) % 64) & 1;
}

static void put_words(uint32_t chunk, const uint64_t *words, uint32_t count)
{
	struct limpet_chunk *head = fixture_chunk(&it.memory, chunk);

	assert_true(it.offsets[chunk] + count * 8 <= DATA_BYTES);
	memcpy((uint8_t *)(head + 1) + it.offsets[chunk], words, count * 8);
	it.offsets[chunk] += count * 8;
	__atomic_store_n(&head->committed, it.offsets[chunk], __ATOMIC_RELEASE);
}

static uint64_t first_word(uint32_t type, uint32_t number)
{
	return (uint64_t)number << 32 | (it.memory.shm->time & LIMPET_TIME_MASK) << 8 | type;
}

static void put_numbered(uint32_t chunk, uint32_t type, uint32_t number, uint64_t address,
			 uint64_t size, uint32_t node)
{
	bool wide = size > UINT32_MAX;
	const uint64_t words[] = {first_word(type | (wide ? LIMPET_EVENT_WIDE : 0), number),
				  LIMPET_HIDDEN(address), wide ? size : (uint64_t)node << 32 | size,
				  node};

	put_words(chunk, words, wide ? 4 : 3);
}

/* As a thread takes it. */
static uint32_t take_number(uint32_t type, uint64_t address)
{
	return it.numbers[limpet_order_counter(LIMPET_EVENT_KIND(type), address)]++;
}

static void put(uint32_t chunk, uint32_t type, uint64_t address, uint64_t size, uint32_t node)
{
	put_numbered(chunk, type, take_number(type, address), address, size, node);
}

/* A description, as the agent writes it. */
static void put_stack(uint32_t chunk, uint32_t number, uint32_t shared, uint32_t flags,
		      const uint64_t *frames, uint32_t count)
{
	uint64_t words[LIMPET_STACK_WORDS + 8] = {(uint64_t)number << 32 | count << 8 |
							  LIMPET_EVENT_STACK,
						  (uint64_t)flags << 32 | shared};

	memcpy(words + LIMPET_STACK_HEAD_WORDS, frames, count * sizeof(*frames));
	put_words(chunk, words, limpet_stack_bytes(count) / 8);
	fixture_chunk(&it.memory, chunk)->describes = 1;
}
#define STACK(chunk, number, shared, flags, ...)                                 \
	put_stack(chunk, number, shared, flags, (const uint64_t[]){__VA_ARGS__}, \
		  sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void link_chunks(uint32_t from, uint32_t to)
{
	__atomic_store_n(&fixture_chunk(&it.memory, from)->next, to, __ATOMIC_RELEASE);
}

/* So many events are in the accounting after it, and no more. */
static void drain_to(uint64_t events)
{
	assert_true(limpet_collector_drain(it.collector) >= 0);
	assert_int_equal(figures().events, events);
}

static void claim_two(void)
{
	for (uint32_t thread = 0; thread < 2; thread++) {
		claim(thread, (uint32_t)it.child, 1 + thread);
		open_chunk(1 + thread, thread, (uint32_t)it.child, 0);
	}
}

/* ------------------------------------------------------------------ what comes through */

static void test_chains_of_two_threads(void **state)
{
	(void)state;
	for (uint32_t thread = 0; thread < 2; thread++) {
		claim(thread, (uint32_t)it.child, 1 + thread * 10);
		for (uint32_t k = 0; k < 4; k++) {
			uint32_t chunk = 1 + thread * 10 + k;

			open_chunk(chunk, thread, (uint32_t)it.child, k);
			for (uint32_t i = 0; i < 100; i++)
				put(chunk, LIMPET_EVENT_ALLOC,
				    0x1000 + 16ull * (thread * 1000 + k * 100 + i),
				    i == 50 ? 1ull << 33 : 10, 0);
			if (k)
				link_chunks(chunk - 1, chunk);
		}
	}
	drain_to(800);
	assert_int_equal(figures().allocations, 800);
	assert_int_equal(figures().live_bytes, 792 * 10 + (8ull << 33));
	/* What was read to its end went back; the last one is still being written. */
	for (uint32_t chunk = 1; chunk <= 13; chunk++)
		if (chunk <= 4 || chunk >= 11)
			assert_int_equal(is_free(chunk), chunk != 4 && chunk != 14);
	assert_false(is_free(14));
	/* What comes later is seen later. */
	put(4, LIMPET_EVENT_FREE, 0x1000, 10, 0);
	drain_to(801);
	assert_int_equal(figures().live_allocations, 799);
	assert_int_equal(losses().dropped_events, 0);
}

/* A free on one thread and the next allocation of its address on another, read in either order. */
static void test_streams_are_ordered_by_number(void **state)
{
	(void)state;
	claim_two();
	for (uint32_t round = 0; round < 50; round++) {
		uint32_t first = round % 2, second = !first;

		put(1 + first, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
		put(1 + second, LIMPET_EVENT_FREE, 0x5000, 7, 0);
		put(1 + first, LIMPET_EVENT_ALLOC, 0x5000, 9, 0);
		put(1 + second, LIMPET_EVENT_FREE, 0x5000, 9, 0);
		drain_to(4 * (round + 1));
		assert_int_equal(figures().live_allocations, 0);
	}
	assert_int_equal(figures().foreign_frees, 0);
	assert_int_equal(figures().frees, 100);
}

/* ------------------------------------------------------------------ blocks freed at once */

/* As the agent marks the last record. */
static void mark_last(uint32_t chunk)
{
	uint8_t *data = (uint8_t *)(fixture_chunk(&it.memory, chunk) + 1);
	uint64_t *word = (uint64_t *)(void *)(data + it.offsets[chunk] - 24);

	*word |= LIMPET_EVENT_FREED;
	take_number(LIMPET_EVENT_FREE, word[1]);
}

static void assert_all_freed_at_once(uint64_t count)
{
	assert_int_equal(figures().allocations, count);
	assert_int_equal(figures().frees, count);
	assert_int_equal(figures().live_allocations, 0);
	assert_int_equal(figures().foreign_frees, 0);
	assert_int_equal(losses().dropped_events, 0);
}

/* Before the record is read; after; and twice in turn, with nothing between. */
static void test_marked_records(void **state)
{
	(void)state;
	claim_two();
	put(1, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	mark_last(1);
	drain_to(2);
	put(1, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	drain_to(3);
	assert_int_equal(figures().live_allocations, 1);
	mark_last(1);
	drain_to(4);
	drain_to(4);
	assert_all_freed_at_once(2);
	put(1, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	drain_to(5);
	mark_last(1);
	put(1, LIMPET_EVENT_ALLOC, 0x6000, 7, 0);
	mark_last(1);
	drain_to(8);
	assert_all_freed_at_once(4);
}

/* The mark comes after the record was read, and the chunk is full: it is read once more. */
static void test_marked_at_the_end_of_a_chunk(void **state)
{
	(void)state;
	claim_two();
	put(1, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	drain_to(1);
	mark_last(1);
	open_chunk(3, 0, (uint32_t)it.child, 1);
	put(3, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	link_chunks(1, 3);
	drain_to(3);
	mark_last(3);
	drain_to(4);
	assert_all_freed_at_once(2);
	assert_true(is_free(1));
}

/* Another thread has got the block since, and is read first. */
static void test_marked_after_a_later_number_was_read(void **state)
{
	struct limpet_thread *first;

	(void)state;
	claim_two();
	first = fixture_thread(&it.memory, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
	drain_to(1);
	first->intent = limpet_order_of_block(0x5000) + 1;
	take_number(LIMPET_EVENT_FREE, 0x5000);
	put(2, LIMPET_EVENT_ALLOC, 0x5000, 9, 0);
	drain_to(1);
	it.numbers[limpet_order_of_block(0x5000)]--;
	mark_last(1);
	first->intent = 0;
	drain_to(3);
	assert_int_equal(figures().live_bytes, 9);
	mark_last(2);
	drain_to(4);
	assert_all_freed_at_once(2);
}

/* More of one thread than is read at a time: what others did to its blocks after the part that is
 * left waits for it. */
static void test_a_thread_that_is_far_ahead(void **state)
{
	const uint32_t chunks = 50;

	(void)state;
	for (uint32_t i = 0; i < chunks; i++) {
		open_chunk(1 + i, 0, (uint32_t)it.child, i);
		put(1 + i, i % 2 ? LIMPET_EVENT_FREE : LIMPET_EVENT_ALLOC, 0x5000, 7, 0);
		if (i)
			link_chunks(i, 1 + i);
	}
	open_chunk(60, 1, (uint32_t)it.child, 0);
	put(60, LIMPET_EVENT_ALLOC, 0x5000, 9, 0);
	claim(0, (uint32_t)it.child, 1);
	claim(1, (uint32_t)it.child, 60);
	assert_true(limpet_collector_drain(it.collector) >= 0);
	assert_in_range(figures().events, 1, chunks - 1);
	assert_true(limpet_collector_has_more(it.collector));
	drain_to(chunks + 1);
	assert_false(limpet_collector_has_more(it.collector));
	assert_int_equal(figures().foreign_frees, 0);
	assert_int_equal(figures().frees, chunks / 2);
	assert_int_equal(figures().live_bytes, 9);
}

static void set_intent(uint32_t *intent, uint64_t address)
{
	__atomic_store_n(intent, address ? limpet_order_of_block(address) + 1 : 0,
			 __ATOMIC_RELEASE);
}

/* A number that a thread has taken is waited for until its record comes, or for five seconds. The
 * events of other addresses go on. */
static void wait_for_intent(uint32_t *intent, uint64_t address)
{
	const uint64_t before = figures().events, late = limpet_collector_late_events(it.collector);
	uint32_t number = take_number(LIMPET_EVENT_ALLOC, address);

	set_intent(intent, address);
	put(2, LIMPET_EVENT_FREE, address, 1, 0);
	put(2, LIMPET_EVENT_ALLOC, address + 0x1000, 1, 0);
	for (unsigned i = 0; i < 1000; i++) {
		drain_to(before + 1);
		clock_fixture_move(4 * MS);
	}
	put_numbered(1, LIMPET_EVENT_ALLOC, number, address, 1, 0);
	set_intent(intent, 0);
	drain_to(before + 3);
	assert_int_equal(figures().foreign_frees, late);

	number = take_number(LIMPET_EVENT_ALLOC, address);
	set_intent(intent, address);
	put(2, LIMPET_EVENT_FREE, address, 1, 0);
	drain_to(before + 3);
	drain_to(before + 3);
	clock_fixture_move(LIMPET_REORDER_PATIENCE_NS);
	drain_to(before + 3);
	clock_fixture_move(1);
	drain_to(before + 4);
	assert_int_equal(limpet_collector_late_events(it.collector), late);
	/* What comes after all is late, and is not lost. */
	put_numbered(1, LIMPET_EVENT_ALLOC, number, address, 1, 0);
	set_intent(intent, 0);
	drain_to(before + 5);
	assert_int_equal(limpet_collector_late_events(it.collector), late + 1);
}

static void test_a_number_that_is_taken_is_waited_for(void **state)
{
	(void)state;
	claim_two();
	wait_for_intent(&fixture_thread(&it.memory, 0)->intent, 0x100000);
	wait_for_intent(&fixture_thread(&it.memory, 0)->held_intent, 0x200000);
}

/* Its thread was killed, or left the hook by longjmp. */
static void test_a_number_that_nobody_has_is_not_waited_for(void **state)
{
	(void)state;
	claim_two();
	(void)take_number(LIMPET_EVENT_ALLOC, 0x1000);
	put(2, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	drain_to(0);
	drain_to(1);
	assert_int_equal(limpet_collector_late_events(it.collector), 0);
}

static void test_a_call_that_failed_leaves_no_gap(void **state)
{
	(void)state;
	claim_two();
	put_numbered(1, LIMPET_EVENT_VOID, take_number(LIMPET_EVENT_FREE, 0x1000),
		     limpet_order_of_block(0x1000), 0, 0);
	put(2, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	drain_to(1);
	assert_int_equal(losses().dropped_events, 0);
}

/* So many records wait at most. */
static void test_too_many_wait(void **state)
{
	const unsigned most = 10;
	uint32_t number = take_number(LIMPET_EVENT_ALLOC, 0x1000);

	(void)state;
	claim_two();
	limpet_collector_set_most_kept(it.collector, most);
	set_intent(&fixture_thread(&it.memory, 0)->intent, 0x1000);
	for (unsigned i = 0; i < most; i++)
		put(2, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	drain_to(0);
	put(2, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	drain_to(most + 1);
	put_numbered(1, LIMPET_EVENT_ALLOC, number, 0x1000, 1, 0);
	drain_to(most + 2);
	assert_int_equal(limpet_collector_late_events(it.collector), 1);
}

/* Freed by its own thread before that made another; the order in which threads are read does not
 * matter. */
static void test_temporary_allocations(void **state)
{
	(void)state;
	claim_two();
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	put(2, LIMPET_EVENT_ALLOC, 0x2000, 1, 0);
	put(1, LIMPET_EVENT_FREE, 0x1000, 1, 0); /* temporary */
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x3000, 1, 0);
	put(1, LIMPET_EVENT_FREE, 0x1000, 1, 0); /* another one came between */
	put(1, LIMPET_EVENT_FREE, 0x2000, 1, 0); /* another thread's */
	put(1, LIMPET_EVENT_FREE, 0x3000, 1, 0); /* temporary */
	drain_to(8);
	assert_int_equal(it.temporary, 2);
}

/* A free by a realloc is never temporary, and the mark is no part of the stack's number. */
static void test_reallocs(void **state)
{
	(void)state;
	claim_two();
	STACK(1, 1, 0, 0, 0x3000);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 1);
	put(1, LIMPET_EVENT_FREE, 0x1000, 1, LIMPET_EVENT_REALLOC);
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 1ull << 33, LIMPET_EVENT_REALLOC | 1);
	put(1, LIMPET_EVENT_FREE, 0x2000, 1ull << 33, LIMPET_EVENT_REALLOC);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 3, LIMPET_EVENT_REALLOC | 1);
	put(1, LIMPET_EVENT_FREE, 0x1000, 3, 0); /* temporary */
	drain_to(6);
	assert_int_equal(it.reallocs, 4);
	assert_int_equal(it.temporary, 1);
	assert_int_not_equal(it.stacks[0], 0);
	assert_int_equal(it.stacks[2], it.stacks[0]);
	assert_int_equal(it.stacks[4], it.stacks[0]);
	assert_int_equal(figures().live_bytes, 0);
}

/* What was recorded before and is read later is in the trace; of what comes after, the order is
 * kept account of, so that nothing is waited for. */
static void test_what_comes_after_the_end_is_not_in_the_trace(void **state)
{
	uint64_t end_ns;

	(void)state;
	claim_two();
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	limpet_collector_end(it.collector);
	end_ns = limpet_collector_time_ns(it.collector);
	clock_fixture_move(1000000000);
	put(2, LIMPET_EVENT_FREE, 0x1000, 1, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	limpet_collector_drain(it.collector);
	put(2, LIMPET_EVENT_ALLOC, 0x2000, 1, 0);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	assert_int_equal(figures().events, 1);
	assert_int_equal(figures().live_bytes, 1);
	assert_int_equal(limpet_collector_late_events(it.collector), 0);
	assert_int_equal(limpet_collector_time_ns(it.collector), end_ns);
}

/* A realloc was under way at the end, and its block has another owner, or has not. */
static void test_a_block_that_was_moved_across_the_end(void **state)
{
	const uint32_t moved = LIMPET_EVENT_FREE | LIMPET_EVENT_IF_REUSED;
	uint32_t before;

	(void)state;
	claim_two();
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 10, 0);
	before = it.memory.shm->time;
	put(2, moved, 0x1000, 1, 0);
	put(2, moved, 0x2000, 10, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x3000, 1000, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 100, 0);
	limpet_collector_end(it.collector);
	assert_int_not_equal(it.memory.shm->time, before);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	assert_int_equal(figures().events, 5);
	assert_int_equal(figures().live_bytes, 10 + 100 + 1000);
}

static void test_the_rest_when_nobody_writes(void **state)
{
	(void)state;
	claim(5, (uint32_t)it.child, 9);
	open_chunk(9, 5, (uint32_t)it.child, 0);
	fixture_thread(&it.memory, 5)->intent = 1;
	(void)take_number(LIMPET_EVENT_ALLOC, 0x1000);
	put(9, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	assert_int_equal(limpet_collector_drain_all(it.collector), 1);
	assert_int_equal(figures().events, 1);
}

/* The entry goes on under another number; each chunk says whose it is. */
static void test_a_chain_with_two_owners(void **state)
{
	(void)state;
	claim(0, 100, 1);
	open_chunk(1, 0, 100, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	claim(0, 200, 1);
	open_chunk(2, 0, 200, 1);
	put(2, LIMPET_EVENT_ALLOC, 0x2000, 1, 0);
	link_chunks(1, 2);
	drain_to(2);
	assert_true(is_free(1));
	assert_false(is_free(2));
	assert_int_equal(losses().dropped_events, 0);
}

/* ------------------------------------------------------------------ threads that end */

static uint64_t lost_stacks(void)
{
	uint64_t count = 0;

	for (unsigned why = 0; why < LIMPET_LOST_STACKS; why++)
		count += limpet_collector_lost_stacks(it.collector, why);
	return count;
}

static void test_dead_threads_are_cleared(void **state)
{
	struct limpet_thread *dead = fixture_thread(&it.memory, 3);
	struct limpet_thread *alive = fixture_thread(&it.memory, 4);

	(void)state;
	claim(3, 1, 1); /* no thread of the child has that number */
	open_chunk(1, 3, 1, 0);
	open_chunk(2, 3, 1, 1);
	link_chunks(1, 2);
	put(2, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	dead->dropped = 5;
	dead->truncated = 6;
	dead->depth = 1;
	dead->intent = 7;
	dead->held_intent = 8;
	claim(4, (uint32_t)it.child, 3);
	open_chunk(3, 4, (uint32_t)it.child, 0);
	put(3, LIMPET_EVENT_ALLOC, 0x2000, 1, 0);
	alive->dropped = 50;
	clock_fixture_move(MS);
	limpet_collector_housekeep(it.collector);
	assert_int_equal(dead->thread_pointer, 0);
	assert_int_equal(dead->intent, 0);
	assert_int_equal(dead->held_intent, 0);
	assert_int_equal(dead->depth, 0);
	assert_int_equal(dead->first_chunk, LIMPET_CHUNK_NONE);
	assert_int_not_equal(alive->thread_pointer, 0);
	assert_true(is_free(1) && is_free(2));
	assert_false(is_free(3));
	/* Nothing of it is lost, its losses included. */
	drain_to(2);
	assert_int_equal(losses().dropped_events, 55);
	assert_int_equal(losses().truncated_stacks, 6 + lost_stacks());

	/* The entry's next owner begins anew. */
	claim(3, (uint32_t)it.child, 2);
	open_chunk(2, 3, (uint32_t)it.child, 0);
	put(2, LIMPET_EVENT_ALLOC, 0x3000, 1, 0);
	drain_to(3);
	limpet_collector_housekeep(it.collector);
	assert_int_not_equal(dead->thread_pointer, 0);
	assert_int_equal(losses().dropped_events, 55);
}

/* A living thread whose status cannot be read is not taken for one that has ended. */
static void test_threads_that_cannot_be_read_are_not_dead(void **state)
{
	const struct limpet_thread *dead = fixture_thread(&it.memory, 3);
	const struct limpet_thread *alive = fixture_thread(&it.memory, 4);
	const int errors[] = {-EMFILE, -ENFILE, -ENOMEM};

	(void)state;
	tids_differ_by = 1000;
	claim(3, 1, 1);
	claim(4, (uint32_t)it.child + tids_differ_by, 2);
	for (unsigned at = 1; at <= 2; at++)
		for (size_t i = 0; i < LIMPET_COUNT_OF(errors); i++) {
			status_fails_at = at;
			status_error = errors[i];
			limpet_collector_housekeep(it.collector);
			assert_int_equal(status_fails_at, 0);
			assert_int_not_equal(alive->thread_pointer, 0);
			assert_int_not_equal(dead->thread_pointer, 0);
		}
	limpet_collector_housekeep(it.collector);
	assert_int_not_equal(alive->thread_pointer, 0);
	assert_int_equal(dead->thread_pointer, 0);
	/* That a thread has ended since it was listed is an answer. */
	claim(3, 1, 1);
	status_fails_at = 2;
	status_error = -ESRCH;
	limpet_collector_housekeep(it.collector);
	assert_int_equal(dead->thread_pointer, 0);
	assert_int_equal(alive->thread_pointer, 0);
	tids_differ_by = 0;
}

/* Numbers of two namespaces that are the same by chance do not make them one. */
static void test_a_process_that_has_the_same_number_inside(void **state)
{
	const struct limpet_thread *alive = fixture_thread(&it.memory, 4);

	(void)state;
	tids_differ_by = 1000;
	leader_looks_alike = true;
	claim(4, (uint32_t)it.child + tids_differ_by, 2);
	limpet_collector_housekeep(it.collector);
	assert_false(leader_looks_alike);
	assert_int_not_equal(alive->thread_pointer, 0);
	tids_differ_by = 0;
}

static void test_unseen_calls_are_told(void **state)
{
	(void)state;
	it.memory.shm->lost_no_thread = 3;
	it.memory.shm->lost_state_in_use = 4;
	clock_fixture_move(MS);
	assert_int_equal(losses().unseen_calls, 7);
	assert_int_equal(losses().truncated_stacks, 0);
}

/* For want of room in the agent, say. */
static void test_events_without_a_stack_are_told(void **state)
{
	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	put(1, LIMPET_EVENT_MMAP, 0x10000, 4096, 0);
	put(1, LIMPET_EVENT_FREE, 0x1000, 1, 0);
	put(1, LIMPET_EVENT_MUNMAP, 0x10000, 4096, 0);
	drain_to(4);
	assert_int_equal(limpet_collector_lost_stacks(it.collector, LIMPET_LOST_BY_AGENT), 2);
	assert_int_equal(lost_stacks(), 2);
	assert_int_equal(losses().truncated_stacks, 2);
}

/* What the agent had no room for, by kind. */
static void test_drops_are_told_by_kind(void **state)
{
	struct limpet_drops *drops = it.memory.shm->drops;

	(void)state;
	drops[LIMPET_EVENT_ALLOC] = (struct limpet_drops){.count = 1, .bytes = 2};
	drops[LIMPET_EVENT_FREE] = (struct limpet_drops){.count = 3, .bytes = 4, .unsized = 2};
	drops[LIMPET_EVENT_MMAP] = (struct limpet_drops){.count = 6, .bytes = 7};
	drops[LIMPET_EVENT_MUNMAP] = (struct limpet_drops){.count = 8, .bytes = 9};
	clock_fixture_move(MS);
	assert_int_equal(losses().dropped.allocations, 1);
	assert_int_equal(losses().dropped.allocated_bytes, 2);
	assert_int_equal(losses().dropped.frees, 3);
	assert_int_equal(losses().dropped.freed_bytes, 4);
	assert_int_equal(losses().dropped.unsized_frees, 2);
	assert_int_equal(losses().dropped.mmaps, 6);
	assert_int_equal(losses().dropped.mmap_bytes, 7);
	assert_int_equal(losses().dropped.munmaps, 8);
	assert_int_equal(losses().dropped.munmap_bytes, 9);
	assert_false(limpet_collector_is_broken(it.collector));
}

/* ------------------------------------------------------------------ counts that are none */

static bool says_broken(void)
{
	(void)losses();
	return limpet_collector_is_broken(it.collector);
}

/* What a count may rise by in a millisecond, and one more. */
static void test_a_count_rises_only_so_fast(void **state)
{
	struct limpet_thread *thread = fixture_thread(&it.memory, 1);

	(void)state;
	claim(1, (uint32_t)it.child, 1);
	clock_fixture_move(MS);
	it.memory.shm->lost_no_thread = MS;
	thread->dropped = MS;
	thread->truncated = MS;
	assert_false(says_broken());
	assert_int_equal(losses().unseen_calls, MS);
	assert_int_equal(losses().dropped_events, MS);
	clock_fixture_move(MS);
	thread->dropped += MS + 1;
	assert_true(says_broken());
	/* It is not believed again, whatever it says; others are. */
	clock_fixture_move(MS);
	thread->dropped = MS + 1;
	it.memory.shm->lost_no_thread += 7;
	assert_int_equal(losses().dropped_events, MS);
	assert_int_equal(losses().unseen_calls, MS + 7);
	assert_true(says_broken());
}

/* Sets all counts to 5, and then the one of this number to what no process has counted. */
static void overwrite_count(unsigned number, bool fell)
{
	struct limpet_shm *shm = it.memory.shm;
	struct limpet_thread *thread = fixture_thread(&it.memory, 1);
	struct limpet_drops *drops = &shm->drops[LIMPET_EVENT_FREE];
	uint64_t *const counts[] = {&shm->lost_no_thread, &shm->lost_state_in_use,
				    &shm->lost_arguments, &shm->lost_no_sample,
				    &thread->dropped,     &drops->count,
				    &drops->bytes,        &drops->unsized};
	uint32_t *const short_counts[] = {&thread->truncated, &shm->late_modules,
					  &shm->slots_unhooked};

	for (unsigned i = 0; i < 8; i++)
		*counts[i] = number == i ? fell ? 4 : UINT64_MAX - 4 : 5;
	for (unsigned i = 0; i < 3; i++)
		*short_counts[i] = number == 8 + i ? fell ? 4 : UINT32_MAX / 2 : 5;
}

/* Each of them, rising or falling: what was known before stays, and that it was overwritten is
 * told.
 */
static void test_each_count_may_be_overwritten(void **state)
{
	for (unsigned number = 0; number < 11; number++) {
		struct limpet_recorder_tick before, after;

		claim(1, (uint32_t)it.child, 1);
		overwrite_count(UINT32_MAX, false);
		clock_fixture_move(MS);
		before = losses();
		assert_int_equal(before.dropped_events, 10);
		assert_int_equal(before.unseen_calls, 15);
		assert_false(limpet_collector_is_broken(it.collector));
		overwrite_count(number, number % 2);
		clock_fixture_move(MS);
		after = losses();
		assert_true(limpet_collector_is_broken(it.collector));
		assert_int_equal(after.dropped_events, before.dropped_events);
		assert_int_equal(after.unseen_calls, before.unseen_calls);
		assert_int_equal(after.truncated_stacks, before.truncated_stacks);
		assert_memory_equal(&after.dropped, &before.dropped, sizeof(after.dropped));
		assert_int_equal(limpet_collector_late_modules(it.collector), 5);
		assert_int_equal(limpet_collector_slots_unhooked(it.collector), 5);
		end(state);
		begin(state);
	}
}

/* A short count wraps around, and counts on. */
static void test_a_short_count_wraps_around(void **state)
{
	struct limpet_thread *thread = fixture_thread(&it.memory, 1);

	(void)state;
	claim(1, (uint32_t)it.child, 1);
	clock_fixture_move(5000 * MS);
	thread->truncated = UINT32_MAX;
	assert_int_equal(losses().truncated_stacks, UINT32_MAX);
	clock_fixture_move(MS);
	thread->truncated += 3;
	assert_int_equal(losses().truncated_stacks, UINT32_MAX + 3ull);
	assert_false(limpet_collector_is_broken(it.collector));
}

/* ------------------------------------------------------------------ hostile contents */

static void test_absurd_lengths(void **state)
{
	const uint64_t half[] = {first_word(LIMPET_EVENT_ALLOC | LIMPET_EVENT_WIDE, 0), 0x9000,
				 1ull << 40};
	/* Two wide ones, others, and three words to the end. */
	const uint32_t count = (DATA_BYTES - 2 * 32 - 24) / 24 + 2;
	struct limpet_chunk *chunk;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	chunk = fixture_chunk(&it.memory, 1);
	for (uint32_t i = 0; i < RECORDS_PER_CHUNK; i++)
		put(1, LIMPET_EVENT_ALLOC, 0x1000 + i * 16, 1, 0);
	chunk->committed = UINT32_MAX;
	assert_int_equal(limpet_collector_drain_all(it.collector), RECORDS_PER_CHUNK);

	/* A wide record whose last word does not fit into what is committed, nor into the chunk. */
	claim(1, (uint32_t)it.child, 2);
	open_chunk(2, 1, (uint32_t)it.child, 0);
	put(2, LIMPET_EVENT_ALLOC, 0x9000000, 1, 0);
	put_words(2, half, 3);
	assert_int_equal(limpet_collector_drain_all(it.collector), 1);
	fixture_chunk(&it.memory, 2)->committed = 24 + 24 + 7;
	assert_int_equal(limpet_collector_drain_all(it.collector), 0);
	/* The same at the end of the chunk: what stands behind it is another chunk's. */
	claim(2, (uint32_t)it.child, 3);
	open_chunk(3, 2, (uint32_t)it.child, 0);
	for (uint32_t i = 0; i < count; i++)
		put(3, LIMPET_EVENT_ALLOC, 0x200000 + i * 16, i < 2 ? 1ull << 40 : 1, 0);
	put_words(3, half, 3);
	assert_int_equal(it.offsets[3], DATA_BYTES);
	fixture_chunk(&it.memory, 3)->committed = UINT32_MAX;
	assert_int_equal(limpet_collector_drain_all(it.collector), count);
	/* And one that shrinks again. */
	fixture_chunk(&it.memory, 3)->committed = 0;
	assert_int_equal(limpet_collector_drain_all(it.collector), 0);
}

static void test_kinds_that_do_not_exist(void **state)
{
	/* With that of a number taken in vain, and an allocation with its free. */
	const unsigned known = 6;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	for (uint32_t type = 0; type < 0x80; type++)
		put_numbered(1, type, 0, 0x100000 + type * 16, 4096, 0);
	put_numbered(1, LIMPET_EVENT_MUNMAP, 1, 0x100000, 4096, 0);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	assert_int_equal(figures().events, 7);
	assert_int_equal(losses().dropped_events, 0x80 - known);
}

/* They are taken for old ones: of the moment that they fit. */
static void test_times_from_the_future(void **state)
{
	const uint64_t an_hour_ns = 3600ull * 1000000000;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	it.memory.shm->time = LIMPET_TIME_MASK;
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	it.memory.shm->time = UINT32_MAX / 2;
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 1, 0);
	drain_to(2);
	assert_true(losses().time_ns < an_hour_ns);
}

/* The agent's times wrap around; those of the trace go on. */
static void test_times_that_wrap_around(void **state)
{
	const uint64_t step_ns = (uint64_t)LIMPET_TIME_MASK * LIMPET_TIME_UNIT_NS / 3;
	uint64_t last_ns = 0;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	for (unsigned i = 0; i < 10; i++) {
		struct limpet_recorder_tick tick;

		put(1, LIMPET_EVENT_ALLOC, 0x1000 + 16 * i, 1, 0);
		drain_to(i + 1);
		clock_fixture_move(step_ns);
		limpet_collector_publish_time(it.collector);
		tick = losses();
		assert_true(tick.time_ns >= last_ns + step_ns);
		last_ns = tick.time_ns;
		assert_int_equal(limpet_recorder_tick(it.recorder, &tick), 0);
	}
}

/* However little time goes by, what is published before has an earlier time, and what comes after
 * has that time or a later one; so it is at the end. */
static void test_times_that_begin(void **state)
{
	uint64_t began_ns = 0;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	for (unsigned i = 0; i < 20; i++) {
		put(1, LIMPET_EVENT_ALLOC, 0x1000 + 16 * i, 1, 0);
		drain_to(i + 1);
		assert_true(it.last_ns >= began_ns);
		began_ns = limpet_collector_begin_time(it.collector);
		assert_true(it.last_ns < began_ns);
		assert_true(began_ns <=
			    limpet_collector_time_ns(it.collector) + (i + 2) * LIMPET_TIME_UNIT_NS);
		/* The last time told is not taken back. */
		limpet_collector_publish_time(it.collector);
		if (i % 4 == 3)
			clock_fixture_move(3 * LIMPET_TIME_UNIT_NS / 2);
	}
	put(1, LIMPET_EVENT_ALLOC, 0x8000, 1, 0);
	limpet_collector_end(it.collector);
	put(1, LIMPET_EVENT_ALLOC, 0x9000, 1, 0);
	drain_to(21);
	assert_true(it.last_ns >= began_ns);
}

/* A program whose events are few rings no bell, and is not read for half a second. */
static void test_the_time_goes_on_between_drains(void **state)
{
	uint32_t before;

	(void)state;
	limpet_collector_publish_time(it.collector);
	before = it.memory.shm->time;
	clock_fixture_move(3 * LIMPET_TIME_UNIT_NS);
	assert_false(limpet_collector_poll(it.collector));
	assert_int_equal(it.memory.shm->time, before + 3);
	it.memory.shm->bell++;
	assert_true(limpet_collector_poll(it.collector));
}

/* A number that nobody has described: the allocation is there, that its stack is unknown is told.
 */
static void test_stacks_that_lead_nowhere(void **state)
{
	const uint32_t bad[] = {1, 2, LIMPET_STACKS_MAX, LIMPET_STACKS_MAX + 1, UINT32_MAX};
	struct limpet_recorder_tick tick;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++)
		put(1, LIMPET_EVENT_ALLOC, 0x1000 + i * 16, 1, bad[i]);
	STACK(1, 7, 0, 0, UINT64_MAX, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x8000, 1, 7); /* odd, but a stack */
	assert_int_equal(limpet_collector_drain_all(it.collector), LIMPET_COUNT_OF(bad) + 1);
	assert_int_equal(figures().live_allocations, LIMPET_COUNT_OF(bad) + 1);
	tick = losses();
	assert_int_equal(tick.truncated_stacks, LIMPET_COUNT_OF(bad));
	assert_int_equal(tick.dropped_events, 0);
	assert_int_equal(lost_stacks(), LIMPET_COUNT_OF(bad));
	assert_int_equal(limpet_recorder_tick(it.recorder, &tick), 0);
}

/* Each lies in one field; those between them are right, and stay so. */
static void test_descriptions_that_lie(void **state)
{
	const uint64_t frames[LIMPET_STACK_FRAMES + 2] = {0x1000};
	const uint64_t endless[] = {1ull << 32 | 0xffffffull << 8 | LIMPET_EVENT_STACK, 0, 0x1000};
	const uint64_t longer[] = {2ull << 32 | 4 << 8 | LIMPET_EVENT_STACK, 0, 0x1000};
	uint64_t bad = 0;

	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	STACK(1, 9, 1, 0, 0x1000), bad++; /* there is none before it */
	STACK(1, 10, 0, 0, 0x1000, 0x2000);
	STACK(1, 11, 3, 0, 0x3000), bad++; /* that one has two frames */
	STACK(1, 12, UINT32_MAX, 0, 0x3000), bad++;
	STACK(1, 0, 2, 0, 0x3000), bad++; /* no number */
	STACK(1, LIMPET_STACKS_MAX + 1, 2, 0, 0x3000), bad++;
	STACK(1, 13, 2, 8, 0x3000), bad++;                 /* flags that there are not */
	STACK(1, 14, 2, LIMPET_STACK_GONE, 0x3000), bad++; /* half a frame */
	STACK(1, 15, LIMPET_HOOK_OWNERS + 1, LIMPET_STACK_OWNER, 10), bad++;
	STACK(1, 16, 1, LIMPET_STACK_OWNER, 0), bad++;
	STACK(1, 17, 1, LIMPET_STACK_OWNER, 1ull << 32 | 10), bad++;
	STACK(1, 18, 1, LIMPET_STACK_OWNER | LIMPET_STACK_GONE, 10), bad++;
	STACK(1, 19, 1, LIMPET_STACK_OWNER, 10);
	STACK(1, 20, 1, LIMPET_STACK_OWNER, 19), bad++;                 /* an owner's owner */
	put_stack(1, 21, 2, 0, frames, LIMPET_STACK_FRAMES - 1), bad++; /* too deep */
	put_words(1, endless, 3), bad++;
	STACK(1, 22, 2, 0, 0x3000); /* that of 10 is still before it */
	STACK(1, 10, 0, 0, 0x9000); /* the first one stays */
	for (uint32_t number = 9; number <= 22; number++)
		put(1, LIMPET_EVENT_ALLOC, 0x1000 + 16 * number, 1, number);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 10);
	put_words(1, longer, 3), bad++; /* than what is committed */
	assert_int_equal(limpet_collector_drain_all(it.collector), 15);
	assert_int_equal(losses().dropped_events, bad);
	assert_int_equal(lost_stacks(), 11);
	for (uint32_t number = 9; number <= 22; number++)
		assert_int_equal(it.stacks[number - 9] != 0,
				 number == 10 || number == 19 || number == 22);
	assert_int_equal(it.stacks[14], it.stacks[1]);
}

/* The same frames under several numbers are one site, whoever described them. */
static void test_described_again(void **state)
{
	(void)state;
	claim_two();
	STACK(1, 1, 0, 0, 0x1000, 0x2000, 0x3000);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 1);
	STACK(1, 2, 0, LIMPET_STACK_TRUNCATED, 0x1000, 0x2000, 0x3000);
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 1, 2);
	STACK(1, 3, 0, LIMPET_STACK_GONE, 0x1000, 0, 0x2000, 5, 0x3000, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x3000, 1, 3);
	STACK(2, 4, 0, 0, 0x1000, 0x2000);
	STACK(2, 5, 2, 0, 0x3000);
	put(2, LIMPET_EVENT_ALLOC, 0x4000, 1, 5);
	STACK(2, 6, 1, 0, 0x2000, 0x3000);
	put(2, LIMPET_EVENT_ALLOC, 0x5000, 1, 6);
	STACK(2, 7, 2, 0);
	put(2, LIMPET_EVENT_ALLOC, 0x6000, 1, 7);
	drain_to(6);
	assert_int_not_equal(it.stacks[0], 0);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(it.stacks[i], it.stacks[k]);
	assert_int_equal(it.stacks[3], it.stacks[0]);
	assert_int_equal(it.stacks[4], it.stacks[0]);
	assert_int_not_equal(it.stacks[5], it.stacks[0]);
	assert_int_equal(lost_stacks(), 0);
}

/* An event comes before the stream is read that describes its stack: far behind in another
 * thread's, that of an allocator in a third one's. Nothing is read twice. */
static void test_descriptions_of_other_threads(void **state)
{
	(void)state;
	for (uint32_t thread = 0; thread < 3; thread++)
		claim(thread, (uint32_t)it.child, 1 + 10 * thread);
	for (uint32_t i = 0; i < 5; i++) {
		open_chunk(21 + i, 2, (uint32_t)it.child, i);
		put(21 + i, LIMPET_EVENT_FREE, 0x100000 + 16 * i, 1ull << 33, 0);
		if (i)
			link_chunks(20 + i, 21 + i);
	}
	STACK(25, 1, 0, 0, 0x1000, 0x2000);
	STACK(25, 2, 1, 0, 0x3000);
	open_chunk(11, 1, (uint32_t)it.child, 0);
	put(11, LIMPET_EVENT_FREE, 0x100000, 1, 0);
	STACK(11, 3, 7, LIMPET_STACK_OWNER, 2);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 3);
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 1, 1);
	put(1, LIMPET_EVENT_ALLOC, 0x3000, 1, 2);
	drain_to(9);
	assert_int_equal(lost_stacks(), 0);
	assert_int_equal(losses().dropped_events, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_not_equal(it.stacks[i], 0);
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(it.stacks[i], it.stacks[k]);
	}
	/* What was looked at ahead goes on where it stood. */
	STACK(25, 4, 2, 0, 0x4000);
	put(1, LIMPET_EVENT_ALLOC, 0x4000, 1, 4);
	drain_to(10);
	assert_int_equal(lost_stacks(), 0);
	for (uint32_t chunk = 21; chunk < 25; chunk++)
		assert_true(is_free(chunk));
}

/* Those of a thread that has ended, before anybody used them; and of its place's next owner. */
static void test_descriptions_of_a_dead_thread(void **state)
{
	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	claim(1, 1, 2);
	open_chunk(2, 1, 1, 0);
	STACK(2, 1, 0, 0, 0x1000);
	STACK(2, 2, 0, 0, 0x2000);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 1);
	drain_to(1);
	limpet_collector_housekeep(it.collector);
	assert_true(is_free(2));
	put(1, LIMPET_EVENT_ALLOC, 0x2000, 1, 2);
	claim(1, (uint32_t)it.child, 2);
	open_chunk(2, 1, (uint32_t)it.child, 0);
	STACK(2, 3, 1, 0, 0x3000); /* there is none before it */
	STACK(2, 4, 0, 0, 0x2000);
	put(1, LIMPET_EVENT_ALLOC, 0x3000, 1, 4);
	put(1, LIMPET_EVENT_ALLOC, 0x4000, 1, 3);
	drain_to(4);
	assert_int_equal(lost_stacks(), 1);
	assert_int_equal(it.stacks[2], it.stacks[1]);
	assert_int_equal(it.stacks[3], 0);
}

/* Beyond its memory stacks are unknown, and that is told; those that are known stay. */
static void test_stacks_beyond_the_memory(void **state)
{
	const uint32_t room = 10;

	(void)state;
	limpet_collector_set_stack_memory(it.collector, room * 4 / 3 * 32);
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	limpet_collector_set_stack_memory(it.collector, 4 * 4096 * sizeof(uint32_t));
	for (uint32_t i = 0; i < 50; i++)
		STACK(1, 1 + i, 0, 0, 0x1000 + i);
	limpet_collector_set_stack_memory(it.collector, 1);
	drain_to(0);
	for (uint32_t i = 0; i < 50; i++)
		put(1, LIMPET_EVENT_ALLOC, 0x1000 + i * 16, 1, 1 + i);
	drain_to(50);
	assert_int_equal(lost_stacks(), 50);
	assert_int_equal(limpet_collector_lost_stacks(it.collector, LIMPET_LOST_NO_ROOM), 50);
}

/* Chunks whose links go round, lead into another thread's chain or to nowhere: nothing that is
 * there once comes through twice, and every drain ends. */
static void test_links_that_go_round(void **state)
{
	const uint32_t chunks = it.memory.shm->layout.chunk_count;
	const uint32_t threads = it.memory.shm->layout.thread_count;

	(void)state;
	for (uint32_t chunk = 1; chunk <= 4; chunk++) {
		open_chunk(chunk, 1, (uint32_t)it.child, chunk - 1);
		for (uint32_t i = 0; i < 100; i++)
			put(chunk, LIMPET_EVENT_ALLOC, 0x1000 + 16ull * (chunk * 100 + i), 1, 0);
	}
	link_chunks(1, 2);
	link_chunks(2, 3);
	link_chunks(3, 1); /* round */
	link_chunks(4, 2); /* and into it from outside */
	for (uint32_t thread = 0; thread < threads; thread++)
		claim(thread, (uint32_t)it.child, thread % 6); /* 0 and chunks never written, too */
	for (int i = 0; i < 20; i++)
		assert_true(limpet_collector_drain(it.collector) >= 0);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	assert_int_equal(figures().events, 300);
	assert_true(losses().dropped_events > 0);
	assert_true(limpet_collector_is_broken(it.collector));

	/* Each to itself, each to the next. */
	for (uint32_t chunk = 1; chunk <= chunks; chunk++)
		link_chunks(chunk, chunk);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	for (uint32_t chunk = 1; chunk <= chunks; chunk++)
		link_chunks(chunk, chunk % chunks + 1);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	for (uint32_t chunk = 1; chunk <= chunks; chunk++)
		link_chunks(chunk, chunks + chunk);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	assert_int_equal(figures().events, 300);
}

static void visit_everything(void)
{
	struct limpet_recorder_tick tick;
	char site[128];

	assert_true(limpet_collector_drain(it.collector) >= 0);
	limpet_collector_housekeep(it.collector);
	limpet_collector_needs_rescan(it.collector);
	limpet_collector_poll(it.collector);
	for (uint32_t i = 0; i < 100; i++)
		limpet_collector_describe_site(it.collector, (uint32_t)random_word(), site,
					       sizeof(site));
	limpet_collector_fill_tick(it.collector, &tick);
	assert_true(limpet_recorder_tick(it.recorder, &tick) >= 0);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
}

/* What describes the memory is copied before the agent is there: a target that writes over it leads
 * nobody astray. */
static void test_a_head_of_noise(void **state)
{
	(void)state;
	claim(0, (uint32_t)it.child, 1);
	open_chunk(1, 0, (uint32_t)it.child, 0);
	put(1, LIMPET_EVENT_ALLOC, 0x1000, 1, 0);
	for (int round = 0; round < 20; round++) {
		uint64_t *words = (uint64_t *)(void *)it.memory.shm;

		for (size_t i = 0; i < sizeof(*it.memory.shm) / 8; i++)
			words[i] = round % 2 ? UINT64_MAX : random_word();
		visit_everything();
	}
	/* By offsets that a hostile head does not have. */
	assert_int_equal(figures().events, 1);
}

static void fill_with_noise(uint8_t *from, size_t bytes, unsigned kind)
{
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word = random_word();

		if (kind == 1) /* small numbers: indices that exist */
			word &= 0x0000003f0000003full;
		else if (kind == 2 && random_word() % 4)
			word = 0;
		memcpy(from + i, &word, 8);
	}
}

/* In each round one more thread is found whose records, or in the end whose chunk, are noise. */
static void test_noise_everywhere(void **state)
{
	const struct limpet_shm head = *it.memory.shm;

	(void)state;
	for (unsigned round = 0; round < 10; round++) {
		uint8_t *base = (uint8_t *)it.memory.shm;

		fill_with_noise(base + head.layout.threads_offset,
				head.layout.thread_count * sizeof(struct limpet_thread), round % 3);
		fill_with_noise(base + head.layout.slots_offset, 64 * sizeof(struct limpet_slot),
				round % 3);
		for (uint32_t chunk = 1; chunk <= head.layout.chunk_count; chunk++)
			fill_with_noise((uint8_t *)fixture_chunk(&it.memory, chunk), 4096,
					round / 3);
		it.memory.shm->slot_count = 64;
		claim(round, (uint32_t)it.child, round + 1);
		if (round < 9) {
			open_chunk(round + 1, round, (uint32_t)it.child, 0);
			fixture_chunk(&it.memory, round + 1)->committed = UINT32_MAX - round;
		}
		visit_everything();
	}
	assert_in_range(figures().events, 1, 9 * RECORDS_PER_CHUNK);
	assert_true(figures().live_allocations <= figures().allocations);
	assert_true(limpet_collector_is_broken(it.collector));
}

/* ------------------------------------------------------------------ slots and modules */

static void test_a_slot_that_lost_its_hook(void **state)
{
	struct limpet_slot *slots =
		(struct limpet_slot *)(void *)((uint8_t *)it.memory.shm +
					       it.memory.shm->layout.slots_offset);
	uint64_t original = limpet_session_original(it.session, LIMPET_FIRST_HOOK);
	/* The child is a copy of us: what lies here lies there, with the value of the fork. */
	static uint64_t nothing_special = 0x1234;

	(void)state;
	assert_int_not_equal(original, 0);
	assert_true(it.memory.shm->slot_count > 0);
	for (uint32_t i = 0; i < it.memory.shm->slot_count; i++)
		slots[i].state = LIMPET_SLOT_RESTORED;
	assert_false(limpet_collector_needs_rescan(it.collector));
	slots[0].state = LIMPET_SLOT_PATCHED;
	slots[0].hook = LIMPET_FIRST_HOOK;
	slots[0].address = (uint64_t)(uintptr_t)&nothing_special;
	assert_false(limpet_collector_needs_rescan(it.collector));
	slots[0].address = 8; /* not mapped */
	assert_false(limpet_collector_needs_rescan(it.collector));
	slots[0].hook = UINT32_MAX;
	assert_false(limpet_collector_needs_rescan(it.collector));
	it.memory.shm->slot_count = UINT32_MAX;
	assert_false(limpet_collector_needs_rescan(it.collector));
}

/* ------------------------------------------------------------------ with the agent itself */

#define WORKERS 5u
#define CALLS_PER_WORKER 40000u
#define POOL 16u

static struct agent_fixture agent;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[POOL];
static unsigned pool_count;
static unsigned workers_left;

static uint64_t pool_take(void)
{
	uint64_t address = 0;

	pthread_mutex_lock(&pool_lock);
	if (pool_count)
		address = pool[--pool_count];
	pthread_mutex_unlock(&pool_lock);
	return address;
}

static void pool_give(uint64_t address)
{
	pthread_mutex_lock(&pool_lock);
	pool[pool_count++] = address;
	pthread_mutex_unlock(&pool_lock);
}

struct worker {
	pthread_t thread;
	pid_t tid;
	uint64_t number, allocations, allocated_bytes, frees, held[3], held_bytes[3];
	struct fixture_stack stack;
};

static void *work(void *context)
{
	struct worker *worker = context;
	uint64_t random = worker->number + 1, addresses[4];

	worker->tid = gettid();
	for (unsigned i = 0; i < CALLS_PER_WORKER; i++) {
		uint64_t *block, *bytes;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		block = &worker->held[(random >> 33) % 3];
		bytes = &worker->held_bytes[(random >> 33) % 3];
		for (uint32_t k = 0; k < 4; k++)
			addresses[k] = 0x400000 + ((random >> (8 + 3 * k)) & 7) * 64 + k;
		fixture_stack_build(&worker->stack, addresses, 4);
		if (*block) {
			fixture_enter(&worker->stack, FIXTURE_FREE_UNSIZED,
				      (const uint64_t[6]){*block});
			pool_give(*block);
			fixture_exit(&worker->stack, 0);
			worker->frees++;
			*block = *bytes = 0;
		} else {
			*bytes = random >> 48;
			fixture_enter(&worker->stack, FIXTURE_MALLOC, (const uint64_t[6]){*bytes});
			*block = pool_take();
			fixture_exit(&worker->stack, *block);
			worker->allocations += *block != 0;
			worker->allocated_bytes += *block ? *bytes : 0;
		}
	}
	__atomic_fetch_sub(&workers_left, 1, __ATOMIC_RELEASE);
	return NULL;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t __real_limpet_monotonic_ns(void);
uint64_t __wrap_limpet_monotonic_ns(void);
/* Beside real threads the clock goes, but some hundred times slower: a thread that is kept from the
 * processor is not taken for one that is stuck. */
uint64_t __wrap_limpet_monotonic_ns(void)
{
	static uint64_t first;
	uint64_t now_ns;

	if (!real_time)
		return __real_limpet_monotonic_ns();
	now_ns = clock_ns();
	first = first ? first : now_ns;
	return clock_fixture_ns() + (now_ns - first) / 100;
}

/* pthread_join() returns a moment before the kernel takes the thread off its list. */
static void join(const struct worker *worker)
{
	const struct timespec nap = {0, 1000000};

	pthread_join(worker->thread, NULL);
	while (tgkill(getpid(), worker->tid, 0) == 0)
		nanosleep(&nap, NULL);
}

/* Threads that hand the same few addresses around while the collector reads: every event is booked,
 * and none of a block's allocations is seen before the free of the one before. */
static void test_agent_and_collector(void **state)
{
	LIMPET_FREE struct worker *workers = calloc(WORKERS, sizeof(*workers));
	uint64_t allocations = 0, frees = 0, live = 0, live_bytes = 0;
	struct limpet_recorder_stats stats;

	(void)state;
	memset(&it, 0, sizeof(it));
	assert_non_null(workers);
	real_time = true;
	open_capture(getpid(), MEMORY_BYTES);
	agent_fixture_begin(&agent, 0, limpet_session_segment(it.session));
	agent.shm->wait_turns = UINT64_MAX; /* nothing may be lost */
	limpet_collector_begin(it.collector);
	for (pool_count = 0; pool_count < POOL; pool_count++)
		pool[pool_count] = 0x10000000 + pool_count * 4096;
	workers_left = WORKERS;
	for (uint32_t i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; __atomic_load_n(&workers_left, __ATOMIC_ACQUIRE); i++) {
		assert_true(limpet_collector_drain(it.collector) >= 0);
		if (i % 16 == 0)
			limpet_collector_housekeep(it.collector);
		sched_yield();
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		join(&workers[i]);
		allocations += workers[i].allocations;
		frees += workers[i].frees;
		for (unsigned k = 0; k < 3; k++) {
			live += workers[i].held[k] != 0;
			live_bytes += workers[i].held[k] ? workers[i].held_bytes[k] : 0;
		}
	}
	limpet_collector_housekeep(it.collector);
	assert_true(limpet_collector_drain_all(it.collector) >= 0);
	stats = figures();
	assert_int_equal(stats.allocations, allocations);
	assert_int_equal(stats.frees, frees);
	assert_int_equal(stats.events, allocations + frees);
	assert_int_equal(limpet_collector_late_events(it.collector), 0);
	assert_int_equal(stats.foreign_frees, 0);
	assert_int_equal(stats.live_allocations, live);
	assert_int_equal(stats.live_bytes, live_bytes);
	assert_int_equal(losses().dropped_events, 0);
	assert_int_equal(losses().unseen_calls, 0);
	assert_int_equal(losses().truncated_stacks, 0);
	assert_int_equal(lost_stacks(), 0);
	/* The threads are gone, and so are their entries. */
	for (uint32_t i = 0; i < agent.shm->layout.thread_count; i++)
		assert_int_equal(fixture_thread(&agent, i)->thread_pointer, 0);
	agent_fixture_end(&agent);
	close_capture();
	real_time = false;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_chains_of_two_threads),
		TEST(test_marked_records),
		TEST(test_marked_at_the_end_of_a_chunk),
		TEST(test_marked_after_a_later_number_was_read),
		TEST(test_streams_are_ordered_by_number),
		TEST(test_a_thread_that_is_far_ahead),
		TEST(test_a_number_that_is_taken_is_waited_for),
		TEST(test_a_number_that_nobody_has_is_not_waited_for),
		TEST(test_a_call_that_failed_leaves_no_gap),
		TEST(test_too_many_wait),
		TEST(test_temporary_allocations),
		TEST(test_reallocs),
		TEST(test_what_comes_after_the_end_is_not_in_the_trace),
		TEST(test_a_block_that_was_moved_across_the_end),
		TEST(test_the_rest_when_nobody_writes),
		TEST(test_a_chain_with_two_owners),
		TEST(test_dead_threads_are_cleared),
		TEST(test_threads_that_cannot_be_read_are_not_dead),
		TEST(test_a_process_that_has_the_same_number_inside),
		TEST(test_unseen_calls_are_told),
		TEST(test_events_without_a_stack_are_told),
		TEST(test_drops_are_told_by_kind),
		TEST(test_a_count_rises_only_so_fast),
		TEST(test_each_count_may_be_overwritten),
		TEST(test_a_short_count_wraps_around),
		TEST(test_absurd_lengths),
		TEST(test_kinds_that_do_not_exist),
		TEST(test_times_from_the_future),
		TEST(test_times_that_wrap_around),
		TEST(test_times_that_begin),
		TEST(test_the_time_goes_on_between_drains),
		TEST(test_stacks_that_lead_nowhere),
		TEST(test_descriptions_that_lie),
		TEST(test_described_again),
		TEST(test_descriptions_of_other_threads),
		TEST(test_descriptions_of_a_dead_thread),
		TEST(test_stacks_beyond_the_memory),
		TEST(test_links_that_go_round),
		TEST(test_a_head_of_noise),
		TEST(test_noise_everywhere),
		TEST(test_a_slot_that_lost_its_hook),
		cmocka_unit_test(test_agent_and_collector),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
