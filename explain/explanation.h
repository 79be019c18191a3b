/* What explain.h finds out about a process: accounts, glibc's arenas, verdicts. */
#ifndef LIMPET_EXPLAIN_EXPLANATION_H
#define LIMPET_EXPLAIN_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "explain/class_census.h"

struct limpet_account {
	const char *kind; /* stable identifier, static */
	char owner[96];
	uint64_t bytes;          /* resident */
	uint64_t count;          /* of arenas, stacks, mappings...; 0: does not apply */
	bool retained_known;     /* `retained_bytes` is known: */
	uint64_t retained_bytes; /* resident and free inside the allocator, or unused */
	const char *remedy;      /* what gives memory of this account back; static, or NULL */
};

/* The accounts of a kind in words; static. */
const char *limpet_explain_words(const char *kind);

/* Sums of all glibc arenas whose chunks were read. */
struct limpet_explain_glibc {
	size_t arenas, unknown_arenas;     /* the latter could not be read */
	size_t absent_arenas, late_arenas; /* of these: swapped out; not reached in time */
	size_t broken_arenas;              /* and: their chunks make no sense, and do not change */
	/* Whether the sums are those of all arenas; `fast_bytes`: and of all lists. Otherwise they
	 * are the least. */
	bool whole, fast_whole;
	bool listed;           /* all arenas are in the list: `system_bytes` is whole */
	bool locked;           /* more than half of the memory of an arena */
	uint64_t shared_bytes; /* resident, and mapped by other processes, too, since a fork */
	uint64_t unread_bytes; /* resident, of arenas that could not be read */
	size_t empty_arenas;   /* with less than a tenth in use, and 1 MiB of memory */
	uint64_t system_bytes; /* as mallinfo2(3) says: arena */
	uint64_t free_bytes;   /* fordblks: in bins, fastbins and tops, resident or not */
	uint64_t top_bytes;    /* keepcost: the main arena's top */
	uint64_t fast_bytes;
	bool caches_known; /* in whole: caches of threads were found, or there are none: */
	uint64_t cache_bytes;
	uint64_t resident_bytes, free_resident_bytes, returned_bytes;
	uint64_t kept_by_lock_bytes; /* would be returned if they were not locked */
	uint64_t main_top_resident_bytes, other_top_resident_bytes;
	uint64_t other_free_resident_bytes; /* of arenas other than main ones */
	uint64_t chunks, free_chunks;
	bool mmapped_known;
	uint64_t mmapped_bytes; /* hblkhd */
};

/* One arena. Resident bytes, but for `system_bytes`. */
struct limpet_explain_arena {
	uint64_t address; /* of its state, in the process; 0: not known */
	bool is_main;
	uint64_t resident_bytes;
	bool known;        /* what is free was found: */
	bool system_known; /* its state was read: */
	uint64_t system_bytes;
	uint64_t free_bytes, top_bytes; /* the former with the top */
	uint64_t returned_bytes;        /* by malloc_trim(0) */
};

struct limpet_explain_verdict {
	const char *id;          /* stable identifier, static */
	char text[1000];         /* one or two sentences */
	uint64_t bytes;          /* that it is about; 0: about none */
	const char *remedy;      /* gives it back; static, or NULL */
	const char *next;        /* a command that tells more about it; static, or NULL */
	bool returned_known;     /* `returned_bytes` is known: */
	uint64_t returned_bytes; /* by which the remedy lowers RSS */
};

/* A mapping that has memory of no known owner. */
struct limpet_explain_mapping {
	uint64_t start, end;
	uint64_t bytes;      /* resident, and of no known owner */
	char permissions[5]; /* "rw-p" */
};
#define LIMPET_EXPLAIN_MAPPINGS 5u

struct limpet_explanation {
	pid_t pid;
	char name[64];         /* comm */
	uint64_t rss_bytes;    /* by smaps: what the accounts add up to */
	uint64_t vm_rss_bytes; /* by status, whose counters are updated in batches */
	uint64_t swap_bytes;
	uint64_t lazy_free_bytes;   /* of RSS: given up by madvise(MADV_FREE), not yet taken back */
	uint64_t ended_stack_bytes; /* address space of stacks whose threads have ended */
	uint64_t unknown_bytes;     /* private anonymous memory of no known owner */
	/* Those with most of it, the largest first. */
	struct limpet_explain_mapping unknown_mappings[LIMPET_EXPLAIN_MAPPINGS];
	size_t unknown_mapping_count;
	struct limpet_account *accounts; /* the largest first; the unknown one is last */
	size_t account_count, account_capacity;
	struct limpet_explain_verdict *verdicts; /* at least one, see verdicts.h */
	size_t verdict_count, verdict_capacity;
	char others[128]; /* allocators whose heaps are not recognized, if memory is of no known
			     owner: "mimalloc in libmimalloc.so.2"; "": none is known */
	bool others_are_libraries; /* so that attach follows them */
	bool glibc_unrecognized;   /* if memory is of no known owner, and no allocator is known: the
				      process has glibc's library and memory from brk(2),
				      but no arena was found */
	bool late; /* reading took too long: what was not read counts as of no known owner */
	struct limpet_class_heaps class_heaps; /* for limpet_class_censuses_read() */
	bool has_glibc;
	struct limpet_explain_glibc glibc;
	struct limpet_explain_arena *arenas; /* `glibc.arenas` of them, main arenas first */
};

#endif
