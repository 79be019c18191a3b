/* What frames of JavaScript tell, of a V8 that is made up: functions, places in interpreted,
 * unoptimized and optimized code, inlined functions and lines; and that damage costs no more than
 * an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/runtimes/v8_frames.h"
#include "explain/runtimes/v8_lines.h"

#define BASE UINT64_C(0x1f2500000)
#define BYTES 0x20000u
#define SEED 20261129u
enum { META, FUNCTION, SHARED, SCOPE, SCRIPT, STRING, TABLE, BYTECODE, CODE, ARRAY, KINDS };
static const uint16_t types[KINDS] = {255, 2066, 262, 261, 167, 8, 190, 191, 245, 175};

/* Where the objects are. */
#define MAPS (BASE + 0x1000)
#define OUTER (BASE + 0x2000) /* SharedFunctionInfo */
#define INNER (BASE + 0x2100)
#define CLOSURE (BASE + 0x2200)
#define SCRIPT_AT (BASE + 0x2300)
#define SOURCE (BASE + 0x2400)
#define SCRIPT_NAME (BASE + 0x2500)
#define OUTER_NAME (BASE + 0x2600)
#define INNER_NAME (BASE + 0x2700)
#define OUTER_CODE (BASE + 0x2800) /* bytecode */
#define INNER_CODE (BASE + 0x2900)
#define POSITIONS (BASE + 0x2a00)
#define COMPILED (BASE + 0x3000) /* Code */
#define COMPILED_TABLE (BASE + 0x3100)
#define DATA (BASE + 0x3200)
#define LITERALS (BASE + 0x3300)
#define CALLS (BASE + 0x3400)
#define MOVED (BASE + 0x3500)
#define HEAD (BASE + 0x10010)
#define START (BASE + 0x10020)

static uint8_t memory[BYTES];
static struct limpet_v8_layout layout;
static uint64_t reads, damage_at; /* the latter: after so many reads a word changes; 0: never */
static uint64_t damaged;

static void put(uint64_t address, uint64_t word)
{
	memcpy(memory + (address - BASE), &word, sizeof(word));
}

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	if (++reads == damage_at)
		put(damaged, 0);
	if (address < BASE || address - BASE > BYTES || bytes > BYTES - (address - BASE))
		return -EFAULT;
	memcpy(ret, memory + (address - BASE), bytes);
	return 0;
}

static const struct limpet_memory_reader reader = {.read = read_memory};
static const struct limpet_v8 v8 = {.layout = &layout, .memory = &reader};

static void put_kind(uint64_t address, unsigned kind)
{
	put(address, (MAPS + kind * 0x50) | 1);
}

static void put_bytes(uint64_t address, unsigned kind, const void *bytes, size_t count)
{
	put_kind(address, kind);
	put(address + 8, (uint64_t)count << 32);
	memcpy(memory + (address - BASE) + 16, bytes, count);
}

/* A string has its length beside its hash. */
static void put_string(uint64_t address, const char *text)
{
	put_bytes(address, STRING, text, strlen(text));
}

static void put_shared(uint64_t address, uint64_t name, uint64_t bytecode)
{
	put_kind(address, SHARED);
	put(address + 8, bytecode | 1);
	put(address + 16, name | 1);
	put(address + 32, SCRIPT_AT | 1);
}

static void put_bytecode(uint64_t address, const uint8_t *bytecodes, size_t count)
{
	put_kind(address, BYTECODE);
	put(address + 8, (uint64_t)count << 32);
	put(address + 32, POSITIONS | 1);
	memcpy(memory + (address - BASE) + layout.bytecode_data, bytecodes, count);
}

/* Two bytecodes of 2 bytes, a wide one of 4 with its prefix, and one of 1. */
static const uint8_t bytecodes[] = {11, 0, 12, 0, 0, 12, 0, 0, 13};
/* Offsets 0, 2, 4 and 8; characters 3, 12, 21 and 30: that times 2 and 2 more, as differences. */
static const uint8_t positions[] = {0, 16, 4, 36, 4, 36, 8, 36};
/* Instructions: 16 bytes before the first, then 8, 8, 200 and 8. */
static const uint8_t lengths[] = {16, 8, 8, 0xc8, 0x01, 8};

static void put_code(uint64_t data)
{
	put_kind(HEAD, META);
	put(HEAD + 8, COMPILED | 1);
	put_kind(COMPILED, CODE);
	put(COMPILED + 16, data | 1);
	put(COMPILED + 24, COMPILED_TABLE | 1);
	put(COMPILED + 40, START);
	put(COMPILED + 56, 256);
	put_bytes(COMPILED_TABLE, TABLE, lengths, sizeof(lengths));
}

static int set_up(void **state)
{
	(void)state;
	layout = (struct limpet_v8_layout){.map_instance_type = 12,
					   .first_nonstring = 128,
					   .string_length = 12,
					   .string_chars = 16,
					   .array_length = 8,
					   .array_data = 16,
					   .function_shared = 24,
					   .shared_data = 8,
					   .shared_name_or_scope = 16,
					   .shared_script = 32,
					   .script_source = 8,
					   .script_name = 16,
					   .bytecode_positions = 32,
					   .bytecode_data = 54,
					   .code_start = 40,
					   .code_size = 56,
					   .code_data = 16,
					   .code_head = 16,
					   .deoptimization_literals = 2,
					   .deoptimization_inlining = 7,
					   .type_map = 255,
					   .type_function = 2066,
					   .type_shared = 262,
					   .type_scope = 261,
					   .type_script = 167,
					   .type_bytecode = 191,
					   .type_code = 245};
	layout.bytecode_sizes[0][11] = layout.bytecode_sizes[0][12] = 2;
	layout.bytecode_sizes[1][12] = 3;
	layout.bytecode_sizes[0][13] = 1;
	reads = damage_at = 0;
	memset(memory, 0, sizeof(memory));
	for (unsigned i = 0; i < KINDS; i++) {
		put_kind(MAPS + i * 0x50, META);
		memcpy(memory + (MAPS + i * 0x50 - BASE) + 12, &types[i], sizeof(types[i]));
	}
	put_string(OUTER_NAME, "outer");
	put_string(INNER_NAME, "inner");
	put_string(SCRIPT_NAME, "/srv/a.js");
	put_string(SOURCE, "12345\r\n8901\n3456\r890\n234567890");
	put_kind(SCRIPT_AT, SCRIPT);
	put(SCRIPT_AT + 8, SOURCE | 1);
	put(SCRIPT_AT + 16, SCRIPT_NAME | 1);
	put_shared(OUTER, OUTER_NAME, OUTER_CODE);
	put_shared(INNER, INNER_NAME, INNER_CODE);
	put_bytecode(OUTER_CODE, bytecodes, sizeof(bytecodes));
	put_bytecode(INNER_CODE, bytecodes, sizeof(bytecodes));
	put_bytes(POSITIONS, TABLE, positions, sizeof(positions));
	put_kind(CLOSURE, FUNCTION);
	put(CLOSURE + 24, OUTER | 1);
	put_code(OUTER_CODE);
	return 0;
}

static const struct limpet_v8_frame interpreted = {.bytecode = OUTER_CODE};
static const struct limpet_v8_frame compiled = {.pc = START + 34};

static void test_function_of_interpreted_code(void **state)
{
	const struct limpet_v8_frame other = {.bytecode = INNER_CODE};
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;

	(void)state;
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function, &witness), 0);
	assert_string_equal(function.name, "outer");
	assert_string_equal(function.script, "/srv/a.js");
	/* The bytecode is another function's, or none. */
	assert_int_equal(limpet_v8_frame_function(&v8, &other, CLOSURE | 1, &function, &witness),
			 -EBADMSG);
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, OUTER | 1, &function, &witness),
		-EBADMSG);
	assert_int_equal(limpet_v8_frame_function(&v8, &interpreted, 12, &function, &witness),
			 -EBADMSG);
	/* The closure has moved, and its old place says where to. */
	memcpy(memory + (MOVED - BASE), memory + (CLOSURE - BASE), 64);
	put(CLOSURE, MOVED);
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function, &witness), 0);
	assert_string_equal(function.name, "outer");
}

static void check_place(const struct limpet_v8_witness *witness, uint32_t offset, int32_t position)
{
	struct limpet_v8_place places[LIMPET_V8_PLACES];

	assert_int_equal(limpet_v8_frame_places(&v8, witness, offset, places, LIMPET_V8_PLACES), 1);
	assert_int_equal(places[0].shared, OUTER);
	assert_int_equal(places[0].position, position);
}

static void test_places(void **state)
{
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;

	(void)state;
	/* The number in a frame counts from the reference, 53 before the first bytecode. */
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function, &witness), 0);
	check_place(&witness, 53, 3);
	check_place(&witness, 55, 12);
	check_place(&witness, 57, 21);
	check_place(&witness, 61, 30);
	/* Return addresses into unoptimized code: at the end of a bytecode's instructions, and
	 * within them. */
	assert_int_equal(limpet_v8_frame_function(&v8, &compiled, CLOSURE | 1, &function, &witness),
			 0);
	check_place(&witness, 0, 21);
	witness.frame.pc = START + 32;
	memset(witness.instructions, 0, sizeof(witness.instructions));
	check_place(&witness, 0, 12);
	witness.frame.pc = START + 233;
	check_place(&witness, 0, 30);
}

static void put_optimized(uint64_t first, uint64_t second)
{
	const struct {
		uint64_t position;
		int32_t function;
		uint32_t pad;
	} calls[] = {{first, 0, 0}, {second, -1, 0}};
	/* From offset 0 on: character 4, in inlined call 1. */
	const uint64_t position = (uint64_t)(4 + 1) << 1 | (uint64_t)(1 + 1) << 31;
	uint8_t table[16] = {0};
	size_t count = 1;

	for (uint64_t rest = position << 1; rest; rest >>= 7)
		table[count++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
	put_code(DATA);
	put_bytes(COMPILED_TABLE, TABLE, table, count);
	put_kind(DATA, ARRAY);
	put(DATA + 8, UINT64_C(9) << 32);
	put(DATA + 16 + 2 * 8, LITERALS | 1);
	put(DATA + 16 + 6 * 8, OUTER | 1);
	put(DATA + 16 + 7 * 8, CALLS | 1);
	put_kind(LITERALS, ARRAY);
	put(LITERALS + 8, UINT64_C(1) << 32);
	put(LITERALS + 16, INNER | 3); /* weak */
	put_bytes(CALLS, TABLE, calls, sizeof(calls));
}

static void test_inlined_functions(void **state)
{
	/* Call 1, of outer by itself, is in call 0, of inner at character 9 of outer. */
	const uint64_t in_outer = (9 + 1) << 1, in_inner = (7 + 1) << 1 | (uint64_t)(0 + 1) << 31;
	struct limpet_v8_place places[LIMPET_V8_PLACES];
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;

	(void)state;
	put_optimized(in_outer, in_inner);
	assert_int_equal(limpet_v8_frame_function(&v8, &compiled, CLOSURE | 1, &function, &witness),
			 0);
	assert_string_equal(function.name, "outer");
	assert_int_equal(limpet_v8_frame_places(&v8, &witness, 0, places, LIMPET_V8_PLACES), 3);
	assert_int_equal(places[0].shared, OUTER);
	assert_int_equal(places[0].position, 4);
	assert_int_equal(places[1].shared, INNER);
	assert_int_equal(places[1].position, 7);
	assert_int_equal(places[2].shared, OUTER);
	assert_int_equal(places[2].position, 9);
	assert_int_equal(limpet_v8_frame_places(&v8, &witness, 0, places, 2), -EBADMSG);
	/* Calls that are in each other. */
	put_optimized((9 + 1) << 1 | (uint64_t)(1 + 1) << 31, in_inner);
	assert_int_equal(limpet_v8_frame_places(&v8, &witness, 0, places, LIMPET_V8_PLACES),
			 -EBADMSG);
}

static void test_lines(void **state)
{
	static const struct {
		int32_t position;
		uint32_t line;
	} cases[] = {{0, 1},  {5, 1},  {6, 1},  {7, 2},  {11, 2}, {12, 3}, {16, 3},
		     {17, 4}, {20, 4}, {21, 5}, {30, 5}, {31, 0}, {-1, 0}};
	struct limpet_v8_lines lines;

	(void)state;
	assert_int_equal(limpet_v8_lines_read(&v8, SCRIPT_AT, &lines), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++)
		assert_int_equal(limpet_v8_line_of(&lines, cases[i].position), cases[i].line);
	limpet_v8_lines_done(&lines);
	assert_int_equal(limpet_v8_lines_read(&v8, OUTER, &lines), -EBADMSG);
}

/* What has taken the place of the code decides. */
static void test_whether_it_is_still_that_function(void **state)
{
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;

	(void)state;
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function, &witness), 0);
	for (int closely = 0; closely < 2; closely++)
		assert_int_equal(limpet_v8_is_still(&v8, &witness, closely), LIMPET_V8_STILL);
	put(OUTER + 8, INNER_CODE | 1);
	for (int closely = 0; closely < 2; closely++)
		assert_int_equal(limpet_v8_is_still(&v8, &witness, closely), LIMPET_V8_REPLACED);
	put_kind(OUTER_CODE, TABLE);
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_GONE);
	(void)set_up(NULL);
	/* Unoptimized code stands for bytecode. */
	put(OUTER + 8, COMPILED | 1);
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_STILL);
	put(OUTER + 16, INNER_NAME | 1);
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_REPLACED);
	(void)set_up(NULL);
	assert_int_equal(limpet_v8_frame_function(&v8, &compiled, CLOSURE | 1, &function, &witness),
			 0);
	assert_int_equal(limpet_v8_is_still(&v8, &witness, true), LIMPET_V8_STILL);
	/* Its instructions are there as before, but are nobody's; then others, of which none is a
	 * call; then a call. */
	put_kind(COMPILED, TABLE);
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_GONE);
	put(compiled.pc - 8, UINT64_C(0x9090909090909090));
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_GONE);
	memory[compiled.pc - 5 - BASE] = 0xe8;
	assert_int_equal(limpet_v8_is_still(&v8, &witness, false), LIMPET_V8_REPLACED);
}

/* Between the two looks, or anywhere else. */
static void test_what_changes_meanwhile(void **state)
{
	static const uint64_t words[] = {OUTER + 16,      OUTER + 8,      CLOSURE + 24,
					 OUTER_NAME + 16, SCRIPT_AT + 16, OUTER_CODE};
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;
	uint64_t all;

	(void)state;
	assert_int_equal(
		limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function, &witness), 0);
	all = reads;
	for (size_t i = 0; i < LIMPET_COUNT_OF(words); i++)
		for (uint64_t when = 1; when <= all; when++) {
			(void)set_up(NULL);
			damaged = words[i];
			damage_at = when;
			if (limpet_v8_frame_function(&v8, &interpreted, CLOSURE | 1, &function,
						     &witness) < 0)
				continue;
			/* As it was, or as it is: not one half of each. */
			assert_true(!strcmp(function.name, "outer") || words[i] == OUTER + 16 ||
				    words[i] == OUTER_NAME + 16);
			assert_true(!strcmp(function.script, "/srv/a.js") ||
				    words[i] == SCRIPT_AT + 16);
		}
}

static void test_damage(void **state)
{
	struct limpet_v8_place places[LIMPET_V8_PLACES];
	struct limpet_v8_function function;
	struct limpet_v8_witness witness;
	struct limpet_v8_lines lines;

	(void)state;
	srandom(SEED);
	for (unsigned round = 0; round < 20000; round++) {
		const struct limpet_v8_frame *frame = round % 2 ? &compiled : &interpreted;

		if (round % 16 == 0) {
			(void)set_up(NULL);
			if (round % 32)
				put_optimized((9 + 1) << 1, (7 + 1) << 1 | UINT64_C(1) << 31);
		}
		put(BASE + 0x1000 + (uint64_t)random() % 0x2600 / 8 * 8,
		    random() % 2 ? BASE + 0x1000 + (uint64_t)random() % 0x2600 / 8 * 8 + 1
				 : (uint64_t)random() << 32 | (uint64_t)random());
		reads = 0;
		if (limpet_v8_frame_function(&v8, frame, CLOSURE | 1, &function, &witness) == 0) {
			assert_true(limpet_v8_frame_places(&v8, &witness, 57, places,
							   LIMPET_V8_PLACES) <=
				    (int)LIMPET_V8_PLACES);
			(void)limpet_v8_is_still(&v8, &witness, true);
		}
		assert_true(reads < 10000);
		if (limpet_v8_lines_read(&v8, SCRIPT_AT, &lines) == 0)
			limpet_v8_lines_done(&lines);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_function_of_interpreted_code, set_up),
		cmocka_unit_test_setup(test_places, set_up),
		cmocka_unit_test_setup(test_inlined_functions, set_up),
		cmocka_unit_test_setup(test_lines, set_up),
		cmocka_unit_test_setup(test_whether_it_is_still_that_function, set_up),
		cmocka_unit_test_setup(test_what_changes_meanwhile, set_up),
		cmocka_unit_test_setup(test_damage, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
