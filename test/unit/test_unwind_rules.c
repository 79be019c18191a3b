/* What the unwind-table compiler makes of single instructions and expressions, and of code that
 * nobody described. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/eh_frame_fixture.h"
#include "test/unit/unwind_check.h"

/* The rule at the start of a function with this program. */
static struct limpet_unwind_rule rule_of(const void *program, size_t bytes)
{
	struct section section = {.count = 0};
	struct limpet_unwind_rule rule;
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT, 16, program, bytes);
	compiled = compile(&section);
	rule = *rule_at(&compiled, TEXT);
	free(compiled.table);
	return rule;
}

static void check_rule(const char *name, const void *program, size_t bytes,
		       const struct limpet_unwind_rule *expected)
{
	const struct limpet_unwind_rule rule = rule_of(program, bytes);

	if (memcmp(&rule, expected, sizeof(rule)) != 0)
		fail_msg("%s: cfa %u fp %u ra %u flags %u offsets %d %d %d", name, rule.cfa,
			 rule.fp, rule.ra, rule.flags, rule.cfa_offset, rule.fp_offset, rule.extra);
}

static void test_every_instruction_leaves_the_next_readable(void **state)
{
	/* Each is followed by "CFA = rsp + 24", which holds only if its operands were skipped. */
	static const uint8_t last[] = {DW_CFA_def_cfa, 7, 24};
	static const struct {
		const char *name;
		unsigned count;
		uint8_t bytes[12];
	} instructions[] = {
		{"nop", 1, {DW_CFA_nop}},
		{"offset_extended", 3, {DW_CFA_offset_extended, 3, 2}},
		{"offset_extended_sf", 3, {DW_CFA_offset_extended_sf, 3, 0x7f}},
		{"restore_extended", 3, {DW_CFA_restore_extended, 0x83, 0x00}},
		{"undefined", 2, {DW_CFA_undefined, 3}},
		{"same_value", 2, {DW_CFA_same_value, 6}},
		{"register", 4, {DW_CFA_register, 3, 0x81, 0x01}},
		{"remember_state", 2, {DW_CFA_remember_state, DW_CFA_restore_state}},
		{"def_cfa_sf", 3, {DW_CFA_def_cfa_sf, 7, 0x7d}},
		{"def_cfa_register", 2, {DW_CFA_def_cfa_register, 7}},
		{"def_cfa_offset_sf", 2, {DW_CFA_def_cfa_offset_sf, 0x7d}},
		{"val_offset", 3, {DW_CFA_val_offset, 3, 1}},
		{"val_offset_sf", 3, {DW_CFA_val_offset_sf, 3, 1}},
		{"expression", 5, {DW_CFA_expression, 3, 2, DW_OP_breg7, 0x0a}},
		{"val_expression", 5, {DW_CFA_val_expression, 3, 2, DW_OP_breg7, 0x0a}},
		{"GNU_args_size", 3, {DW_CFA_GNU_args_size, 0x90, 0x01}},
		{"GNU_negative_offset_extended", 3, {DW_CFA_GNU_negative_offset_extended, 3, 2}},
		{"offset", 2, {DW_CFA_offset | 3, 2}},
		{"restore", 1, {DW_CFA_restore | 3}},
		{"advance_loc2", 3, {DW_CFA_advance_loc2, 0, 0}},
		{"advance_loc4", 5, {DW_CFA_advance_loc4, 0, 0, 0, 0}},
		{"MIPS_advance_loc8", 9, {DW_CFA_MIPS_advance_loc8, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"def_cfa_expression", 4, {DW_CFA_def_cfa_expression, 2, DW_OP_breg7, 8}},
	};
	const struct limpet_unwind_rule expected = SP(24);

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(instructions); i++) {
		unsigned count = instructions[i].count;
		uint8_t program[32];

		memcpy(program, instructions[i].bytes, count);
		memcpy(program + count, last, sizeof(last));
		check_rule(instructions[i].name, program, count + sizeof(last), &expected);
	}
}

struct program_case {
	const char *name;
	struct limpet_unwind_rule expected;
	unsigned count;
	uint8_t program[16];
};
#define PROGRAM(name, expected, ...)                              \
	{                                                         \
		name, expected, sizeof((uint8_t[]){__VA_ARGS__}), \
		{                                                 \
			__VA_ARGS__                               \
		}                                                 \
	}

static void check_programs(const struct program_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_rule(cases[i].name, cases[i].program, cases[i].count, &cases[i].expected);
}

static void test_expressions(void **state)
{
	const struct program_case cases[] = {
		PROGRAM("GCC's realigned frame",
			RULE(LIMPET_CFA_FP_DEREF, LIMPET_FP_FP, 0, 0, -8, 0, 0),
			DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref,
			DW_CFA_expression, 6, 2, DW_OP_breg6, 0),
		PROGRAM("OpenSSL's assembly", RULE(LIMPET_CFA_SP_DEREF, 0, 0, 0, 88, 0, 8),
			DW_CFA_def_cfa_expression, 6, DW_OP_breg7, 0xd8, 0x00, DW_OP_deref,
			DW_OP_plus_uconst, 8),
		PROGRAM("the same said otherwise", RULE(LIMPET_CFA_SP_DEREF, 0, 0, 0, 88, 0, 8),
			DW_CFA_def_cfa_expression, 10, DW_OP_bregx, 7, 0xd0, 0x00, DW_OP_lit8,
			DW_OP_plus, DW_OP_deref, DW_OP_const1u, 8, DW_OP_plus),
		PROGRAM("lazy binding stubs", RULE(LIMPET_CFA_PLT, 0, 0, 0, 8, 0, 11),
			DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15,
			DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus),
		/* beyond a rule */
		PROGRAM("two dereferences", UNKNOWN, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 8,
			DW_OP_deref, DW_OP_deref),
		PROGRAM("of another register", UNKNOWN, DW_CFA_def_cfa_expression, 2, DW_OP_breg0,
			8),
		PROGRAM("empty", UNKNOWN, DW_CFA_def_cfa_expression, 0),
		PROGRAM("nothing to add", UNKNOWN, DW_CFA_def_cfa_expression, 1, DW_OP_plus),
		PROGRAM("longer than it is", UNKNOWN, DW_CFA_def_cfa_expression, 100, DW_OP_breg7,
			8),
		PROGRAM("a stack too deep", UNKNOWN, DW_CFA_def_cfa_expression, 10, DW_OP_lit0,
			DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0,
			DW_OP_lit0, DW_OP_lit0, DW_OP_lit0),
		PROGRAM("frame pointer dereferenced",
			RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_expression, 6, 1,
			DW_OP_deref),
		PROGRAM("frame pointer computed",
			RULE(LIMPET_CFA_SP, LIMPET_FP_CFA_SUM, 0, 0, 8, -32, 0),
			DW_CFA_val_expression, 6, 3, DW_OP_const1u, 32, DW_OP_minus),
	};

	(void)state;
	check_programs(cases, LIMPET_COUNT_OF(cases));
}

static void test_registers(void **state)
{
	const struct program_case cases[] = {
		PROGRAM("return address undefined", RULE(.cfa = LIMPET_CFA_END), DW_CFA_undefined,
			16),
		PROGRAM("frame pointer undefined",
			RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_undefined, 6),
		PROGRAM("frame pointer in a register",
			RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_register, 6, 3),
		PROGRAM("frame pointer an offset",
			RULE(LIMPET_CFA_SP, LIMPET_FP_CFA_SUM, 0, 0, 8, -24, 0), DW_CFA_val_offset,
			6, 3),
		PROGRAM("return address in a register", UNKNOWN, DW_CFA_register, 16, 3),
		PROGRAM("stack pointer the same", UNKNOWN, DW_CFA_same_value, 7),
		PROGRAM("CFA of another register", UNKNOWN, DW_CFA_def_cfa_register, 10),
		PROGRAM("nothing to restore", UNKNOWN, DW_CFA_restore_state),
		PROGRAM("no such instruction", UNKNOWN, 0x3e),
		PROGRAM("return address elsewhere, but reachable from rsp",
			RULE(LIMPET_CFA_SP, 0, LIMPET_RA_SP, 0, 32, 0, 8), DW_CFA_def_cfa_offset,
			32, DW_CFA_offset | 16, 3),
		PROGRAM("return address elsewhere", UNKNOWN, DW_CFA_def_cfa_register, 6,
			DW_CFA_offset | 16, 3),
		PROGRAM("an offset of more than 32 bits", UNKNOWN, DW_CFA_def_cfa_offset, 0x80,
			0x80, 0x80, 0x80, 0x10),
		PROGRAM("the largest offset", SP(0x7fffffff), DW_CFA_def_cfa_offset, 0xff, 0xff,
			0xff, 0xff, 0x07),
	};

	(void)state;
	check_programs(cases, LIMPET_COUNT_OF(cases));
}

/* ------------------------------------------------------------------ not described */

static void test_undescribed_restorer(void **state)
{
	(void)state;
	static const uint8_t restorer[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t short_one[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const struct limpet_unwind_rule signal = {
		LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, LIMPET_RA_SP, LIMPET_RULE_SIGNAL, 160, 120, 168};
	uint8_t code[0x300] = {0};
	struct section section = {.count = 0};
	struct limpet_unwind_input input = {
		.eh_frame = section.bytes,
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
		.code = code,
		.code_bytes = sizeof(code),
		.code_address = TEXT,
	};
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x100, 0x80, NULL, 0);
	input.eh_frame_bytes = section.count;
	memcpy(code + 0x41, restorer, sizeof(restorer));
	memcpy(code + 0x111, restorer, sizeof(restorer)); /* described: its rows hold */
	memcpy(code + 0x180, restorer, sizeof(restorer)); /* would take a described byte */
	memcpy(code + 0x200, short_one, sizeof(short_one));
	memcpy(code + 0x207, short_one, sizeof(short_one)); /* would overlap */
	memcpy(code + sizeof(code) - 5, restorer, 5);
	assert_int_equal(
		limpet_unwind_compile(&input, &compiled.table, &compiled.bytes, &compiled.stats),
		0);
	assert_int_equal(unwind_check(compiled.table, compiled.bytes), 0);
	assert_rule(&compiled, TEXT + 0x3f, NONE);
	assert_rule(&compiled, TEXT + 0x40, signal);
	assert_rule(&compiled, TEXT + 0x49, signal);
	assert_rule(&compiled, TEXT + 0x4a, NONE);
	assert_rule(&compiled, TEXT + 0x110, SP(8));
	assert_rule(&compiled, TEXT + 0x180, NONE);
	assert_rule(&compiled, TEXT + 0x1ff, signal);
	assert_rule(&compiled, TEXT + 0x206, signal);
	assert_rule(&compiled, TEXT + 0x207, NONE);
	assert_rule(&compiled, TEXT + sizeof(code) - 1, NONE);
	free(compiled.table);
}

/* musl: exit(main(...)), in code that nobody described. */
static void test_undescribed_root(void **state)
{
	(void)state;
	/* mov %eax, %edi; call */
	static const uint8_t call[] = {0x89, 0xc7, 0xe8};
	static const uint8_t restorer[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const struct limpet_unwind_rule signal = {
		LIMPET_CFA_SP_DEREF, LIMPET_FP_SP, LIMPET_RA_SP, LIMPET_RULE_SIGNAL, 160, 120, 168};
	static const struct limpet_unwind_rule root = {.cfa = LIMPET_CFA_END};
	const uint32_t places[] = {0x40, 0x60, 0x140, 0x2f0}, exit_at = 0x280;
	uint8_t code[0x300] = {0};
	struct section section = {.count = 0};
	struct limpet_unwind_input input = {
		.eh_frame = section.bytes,
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
		.code = code,
		.code_bytes = sizeof(code),
		.code_address = TEXT,
		.exit_address = TEXT + exit_at,
	};
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x100, 0x80, NULL, 0);
	input.eh_frame_bytes = section.count;
	for (size_t i = 0; i < LIMPET_COUNT_OF(places); i++) {
		uint32_t at = places[i];
		int32_t away = (int32_t)exit_at - (int32_t)(at + 7);

		away += at == 0x60; /* to somewhere else */
		memcpy(code + at, call, sizeof(call));
		memcpy(code + at + sizeof(call), &away, sizeof(away));
	}
	memcpy(code + 0x20, restorer, sizeof(restorer));
	memcpy(code + 0x50, restorer, sizeof(restorer));
	memcpy(code + sizeof(code) - 4, call, sizeof(call)); /* cut short */
	assert_int_equal(
		limpet_unwind_compile(&input, &compiled.table, &compiled.bytes, &compiled.stats),
		0);
	assert_int_equal(unwind_check(compiled.table, compiled.bytes), 0);
	assert_rule(&compiled, TEXT + 0x20, signal);
	assert_rule(&compiled, TEXT + 0x3e, NONE);
	assert_rule(&compiled, TEXT + 0x3f, root);
	assert_rule(&compiled, TEXT + 0x40, NONE);
	assert_rule(&compiled, TEXT + 0x50, signal);
	assert_rule(&compiled, TEXT + 0x5f, NONE);
	assert_rule(&compiled, TEXT + 0x13f, SP(8)); /* described */
	assert_rule(&compiled, TEXT + 0x2ef, root);
	free(compiled.table);
	input.exit_address = 0;
	assert_int_equal(
		limpet_unwind_compile(&input, &compiled.table, &compiled.bytes, &compiled.stats),
		0);
	assert_rule(&compiled, TEXT + 0x3f, NONE);
	free(compiled.table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_instruction_leaves_the_next_readable),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_undescribed_restorer),
		cmocka_unit_test(test_undescribed_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
