/* What a process's resident memory belongs to, by its mappings and what glibc's malloc and threads
 * leave in them. Looks from outside, while the process runs; no page is read that is not there.
 *
 * What is found in the process's memory decides about sums alone. smaps has the kernel hold a
 * mapping against mmap(2) for as long as it takes to walk all of it, some 15 ms for each GiB of
 * small pages; here that is a millisecond at a time (pages.h). */
#ifndef LIMPET_INJECTOR_IMAGE_MEMORY_OWNERS_H
#define LIMPET_INJECTOR_IMAGE_MEMORY_OWNERS_H

#include "common/memory_accounts.h"
#include "injector/image/modules.h"

struct limpet_account_range {
	uint64_t start, end;
};

struct limpet_memory_owners_options {
	const struct limpet_modules *modules;
	/* Mappings that the program was seen to make, by address; may be NULL. */
	const struct limpet_account_range *mapped;
	size_t mapped_count;
};

/* -ENOTSUP: its heap is not glibc's, so that the rest tells nothing; -errno of /proc. */
int limpet_memory_owners_take(pid_t pid, const struct limpet_memory_owners_options *options,
			      struct limpet_memory *ret) LIMPET_MUST_CHECK;

/* Who else is inside of its modules, by what allocators say of themselves: "mimalloc in bun,
 * jemalloc in libfoo.so"; behind them the heap of a language's runtime, if it has one ("": none).
 * Shared libraries of allocators, and modules that `follows` says yes to,
 * are passed over. Reads the modules' files: where there is something to be named only. */
void limpet_memory_owners_name(const struct limpet_modules *modules,
			       bool (*follows)(void *context, const struct limpet_module *module),
			       void *context, const char *runtime, char *ret, size_t room);

#endif
