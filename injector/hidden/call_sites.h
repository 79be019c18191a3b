/* Calls through slots, recognized in machine code. Implemented in arch/. Pure; any thread. */
#ifndef LIMPET_INJECTOR_HIDDEN_CALL_SITES_H
#define LIMPET_INJECTOR_HIDDEN_CALL_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What limpet_call_site_at() may read from `code` on. */
#define LIMPET_CALL_SITE_BYTES 16u

struct limpet_call_site {
	uint64_t slot; /* address of the word through which it calls */
	bool is_jump;  /* a tail call */
	bool tested;   /* the result is compared with NULL at once */
};

/* Whether these bytes, at `address`, call through a slot. Bytes in the middle of an instruction may
 * look so, too. */
bool limpet_call_site_at(const uint8_t *code, uint64_t address, struct limpet_call_site *ret);
/* The slot through which a function continues that does nothing but move arguments from register to
 * register; 0: it is another function. */
uint64_t limpet_call_stub_slot(const uint8_t *code, size_t bytes, uint64_t address);

#endif
