/* Heap accounting: pairs each free with its allocation, and keeps totals, sites and the peak.
 *
 * Knows nothing of files. Each event becomes one row or more, in the words of the trace; figures of
 * sites and sizes gather per period. What the words count stands in limpet-trace(5). One thread. */
#ifndef LIMPET_RECORDER_ACCOUNTING_H
#define LIMPET_RECORDER_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sample.h"
#include "common/trace_format.h"
#include "recorder/event_record.h"
#include "recorder/live_table.h"
#include "recorder/mapping_table.h"
#include "recorder/site_table.h"

struct limpet_accounting;

/* Nine tenths of `memory_bytes` bound the live table, one tenth the mappings. Sites and threads
 * come on top; stacks are bounded by the agent. NULL: no memory. */
struct limpet_accounting *limpet_accounting_new(uint64_t memory_bytes);
void limpet_accounting_free(struct limpet_accounting *accounting);
/* Before the first event: only samples come, one in so many bytes, or such may come in overloads.
 * The rows and the sums of periods are of what came; what is live is estimated. Of samples, nothing
 * is temporary; frees of what is not known are not booked once that may have been left out. */
void limpet_accounting_set_sampling(struct limpet_accounting *accounting,
				    struct limpet_sampling sampling);

/* Before the first event: keeps what each site held at the capture's peak. */
void limpet_accounting_keep_held(struct limpet_accounting *accounting);

/* What the trace says of an event: the last row is the call, rows before it are its effects. */
struct limpet_accounting_row {
	uint64_t tick; /* not below that of the row before */
	uint64_t size, age_ticks;
	uint64_t address;
	uint32_t node;
	uint32_t thread; /* dense number of the thread in the capture... */
	uint32_t tid;    /* ...and what the target calls it */
	uint32_t owner;  /* of rows with an age: the thread that made the block, and its tid */
	uint32_t owner_tid;
	uint8_t op; /* enum limpet_trace_row, LIMPET_ROW_TEMPORARY, LIMPET_ROW_SAMPLED */
};
/* A list that grows; zero-initialised is empty and valid, `list` is free()d by its owner. */
struct limpet_accounting_rows {
	struct limpet_accounting_row *list;
	size_t count, capacity;
};

/* Books events, the time of none below that of the one before, and puts their rows behind those of
 * the list. What no program can do (an unknown kind, address 0, a range that wraps) is not booked:
 * answers how many of them there were, or -ENOMEM (the accounting is not exact from here on, but
 * stays safe to use). Many at once are cheaper: what they will touch is brought near ahead of it.
 */
int64_t limpet_accounting_add(struct limpet_accounting *accounting,
			      const struct limpet_record *events, size_t count,
			      struct limpet_accounting_rows *rows);
/* Of the last event that was booked. */
uint64_t limpet_accounting_time_ns(const struct limpet_accounting *accounting);

/* Since the capture's start, in the order of enum limpet_trace_total. */
const uint64_t *limpet_accounting_totals(const struct limpet_accounting *accounting);
uint64_t limpet_accounting_live_bytes(const struct limpet_accounting *accounting);
bool limpet_accounting_is_estimated(
	const struct limpet_accounting *accounting); /* the live bytes */
uint64_t limpet_accounting_live_allocations(const struct limpet_accounting *accounting);
uint64_t limpet_accounting_mapped_bytes(const struct limpet_accounting *accounting);
/* Of the blocks whose frees were inferred. */
uint64_t limpet_accounting_inferred_bytes(const struct limpet_accounting *accounting);
/* Allocations and mappings that found no room. */
uint64_t limpet_accounting_table_full(const struct limpet_accounting *accounting);

struct limpet_accounting_peak {
	uint64_t bytes; /* of the period */
	uint32_t rows;  /* of the period, up to it; 0: it began there */
	uint64_t time_ns;
	uint64_t capture_bytes; /* since the start */
	uint64_t capture_ns;
};
struct limpet_accounting_peak limpet_accounting_peak(const struct limpet_accounting *accounting);

struct limpet_accounting_size {
	uint64_t allocations, bytes;
};

/* When allocations were sampled: what is new of it since the last period. */
struct limpet_accounting_overload {
	uint64_t from_ns, to_ns;
};
size_t limpet_accounting_period_overloads(const struct limpet_accounting *accounting,
					  const struct limpet_accounting_overload **ret_list);
/* What a site held at the capture's peak, of _keep_held. `node` goes from 0 through all nodes, as
 * limpet_site_table_next() says. */
struct limpet_accounting_held {
	uint32_t node;
	uint64_t blocks, bytes;
};
bool limpet_accounting_next_held(const struct limpet_accounting *accounting, uint32_t *node,
				 struct limpet_accounting_held *ret_held);

/* Sites that had an event in this period. */
size_t limpet_accounting_period_sites(const struct limpet_accounting *accounting);
/* Orders the sites that had an event in this period by node. Answers their number. */
size_t limpet_accounting_sort_sites(struct limpet_accounting *accounting);
/* Of these, in that order. */
const struct limpet_site *limpet_accounting_site_at(const struct limpet_accounting *accounting,
						    size_t index);
const struct limpet_accounting_size *limpet_accounting_period_sizes(
	const struct limpet_accounting *accounting);
/* Begins another period at that time. */
void limpet_accounting_next_period(struct limpet_accounting *accounting, uint64_t time_ns);

/* The site that holds most of what was allocated since the start; 0 none. As of the last period. */
uint32_t limpet_accounting_growing(const struct limpet_accounting *accounting, uint64_t *ret_bytes);

uint32_t limpet_accounting_tid(const struct limpet_accounting *accounting, uint32_t thread);

/* What is still live, by address. Ends the accounting: only reading figures and _free may follow.
 */
const struct limpet_live_entry *limpet_accounting_live(struct limpet_accounting *accounting,
						       size_t *ret_count);
uint32_t limpet_accounting_node(const struct limpet_accounting *accounting, uint32_t site);
void limpet_accounting_walk_mappings(const struct limpet_accounting *accounting,
				     limpet_mapping_fn *each, void *data);
size_t limpet_accounting_mapping_count(const struct limpet_accounting *accounting);

#endif
