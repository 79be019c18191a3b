/* Hook pointers: copies of hook addresses that the program made while slots led into the agent:
 * callback tables of libraries that store &malloc or &free. After dlclose they would call unmapped
 * memory. */
#ifndef LIMPET_INJECTOR_HOOK_HOOK_POINTERS_H
#define LIMPET_INJECTOR_HOOK_HOOK_POINTERS_H

#include <stdint.h>
#include <sys/types.h>

#include "injector/image/modules.h"
#include "injector/proc/pages.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/quiesce.h"

struct limpet_hook_pointers_stats {
	uint64_t scanned_bytes;
	unsigned found, restored;
	unsigned elsewhere; /* that are not put back, as of the last search */
};

struct limpet_hook_pointers_options {
	enum limpet_pages_way way;
	/* What the linker writes to, and closes then, is put back as slots are; NULL: it is not. */
	const struct limpet_modules *modules;
	bool files_only; /* only what is mapped of files is searched: modules' slots are there */
	uint64_t guard;  /* with which addresses of functions are mangled */
	struct limpet_wait wait; /* idle and check: some fifty times a second */
};

/* Finds them in all memory that there is (pages.h), while the target runs. If there are any that
 * are aligned words of memory that it may write to, all threads are stopped for a moment, the found
 * places looked at again, and the originals written there, and to those of data that the dynamic
 * linker has relocated and closed (RELRO). All others are left as they are, and
 * counted: words at odd places (packed structures, instructions), of memory that it may not write
 * to any more or that holds code, with something else in their upper bits, mangled, and distances
 * in code. 0, or -errno: some may remain beside those that are counted. -ETIMEDOUT: the deadline
 * was over before all memory was searched, for which it has some milliseconds in any case. */
int limpet_hook_pointers_restore(pid_t pid, const struct limpet_agent_place *place,
				 uint64_t hooks_address,
				 const struct limpet_hook_pointers_options *options,
				 struct limpet_hook_pointers_stats *ret_stats);

#endif
