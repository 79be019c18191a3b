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

/* What the pointer is relative to; false: an unknown encoding. */
static bool find_base(const struct limpet_cfi_reader *reader, uint8_t encoding,
		      const struct limpet_cfi_bases *bases, uint64_t *ret_base)
{
	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_aligned:
		*ret_base = bases->bias;
		return true;
	case DW_EH_PE_pcrel:
		*ret_base = reader->address;
		return true;
	case DW_EH_PE_textrel:
		*ret_base = bases->text;
		return true;
	case DW_EH_PE_datarel:
		*ret_base = bases->data;
		return true;
	default:
		return false;
	}
}

/* The number as it is stored; marks the reader bad if its form is unknown. */
static uint64_t read_encoded(struct limpet_cfi_reader *reader, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return limpet_cfi_read_fixed(reader, 8);
	case DW_EH_PE_uleb128:
		return limpet_cfi_read_uleb(reader);
	case DW_EH_PE_udata2:
		return limpet_cfi_read_fixed(reader, 2);
	case DW_EH_PE_udata4:
		return limpet_cfi_read_fixed(reader, 4);
	case DW_EH_PE_sleb128:
		return (uint64_t)limpet_cfi_read_sleb(reader);
	case DW_EH_PE_sdata2:
		return (uint64_t)limpet_cfi_read_signed(reader, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)limpet_cfi_read_signed(reader, 4);
	default:
		reader->bad = true;
		return 0;
	}
}

bool limpet_cfi_read_pointer(struct limpet_cfi_reader *reader, uint8_t encoding,
			     const struct limpet_cfi_bases *bases, uint64_t *ret_address)
{
	uint64_t base, value;

	if (encoding == DW_EH_PE_omit)
		return false;
	if (encoding == DW_EH_PE_aligned)
		limpet_cfi_skip(reader, -reader->address & 7);
	if (!find_base(reader, encoding, bases, &base)) {
		reader->bad = true;
		return false;
	}
	value = read_encoded(reader, encoding);
	/* A stored 0 is null, whatever it is relative to: so linkers mark dropped code. */
	if (reader->bad || value == 0 || (encoding & DW_EH_PE_indirect))
		return false;
	if (base == 0 && (encoding & 0x70) != DW_EH_PE_absptr && encoding != DW_EH_PE_aligned)
		return false;
	*ret_address = base + value;
	return true;
}
