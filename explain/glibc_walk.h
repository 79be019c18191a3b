/* Walks over the chunks of one region of a glibc heap: what is in use, what is free, and what
 * malloc_trim(3) would return of it.
 *
 * malloc/malloc.c: a chunk is its head, 16 bytes, and its block; the head's second word is the size
 * with three bits. The lowest says whether the chunk before is in use: only that tells whether a
 * chunk is free, and chunks in fastbins and in caches of threads count as used there. */
#ifndef LIMPET_EXPLAIN_GLIBC_WALK_H
#define LIMPET_EXPLAIN_GLIBC_WALK_H

#include "explain/glibc_lists.h"

/* Chunks in use, by their heads too: the caches of threads, and what these hold, are among them. In
 * the order of the walk, ascending within a region. Begins as all zeros. */
struct limpet_glibc_chunk {
	uint64_t start, bytes;
};
/* 256 MiB. */
#define LIMPET_GLIBC_CHUNKS_LIMIT ((size_t)16 << 20)
struct limpet_glibc_chunks {
	struct limpet_glibc_chunk *list;
	size_t count, capacity;
	bool is_cut; /* there were more: the rest is missing */
};
void limpet_glibc_chunks_done(struct limpet_glibc_chunks *chunks);

/* What malloc_trim(3) returns by madvise(2), one call for each: whole pages. In the order of the
 * walk, like chunks. Begins as all zeros. */
struct limpet_glibc_return {
	uint64_t start, end;
	uint64_t resident_bytes; /* of these */
};
/* 24 MiB. */
#define LIMPET_GLIBC_RETURNS_LIMIT ((size_t)1 << 20)
struct limpet_glibc_returns {
	struct limpet_glibc_return *list;
	size_t count, capacity;
	bool is_cut; /* there were more: the rest is missing */
};
void limpet_glibc_returns_done(struct limpet_glibc_returns *returns);

/* Where a walk failed, and with what. */
struct limpet_glibc_stop {
	uint64_t chunk;
	uint64_t head; /* its second word; 0 if it could not be read */
	int error;
};

struct limpet_glibc_region {
	uint64_t start, end; /* the first chunk; the end of the memory */
	uint64_t top;        /* the arena's top chunk, which ends this region. 0: it lies in another
				region, and this one ends with a mark */
	uint64_t top_head;   /* of the same moment: see limpet_glibc_state_read_top() */
	bool in_parts; /* of a main arena with several regions: this one may end anywhere between */
	bool is_main;  /* of a main arena */
	uint64_t top_step; /* 0: a page; see struct limpet_glibc_parameters */
	bool is_brk;       /* got by brk(2) */
	bool shrinks;      /* the end is that of brk(2): malloc_trim gives the top back, too */
	/* To which a successful walk adds the chunks in use; NULL: they are not listed. */
	struct limpet_glibc_chunks *used;
	struct limpet_glibc_returns *returns; /* the same for what is returned */
	struct limpet_glibc_stop *stop;       /* set by a walk that fails; NULL: not wanted */
};

/* Bytes. "Free" are chunks in bins and fastbins and the top, as in mallinfo2(3), but not chunks in
 * the caches of threads. "Resident" counts parts of pages, too: of two chunks in one page each
 * counts its own bytes. */
struct limpet_glibc_figures {
	uint64_t end; /* where the walk ended: not summed */
	uint64_t region_bytes, resident_bytes;
	uint64_t free_bytes, free_resident_bytes; /* both with the top */
	uint64_t top_bytes, top_resident_bytes;
	uint64_t fast_bytes;
	uint64_t cache_bytes; /* in caches of threads, as far as they were found: */
	uint64_t caches;
	uint64_t returned_bytes;      /* pages that malloc_trim(0) returns */
	uint64_t brk_returned_bytes;  /* of these, by brk(2), which is done to locked memory, too */
	uint64_t chunks, free_chunks; /* without top and marks */
};
void limpet_glibc_figures_add(struct limpet_glibc_figures *sum,
			      const struct limpet_glibc_figures *figures);

/* 0; -EBADMSG: the chunks do not lead to the end, because the process changes them or because there
 * is no heap; -ENODATA: a page with a head is not present; -errno of a read. Every walk ends after
 * at most one step for each 16 bytes. */
int limpet_glibc_walk(struct limpet_glibc_reader *reader, const struct limpet_present *present,
		      const struct limpet_glibc_region *region,
		      const struct limpet_glibc_fast *fast,
		      struct limpet_glibc_figures *ret_figures) LIMPET_MUST_CHECK;

#endif
