/* The walker's rules on hand-made memory: each step, each end, and which table is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/unwind_walk.h"
#include "test/unit/unwind_check.h"
#include "test/unit/unwind_fixture.h"

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
	assert_int_equal(unwind_check(&scene->table, sizeof(scene->table)), 0);
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
	scene->frame = (struct limpet_walk_frame){CODE + 0x10, LOW, LOW + 64, 0, 0, 0};
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

struct word {
	unsigned at;
	uint64_t value;
};

/* One step: what it is about, and the frame that it leads to or the end that it is. */
struct step_case {
	const char *name;
	struct limpet_unwind_rule rule;
	struct word words[3];          /* of value 0: none */
	struct limpet_walk_frame from; /* pc 0: as set_scene() makes it */
	enum limpet_walk_end end;
	struct limpet_walk_frame to; /* if there is more */
};
#define FRAME(pc, sp, fp, flags)        \
	{                               \
		pc, sp, fp, flags, 0, 0 \
	}
#define USUAL     \
	{         \
		0 \
	}
#define NO_WORDS          \
	{                 \
		{         \
			0 \
		}         \
	}

static void check_steps(const struct step_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct step_case *row = &cases[i];
		const struct limpet_walk_frame *frame;
		struct scene scene;
		enum limpet_walk_end end;

		set_scene(&scene, row->rule);
		for (size_t k = 0; k < LIMPET_COUNT_OF(row->words); k++)
			if (row->words[k].value)
				scene.words[row->words[k].at] = row->words[k].value;
		if (row->from.pc)
			scene.frame = row->from;
		end = step(&scene);
		if (end != row->end)
			fail_msg("%s: end %d", row->name, end);
		frame = &scene.frame;
		if (end == LIMPET_WALK_MORE &&
		    (frame->pc != row->to.pc || frame->sp != row->to.sp ||
		     frame->fp != row->to.fp || frame->flags != row->to.flags))
			fail_msg("%s: pc %#lx, sp %#lx, fp %#lx, flags %#x", row->name,
				 (long)frame->pc, (long)frame->sp, (long)frame->fp, frame->flags);
	}
}

static void test_rules(void **state)
{
	static const struct step_case cases[] = {
		{"CFA from rsp, rbp saved",
		 {LIMPET_CFA_SP, LIMPET_FP_CFA, 0, 0, 24, -16, 0},
		 {{1, 0x1234}, {2, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 24, 0x1234, 0)},
		{"CFA from rbp",
		 {LIMPET_CFA_FP, 0, 0, 0, 16, 0, 0},
		 {{9, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 80, LOW + 64, 0)},
		{"CFA in memory by rsp",
		 {LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, 0, 0, 8, 16, 8},
		 {{1, LOW + 40}, {2, 0x1234}, {5, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 48, 0x1234, 0)},
		{"CFA in memory by rbp",
		 {LIMPET_CFA_FP_DEREF, LIMPET_FP_FP, 0, 0, -8, 0, 0},
		 {{7, LOW + 160}, {8, 0x1234}, {19, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 160, 0x1234, 0)},
		{"lazy binding stub, before its push",
		 {LIMPET_CFA_PLT, LIMPET_FP_CFA_SUM, 0, 0, 8, -8, 11},
		 {{0, 0x5678}, {1, 0x6789}},
		 FRAME(CODE + 0x1a, LOW, LOW + 64, LIMPET_FRAME_EXACT),
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 8, LOW, 0)},
		{"lazy binding stub, behind it",
		 {LIMPET_CFA_PLT, LIMPET_FP_CFA_SUM, 0, 0, 8, -8, 11},
		 {{0, 0x5678}, {1, 0x6789}},
		 FRAME(CODE + 0x1b, LOW, 0, LIMPET_FRAME_EXACT),
		 LIMPET_WALK_MORE,
		 FRAME(0x6789, LOW + 16, LOW + 8, 0)},
		{"rbp lost, return address by rsp",
		 {LIMPET_CFA_SP, LIMPET_FP_LOST, LIMPET_RA_SP, 0, 32, 0, 8},
		 {{1, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 32, LIMPET_WALK_NO_FP, 0)},
		/* may lead anywhere, also down */
		{"a signal's frame",
		 {LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, LIMPET_RA_SP, LIMPET_RULE_SIGNAL, 160, 120,
		  168},
		 {{15, 0x1234}, {20, 0x99}, {21, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, 0x99, 0x1234, LIMPET_FRAME_EXACT | LIMPET_FRAME_SIGNAL)},
	};

	(void)state;
	check_steps(cases, LIMPET_COUNT_OF(cases));
}

#define PLAIN_RULE                              \
	{                                       \
		LIMPET_CFA_SP, 0, 0, 0, 8, 0, 0 \
	}
#define AT(sp, fp) FRAME(CODE + 0x10, sp, fp, 0)

static void test_ends(void **state)
{
	static const struct step_case cases[] = {
		{"said to be the end",
		 {LIMPET_CFA_END, 0, 0, 0, 0, 0, 0},
		 NO_WORDS,
		 USUAL,
		 LIMPET_WALK_COMPLETE,
		 USUAL},
		{"return address 0", PLAIN_RULE, NO_WORDS, USUAL, LIMPET_WALK_COMPLETE, USUAL},
		{"return address in the first page",
		 PLAIN_RULE,
		 {{0, 0xfff}},
		 USUAL,
		 LIMPET_WALK_LOST,
		 USUAL},
		{"return address in the kernel's half",
		 PLAIN_RULE,
		 {{0, 1ull << 47}},
		 USUAL,
		 LIMPET_WALK_LOST,
		 USUAL},
		{"the last return address",
		 PLAIN_RULE,
		 {{0, (1ull << 47) - 1}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME((1ull << 47) - 1, LOW + 8, LOW + 64, 0)},
		{"rsp behind the memory", PLAIN_RULE, NO_WORDS, AT(LOW + WORDS * 8, LOW + 64),
		 LIMPET_WALK_UNREADABLE, USUAL},
		{"rsp in front of it", PLAIN_RULE, NO_WORDS, AT(LOW - 8, LOW + 64),
		 LIMPET_WALK_UNREADABLE, USUAL},
		{"CFA wraps to 0", PLAIN_RULE, NO_WORDS, AT(UINT64_MAX - 7, LOW + 64),
		 LIMPET_WALK_STUCK, USUAL},
		{"rsp not aligned", PLAIN_RULE, NO_WORDS, AT(LOW + 4, LOW + 64), LIMPET_WALK_STUCK,
		 USUAL},
		{"no way up",
		 {LIMPET_CFA_SP, 0, 0, 0, 0, 0, 0},
		 NO_WORDS,
		 USUAL,
		 LIMPET_WALK_STUCK,
		 USUAL},
		{"rbp below rsp",
		 {LIMPET_CFA_FP, 0, 0, 0, 16, 0, 0},
		 NO_WORDS,
		 AT(LOW, LOW - 16),
		 LIMPET_WALK_STUCK,
		 USUAL},
		{"rbp not known",
		 {LIMPET_CFA_FP, 0, 0, 0, 16, 0, 0},
		 NO_WORDS,
		 AT(LOW, LIMPET_WALK_NO_FP),
		 LIMPET_WALK_STUCK,
		 USUAL},
		{"nothing there by rbp",
		 {LIMPET_CFA_FP_DEREF, 0, 0, 0, -8, 0, 0},
		 NO_WORDS,
		 AT(LOW, 0),
		 LIMPET_WALK_UNREADABLE,
		 USUAL},
		/* lost, but not the frame */
		{"a saved rbp out of reach",
		 {LIMPET_CFA_SP, LIMPET_FP_CFA, 0, 0, 8, 4096, 0},
		 {{0, 0x5678}},
		 USUAL,
		 LIMPET_WALK_MORE,
		 FRAME(0x5678, LOW + 8, LIMPET_WALK_NO_FP, 0)},
	};

	(void)state;
	check_steps(cases, LIMPET_COUNT_OF(cases));
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

		scene.frame = (struct limpet_walk_frame){CODE + 0x10, LOW, 0, 0, 0, 0};
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

/* What lies above a stack may be gone: a frame pointer in code without rules leads there. */
static void test_memory_that_is_not_sure(void **state)
{
	const struct limpet_unwind_rule none = {.cfa = LIMPET_CFA_NONE},
					plain = {.cfa = LIMPET_CFA_SP, .cfa_offset = 96};
	struct scene scene;

	(void)state;
	set_scene(&scene, none);
	scene.words[8] = LOW + 128;
	scene.words[9] = CODE + 0x20;
	scene.frame.sure = LOW + 72;
	assert_int_equal(step(&scene), LIMPET_WALK_LOST);
	scene.frame.sure = LOW + 80;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_frame(&scene, CODE + 0x20, LOW + 80, LOW + 128,
		     LIMPET_FRAME_BY_FP | LIMPET_FRAME_GUESS);
	assert_int_equal(step(&scene), LIMPET_WALK_LOST);
	/* A rule is of no more use then: what it found would be by guess, too. */
	scene.table.rules[2] = plain;
	scene.map.generation++;
	scene.words[(80 + 96) / 8 - 1] = CODE + 0x30;
	assert_int_equal(step(&scene), LIMPET_WALK_UNREADABLE);
	scene.frame.sure = LOW + 80 + 96;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_int_equal(scene.frame.sure, LOW + 80 + 96);
	assert_int_equal(scene.frame.flags, LIMPET_FRAME_GUESS);
	/* By rules alone it is sure up to the end of the page. */
	set_scene(&scene, plain);
	scene.words[96 / 8 - 1] = CODE + 0x20;
	scene.frame.sure = LOW + 8;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_int_equal(scene.frame.sure, (LOW | 4095) + 1);
	assert_int_equal(scene.frame.flags, 0);
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
	scene.frame = (struct limpet_walk_frame){CODE + 1, LOW, 0, LIMPET_FRAME_DOUBT, 0, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	assert_int_equal(scene.frame.flags, LIMPET_FRAME_DOUBT);
	/* no call before it: a root */
	scene.frame = (struct limpet_walk_frame){CODE, LOW, LOW + 64, 0, 0, 0};
	assert_int_equal(step(&scene), LIMPET_WALK_COMPLETE);
	scene.frame.flags = LIMPET_FRAME_EXACT;
	assert_int_equal(step(&scene), LIMPET_WALK_MORE);
	scene.frame = (struct limpet_walk_frame){CODE + CODE_BYTES,  LOW, LIMPET_WALK_NO_FP,
						 LIMPET_FRAME_EXACT, 0,   0};
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

/* Code without rows, to which frames of interpreted functions return, and its caller, the
 * outermost. */
#define INTERPRETER 0x500000u
#define BYTECODE UINT64_C(0x7f0012345678)
static uint64_t interpreted_word(uint64_t bytecode, uint64_t offset, uint64_t sp)
{
	const struct limpet_interpreter interpreter = {.start = {0x1000, INTERPRETER},
						       .end = {0x2000, INTERPRETER + 0x100},
						       .function = -16,
						       .bytecode = -32,
						       .offset = -40};
	struct limpet_walk_by_fp by_fp = {.count = 0};
	enum limpet_walk_end end;
	struct scene scene;
	uint64_t pcs[4];

	set_scene(&scene, (struct limpet_unwind_rule){.cfa = LIMPET_CFA_SP});
	scene.map.interpreter = &interpreter;
	scene.frame = (struct limpet_walk_frame){INTERPRETER + 0x10, sp, LOW + 64, 0, 0, 0};
	scene.words[3] = offset;
	scene.words[4] = bytecode;
	scene.words[9] = 0x600000;
	assert_int_equal(limpet_walk(&scene.map, NULL, limpet_walk_read_copy, &scene.copy,
				     scene.frame,
				     &(struct limpet_walk_result){pcs, 4, &end, &by_fp}),
			 2);
	assert_int_equal(end, LIMPET_WALK_COMPLETE);
	assert_int_equal(pcs[1], 0x600000);
	assert_int_equal(by_fp.count, 1);
	assert_int_equal(LIMPET_FUNCTION_FRAME(by_fp.list[0]), 0);
	assert_int_equal(LIMPET_FUNCTION_SLOT(by_fp.list[0]), LOW + 64);
	return pcs[0];
}

static void test_interpreted_functions(void **state)
{
	const uint64_t offset = UINT64_C(0x1234) << 32, pc = INTERPRETER + 0x10;
	const uint64_t word = interpreted_word(BYTECODE | 1, offset, LOW);

	(void)state;
	assert_true(word & LIMPET_FRAME_INTERPRETED);
	assert_int_equal(LIMPET_FRAME_BYTECODE(word), BYTECODE);
	assert_int_equal(LIMPET_FRAME_OFFSET(word), 0x1234);
	/* No reference, no number, one that does not fit, and slots that the callee has. */
	assert_int_equal(interpreted_word(BYTECODE, offset, LOW), pc);
	assert_int_equal(interpreted_word(BYTECODE | UINT64_C(1) << 47 | 1, offset, LOW), pc);
	assert_int_equal(interpreted_word(BYTECODE | 1, offset | 1, LOW), pc);
	assert_int_equal(interpreted_word(BYTECODE | 1, 0, LOW), pc);
	assert_int_equal(interpreted_word(BYTECODE | 1, UINT64_C(0x80000) << 32, LOW), pc);
	assert_int_equal(interpreted_word(BYTECODE | 1, offset, LOW + 32), pc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_frame_pointer_takes_over),
		cmocka_unit_test(test_memory_that_is_not_sure),
		cmocka_unit_test(test_return_addresses_are_looked_up_one_less),
		cmocka_unit_test(test_modules_that_came_later),
		cmocka_unit_test(test_cache_follows_the_generation),
		cmocka_unit_test(test_tables_of_what_has_gone_are_not_used),
		cmocka_unit_test(test_readers_refuse_what_is_outside),
		cmocka_unit_test(test_interpreted_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
