/* Finds out to what a process's resident memory belongs, by its mappings and by what glibc's malloc
 * and threads store in them. Reads from outside, while the process runs, and only pages that exist.
 *
 * Values from the process's memory influence sums only. For smaps the kernel holds the lock of a
 * mapping against mmap(2) while it walks the whole mapping, some 15 ms per GiB of small pages; here
 * it is held for a millisecond at a time (pages.h). */
#ifndef LIMPET_INJECTOR_ELF_MEMORY_OWNERS_H
#define LIMPET_INJECTOR_ELF_MEMORY_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "injector/elf/modules.h"
#include "injector/elf/thread_stacks.h"

struct limpet_target;

enum limpet_memory_account {
	LIMPET_MEMORY_RSS = 0, /* all of it */
	LIMPET_MEMORY_UNKNOWN, /* private, anonymous, and none of the following */
	LIMPET_MEMORY_HEAP,    /* glibc's: its main heap, its arenas, its mmapped blocks */
	LIMPET_MEMORY_STACKS,
	LIMPET_MEMORY_FILES, /* modules with their data, other files */
	LIMPET_MEMORY_SHARED,
	LIMPET_MEMORY_CODE,  /* anonymous and executable */
	LIMPET_MEMORY_NAMED, /* anonymous, with a name (PR_SET_VMA_ANON_NAME) */
	LIMPET_MEMORY_OWN,   /* limpet's */
	LIMPET_MEMORY_ACCOUNTS
};
struct limpet_memory {
	bool known;
	uint64_t bytes[LIMPET_MEMORY_ACCOUNTS];
};

struct limpet_memory_owners_options {
	const struct limpet_modules *modules;
	/* Whether the process uses glibc's malloc although its C library is not a file of that name
	 * (a static program); `judge_none`: it does not, so no page is taken for part of glibc's
	 * heaps, and every process is accepted. */
	bool has_glibc, judge_none;
	/* `blocks_known`: glibc itself has counted the bytes of blocks with mappings of their own,
	 * so none is larger. */
	bool blocks_known;
	uint64_t blocks_bytes;
	/* Called with each range of existing pages that is counted by its contents or its mapping's
	 * name, in the order of large and other mappings; may be NULL. */
	void (*visit)(void *context, enum limpet_memory_account account, uint64_t start,
		      uint64_t end);
	void *context;
	/* Gets the stacks of threads that were found, for the caller to release; may be NULL. */
	struct limpet_thread_stacks *ret_stacks;
};

/* -ENOTSUP: its heap is not glibc's, so the rest means nothing; -errno of /proc. */
int limpet_memory_owners_read(const struct limpet_target *target,
			      const struct limpet_memory_owners_options *options,
			      struct limpet_memory *ret) LIMPET_MUST_CHECK;

/* Files, by their paths as /proc/PID/maps has them; what is too long for one is left out. */
struct limpet_owner_files {
	size_t count;
	char paths[4][1024];
};

/* Whether an allocator in a module is followed. */
struct limpet_owners_followed {
	bool (*is_in)(void *context, const struct limpet_module *module);
	void *context;
};

/* Names the other allocators inside the process's modules, by what they say about themselves:
 * "mimalloc in bun, jemalloc in libfoo.so"; then the heap of a language's runtime, if it has one
 * ("": none). Skips shared libraries of allocators, and modules with one that is followed
 * (`followed` NULL: none). Reads the modules' files, so call it only if there is memory to explain.
 * `files`, which may be NULL, gets the files of those that are named. */
void limpet_memory_owners_name(const struct limpet_modules *modules,
			       const struct limpet_owners_followed *followed, const char *runtime,
			       struct limpet_owner_files *files, char *ret, size_t room);

#endif
