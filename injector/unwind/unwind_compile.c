#include "injector/unwind/unwind_compile.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/unwind_table.h"
#include "injector/unwind/arch.h"
#include "injector/unwind/cfi.h"
#include "injector/unwind/unwind_builder.h"

/* Linkers merge equal CIEs: real modules have some tens. */
enum { FIRST_ITEMS = 256, MAX_CIES = 1 << 16 };

/* A function that will be in the table; its program is a window of the input. */
struct function {
	uint64_t start, end;
	uint32_t cie;
	uint32_t program, program_bytes;
	uint32_t order; /* index in the section: makes the order of the sort total */
};

struct compiler {
	const struct limpet_unwind_input *input;
	struct limpet_cfi_bases bases;
	struct limpet_unwind_stats stats;

	struct limpet_cfi_cie *cies;
	size_t cie_count, cie_capacity;
	struct function *functions;
	size_t function_count, function_capacity;
	struct limpet_unwind_builder *builder;
	size_t max_rows;
	int failed; /* -ENOMEM, -ENOSPC, -EFBIG or 0; sticky */
};

static uint16_t intern(struct compiler *compiler, const struct limpet_unwind_rule *rule)
{
	return limpet_unwind_builder_intern(compiler->builder, rule);
}

static void add_row(struct compiler *compiler, uint64_t pc, uint16_t rule)
{
	if (limpet_unwind_builder_rows(compiler->builder) > compiler->max_rows)
		compiler->failed = -ENOSPC;
	else
		limpet_unwind_builder_add_row(compiler->builder,
					      (uint32_t)(pc - compiler->input->start), rule);
}

/* ------------------------------------------------------------------ the section */

/* Makes room in `array` for one more element; `too_many` is the error if it would have more than
 * `most`. */
static bool reserve_one(struct compiler *compiler, void *array, size_t *capacity, size_t count,
			size_t item_bytes)
{
	int error = count == *capacity
			    ? limpet_reserve(array, capacity, count + FIRST_ITEMS, item_bytes)
			    : 0;

	if (error)
		compiler->failed = error;
	return !error;
}

/* What has no room left is not to get more of it. */
static bool is_full(struct compiler *compiler, size_t count, size_t capacity, size_t most,
		    int error)
{
	const bool full = count == capacity && count > most;

	if (full)
		compiler->failed = error;
	return full;
}

static struct limpet_cfi_cie *find_cie(struct compiler *compiler, size_t offset)
{
	size_t at, count = compiler->cie_count;

	/* CIEs are noted in the order of the section, and most functions use the last one. */
	if (count && compiler->cies[count - 1].offset == offset)
		return &compiler->cies[count - 1];
	/* cppcheck-suppress constStatement */
	at = LIMPET_PARTITION_POINT(i, count, compiler->cies[i].offset < offset);
	return at < count && compiler->cies[at].offset == offset ? &compiler->cies[at] : NULL;
}

static void note_fde(struct compiler *compiler, const struct limpet_cfi_cie *cie,
		     struct limpet_cfi_reader body)
{
	const struct limpet_unwind_input *input = compiler->input;
	struct limpet_cfi_fde fde;

	if (!cie || !cie->usable || !limpet_cfi_parse_fde(body, cie, &compiler->bases, &fde) ||
	    fde.start < input->start || fde.start >= input->end) {
		compiler->stats.functions_skipped++;
		return;
	}
	if (fde.end > input->end)
		fde.end = input->end;
	/* Each function has at least one row of its own, so there cannot be more functions than
	 * rows. */
	if (is_full(compiler, compiler->function_count, compiler->function_capacity,
		    compiler->max_rows, -ENOSPC) ||
	    !reserve_one(compiler, &compiler->functions, &compiler->function_capacity,
			 compiler->function_count, sizeof(*compiler->functions)))
		return;
	compiler->functions[compiler->function_count] = (struct function){
		.start = fde.start,
		.end = fde.end,
		.cie = (uint32_t)(cie - compiler->cies),
		.program = (uint32_t)(fde.program.at - input->eh_frame),
		.program_bytes = (uint32_t)(fde.program.end - fde.program.at),
		.order = (uint32_t)compiler->function_count,
	};
	compiler->function_count++;
}

/* Notes every function and CIE. A length that exceeds the section ends it. */
static void read_section(struct compiler *compiler)
{
	const struct limpet_unwind_input *input = compiler->input;
	struct limpet_cfi_reader section = {
		.at = input->eh_frame,
		.end = input->eh_frame + input->eh_frame_bytes,
		.address = input->eh_frame_address,
	};

	while (!section.bad && section.at < section.end && !compiler->failed) {
		size_t offset = (size_t)(section.at - input->eh_frame), id_offset;
		uint64_t length = limpet_cfi_read_fixed(&section, 4);
		struct limpet_cfi_reader body;
		uint32_t id;

		if (length == 0 && !section.bad && !input->eh_frame_whole)
			break;
		if (length == 0)
			continue;
		if (length == 0xffffffff)
			length = limpet_cfi_read_fixed(&section, 8);
		body = limpet_cfi_cut(&section, length);
		/* Unlike in .debug_frame, the id has 4 bytes even after a 64-bit length. */
		id_offset = (size_t)(body.at - input->eh_frame);
		id = (uint32_t)limpet_cfi_read_fixed(&body, 4);
		if (body.bad)
			break;
		if (id != 0) {
			note_fde(compiler,
				 id <= id_offset ? find_cie(compiler, id_offset - id) : NULL, body);
			continue;
		}
		if (is_full(compiler, compiler->cie_count, compiler->cie_capacity, MAX_CIES - 1,
			    -EFBIG) ||
		    !reserve_one(compiler, &compiler->cies, &compiler->cie_capacity,
				 compiler->cie_count, sizeof(*compiler->cies)))
			break;
		limpet_cfi_parse_cie(body, &compiler->bases, offset,
				     &compiler->cies[compiler->cie_count++]);
	}
}

/* ------------------------------------------------------------------ rows of the whole range */

static int compare_functions(const void *a, const void *b)
{
	const struct function *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Most linkers keep the order of the text: then there is nothing to sort. */
static void sort_functions(struct compiler *compiler)
{
	for (size_t i = 1; i < compiler->function_count; i++)
		if (compare_functions(&compiler->functions[i - 1], &compiler->functions[i]) > 0) {
			qsort(compiler->functions, compiler->function_count,
			      sizeof(*compiler->functions), compare_functions);
			return;
		}
}

struct emission {
	struct compiler *compiler;
	uint64_t end;
	uint64_t row_pc;
	uint16_t row_rule;
};

static void count_row(struct compiler *compiler, uint16_t rule, uint64_t bytes)
{
	if (rule == LIMPET_UNWIND_RULE_UNKNOWN) {
		compiler->stats.unknown_rows++;
		compiler->stats.unknown_bytes += bytes;
	} else {
		compiler->stats.described_bytes += bytes;
	}
}

static void emit_row(void *context, uint64_t pc, const struct limpet_unwind_rule *rule)
{
	struct emission *emission = context;

	if (pc >= emission->end)
		return;
	if (pc > emission->row_pc)
		count_row(emission->compiler, emission->row_rule, pc - emission->row_pc);
	emission->row_pc = pc;
	emission->row_rule = intern(emission->compiler, rule);
	add_row(emission->compiler, pc, emission->row_rule);
}

static void emit_function(struct compiler *compiler, const struct function *function, uint64_t end)
{
	const struct limpet_unwind_input *input = compiler->input;
	const uint8_t *program = input->eh_frame + function->program;
	struct emission emission = {
		.compiler = compiler,
		.end = end,
		.row_pc = function->start,
		.row_rule = LIMPET_UNWIND_RULE_UNKNOWN,
	};
	struct limpet_cfi_fde fde = {
		.start = function->start,
		.end = function->end,
		.program = {.at = program,
			    .end = program + function->program_bytes,
			    .address = input->eh_frame_address + function->program},
	};

	limpet_cfi_run(&compiler->cies[function->cie], &fde, &compiler->bases, emit_row, &emission);
	count_row(compiler, emission.row_rule, end - emission.row_pc);
	compiler->stats.functions++;
}

/* Adds rows for code without a description that can be recognized: signal restorers, and the call
 * of main. For a restorer the kernel has pushed the address of its first byte as return address.
 * Return addresses are looked up minus one, so the row begins one byte early. */
static void emit_undescribed(struct compiler *compiler, uint64_t start, uint64_t end)
{
	static const struct limpet_unwind_rule restorer_rule = {
		.cfa = LIMPET_CFA_SP_DEREF,
		.fp = LIMPET_FP_SP,
		.ra = LIMPET_RA_SP,
		.flags = LIMPET_RULE_SIGNAL,
		.cfa_offset = LIMPET_ARCH_UCONTEXT_SP,
		.fp_offset = LIMPET_ARCH_UCONTEXT_FP,
		.extra = LIMPET_ARCH_UCONTEXT_PC,
	};
	static const struct limpet_unwind_rule root_rule = {.cfa = LIMPET_CFA_END};
	const struct limpet_unwind_input *input = compiler->input;
	const uint8_t *code, *code_end, *restorer, *root = NULL;
	uint64_t last = start; /* end of the last find: rows ascend */
	size_t bytes = 0;

	if (!input->code || start < input->code_address ||
	    start - input->code_address >= input->code_bytes)
		return;
	code = input->code + (start - input->code_address);
	code_end = input->code + input->code_bytes;
	if (end - start < (uint64_t)(code_end - code))
		code_end = code + (end - start);
	restorer = limpet_arch_find_restorer(code, code_end, &bytes);
	if (input->exit_address)
		root = limpet_arch_find_exit_call(code, code_end, start, input->exit_address);
	while (restorer || root) {
		bool is_root = root && (!restorer || root < restorer);
		const uint8_t *at = is_root ? root : restorer;
		uint64_t pc = start + (uint64_t)(at - code);

		if (pc > last) {
			last = is_root ? pc : pc + bytes;
			add_row(compiler, pc - 1,
				intern(compiler, is_root ? &root_rule : &restorer_rule));
			if (last < end)
				add_row(compiler, last, LIMPET_UNWIND_RULE_NONE);
		}
		if (is_root)
			root = limpet_arch_find_exit_call(at + 1, code_end, pc + 1,
							  input->exit_address);
		else
			restorer = limpet_arch_find_restorer(at + bytes, code_end, &bytes);
	}
}

static void emit_gap(struct compiler *compiler, uint64_t start, uint64_t end)
{
	if (start >= end)
		return;
	add_row(compiler, start, LIMPET_UNWIND_RULE_NONE);
	emit_undescribed(compiler, start, end);
}

/* Where functions overlap, the one that starts last holds from its start on, as for an unwinder
 * that searches .eh_frame_hdr; of those that start at the same address, the first in the section.
 */
static void emit_all(struct compiler *compiler)
{
	uint64_t cursor = compiler->input->start;

	for (size_t i = 0; i < compiler->function_count && !compiler->failed &&
			   !limpet_unwind_builder_failed(compiler->builder);
	     i++) {
		const struct function *function = &compiler->functions[i];
		uint64_t end = function->end;
		size_t next = i + 1;

		for (; next < compiler->function_count &&
		       compiler->functions[next].start == function->start;
		     next++)
			compiler->stats.functions_skipped++;
		if (next < compiler->function_count && compiler->functions[next].start < end)
			end = compiler->functions[next].start;
		emit_gap(compiler, cursor, function->start);
		emit_function(compiler, function, end);
		cursor = end;
		i = next - 1;
	}
	emit_gap(compiler, cursor, compiler->input->end);
}

int limpet_unwind_compile(const struct limpet_unwind_input *input, void **ret_table,
			  size_t *ret_bytes, struct limpet_unwind_stats *ret_stats)
{
	struct compiler compiler = {
		.input = input,
		.bases = {input->bias, input->text_base, input->data_base},
	};
	int r;

	if (input->start > input->end)
		return -EINVAL;
	if (input->eh_frame_bytes > UINT32_MAX)
		return -EFBIG;
	r = limpet_unwind_builder_new(input->end - input->start, &compiler.builder);
	if (r < 0)
		return r;
	compiler.max_rows = input->max_table_bytes
				    ? input->max_table_bytes / sizeof(struct limpet_unwind_row)
				    : SIZE_MAX;
	read_section(&compiler);
	if (!compiler.failed) {
		sort_functions(&compiler);
		emit_all(&compiler);
	}
	r = compiler.failed ? compiler.failed
			    : limpet_unwind_builder_build(compiler.builder, ret_table, ret_bytes);
	if (r == 0 && ret_stats) {
		compiler.stats.rows = limpet_unwind_builder_rows(compiler.builder);
		compiler.stats.rules = limpet_unwind_builder_rules(compiler.builder);
		*ret_stats = compiler.stats;
	}
	free(compiler.cies);
	free(compiler.functions);
	limpet_unwind_builder_free(compiler.builder);
	return r;
}

/* ------------------------------------------------------------------ the header */

int limpet_unwind_find_eh_frame(const uint8_t *header, size_t header_bytes, uint64_t header_address,
				uint64_t *ret_eh_frame_address)
{
	struct limpet_cfi_reader reader = {
		.at = header,
		.end = header + header_bytes,
		.address = header_address,
	};
	const struct limpet_cfi_bases bases = {.data = header_address};
	uint64_t address;
	uint8_t version, encoding;

	version = (uint8_t)limpet_cfi_read_fixed(&reader, 1);
	encoding = (uint8_t)limpet_cfi_read_fixed(&reader, 1);
	limpet_cfi_skip(&reader, 2);
	if (reader.bad || version != 1)
		return -EBADMSG;
	if (encoding == DW_EH_PE_omit || (encoding & DW_EH_PE_indirect))
		return -ENOTSUP;
	if (!limpet_cfi_read_pointer(&reader, encoding, &bases, &address))
		return -EBADMSG;
	*ret_eh_frame_address = address;
	return 0;
}
