/* The blocks of a trace that is being made, limpet-trace(5): part of trace_maker.h. */
#ifndef LIMPET_ANALYZER_IMPORT_TRACE_MAKER_BLOCKS_H
#define LIMPET_ANALYZER_IMPORT_TRACE_MAKER_BLOCKS_H

#include "analyzer/import/trace_maker.h"
#include "common/counts.h"
#include "common/trace_block.h"

struct limpet_maker_string {
	uint64_t start; /* in `text` */
	uint32_t bytes;
	uint32_t module; /* number of the module with that path; 0: none has it */
	/* its number in the SYMBOLS block `block`; 0: in none */
	uint32_t block, number;
};
struct limpet_maker_stored_place {
	uint64_t address;
	uint32_t module; /* number */
	uint32_t first_frame, frame_count;
};
struct limpet_maker_node {
	uint32_t place, parent;
	uint32_t site; /* index + 1; 0: none */
};
struct limpet_maker_site {
	uint32_t node;
	bool touched;              /* in this span */
	struct limpet_counts span; /* of this span */
};
struct limpet_maker_kind {
	uint64_t bytes;
	uint32_t node;
	uint32_t runs; /* of its live blocks, the last first: index + 1; 0: none */
	/* its number among the pairs of the EVENTS block of `span` */
	uint32_t span, pair;
};
/* Blocks of one kind, allocated at one time. */
struct limpet_maker_run {
	uint64_t tick;
	uint32_t count, next; /* next: as in kinds, or of those that are free */
};
struct limpet_maker_peak {
	uint64_t bytes, time_ns;
	uint32_t rows; /* of its span's events, up to it */
};
/* The columns of an EVENTS block. */
struct limpet_maker_rows {
	uint32_t count, pair_count;
	uint64_t first_tick, last_tick;
	struct limpet_bytes ops, times, pair_nodes, pair_sizes, pairs, ages, owners;
};

struct limpet_trace_maker {
	struct limpet_bytes text;
	struct limpet_maker_string *strings;
	size_t string_count, string_room;
	struct limpet_maker_stored_place *places;
	size_t place_count, place_room;
	struct limpet_maker_frame *frames;
	size_t frame_count, frame_room;
	struct limpet_maker_node *nodes;
	uint32_t node_count;
	size_t node_room;
	uint32_t module_count;

	struct limpet_maker_site *sites;
	uint32_t site_count;
	size_t site_room;
	uint32_t *touched; /* sites of this span */
	size_t touched_count, touched_room;
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS]; /* of this span */
	struct limpet_totals totals;
	struct limpet_maker_kind *kinds;
	uint32_t kind_count;
	size_t kind_room;
	struct limpet_maker_run *runs;
	uint32_t run_count, free_runs;
	size_t run_room;
	struct limpet_maker_rows rows; /* of this span */
	uint64_t live_bytes;
	uint64_t time_ns, span_ns; /* now, and when the span began */
	uint32_t span;             /* its number, from 1 */
	uint64_t rss_bytes;        /* the highest of this span; 0: unknown */
	struct limpet_maker_peak span_peak, highest;

	ZSTD_CCtx *zstd;
	uint32_t sequence;
	struct limpet_bytes out; /* all blocks but the HEADER */
};

/* A row for an event of a kind, now; `age`: of a free, in ticks. */
int limpet_maker_blocks_row(struct limpet_trace_maker *maker, struct limpet_maker_kind *kind,
			    uint8_t op, uint64_t age);
/* Adds the blocks of the span that ends at `to_ns`, and clears its rows. */
int limpet_maker_blocks_span(struct limpet_trace_maker *maker, uint64_t to_ns);
/* Writes all blocks. */
int limpet_maker_blocks_write(struct limpet_trace_maker *maker,
			      const struct limpet_maker_head *head, int fd);
void limpet_maker_blocks_done(struct limpet_trace_maker *maker);

#endif
