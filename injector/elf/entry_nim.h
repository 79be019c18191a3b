/* Finds Nim's own allocator in a program: the code through which each of its allocations and
 * releases passes.
 *
 * Releases: in each copy of rawDealloc, in whatever function it was inlined (nim_code.h).
 * Allocations: in the functions that return what their copy of rawAlloc allocated. A copy in any
 * other function is not seen, unless it allocates large blocks only, by a call. */
#ifndef LIMPET_INJECTOR_ELF_ENTRY_NIM_H
#define LIMPET_INJECTOR_ELF_ENTRY_NIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "injector/elf/code_reader.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/entry_code.h"
#include "injector/elf/modules.h"

struct limpet_target;

#define LIMPET_NIM_PLACES_MAX 80u

struct limpet_nim_place {
	uint64_t address, bytes; /* a function, or one instruction */
	enum limpet_entry_kind kind;
	uint16_t op, hook_flags;
	char name[80]; /* of the function */
};

struct limpet_nim_places {
	struct limpet_nim_place list[LIMPET_NIM_PLACES_MAX];
	size_t count;
	bool thread_heaps; /* each thread has a heap, which is freed as a whole when it ends (refc)
			    */
	unsigned unseen;   /* functions whose allocations are not seen */
	char why[128];     /* reason of -ENOTSUP */
};

/* -ENOENT: the module has no such allocator; -ENOTSUP: some of its releases would not be seen, with
 * the reason; -ENOMEM. */
int limpet_entry_nim_find(const struct limpet_target *target, const struct limpet_module *module,
			  struct limpet_elf_file *file, struct limpet_code_reader *reader,
			  struct limpet_nim_places *ret) LIMPET_MUST_CHECK;

#endif
