/* The functions that a module calls through slots of its own: words that the dynamic linker fills
 * with the address of another part of the same module, by a relative relocation. Compilers make
 * them for the functions of other object files (-fno-plt; Rust does so by default), so that they
 * show which of a program's C functions are called, and from how many places, even if no name is
 * left.
 *
 * Reads the file alone, which is hostile: bounded in time and memory. Any thread. */
#ifndef LIMPET_INJECTOR_HIDDEN_SLOT_CALLS_H
#define LIMPET_INJECTOR_HIDDEN_SLOT_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/elf/elf_file.h"

struct limpet_slot_call {
	uint64_t function; /* in the file's own address space */
	uint64_t offset;   /* of the function in the file */
	uint64_t bytes;    /* its length */
	uint32_t places;   /* that call it, jumps included */
	uint32_t tested;   /* of these, the places that compare the result with NULL at once */
};

/* Those with an unwind table, which tells their length, that exceptions do not look at, called from
 * at least eight places, sorted by address; malloc'ed. A stub
 * that only jumps through another slot counts as the function behind it. 0, also if there are none;
 * -EFBIG: the module is too large; -EBADMSG, -ENOMEM. */
int limpet_slot_calls_find(const struct limpet_elf_file *file, struct limpet_slot_call **ret,
			   size_t *ret_count) LIMPET_MUST_CHECK;

/* Those that may be an allocator's, at most `max`; returns how many. The first one is malloc or the
 * like: its result is compared with NULL in most places that call it. The others are near it, the
 * most called first. */
size_t limpet_slot_calls_choose(const struct limpet_slot_call *list, size_t count,
				struct limpet_slot_call *ret, size_t max);

#endif
