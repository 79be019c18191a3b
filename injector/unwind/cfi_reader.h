/* Bounded reads of DWARF's numbers and of .eh_frame's pointers. The bytes are hostile. */
#ifndef LIMPET_INJECTOR_UNWIND_CFI_READER_H
#define LIMPET_INJECTOR_UNWIND_CFI_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A window of the section. After its end, or after a malformed number, `bad` is set and every read
 * returns 0. `address` is the address of `at` in the target. */
struct limpet_cfi_reader {
	const uint8_t *at, *end;
	uint64_t address;
	bool bad;
};
uint64_t limpet_cfi_read_fixed(struct limpet_cfi_reader *reader, unsigned bytes); /* 1, 2, 4, 8 */
int64_t limpet_cfi_read_signed(struct limpet_cfi_reader *reader, unsigned bytes);
uint64_t limpet_cfi_read_uleb(struct limpet_cfi_reader *reader);
int64_t limpet_cfi_read_sleb(struct limpet_cfi_reader *reader);
void limpet_cfi_skip(struct limpet_cfi_reader *reader, uint64_t bytes);
/* Cuts off the next `bytes` bytes as a separate reader. */
struct limpet_cfi_reader limpet_cfi_cut(struct limpet_cfi_reader *reader, uint64_t bytes);

/* Bases of relative pointers; see struct limpet_unwind_input. */
struct limpet_cfi_bases {
	uint64_t bias, text, data;
};
/* Reads a pointer of a DW_EH_PE_* encoding. False if it is null, omitted, indirect or unreadable;
 * the reader then still advances past it, unless it is bad. */
bool limpet_cfi_read_pointer(struct limpet_cfi_reader *reader, uint8_t encoding,
			     const struct limpet_cfi_bases *bases, uint64_t *ret_address);

#endif
