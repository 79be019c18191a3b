/* Sums a trace over a window: from the aggregates of whole periods, and from the events of those
 * that the window cuts or whose aggregates are lost. Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_SUM_H
#define LIMPET_ANALYZER_MODEL_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/trace_reader.h"

/* Differences are modulo 2^64, to be read as int64_t: damage can make them fall below zero, and
 * hostile figures must not overflow. */
struct limpet_model_sum_site {
	uint32_t node;
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary; /* in the window */
	uint64_t live, live_bytes;                                            /* at its end */
	uint64_t start_live, start_bytes;                                     /* at its start */
	uint64_t peak_live, peak_bytes;
};
struct limpet_model_sum_map {
	uint32_t node;
	uint64_t mmaps, mmap_bytes, unmapped_bytes; /* in the window */
	uint64_t mapped_bytes;                      /* at its end */
};
struct limpet_model_sum_point {
	uint64_t time_ns, live_bytes, rss_bytes, mapped_bytes, allocations;
};

struct limpet_model_sum {
	struct limpet_model_sum_site *sites; /* in order of first appearance */
	size_t site_count, site_room;
	struct limpet_model_sum_map *maps;
	size_t map_count, map_room;
	struct limpet_model_sum_point *points;
	size_t point_count, point_room;
	struct limpet_trace_size sizes[LIMPET_TRACE_SIZE_BUCKETS];
	uint64_t totals[LIMPET_TOTAL_COUNT]; /* since the capture's start, at the window's end */
	uint64_t start_totals[LIMPET_TOTAL_COUNT]; /* at the window's start */
	uint64_t peak_bytes, peak_ns;
	uint64_t dropped_events, truncated_stacks, unseen_calls; /* of the capture */
	bool exact;
	bool gone; /* a block of the capture could not be read */
};

/* to_ns UINT64_MAX: to the end. 0, -ENOMEM or the error of a read. */
int limpet_model_sum_init(struct limpet_model_sum *sum, struct limpet_trace_reader *reader,
			  uint64_t from_ns, uint64_t to_ns);
void limpet_model_sum_done(struct limpet_model_sum *sum);

#endif
