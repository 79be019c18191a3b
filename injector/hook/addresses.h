/* Addresses of a small range, the thunks', wherever they stand in a piece of memory: at every byte,
 * mangled as a C library mangles what it keeps, and as distances in code.
 *
 * All but the low bytes of such an address are known. Blocks of bytes are compared with two of
 * these, at either parity, and only blocks that have them are looked at word by word. */
#ifndef LIMPET_INJECTOR_HOOK_ADDRESSES_H
#define LIMPET_INJECTOR_HOOK_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMPET_ADDRESSES_BLOCK 64u
/* Of the piece before, for what begins there and was not whole. */
#define LIMPET_ADDRESSES_KEPT 5u

enum limpet_address_kind {
	LIMPET_ADDRESS_WORD,     /* at any byte; the upper 16 bits of the word may be others */
	LIMPET_ADDRESS_MANGLED,  /* an aligned word */
	LIMPET_ADDRESS_DISTANCE, /* of an instruction, from its end */
};

struct limpet_addresses {
	uint64_t low, end; /* the range, 64 KiB at most */
	uint64_t guard;    /* what mangled words are mangled with */
	void (*found)(void *context, enum limpet_address_kind kind, uint64_t at, uint64_t value);
	void *context;
};

/* `memory` stands on a block's boundary and is a copy of what is at `address`, a page's beginning.
 * A block before it is the caller's: its last _KEPT bytes are those before `address`, or zeros. A
 * block behind it is readable; it is written over. `code`: distances, too. */
void limpet_addresses_find(const struct limpet_addresses *addresses, uint64_t address,
			   uint8_t *memory, size_t bytes, bool code);

#endif
