/* The blocks of a capture by thread, stack, and the steps in which they were allocated and freed:
 * what the Firefox Profiler gets instead of events, of which there may be millions. Steps become
 * longer when there are too many entries. */
#ifndef LIMPET_ANALYZER_EXPORT_FIREFOX_BLOCKS_H
#define LIMPET_ANALYZER_EXPORT_FIREFOX_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/export/export_stacks.h"
#include "analyzer/model/history.h"
#include "analyzer/model/replay.h"
#include "common/number_table.h"

#define LIMPET_FIREFOX_STEPS 1024u
/* Unless there are more stacks of threads. */
#define LIMPET_FIREFOX_ENTRIES (1u << 19)
#define LIMPET_FIREFOX_NEVER UINT16_MAX

struct limpet_firefox_origin {
	uint32_t tid, stack;
};
struct limpet_firefox_entry {
	uint32_t origin;      /* number, from 1 */
	uint16_t made, freed; /* steps; freed may be _NEVER */
	double bytes;
};
struct limpet_firefox_blocks {
	struct limpet_export_stacks *stacks;   /* set by the caller */
	uint64_t step_ns;                      /* likewise; see limpet_firefox_blocks_init() */
	uint32_t entries_max;                  /* likewise */
	struct limpet_firefox_origin *origins; /* entry 0 is a dummy */
	struct limpet_firefox_entry *entries;
	size_t entry_count, origin_capacity, entry_capacity;
	struct limpet_number_table origin_numbers, entry_numbers;
};

/* `stacks` is borrowed. */
void limpet_firefox_blocks_init(struct limpet_firefox_blocks *blocks,
				struct limpet_export_stacks *stacks, uint64_t duration_ns);
/* tell_block of a replay; `blocks` is a struct limpet_firefox_blocks. -ENOMEM. */
int limpet_firefox_blocks_add(void *blocks, const struct limpet_replay_block *block);
/* From sums: of no thread (tid), and frees are those of the oldest blocks of their stack. -ENOMEM.
 */
int limpet_firefox_blocks_add_sums(struct limpet_firefox_blocks *blocks, uint32_t tid,
				   const struct limpet_history *history) LIMPET_MUST_CHECK;
void limpet_firefox_blocks_done(struct limpet_firefox_blocks *blocks);

#endif
