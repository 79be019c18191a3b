/* Variables whose value the program has kept elsewhere, to compare the two later: babl notes the
 * malloc that its variable led to, and complains if the variable leads to another one. */
#ifndef LIMPET_INJECTOR_HOOK_KEPT_VALUES_H
#define LIMPET_INJECTOR_HOOK_KEPT_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/elf/modules.h"

/* A variable of a library that the program has a copy of, which all modules use (copy relocation).
 */
struct limpet_copied {
	uint64_t from, to, bytes;
};

struct limpet_kept_values {
	const struct limpet_modules *modules;
	const struct limpet_copied *copied;
	size_t copied_count;
};

/* Takes out of the slots (LIMPET_SLOT_OF_VARIABLE) those of a module whose value also is in another
 * aligned word of the module's writable memory that is no slot; with them the program's copies of
 * such variables. If that memory is too large, or cannot be read, takes out all of the module's.
 * Reads only pages that exist and that the process has written to. Returns how many were taken out,
 * or -ENOMEM: none was. */
int limpet_kept_values_leave(const struct limpet_kept_values *kept, struct limpet_slot *slots,
			     uint32_t *count) LIMPET_MUST_CHECK;

#endif
