/* The state of glibc's malloc, found and read from outside and without symbols: the main arena by
 * its structure, the other arenas by the list that begins there.
 *
 * Layouts: malloc/malloc.c and malloc/arena.c of glibc 2.17 to 2.43, on processors with 64 bits.
 * All values are the process's own and may change meanwhile; what is returned was checked to be
 * plausible, no more. Addresses are those of the process. */
#ifndef LIMPET_EXPLAIN_GLIBC_STATE_H
#define LIMPET_EXPLAIN_GLIBC_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "injector/proc/memory_reader.h"

#define LIMPET_GLIBC_FASTBINS 10u
#define LIMPET_GLIBC_BINS 127u
#define LIMPET_GLIBC_ARENAS_LIMIT 16384u

/* struct malloc_state: offsets of its members. */
struct limpet_glibc_layout {
	unsigned fastbins, top, bins, next;
	unsigned bytes;  /* at most: from some version on there is one more member */
	bool has_caches; /* threads of each process that uses malloc have caches */
};

struct limpet_glibc_state {
	uint64_t address;
	const struct limpet_glibc_layout *layout;
	bool contiguous; /* has only got memory from brk(2); always false outside of main arenas */
	uint64_t fastbins[LIMPET_GLIBC_FASTBINS]; /* first chunks, 0: empty */
	uint64_t top;                             /* chunk; 0: there is none yet */
	uint64_t next;                            /* arena */
	uint64_t system_bytes;                    /* got from the system */
	uint64_t end;                             /* of the structure */
};

/* A copy of writable data of the process; both are multiples of 8. */
struct limpet_glibc_data {
	const uint64_t *words;
	size_t bytes;
	uint64_t address;
};
/* Finds a main arena in it, at byte `from` or after it. Returns 1, or 0 if there is none.
 * *ret_refused: what looks like one was passed over so many times; it may be one that was changing.
 */
int limpet_glibc_main_find(const struct limpet_glibc_data *data, size_t from,
			   const struct limpet_memory_reader *memory,
			   struct limpet_glibc_state *ret_state, unsigned *ret_refused);

/* The state at this address. -EBADMSG: there is none, or it was changing. */
int limpet_glibc_state_read(const struct limpet_memory_reader *memory, uint64_t address,
			    const struct limpet_glibc_layout *layout,
			    struct limpet_glibc_state *ret_state) LIMPET_MUST_CHECK;
/* The same, and the head of its top: 0 if that was not written yet. Both are of one moment; the
 * allocator goes on, and what is read there later may be the head of a block. -EBADMSG also if they
 * changed each time. */
int limpet_glibc_state_read_top(const struct limpet_memory_reader *memory, uint64_t address,
				const struct limpet_glibc_layout *layout,
				struct limpet_glibc_state *ret_state,
				uint64_t *ret_head) LIMPET_MUST_CHECK;

/* All arenas of the list, the main arena first; *ret_list is malloc'ed. Returns their number, or
 * -EBADMSG: the list does not lead back to the main arena. *ret_absent: the address of one that is
 * swapped out, so that the list ends before it; 0: the list is whole. */
int limpet_glibc_arenas_read(const struct limpet_memory_reader *memory,
			     const struct limpet_glibc_state *main_arena,
			     struct limpet_glibc_state **ret_list,
			     uint64_t *ret_absent) LIMPET_MUST_CHECK;

/* What else malloc knows (struct malloc_par). */
struct limpet_glibc_parameters {
	uint64_t mmapped_bytes; /* in blocks with mappings of their own */
	uint64_t top_step; /* by multiples of which the main heap shrinks: a page, or a huge one */
	uint64_t heap_start; /* what brk(2) answered first */
};
/* Finds it in the same data, at `from` or after it, if there is a heap by brk(2) within [low,
 * high). Returns 1, with *ret_end where it ends in the data, or 0. A few words of another structure
 * may look the same: the right one is next to a main arena. */
int limpet_glibc_parameters_find(const struct limpet_glibc_data *data, size_t from, uint64_t low,
				 uint64_t high, struct limpet_glibc_parameters *ret_parameters,
				 size_t *ret_end);

#endif
