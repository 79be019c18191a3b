/* Heap accounting: pairs each free with its allocation, and keeps totals, sites and the peak.
 *
 * Independent of the file. Each event becomes one or more rows of the trace; figures of sites and
 * sizes are summed for each period. limpet-trace(5) defines what they count. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_ACCOUNTING_H
#define LIMPET_COLLECTOR_RECORD_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/event_record.h"
#include "collector/record/live_table.h"
#include "collector/record/mapping_table.h"
#include "collector/record/site_table.h"
#include "common/counts.h"
#include "common/sample.h"
#include "common/trace_format.h"

struct limpet_accounting;

/* The live table takes at most nine tenths of `memory_bytes`, the mappings one tenth. Sites and
 * threads take more; the agent bounds the number of stacks. NULL: no memory. */
struct limpet_accounting *limpet_accounting_new(uint64_t memory_bytes);
void limpet_accounting_free(struct limpet_accounting *accounting);
/* Call before the first event: allocations are sampled, always or in overloads. Rows and the sums
 * of periods then count what was recorded; live figures are estimated. No sample is temporary. Once
 * allocations may have been left out in an overload, frees of unknown blocks are not counted. */
void limpet_accounting_set_sampling(struct limpet_accounting *accounting,
				    struct limpet_sampling sampling);

/* Call before the first event: keeps what each site held at the capture's peak. */
void limpet_accounting_keep_held(struct limpet_accounting *accounting);

/* Call before the first event: the events of different threads are added in no order, see
 * peak_bounds.h. 0 or -ENOMEM. */
int limpet_accounting_take_passes(struct limpet_accounting *accounting);
/* Ends a pass, as limpet_peak_bounds_end_pass() does. */
void limpet_accounting_end_pass(struct limpet_accounting *accounting, uint32_t place);

/* A row of the trace. The last row of an event is the call; rows before it are its effects. */
struct limpet_accounting_row {
	uint64_t tick; /* never decreases */
	uint64_t size, age_ticks;
	uint64_t address;
	uint32_t node;
	uint32_t thread; /* dense number of the thread in the capture... */
	uint32_t tid;    /* ...and its tid, as the target sees it */
	uint32_t owner;  /* of rows with an age: the thread that made the block, and its tid */
	uint32_t owner_tid;
	uint8_t op; /* enum limpet_trace_row, and all flags but LIMPET_ROW_SWITCH */
	bool freed; /* two rows of the trace: an allocation, and its temporary free at once */
};
/* A growing list. Zero-initialised is empty and valid; the owner free()s `list`. */
struct limpet_accounting_rows {
	struct limpet_accounting_row *list;
	size_t count, capacity;
	size_t trace_rows; /* rows of the trace */
};

static inline void limpet_accounting_rows_clear(struct limpet_accounting_rows *rows)
{
	rows->count = rows->trace_rows = 0;
}

/* Counts events, in order of time, and appends their rows to the list. Events that no program can
 * cause (an unknown kind, address 0, a range that wraps) are not counted. Returns the number of
 * these, or -ENOMEM (the accounting is not exact from here on, but safe to use). Many events per
 * call are cheaper: the memory that they touch is prefetched. */
int64_t limpet_accounting_add(struct limpet_accounting *accounting,
			      const struct limpet_record *events, size_t count,
			      struct limpet_accounting_rows *rows);
/* Time of the last event that was counted. */
uint64_t limpet_accounting_time_ns(const struct limpet_accounting *accounting);

const struct limpet_totals *limpet_accounting_totals(const struct limpet_accounting *accounting);
uint64_t limpet_accounting_live_bytes(const struct limpet_accounting *accounting);
bool limpet_accounting_is_estimated(
	const struct limpet_accounting *accounting); /* the live bytes */
uint64_t limpet_accounting_live_allocations(const struct limpet_accounting *accounting);
uint64_t limpet_accounting_mapped_bytes(const struct limpet_accounting *accounting);
/* Bytes of the blocks whose frees were inferred. */
uint64_t limpet_accounting_inferred_bytes(const struct limpet_accounting *accounting);
/* Allocations and mappings that found no room. */
uint64_t limpet_accounting_table_full(const struct limpet_accounting *accounting);

struct limpet_accounting_peak {
	uint64_t bytes; /* of the period */
	uint32_t rows;  /* of the period, up to the peak; 0: the period began there */
	uint64_t time_ns;
	uint64_t capture_bytes; /* since the start */
	uint64_t capture_ns;
};
struct limpet_accounting_peak limpet_accounting_peak(const struct limpet_accounting *accounting);
/* No event is added afterwards. Bounds of the capture's peak, with the observed one between them;
 * false: it is that one. */
bool limpet_accounting_peak_bounds(struct limpet_accounting *accounting, uint64_t *ret_min,
				   uint64_t *ret_max);

/* An interval in which allocations were sampled, or the part of it that is new in this period. */
struct limpet_accounting_overload {
	uint64_t from_ns, to_ns;
};
size_t limpet_accounting_period_overloads(const struct limpet_accounting *accounting,
					  const struct limpet_accounting_overload **ret_list);
/* What a site held at the capture's peak; requires _keep_held(). `node` starts at 0 and is advanced
 * as by limpet_site_table_next(). */
struct limpet_accounting_held {
	uint32_t node;
	uint64_t blocks, bytes;
};
bool limpet_accounting_next_held(const struct limpet_accounting *accounting, uint32_t *node,
				 struct limpet_accounting_held *ret_held);

/* Number of sites with an event in this period. */
size_t limpet_accounting_period_sites(const struct limpet_accounting *accounting);
/* Sorts the sites with an event in this period by node. Returns their number. */
size_t limpet_accounting_sort_sites(struct limpet_accounting *accounting);
/* One of these, in that order. */
const struct limpet_site *limpet_accounting_site_at(const struct limpet_accounting *accounting,
						    size_t index);
const struct limpet_size_counts *limpet_accounting_period_sizes(
	const struct limpet_accounting *accounting);
/* Begins the next period at `time_ns`. */
void limpet_accounting_next_period(struct limpet_accounting *accounting, uint64_t time_ns);

/* Node of the site that held most of what was allocated since the start, when the last period
 * ended; 0: none. */
uint32_t limpet_accounting_growing(const struct limpet_accounting *accounting, uint64_t *ret_bytes);

uint32_t limpet_accounting_tid(const struct limpet_accounting *accounting, uint32_t thread);

/* Sorts the live blocks by address and returns them. Ends the accounting: afterwards only this and
 * figures may be read, and _free() called. */
const struct limpet_live_entry *limpet_accounting_live(struct limpet_accounting *accounting,
						       size_t *ret_count);
uint32_t limpet_accounting_node(const struct limpet_accounting *accounting, uint32_t site);
void limpet_accounting_walk_mappings(const struct limpet_accounting *accounting,
				     limpet_mapping_fn *each, void *data);
size_t limpet_accounting_mapping_count(const struct limpet_accounting *accounting);

#endif
