/* Nim's own allocator in a program: where each of its allocations and releases comes by.
 *
 * Releases: in each copy of rawDealloc, whichever function it was put into (nim_code.h).
 * Allocations: in the functions that answer with what their copy of rawAlloc made. A copy in any
 * other is not seen, unless it makes large blocks only, by a call. */
#ifndef LIMPET_INJECTOR_IMAGE_ENTRY_NIM_H
#define LIMPET_INJECTOR_IMAGE_ENTRY_NIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "injector/image/code_reader.h"
#include "injector/image/elf_file.h"
#include "injector/image/entry_code.h"
#include "injector/image/modules.h"

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
	bool thread_heaps; /* each thread has one, which goes as a whole when it ends (refc) */
	unsigned unseen;   /* functions that allocate in a way that is not seen */
	char why[128];     /* of -ENOTSUP */
};

/* -ENOENT: it has no such allocator; -ENOTSUP: some of its releases would not be seen, with words;
 * -ENOMEM. */
int limpet_entry_nim_find(pid_t pid, const struct limpet_module *module,
			  struct limpet_elf_file *file, struct limpet_code_reader *reader,
			  struct limpet_nim_places *ret) LIMPET_MUST_CHECK;

#endif
