/* The unwind-table compiler against hand-made sections: which functions there are, and what becomes
 * of those that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test/unit/eh_frame_fixture.h"
#include "test/unit/unwind_check.h"

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
		const char *name;
		uint8_t encoding;
		unsigned bytes;
		uint64_t base;
	} cases[] = {
		{"absptr", DW_EH_PE_absptr, 8, 0x1000},
		{"udata4", DW_EH_PE_udata4, 4, 0x1000},
		{"sdata8", DW_EH_PE_sdata8, 8, 0x1000},
		{"pcrel, sdata4", DW_EH_PE_pcrel | DW_EH_PE_sdata4, 4, 0},
		{"pcrel, udata8", DW_EH_PE_pcrel | DW_EH_PE_udata8, 8, 0},
		{"pcrel, absptr", DW_EH_PE_pcrel | DW_EH_PE_absptr, 8, 0},
		{"textrel, udata2", DW_EH_PE_textrel | DW_EH_PE_udata2, 2, TEXT},
		{"datarel, sdata4", DW_EH_PE_datarel | DW_EH_PE_sdata4, 4, 0x60000},
	};

	const struct limpet_unwind_rule described = SP(48), none = NONE;

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
		start = begin_entry(&section, !(i & 1));
		put(&section, section.count - section.cie, 4);
		put(&section,
		    TEXT + 0x80 - (cases[i].base ? cases[i].base : SECTION + section.count),
		    cases[i].bytes);
		put(&section, 0x10, cases[i].bytes);
		put(&section, 3, 1); /* augmentation data: not to be run */
		put_bytes(&section, "\xff\xff\xff", 3);
		put_bytes(&section, (uint8_t[]){DW_CFA_def_cfa_offset, 48}, 2);
		end_entry(&section, start);
		input.eh_frame_bytes = section.count;
		assert_int_equal(limpet_unwind_compile(&input, &compiled.table, &compiled.bytes,
						       &compiled.stats),
				 0);
		for (uint64_t at = 0x7f; at <= 0x90; at++) {
			const struct limpet_unwind_rule *rule = rule_at(&compiled, TEXT + at);
			bool within = at >= 0x80 && at < 0x90;

			if (memcmp(rule, within ? &described : &none, sizeof(*rule)) != 0)
				fail_msg("%s: at %#x cfa %u, offset %d", cases[i].name,
					 (unsigned)at, rule->cfa, rule->cfa_offset);
		}
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
	assert_int_equal(unwind_check(table, bytes), 0);
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
	assert_int_equal(unwind_check(table, table_bytes), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_gives_an_empty_table),
		cmocka_unit_test(test_ordinary_function_and_its_gaps),
		cmocka_unit_test(test_unreadable_end_spoils_only_what_follows),
		cmocka_unit_test(test_pointer_encodings),
		cmocka_unit_test(test_unsorted_overlapping_and_foreign_functions),
		cmocka_unit_test(test_terminator),
		cmocka_unit_test(test_unusable_cies),
		cmocka_unit_test(test_refused_ranges),
		cmocka_unit_test(test_more_rules_than_a_row_can_name),
		cmocka_unit_test(test_find_eh_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
