/* Frames that are found by reading code: those of this program, whose unwind information says the
 * same; code that was made to have one property; and bytes that are no code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "injector/unwind/frame_code.h"
#include "injector/unwind/unwind_builder.h"
#include "injector/unwind/unwind_compile.h"
#include "injector/unwind/unwind_fill.h"

/* ------------------------------------------------------------------ this program */

struct program {
	const uint8_t *image;
	uint32_t bytes, text_start, text_end;
	uint64_t header, header_bytes;
	uint32_t pointers[4096]; /* into the code, in its data */
	size_t pointer_count;
};

static void note_pointers(struct program *program, const uint64_t *words, size_t count)
{
	const uint64_t base = (uint64_t)(uintptr_t)program->image;

	for (size_t i = 0; i < count && program->pointer_count < 4096; i++)
		if (words[i] >= base + program->text_start && words[i] < base + program->text_end)
			program->pointers[program->pointer_count++] = (uint32_t)(words[i] - base);
}

static int find_program(struct dl_phdr_info *info, size_t bytes, void *context)
{
	struct program *program = context;

	(void)bytes;
	program->image = (const uint8_t *)info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];

		if (phdr->p_type == PT_LOAD && !(phdr->p_flags & PF_W))
			program->bytes = (uint32_t)(phdr->p_vaddr + phdr->p_memsz);
		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_X) {
			program->text_start = (uint32_t)phdr->p_vaddr;
			program->text_end = (uint32_t)(phdr->p_vaddr + phdr->p_memsz);
		}
		if (phdr->p_type == PT_GNU_EH_FRAME) {
			program->header = phdr->p_vaddr;
			program->header_bytes = phdr->p_memsz;
		}
		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_W)
			note_pointers(program,
				      (const uint64_t *)(const void *)(program->image +
								       (phdr->p_vaddr + 7) / 8 * 8),
				      (phdr->p_memsz - 8) / 8);
	}
	return 1; /* the first one only */
}

static struct limpet_unwind_table *described_table(const struct program *program)
{
	const uint64_t base = (uint64_t)(uintptr_t)program->image;
	struct limpet_unwind_input input = {.start = base, .end = base + program->bytes};
	void *table;
	size_t bytes;

	assert_int_equal(limpet_unwind_find_eh_frame(program->image + program->header,
						     program->header_bytes, base + program->header,
						     &input.eh_frame_address),
			 0);
	input.eh_frame = program->image + (input.eh_frame_address - base);
	input.eh_frame_bytes = base + program->bytes - input.eh_frame_address;
	input.data_base = base + program->header;
	assert_int_equal(limpet_unwind_compile(&input, &table, &bytes, NULL), 0);
	return table;
}

/* The frame pointer is where both say; one that was popped is in its register, too. */
static bool same_fp(const struct limpet_unwind_rule *read, const struct limpet_unwind_rule *told)
{
	return read->fp != LIMPET_FP_CFA ||
	       (told->fp == LIMPET_FP_CFA && read->fp_offset == told->fp_offset);
}

static void test_this_program(void **state)
{
	static struct program program;
	struct limpet_frame_range text;
	struct limpet_frame_code code = {.holes = &text, .hole_count = 1};
	struct limpet_unwind_table *told;
	struct limpet_frame_rows rows;
	uint64_t same = 0, described = 0;
	uint32_t start;
	size_t at = 0;

	(void)state;
	dl_iterate_phdr(find_program, &program);
	told = described_table(&program);
	text = (struct limpet_frame_range){program.text_start, program.text_end};
	start = (uint32_t)((uintptr_t)test_this_program - (uintptr_t)program.image);
	code.image = program.image;
	code.bytes = program.bytes;
	code.starts = &start;
	code.start_count = 1;
	code.guesses = program.pointers;
	code.guess_count = program.pointer_count;
	assert_int_equal(limpet_frame_code_read(&code, &rows), 0);
	for (uint32_t offset = program.text_start; offset < program.text_end; offset++) {
		const struct limpet_unwind_rule *rule = limpet_unwind_table_find(told, offset);
		const struct limpet_frame_row *row;

		while (at + 1 < rows.count && rows.list[at + 1].offset <= offset)
			at++;
		row = &rows.list[at];
		described += rule->cfa == LIMPET_CFA_SP;
		if (offset < row->offset || row->rule.cfa == LIMPET_CFA_NONE ||
		    row->rule.cfa != rule->cfa)
			continue;
		if (row->rule.cfa_offset != rule->cfa_offset || !same_fp(&row->rule, rule))
			fail_msg("at %#x: CFA %d, frame pointer %d %d; it is %d, %d %d", offset,
				 row->rule.cfa_offset, row->rule.fp, row->rule.fp_offset,
				 rule->cfa_offset, rule->fp, rule->fp_offset);
		same++;
	}
	print_message("%lu of %lu bytes of code, %u functions, %u unclear\n", (unsigned long)same,
		      (unsigned long)described, rows.functions, rows.functions_unclear);
	assert_true(same * 10 > described * 8);
	free(rows.list);
	free(told);
}

/* ------------------------------------------------------------------ code that was made */

static struct limpet_frame_rows read_bytes(const uint8_t *bytes, uint32_t count)
{
	static const uint32_t start;
	const struct limpet_frame_range hole = {0, count};
	const struct limpet_frame_code code = {.image = bytes,
					       .bytes = count,
					       .holes = &hole,
					       .hole_count = 1,
					       .starts = &start,
					       .start_count = 1};
	struct limpet_frame_rows rows;

	assert_int_equal(limpet_frame_code_read(&code, &rows), 0);
	return rows;
}

/* The rule at an offset. */
static struct limpet_unwind_rule rule_at(const struct limpet_frame_rows *rows, uint32_t offset)
{
	struct limpet_unwind_rule rule = {.cfa = LIMPET_CFA_NONE};

	for (size_t i = 0; i < rows->count && rows->list[i].offset <= offset; i++)
		rule = rows->list[i].rule;
	return rule;
}

static void test_a_plain_frame(void **state)
{
	/* push %rbp; push %rbx; sub $24, %rsp; call *%rax; add $24, %rsp; pop %rbx; pop %rbp; ret
	 */
	static const uint8_t bytes[] = {0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0xff, 0xd0,
					0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3};
	struct limpet_frame_rows rows = read_bytes(bytes, sizeof(bytes));
	const struct limpet_unwind_rule call = rule_at(&rows, 6), end = rule_at(&rows, 14);

	(void)state;
	assert_int_equal(call.cfa, LIMPET_CFA_SP);
	assert_int_equal(call.cfa_offset, 48);
	assert_int_equal(call.fp, LIMPET_FP_CFA);
	assert_int_equal(call.fp_offset, -16);
	assert_int_equal(end.cfa_offset, 8);
	assert_int_equal(end.fp, LIMPET_FP_SAME);
	free(rows.list);
}

static void test_a_frame_of_unknown_size(void **state)
{
	/* push %rbp; mov %rsp, %rbp; sub %rdi, %rsp; call *%rax; leave; ret */
	static const uint8_t bytes[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x29,
					0xfc, 0xff, 0xd0, 0xc9, 0xc3};
	struct limpet_frame_rows rows = read_bytes(bytes, sizeof(bytes));
	const struct limpet_unwind_rule call = rule_at(&rows, 7), end = rule_at(&rows, 10);

	(void)state;
	assert_int_equal(call.cfa, LIMPET_CFA_FP);
	assert_int_equal(call.cfa_offset, 16);
	assert_int_equal(end.cfa, LIMPET_CFA_SP);
	assert_int_equal(end.cfa_offset, 8);
	free(rows.list);
}

static void test_paths_that_contradict(void **state)
{
	/* test %edi, %edi; je 1f; push %rbx; 1: ret */
	static const uint8_t bytes[] = {0x85, 0xff, 0x74, 0x01, 0x53, 0xc3};
	/* and one that returns with what it has pushed */
	static const uint8_t pushed[] = {0x53, 0x90, 0xc3};
	struct limpet_frame_rows rows = read_bytes(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(rule_at(&rows, 0).cfa, LIMPET_CFA_NONE);
	assert_int_equal(rows.functions_unclear, 1);
	free(rows.list);
	rows = read_bytes(pushed, sizeof(pushed));
	assert_int_equal(rule_at(&rows, 1).cfa, LIMPET_CFA_NONE);
	free(rows.list);
}

static void test_a_call_that_never_returns(void **state)
{
	/* test %edi, %edi; je 1f; push %rbx; call *%rax; 1: ret */
	static const uint8_t bytes[] = {0x85, 0xff, 0x74, 0x03, 0x53, 0xff, 0xd0, 0xc3};
	struct limpet_frame_rows rows = read_bytes(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(rule_at(&rows, 5).cfa_offset, 16);
	assert_int_equal(rule_at(&rows, 7).cfa_offset, 8);
	free(rows.list);
}

/* A thread's first function takes the return address off its stack (musl's clone). */
static void test_a_root_has_no_row(void **state)
{
	/* xor %ebp, %ebp; pop %rdi; call *%r9; hlt */
	static const uint8_t bytes[] = {0x31, 0xed, 0x5f, 0x41, 0xff, 0xd1, 0xf4};
	struct limpet_frame_rows rows = read_bytes(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(rule_at(&rows, 3).cfa, LIMPET_CFA_NONE);
	free(rows.list);
}

/* ------------------------------------------------------------------ what is no code */

static void test_any_bytes(void **state)
{
	static uint8_t bytes[4096];
	uint32_t starts[64];
	const struct limpet_frame_range holes[] = {{16, 1000}, {1003, 4000}};

	(void)state;
	srandom(4711);
	for (unsigned round = 0; round < 300; round++) {
		struct limpet_frame_code code = {.image = bytes,
						 .bytes = sizeof(bytes),
						 .holes = holes,
						 .hole_count = 2,
						 .starts = starts,
						 .start_count = 64,
						 .guesses = starts,
						 .guess_count = 64};
		struct limpet_frame_rows rows;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)(random() >> 4);
		/* More of what is followed. */
		for (size_t i = 0; i < sizeof(bytes); i += 7)
			bytes[i] = "\x55\x5d\x53\x5b\xc3\xe8\xe9\x74\xc9\x48"[random() % 10];
		for (size_t i = 0; i < 64; i++)
			starts[i] = (uint32_t)random() % 5000;
		assert_int_equal(limpet_frame_code_read(&code, &rows), 0);
		for (size_t i = 0; i < rows.count; i++) {
			assert_true(rows.list[i].offset >= 16 && rows.list[i].offset <= 4000 + 15);
			assert_true(!i || rows.list[i].offset > rows.list[i - 1].offset);
		}
		free(rows.list);
	}
}

/* ------------------------------------------------------------------ with what was described */

static void test_rows_fill_holes_only(void **state)
{
	static const struct limpet_unwind_rule known = {.cfa = LIMPET_CFA_SP, .cfa_offset = 16},
					       none = {.cfa = LIMPET_CFA_NONE},
					       read = {.cfa = LIMPET_CFA_SP, .cfa_offset = 8};
	struct limpet_frame_row list[] = {{100, read}, {700, none}, {900, read}};
	const struct limpet_frame_rows rows = {.list = list, .count = 3};
	struct limpet_unwind_builder *builder;
	struct limpet_frame_range *holes;
	struct limpet_unwind_table *table;
	void *first, *second;
	size_t bytes, count;

	(void)state;
	assert_int_equal(limpet_unwind_builder_new(1000, &builder), 0);
	limpet_unwind_builder_add_row(builder, 0, LIMPET_UNWIND_RULE_NONE);
	limpet_unwind_builder_add_row(builder, 300, limpet_unwind_builder_intern(builder, &known));
	limpet_unwind_builder_add_row(builder, 500, LIMPET_UNWIND_RULE_NONE);
	assert_int_equal(limpet_unwind_builder_build(builder, &first, &bytes), 0);
	limpet_unwind_builder_free(builder);
	assert_int_equal(limpet_unwind_holes(first, 50, 990, &holes, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(holes[0].start, 50);
	assert_int_equal(holes[0].end, 300);
	assert_int_equal(holes[1].start, 500);
	assert_int_equal(holes[1].end, 990);
	assert_int_equal(limpet_unwind_fill(first, &rows, &second, &bytes), 0);
	table = second;
	assert_int_equal(limpet_unwind_table_find(table, 99)->cfa, LIMPET_CFA_NONE);
	assert_int_equal(limpet_unwind_table_find(table, 100)->cfa_offset, 8);
	assert_int_equal(limpet_unwind_table_find(table, 300)->cfa_offset, 16);
	assert_int_equal(limpet_unwind_table_find(table, 500)->cfa_offset, 8);
	assert_int_equal(limpet_unwind_table_find(table, 700)->cfa, LIMPET_CFA_NONE);
	assert_int_equal(limpet_unwind_table_find(table, 999)->cfa_offset, 8);
	free(holes);
	free(first);
	free(second);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_program),
		cmocka_unit_test(test_a_plain_frame),
		cmocka_unit_test(test_a_frame_of_unknown_size),
		cmocka_unit_test(test_paths_that_contradict),
		cmocka_unit_test(test_a_call_that_never_returns),
		cmocka_unit_test(test_a_root_has_no_row),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_rows_fill_holes_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
