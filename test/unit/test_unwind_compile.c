/* The unwind-table compiler against hand-made sections, damaged ones, and libdw's own reading of
 * real programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/unit/unwind_fixture.h"

/* ------------------------------------------------------------------ hand-made sections */

enum { TEXT = 0x10000, TEXT_BYTES = 0x4000, SECTION = 0x50000 };

struct section {
	uint8_t bytes[4096];
	size_t count;
	size_t cie; /* offset of the last one */
};

static void put(struct section *section, uint64_t value, unsigned bytes)
{
	assert_true(section->count + bytes <= sizeof(section->bytes));
	for (unsigned i = 0; i < bytes; i++)
		section->bytes[section->count++] = (uint8_t)(value >> (8 * i));
}

static void put_bytes(struct section *section, const void *data, size_t bytes)
{
	assert_true(section->count + bytes <= sizeof(section->bytes));
	if (bytes)
		memcpy(section->bytes + section->count, data, bytes);
	section->count += bytes;
}

static size_t begin(struct section *section, bool wide)
{
	size_t start = section->count;

	put(section, 0xffffffff, wide ? 4 : 0);
	put(section, 0, wide ? 8 : 4);
	return start;
}

static void end(struct section *section, size_t start)
{
	bool wide = section->bytes[start] == 0xff && section->bytes[start + 3] == 0xff;
	size_t head = wide ? 12 : 4;
	size_t length;

	while (section->count % 4)
		put(section, DW_CFA_nop, 1);
	length = section->count - start - head;
	for (unsigned i = 0; i < (wide ? 8u : 4u); i++)
		section->bytes[start + (wide ? 4 : 0) + i] = (uint8_t)(length >> (8 * i));
}

/* A CIE with the usual state: CFA = rsp + 8, return address at CFA - 8. */
static void put_cie(struct section *section, const char *augmentation, const void *data,
		    size_t data_bytes, bool wide)
{
	static const uint8_t program[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	size_t start = begin(section, wide);

	section->cie = start;
	put(section, 0, 4);
	put(section, 1, 1);
	put_bytes(section, augmentation, strlen(augmentation) + 1);
	put(section, 1, 1);    /* code alignment */
	put(section, 0x78, 1); /* data alignment: -8 */
	put(section, 16, 1);
	if (augmentation[0] == 'z')
		put(section, data_bytes, 1);
	put_bytes(section, data, data_bytes);
	put_bytes(section, program, sizeof(program));
	end(section, start);
}

static void put_plain_cie(struct section *section)
{
	static const uint8_t pcrel = DW_EH_PE_pcrel | DW_EH_PE_sdata4;

	put_cie(section, "zR", &pcrel, 1, false);
}

static void put_fde(struct section *section, uint64_t pc, uint32_t bytes, const void *program,
		    size_t program_bytes)
{
	size_t start = begin(section, false);

	put(section, section->count - section->cie, 4);
	put(section, pc - (SECTION + section->count), 4);
	put(section, bytes, 4);
	put(section, 0, 1);
	put_bytes(section, program, program_bytes);
	end(section, start);
}

struct compiled {
	void *table;
	size_t bytes;
	struct limpet_unwind_stats stats;
};

static struct compiled compile(const struct section *section)
{
	struct limpet_unwind_input input = {
		.eh_frame = section->bytes,
		.eh_frame_bytes = section->count,
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
	};
	struct compiled compiled;

	assert_int_equal(
		limpet_unwind_compile(&input, &compiled.table, &compiled.bytes, &compiled.stats),
		0);
	assert_int_equal(limpet_unwind_table_check(compiled.table, compiled.bytes), 0);
	return compiled;
}

static const struct limpet_unwind_rule *rule_at(const struct compiled *compiled, uint64_t pc)
{
	return limpet_unwind_table_find(compiled->table, (uint32_t)(pc - TEXT));
}

static void assert_rule(const struct compiled *compiled, uint64_t pc,
			struct limpet_unwind_rule expected)
{
	const struct limpet_unwind_rule *rule = rule_at(compiled, pc);

	if (memcmp(rule, &expected, sizeof(expected)) != 0)
		fail_msg("pc %#lx: cfa %u fp %u ra %u flags %u offsets %d %d %d", (long)pc,
			 rule->cfa, rule->fp, rule->ra, rule->flags, rule->cfa_offset,
			 rule->fp_offset, rule->extra);
}

#define RULE(...) ((struct limpet_unwind_rule){__VA_ARGS__})
#define NONE RULE(.cfa = LIMPET_CFA_NONE)
#define UNKNOWN RULE(.cfa = LIMPET_CFA_UNKNOWN)
#define SP(n) RULE(.cfa = LIMPET_CFA_SP, .cfa_offset = (n))

static void test_nothing_gives_an_empty_table(void **state)
{
	(void)state;
	struct section section = {.count = 0};
	struct compiled compiled = compile(&section);

	assert_rule(&compiled, TEXT, NONE);
	assert_rule(&compiled, TEXT + TEXT_BYTES - 1, NONE);
	assert_rule(&compiled, TEXT + TEXT_BYTES, NONE);
	assert_rule(&compiled, TEXT + 0xfffffff, NONE);
	assert_int_equal(compiled.stats.functions, 0);
	free(compiled.table);
}

static void test_ordinary_function_and_its_gaps(void **state)
{
	(void)state;
	static const uint8_t program[] = {
		DW_CFA_advance_loc | 1,
		DW_CFA_def_cfa_offset,
		16,
		DW_CFA_offset | 6,
		2,
		DW_CFA_advance_loc | 3,
		DW_CFA_def_cfa_register,
		6,
		DW_CFA_advance_loc1,
		40,
		DW_CFA_remember_state,
		DW_CFA_restore | 6,
		DW_CFA_def_cfa,
		7,
		8,
		DW_CFA_advance_loc | 1,
		DW_CFA_restore_state,
	};
	struct limpet_unwind_rule pushed = {LIMPET_CFA_SP, LIMPET_FP_CFA, 0, 0, 16, -16, 0};
	struct limpet_unwind_rule framed = {LIMPET_CFA_FP, LIMPET_FP_CFA, 0, 0, 16, -16, 0};
	struct section section = {.count = 0};
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x300, 0x40, program, sizeof(program));
	compiled = compile(&section);
	assert_rule(&compiled, TEXT + 0x2ff, NONE);
	assert_rule(&compiled, TEXT + 0x300, SP(8));
	assert_rule(&compiled, TEXT + 0x301, pushed);
	assert_rule(&compiled, TEXT + 0x303, pushed);
	assert_rule(&compiled, TEXT + 0x304, framed);
	assert_rule(&compiled, TEXT + 0x32b, framed);
	assert_rule(&compiled, TEXT + 0x32c, SP(8));
	assert_rule(&compiled, TEXT + 0x32d, framed);
	assert_rule(&compiled, TEXT + 0x33f, framed);
	assert_rule(&compiled, TEXT + 0x340, NONE);
	assert_int_equal(compiled.stats.functions, 1);
	assert_int_equal(compiled.stats.described_bytes, 0x40);
	assert_int_equal(compiled.stats.unknown_rows, 0);
	free(compiled.table);
}

static void test_every_instruction_leaves_the_next_readable(void **state)
{
	(void)state;
	/* Each is followed by "CFA = rsp + 24", which holds only if its operands were skipped. */
	static const struct {
		uint8_t bytes[12];
		unsigned count;
	} instructions[] = {
		{{DW_CFA_nop}, 1},
		{{DW_CFA_offset_extended, 3, 2}, 3},
		{{DW_CFA_offset_extended_sf, 3, 0x7f}, 3},
		{{DW_CFA_restore_extended, 0x83, 0x00}, 3},
		{{DW_CFA_undefined, 3}, 2},
		{{DW_CFA_same_value, 6}, 2},
		{{DW_CFA_register, 3, 0x81, 0x01}, 4},
		{{DW_CFA_remember_state, DW_CFA_restore_state}, 2},
		{{DW_CFA_def_cfa_sf, 7, 0x7d}, 3},
		{{DW_CFA_def_cfa_register, 7}, 2},
		{{DW_CFA_def_cfa_offset_sf, 0x7d}, 2},
		{{DW_CFA_val_offset, 3, 1}, 3},
		{{DW_CFA_val_offset_sf, 3, 1}, 3},
		{{DW_CFA_expression, 3, 2, DW_OP_breg7, 0x0a}, 5},
		{{DW_CFA_val_expression, 3, 2, DW_OP_breg7, 0x0a}, 5},
		{{DW_CFA_GNU_args_size, 0x90, 0x01}, 3},
		{{DW_CFA_GNU_negative_offset_extended, 3, 2}, 3},
		{{DW_CFA_offset | 3, 2}, 2},
		{{DW_CFA_restore | 3}, 1},
		{{DW_CFA_advance_loc2, 0, 0}, 3},
		{{DW_CFA_advance_loc4, 0, 0, 0, 0}, 5},
		{{DW_CFA_MIPS_advance_loc8, 0, 0, 0, 0, 0, 0, 0, 0}, 9},
		{{DW_CFA_def_cfa_expression, 2, DW_OP_breg7, 8}, 4},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(instructions); i++) {
		uint8_t program[32];
		unsigned count = instructions[i].count;
		struct section section = {.count = 0};
		struct compiled compiled;

		memcpy(program, instructions[i].bytes, count);
		memcpy(program + count, (uint8_t[]){DW_CFA_def_cfa, 7, 24}, 3);
		put_plain_cie(&section);
		put_fde(&section, TEXT, 16, program, count + 3);
		compiled = compile(&section);
		assert_rule(&compiled, TEXT, SP(24));
		free(compiled.table);
	}
}

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

#define assert_program(expected, ...)                                                  \
	do {                                                                           \
		const uint8_t program_[] = {__VA_ARGS__};                              \
		struct limpet_unwind_rule expected_ = expected;                        \
		struct limpet_unwind_rule rule_ = rule_of(program_, sizeof(program_)); \
		assert_memory_equal(&rule_, &expected_, sizeof(rule_));                \
	} while (0)

static void test_expressions(void **state)
{
	(void)state;
	/* GCC's realigned frame */
	assert_program(RULE(LIMPET_CFA_FP_DEREF, LIMPET_FP_FP, 0, 0, -8, 0, 0),
		       DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref,
		       DW_CFA_expression, 6, 2, DW_OP_breg6, 0);
	/* OpenSSL's assembly */
	assert_program(RULE(LIMPET_CFA_SP_DEREF, 0, 0, 0, 88, 0, 8), DW_CFA_def_cfa_expression, 6,
		       DW_OP_breg7, 0xd8, 0x00, DW_OP_deref, DW_OP_plus_uconst, 8);
	/* the same said otherwise */
	assert_program(RULE(LIMPET_CFA_SP_DEREF, 0, 0, 0, 88, 0, 8), DW_CFA_def_cfa_expression, 10,
		       DW_OP_bregx, 7, 0xd0, 0x00, DW_OP_lit8, DW_OP_plus, DW_OP_deref,
		       DW_OP_const1u, 8, DW_OP_plus);
	/* lazy binding stubs */
	assert_program(RULE(LIMPET_CFA_PLT, 0, 0, 0, 8, 0, 11), DW_CFA_def_cfa_expression, 11,
		       DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11,
		       DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus);
	/* beyond a rule */
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 8, DW_OP_deref,
		       DW_OP_deref);
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 2, DW_OP_breg0, 8);
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 0);
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 1, DW_OP_plus);
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 100, DW_OP_breg7, 8);
	assert_program(UNKNOWN, DW_CFA_def_cfa_expression, 10, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0,
		       DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0, DW_OP_lit0,
		       DW_OP_lit0);
	assert_program(RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_expression, 6, 1,
		       DW_OP_deref);
	assert_program(RULE(LIMPET_CFA_SP, LIMPET_FP_CFA_SUM, 0, 0, 8, -32, 0),
		       DW_CFA_val_expression, 6, 3, DW_OP_const1u, 32, DW_OP_minus);
}

static void test_registers(void **state)
{
	(void)state;
	assert_program(RULE(.cfa = LIMPET_CFA_END), DW_CFA_undefined, 16);
	assert_program(RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_undefined, 6);
	assert_program(RULE(LIMPET_CFA_SP, LIMPET_FP_LOST, 0, 0, 8, 0, 0), DW_CFA_register, 6, 3);
	assert_program(RULE(LIMPET_CFA_SP, LIMPET_FP_CFA_SUM, 0, 0, 8, -24, 0), DW_CFA_val_offset,
		       6, 3);
	assert_program(UNKNOWN, DW_CFA_register, 16, 3);
	assert_program(UNKNOWN, DW_CFA_same_value, 7);
	assert_program(UNKNOWN, DW_CFA_def_cfa_register, 10);
	assert_program(UNKNOWN, DW_CFA_restore_state);
	assert_program(UNKNOWN, 0x3e);
	/* return address elsewhere, but reachable from rsp */
	assert_program(RULE(LIMPET_CFA_SP, 0, LIMPET_RA_SP, 0, 32, 0, 8), DW_CFA_def_cfa_offset, 32,
		       DW_CFA_offset | 16, 3);
	assert_program(UNKNOWN, DW_CFA_def_cfa_register, 6, DW_CFA_offset | 16, 3);
	/* offsets of more than 32 bits */
	assert_program(UNKNOWN, DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x10);
	assert_program(SP(0x7fffffff), DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 0xff, 0x07);
}

static void test_unreadable_end_spoils_only_what_follows(void **state)
{
	(void)state;
	static const uint8_t program[] = {DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16,
					  DW_CFA_advance_loc | 4, 0x3d};
	static const uint8_t cut[] = {DW_CFA_advance_loc | 4,
				      DW_CFA_nop,
				      DW_CFA_nop,
				      DW_CFA_nop,
				      DW_CFA_nop,
				      DW_CFA_nop,
				      DW_CFA_nop,
				      DW_CFA_advance_loc4,
				      0xff};
	struct section section = {.count = 0};
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT, 0x20, program, sizeof(program));
	put_fde(&section, TEXT + 0x20, 0x20, cut, sizeof(cut));
	compiled = compile(&section);
	assert_rule(&compiled, TEXT + 3, SP(8));
	assert_rule(&compiled, TEXT + 4, SP(16));
	assert_rule(&compiled, TEXT + 8, UNKNOWN);
	assert_rule(&compiled, TEXT + 0x1f, UNKNOWN);
	assert_rule(&compiled, TEXT + 0x23, SP(8));
	assert_rule(&compiled, TEXT + 0x24, UNKNOWN);
	assert_int_equal(compiled.stats.unknown_bytes, 0x18 + 0x1c);
	free(compiled.table);
}

static void test_pointer_encodings(void **state)
{
	(void)state;
	static const struct {
		uint8_t encoding;
		unsigned bytes;
		uint64_t base;
	} cases[] = {
		{DW_EH_PE_absptr, 8, 0x1000},
		{DW_EH_PE_udata4, 4, 0x1000},
		{DW_EH_PE_sdata8, 8, 0x1000},
		{DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, 0},
		{DW_EH_PE_pcrel | DW_EH_PE_udata8, 8, 0},
		{DW_EH_PE_pcrel | DW_EH_PE_absptr, 8, 0},
		{DW_EH_PE_textrel | DW_EH_PE_udata2, 2, TEXT},
		{DW_EH_PE_datarel | DW_EH_PE_sdata4, 4, 0x60000},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		struct section section = {.count = 0};
		struct limpet_unwind_input input = {
			.eh_frame = section.bytes,
			.eh_frame_address = SECTION,
			.start = TEXT,
			.end = TEXT + TEXT_BYTES,
			.bias = 0x1000,
			.text_base = TEXT,
			.data_base = 0x60000,
		};
		/* before 'R' comes a personality that must be skipped, of the same encoding */
		uint8_t data[16] = {cases[i].encoding | DW_EH_PE_indirect};
		struct compiled compiled;
		size_t start;

		data[1 + cases[i].bytes] = cases[i].encoding;
		put_cie(&section, "zPR", data, 2 + cases[i].bytes, i & 1);
		start = begin(&section, !(i & 1));
		put(&section, section.count - section.cie, 4);
		put(&section,
		    TEXT + 0x80 - (cases[i].base ? cases[i].base : SECTION + section.count),
		    cases[i].bytes);
		put(&section, 0x10, cases[i].bytes);
		put(&section, 3, 1); /* augmentation data: not to be run */
		put_bytes(&section, "\xff\xff\xff", 3);
		put_bytes(&section, (uint8_t[]){DW_CFA_def_cfa_offset, 48}, 2);
		end(&section, start);
		input.eh_frame_bytes = section.count;
		assert_int_equal(limpet_unwind_compile(&input, &compiled.table, &compiled.bytes,
						       &compiled.stats),
				 0);
		assert_rule(&compiled, TEXT + 0x7f, NONE);
		assert_rule(&compiled, TEXT + 0x80, SP(48));
		assert_rule(&compiled, TEXT + 0x8f, SP(48));
		assert_rule(&compiled, TEXT + 0x90, NONE);
		free(compiled.table);
	}
}

static void test_unsorted_overlapping_and_foreign_functions(void **state)
{
	(void)state;
	static const uint8_t deeper[] = {DW_CFA_def_cfa_offset, 32};
	struct section section = {.count = 0};
	struct compiled compiled;

	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x200, 0x20, deeper, 2);
	put_fde(&section, TEXT + 0x100, 0x100, NULL, 0);
	put_fde(&section, TEXT + 0x140, 0x20, deeper, 2);
	put_fde(&section, TEXT + 0x200, 0x40, NULL, 0);      /* second at its place */
	put_fde(&section, TEXT + TEXT_BYTES, 0x40, NULL, 0); /* outside */
	put_fde(&section, TEXT - 0x20, 0x40, NULL, 0);
	put_fde(&section, TEXT + 0x300, 0, NULL, 0); /* nothing */
	put_fde(&section, TEXT + TEXT_BYTES - 0x10, 0x40, NULL, 0);
	compiled = compile(&section);
	assert_rule(&compiled, TEXT + 0xff, NONE);
	assert_rule(&compiled, TEXT + 0x13f, SP(8));
	assert_rule(&compiled, TEXT + 0x140, SP(32));
	assert_rule(&compiled, TEXT + 0x15f, SP(32));
	assert_rule(&compiled, TEXT + 0x160, NONE);
	assert_rule(&compiled, TEXT + 0x200, SP(32));
	assert_rule(&compiled, TEXT + 0x21f, SP(32));
	assert_rule(&compiled, TEXT + 0x220, NONE);
	assert_rule(&compiled, TEXT + 0x300, NONE);
	assert_rule(&compiled, TEXT + TEXT_BYTES - 1, SP(8));
	assert_int_equal(compiled.stats.functions, 4);
	assert_int_equal(compiled.stats.functions_skipped, 4);
	free(compiled.table);
}

static void test_terminator(void **state)
{
	(void)state;
	struct section section = {.count = 0};
	struct limpet_unwind_input input = {
		.eh_frame = section.bytes,
		.eh_frame_address = SECTION,
		.start = TEXT,
		.end = TEXT + TEXT_BYTES,
	};

	put_plain_cie(&section);
	put_fde(&section, TEXT, 0x10, NULL, 0);
	put(&section, 0, 4);
	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x10, 0x10, NULL, 0);
	input.eh_frame_bytes = section.count;
	for (int whole = 0; whole < 2; whole++) {
		struct compiled compiled;

		input.eh_frame_whole = whole;
		assert_int_equal(limpet_unwind_compile(&input, &compiled.table, &compiled.bytes,
						       &compiled.stats),
				 0);
		assert_int_equal(compiled.stats.functions, whole ? 2 : 1);
		free(compiled.table);
	}
}

static void test_unusable_cies(void **state)
{
	(void)state;
	struct section section = {.count = 0};
	struct compiled compiled;

	put_cie(&section, "zQ", "\x1b", 1, false); /* unknown letter */
	put_fde(&section, TEXT, 0x10, NULL, 0);
	put_cie(&section, "v", NULL, 0, false);
	put_fde(&section, TEXT + 0x10, 0x10, NULL, 0);
	put_cie(&section, "zR", "\x1b", 1, false);
	section.bytes[section.cie + 8] = 2; /* version */
	put_fde(&section, TEXT + 0x20, 0x10, NULL, 0);
	section.cie += 4; /* points between entries */
	put_fde(&section, TEXT + 0x30, 0x10, NULL, 0);
	put_plain_cie(&section);
	put_fde(&section, TEXT + 0x40, 0x10, NULL, 0);
	compiled = compile(&section);
	assert_int_equal(compiled.stats.functions, 1);
	assert_int_equal(compiled.stats.functions_skipped, 4);
	assert_rule(&compiled, TEXT + 0x3f, NONE);
	assert_rule(&compiled, TEXT + 0x40, SP(8));
	free(compiled.table);
}

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
	assert_int_equal(limpet_unwind_table_check(compiled.table, compiled.bytes), 0);
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
	assert_int_equal(limpet_unwind_table_check(compiled.table, compiled.bytes), 0);
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

static void test_refused_ranges(void **state)
{
	(void)state;
	struct limpet_unwind_input input = {.start = 2, .end = 1};
	void *table = NULL;
	size_t bytes = 7;

	assert_int_equal(limpet_unwind_compile(&input, &table, &bytes, NULL), -EINVAL);
	input.end = 1ull << 33;
	assert_int_equal(limpet_unwind_compile(&input, &table, &bytes, NULL), -EFBIG);
	assert_null(table);
	assert_int_equal(bytes, 7);
	input.end = input.start;
	assert_int_equal(limpet_unwind_compile(&input, &table, &bytes, NULL), 0);
	assert_int_equal(limpet_unwind_table_check(table, bytes), 0);
	assert_int_equal(limpet_unwind_table_find(table, 0)->cfa, LIMPET_CFA_NONE);
	free(table);
}

static void test_more_rules_than_a_row_can_name(void **state)
{
	(void)state;
	/* 70,000 rows with a rule each */
	enum { COUNT = 70000 };
	uint8_t *bytes = calloc(1, COUNT * 5 + 64), *at = bytes;
	static const uint8_t head[] = {
		0x10,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		1,
		0,
		1,
		0x78,
		16,
		DW_CFA_def_cfa,
		7,
		8,
		DW_CFA_offset | 16,
		1,
		0,
		0,
	};
	struct limpet_unwind_input input = {
		.eh_frame = bytes,
		.eh_frame_address = SECTION,
		.bias = TEXT,
		.start = TEXT,
		.end = TEXT + 0x100000,
	};
	struct limpet_unwind_stats stats;
	uint64_t pc = 0x10, range = COUNT + 1;
	uint32_t length = COUNT * 5 + 20, pointer = sizeof(head) + 4;
	size_t table_bytes;
	void *table;

	assert_non_null(bytes);
	memcpy(at, head, sizeof(head));
	at += sizeof(head);
	memcpy(at, &length, 4);
	memcpy(at + 4, &pointer, 4);
	memcpy(at + 8, &pc, 8);
	memcpy(at + 16, &range, 8);
	at += 24;
	for (uint32_t i = 0; i < COUNT; i++) {
		*at++ = DW_CFA_advance_loc | 1;
		*at++ = DW_CFA_def_cfa_offset;
		*at++ = (uint8_t)(0x80 | (i & 0x7f));
		*at++ = (uint8_t)(0x80 | (i >> 7 & 0x7f));
		*at++ = (uint8_t)(i >> 14);
	}
	input.eh_frame_bytes = (size_t)(at - bytes);
	assert_int_equal(limpet_unwind_compile(&input, &table, &table_bytes, &stats), 0);
	assert_int_equal(limpet_unwind_table_check(table, table_bytes), 0);
	assert_int_equal(stats.rules, LIMPET_UNWIND_MAX_RULES);
	assert_int_equal(limpet_unwind_table_find(table, 0x11 + 500)->cfa_offset, 500);
	assert_int_equal(limpet_unwind_table_find(table, 0x11 + COUNT - 1)->cfa,
			 LIMPET_CFA_UNKNOWN);
	assert_true(stats.unknown_bytes > 4000 && stats.unknown_bytes < 5000);
	free(table);
	free(bytes);
}

static void test_find_eh_frame(void **state)
{
	(void)state;
	static const uint8_t good[] = {1, 0x1b, 3, 0x3b, 0x00, 0x10, 0, 0};
	static const uint8_t relative[] = {1, 0x3b, 3, 0x3b, 0x00, 0x10, 0, 0};
	static const uint8_t omitted[] = {1, 0xff, 3, 0x3b};
	uint64_t address = 0;

	assert_int_equal(limpet_unwind_find_eh_frame(good, sizeof(good), 0x400000, &address), 0);
	assert_int_equal(address, 0x401004);
	assert_int_equal(limpet_unwind_find_eh_frame(relative, 8, 0x400000, &address), 0);
	assert_int_equal(address, 0x401000);
	for (size_t bytes = 0; bytes < sizeof(good); bytes++)
		assert_int_equal(limpet_unwind_find_eh_frame(good, bytes, 0x400000, &address),
				 -EBADMSG);
	assert_int_equal(limpet_unwind_find_eh_frame(omitted, 4, 0x400000, &address), -ENOTSUP);
	assert_int_equal(address, 0x401000);
}

/* ------------------------------------------------------------------ damage */

static const char *own_module(const char *part)
{
	static char path[4096];
	struct link_map *list;
	void *self = dlopen(NULL, RTLD_NOW);

	assert_non_null(self);
	assert_int_equal(dlinfo(self, RTLD_DI_LINKMAP, &list), 0);
	path[0] = '\0';
	for (; list; list = list->l_next)
		if (strstr(list->l_name, part)) {
			assert_non_null(realpath(list->l_name, path));
			break;
		}
	dlclose(self);
	return path;
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void assert_survives(const struct limpet_unwind_input *input)
{
	void *table, *again;
	size_t bytes, again_bytes;

	assert_int_equal(limpet_unwind_compile(input, &table, &bytes, NULL), 0);
	assert_int_equal(limpet_unwind_table_check(table, bytes), 0);
	assert_int_equal(limpet_unwind_compile(input, &again, &again_bytes, NULL), 0);
	assert_int_equal(bytes, again_bytes);
	assert_memory_equal(table, again, bytes);
	free(table);
	free(again);
}

static void test_damaged_sections(void **state)
{
	(void)state;
	struct fixture_file file;
	struct limpet_unwind_input input;
	uint64_t seed = 0x2545f4914f6cdd1dull;
	uint8_t *bytes;
	size_t count;

	assert_true(fixture_file_open(own_module("libcmocka"), &file));
	input = file.input;
	count = input.eh_frame_bytes;
	if (count == 0) {
		fail_msg("libcmocka has no .eh_frame");
		return;
	}
	/* A block of its very size, so that a read past the end is seen. */
	for (size_t cut = 1; cut < count; cut += 1 + next_random(&seed) % 61) {
		bytes = malloc(cut);
		assert_non_null(bytes);
		memcpy(bytes, file.input.eh_frame, cut);
		input.eh_frame = bytes;
		input.eh_frame_bytes = cut;
		assert_survives(&input);
		free(bytes);
	}
	bytes = malloc(count);
	assert_non_null(bytes);
	input.eh_frame = bytes;
	input.eh_frame_bytes = count;
	for (int round = 0; round < 1500; round++) {
		memcpy(bytes, file.input.eh_frame, count);
		for (uint64_t i = next_random(&seed) % 24 + 1; i; i--)
			bytes[next_random(&seed) % count] = (uint8_t)next_random(&seed);
		assert_survives(&input);
	}
	free(bytes);
	fixture_file_close(&file);
}

static void test_check_refuses_damaged_tables(void **state)
{
	(void)state;
	struct fixture_file file;
	uint64_t seed = 0x9e3779b97f4a7c15ull;
	size_t bytes;
	uint8_t *copy;
	unsigned refused = 0;

	assert_true(fixture_file_open(own_module("libcmocka"), &file));
	bytes = file.table->bytes;
	copy = aligned_alloc(16, bytes);
	assert_non_null(copy);
	for (size_t cut = 0; cut < bytes; cut += 16)
		assert_int_equal(limpet_unwind_table_check(file.table, cut), -EBADMSG);
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, file.table, bytes);
		copy[next_random(&seed) % file.table->rules_offset] ^=
			(uint8_t)(1u << next_random(&seed) % 8);
		if (limpet_unwind_table_check(copy, bytes) != 0) {
			refused++;
			continue;
		}
		/* What passes the check is safe to look up in, though maybe wrong. */
		for (uint32_t offset = 0; offset < file.table->covered; offset += 7)
			limpet_unwind_table_find((const void *)copy, offset);
	}
	assert_true(refused > 500);
	free(copy);
	fixture_file_close(&file);
}

#define FUZZ_CORPUS "test/fuzz/corpus/unwind_compile"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a fuzzer has found once stays found. */
static void test_fuzz_corpus(void **state)
{
	(void)state;
	DIR *directory = opendir(FUZZ_CORPUS);
	unsigned replayed = 0;
	struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		char path[512];
		FILE *file;
		uint8_t *data;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", FUZZ_CORPUS, entry->d_name);
		file = fopen(path, "re");
		assert_non_null(file);
		/* A block of its very size again. */
		assert_int_equal(fseek(file, 0, SEEK_END), 0);
		size = (size_t)ftell(file);
		rewind(file);
		data = malloc(size ? size : 1);
		assert_non_null(data);
		assert_int_equal(fread(data, 1, size, file), size);
		fclose(file);
		assert_int_equal(LLVMFuzzerTestOneInput(data, size), 0);
		free(data);
		replayed++;
	}
	closedir(directory);
	assert_true(replayed >= 12);
}

/* ------------------------------------------------------------------ libdw as the oracle */

/* A synthetic moment: registers, and a memory whose every word is a plausible address. */
struct moment {
	uint64_t pc, sp, fp;
};

static uint64_t word_at(const struct moment *moment, uint64_t address)
{
	uint64_t hash = (address ^ address >> 29) * 0xbf58476d1ce4e5b9ull;

	return moment->sp + 0x100000 + (hash >> 40) * 8;
}

static bool read_moment(const void *memory, uint64_t address, uint64_t *ret_word)
{
	*ret_word = word_at(memory, address);
	return true;
}

enum answer { ANSWER_OK, ANSWER_INEXPRESSIBLE, ANSWER_UNDEFINED };

/* A full evaluator, other than the compiler's: over numbers. */
static enum answer evaluate(const struct moment *moment, const Dwarf_Op *ops, size_t count,
			    uint64_t cfa, uint64_t *ret_value, bool *ret_is_value)
{
	uint64_t stack[16] = {0}, a;
	size_t depth = 0;

	*ret_is_value = false;
	for (size_t i = 0; i < count; i++) {
		const Dwarf_Op *op = &ops[i];
		uint64_t reg = UINT64_MAX;
		int64_t offset = 0;

		if (depth >= LIMPET_COUNT_OF(stack))
			fail_msg("the oracle's evaluator is not deep enough");
		if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
			stack[depth++] = op->atom - DW_OP_lit0;
			continue;
		}
		if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
			reg = op->atom - DW_OP_breg0;
			offset = (int64_t)op->number;
		} else if (op->atom == DW_OP_bregx) {
			reg = op->number;
			offset = (int64_t)op->number2;
		} else if (op->atom == DW_OP_regx ||
			   (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)) {
			return ANSWER_INEXPRESSIBLE; /* in another register */
		}
		if (reg != UINT64_MAX) {
			if (reg != 6 && reg != 7 && reg != 16)
				return ANSWER_INEXPRESSIBLE;
			a = reg == 6 ? moment->fp : reg == 7 ? moment->sp : moment->pc;
			stack[depth++] = a + (uint64_t)offset;
			continue;
		}
		switch (op->atom) {
		case DW_OP_call_frame_cfa:
			stack[depth++] = cfa;
			break;
		case DW_OP_deref:
			assert_true(depth >= 1);
			stack[depth - 1] = word_at(moment, stack[depth - 1]);
			break;
		case DW_OP_plus_uconst:
			assert_true(depth >= 1);
			stack[depth - 1] += op->number;
			break;
		case DW_OP_const1u:
		case DW_OP_const1s:
		case DW_OP_const2u:
		case DW_OP_const2s:
		case DW_OP_const4u:
		case DW_OP_const4s:
		case DW_OP_constu:
		case DW_OP_consts:
			stack[depth++] = op->number;
			break;
		case DW_OP_stack_value:
			*ret_is_value = true;
			break;
		default:
			assert_true(depth >= 2);
			a = stack[--depth];
			switch (op->atom) {
			case DW_OP_plus:
				stack[depth - 1] += a;
				break;
			case DW_OP_minus:
				stack[depth - 1] -= a;
				break;
			case DW_OP_and:
				stack[depth - 1] &= a;
				break;
			case DW_OP_shl:
				stack[depth - 1] <<= a;
				break;
			case DW_OP_mul:
				stack[depth - 1] *= a;
				break;
			case DW_OP_ge:
				stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)a;
				break;
			default:
				fail_msg("the oracle's evaluator lacks operation %#x", op->atom);
			}
		}
	}
	assert_true(depth > 0);
	*ret_value = stack[depth - 1];
	return ANSWER_OK;
}

static enum answer oracle_register(Dwarf_Frame *frame, int reg, const struct moment *moment,
				   uint64_t cfa, uint64_t same, uint64_t *ret_value)
{
	Dwarf_Op memory[3], *ops;
	enum answer answer;
	bool is_value;
	size_t count;

	assert_int_equal(dwarf_frame_register(frame, reg, memory, &ops, &count), 0);
	if (count == 0 && ops == memory)
		return ANSWER_UNDEFINED;
	if (count == 0) {
		*ret_value = same;
		return ANSWER_OK;
	}
	answer = evaluate(moment, ops, count, cfa, ret_value, &is_value);
	if (answer == ANSWER_OK && !is_value)
		*ret_value = word_at(moment, *ret_value);
	return answer;
}

struct tally {
	unsigned long checked, equal, unknown, weaker, different;
};

static void differ(struct tally *tally, const char *what, const struct moment *moment,
		   uint64_t ours, uint64_t theirs)
{
	if (tally->different++ < 10)
		print_message("# pc %#lx: %s: %#lx, libdw %#lx\n", (long)moment->pc, what,
			      (long)ours, (long)theirs);
}

static void compare_at(const struct fixture_file *file, Dwarf_CFI *cfi, uint64_t pc,
		       struct tally *tally)
{
	const struct limpet_unwind_rule *rule =
		limpet_unwind_table_find(file->table, (uint32_t)(pc - file->module.start));
	struct moment moment = {.pc = pc, .sp = 0x7ffd00010000, .fp = 0x7ffd00010400};
	struct limpet_walk_frame next = {moment.pc, moment.sp, moment.fp, LIMPET_FRAME_EXACT, 0};
	enum answer cfa_answer, ra_answer, fp_answer;
	uint64_t cfa = 0, ra = 0, fp = 0, sp = 0;
	enum limpet_walk_end end;
	Dwarf_Frame *frame;
	bool signal, is_value;
	Dwarf_Op *ops;
	size_t count;

	tally->checked++;
	if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
		if (rule->cfa != LIMPET_CFA_NONE)
			differ(tally, "a rule where libdw has none", &moment, rule->cfa, 0);
		else
			tally->equal++;
		return;
	}
	assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &signal), 16);
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &count), 0);
	cfa_answer = count ? evaluate(&moment, ops, count, 0, &cfa, &is_value) : ANSWER_UNDEFINED;
	ra_answer = oracle_register(frame, 16, &moment, cfa, moment.pc, &ra);
	fp_answer = oracle_register(frame, 6, &moment, cfa, moment.fp, &fp);
	/* libdw has no default for rsp: undefined is "the CFA". */
	if (oracle_register(frame, 7, &moment, cfa, moment.sp, &sp) != ANSWER_OK)
		sp = cfa;
	free(frame);

	if (rule->cfa == LIMPET_CFA_UNKNOWN) {
		tally->unknown++;
		if (cfa_answer == ANSWER_OK && ra_answer == ANSWER_OK && sp == cfa)
			tally->weaker++;
		return;
	}
	if (rule->cfa == LIMPET_CFA_NONE) {
		differ(tally, "no rule", &moment, 0, cfa);
		return;
	}
	end = limpet_walk_step(&file->map, NULL, read_moment, &moment, &next);
	limpet_walk_load_fp(read_moment, &moment, &next);
	if (ra_answer == ANSWER_UNDEFINED) {
		if (end != LIMPET_WALK_COMPLETE)
			differ(tally, "end", &moment, end, LIMPET_WALK_COMPLETE);
		else
			tally->equal++;
		return;
	}
	if (end != LIMPET_WALK_MORE || cfa_answer != ANSWER_OK || ra_answer != ANSWER_OK)
		differ(tally, "step", &moment, end, cfa_answer);
	else if (next.sp != cfa)
		differ(tally, "CFA", &moment, next.sp, cfa);
	else if (next.pc != ra)
		differ(tally, "return address", &moment, next.pc, ra);
	else if (fp_answer == ANSWER_OK ? next.fp != fp : next.fp != LIMPET_WALK_NO_FP)
		differ(tally, "frame pointer", &moment, next.fp, fp);
	else if (signal != ((next.flags & LIMPET_FRAME_SIGNAL) != 0))
		differ(tally, "signal", &moment, next.flags, signal);
	else
		tally->equal++;
}

enum { MOST_CHECKS = 60000 };

/* Every row's first byte and the byte before it, or as many as MOST_CHECKS, spread evenly. */
static void compare_file(const char *path, double most_unknown_percent)
{
	struct tally tally = {0};
	struct fixture_file file;
	uint32_t *offsets, step;
	Dwarf_CFI *cfi;

	if (!fixture_file_open(path, &file)) {
		print_message("# skipped: %s is not on this machine\n", path);
		skip();
		return;
	}
	cfi = dwarf_getcfi_elf(file.elf);
	assert_non_null(cfi);
	assert_true(file.stats.functions > 0);
	offsets = fixture_row_offsets(file.table);
	step = file.table->row_count / (MOST_CHECKS / 2) + 1;
	for (uint32_t i = 0; i < file.table->row_count; i += step) {
		compare_at(&file, cfi, file.module.start + offsets[i], &tally);
		if (offsets[i])
			compare_at(&file, cfi, file.module.start + offsets[i] - 1, &tally);
	}
	print_message("# %s: %u rows, %u rules, %.2f B/row; %lu checked, %lu equal, %lu unknown "
		      "(%.3f %%), %lu different; unknown bytes %.3f %%\n",
		      path, file.stats.rows, file.stats.rules,
		      (double)file.table->bytes / file.stats.rows, tally.checked, tally.equal,
		      tally.unknown, 100.0 * (double)tally.unknown / (double)tally.checked,
		      tally.different,
		      100.0 * (double)file.stats.unknown_bytes /
			      (double)(file.stats.described_bytes + file.stats.unknown_bytes));
	assert_int_equal(tally.different, 0);
	assert_int_equal(tally.weaker, 0);
	assert_int_equal(tally.equal + tally.unknown, tally.checked);
	assert_true(100.0 * (double)tally.unknown / (double)tally.checked <= most_unknown_percent);
	assert_true(file.stats.rows < 1000 || file.table->bytes <= 8ull * file.stats.rows);
	free(offsets);
	dwarf_cfi_end(cfi);
	fixture_file_close(&file);
}

static void compare_library(const char *name, double most_unknown_percent)
{
	void *library = dlopen(name, RTLD_LAZY);
	char path[4096];

	if (!library) {
		print_message("# skipped: %s is not on this machine\n", name);
		skip();
		return;
	}
	strcpy(path, own_module(name));
	dlclose(library);
	compare_file(path, most_unknown_percent);
}

static void test_oracle_libc(void **state)
{
	(void)state;
	compare_library("libc.so.6", 0.1);
}
static void test_oracle_loader(void **state)
{
	(void)state;
	compare_library("ld-linux-x86-64.so.2", 1.0);
}
static void test_oracle_libstdcxx(void **state)
{
	(void)state;
	compare_library("libstdc++.so.6", 0.1);
}
static void test_oracle_libcrypto(void **state)
{
	(void)state;
	compare_library("libcrypto.so.3", 1.5);
}
static void test_oracle_python(void **state)
{
	(void)state;
	compare_file("/usr/bin/python3.11", 0.1);
}
static void test_oracle_node(void **state)
{
	(void)state;
	compare_file("/usr/bin/node", 0.5);
}
static void test_oracle_self(void **state)
{
	(void)state;
	compare_file("/proc/self/exe", 0.1);
}

/* rustc's own linker (LLD from 1.90 on) lays a program out other than GNU ld does. */
static void test_oracle_rust(void **state)
{
	(void)state;
	char directory[] = "/tmp/limpet-unwind-XXXXXX", command[512], path[128];
	int built;

	if (system("command -v rustc >/dev/null 2>&1") != 0) {
		print_message("# skipped: no rustc\n");
		skip();
		return;
	}
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/program", directory);
	snprintf(command, sizeof(command),
		 "cd %s && echo 'fn main() { println!(\"{:?}\", std::env::args()); }' >program.rs "
		 "&& timeout 120 rustc -O program.rs -o program 2>program.log || cat program.log",
		 directory);
	built = system(command);
	if (built == 0)
		built = access(path, X_OK);
	assert_int_equal(built, 0);
	compare_file(path, 0.1);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_gives_an_empty_table),
		cmocka_unit_test(test_ordinary_function_and_its_gaps),
		cmocka_unit_test(test_every_instruction_leaves_the_next_readable),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_unreadable_end_spoils_only_what_follows),
		cmocka_unit_test(test_pointer_encodings),
		cmocka_unit_test(test_unsorted_overlapping_and_foreign_functions),
		cmocka_unit_test(test_terminator),
		cmocka_unit_test(test_unusable_cies),
		cmocka_unit_test(test_undescribed_restorer),
		cmocka_unit_test(test_undescribed_root),
		cmocka_unit_test(test_refused_ranges),
		cmocka_unit_test(test_more_rules_than_a_row_can_name),
		cmocka_unit_test(test_find_eh_frame),
		cmocka_unit_test(test_damaged_sections),
		cmocka_unit_test(test_check_refuses_damaged_tables),
		cmocka_unit_test(test_fuzz_corpus),
		cmocka_unit_test(test_oracle_libc),
		cmocka_unit_test(test_oracle_loader),
		cmocka_unit_test(test_oracle_libstdcxx),
		cmocka_unit_test(test_oracle_libcrypto),
		cmocka_unit_test(test_oracle_python),
		cmocka_unit_test(test_oracle_node),
		cmocka_unit_test(test_oracle_self),
		cmocka_unit_test(test_oracle_rust),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
