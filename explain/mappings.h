/* Sorts the resident memory of each mapping into accounts. */
#ifndef LIMPET_EXPLAIN_MAPPINGS_H
#define LIMPET_EXPLAIN_MAPPINGS_H

#include "explain/accounts.h"
#include "explain/glibc_heaps.h"
#include "explain/memory_ranges.h"
#include "explain/stack_owners.h"
#include "explain/tmpfs.h"
#include "injector/elf/modules.h"
#include "injector/proc/proc.h"

/* What was found out about the process before. */
struct limpet_mappings_facts {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	const struct limpet_modules *modules; /* of files; NULL: not known */
	struct limpet_glibc_heaps *heaps;     /* learns which arenas are locked, and what counts */
	const struct limpet_memory_ranges *ranges; /* sorted */
	const struct limpet_stack_owners *threads;
	const struct limpet_tmpfs *mounts;
	bool has_v8; /* whose WebAssembly memories are recognized */
};

/* Adds all mappings of `smaps`; sets RSS, swap and the unknown bytes of the explanation. 0, -ENOMEM
 * or -EBADMSG. */
int limpet_mappings_account(struct limpet_smaps *smaps, const struct limpet_mappings_facts *facts,
			    struct limpet_accounts *accounts) LIMPET_MUST_CHECK;

#endif
