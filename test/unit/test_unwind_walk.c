/* The walker: its rules on hand-made memory, and walks of this very process against libunwind,
 * glibc's backtrace() and, one instruction at a time, what is known to be the truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/unit/unwind_fixture.h"

/* ------------------------------------------------------------------ hand-made memory */

enum { LOW = 0x7000, WORDS = 64, CODE = 0x400000, CODE_BYTES = 0x1000 };

struct scene {
	uint64_t words[WORDS]; /* memory from LOW on */
	struct limpet_walk_copy copy;
	struct {
		struct limpet_unwind_table head;
		uint32_t index[CODE_BYTES / 256 + 1];
		uint32_t pad[3];
		struct limpet_unwind_row rows[4];
		struct limpet_unwind_rule rules[3];
	} table __attribute__((aligned(16)));
	struct limpet_unwind_module module;
	struct limpet_walk_map map;
	struct limpet_walk_frame frame;
};

_Static_assert(sizeof(uint32_t[CODE_BYTES / 256 + 1 + 3]) % 16 == 0, "tables are aligned to 16");

/* All of the module's code has one rule. */
static void set_scene(struct scene *scene, struct limpet_unwind_rule rule)
{
	memset(scene, 0, sizeof(*scene));
	scene->table.head = (struct limpet_unwind_table){
		.magic = LIMPET_UNWIND_MAGIC,
		.version = LIMPET_UNWIND_VERSION,
		.bucket_shift = 8,
		.bytes = sizeof(scene->table),
		.covered = CODE_BYTES,
		.bucket_count = CODE_BYTES / 256,
		.row_count = 1,
		.rule_count = 3,
		.index_offset = offsetof(__typeof__(scene->table), index),
		.rows_offset = offsetof(__typeof__(scene->table), rows),
		.rules_offset = offsetof(__typeof__(scene->table), rules),
	};
	for (unsigned i = 1; i <= CODE_BYTES / 256; i++)
		scene->table.index[i] = 1;
	scene->table.rows[0].rule = 2;
	scene->table.rules[1].cfa = LIMPET_CFA_UNKNOWN;
	scene->table.rules[2] = rule;
	assert_int_equal(limpet_unwind_table_check(&scene->table, sizeof(scene->table)), 0);
	scene->module = (struct limpet_unwind_module){
		.start = CODE,
		.end = CODE + CODE_BYTES,
		.table = offsetof(struct scene, table),
		.table_bytes = sizeof(scene->table),
		.live = 1,
	};
	scene->map = (struct limpet_walk_map){
		.modules = &scene->module,
		.arena = (const uint8_t *)scene,
		.sorted = 1,
		.count = 1,
		.generation = 1,
	};
	scene->copy =
		(struct limpet_walk_copy){LOW, sizeof(scene->words), (const uint8_t *)scene->words};
	scene->frame = (struct limpet_walk_frame){CODE + 0x10, LOW, LOW + 64, 0, 0};
}

static enum limpet_walk_end step(struct scene *scene)
{
	struct limpet_walk_frame before = scene->frame;
	enum limpet_walk_end end = limpet_walk_step(&scene->map, NULL, limpet_walk_read_copy,
						    &scene->copy, &scene->frame);

	if (end != LIMPET_WALK_MORE)
		assert_memory_equal(&before, &scene->frame, sizeof(before));
	else
		/* It is read where it is needed; here it is looked at. */
		limpet_walk_load_fp(limpet_walk_read_copy, &scene->copy, &scene->frame);
	return end;
}

#define assert_frame(scene, pc_, sp_, fp_, flags_)              \
	do {                                                    \
		assert_int_equal((scene)->frame.pc, pc_);       \
		assert_int_equal((scene)->frame.sp, sp_);       \
		assert_int_equal((scene)->frame.fp, fp_);       \
		assert_int_equal((scene)->frame.flags, flags_); \
	} while (0)

static void test_rules(void **state)
{
	(void)state;
	struct scene scene;

	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_SP, LIMPET_FP_CFA, 0, 0, 24, -16, 0});
	scene.words[1] = 0x1234;
	scene.words[2] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 24, 0x1234, 0);

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_FP, 0, 0, 0, 16, 0, 0});
	scene.words[9] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 80, LOW + 64, 0);

	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, 0, 0, 8, 16, 8});
	scene.words[1] = LOW + 40;
	scene.words[2] = 0x1234;
	scene.words[5] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 48, 0x1234, 0);

	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_FP_DEREF, LIMPET_FP_FP, 0, 0, -8, 0, 0});
	scene.words[7] = LOW + 160;
	scene.words[8] = 0x1234;
	scene.words[19] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 160, 0x1234, 0);

	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_PLT, LIMPET_FP_CFA_SUM, 0, 0, 8, -8, 11});
	scene.words[0] = 0x5678;
	scene.words[1] = 0x6789;
	scene.frame.flags = LIMPET_FRAME_EXACT;
	scene.frame.pc = CODE + 0x1a;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 8, LOW, 0);
	scene.frame = (struct limpet_walk_frame){CODE + 0x1b, LOW, 0, LIMPET_FRAME_EXACT, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x6789, LOW + 16, LOW + 8, 0);

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_SP, LIMPET_FP_LOST, LIMPET_RA_SP,
						      0, 32, 0, 8});
	scene.words[1] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 32, LIMPET_WALK_NO_FP, 0);

	/* a signal's frame may lead anywhere, also down */
	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, LIMPET_RA_SP,
					      LIMPET_RULE_SIGNAL, 160, 120, 168});
	scene.words[15] = 0x1234;
	scene.words[20] = 0x99;
	scene.words[21] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, 0x99, 0x1234, LIMPET_FRAME_EXACT | LIMPET_FRAME_SIGNAL);
}

static void test_ends(void **state)
{
	(void)state;
	static const struct limpet_unwind_rule plain = {LIMPET_CFA_SP, 0, 0, 0, 8, 0, 0};
	struct scene scene;

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_END, 0, 0, 0, 0, 0, 0});
	assert_int_equal(step(&scene), LIMPET_WALK_COMPLETE);

	set_scene(&scene, plain); /* return address 0 */
	assert_int_equal(step(&scene), LIMPET_WALK_COMPLETE);
	scene.words[0] = 0xfff; /* first page */
	assert_int_equal(step(&scene), LIMPET_WALK_LOST);
	scene.words[0] = 1ull << 47; /* kernel's half */
	assert_int_equal(step(&scene), LIMPET_WALK_LOST);
	scene.words[0] = (1ull << 47) - 1;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);

	set_scene(&scene, plain);
	scene.frame.sp = LOW + sizeof(scene.words);
	assert_int_equal(step(&scene), LIMPET_WALK_UNREADABLE);
	scene.frame.sp = LOW - 8;
	assert_int_equal(step(&scene), LIMPET_WALK_UNREADABLE);
	scene.frame.sp = UINT64_MAX - 7; /* CFA wraps to 0 */
	assert_int_equal(step(&scene), LIMPET_WALK_STUCK);
	scene.frame.sp = LOW + 4;
	assert_int_equal(step(&scene), LIMPET_WALK_STUCK);

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_SP, 0, 0, 0, 0, 0, 0});
	assert_int_equal(step(&scene), LIMPET_WALK_STUCK);

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_FP, 0, 0, 0, 16, 0, 0});
	scene.frame.fp = LOW - 16;
	assert_int_equal(step(&scene), LIMPET_WALK_STUCK);
	scene.frame.fp = LIMPET_WALK_NO_FP;
	assert_int_equal(step(&scene), LIMPET_WALK_STUCK);

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_FP_DEREF, 0, 0, 0, -8, 0, 0});
	scene.frame.fp = 0;
	assert_int_equal(step(&scene), LIMPET_WALK_UNREADABLE);

	/* a saved rbp out of reach is lost, but not the frame */
	set_scene(&scene,
		  (struct limpet_unwind_rule){LIMPET_CFA_SP, LIMPET_FP_CFA, 0, 0, 8, 4096, 0});
	scene.words[0] = 0x5678;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, 0x5678, LOW + 8, LIMPET_WALK_NO_FP, 0);
}

static void test_frame_pointer_takes_over(void **state)
{
	(void)state;
	struct scene scene;

	/* rule NONE, rule UNKNOWN, no table, no module, and module gone */
	for (int i = 0; i < 5; i++) {
		set_scene(&scene,
			  (struct limpet_unwind_rule){i == 1 ? LIMPET_CFA_UNKNOWN : LIMPET_CFA_NONE,
						      0, 0, 0, 0, 0, 0});
		if (i == 2)
			scene.module.table = 0;
		if (i == 3)
			scene.map.count = scene.map.sorted = 0;
		if (i == 4)
			scene.module.live = 0;
		scene.words[8] = LOW + 128;
		scene.words[9] = 0x5678;
		assert_int_equal(step(&scene), LIMPET_WALK_MORE);
		assert_frame(&scene, 0x5678, LOW + 80, LOW + 128,
			     LIMPET_FRAME_BY_FP | (i == 1 ? LIMPET_FRAME_DOUBT : 0));
		/* from here on there is no module: the end */
		scene.frame.fp = 0;
		assert_int_equal(step(&scene),
				 i == 1 ? LIMPET_WALK_DOUBTFUL : LIMPET_WALK_COMPLETE);

		scene.frame = (struct limpet_walk_frame){CODE + 0x10, LOW, 0, 0, 0};
		assert_int_equal(step(&scene), i == 1 ? LIMPET_WALK_LOST : LIMPET_WALK_COMPLETE);
		scene.frame.fp = LIMPET_WALK_NO_FP;
		assert_int_equal(step(&scene), LIMPET_WALK_LOST);
		scene.frame.fp = LOW + 12;
		assert_int_equal(step(&scene), LIMPET_WALK_LOST);
		scene.frame.fp = LOW + sizeof(scene.words) - 8;
		assert_int_equal(step(&scene), LIMPET_WALK_LOST);
		scene.frame.fp = LOW + 64;
		scene.frame.sp = LOW + 72;
		assert_int_equal(step(&scene), LIMPET_WALK_LOST);
		scene.frame.sp = LOW;
		scene.words[9] = 0;
		assert_int_equal(step(&scene),
				 i == 1 ? LIMPET_WALK_DOUBTFUL : LIMPET_WALK_COMPLETE);
		scene.words[9] = 17;
		assert_int_equal(step(&scene), LIMPET_WALK_LOST);
	}
}

static void test_return_addresses_are_looked_up_one_less(void **state)
{
	(void)state;
	struct scene scene;

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_SP, 0, 0, 0, 8, 0, 0});
	scene.words[0] = 0x5678;
	scene.frame.fp = LIMPET_WALK_NO_FP;
	scene.frame.pc = CODE + CODE_BYTES; /* a call was the last instruction */
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	/* doubt goes along */
	scene.frame = (struct limpet_walk_frame){CODE + 1, LOW, 0, LIMPET_FRAME_DOUBT, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_int_equal(scene.frame.flags, LIMPET_FRAME_DOUBT);
	/* no call before it: a root */
	scene.frame = (struct limpet_walk_frame){CODE, LOW, LOW + 64, 0, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_COMPLETE);
	scene.frame.flags = LIMPET_FRAME_EXACT;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	scene.frame = (struct limpet_walk_frame){CODE + CODE_BYTES, LOW, LIMPET_WALK_NO_FP,
						 LIMPET_FRAME_EXACT, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_LOST);
}

static void test_modules_that_came_later(void **state)
{
	(void)state;
	const struct limpet_unwind_module modules[] = {
		{0x1000, 0x2000, 1, 0, 1, 0}, {0x3000, 0x4000, 2, 0, 0, 0}, /* gone */
		{0x5000, 0x6000, 3, 0, 1, 0}, {0x9000, 0xa000, 4, 0, 1, 0}, /* from here on later */
		{0x3800, 0x4800, 5, 0, 1, 0}, {0x9000, 0x9800, 6, 0, 1, 0},
		{0x2000, 0x2800, 7, 0, 0, 0},
	};
	const struct {
		uint64_t pc, table;
	} expected[] = {
		{0xfff, 0},  {0x1000, 1}, {0x1fff, 1}, {0x2000, 0}, {0x3000, 0},
		{0x37ff, 0}, {0x3800, 5}, {0x47ff, 5}, {0x4800, 0}, {0x5000, 3},
		{0x5fff, 3}, {0x6000, 0}, {0x9000, 6}, {0x97ff, 6}, {0x9800, 4},
	};
	struct limpet_walk_map map = {.modules = modules, .sorted = 3, .count = 7};

	for (size_t i = 0; i < LIMPET_COUNT_OF(expected); i++) {
		const struct limpet_unwind_module *module =
			limpet_walk_find_module(&map, expected[i].pc);

		assert_int_equal(module ? module->table : 0, expected[i].table);
	}
}

static void test_cache_follows_the_generation(void **state)
{
	(void)state;
	struct limpet_walk_cache_entry entries[8] = {{.rule = 0}}, *entry, first, second;
	struct limpet_walk_cache cache = {entries, 7};
	struct scene scene;

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_SP, 0, 0, 0, 8, 0, 0});
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa_offset, 8);
	scene.module.live = 0;
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa_offset, 8);
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE + 1).cfa, LIMPET_CFA_NONE);
	scene.map.generation++;
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa, LIMPET_CFA_NONE);
	/* what is not covered is remembered, too */
	scene.module.live = 1;
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa, LIMPET_CFA_NONE);
	/* all of the number counts */
	for (uint32_t bit = 0; bit < 32; bit++) {
		scene.module.live = 1;
		scene.map.generation = 1u << bit;
		assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa_offset, 8);
		scene.module.live = 0;
		scene.map.generation = 0;
		assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa,
				 LIMPET_CFA_NONE);
	}
	/* two writers at a time: the words of one entry do not belong together */
	scene.module.live = 1;
	scene.map.generation = 7;
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa_offset, 8);
	entry = &entries[(CODE ^ CODE >> 11) & 7];
	first = *entry;
	scene.module.live = 0;
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE + 8).cfa, LIMPET_CFA_NONE);
	second = *entry;
	assert_int_not_equal(first.key, second.key);
	*entry = (struct limpet_walk_cache_entry){second.key, first.rule};
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE + 8).cfa, LIMPET_CFA_NONE);
	scene.module.live = 1;
	*entry = (struct limpet_walk_cache_entry){first.key, second.rule};
	assert_int_equal(limpet_walk_find_rule(&scene.map, &cache, CODE).cfa_offset, 8);
}

/* Another module lies where one has gone since the list was made: its table says nothing of it. */
static void test_tables_of_what_has_gone_are_not_used(void **state)
{
	(void)state;
	struct limpet_gone gone[] = {{.start = 0, .end = CODE, .number = 3},
				     {.start = CODE + 0x80, .end = CODE + 0x100, .number = 2}};
	struct scene scene;

	set_scene(&scene, (struct limpet_unwind_rule){LIMPET_CFA_SP, 0, 0, 0, 8, 0, 0});
	scene.map.gone = gone;
	scene.map.gone_places = LIMPET_COUNT_OF(gone);
	for (uint32_t then = 0; then <= 3; then++) {
		scene.map.gone_then = then;
		scene.map.gone_now = 3;
		assert_int_equal(limpet_walk_find_rule(&scene.map, NULL, CODE).cfa, LIMPET_CFA_SP);
		assert_int_equal(limpet_walk_find_rule(&scene.map, NULL, CODE + 0x80).cfa,
				 then < 2 ? LIMPET_CFA_UNKNOWN : LIMPET_CFA_SP);
		assert_int_equal(limpet_walk_find_rule(&scene.map, NULL, CODE + 0x100).cfa,
				 LIMPET_CFA_SP);
	}
}

static void test_readers_refuse_what_is_outside(void **state)
{
	(void)state;
	uint64_t words[4] = {1, 2, 3, 4}, word = 0;
	uint64_t base = (uint64_t)(uintptr_t)words;
	const uint8_t data[16] = {[0] = 1, [8] = 2};
	struct limpet_walk_ranges ranges = {{base, base + 24}, {base + 16, base + 32}};
	struct limpet_walk_copy copy = {0x1000, 16, data};

	assert_true(limpet_walk_read_ranges(&ranges, base, &word));
	assert_int_equal(word, 1);
	assert_true(limpet_walk_read_ranges(&ranges, base + 8, &word));
	assert_false(limpet_walk_read_ranges(&ranges, base + 9, &word));
	assert_false(limpet_walk_read_ranges(&ranges, base + 16, &word));
	assert_true(limpet_walk_read_ranges(&ranges, base + 24, &word));
	assert_int_equal(word, 4);
	assert_false(limpet_walk_read_ranges(&ranges, base - 1, &word));
	assert_false(limpet_walk_read_ranges(&ranges, UINT64_MAX - 3, &word));
	assert_true(limpet_walk_read_copy(&copy, 0x1001, &word));
	assert_int_equal(word, 2ull << 56);
	assert_false(limpet_walk_read_copy(&copy, 0x1009, &word));
	assert_false(limpet_walk_read_copy(&copy, 0xfff, &word));
	assert_false(limpet_walk_read_copy(&copy, UINT64_MAX, &word));
	copy.bytes = 7;
	assert_false(limpet_walk_read_copy(&copy, 0x1000, &word));
}

/* ------------------------------------------------------------------ this process */

enum { MAX_DEPTH = 512 };

static struct fixture_process process;
static struct limpet_walk_ranges stack; /* of the main thread, and an alternate stack */

struct walk {
	uint64_t pcs[MAX_DEPTH];
	uint32_t count;
	enum limpet_walk_end end;
};

__attribute__((noinline)) static void walk_from(struct limpet_walk_frame frame, struct walk *ret)
{
	ret->count = limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &stack, frame,
				 ret->pcs, MAX_DEPTH, &ret->end);
}

#define HERE()                                                                            \
	({                                                                                \
		struct limpet_walk_frame here_ = {.flags = LIMPET_FRAME_EXACT};           \
		__asm__ volatile("lea 0f(%%rip), %0\n\t0: mov %%rsp, %1\n\tmov %%rbp, %2" \
				 : "=&r"(here_.pc), "=&r"(here_.sp), "=&r"(here_.fp));    \
		here_;                                                                    \
	})

/* libunwind and the sanitizers have one of that name, too. */
static int (*glibc_backtrace)(void **buffer, int size);
static unsigned compared; /* walks that were held against the others in the running test */

/* The others list the interrupted pc itself. */
static bool same_frame(uint64_t ours, const void *theirs)
{
	return ours == (uint64_t)(uintptr_t)theirs || ours - 1 == (uint64_t)(uintptr_t)theirs;
}

/* Walks, and holds the callers of this function against libunwind's and glibc's; then once more
 * with a cache, cold and warm, and from a copy. */
__attribute__((noinline)) static void compare(void)
{
	struct limpet_walk_cache_entry entries[64] = {{.rule = 0}};
	struct limpet_walk_cache cache = {entries, 63};
	struct limpet_walk_frame frame = HERE();
	void *theirs[MAX_DEPTH], *glibc[MAX_DEPTH];
	int their_count = unw_backtrace(theirs, MAX_DEPTH);
	int glibc_count = glibc_backtrace(glibc, MAX_DEPTH);
	struct walk ours, again;
	uint64_t bytes = stack.high[0] - frame.sp;
	struct limpet_walk_copy copy = {frame.sp, bytes, NULL};
	int skipped;
	bool on_main = frame.sp >= stack.low[0] && frame.sp < stack.high[0];

	walk_from(frame, &ours);
	assert_int_equal(ours.end, LIMPET_WALK_COMPLETE);
	/* A sanitizer's wrapper may put a frame of its own innermost. */
	skipped = glibc_count - (int)ours.count;
	assert_in_range(skipped, 0, 1);
	for (uint32_t i = 1; i < ours.count; i++)
		assert_true(same_frame(ours.pcs[i], glibc[(int)i + skipped]));
	/* libunwind may stop early (it does in programs linked by LLD), never differ. */
	skipped = same_frame(ours.pcs[1], theirs[1]) ? 0 : 1;
	assert_true(their_count > 1 + skipped && their_count <= (int)ours.count + skipped);
	for (int i = 1; i < their_count - skipped; i++)
		assert_true(same_frame(ours.pcs[i], theirs[i + skipped]));
	for (int round = 0; round < 2; round++) {
		again.count = limpet_walk(&process.map, &cache, limpet_walk_read_ranges, &stack,
					  frame, again.pcs, MAX_DEPTH, &again.end);
		assert_int_equal(again.end, ours.end);
		assert_int_equal(again.count, ours.count);
		assert_memory_equal(again.pcs, ours.pcs, ours.count * sizeof(ours.pcs[0]));
	}
	if (on_main) {
		uint8_t *data = malloc(bytes);

		assert_non_null(data);
		/* by the kernel: a sanitizer forbids to copy what lies between objects */
		assert_int_equal(
			process_vm_readv(getpid(), &(struct iovec){data, bytes}, 1,
					 &(struct iovec){(void *)(uintptr_t)frame.sp, bytes}, 1, 0),
			bytes);
		copy.data = data;
		again.count = limpet_walk(&process.map, NULL, limpet_walk_read_copy, &copy, frame,
					  again.pcs, MAX_DEPTH, &again.end);
		free(data);
		assert_int_equal(again.end, ours.end);
		assert_int_equal(again.count, ours.count);
		assert_memory_equal(again.pcs, ours.pcs, ours.count * sizeof(ours.pcs[0]));
	}
	compared++;
}

static int setup(void **state)
{
	(void)state;
	if (!process.modules)
		fixture_process_init(&process);
	fixture_stack(&stack.low[0], &stack.high[0]);
	stack.low[1] = stack.high[1] = 0;
	compared = 0;
	return 0;
}

/* Code as users build it: without frame pointers. A call is never the last thing. */
#ifdef __clang__
#define BY_FRAME_POINTER __attribute__((noinline))
#define PLAIN __attribute__((noinline))
#else
#define BY_FRAME_POINTER __attribute__((noinline, optimize("no-omit-frame-pointer")))
#define PLAIN __attribute__((noinline, optimize("O2", "omit-frame-pointer")))
#endif
#define KEEP() __asm__ volatile("" ::: "memory")

PLAIN static void use(volatile char *bytes)
{
	bytes[0] = 1;
	compare();
	KEEP();
}

PLAIN static void with_alloca(unsigned bytes)
{
	use(__builtin_alloca(bytes));
	KEEP();
}

PLAIN static void with_alignment(unsigned depth)
{
	volatile char block[192] __attribute__((aligned(64)));

	if (depth)
		with_alignment(depth - 1);
	else
		use(block);
	KEEP();
}

/* Arguments on the stack, a realigned frame and alloca: GCC then keeps the CFA in memory. */
PLAIN static long with_all(long a, long b, long c, long d, long e, long f, long g, unsigned bytes)
{
	volatile char block[64] __attribute__((aligned(64)));

	block[0] = (char)a;
	use(__builtin_alloca(bytes));
	KEEP();
	return a + b + c + d + e + f + g + block[0];
}

PLAIN static int compare_in_qsort(const void *a, const void *b)
{
	if (!compared)
		compare();
	return *(const int *)a - *(const int *)b;
}

static void test_walk_here(void **state)
{
	(void)state;
	compare();
	assert_int_equal(compared, 1);
}

static void test_walk_unusual_frames(void **state)
{
	(void)state;
	int list[3] = {3, 1, 2};

	with_alloca(100);
	with_alloca(70000);
	with_alignment(0);
	with_alignment(3);
	with_all(1, 2, 3, 4, 5, 6, 7, 100);
	assert_int_equal(compared, 5);
	compared = 0;
	qsort(list, 3, sizeof(list[0]), compare_in_qsort);
	assert_int_equal(compared, 1);
}

PLAIN static unsigned recurse(unsigned depth, struct walk *walk)
{
	unsigned result;

	if (depth == 0) {
		walk_from(HERE(), walk);
		return 0;
	}
	result = recurse(depth - 1, walk);
	KEEP();
	return result + 1;
}

static void test_walk_is_cut_at_its_depth(void **state)
{
	(void)state;
	struct walk walk, whole;

	assert_int_equal(recurse(5000, &walk), 5000);
	assert_int_equal(walk.end, LIMPET_WALK_DEPTH);
	assert_int_equal(walk.count, MAX_DEPTH);
	assert_int_equal(recurse(3, &whole), 3);
	assert_int_equal(whole.end, LIMPET_WALK_COMPLETE);
	/* exactly as many as there are: whole; one less: cut */
	for (uint32_t less = 0; less < 2; less++) {
		struct limpet_walk_frame frame = HERE();
		enum limpet_walk_end end;
		uint64_t pcs[MAX_DEPTH];
		uint32_t count;

		walk_from(frame, &walk);
		count = limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &stack, frame, pcs,
				    walk.count - less, &end);
		assert_int_equal(count, walk.count - less);
		assert_int_equal(end, less ? LIMPET_WALK_DEPTH : LIMPET_WALK_COMPLETE);
	}
}

static void test_walk_is_cut_where_memory_ends(void **state)
{
	(void)state;
	struct limpet_walk_frame frame = HERE();
	struct limpet_walk_ranges part = stack;
	enum limpet_walk_end end;
	uint64_t pcs[MAX_DEPTH];
	struct walk whole;
	uint32_t count, last = 0;

	walk_from(frame, &whole);
	for (part.high[0] = frame.sp; part.high[0] < frame.sp + 4096; part.high[0] += 8) {
		count = limpet_walk(&process.map, NULL, limpet_walk_read_ranges, &part, frame, pcs,
				    MAX_DEPTH, &end);
		assert_true(count >= last && count <= whole.count);
		assert_memory_equal(pcs, whole.pcs, count * sizeof(pcs[0]));
		if (count < whole.count)
			assert_int_equal(end, LIMPET_WALK_UNREADABLE);
		last = count;
	}
}

static void *thread_main(void *unused)
{
	struct limpet_walk_ranges main_stack = stack;

	(void)unused;
	fixture_stack(&stack.low[0], &stack.high[0]);
	with_alloca(10);
	stack = main_stack;
	return NULL;
}

static void test_walk_of_a_thread(void **state)
{
	(void)state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(compared, 1);
}

static ucontext_t back, coroutine;

static void coroutine_main(void)
{
	struct walk walk;
	void *theirs[MAX_DEPTH];
	int count = unw_backtrace(theirs, MAX_DEPTH);

	walk_from(HERE(), &walk);
	assert_int_equal(walk.end, LIMPET_WALK_COMPLETE);
	/* this function and its root; libunwind may go on into what is no frame */
	assert_int_equal(walk.count, 2);
	assert_true(count >= 2 && (uint64_t)(uintptr_t)theirs[1] == walk.pcs[1]);
	compared++;
	swapcontext(&coroutine, &back);
}

static void test_walk_of_a_coroutine(void **state)
{
	(void)state;
	size_t bytes = 256 * 1024;
	uint8_t *memory = malloc(bytes);

	assert_non_null(memory);
	stack.low[1] = (uint64_t)(uintptr_t)memory;
	stack.high[1] = stack.low[1] + bytes;
	assert_int_equal(getcontext(&coroutine), 0);
	coroutine.uc_stack.ss_sp = memory;
	coroutine.uc_stack.ss_size = bytes;
	coroutine.uc_link = &back;
	makecontext(&coroutine, coroutine_main, 0);
	assert_int_equal(swapcontext(&back, &coroutine), 0);
	assert_int_equal(compared, 1);
	free(memory);
}

static void compare_in_handler(int signal)
{
	(void)signal;
	compare();
}

static void test_walk_in_a_signal_handler(void **state)
{
	(void)state;
	size_t bytes = 256 * 1024;
	uint8_t *memory = malloc(bytes);
	stack_t alternate = {.ss_sp = memory, .ss_size = bytes}, old;
	struct sigaction action = {.sa_handler = compare_in_handler}, old_action;

	assert_non_null(memory);
	assert_int_equal(sigaltstack(&alternate, &old), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, &old_action), 0);
	raise(SIGUSR1);
	assert_int_equal(compared, 1);
	action.sa_flags = SA_ONSTACK;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	stack.low[1] = (uint64_t)(uintptr_t)memory;
	stack.high[1] = stack.low[1] + bytes;
	raise(SIGUSR1);
	assert_int_equal(compared, 2);
	assert_int_equal(sigaction(SIGUSR1, &old_action, NULL), 0);
	assert_int_equal(sigaltstack(&old, NULL), 0);
	free(memory);
}

/* ------------------------------------------------------------------ code without rows */

static uint64_t jit_pc;

static void walk_through_jit(void)
{
	struct walk walk;
	uint32_t at = 0;

	walk_from(HERE(), &walk);
	assert_int_equal(walk.end, LIMPET_WALK_COMPLETE);
	while (at < walk.count && walk.pcs[at] != jit_pc)
		at++;
	assert_int_equal(at, 1);
	compared = walk.count;
}

static void test_walk_through_jit_code(void **state)
{
	(void)state;
	/* push %rbp; mov %rsp,%rbp; sub $48,%rsp; call *%rdi; leave; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83,
				       0xec, 0x30, 0xff, 0xd7, 0xc9, 0xc3};
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*jit)(void (*)(void));
	struct walk walk;

	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page, code, sizeof(code));
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	jit_pc = (uint64_t)(uintptr_t)page + 10;
	memcpy(&jit, &page, sizeof(jit));
	jit(walk_through_jit);
	walk_from(HERE(), &walk);
	/* the two frames inside, and all those of here */
	assert_int_equal(compared, walk.count + 2);
	munmap(page, 4096);
}

/* ------------------------------------------------------------------ C++, and a module that came
 * later */

static const char throw_source[] =
	"#include <stdexcept>\n"
	"#include <unwind.h>\n"
	"static void (*probe)();\n"
	"static bool probed;\n"
	"struct guard { volatile char room[100]; ~guard() { room[0] = 1; probe(); } };\n"
	"__attribute__((noinline)) static void thrower(int n) {\n"
	"	guard g;\n"
	"	if (n) thrower(n - 1);\n"
	"	else throw std::runtime_error(\"x\");\n"
	"}\n"
	"static _Unwind_Reason_Code trace(struct _Unwind_Context *, void *) {\n"
	"	if (!probed) { probed = true; probe(); }\n"
	"	return _URC_NO_REASON;\n"
	"}\n"
	"extern \"C\" int run(void (*f)()) {\n"
	"	probe = f;\n"
	"	probed = false;\n"
	"	_Unwind_Backtrace(trace, nullptr);\n"
	"	try { thrower(2); } catch (const std::exception &) { probe(); return 1; }\n"
	"	return 0;\n"
	"}\n";

static void test_walk_while_an_exception_unwinds(void **state)
{
	(void)state;
	char directory[] = "/tmp/limpet-walk-XXXXXX", command[512], path[128];
	struct fixture_process with_library;
	struct limpet_walk_map old = process.map;
	int (*run)(void (*)(void));
	uint32_t later = 0;
	void *library, *symbol;
	FILE *source;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/throw.cc", directory);
	source = fopen(path, "we");
	assert_non_null(source);
	assert_true(fputs(throw_source, source) >= 0);
	assert_int_equal(fclose(source), 0);
	snprintf(
		command, sizeof(command),
		"timeout 120 c++ -O2 -fomit-frame-pointer -shared -fPIC -o %s/throw.so %s/throw.cc",
		directory, directory);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/throw.so", directory);
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	symbol = dlsym(library, "run");
	memcpy(&run, &symbol, sizeof(run));
	assert_non_null(run);

	/* Those that were there stay sorted; the new ones (libstdc++, too) are appended. */
	fixture_process_init(&with_library);
	for (uint32_t i = 0; i < with_library.map.count; i++) {
		uint32_t at = 0;

		while (at < old.count && old.modules[at].start != with_library.modules[i].start)
			at++;
		later += at == old.count;
	}
	assert_true(later >= 1);
	process.map = with_library.map;
	for (uint32_t kept = 0, i = 0; i < with_library.map.count; i++) {
		struct limpet_unwind_module module = with_library.modules[i];
		uint32_t at = 0;

		while (at < old.count && old.modules[at].start != module.start)
			at++;
		if (at == old.count)
			continue;
		with_library.modules[i] = with_library.modules[kept];
		with_library.modules[kept++] = module;
	}
	process.map.sorted = old.count;

	assert_int_equal(run(compare), 1);
	assert_int_equal(compared,
			 5); /* in _Unwind_Backtrace, three destructors, the catch block */

	process.map = old;
	fixture_process_done(&with_library);
	dlclose(library);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
}

/* ------------------------------------------------------------------ every single instruction */

static struct walk truth; /* the callers of the function that is being stepped through */
static unsigned steps, wrong;

__attribute__((noinline)) static void check_step(int signal, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	struct limpet_walk_frame frame = {
		.pc = (uint64_t)registers[REG_RIP],
		.sp = (uint64_t)registers[REG_RSP],
		.fp = (uint64_t)registers[REG_RBP],
		.flags = LIMPET_FRAME_EXACT,
	};
	static struct walk from_registers, from_here;
	uint32_t tail = truth.count - 1, at = 0;

	(void)signal;
	(void)info;
	steps++;
	walk_from(frame, &from_registers);
	/* The same through the handler's own frame and the kernel's. */
	walk_from(HERE(), &from_here);
	while (at < from_here.count && from_here.pcs[at] != frame.pc + 1)
		at++;
	if (from_registers.end != LIMPET_WALK_COMPLETE || from_registers.count < tail ||
	    memcmp(from_registers.pcs + from_registers.count - tail, truth.pcs + 1,
		   tail * sizeof(truth.pcs[0])) != 0 ||
	    from_here.end != LIMPET_WALK_COMPLETE || from_here.count - at != from_registers.count ||
	    memcmp(from_here.pcs + at, from_registers.pcs,
		   from_registers.count * sizeof(truth.pcs[0])) != 0) {
		if (wrong++ < 5)
			fprintf(stderr, "# wrong at %#lx: end %d, %u frames\n", (long)frame.pc,
				from_registers.end, from_registers.count);
	}
}

PLAIN static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

PLAIN static long leaf(long a, long b)
{
	volatile char block[64] __attribute__((aligned(64)));

	block[0] = (char)a;
	return a * b + block[0];
}

PLAIN static void stepped(void)
{
	int list[6] = {5, 2, 6, 1, 3, 4};
	struct timespec now;
	char text[64];
	void *block;

	qsort(list, 6, sizeof(list[0]), compare_ints);
	snprintf(text, sizeof(text), "%d %s %.3f", list[3], "words", 3.25);
	block = malloc((size_t)leaf(70, 3));
	memset(block, 1, 200);
	block = realloc(block, 100000);
	free(block);
	clock_gettime(CLOCK_MONOTONIC, &now); /* in the vDSO */
	KEEP();
}

/* The function whose callers are the truth; the trap flag goes up and down inside it. By frame
 * pointer, for the assembly's pushes are in no row. */
BY_FRAME_POINTER static void step_through(void (*function)(void))
{
	walk_from(HERE(), &truth);
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	function();
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void test_walk_from_every_instruction(void **state)
{
	(void)state;
	struct sigaction action = {.sa_sigaction = check_step, .sa_flags = SA_SIGINFO}, old;

	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	stepped(); /* symbols are bound */
	steps = wrong = 0;
	step_through(stepped);
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
	print_message("# %u instructions\n", steps);
	assert_true(steps > 1000);
	assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------ nonsense */

struct counted {
	uint64_t seed, reads;
};

/* A reader's memory is read-only; what is counted lies behind it. */
struct nonsense {
	struct counted *counted;
};

static bool read_nonsense(const void *memory, uint64_t address, uint64_t *ret_word)
{
	struct counted *counted = ((const struct nonsense *)memory)->counted;
	const struct limpet_unwind_module *module;

	counted->reads++;
	counted->seed = (counted->seed ^ address) * 0xd6e8feb86659fd93ull + 0x9e3779b97f4a7c15ull;
	module = &process.modules[(counted->seed >> 8) % process.map.count];
	switch (counted->seed >> 60) {
	case 0:
		return false;
	case 1:
		*ret_word = counted->seed;
		return true;
	case 2 ... 5:
		*ret_word = address + (counted->seed >> 50) * 8;
		return true;
	default:
		*ret_word = module->start + (counted->seed >> 20) % (module->end - module->start);
		return true;
	}
}

static void test_nonsense_ends(void **state)
{
	(void)state;
	struct counted counted = {.seed = 1};
	const struct nonsense nonsense = {&counted};
	unsigned ends[LIMPET_WALK_LOST + 1] = {0};
	uint64_t pcs[MAX_DEPTH];
	uint64_t frames = 0;

	for (unsigned round = 0; round < 200000; round++) {
		const struct limpet_unwind_module *module =
			&process.modules[round % process.map.count];
		struct limpet_walk_frame frame = {
			module->start + (uint64_t)round * 977 % (module->end - module->start),
			0x7ffd0000 + round % 3, 0x7ffd0100 + round % 5, round & 1, 0};
		enum limpet_walk_end end;
		uint32_t count;

		counted.reads = 0;
		counted.seed += round;
		count = limpet_walk(&process.map, NULL, read_nonsense, &nonsense, frame, pcs,
				    MAX_DEPTH, &end);
		assert_true(count >= 1 && count <= MAX_DEPTH);
		assert_true(counted.reads <= 3 * (uint64_t)count);
		assert_true(end > LIMPET_WALK_MORE && end <= LIMPET_WALK_LOST);
		ends[end]++;
		frames += count;
	}
	for (unsigned end = LIMPET_WALK_COMPLETE; end <= LIMPET_WALK_LOST; end++)
		if (end != LIMPET_WALK_DEPTH && end != LIMPET_WALK_DOUBTFUL)
			assert_true(ends[end] > 0);
	assert_true(frames > 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_frame_pointer_takes_over),
		cmocka_unit_test(test_return_addresses_are_looked_up_one_less),
		cmocka_unit_test(test_modules_that_came_later),
		cmocka_unit_test(test_cache_follows_the_generation),
		cmocka_unit_test(test_tables_of_what_has_gone_are_not_used),
		cmocka_unit_test(test_readers_refuse_what_is_outside),
		cmocka_unit_test_setup(test_walk_here, setup),
		cmocka_unit_test_setup(test_walk_unusual_frames, setup),
		cmocka_unit_test_setup(test_walk_is_cut_at_its_depth, setup),
		cmocka_unit_test_setup(test_walk_is_cut_where_memory_ends, setup),
		cmocka_unit_test_setup(test_walk_of_a_thread, setup),
		cmocka_unit_test_setup(test_walk_of_a_coroutine, setup),
		cmocka_unit_test_setup(test_walk_in_a_signal_handler, setup),
		cmocka_unit_test_setup(test_walk_through_jit_code, setup),
		cmocka_unit_test_setup(test_walk_while_an_exception_unwinds, setup),
		cmocka_unit_test_setup(test_walk_from_every_instruction, setup),
		cmocka_unit_test_setup(test_nonsense_ends, setup),
	};
	void *warm[1], *symbol;
	int result;

	symbol = dlsym(dlopen("libc.so.6", RTLD_NOW), "backtrace");
	memcpy(&glibc_backtrace, &symbol, sizeof(symbol));
	if (!glibc_backtrace)
		return 1;
	glibc_backtrace(warm, 1); /* loads libgcc_s, before the tables are made */
	result = cmocka_run_group_tests(tests, NULL, NULL);
	fixture_process_done(&process);
	return result;
}
