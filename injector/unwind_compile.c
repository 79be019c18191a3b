#include "injector/unwind_compile.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/unwind_table.h"
#include "injector/cfi.h"

enum { MIN_BUCKET_SHIFT = 8, MAX_BUCKET_SHIFT = 16, RULE_HASH_START = 1024 };

/* A function that will be in the table; its program is a window of the input. */
struct function {
	uint64_t start, end;
	uint32_t cie;
	uint32_t program, program_bytes;
	uint32_t order; /* in the section: makes the sort a total one */
};

struct raw_row {
	uint32_t offset;
	uint16_t rule;
};

struct compiler {
	const struct limpet_unwind_input *input;
	struct limpet_cfi_bases bases;
	struct limpet_unwind_stats stats;

	struct limpet_cfi_cie *cies;
	size_t cie_count, cie_room;
	struct function *functions;
	size_t function_count, function_room;
	struct raw_row *rows;
	size_t row_count, row_room;
	struct limpet_unwind_rule *rules;
	size_t rule_count, rule_room;
	uint32_t *rule_hash; /* rule number + 1, 0 free; a power of 2 */
	size_t rule_hash_room;
	int failed; /* -ENOMEM, sticks */
};

static bool grow(void *list, size_t count, size_t *room, size_t bytes)
{
	void **at = list, *grown;
	size_t more = *room ? *room * 2 : 256;

	if (count < *room)
		return true;
	grown = reallocarray(*at, more, bytes);
	if (!grown)
		return false;
	*at = grown;
	*room = more;
	return true;
}

/* ------------------------------------------------------------------ rules and rows */

static uint32_t hash_rule(const struct limpet_unwind_rule *rule)
{
	uint64_t words[2];

	_Static_assert(sizeof(words) == sizeof(*rule), "a rule is two words");
	memcpy(words, rule, sizeof(words));
	words[0] = (words[0] ^ words[1] * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(words[0] >> 32);
}

static void hash_insert(struct compiler *compiler, uint32_t number)
{
	size_t mask = compiler->rule_hash_room - 1;
	size_t at = hash_rule(&compiler->rules[number]) & mask;

	while (compiler->rule_hash[at])
		at = (at + 1) & mask;
	compiler->rule_hash[at] = number + 1;
}

static bool hash_grow(struct compiler *compiler)
{
	size_t room = compiler->rule_hash_room ? compiler->rule_hash_room * 2 : RULE_HASH_START;
	uint32_t *hash = calloc(room, sizeof(*hash));

	if (!hash)
		return false;
	free(compiler->rule_hash);
	compiler->rule_hash = hash;
	compiler->rule_hash_room = room;
	for (size_t i = 0; i < compiler->rule_count; i++)
		hash_insert(compiler, (uint32_t)i);
	return true;
}

/* The number of a rule, a new one if need be. More distinct rules than a row can name are thousands
 * of times what real modules have; those over the limit become unknown. */
static uint16_t intern_rule(struct compiler *compiler, const struct limpet_unwind_rule *rule)
{
	size_t mask = compiler->rule_hash_room - 1;
	size_t at = hash_rule(rule) & mask;

	for (; compiler->rule_hash[at]; at = (at + 1) & mask) {
		uint32_t number = compiler->rule_hash[at] - 1;

		if (memcmp(&compiler->rules[number], rule, sizeof(*rule)) == 0)
			return (uint16_t)number;
	}
	if (compiler->rule_count == LIMPET_UNWIND_MAX_RULES)
		return LIMPET_UNWIND_RULE_UNKNOWN;
	if (!grow(&compiler->rules, compiler->rule_count, &compiler->rule_room, sizeof(*rule)) ||
	    ((compiler->rule_count + 1) * 2 > compiler->rule_hash_room && !hash_grow(compiler))) {
		compiler->failed = -ENOMEM;
		return LIMPET_UNWIND_RULE_UNKNOWN;
	}
	compiler->rules[compiler->rule_count] = *rule;
	hash_insert(compiler, (uint32_t)compiler->rule_count);
	return (uint16_t)compiler->rule_count++;
}

/* Rows come in ascending order. One at the place of the last replaces it. */
static void add_row(struct compiler *compiler, uint64_t pc, uint16_t rule)
{
	uint32_t offset = (uint32_t)(pc - compiler->input->start);

	if (compiler->row_count && compiler->rows[compiler->row_count - 1].offset == offset)
		compiler->row_count--;
	if (compiler->row_count && compiler->rows[compiler->row_count - 1].rule == rule)
		return;
	if (!grow(&compiler->rows, compiler->row_count, &compiler->row_room,
		  sizeof(*compiler->rows))) {
		compiler->failed = -ENOMEM;
		return;
	}
	compiler->rows[compiler->row_count++] = (struct raw_row){offset, rule};
}

/* ------------------------------------------------------------------ the section */

static struct limpet_cfi_cie *find_cie(struct compiler *compiler, size_t offset)
{
	size_t first = 0, count = compiler->cie_count;

	/* They are noted in the order of the section. The last one is mostly the one. */
	if (count && compiler->cies[count - 1].offset == offset)
		return &compiler->cies[count - 1];
	while (count) {
		size_t half = count / 2;

		if (compiler->cies[first + half].offset < offset) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (first < compiler->cie_count && compiler->cies[first].offset == offset)
		return &compiler->cies[first];
	return NULL;
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
	if (!grow(&compiler->functions, compiler->function_count, &compiler->function_room,
		  sizeof(*compiler->functions))) {
		compiler->failed = -ENOMEM;
		return;
	}
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

/* Notes every function and CIE. A length that runs past the end is the end. */
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
		/* Other than in .debug_frame, the id has 4 bytes even after a 64-bit length. */
		id_offset = (size_t)(body.at - input->eh_frame);
		id = (uint32_t)limpet_cfi_read_fixed(&body, 4);
		if (body.bad)
			break;
		if (id != 0) {
			note_fde(compiler,
				 id <= id_offset ? find_cie(compiler, id_offset - id) : NULL, body);
			continue;
		}
		if (!grow(&compiler->cies, compiler->cie_count, &compiler->cie_room,
			  sizeof(*compiler->cies))) {
			compiler->failed = -ENOMEM;
			break;
		}
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

/* Linkers mostly keep the order of the text: then there is nothing to sort. */
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
	emission->row_rule = intern_rule(emission->compiler, rule);
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

/* A restorer that nobody described. The kernel has pushed its first byte's address as return
 * address, which is looked up minus one: the row begins a byte early. Its frame is the kernel's
 * struct rt_sigframe, of which the return address is popped: a ucontext at rsp, with rbp, rsp and
 * rip at 120, 160 and 168. */
static void emit_restorers(struct compiler *compiler, uint64_t start, uint64_t end)
{
	static const struct limpet_unwind_rule restorer = {
		.cfa = LIMPET_CFA_SP_DEREF,
		.fp = LIMPET_FP_SP,
		.ra = LIMPET_RA_SP,
		.flags = LIMPET_RULE_SIGNAL,
		.cfa_offset = 160,
		.fp_offset = 120,
		.extra = 168,
	};
	static const uint8_t call[] = {0x0f, 0, 0, 0, 0x0f, 0x05}; /* 15; syscall */
	const struct limpet_unwind_input *input = compiler->input;
	const uint8_t *code, *code_end, *at;
	uint64_t last = start; /* end of the restorer before: rows ascend */

	if (!input->code || start < input->code_address ||
	    start - input->code_address >= input->code_bytes)
		return;
	code = input->code + (start - input->code_address);
	code_end = input->code + input->code_bytes;
	if (end - start < (uint64_t)(code_end - code))
		code_end = code + (end - start);
	at = code;
	while ((at = memmem(at, (size_t)(code_end - at), call, sizeof(call))) != NULL) {
		size_t before = at - code >= 3 && memcmp(at - 3, "\x48\xc7\xc0", 3) == 0 ? 3
				: at - code >= 1 && at[-1] == 0xb8                       ? 1
											 : 0;
		uint64_t pc = start + (uint64_t)(at - code) - before;

		at += sizeof(call);
		if (before == 0 || pc <= last)
			continue;
		last = start + (uint64_t)(at - code);
		add_row(compiler, pc - 1, intern_rule(compiler, &restorer));
		add_row(compiler, last, LIMPET_UNWIND_RULE_NONE);
	}
}

static void emit_gap(struct compiler *compiler, uint64_t start, uint64_t end)
{
	if (start >= end)
		return;
	add_row(compiler, start, LIMPET_UNWIND_RULE_NONE);
	emit_restorers(compiler, start, end);
}

/* Of functions that overlap, the one that starts last holds from there on, as for an unwinder that
 * searches .eh_frame_hdr; of those that start together, the first in the section. */
static void emit_all(struct compiler *compiler)
{
	uint64_t cursor = compiler->input->start;

	for (size_t i = 0; i < compiler->function_count && !compiler->failed; i++) {
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

/* ------------------------------------------------------------------ the block */

static size_t align_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static void fill_rows(const struct compiler *compiler, const struct limpet_unwind_table *head,
		      uint32_t *index, struct limpet_unwind_row *rows)
{
	uint32_t bucket = 0;

	for (uint32_t i = 0; i < head->row_count; i++) {
		uint32_t offset = compiler->rows[i].offset;

		while (bucket <= offset >> head->bucket_shift)
			index[bucket++] = i;
		rows[i].low = (uint16_t)(offset & ((1u << head->bucket_shift) - 1));
		rows[i].rule = compiler->rows[i].rule;
		/* A row that begins its bucket is in it; one that does not leaves the bucket's
		 * start to the row before, which a look-up finds at index - 1. */
	}
	while (bucket <= head->bucket_count)
		index[bucket++] = head->row_count;
}

static int build_table(const struct compiler *compiler, void **ret_table, size_t *ret_bytes)
{
	uint64_t covered = compiler->input->end - compiler->input->start;
	struct limpet_unwind_table head = {
		.magic = LIMPET_UNWIND_MAGIC,
		.version = LIMPET_UNWIND_VERSION,
		.covered = (uint32_t)covered,
		.rule_count = (uint32_t)compiler->rule_count,
	};
	size_t rules_bytes = compiler->rule_count * sizeof(struct limpet_unwind_rule);
	size_t index_bytes, rows_bytes, bytes;
	unsigned shift = MIN_BUCKET_SHIFT;
	uint8_t *table;

	if (compiler->row_count > UINT32_MAX / sizeof(struct limpet_unwind_row) / 4)
		return -EFBIG;
	/* The index may cost half of what the rows do: then a bucket holds few rows wherever code
	 * is described at all. */
	while (shift < MAX_BUCKET_SHIFT && covered >> shift > compiler->row_count / 2)
		shift++;
	head.bucket_shift = (uint16_t)shift;
	head.bucket_count = (uint32_t)((covered + (1u << shift) - 1) >> shift);
	head.row_count = (uint32_t)compiler->row_count;
	index_bytes = align_up(((size_t)head.bucket_count + 1) * sizeof(uint32_t), 16);
	rows_bytes = align_up(compiler->row_count * sizeof(struct limpet_unwind_row), 16);
	bytes = align_up(sizeof(head) + index_bytes + rows_bytes + rules_bytes,
			 LIMPET_UNWIND_ALIGN);
	head.bytes = (uint32_t)bytes;
	head.index_offset = sizeof(head);
	head.rows_offset = (uint32_t)(head.index_offset + index_bytes);
	head.rules_offset = (uint32_t)(head.rows_offset + rows_bytes);

	table = calloc(1, bytes);
	if (!table)
		return -ENOMEM;
	memcpy(table, &head, sizeof(head));
	memcpy(table + head.rules_offset, compiler->rules, rules_bytes);
	fill_rows(compiler, &head, (uint32_t *)(void *)(table + head.index_offset),
		  (struct limpet_unwind_row *)(void *)(table + head.rows_offset));
	*ret_table = table;
	*ret_bytes = bytes;
	return 0;
}

int limpet_unwind_compile(const struct limpet_unwind_input *input, void **ret_table,
			  size_t *ret_bytes, struct limpet_unwind_stats *ret_stats)
{
	static const struct limpet_unwind_rule none = {.cfa = LIMPET_CFA_NONE};
	static const struct limpet_unwind_rule unknown = {.cfa = LIMPET_CFA_UNKNOWN};
	struct compiler compiler = {
		.input = input,
		.bases = {input->bias, input->text_base, input->data_base},
	};
	int r;

	if (input->start > input->end)
		return -EINVAL;
	if (input->end - input->start > UINT32_MAX - (1u << MAX_BUCKET_SHIFT) ||
	    input->eh_frame_bytes > UINT32_MAX)
		return -EFBIG;
	if (!hash_grow(&compiler))
		return -ENOMEM;
	intern_rule(&compiler, &none);
	intern_rule(&compiler, &unknown);
	if (!compiler.failed)
		read_section(&compiler);
	if (!compiler.failed) {
		sort_functions(&compiler);
		emit_all(&compiler);
	}
	r = compiler.failed;
	if (r == 0)
		r = build_table(&compiler, ret_table, ret_bytes);
	if (r == 0 && ret_stats) {
		compiler.stats.rows = (uint32_t)compiler.row_count;
		compiler.stats.rules = (uint32_t)compiler.rule_count;
		*ret_stats = compiler.stats;
	}
	free(compiler.cies);
	free(compiler.functions);
	free(compiler.rows);
	free(compiler.rules);
	free(compiler.rule_hash);
	return r;
}

/* ------------------------------------------------------------------ header and check */

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

int limpet_unwind_table_check(const void *bytes, size_t size)
{
	const struct limpet_unwind_table *head = bytes;
	const struct limpet_unwind_row *rows;
	const struct limpet_unwind_rule *rules;
	const uint32_t *index;
	uint64_t end;

	if (size < sizeof(*head) || head->magic != LIMPET_UNWIND_MAGIC ||
	    head->version != LIMPET_UNWIND_VERSION || head->bytes != size ||
	    head->bucket_shift < MIN_BUCKET_SHIFT || head->bucket_shift > MAX_BUCKET_SHIFT ||
	    head->bucket_count != ((uint64_t)head->covered + (1u << head->bucket_shift) - 1) >>
					  head->bucket_shift ||
	    head->rule_count < 2 || head->rule_count > LIMPET_UNWIND_MAX_RULES ||
	    (head->covered != 0) != (head->row_count != 0) ||
	    (head->index_offset | head->rows_offset | head->rules_offset) % 16 != 0)
		return -EBADMSG;
	end = head->index_offset + 4 * ((uint64_t)head->bucket_count + 1);
	if (head->index_offset < sizeof(*head) || end > head->rows_offset)
		return -EBADMSG;
	end = head->rows_offset + sizeof(*rows) * (uint64_t)head->row_count;
	if (end > head->rules_offset ||
	    head->rules_offset + sizeof(*rules) * (uint64_t)head->rule_count > size)
		return -EBADMSG;
	index = (const uint32_t *)((const uint8_t *)bytes + head->index_offset);
	rows = (const struct limpet_unwind_row *)((const uint8_t *)bytes + head->rows_offset);
	rules = (const struct limpet_unwind_rule *)((const uint8_t *)bytes + head->rules_offset);
	if (rules[0].cfa != LIMPET_CFA_NONE || rules[1].cfa != LIMPET_CFA_UNKNOWN ||
	    index[0] != 0 || index[head->bucket_count] != head->row_count ||
	    (head->row_count && rows[0].low != 0))
		return -EBADMSG;
	for (uint32_t bucket = 0; bucket < head->bucket_count; bucket++) {
		if (index[bucket] > index[bucket + 1] || index[bucket + 1] > head->row_count ||
		    (bucket == 0 && head->row_count && index[1] == 0))
			return -EBADMSG;
		for (uint32_t i = index[bucket]; i < index[bucket + 1]; i++)
			if (rows[i].rule >= head->rule_count ||
			    rows[i].low >> head->bucket_shift != 0 ||
			    (i > index[bucket] && rows[i].low <= rows[i - 1].low))
				return -EBADMSG;
	}
	return 0;
}
