/* Which blocks keep resident pages, at the end of a capture: live heap blocks by address, and the
 * pages that were resident.
 *
 * A resident page with recorded live blocks is divided among their groups by the bytes that each
 * has on it, so that what all groups hold adds up to these pages. Blocks do not overlap: what lies
 * within an earlier one (a pool's blocks, in a block that the pool took from malloc) is that one's.
 * A block of size 0 counts as one byte. What is not recorded keeps pages, too: blocks from before
 * the capture, and other memory. */
#ifndef LIMPET_ANALYZER_MODEL_PAGE_SHARES_H
#define LIMPET_ANALYZER_MODEL_PAGE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "common/err.h"

struct limpet_page_share {
	uint64_t blocks, live_bytes;  /* all live heap blocks */
	uint64_t resident_live_bytes; /* of these, on resident pages */
	/* What an allocator may need for these, the most: glibc's smallest block is 32 bytes, and
	 * size classes are a quarter apart (jemalloc, tcmalloc). */
	uint64_t needed_bytes;
	uint64_t held_bytes;  /* of resident pages, its part */
	uint64_t alone_bytes; /* of these, on pages with blocks of this group only */
};

/* ------------------------------------------------------------------ dividing */

struct limpet_page_part {
	uint32_t group;
	uint64_t bytes;
};
/* Begins as zeros, but for the first six members. */
struct limpet_page_division {
	uint64_t page_bytes; /* a power of two */
	/* Ascending, apart, whole pages; borrowed. `examined`: where residency is known. */
	const struct limpet_trace_run *runs, *examined;
	size_t run_count, examined_count;
	struct limpet_page_share *groups;
	uint64_t unexamined_blocks, unexamined_bytes; /* on pages whose residency is not known */

	size_t run_at, examined_at;
	uint64_t block_end;             /* of the last block */
	uint64_t page;                  /* the last page, if some of it belongs to blocks so far */
	struct limpet_page_part *parts; /* of that page */
	size_t part_count, part_capacity;
};
/* Blocks in order of address; others count from the end of the last one. -ENOMEM. */
int limpet_page_division_add(struct limpet_page_division *division, uint64_t address, uint64_t size,
			     uint32_t group) LIMPET_MUST_CHECK;
/* After the last block. */
void limpet_page_division_end(struct limpet_page_division *division);

/* ------------------------------------------------------------------ of a trace */

struct limpet_page_shares {
	struct limpet_page_share *groups;
	size_t count;
	struct limpet_page_share all; /* sum of the groups */
	uint64_t page_bytes;
	uint64_t unexamined_blocks, unexamined_bytes; /* in all groups */
};
/* `group_of_node`: below `groups`, for each node of the reader. -ENODATA: the trace does not say
 * which pages were resident, see limpet_page_shares_unknown(); -ENOMEM, or the error of a read. */
int limpet_page_shares_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
			   const uint32_t *group_of_node, size_t groups,
			   struct limpet_page_shares **ret_shares) LIMPET_MUST_CHECK;
void limpet_page_shares_free(struct limpet_page_shares *shares);
/* Why, as a sentence without a period. */
const char *limpet_page_shares_unknown(const struct limpet_model *model);

#endif
