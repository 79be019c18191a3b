/* Running sums over a trace, by site: rows and whole periods are added. Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_ACCOUNTING_H
#define LIMPET_ANALYZER_MODEL_MODEL_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/model_estimate.h"
#include "analyzer/trace/trace_reader.h"
#include "common/counts.h"

/* Differences are modulo 2^64, to be read as int64_t: damage can make them fall below zero, and
 * hostile figures must not overflow. */
/* The difference, or 0: the figures of a trace may be wrong. */
static inline uint64_t limpet_model_clamp(uint64_t from, uint64_t less)
{
	return from > less ? from - less : 0;
}

struct limpet_model_sum_site {
	uint32_t node;
	struct limpet_counts counts;      /* while counting */
	uint64_t live, live_bytes;        /* since the start */
	uint64_t start_live, start_bytes; /* when counting began */
	uint64_t peak_live, peak_bytes;   /* filled in by the owner */
};

struct limpet_model_accounting {
	struct limpet_model_sum_site *sites; /* in order of first appearance */
	size_t site_count, site_capacity;
	struct limpet_model_map_site *maps; /* while counting; mapped_bytes: since the start */
	size_t map_count, map_capacity;
	struct limpet_trace_size sizes[LIMPET_TRACE_SIZE_BUCKETS]; /* while counting */
	uint64_t totals[LIMPET_TOTAL_COUNT];                       /* since the start */
	uint64_t start_totals[LIMPET_TOTAL_COUNT];                 /* when counting began */
	/* For a sampled trace: the figures of calls and blocks above are rounded from these, and
	 * whole periods cannot be added. */
	uint64_t sample_bytes;
	bool overloads_only;                      /* rows that are not marked are certain */
	struct limpet_model_estimates *estimates; /* as sites */
	size_t estimate_capacity;
	struct limpet_model_estimates all;
	uint64_t fine_totals[LIMPET_TOTAL_COUNT]; /* in 256ths: a free counts exactly what its
						     allocation did */
	double fine_sizes[LIMPET_TRACE_SIZE_BUCKETS][2]; /* allocations, bytes */
	bool counting;
	uint64_t parts;                       /* bytes of UNMAPPED rows since the last call */
	uint32_t *site_of_node, *map_of_node; /* index + 1 */
};

/* For nodes below `node_count`. `sample_bytes`: of the trace, 0: not sampled. `overloads_only`: the
 * period applies only to marked rows, the others were recorded in full. Returns 0 or -ENOMEM. */
int limpet_model_accounting_init(struct limpet_model_accounting *accounting, uint32_t node_count,
				 uint64_t sample_bytes, bool overloads_only);
void limpet_model_accounting_done(struct limpet_model_accounting *accounting);

/* From here on calls are counted: the window begins. */
void limpet_model_accounting_count(struct limpet_model_accounting *accounting);
uint64_t limpet_model_accounting_live_bytes(const uint64_t totals[LIMPET_TOTAL_COUNT]);
/* NULL: out of memory. Valid until the next call. */
struct limpet_model_sum_site *limpet_model_accounting_site(
	struct limpet_model_accounting *accounting, uint32_t node);
/* 0 or -ENOMEM. */
int limpet_model_accounting_add_row(struct limpet_model_accounting *accounting,
				    const struct limpet_trace_event *row);
int limpet_model_accounting_add_period(struct limpet_model_accounting *accounting,
				       const struct limpet_trace_period *period);

#endif
