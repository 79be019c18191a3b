/* Finds addresses of a small range, that of the thunks, in a window of memory: at every byte,
 * mangled as a C library mangles stored addresses, and as displacements in code.
 *
 * All but the low bytes of such an address are known. Blocks of bytes are compared with two of
 * these, at either parity, and only blocks that contain them are examined word by word. */
#ifndef LIMPET_INJECTOR_HOOK_ADDRESSES_H
#define LIMPET_INJECTOR_HOOK_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMPET_ADDRESSES_BLOCK 64u
/* Bytes of the preceding window, for an address that begins there. */
#define LIMPET_ADDRESSES_KEPT 5u

enum limpet_address_kind {
	LIMPET_ADDRESS_WORD,     /* at any byte; the upper 16 bits of the word may differ */
	LIMPET_ADDRESS_MANGLED,  /* an aligned word */
	LIMPET_ADDRESS_DISTANCE, /* the displacement at the end of an instruction */
};

struct limpet_addresses {
	uint64_t low, end; /* the range, at most 64 KiB */
	uint64_t guard;    /* with which words are mangled */
	void (*found)(void *context, enum limpet_address_kind kind, uint64_t at, uint64_t value);
	void *context;
};

/* `memory` is aligned to a block and is a copy of what is at `address`, the start of a page. The
 * block before it belongs to the caller: its last _KEPT bytes are those before `address`, or zeros.
 * The block after it is readable, and is overwritten. `code`: find displacements, too. */
void limpet_addresses_find(const struct limpet_addresses *addresses, uint64_t address,
			   uint8_t *memory, size_t bytes, bool code);

#endif
