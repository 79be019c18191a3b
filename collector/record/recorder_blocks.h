/* Encodes the contents of a trace's blocks, other than EVENTS, from the data of the recorder and
 * the accounting. Each function appends sections to `content`; an allocation failure sets
 * `content->failed`. */
#ifndef LIMPET_COLLECTOR_RECORD_RECORDER_BLOCKS_H
#define LIMPET_COLLECTOR_RECORD_RECORDER_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "collector/record/accounting.h"
#include "collector/record/recorder.h"
#include "collector/record/rollup.h"
#include "common/bytes.h"

/* Target, options, and the host it runs on (found here). */
void limpet_recorder_append_header(struct limpet_bytes *content,
				   const struct limpet_recorder_options *options);

/* An entry of a list in MODULES; the list itself is its count and the entries. */
void limpet_recorder_append_module(struct limpet_bytes *list, uint32_t number,
				   const struct limpet_recorder_module *module);
void limpet_recorder_append_identity(struct limpet_bytes *list, uint32_t module,
				     const struct limpet_file_identity *identity);

struct limpet_recorder_losses {
	uint64_t dropped_events, truncated_stacks, unseen_calls;
	struct limpet_dropped dropped;
	uint64_t inferred_frees, inferred_bytes; /* since the first loss */
	uint64_t reasons;                        /* LIMPET_LOSS_BIT: all that apply */
};
struct limpet_recorder_gauges {
	uint64_t time_ns, rss_bytes, cgroup_bytes; /* of memory, 0: unknown */
	uint64_t threads, agent_bytes, file_bytes; /* 0: unknown */
};
struct limpet_recorder_period {
	uint32_t events_sequence, rows;
	const struct limpet_recorder_gauges *gauges;
	const struct limpet_recorder_losses *losses;
	struct limpet_rollup *sums;
	bool held; /* with what sites held at the peak */
};
void limpet_recorder_append_period(struct limpet_bytes *content,
				   struct limpet_accounting *accounting,
				   const struct limpet_recorder_period *period);

/* Points of the timeline, for SUMS. */
struct limpet_recorder_point {
	uint64_t time_ns, live_bytes, rss_bytes, cgroup_bytes, mapped_bytes, allocations;
};
void limpet_recorder_append_timeline(struct limpet_bytes *content,
				     const struct limpet_recorder_point *points, size_t count);

/* A LIVE block; entries by address. */
struct limpet_recorder_live {
	uint64_t address, size, tick;
	uint32_t node, tid;
	bool sampled;
};
void limpet_recorder_append_live(struct limpet_bytes *content, unsigned kind,
				 const struct limpet_recorder_live *list, size_t count);

/* A RESIDENT block: of the runs of `resident`, `count` from `first` on, and what was looked at from
 * `from` to `to`. */
void limpet_recorder_append_resident(struct limpet_bytes *content,
				     const struct limpet_recorder_resident *resident, size_t first,
				     size_t count, uint64_t from, uint64_t to);

/* live_entries < 0: they were not written. */
void limpet_recorder_append_end(struct limpet_bytes *content, const struct limpet_recorder_end *end,
				int64_t live_entries);
/* The same block's bounds of the peak, if it has any. No event is added afterwards. */
void limpet_recorder_append_peak_bounds(struct limpet_bytes *content,
					struct limpet_accounting *accounting);

#endif
