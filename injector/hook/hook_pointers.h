/* Hook pointers: copies of hook addresses that the program made while slots led into the agent,
 * such as callback tables of libraries that store &malloc or &free. After dlclose they would point
 * to unmapped memory. */
#ifndef LIMPET_INJECTOR_HOOK_HOOK_POINTERS_H
#define LIMPET_INJECTOR_HOOK_HOOK_POINTERS_H

#include <stdint.h>
#include <sys/types.h>

#include "injector/elf/modules.h"
#include "injector/proc/pages.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/quiesce.h"

struct limpet_target;

struct limpet_hook_pointers_stats {
	uint64_t scanned_bytes;
	unsigned found, restored;
	unsigned elsewhere; /* pointers that are not restored, as of the last search */
	unsigned jumps;     /* copies of inline hooks' jumps, as of the last search */
};

struct limpet_hook_pointers_options {
	enum limpet_pages_way way;
	/* Words that the linker writes, and then makes read-only, are restored like slots; NULL:
	 * they are not. */
	const struct limpet_modules *modules;
	bool files_only;         /* search only mappings of files: modules' slots are there */
	uint64_t guard;          /* with which addresses of functions are mangled */
	struct limpet_wait wait; /* idle and check are called some fifty times a second */
};

/* Searches all existing memory (pages.h) while the target runs. If it finds pointers that are
 * aligned words of writable memory, it stops all threads for a moment (for many pointers: again and
 * again), checks the places again, and writes the originals there, and to pointers in data that the
 * dynamic linker has relocated and made read-only (RELRO). All others are left as they are, and
 * counted: words at unaligned addresses (packed structures, instructions), in memory that is no
 * longer writable or that contains code, with other values in their upper bits, mangled ones, and
 * displacements in code. Copies that the program made of its code while jumps of inline hooks were
 * in it are counted where they are at the same place in a page: it may map them over its code. 0,
 * or -errno: some may remain besides those that are counted. -ETIMEDOUT: the deadline passed before
 * all memory was searched; the search gets some milliseconds in any case. */
int limpet_hook_pointers_restore(const struct limpet_target *target,
				 const struct limpet_agent_place *place, uint64_t hooks_address,
				 const struct limpet_hook_pointers_options *options,
				 struct limpet_hook_pointers_stats *ret_stats);

#endif
