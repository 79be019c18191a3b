/* A signal whose handler allocates, forks, or does not return, at every instruction of a hook: the
 * thread is stepped through one call after the other, and each time some instructions later the
 * handler makes a call of its own, forks, or leaves by longjmp.
 *
 * SIGNAL_STRIDE says how many instructions lie between two tries (13; 1: none).
 *
 * time-limit: 240 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/record.h"
#include "agent/stack_arguments.h"
#include "agent/stack_cache.h"
#include "common/err.h"
#include "test/unit/agent_fixture.h"
#include "test/unit/skip_reason.h"

#define MEMORY_BYTES (32u << 20)
#define TRAP_FLAG 0x100
#define BLOCK_A 0x10000040ull
#define BLOCK_B 0x20000080ull
#define BLOCK_H 0x30000010ull

/* Positions at the edges of a hook, where it is about to return to its path or was just called: a
 * handler's call looks like the allocator's own, and passes uncounted. Stepping at every
 * instruction (SIGNAL_STRIDE=1) finds 52 of them in realloc, the most, in three rows. Steps further
 * apart may see one more than their share of each row. A sanitizer's code has many more. */
#if defined(__SANITIZE_ADDRESS__)
#define EDGE 256
#define EDGE_ROWS 1
#define FORK_STRIDES 20 /* a fork copies the sanitizer's memory, too */
#else
#define EDGE 52
#define EDGE_ROWS 3
#define FORK_STRIDES 1
#endif

/* All steps before the one in question are taken too, which adds up: so each test takes every
 * 13th (`make test-release`: every seventh; instrumented code, which has many more: every 19th),
 * beginning at another one. What the kinds of calls have in common is thereby seen at several of
 * them. */
#if defined(__SANITIZE_ADDRESS__)
static long stride = 19;
#else
static long stride = 13;
#endif

static struct agent_fixture fixture;
/* The handler runs below the interrupted call, on the same stack. */
static struct {
	struct fixture_stack handler, inner, outer, upper;
} stacks;
static const uint64_t addresses[] = {0x401111, 0x402222};

static long steps_left;
static bool in_agent, leaving; /* of the interrupted code */
static bool fired, fired_in_agent, fired_leaving, handler_recorded;
static bool jumps;           /* the handler does not return */
static void (*change)(void); /* what it does instead of a call */
static sigjmp_buf way_out;

static void on_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	void (*inside)(void);

	(void)number;
	(void)info;
	if (--steps_left > 0)
		return;
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	fired = true;
	fired_in_agent = in_agent;
	fired_leaving = leaving;
	if (jumps)
		siglongjmp(way_out, 1);
	if (change) {
		change();
		return;
	}
	inside = fixture_inside;
	fixture_inside = NULL;
	handler_recorded = FIXTURE_CALL(&stacks.handler, FIXTURE_MALLOC, BLOCK_H, 99);
	fixture_inside = inside;
}

static inline __attribute__((always_inline)) void begin_stepping(void)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "orq $0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

static inline __attribute__((always_inline)) void end_stepping(void)
{
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andq $~0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

struct call {
	enum fixture_hook hook;
	uint64_t args[6], result;
	unsigned records;
	uint32_t types[2];
	uint64_t blocks[2];
	long first_step;
	bool anew; /* the thread has no entry yet: step through the first half only, which makes it
		    */
};

static bool inner;

/* What the original does: an inner call of the allocator. */
static void call_inside(void)
{
	__asm__ volatile("" ::: "memory");
	in_agent = false;
	end_stepping();
	inner = FIXTURE_CALL(&stacks.inner, FIXTURE_MMAP, BLOCK_B, 0, 4096);
	leaving = true;
	if (!fired)
		begin_stepping();
	in_agent = true;
	__asm__ volatile("" ::: "memory");
}

/* The ways of malloc and free, which end with the call or before it. */
static bool stepped_in_one(const struct call *call)
{
	bool done;

	inner = false;
	fixture_inside = call_inside;
	begin_stepping();
	in_agent = true;
	__asm__ volatile("" ::: "memory");
	done = fixture_call(&stacks.outer, call->hook, call->result, call->args);
	__asm__ volatile("" ::: "memory");
	in_agent = false;
	end_stepping();
	fixture_inside = NULL;
	assert_false(inner);
	return done;
}

/* With an inner call of the allocator between the halves. */
static __attribute__((noinline)) bool stepped_call(const struct call *call, long step)
{
	struct limpet_hook_frame *frame = &stacks.outer.hook;
	int entered;

	memcpy(frame->args, call->args, sizeof(frame->args));
	frame->hook = call->hook;
	steps_left = step;
	fired = fired_in_agent = fired_leaving = leaving = false;
	if (call->hook == FIXTURE_MALLOC || call->hook == FIXTURE_FREE)
		return stepped_in_one(call);
	begin_stepping();
	in_agent = true;
	__asm__ volatile("" ::: "memory");
	entered = limpet_hook_enter(frame);
	__asm__ volatile("" ::: "memory");
	in_agent = false;
	end_stepping();
	if (!entered)
		return false;
	inner = FIXTURE_CALL(&stacks.inner, FIXTURE_MMAP, BLOCK_B, 0, 4096);
	frame->result = call->result;
	leaving = true;
	if (!fired)
		begin_stepping();
	in_agent = true;
	__asm__ volatile("" ::: "memory");
	limpet_hook_exit(frame);
	__asm__ volatile("" ::: "memory");
	in_agent = false;
	end_stepping();
	assert_false(inner);
	return true;
}

/* All entries: while it is being claimed the thread may come to have two. */
static size_t all_records(struct fixture_record **ret)
{
	struct fixture_record *all = NULL;
	size_t count = 0;

	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++) {
		LIMPET_FREE struct fixture_record *records = NULL;
		size_t more = fixture_thread(&fixture, i)->thread_pointer > 1
				      ? fixture_records(&fixture, i, &records)
				      : 0;

		if (!more)
			continue;
		all = realloc(all, (count + more) * sizeof(*all));
		assert_non_null(all);
		memcpy(all + count, records, more * sizeof(*all));
		count += more;
	}
	*ret = all;
	return count;
}

#define STACK_ENTRIES 64u

/* As the collector leaves the tables when the thread is gone. */
static void clear_tables(void)
{
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++) {
		struct limpet_thread *thread = &limpet_hot.threads[i];

		thread->first_chunk = limpet_own(thread)->chunk = LIMPET_CHUNK_NONE;
		thread->thread_pointer = 0;
		for (uint32_t k = 0; k < limpet_stack_cache_count(thread); k++)
			limpet_stack_cache_of(thread)[k].pc = 0;
	}
	/* All stacks are described anew. */
	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES; i++)
		memset(limpet_hot.fingerprints[i], 0,
		       STACK_ENTRIES * sizeof(struct limpet_fingerprint));
	limpet_segment_free_all(fixture.segment);
	fixture.shm->lost_state_in_use = 0;
}

/* `first`: as many were there before. */
static void check_records(const struct call *call, long step, size_t first)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count = all_records(&records);
	unsigned of_handler = 0, of_call = 0;

	for (size_t i = first; i < count; i++) {
		struct fixture_frames frames;

		if (records[i].type == LIMPET_EVENT_ALLOC) {
			fixture_frames_of(&fixture, records[i].node, &frames);
			assert_int_equal(frames.count, 2);
			assert_int_equal(frames.list[0].address, addresses[0]);
		}
		if (records[i].address == BLOCK_H) {
			assert_int_equal(records[i].type, LIMPET_EVENT_ALLOC);
			assert_int_equal(records[i].size, 99);
			of_handler++;
			continue;
		}
		assert_true(of_call < call->records);
		assert_int_equal(records[i].type, call->types[of_call]);
		assert_int_equal(records[i].address, call->blocks[of_call]);
		of_call++;
	}
	if (of_call != call->records || of_handler != (fired && handler_recorded))
		fail_msg("step %ld: %u records of the call, %u of the handler, which %s", step,
			 of_call, of_handler, handler_recorded ? "was recorded" : "passed through");
}

static void assert_outside(void)
{
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++) {
		const struct limpet_thread *thread = fixture_thread(&fixture, i);

		assert_int_equal(thread->depth, 0);
		assert_int_equal(thread->intent, 0);
		assert_int_equal(thread->held_intent, 0);
		assert_int_equal(thread->phase, LIMPET_PHASE_OUTSIDE);
	}
}

/* Read in place, which takes fewer steps than to ask the kernel for a copy. */
static void publish_stack(void)
{
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++) {
		struct limpet_thread *thread = fixture_thread(&fixture, i);

		if (!thread->thread_pointer)
			continue;
		thread->stack_low = (uintptr_t)&stacks;
		thread->stack_high = (uintptr_t)(&stacks + 1);
	}
}

/* `known`: the stack was described before. */
static void step_through_one(const struct call *call, bool known)
{
	unsigned uncounted = 0, counted = 0, recorded = 0;

#if defined(__SANITIZE_THREAD__)
	limpet_skip("the thread sanitizer holds signals back until its own moments");
#endif
	for (long step = call->first_step;; step += stride) {
		clear_tables();
		if (!call->anew)
			FIXTURE_CALL(&stacks.outer, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
		publish_stack();
		if (known)
			FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1);
		assert_true(stepped_call(call, step));
		assert_outside();
		check_records(call, step, !call->anew + known);
		if (!fired || (call->anew && fired_leaving))
			break;
		if (handler_recorded) {
			recorded++;
		} else if (fixture.shm->lost_state_in_use) {
			assert_int_equal(fixture.shm->lost_state_in_use, 1);
			counted++;
		} else {
			uncounted += fired_in_agent;
		}
		/* The state is as good as ever. */
		assert_true(FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1));
		assert_outside();
	}
	assert_true(recorded > 5 && (counted > 5 || call->anew));
	print_message("# %u steps: %u recorded, %u counted as lost, %u neither\n",
		      recorded + counted + uncounted, recorded, counted, uncounted);
	assert_true(uncounted <= (EDGE + EDGE_ROWS * (stride - 1)) / stride);
}

static void step_through(const struct call *call)
{
	step_through_one(call, false);
	if (call->types[call->records - 1] == LIMPET_EVENT_ALLOC && !call->anew)
		step_through_one(call, true);
}

/* ------------------------------------------------------------------ handlers that do not return */

static uint32_t last_stack(void)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count = all_records(&records);

	assert_true(count > 0);
	return records[count - 1].node;
}

static void assert_path(uint32_t number, const uint64_t *path, uint32_t count)
{
	struct fixture_frames frames;

	fixture_frames_of(&fixture, number, &frames);
	assert_int_equal(frames.count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(frames.list[i].address, path[i]);
		assert_int_equal(frames.list[i].flags, 0);
	}
}

/* A prefix of the call's records, then the one of the call that followed. */
static void check_abandoned(const struct call *call)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count = all_records(&records);

	assert_true(count >= 2 && count <= 2 + call->records);
	for (size_t i = 1; i + 1 < count; i++) {
		assert_int_equal(records[i].type, call->types[i - 1]);
		assert_int_equal(records[i].address, call->blocks[i - 1]);
	}
	assert_int_equal(records[count - 1].address, BLOCK_H);
	assert_int_equal(records[count - 1].size, 77);
}

/* siglongjmp() out of the handler, at every instruction: the next call further up is one like any
 * other, and no stack is mixed up with another. */
static void leave_at_each_step(const struct call *call)
{
	static const uint64_t one[] = {0x401111, 0x402222, 0x403333, 0x404444};
	static const uint64_t two[] = {0x401111, 0x402222, 0x403333, 0x405555};
	static long step;

#if defined(__SANITIZE_THREAD__)
	limpet_skip("the thread sanitizer holds signals back until its own moments");
#endif
	jumps = true;
	for (step = call->first_step;; step += stride) {
		clear_tables();
		fixture_stack_build(&stacks.outer, one, 4);
		FIXTURE_CALL(&stacks.outer, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
		publish_stack();
		fixture_stack_build(&stacks.outer, step % 2 ? one : two, 4);
		if (sigsetjmp(way_out, 1) == 0)
			stepped_call(call, step);
		in_agent = false;
		fixture_inside = NULL;
		/* As other calls leave that memory; while it stands the hook counts as unfinished.
		 */
		stacks.outer.below[FIXTURE_BELOW - 1] = 0;
		if (!FIXTURE_CALL(&stacks.upper, FIXTURE_MALLOC, BLOCK_H, 77))
			fail_msg("step %ld: the thread does not record any more", step);
		check_abandoned(call);
		assert_path(last_stack(), addresses, LIMPET_COUNT_OF(addresses));
		assert_outside();
		/* From the same place as the call that was left, with the other stack. */
		fixture_stack_build(&stacks.outer, step % 2 ? two : one, 4);
		assert_true(FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1));
		assert_path(last_stack(), step % 2 ? two : one, 4);
		fixture_stack_build(&stacks.outer, step % 2 ? one : two, 4);
		assert_true(FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1));
		assert_path(last_stack(), step % 2 ? one : two, 4);
		if (!fired)
			break;
	}
	jumps = false;
	assert_true(step > 100 / stride);
}

/* ------------------------------------------------------------------ handlers that fork */

static uint8_t *before; /* what hooks write, before the fork */
static pid_t child = -1;

/* The child returns into the hook, and ends before its parent goes on. */
static void fork_here(void)
{
	const struct limpet_shm *shm = fixture.shm;
	const uint8_t *written = (const uint8_t *)shm + shm->layout.threads_offset;
	const size_t bytes = shm->bytes - shm->layout.threads_offset;
	int status;

	memcpy(before, written, bytes);
	child = fork();
	if (!child)
		return;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_memory_equal(before, written, bytes);
}

static void assert_nothing_lost(void)
{
	const struct limpet_shm *shm = fixture.shm;

	assert_int_equal(shm->lost_no_thread, 0);
	assert_int_equal(shm->lost_state_in_use, 0);
	assert_int_equal(shm->lost_no_sample, 0);
	for (unsigned i = 0; i < LIMPET_DROPS_KINDS; i++)
		assert_int_equal(shm->drops[i].count, 0);
}

/* What comes before a call. Returns the number of records. */
static size_t precede(const struct call *call, bool known)
{
	clear_tables();
	if (fixture.shm->sample_bytes) {
		FIXTURE_CALL(&stacks.outer, FIXTURE_CALLOC, BLOCK_A, 1, 10);
		publish_stack();
		return 1;
	}
	if (!call->anew)
		FIXTURE_CALL(&stacks.outer, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	publish_stack();
	if (known)
		FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1);
	return !call->anew + known;
}

static void fork_at_each_step(const struct call *call, bool known)
{
	unsigned forks = 0;

#if defined(__SANITIZE_THREAD__)
	limpet_skip("the agent uses the test's own map of the shared memory");
#endif
	if (!fixture.start.windows)
		limpet_skip("memory that grows may not grow enough here");
	before = malloc(fixture.shm->bytes - fixture.shm->layout.threads_offset);
	assert_non_null(before);
	change = fork_here;
	handler_recorded = false;
	for (long step = call->first_step;; step += stride * FORK_STRIDES) {
		const size_t first = precede(call, known);
		const bool done = stepped_call(call, step);

		if (!child)
			_exit(FIXTURE_CALL(&stacks.outer, FIXTURE_MALLOC, BLOCK_A, 1));
		assert_true(done);
		assert_outside();
		check_records(call, step, first);
		assert_nothing_lost();
		if (!fired || (call->anew && fired_leaving))
			break;
		forks++;
	}
	free(before);
	assert_true(forks > 5 / FORK_STRIDES);
	print_message("# %u forks\n", forks);
}

/* ------------------------------------------------------------------ tables that change */

#define CODE 0x400000u
#define CODE_BYTES 0x100000u

/* One rule for all of the code. */
static struct one_rule {
	struct limpet_unwind_table head;
	uint32_t index[17];
	struct limpet_unwind_row rows[1];
	struct limpet_unwind_rule rules[3];
} by_frame_pointer, at_an_end;

static uint64_t put_table(struct one_rule *table, enum limpet_unwind_cfa cfa)
{
	struct limpet_segment *segment = fixture.segment;
	uint64_t place = segment->tables.arena_used;

	*table = (struct one_rule){
		.head = {.magic = LIMPET_UNWIND_MAGIC,
			 .version = LIMPET_UNWIND_VERSION,
			 .bucket_shift = 16,
			 .bytes = sizeof(*table),
			 .covered = CODE_BYTES,
			 .bucket_count = 16,
			 .row_count = 1,
			 .rule_count = 3,
			 .index_offset = offsetof(struct one_rule, index),
			 .rows_offset = offsetof(struct one_rule, rows),
			 .rules_offset = offsetof(struct one_rule, rules)},
		.rows = {{.low = 0, .rule = 2}},
		.rules = {{.cfa = LIMPET_CFA_NONE},
			  {.cfa = LIMPET_CFA_UNKNOWN},
			  {.cfa = (uint8_t)cfa,
			   .fp = LIMPET_FP_CFA,
			   .cfa_offset = 16,
			   .fp_offset = -16}},
	};
	for (unsigned i = 1; i < LIMPET_COUNT_OF(table->index); i++)
		table->index[i] = 1;
	assert_int_equal(pwrite(segment->file, table, sizeof(*table),
				(off_t)(segment->arena_offset + place)),
			 sizeof(*table));
	segment->tables.arena_used += (sizeof(*table) + LIMPET_UNWIND_ALIGN - 1) /
				      LIMPET_UNWIND_ALIGN * LIMPET_UNWIND_ALIGN;
	return place;
}

static uint64_t right_table, end_table;

static void put_list(uint64_t table)
{
	struct limpet_shm *shm = fixture.shm;
	uint32_t next = shm->unwind_current + 1;
	struct limpet_unwind_module *list =
		(struct limpet_unwind_module *)(void *)((uint8_t *)shm +
							shm->layout.unwind_modules_offset) +
		(uint64_t)(next & 1) * LIMPET_MAX_UNWIND_MODULES;

	list[0] = (struct limpet_unwind_module){.start = CODE,
						.end = CODE + CODE_BYTES,
						.table = table,
						.table_bytes = sizeof(by_frame_pointer),
						.live = 1};
	shm->unwind_count[next & 1] = 1;
	__atomic_store_n(&shm->unwind_current, next, __ATOMIC_RELEASE);
}

/* The list that a walk began with is written to when another has come in between. */
static void change_twice(void)
{
	put_list(right_table);
	put_list(end_table);
}

static uint32_t depth_of(uint32_t number, const uint64_t *path, uint32_t count)
{
	struct fixture_frames frames;

	fixture_frames_of(&fixture, number, &frames);
	assert_in_range(frames.count, 1, count);
	assert_path(number, path, frames.count);
	return frames.count;
}

/* A stack is one by the tables of one list, whenever lists are exchanged. */
static void change_at_each_step(bool in_place)
{
	const struct call call = {.hook = FIXTURE_MALLOC, .args = {10}, .result = BLOCK_A};
	enum { COUNT = 9 };
	unsigned whole = 0, ended = 0;

#if defined(__SANITIZE_THREAD__)
	limpet_skip("the thread sanitizer holds signals back until its own moments");
#endif
	right_table = put_table(&by_frame_pointer, LIMPET_CFA_FP);
	end_table = put_table(&at_an_end, LIMPET_CFA_END);
	change = change_twice;
	for (long step = 1;; step += 12 * (stride < 7 ? stride : 7) + 1) {
		uint64_t path[COUNT];

		/* Code that no rule is remembered of. */
		for (unsigned i = 0; i < COUNT; i++)
			path[i] = CODE + 0x111 + (uint64_t)(step * COUNT + i) % 0xff00 * 16;
		path[COUNT - 1] = CODE + CODE_BYTES + 0x111; /* and a frame pointer of 0: the end */
		clear_tables();
		fixture_stack_build(&stacks.outer, path, COUNT);
		FIXTURE_CALL(&stacks.outer, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
		if (in_place)
			publish_stack();
		put_list(end_table);
		put_list(right_table);
		assert_true(stepped_call(&call, step));
		if (depth_of(last_stack(), path, COUNT) == COUNT)
			whole++;
		else if (depth_of(last_stack(), path, COUNT) == 1)
			ended++;
		else
			fail_msg("step %ld: %u frames", step, depth_of(last_stack(), path, COUNT));
		if (!fired)
			break;
	}
	change = NULL;
	print_message("# %u by the first list, %u by the last\n", whole, ended);
	assert_true(whole > 5 && ended > 5);
}

/* The caller's frame by one list, `steps` instructions into which the lists are exchanged. */
static __attribute__((noinline)) int64_t stepped_arguments(const struct limpet_thread *thread,
							   long steps)
{
	int64_t bytes;

	steps_left = steps;
	fired = false;
	begin_stepping();
	bytes = limpet_stack_arguments(thread, &stacks.outer.hook);
	end_stepping();
	return bytes;
}

static void change_to_the_same(void)
{
	put_list(right_table);
	put_list(right_table);
}

/* How much of the caller's frame a call may need is found whenever lists are exchanged: also in a
 * thread's first calls, when its stack is not known. */
static void find_arguments_at_each_step(bool known)
{
	const uint64_t path[] = {CODE + 0x1111, CODE + 0x2222};
	const struct limpet_thread *thread;
	unsigned steps = 0;

#if defined(__SANITIZE_THREAD__)
	limpet_skip("the thread sanitizer holds signals back until its own moments");
#endif
	right_table = put_table(&by_frame_pointer, LIMPET_CFA_FP);
	change = change_to_the_same;
	fixture_stack_build(&stacks.outer, path, LIMPET_COUNT_OF(path));
	FIXTURE_CALL(&stacks.outer, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	if (known)
		publish_stack();
	thread = limpet_thread_self(0);
	change_to_the_same();
	for (long step = 1;; step++, steps++) {
		int64_t bytes = stepped_arguments(thread, step);

		if (bytes != 16)
			fail_msg("step %ld: %ld bytes", step, (long)bytes);
		if (!fired)
			break;
	}
	change = NULL;
	assert_true(steps > 50);
}

static int begin_with(uint64_t memory_bytes, struct limpet_segment *segment)
{
	const struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	change = NULL;
	agent_fixture_begin(&fixture, memory_bytes, segment);
	/* Few entries, so that looking at all of them at each step takes no time. */
	fixture.shm->layout.thread_count = 8;
	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES; i++) {
		fixture.shm->layout.fingerprint_count[i] = STACK_ENTRIES;
		fixture.shm->fingerprint_use[i].shift = 0;
	}
	limpet_record_configure();
	fixture_stack_build(&stacks.handler, addresses, 2);
	fixture_stack_build(&stacks.inner, addresses, 2);
	fixture_stack_build(&stacks.outer, addresses, 2);
	fixture_stack_build(&stacks.upper, addresses, 2);
	return sigaction(SIGTRAP, &action, NULL);
}

static int begin(void **state)
{
	(void)state;
	return begin_with(MEMORY_BYTES, NULL);
}

static int begin_small(void **state)
{
	(void)state;
	return begin_with(8u << 20, NULL);
}

static int end(void **state)
{
	(void)state;
	signal(SIGTRAP, SIG_DFL);
	agent_fixture_end(&fixture);
	return 0;
}

static void test_malloc_at_every_instruction(void **state)
{
	(void)state;
	step_through(&(const struct call){.hook = FIXTURE_MALLOC,
					  .first_step = 1,
					  .args = {10},
					  .result = BLOCK_A,
					  .records = 1,
					  .types = {LIMPET_EVENT_ALLOC},
					  .blocks = {BLOCK_A}});
}

static void test_free_at_every_instruction(void **state)
{
	(void)state;
	step_through(&(const struct call){.hook = FIXTURE_FREE,
					  .first_step = 2,
					  .args = {BLOCK_A},
					  .records = 1,
					  .types = {LIMPET_EVENT_FREE},
					  .blocks = {BLOCK_A}});
}

static void test_realloc_at_every_instruction(void **state)
{
	(void)state;
	step_through(&(const struct call){.hook = FIXTURE_REALLOC,
					  .first_step = 3,
					  .args = {BLOCK_A, 20},
					  .result = BLOCK_B,
					  .records = 2,
					  .types = {LIMPET_EVENT_FREE, LIMPET_EVENT_ALLOC},
					  .blocks = {BLOCK_A, BLOCK_B}});
}

static void test_a_claim_at_every_instruction(void **state)
{
	(void)state;
	step_through(&(const struct call){.hook = FIXTURE_MALLOC,
					  .first_step = 1,
					  .args = {10},
					  .result = BLOCK_A,
					  .records = 1,
					  .types = {LIMPET_EVENT_ALLOC},
					  .blocks = {BLOCK_A},
					  .anew = true});
}

static void test_a_malloc_left_at_every_instruction(void **state)
{
	(void)state;
	leave_at_each_step(&(const struct call){.hook = FIXTURE_MALLOC,
						.first_step = 1,
						.args = {10},
						.result = BLOCK_A,
						.records = 1,
						.types = {LIMPET_EVENT_ALLOC},
						.blocks = {BLOCK_A}});
}

static void test_a_free_left_at_every_instruction(void **state)
{
	(void)state;
	leave_at_each_step(&(const struct call){.hook = FIXTURE_FREE,
						.first_step = 2,
						.args = {BLOCK_A},
						.records = 1,
						.types = {LIMPET_EVENT_FREE},
						.blocks = {BLOCK_A}});
}

static void test_a_realloc_left_at_every_instruction(void **state)
{
	(void)state;
	leave_at_each_step(&(const struct call){.hook = FIXTURE_REALLOC,
						.first_step = 3,
						.args = {BLOCK_A, 20},
						.result = BLOCK_B,
						.records = 2,
						.types = {LIMPET_EVENT_FREE, LIMPET_EVENT_ALLOC},
						.blocks = {BLOCK_A, BLOCK_B}});
}

static const struct call a_malloc = {.hook = FIXTURE_MALLOC,
				     .first_step = 1,
				     .args = {10},
				     .result = BLOCK_A,
				     .records = 1,
				     .types = {LIMPET_EVENT_ALLOC},
				     .blocks = {BLOCK_A}};

static void test_a_fork_at_every_instruction_of_malloc(void **state)
{
	struct call claim = a_malloc;

	(void)state;
	fork_at_each_step(&a_malloc, false);
	fork_at_each_step(&a_malloc, true);
	claim.anew = true;
	fork_at_each_step(&claim, false);
}

static void test_a_fork_at_every_instruction_of_free(void **state)
{
	(void)state;
	fork_at_each_step(&(const struct call){.hook = FIXTURE_FREE,
					       .first_step = 2,
					       .args = {BLOCK_A},
					       .records = 1,
					       .types = {LIMPET_EVENT_FREE},
					       .blocks = {BLOCK_A}},
			  false);
}

static void test_a_fork_at_every_instruction_of_realloc(void **state)
{
	(void)state;
	fork_at_each_step(&(const struct call){.hook = FIXTURE_REALLOC,
					       .first_step = 3,
					       .args = {BLOCK_A, 20},
					       .result = BLOCK_B,
					       .records = 2,
					       .types = {LIMPET_EVENT_FREE, LIMPET_EVENT_ALLOC},
					       .blocks = {BLOCK_A, BLOCK_B}},
			  false);
}

static void test_a_fork_at_every_instruction_of_a_sample(void **state)
{
	(void)state;
	fork_at_each_step(&(const struct call){.hook = FIXTURE_CALLOC,
					       .first_step = 1,
					       .args = {1, 10},
					       .result = BLOCK_B,
					       .records = 1,
					       .types = {LIMPET_EVENT_ALLOC},
					       .blocks = {BLOCK_B}},
			  false);
	fork_at_each_step(&(const struct call){.hook = FIXTURE_FREE_UNSIZED,
					       .first_step = 2,
					       .args = {BLOCK_A},
					       .records = 1,
					       .types = {LIMPET_EVENT_FREE},
					       .blocks = {BLOCK_A}},
			  false);
}

static void test_tables_that_change_at_every_instruction(void **state)
{
	(void)state;
	change_at_each_step(true);
}

static void test_tables_that_change_while_a_stack_is_copied(void **state)
{
	(void)state;
	change_at_each_step(false);
}

static void test_arguments_while_tables_change_at_every_instruction(void **state)
{
	(void)state;
	find_arguments_at_each_step(false);
	find_arguments_at_each_step(true);
}

static struct limpet_segment sampled;

/* Nearly each allocation is a sample. */
static int begin_sampled(void **state)
{
	const struct limpet_sampling sampling = {.bytes = 1};

	(void)state;
	assert_int_equal(limpet_segment_create(8u << 20, 0, &sampling, &sampled, NULL), 0);
	return begin_with(0, &sampled);
}

static int end_sampled(void **state)
{
	const int answer = end(state);

	limpet_segment_done(&sampled);
	return answer;
}

int main(void)
{
	const char *text = getenv("SIGNAL_STRIDE");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tables_that_change_at_every_instruction, begin,
						end),
		cmocka_unit_test_setup_teardown(test_tables_that_change_while_a_stack_is_copied,
						begin, end),
		cmocka_unit_test_setup_teardown(
			test_arguments_while_tables_change_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_malloc_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_free_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_realloc_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_a_claim_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_a_fork_at_every_instruction_of_malloc,
						begin_small, end),
		cmocka_unit_test_setup_teardown(test_a_fork_at_every_instruction_of_free,
						begin_small, end),
		cmocka_unit_test_setup_teardown(test_a_fork_at_every_instruction_of_realloc,
						begin_small, end),
		cmocka_unit_test_setup_teardown(test_a_fork_at_every_instruction_of_a_sample,
						begin_sampled, end_sampled),
		cmocka_unit_test_setup_teardown(test_a_malloc_left_at_every_instruction, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_free_left_at_every_instruction, begin, end),
		cmocka_unit_test_setup_teardown(test_a_realloc_left_at_every_instruction, begin,
						end),
	};

	if (text && strtol(text, NULL, 10) > 0)
		stride = strtol(text, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
