/* The agent's hooks under --sample, and in an overload under --on-overload sample: called through
 * their thunks, so by the way that a slot leads to. Samples are not drawn here but decided: see
 * take_next(). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/hook_paths.h"
#include "agent/sampled.h"
#include "common/err.h"
#include "test/unit/agent_fixture.h"

#define PERIOD (512u << 10)
#define SMALL_BYTES (8u << 20)
#define LARGE_BYTES (64u << 20)
#define FAILED ((uint64_t)-1)
#define BLOCK_A 0x10000040ull
#define BLOCK_B 0x20000080ull
#define BLOCK_C 0x300000c0ull
#define USABLE(block) ((block)&0xfff)

static struct limpet_segment segment;
static size_t seen_before; /* records of this thread that were asserted */
static struct agent_fixture fixture;

/* ------------------------------------------------------------------ the allocator, and its callers
 */

static _Thread_local uint64_t answer;
static _Thread_local uint64_t published; /* the block of posix_memalign; 0: it is not called */
static _Thread_local void (*inside)(void);

static uint64_t original(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	void (*call)(void) = inside;

	(void)b, (void)c, (void)d, (void)e, (void)f;
	if (published)
		*(uint64_t *)(uintptr_t)a = published;
	published = 0;
	inside = NULL;
	if (call)
		call();
	return answer;
}

static uint64_t usable(uint64_t block)
{
	return USABLE(block);
}

enum { LEAF, NOT_LEAF, WAYS };
static const enum limpet_op ops[] = {
	LIMPET_OP_MALLOC,       LIMPET_OP_CALLOC,         LIMPET_OP_REALLOC,
	LIMPET_OP_REALLOCARRAY, LIMPET_OP_FREE,           LIMPET_OP_POSIX_MEMALIGN,
	LIMPET_OP_MEMALIGN,     LIMPET_OP_MMAP,           LIMPET_OP_MUNMAP,
	LIMPET_OP_MREMAP,       LIMPET_OP_STRING,         LIMPET_OP_REALPATH,
	LIMPET_OP_REALLOCF,     LIMPET_OP_RESIZE,         LIMPET_OP_DESTROY,
	LIMPET_OP_CONTROL,      LIMPET_OP_CONTROL_BY_MIB, LIMPET_OP_UNFOLLOWED,
};

/* Hooks of all ops by both ways, from number 16 on: in front lie the fixture's. */
static unsigned hook_of(enum limpet_op op, unsigned way)
{
	return 16 + (unsigned)op * WAYS + way;
}

static void begin(uint64_t memory_bytes, const struct limpet_sampling *sampling)
{
	assert_int_equal(limpet_segment_create(memory_bytes, 0, sampling, &segment, NULL), 0);
	segment.shm->sample_seed = 4711; /* the same draws each time */
	agent_fixture_begin(&fixture, 0, &segment);
	seen_before = 0;
	for (size_t i = 0; i < LIMPET_COUNT_OF(ops); i++)
		for (unsigned way = 0; way < WAYS; way++) {
			const struct limpet_hook hook = {
				.original = (uint64_t)(uintptr_t)original,
				.usable_size = (uint64_t)(uintptr_t)usable,
				.op = (uint16_t)ops[i],
				.flags = way == LEAF ? LIMPET_HOOK_LEAF : 0,
			};

			limpet_hook_set(hook_of(ops[i], way), &hook);
		}
}

static int begin_sampling(void **state)
{
	(void)state;
	begin(SMALL_BYTES, &(const struct limpet_sampling){.bytes = PERIOD});
	return 0;
}

static int begin_overloads(void **state)
{
	(void)state;
	begin(SMALL_BYTES, &(const struct limpet_sampling){.overload_bytes = PERIOD});
	return 0;
}

static int begin_large(void **state)
{
	(void)state;
	begin(LARGE_BYTES, &(const struct limpet_sampling){.overload_bytes = PERIOD});
	return 0;
}

static int end(void **state)
{
	(void)state;
	agent_fixture_end(&fixture);
	limpet_segment_done(&segment);
	return 0;
}

static uint64_t call_hook(unsigned hook, uint64_t result, const uint64_t args[6])
{
	typedef uint64_t hook_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
	hook_fn *thunk = (hook_fn *)(uintptr_t)limpet_thunk(hook);

	answer = result;
	return thunk(args[0], args[1], args[2], args[3], args[4], args[5]);
}
/* The program's call: what it gets is what the original answered. */
#define CALL(op, way, result, ...)                                                           \
	assert_true(call_hook(hook_of(op, way), result, (const uint64_t[6]){__VA_ARGS__}) == \
		    (result))

static struct limpet_thread *own_thread(void)
{
	uint32_t tid = (uint32_t)limpet_syscall1(SYS_gettid, 0);
	uint64_t pointer = limpet_thread_pointer();

	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++)
		if (fixture_thread(&fixture, i)->thread_pointer == pointer)
			return fixture_thread(&fixture, i);
	/* Its first call. */
	CALL(LIMPET_OP_MUNMAP, LEAF, FAILED, 0, 0);
	return fixture_thread(&fixture, fixture_thread_of(&fixture, tid));
}

static struct limpet_own *own_private(void)
{
	return limpet_own(&limpet_hot.threads[own_thread() - fixture_thread(&fixture, 0)]);
}

/* The thread's next allocation is a sample, or far from one. */
static void take_next(bool taken)
{
	own_private()->sample.left = taken ? 1 : 1ull << 60;
}

/* ------------------------------------------------------------------ what was recorded */

struct expected {
	uint32_t type; /* with LIMPET_EVENT_REALLOC */
	uint64_t address, size;
};

static size_t own_records(struct fixture_record **ret_records)
{
	uint32_t index = (uint32_t)(own_thread() - fixture_thread(&fixture, 0));

	return fixture_records(&fixture, index, ret_records);
}

/* Exactly these since the last time, in this order. */
static void assert_recorded(const struct expected *expected, size_t count)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t all = own_records(&records), before = seen_before;

	for (size_t i = before; i < all && i - before < count; i++) {
		const uint32_t half = records[i].realloc ? LIMPET_EVENT_REALLOC : 0;

		assert_int_equal(records[i].type | half, expected[i - before].type);
		assert_int_equal(records[i].address, expected[i - before].address);
		if (!records[i].marked)
			assert_int_equal(records[i].size, expected[i - before].size);
	}
	assert_int_equal(all - before, count);
	seen_before = all;
	assert_int_equal(own_thread()->depth, 0);
	assert_int_equal(own_thread()->intent, 0);
	assert_int_equal(own_thread()->held_intent, 0);
	assert_int_equal(own_thread()->phase, LIMPET_PHASE_OUTSIDE);
}
#define RECORDED(...)                                           \
	assert_recorded((const struct expected[]){__VA_ARGS__}, \
			sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))
#define NOTHING() assert_recorded(NULL, 0)

/* An allocation is recorded as this, in the mode at hand. */
static uint32_t type_of_sample(void)
{
	return fixture.shm->sample_bytes ? LIMPET_EVENT_ALLOC
					 : LIMPET_EVENT_ALLOC | LIMPET_EVENT_SAMPLED;
}

static void allocate(uint64_t block, uint64_t size, bool taken)
{
	take_next(taken);
	CALL(LIMPET_OP_MALLOC, LEAF, block, size);
	if (taken)
		RECORDED({type_of_sample(), block, size});
	else
		NOTHING();
}

/* Ends a block, which was recorded or not. */
static void release(uint64_t block, bool recorded)
{
	static unsigned turn;

	CALL(LIMPET_OP_FREE, turn++ % WAYS, 0, block);
	if (recorded)
		RECORDED({LIMPET_EVENT_FREE, block, USABLE(block)});
	else
		NOTHING();
}

/* In a mode where nothing that was recorded lives, a free of this address finds nothing. */
static void assert_unknown(uint64_t block)
{
	if (fixture.shm->sample_bytes)
		release(block, false);
}

/* ------------------------------------------------------------------ all functions, in both modes
 */

static const struct maker {
	enum limpet_op op;
	uint64_t args[3], size;
} makers[] = {
	{LIMPET_OP_MALLOC, {100}, 100},
	{LIMPET_OP_MALLOC, {0}, 0},
	{LIMPET_OP_MALLOC, {5ull << 32}, 5ull << 32},
	{LIMPET_OP_CALLOC, {7, 9}, 63},
	{LIMPET_OP_REALLOC, {0, 50}, 50},
	{LIMPET_OP_REALLOCARRAY, {0, 5, 6}, 30},
	{LIMPET_OP_MEMALIGN, {64, 1000}, 1000},
	{LIMPET_OP_POSIX_MEMALIGN, {0 /* where to */, 64, 200}, 200},
};

static void make(const struct maker *maker, unsigned way, uint64_t block, bool taken)
{
	uint64_t place = 0;

	take_next(taken);
	if (maker->op == LIMPET_OP_POSIX_MEMALIGN) {
		published = block;
		CALL(maker->op, way, 0, (uint64_t)(uintptr_t)&place, maker->args[1],
		     maker->args[2]);
		assert_int_equal(place, block);
	} else {
		CALL(maker->op, way, block, maker->args[0], maker->args[1], maker->args[2]);
	}
}

static void check_every_function(void)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(makers); i++)
		for (unsigned way = 0; way < WAYS; way++) {
			make(&makers[i], way, BLOCK_A, true);
			RECORDED({type_of_sample(), BLOCK_A, makers[i].size});
			make(&makers[i], way, BLOCK_B, false);
			NOTHING();
			release(BLOCK_B, false);
			release(BLOCK_A, true);
			assert_unknown(BLOCK_A);
			/* And the same addresses the other way round. */
			make(&makers[i], way, BLOCK_B, true);
			RECORDED({type_of_sample(), BLOCK_B, makers[i].size});
			make(&makers[i], way, BLOCK_A, false);
			release(BLOCK_A, false);
			release(BLOCK_B, true);
		}
	CALL(LIMPET_OP_FREE, LEAF, 0, 0);
	CALL(LIMPET_OP_FREE, NOT_LEAF, 0, 0);
	NOTHING();
}

/* A call that failed made no block: nothing is recorded, and nothing known of any address. */
static void check_failures(void)
{
	for (unsigned way = 0; way < WAYS; way++) {
		for (int taken = 0; taken < 2; taken++) {
			take_next(taken);
			CALL(LIMPET_OP_MALLOC, way, 0, 100);
			take_next(taken);
			CALL(LIMPET_OP_CALLOC, way, 0, 7, 9);
			take_next(taken);
			CALL(LIMPET_OP_CALLOC, way, 0, 1ull << 60, 1ull << 60);
			/* A product that does not fit is no size, not even for the draw. */
			assert_int_equal(own_private()->sample.left, taken ? 1 : 1ull << 60);
			take_next(taken);
			CALL(LIMPET_OP_MEMALIGN, way, 0, 3, 100);
			take_next(taken);
			CALL(LIMPET_OP_POSIX_MEMALIGN, way, ENOMEM, 0, 3, 100);
			take_next(taken);
			CALL(LIMPET_OP_REALLOC, way, 0, 0, 100);
			take_next(taken);
			CALL(LIMPET_OP_MALLOC, way, 0, UINT64_MAX);
			take_next(taken);
			CALL(LIMPET_OP_MALLOC, way, 0, 100);
			NOTHING();
		}
	}
}

enum outcome { IN_PLACE, MOVES, TO_ZERO, ZERO_KEPT, FAILS, OUTCOMES };

/* One realloc of a block that was recorded or not, whose new block is to be or not. */
static void check_realloc(enum limpet_op op, enum outcome outcome, bool old_taken, bool new_taken)
{
	const uint64_t result = outcome == IN_PLACE || outcome == ZERO_KEPT ? BLOCK_A
				: outcome == MOVES                          ? BLOCK_B
									    : 0;
	const uint64_t size = outcome == TO_ZERO || outcome == ZERO_KEPT ? 0 : 24;
	const uint32_t half = result ? LIMPET_EVENT_REALLOC : 0;
	struct expected expected[2];
	size_t count = 0;

	allocate(BLOCK_A, 10, old_taken);
	take_next(new_taken);
	if (op == LIMPET_OP_REALLOC)
		CALL(op, LEAF, result, BLOCK_A, size);
	else
		CALL(op, LEAF, result, BLOCK_A, size / 3, 3);
	if (outcome != FAILS && old_taken)
		expected[count++] =
			(struct expected){LIMPET_EVENT_FREE | half, BLOCK_A, USABLE(BLOCK_A)};
	if (result && new_taken)
		expected[count++] = (struct expected){type_of_sample() | half, result, size};
	assert_recorded(expected, count);
	/* Whoever is still there is known for what it is. */
	if (result)
		release(result, new_taken);
	else if (outcome == FAILS)
		release(BLOCK_A, old_taken);
	assert_unknown(BLOCK_A);
	assert_unknown(BLOCK_B);
}

static void check_reallocs(void)
{
	for (int outcome = 0; outcome < OUTCOMES; outcome++)
		for (int which = 0; which < 8; which++)
			check_realloc(which & 4 ? LIMPET_OP_REALLOCARRAY : LIMPET_OP_REALLOC,
				      (enum outcome)outcome, which & 1, which & 2);
}

/* The product does not fit: the call failed, and the old block lives on. */
static void check_reallocarray_overflow(bool old_taken)
{
	allocate(BLOCK_A, 10, old_taken);
	take_next(true);
	CALL(LIMPET_OP_REALLOCARRAY, LEAF, 0, BLOCK_A, 1ull << 63, 2);
	CALL(LIMPET_OP_REALLOCARRAY, LEAF, 0, BLOCK_A, 1ull << 32, 1ull << 32);
	NOTHING();
	release(BLOCK_A, old_taken);
}

/* The size of a string is known when it is there. */
static void check_strings(void)
{
	static char text[] = "eleven byte", buffer[16];
	const uint64_t block = (uint64_t)(uintptr_t)text;

	for (unsigned way = 0; way < WAYS; way++)
		for (int taken = 0; taken < 2; taken++)
			for (int which = 0; which < 2; which++) {
				take_next(taken);
				CALL(which ? LIMPET_OP_STRING : LIMPET_OP_REALPATH, way, block, 1,
				     which ? block : 0);
				if (taken)
					RECORDED({type_of_sample(), block, sizeof(text)});
				release(block, taken);
				take_next(taken);
				CALL(which ? LIMPET_OP_STRING : LIMPET_OP_REALPATH, way, 0, 1, 0);
				CALL(LIMPET_OP_REALPATH, way, (uint64_t)(uintptr_t)buffer, 1,
				     (uint64_t)(uintptr_t)buffer);
				NOTHING();
			}
}

/* The block is gone if it could not be moved. */
static void check_reallocf(bool old_taken)
{
	allocate(BLOCK_A, 10, old_taken);
	take_next(true);
	CALL(LIMPET_OP_REALLOCF, LEAF, BLOCK_B, BLOCK_A, 500);
	if (old_taken)
		RECORDED({LIMPET_EVENT_FREE | LIMPET_EVENT_REALLOC, BLOCK_A, USABLE(BLOCK_A)},
			 {type_of_sample() | LIMPET_EVENT_REALLOC, BLOCK_B, 500});
	else
		RECORDED({type_of_sample() | LIMPET_EVENT_REALLOC, BLOCK_B, 500});
	release(BLOCK_B, true);
	allocate(BLOCK_A, 10, old_taken);
	take_next(true);
	CALL(LIMPET_OP_REALLOCF, LEAF, 0, BLOCK_A, 500);
	if (old_taken)
		RECORDED({LIMPET_EVENT_FREE, BLOCK_A, USABLE(BLOCK_A)});
	else
		NOTHING();
	assert_unknown(BLOCK_A);
}

/* In place or not at all: a result below the size is a block that is as it was. */
static void check_resize(bool old_taken)
{
	allocate(BLOCK_A, 10, old_taken);
	take_next(true);
	CALL(LIMPET_OP_RESIZE, LEAF, 16, BLOCK_A, 17, 0, 0);
	NOTHING();
	release(BLOCK_A, old_taken);
	allocate(BLOCK_A, 10, old_taken);
	take_next(true);
	CALL(LIMPET_OP_RESIZE, LEAF, 48, BLOCK_A, 40, 8, 0);
	if (old_taken)
		RECORDED({LIMPET_EVENT_FREE | LIMPET_EVENT_REALLOC, BLOCK_A, USABLE(BLOCK_A)},
			 {type_of_sample() | LIMPET_EVENT_REALLOC, BLOCK_A, 40});
	else
		RECORDED({type_of_sample() | LIMPET_EVENT_REALLOC, BLOCK_A, 40});
	release(BLOCK_A, true);
}

static void check_others(void)
{
	check_strings();
	for (int taken = 0; taken < 2; taken++) {
		check_reallocf(taken);
		check_resize(taken);
	}
}

static int name_to_mib(const char *name, uint64_t *mib, uint64_t *length)
{
	static const struct {
		const char *name;
		uint64_t length, mib[3];
	} list[] = {{"arena.0.reset", 3, {8, 0, 3}}, {"arena.0.destroy", 3, {8, 0, 4}}};

	/* The agent is not unmapped under this call. */
	assert_true(own_thread()->depth);
	assert_int_equal(own_thread()->phase, LIMPET_PHASE_OUTSIDE);
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		if (!strcmp(name, list[i].name) && *length >= list[i].length) {
			memcpy(mib, list[i].mib, sizeof(list[i].mib));
			*length = list[i].length;
			return 0;
		}
	return ENOENT;
}

static void assert_noted(enum limpet_op op, uint64_t first, uint64_t second, uint32_t noted)
{
	fixture.shm->noted = 0;
	CALL(op, NOT_LEAF, 4711, first, second, 0, 0, 0, 0);
	assert_int_equal(fixture.shm->noted, noted);
	NOTHING();
}

/* Calls that are not events: what they may have done is noted, and no more. */
static void test_noted(void **state)
{
	static const struct {
		const char *name;
		uint32_t noted;
	} names[] = {
		{"arena.0.reset", LIMPET_NOTED_DESTROY},
		{"arena.4096.destroy", LIMPET_NOTED_DESTROY},
		{"arena.12.purge", 0},
		{"arena.12.resetting", 0},
		{"arena.", 0},
		{"arenas.create", 0},
		{"thread.arena.reset", 0},
		{"", 0},
		{"experimental.batch_alloc", LIMPET_NOTED_UNFOLLOWED},
	};
	static const uint64_t reset[] = {8, 77, 3}, destroy[] = {8, 78, 4}, purge[] = {8, 77, 2},
			      tcache[] = {5, 6, 3};
	struct limpet_hook *by_number = &limpet_hooks[hook_of(LIMPET_OP_CONTROL_BY_MIB, NOT_LEAF)];

	(void)state;
	own_thread();
	assert_noted(LIMPET_OP_DESTROY, BLOCK_A, 0, LIMPET_NOTED_DESTROY);
	assert_noted(LIMPET_OP_UNFOLLOWED, BLOCK_A, 0, LIMPET_NOTED_UNFOLLOWED);
	assert_noted(LIMPET_OP_CONTROL, 0, 0, 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		assert_noted(LIMPET_OP_CONTROL, (uint64_t)(uintptr_t)names[i].name, 0,
			     names[i].noted);
	by_number->usable_size = (uint64_t)(uintptr_t)name_to_mib;
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)reset, 3, LIMPET_NOTED_DESTROY);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)destroy, 3,
		     LIMPET_NOTED_DESTROY);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)purge, 3, 0);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)tcache, 3, 0);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)reset, 2, 0);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, 0, 3, 0);
	assert_false(own_thread()->depth);
	/* Without the names of the numbers, in doubt. */
	by_number->usable_size = 0;
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)purge, 3, LIMPET_NOTED_DESTROY);
	assert_noted(LIMPET_OP_CONTROL_BY_MIB, (uint64_t)(uintptr_t)purge, 2, 0);
}

static void check_mappings(void)
{
	for (unsigned way = 0; way < WAYS; way++) {
		take_next(false);
		CALL(LIMPET_OP_MMAP, way, 0x30000000, 0, 8192, 3, 0x22, FAILED, 0);
		CALL(LIMPET_OP_MREMAP, way, 0x40000000, 0x30000000, 8192, 16384, 1);
		CALL(LIMPET_OP_MUNMAP, way, 0, 0x40000000, 16384);
		CALL(LIMPET_OP_MUNMAP, way, FAILED, 0x40000001, 16384);
		RECORDED({LIMPET_EVENT_MMAP, 0x30000000, 8192},
			 {LIMPET_EVENT_MUNMAP, 0x30000000, 8192},
			 {LIMPET_EVENT_MMAP, 0x40000000, 16384},
			 {LIMPET_EVENT_MUNMAP, 0x40000000, 16384});
	}
}

/* One address over and over, as a site that churns gets it: drawn, not decided. Each sample has its
 * free, at once, and no other free is there. */
static void check_churn(void)
{
	const uint64_t size = 4096 - LIMPET_SAMPLE_EXTRA_BYTES;
	const unsigned rounds = 40000;
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t before = own_records(&records), count;
	double mean = rounds * 4096.0 / PERIOD; /* 312 */

	own_private()->sample = (struct limpet_sample_state){0};
	for (unsigned i = 0; i < rounds; i++) {
		CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_C, size);
		CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_C);
	}
	free(LIMPET_TAKE(records));
	count = own_records(&records) - before;
	/* 6 standard deviations */
	assert_true((double)count / 2 > mean - 106 && (double)count / 2 < mean + 106);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(records[before + i].address, BLOCK_C);
		assert_int_equal(records[before + i].type,
				 i % 2 ? LIMPET_EVENT_FREE : type_of_sample());
	}
}

static bool handler_took;

static void allocate_in_handler(int number)
{
	uint64_t outer = answer;

	(void)number;
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_C, 77);
	CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_C);
	answer = outer;
	handler_took = true;
}

static void raise_signal(void)
{
	raise(SIGUSR1);
}

/* A handler's calls within a hook pass, whatever is due; the hook's own is recorded as was decided.
 */
static void check_signal(void)
{
	struct sigaction action = {.sa_handler = allocate_in_handler}, old;

	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	for (int taken = 0; taken < 2; taken++) {
		handler_took = false;
		take_next(taken);
		inside = raise_signal;
		CALL(LIMPET_OP_MEMALIGN, NOT_LEAF, BLOCK_A, 64, 500);
		if (taken)
			RECORDED({type_of_sample(), BLOCK_A, 500});
		else
			NOTHING();
		release(BLOCK_A, taken);
		/* A plain jump leaves no hook to interrupt: then they count like any other. */
		assert_true(handler_took || !taken);
	}
	take_next(true);
	raise(SIGUSR1);
	RECORDED({type_of_sample(), BLOCK_C, 77}, {LIMPET_EVENT_FREE, BLOCK_C, USABLE(BLOCK_C)});
	sigaction(SIGUSR1, &old, NULL);
}

static bool forked_child;
static pid_t forked;
static uint8_t *before_fork;
static int forked_status;

static void fork_inside(void)
{
	forked = fork();
	forked_child = forked == 0;
	if (forked_child) /* also the rest of this call must leave no trace */
		memcpy(before_fork, fixture.shm, segment.shm_bytes);
	if (forked > 0)
		assert_int_equal(waitpid(forked, &forked_status, 0), forked);
}

/* The child of a fork, also of one within a hook, writes nothing; the parent goes on. */
static void check_fork(bool taken)
{
	LIMPET_FREE uint8_t *copy = malloc(segment.shm_bytes);

	assert_non_null(copy);
	before_fork = copy;
	allocate(BLOCK_B, 5, true);
	take_next(taken);
	inside = fork_inside;
	forked_child = false;
	CALL(LIMPET_OP_MEMALIGN, NOT_LEAF, BLOCK_A, 64, 500);
	if (forked_child) {
		bool bad = false;

		for (unsigned i = 0; i < 10; i++) {
			bad |= call_hook(hook_of(LIMPET_OP_MALLOC, i % 2), BLOCK_C,
					 (const uint64_t[6]){1 << 20}) != BLOCK_C;
			call_hook(hook_of(LIMPET_OP_FREE, i % 2), 0, (const uint64_t[6]){BLOCK_B});
			call_hook(hook_of(LIMPET_OP_REALLOC, 0), BLOCK_C,
				  (const uint64_t[6]){BLOCK_B, 1 << 20});
		}
		/* The parent waits for us within its call. */
		bad |= memcmp(before_fork, fixture.shm, segment.shm_bytes) != 0;
		_exit(bad || limpet_control->on);
	}
	assert_true(forked > 0);
	assert_int_equal(forked_status, 0);
	if (taken)
		RECORDED({type_of_sample(), BLOCK_A, 500});
	else
		NOTHING();
	release(BLOCK_A, taken);
	release(BLOCK_B, true);
}

/* ------------------------------------------------------------------ --sample */

static void test_every_function(void **state)
{
	(void)state;
	check_every_function();
}

static void test_failures(void **state)
{
	(void)state;
	check_failures();
	for (uint32_t i = 0; i < fixture.shm->layout.sample_table_count; i++)
		assert_int_equal(
			((uint64_t *)limpet_shm_at(limpet_shm->layout.sample_table_offset))[i], 0);
}

static void test_reallocs(void **state)
{
	(void)state;
	check_reallocs();
	check_others();
	check_reallocarray_overflow(false);
	check_reallocarray_overflow(true);
}

static void test_mappings(void **state)
{
	(void)state;
	check_mappings();
}

static void test_churn(void **state)
{
	(void)state;
	check_churn();
}

static void test_signal(void **state)
{
	(void)state;
	check_signal();
}

static void test_fork(void **state)
{
	(void)state;
	check_fork(false);
	check_fork(true);
}

/* Of blocks that the capture did not see allocated, by every way. */
static void test_foreign_blocks(void **state)
{
	(void)state;
	for (unsigned way = 0; way < WAYS; way++) {
		CALL(LIMPET_OP_FREE, way, 0, BLOCK_A);
		take_next(false);
		CALL(LIMPET_OP_REALLOC, way, BLOCK_B, BLOCK_A, 100);
		take_next(false);
		CALL(LIMPET_OP_REALLOC, way, 0, BLOCK_A, 0);
		NOTHING();
		take_next(true);
		CALL(LIMPET_OP_REALLOC, way, BLOCK_B, BLOCK_A, 100);
		RECORDED({LIMPET_EVENT_ALLOC | LIMPET_EVENT_REALLOC, BLOCK_B, 100});
		release(BLOCK_B, true);
	}
}

/* Without room in the table a sample's free could not be told: it is not recorded, and counted. */
static void test_no_room_for_a_sample(void **state)
{
	uint64_t *table = limpet_shm_at(limpet_shm->layout.sample_table_offset);

	(void)state;
	for (uint32_t i = 0; i < limpet_shm->layout.sample_table_count; i++)
		table[i] = BLOCK_B + 16;
	take_next(true);
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_A, 100);
	NOTHING();
	assert_int_equal(fixture.shm->lost_no_sample, 1);
	release(BLOCK_A, false);
}

/* ------------------------------------------------------------------ overloads */

/* Of those at the end: the thread's own are the first. */
static bool is_own_chunk(uint32_t index)
{
	uint32_t chunk = __atomic_load_n(&own_thread()->first_chunk, __ATOMIC_ACQUIRE);

	while (chunk != LIMPET_CHUNK_NONE && chunk != index)
		chunk = __atomic_load_n(&fixture_chunk(&fixture, chunk)->next, __ATOMIC_ACQUIRE);
	return chunk == index;
}

/* The last ones, but for those that this thread has written to. */
static void set_free_chunks(uint32_t count)
{
	uint64_t *map = fixture_chunk_map(&fixture);

	memset(map, 0, fixture.shm->layout.chunk_count / 8);
	for (uint32_t i = fixture.shm->layout.chunk_count; i && count; i--) {
		if (is_own_chunk(i) || !limpet_chunk_is_usable(&fixture.shm->layout, i))
			continue;
		map[(i - 1) / 64] |= 1ull << (i - 1) % 64;
		count--;
	}
	assert_int_equal(count, 0);
}

/* By frees of blocks that nobody knows. */
static void fill_chunk(void)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	while (own_private()->end - own_private()->at >= 24)
		CALL(LIMPET_OP_FREE, LEAF, 0, 0x50000000);
	seen_before = own_records(&records);
}

/* As by a full table of chunks, without its records. */
static void overload(void)
{
	limpet_hot.overload |= 1;
	fixture.shm->overload_room = 0;
}

static void end_overload(void)
{
	limpet_hot.overload += limpet_hot.overload & 1;
}

static void test_it_begins_and_ends(void **state)
{
	const uint32_t chunks = fixture.shm->layout.chunk_count;

	(void)state;
	assert_int_equal(fixture.shm->overload_below, chunks / 4);
	take_next(true);
	/* Everything is recorded as long as there is room, also what a sampler would leave. */
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_A, 100);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 100});
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_B, 10);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 10});
	assert_int_equal(own_private()->sample.left, 1);

	/* A new chunk leaves as many as there have to be: nothing happens; one less, and it does.
	 */
	set_free_chunks(chunks / 4 + 1);
	fill_chunk();
	CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_B);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_B, USABLE(BLOCK_B)});
	fixture.shm->overload_room = 1; /* of before */
	fill_chunk();
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_B, 11);
	RECORDED({LIMPET_EVENT_OVERLOAD, 1, 0}, {LIMPET_EVENT_ALLOC, BLOCK_B, 11});
	assert_int_equal(fixture.shm->overload_room, 0);

	/* Blocks from before: recorded. Of its time: the samples. */
	release(BLOCK_A, true);
	allocate(BLOCK_A, 500, false);
	allocate(BLOCK_C, 600, true);
	release(BLOCK_A, false);
	release(BLOCK_B, true);
	release(BLOCK_C, true);
	allocate(BLOCK_A, 500, false);
	/* Another full chunk does not begin it again. */
	fill_chunk();
	allocate(BLOCK_B, 700, true);

	/* Room: the next allocation is recorded again, and whatever is freed; that of A finds
	 * nothing in the collector. */
	fixture.shm->overload_room = 1;
	take_next(false);
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_C, 12);
	RECORDED({LIMPET_EVENT_ROOM, 1, 0}, {LIMPET_EVENT_ALLOC, BLOCK_C, 12});
	release(BLOCK_A, true);
	release(BLOCK_B, true);
	release(BLOCK_C, true);

	set_free_chunks(3);
	fill_chunk();
	CALL(LIMPET_OP_CALLOC, LEAF, BLOCK_B, 11, 2);
	RECORDED({LIMPET_EVENT_OVERLOAD, 3, 0}, {LIMPET_EVENT_ALLOC, BLOCK_B, 22});
	assert_int_equal(own_thread()->dropped, 0);
}

/* To tell of the end takes room, too. */
static void test_no_room_to_tell_of_the_end(void **state)
{
	(void)state;
	own_thread();
	overload();
	fixture.shm->overload_room = 1;
	fill_chunk();
	set_free_chunks(0);
	take_next(false);
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_A, 12);
	assert_int_equal(limpet_hot.overload, 1);
	assert_int_equal(own_thread()->dropped, 0);
	set_free_chunks(1);
	CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_B, 13);
	RECORDED({LIMPET_EVENT_ROOM, 1, 0}, {LIMPET_EVENT_ALLOC, BLOCK_B, 13});
	assert_int_equal(limpet_hot.overload, 2);
}

static void test_overload_every_function(void **state)
{
	(void)state;
	overload();
	check_every_function();
}

static void test_overload_failures(void **state)
{
	(void)state;
	overload();
	check_failures();
	for (uint32_t i = 0; i < fixture.shm->layout.sample_table_count; i++)
		assert_int_equal(
			((uint64_t *)limpet_shm_at(limpet_shm->layout.sample_table_offset))[i], 0);
}

static void test_overload_reallocs(void **state)
{
	(void)state;
	overload();
	check_reallocs();
	check_others();
	check_reallocarray_overflow(true);
}

static void test_overload_mappings(void **state)
{
	(void)state;
	overload();
	check_mappings();
}

static void test_overload_churn(void **state)
{
	(void)state;
	overload();
	check_churn();
}

static void test_overload_signal(void **state)
{
	(void)state;
	overload();
	check_signal();
}

static void test_overload_fork(void **state)
{
	(void)state;
	overload();
	check_fork(false);
	check_fork(true);
}

/* What is noted in one overload says nothing in the next: the address has had other owners. */
static void test_notes_end_with_their_overload(void **state)
{
	(void)state;
	own_thread();
	for (unsigned i = 0; i < 3; i++) {
		overload();
		allocate(BLOCK_A, 100, false);
		end_overload();
		release(BLOCK_A, true); /* in vain, and without a look at the notes */
		CALL(LIMPET_OP_MALLOC, LEAF, BLOCK_A, 100);
		RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 100});
		overload();
		release(BLOCK_A, true);
		end_overload();
	}
}

/* A slot that is not ours freed the block: its note must not stand for the next one's. */
static void test_a_sample_takes_the_note_out(void **state)
{
	(void)state;
	own_thread();
	overload();
	allocate(BLOCK_A, 100, false);
	allocate(BLOCK_A, 200, true);
	release(BLOCK_A, true);
	allocate(BLOCK_A, 100, false);
	allocate(BLOCK_A, 100, false);
	release(BLOCK_A, false);
	/* noted once */
	release(BLOCK_A, true);
}

static void free_in_handler(int number)
{
	uint64_t outer = answer;

	(void)number;
	CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_B);
	CALL(LIMPET_OP_REALLOC, LEAF, BLOCK_A, BLOCK_C, 9);
	answer = outer;
}

/* A free that passes because it interrupts a hook takes the note out all the same. */
static void test_a_free_that_passes_takes_the_note_out(void **state)
{
	struct sigaction action = {.sa_handler = free_in_handler}, old;

	(void)state;
	own_thread();
	overload();
	allocate(BLOCK_B, 100, false);
	allocate(BLOCK_C, 100, false);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	take_next(true);
	inside = raise_signal;
	CALL(LIMPET_OP_MEMALIGN, NOT_LEAF, BLOCK_A, 64, 500);
	RECORDED({type_of_sample(), BLOCK_A, 500});
	sigaction(SIGUSR1, &old, NULL);
	release(BLOCK_B, true);
	release(BLOCK_C, true);
}

/* No room for a note, or an address that none can hold: the free is recorded, in vain. */
static void test_blocks_without_a_note(void **state)
{
	uint64_t *table = limpet_shm_at(limpet_shm->layout.sample_table_offset);
	static const uint64_t odd[] = {0x10000044, 0x800000000040, 0xffff800000000040};

	(void)state;
	own_thread();
	overload();
	for (size_t i = 0; i < LIMPET_COUNT_OF(odd); i++) {
		allocate(odd[i], 100, false);
		release(odd[i], true);
		allocate(odd[i], 100, true);
		release(odd[i], true);
	}
	allocate(BLOCK_B | 8, 8, false);
	release(BLOCK_B | 8, false);
	allocate(0x7ffffffffff8, 8, false);
	release(0x7ffffffffff8, false);
	allocate(BLOCK_C, 100, false);
	for (uint32_t i = 0; i < limpet_shm->layout.sample_table_count; i++)
		if (!table[i])
			table[i] = 1ull << 44 | i << 1 | 1;
	allocate(BLOCK_A, 100, false);
	release(BLOCK_A, true);
	release(BLOCK_C, false);
	/* Of another overload they are no hindrance. */
	end_overload();
	overload();
	allocate(BLOCK_A, 100, false);
	release(BLOCK_A, false);
}

/* A million of them, then no more: the number would come round. */
static void test_the_last_overload(void **state)
{
	(void)state;
	own_thread();
	limpet_hot.overload = 2 * LIMPET_OVERLOAD_TAGS - 4;
	set_free_chunks(2);
	fill_chunk();
	CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_C);
	RECORDED({LIMPET_EVENT_OVERLOAD, 2 * LIMPET_OVERLOAD_TAGS - 3, 0},
		 {LIMPET_EVENT_FREE, BLOCK_C, USABLE(BLOCK_C)});
	allocate(BLOCK_A, 100, false);
	release(BLOCK_A, false);
	end_overload();
	fill_chunk();
	CALL(LIMPET_OP_FREE, LEAF, 0, BLOCK_C);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_C, USABLE(BLOCK_C)});
	assert_int_equal(limpet_hot.overload & 1, 0);
}

/* ------------------------------------------------------------------ overloads and threads */

#define WORKERS 4u
#define POOL 600u
#define CALLS 40000u

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[POOL], live[POOL];
static uint32_t pool_count, live_count;
static size_t allocated, freed; /* under the lock, as these are */

/* An allocator with a lock, and a program that frees what another thread has got. */
static void allocate_from_pool(uint64_t random)
{
	uint64_t block = 0;

	pthread_mutex_lock(&pool_lock);
	if (pool_count)
		block = pool[--pool_count];
	pthread_mutex_unlock(&pool_lock);
	if (!block)
		return;
	call_hook(hook_of(LIMPET_OP_MALLOC, random >> 8 & 1), block, (const uint64_t[6]){30000});
	pthread_mutex_lock(&pool_lock);
	live[live_count++] = block;
	allocated++;
	pthread_mutex_unlock(&pool_lock);
}

static void give_to_pool(uint64_t random)
{
	uint64_t block = 0;

	pthread_mutex_lock(&pool_lock);
	if (live_count) {
		uint32_t at = (uint32_t)(random >> 16) % live_count;

		block = live[at];
		live[at] = live[--live_count];
	}
	pthread_mutex_unlock(&pool_lock);
	if (!block)
		return;
	call_hook(hook_of(LIMPET_OP_FREE, random >> 8 & 1), 0, (const uint64_t[6]){block});
	pthread_mutex_lock(&pool_lock);
	pool[pool_count++] = block;
	freed++;
	pthread_mutex_unlock(&pool_lock);
}

/* Between them, overloads begin and end. */
static void *work(void *data)
{
	uint64_t random = (uint64_t)(uintptr_t)data;

	for (unsigned i = 0; i < CALLS; i++) {
		uint64_t number = limpet_sample_random(&random);

		if (number & 1)
			allocate_from_pool(number);
		else
			give_to_pool(number);
		if (i % 64 == 0)
			__atomic_store_n(&fixture.shm->overload_room, 1, __ATOMIC_RELAXED);
		if (i % 96 == 0) {
			uint32_t seen = __atomic_load_n(&limpet_hot.overload, __ATOMIC_ACQUIRE);

			/* As watch_room() does it. */
			if (!(seen & 1)) {
				__atomic_store_n(&fixture.shm->overload_room, 0, __ATOMIC_RELAXED);
				__atomic_compare_exchange_n(&limpet_hot.overload, &seen, seen + 1,
							    false, __ATOMIC_SEQ_CST,
							    __ATOMIC_RELAXED);
			}
		}
	}
	return NULL;
}

static int by_address_and_number(const void *a, const void *b)
{
	const struct fixture_record *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->number < right->number ? -1 : left->number > right->number;
}

/* Nothing that was recorded is given back in silence: no block is allocated at an address that has,
 * by the records, an owner, and what lives at the end is what was not freed. */
static void test_overloads_and_threads(void **state)
{
	pthread_t threads[WORKERS];
	LIMPET_FREE struct fixture_record *all = NULL;
	size_t total = 0, samples = 0, full = 0, frees = 0, unmatched = 0, unrecorded = 0;
	uint32_t overloads;

	(void)state;
	live_count = 0;
	allocated = freed = 0;
	for (pool_count = 0; pool_count < POOL; pool_count++)
		pool[pool_count] = BLOCK_A + pool_count * 4096;
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	overloads = limpet_hot.overload / 2;
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++) {
		LIMPET_FREE struct fixture_record *records = NULL;
		size_t count;

		if (fixture_thread(&fixture, i)->thread_pointer <= 1)
			continue;
		assert_int_equal(fixture_thread(&fixture, i)->dropped, 0);
		count = fixture_records(&fixture, i, &records);
		all = realloc(all, (total + count) * sizeof(*all) + 1);
		assert_non_null(all);
		for (size_t k = 0; k < count; k++)
			if (records[k].type != LIMPET_EVENT_ROOM)
				all[total++] = records[k];
	}
	qsort(all, total, sizeof(*all), by_address_and_number);
	for (size_t i = 0; i < total; i++) {
		bool owned = i && all[i - 1].address == all[i].address &&
			     all[i - 1].type != LIMPET_EVENT_FREE;

		if (all[i].type == LIMPET_EVENT_FREE) {
			frees++;
			unmatched += !owned;
			continue;
		}
		if (owned)
			fail_msg("%lx was allocated twice", (unsigned long)all[i].address);
		samples += all[i].type != LIMPET_EVENT_ALLOC;
		full += all[i].type == LIMPET_EVENT_ALLOC;
	}
	/* Both kinds, and many of them. */
	assert_true(overloads > 20);
	assert_true(samples > 100 && full > 1000);
	for (uint32_t i = 0; i < pool_count; i++) {
		struct fixture_record key = {.address = pool[i]}, *last = NULL;

		for (size_t k = 0; k < total; k++)
			if (all[k].address == key.address)
				last = &all[k];
		assert_true(!last || last->type == LIMPET_EVENT_FREE);
	}
	for (uint32_t i = 0; i < live_count; i++) {
		bool known = false;

		for (size_t k = 0; k < total; k++)
			if (all[k].address == live[i])
				known = all[k].type != LIMPET_EVENT_FREE;
		unrecorded += !known;
	}
	/* A block that was not recorded lives, or was freed in silence, or in vain: after its
	 * overload. Some of both. */
	assert_int_equal(allocated - samples - full, unrecorded + (freed - frees) + unmatched);
	assert_true(freed - frees > 100 && unmatched > 100);
}

#define SAMPLING(name) cmocka_unit_test_setup_teardown(name, begin_sampling, end)
#define OVERLOADS(name) cmocka_unit_test_setup_teardown(name, begin_overloads, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SAMPLING(test_every_function),
		SAMPLING(test_failures),
		SAMPLING(test_reallocs),
		SAMPLING(test_mappings),
		SAMPLING(test_noted),
		SAMPLING(test_churn),
		SAMPLING(test_signal),
		SAMPLING(test_fork),
		SAMPLING(test_foreign_blocks),
		SAMPLING(test_no_room_for_a_sample),
		OVERLOADS(test_it_begins_and_ends),
		OVERLOADS(test_no_room_to_tell_of_the_end),
		OVERLOADS(test_overload_every_function),
		OVERLOADS(test_overload_failures),
		OVERLOADS(test_overload_reallocs),
		OVERLOADS(test_overload_mappings),
		OVERLOADS(test_overload_churn),
		OVERLOADS(test_overload_signal),
		OVERLOADS(test_overload_fork),
		OVERLOADS(test_notes_end_with_their_overload),
		OVERLOADS(test_a_sample_takes_the_note_out),
		OVERLOADS(test_a_free_that_passes_takes_the_note_out),
		OVERLOADS(test_blocks_without_a_note),
		OVERLOADS(test_the_last_overload),
		cmocka_unit_test_setup_teardown(test_overloads_and_threads, begin_large, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
