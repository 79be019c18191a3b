#include "injector/unwind/cfi_reader.h"

#include <dwarf.h>

uint64_t limpet_cfi_read_fixed(struct limpet_cfi_reader *reader, unsigned bytes)
{
	uint64_t value = 0;

	if (reader->bad || (size_t)(reader->end - reader->at) < bytes) {
		reader->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)reader->at[i] << (8 * i);
	reader->at += bytes;
	reader->address += bytes;
	return value;
}

int64_t limpet_cfi_read_signed(struct limpet_cfi_reader *reader, unsigned bytes)
{
	unsigned shift = 64 - 8 * bytes;

	return (int64_t)(limpet_cfi_read_fixed(reader, bytes) << shift) >> shift;
}

static uint64_t read_leb(struct limpet_cfi_reader *reader, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (!reader->bad && reader->at < reader->end) {
		uint8_t byte = *reader->at++;

		reader->address++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (is_signed && (byte & 0x40) && shift < 64)
			value |= ~(uint64_t)0 << shift;
		return value;
	}
	reader->bad = true;
	return 0;
}

uint64_t limpet_cfi_read_uleb(struct limpet_cfi_reader *reader)
{
	return read_leb(reader, false);
}

int64_t limpet_cfi_read_sleb(struct limpet_cfi_reader *reader)
{
	return (int64_t)read_leb(reader, true);
}

void limpet_cfi_skip(struct limpet_cfi_reader *reader, uint64_t bytes)
{
	if (reader->bad || (uint64_t)(reader->end - reader->at) < bytes) {
		reader->bad = true;
		return;
	}
	reader->at += bytes;
	reader->address += bytes;
}

struct limpet_cfi_reader limpet_cfi_cut(struct limpet_cfi_reader *reader, uint64_t bytes)
{
	struct limpet_cfi_reader part = *reader;

	limpet_cfi_skip(reader, bytes);
	part.bad = reader->bad;
	part.end = reader->bad ? part.at : reader->at;
	return part;
}

bool limpet_cfi_read_pointer(struct limpet_cfi_reader *reader, uint8_t encoding,
			     const struct limpet_cfi_bases *bases, uint64_t *ret_address)
{
	uint64_t base, value;

	if (encoding == DW_EH_PE_omit)
		return false;
	if (encoding == DW_EH_PE_aligned)
		limpet_cfi_skip(reader, -reader->address & 7);
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_aligned:
		base = bases->bias;
		break;
	case DW_EH_PE_pcrel:
		base = reader->address;
		break;
	case DW_EH_PE_textrel:
		base = bases->text;
		break;
	case DW_EH_PE_datarel:
		base = bases->data;
		break;
	default:
		reader->bad = true;
		return false;
	}
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		value = limpet_cfi_read_fixed(reader, 8);
		break;
	case DW_EH_PE_uleb128:
		value = limpet_cfi_read_uleb(reader);
		break;
	case DW_EH_PE_udata2:
		value = limpet_cfi_read_fixed(reader, 2);
		break;
	case DW_EH_PE_udata4:
		value = limpet_cfi_read_fixed(reader, 4);
		break;
	case DW_EH_PE_sleb128:
		value = (uint64_t)limpet_cfi_read_sleb(reader);
		break;
	case DW_EH_PE_sdata2:
		value = (uint64_t)limpet_cfi_read_signed(reader, 2);
		break;
	case DW_EH_PE_sdata4:
		value = (uint64_t)limpet_cfi_read_signed(reader, 4);
		break;
	default:
		reader->bad = true;
		return false;
	}
	/* A stored 0 is null whatever it is relative to: the linker's mark for dropped code. */
	if (reader->bad || value == 0 || (encoding & DW_EH_PE_indirect))
		return false;
	if (base == 0 && (encoding & 0x70) != DW_EH_PE_absptr && encoding != DW_EH_PE_aligned)
		return false;
	*ret_address = base + value;
	return true;
}
