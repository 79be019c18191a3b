#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dwarf.h>
#include <string.h>

#include "test/unit/eh_frame_fixture.h"
#include "test/unit/unwind_check.h"

void put(struct section *section, uint64_t value, unsigned bytes)
{
	assert_true(section->count + bytes <= sizeof(section->bytes));
	for (unsigned i = 0; i < bytes; i++)
		section->bytes[section->count++] = (uint8_t)(value >> (8 * i));
}

void put_bytes(struct section *section, const void *data, size_t bytes)
{
	assert_true(section->count + bytes <= sizeof(section->bytes));
	if (bytes)
		memcpy(section->bytes + section->count, data, bytes);
	section->count += bytes;
}

size_t begin_entry(struct section *section, bool wide)
{
	size_t start = section->count;

	put(section, 0xffffffff, wide ? 4 : 0);
	put(section, 0, wide ? 8 : 4);
	return start;
}

void end_entry(struct section *section, size_t start)
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

void put_cie(struct section *section, const char *augmentation, const void *data, size_t data_bytes,
	     bool wide)
{
	static const uint8_t program[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
	size_t start = begin_entry(section, wide);

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
	end_entry(section, start);
}

void put_plain_cie(struct section *section)
{
	static const uint8_t pcrel = DW_EH_PE_pcrel | DW_EH_PE_sdata4;

	put_cie(section, "zR", &pcrel, 1, false);
}

void put_fde(struct section *section, uint64_t pc, uint32_t bytes, const void *program,
	     size_t program_bytes)
{
	size_t start = begin_entry(section, false);

	put(section, section->count - section->cie, 4);
	put(section, pc - (SECTION + section->count), 4);
	put(section, bytes, 4);
	put(section, 0, 1);
	put_bytes(section, program, program_bytes);
	end_entry(section, start);
}

struct compiled compile(const struct section *section)
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
	assert_int_equal(unwind_check(compiled.table, compiled.bytes), 0);
	return compiled;
}

const struct limpet_unwind_rule *rule_at(const struct compiled *compiled, uint64_t pc)
{
	return limpet_unwind_table_find(compiled->table, (uint32_t)(pc - TEXT));
}

void assert_rule(const struct compiled *compiled, uint64_t pc, struct limpet_unwind_rule expected)
{
	const struct limpet_unwind_rule *rule = rule_at(compiled, pc);

	if (memcmp(rule, &expected, sizeof(expected)) != 0)
		fail_msg("pc %#lx: cfa %u fp %u ra %u flags %u offsets %d %d %d", (long)pc,
			 rule->cfa, rule->fp, rule->ra, rule->flags, rule->cfa_offset,
			 rule->fp_offset, rule->extra);
}
