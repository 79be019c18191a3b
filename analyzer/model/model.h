/* The heap model: the figures of a trace, as data. Text, JSON, HTML and exporters only present it.
 *
 * Without a window, totals, sites, sizes and timeline come from the trace's aggregates; one block
 * of events is replayed for what each site held at the peak. With a window [from, to), the blocks
 * that its limits cut are replayed as well.
 *
 * Within a window: calls are those of the window; live is what was held at its end, of all that the
 * capture saw allocated; peak is the highest point within it; growth is live at its end minus live
 * at its start.
 *
 * In a sampled trace, all figures of calls and blocks are estimates except foreign and inferred
 * frees; temporary allocations and foreign frees are not known. Plain structs; everything belongs
 * to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_H
#define LIMPET_ANALYZER_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model_estimate.h"
#include "analyzer/trace/trace_reader.h"
#include "common/counts.h"
#include "common/err.h"
#include "common/unfollowed.h"

struct limpet_model_options {
	uint64_t from_ns, to_ns; /* since the capture's start; to_ns 0: to the end */
};

struct limpet_model_totals {
	uint64_t events; /* of the malloc and mmap families */
	uint64_t allocations, frees, allocated_bytes, freed_bytes;
	uint64_t temporary_allocations;
	uint64_t reallocations; /* part of frees: by a realloc, which continues the block */
	uint64_t foreign_frees, foreign_freed_bytes;
	uint64_t live_allocations, live_bytes; /* at the end (of the window) */
	int64_t growth_bytes;
	uint64_t peak_bytes, peak_ns;
	uint64_t inferred_frees; /* part of frees: never seen, their address was allocated again */
	uint64_t untracked_allocations, untracked_bytes; /* did not fit the collector's live table:
							    part of allocations, never live */
	uint64_t mmaps, mmap_bytes, munmaps, unmapped_bytes, foreign_unmapped_bytes;
	uint64_t mapped_bytes; /* mapped by mmap's family since the start, live */
	/* losses, of the whole capture whatever the window */
	uint64_t dropped_events, truncated_stacks, unseen_calls;
};

/* What was counted but is not in the figures, since the capture's start whatever the window. */
struct limpet_model_missing {
	struct limpet_dropped dropped;
	uint64_t dropped_events, unseen_calls;
	uint64_t untracked_allocations, untracked_bytes;
	uint64_t inferred_frees;                           /* all of them */
	uint64_t late_inferred_frees, late_inferred_bytes; /* since there were losses */
	uint64_t losses; /* LIMPET_LOSS_BIT: why, by the last period; also without a count */
};
/* Limits of a figure that are certain, unlike those of an estimate. */
struct limpet_model_bound {
	uint64_t min, max;
	bool has_min, has_max; /* false: it is not known */
};
struct limpet_model_bounds {
	struct limpet_model_bound live_bytes, live_allocations, peak_bytes, mapped_bytes;
	uint64_t unseen_frees; /* at most so many blocks that count as live may have been freed */
};

struct limpet_model_site {
	uint32_t node; /* index into nodes; 0: stack unknown */
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary_allocations;
	uint64_t reallocations; /* part of frees */
	uint64_t live_allocations, live_bytes;
	uint64_t peak_allocations, peak_bytes; /* held at the moment of the peak */
	int64_t growth_bytes;
};
/* Its blocks, and those of them that were freed: a block that is reallocated is one, of the stack
 * that allocated it last. */
static inline uint64_t limpet_model_site_blocks(const struct limpet_model_site *site)
{
	return site->allocations > site->reallocations ? site->allocations - site->reallocations
						       : 0;
}
static inline uint64_t limpet_model_site_ended(const struct limpet_model_site *site)
{
	return site->frees > site->reallocations ? site->frees - site->reallocations : 0;
}
/* One of several allocators, as far as the allocator of blocks is recorded. */
struct limpet_model_owner {
	const char *name; /* "": the others */
	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	uint64_t live_allocations, live_bytes;
	uint64_t peak_bytes; /* held at the moment of the peak */
};
struct limpet_model_map_site {
	uint32_t node;
	uint64_t mmaps, mmap_bytes, unmapped_bytes, mapped_bytes;
};
struct limpet_model_point {
	uint64_t time_ns, live_bytes, mapped_bytes;
	uint64_t rss_bytes, cgroup_bytes; /* of the process, of its cgroup; 0: unknown */
	uint64_t allocations;             /* since the capture's start */
	uint64_t live_allocations;        /* UINT64_MAX: unknown */
	uint64_t threads;                 /* 0: unknown */
	uint64_t agent_bytes;             /* limpet's own part of RSS at most; 0: unknown */
	uint64_t file_bytes; /* RSS of files and shared, without limpet's own; 0: unknown */
};
/* Resident memory without limpet's own part, if that is known. */
static inline uint64_t limpet_model_point_rss(const struct limpet_model_point *point)
{
	return point->rss_bytes > point->agent_bytes ? point->rss_bytes - point->agent_bytes : 0;
}
struct limpet_model_size {
	uint64_t from_bytes, to_bytes; /* both inclusive */
	uint64_t allocations, allocated_bytes;
};
/* Of a bucket of limpet_trace_size_bucket(). */
static inline struct limpet_model_size limpet_model_size_of(unsigned bucket, uint64_t allocations,
							    uint64_t allocated_bytes)
{
	return (struct limpet_model_size){.from_bytes = bucket ? UINT64_C(1) << (bucket - 1) : 0,
					  .to_bytes = bucket == 64 ? UINT64_MAX
								   : (UINT64_C(1) << bucket) - 1,
					  .allocations = allocations,
					  .allocated_bytes = allocated_bytes};
}
struct limpet_model_frame {
	const char *function; /* NULL: unknown */
	const char *file;     /* NULL: unknown */
	uint32_t line;        /* 0: unknown */
	uint32_t column;      /* of generated JavaScript, from 1; 0: unknown */
	bool inlined;         /* into the frame after it */
};
struct limpet_model_address {
	uint32_t module;
	uint64_t address; /* as in nodes */
};

struct limpet_model {
	const struct limpet_trace_target *target;
	const struct limpet_trace_end *end;
	const struct limpet_trace_damage *damage;
	uint64_t losses; /* LIMPET_LOSS_BIT: those in the trace, and those found while reading it */
	bool complete, exact;    /* by `losses`: see common/losses.h */
	uint64_t duration_ns;    /* of the capture */
	uint64_t from_ns, to_ns; /* the window; to_ns is never 0 unless the capture is empty */
	bool windowed;
	/* Only blocks that were made in [born_from_ns, born_to_ns) are in the figures, if `born`.
	 */
	bool born;
	uint64_t born_from_ns, born_to_ns; /* UINT64_MAX: to the end */
	bool widened; /* the window, to whole time spans of which sums are kept */
	/* 0: every event was recorded. If only overloads were sampled, their sampling period; the
	 * interval of a figure without a sample then has no width. */
	uint64_t sample_bytes;
	const struct limpet_trace_overload *overloads; /* by time, whatever the window */
	size_t overload_count;
	struct limpet_model_estimates estimates;       /* of a sampled trace: of the totals */
	struct limpet_model_estimates *site_estimates; /* of each of `sites`; NULL: not sampled */
	bool compact;         /* there are only sums of time spans, no single events */
	uint64_t given_up_ns; /* before it there are only sums */

	struct limpet_model_totals totals;
	struct limpet_model_missing missing;
	struct limpet_model_bounds bounds; /* of the totals */
	struct limpet_model_site *sites;   /* by node; only those with a figure that is not 0 */
	size_t site_count;
	struct limpet_model_owner *owners; /* by number from 1; 0: the others; NULL: not several */
	uint32_t owner_count;
	struct limpet_model_map_site *maps;
	size_t map_count;
	struct limpet_model_point *timeline; /* by time */
	size_t timeline_count;
	struct limpet_model_size *sizes; /* non-empty buckets, ascending */
	size_t size_count;

	const struct limpet_trace_user_mark *marks; /* by time, whatever the window */
	size_t mark_count;
	const struct limpet_trace_node *nodes; /* the tree; index 0 is the root */
	uint32_t node_count;
	const struct limpet_trace_module *modules; /* by number, from 1 */
	uint32_t module_count;                     /* entries, including the dummy 0 */

	bool sealed;           /* there are symbols */
	bool symbols_complete; /* and every address was looked up */
	/* Instead, names were looked up now: limpet_namer_name_model(). */
	bool names_looked_up;
	size_t names_left; /* addresses for which there was no time */
	struct limpet_model_private *private;
};

/* `options` may be NULL. The reader must outlive the model. -ERANGE: the window begins or ends
 * where only sums are kept. */
int limpet_model_build(struct limpet_trace_reader *reader,
		       const struct limpet_model_options *options, struct limpet_model **ret_model,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_model_free(struct limpet_model *model);

struct limpet_model_symbols;
/* A model without figures, for a caller that adds them up while the trace is being written. Takes
 * over the symbols, even on failure. -ENOMEM. */
int limpet_model_live_new(struct limpet_model_symbols *symbols, struct limpet_model **ret_model);
/* Takes target, end, damage, stacks and modules from the reader. To be called whenever the reader
 * was followed, or another one opened. */
void limpet_model_live_refresh(struct limpet_model *model,
			       const struct limpet_trace_reader *reader);

/* Call it once the figures are set: combines the losses recorded in the trace, those that the
 * figures count and those that a reader has found (`found`). The only place that decides `losses`,
 * `complete`, `exact` and `bounds`. */
void limpet_model_judge(struct limpet_model *model, uint64_t found);

/* Whether it is not complete for another reason than that the capture still runs. */
bool limpet_model_lacks_events(const struct limpet_model *model);

/* Finds `bounds` again after the totals were replaced by those of a part of the stacks. */
void limpet_model_bound_again(struct limpet_model *model);

/* In which a namer puts what it has found. It belongs to the model. */
struct limpet_model_symbols *limpet_model_symbol_table(struct limpet_model *model);

/* Frames of one address, innermost first. Returns their number; 0: no symbols for it. */
uint32_t limpet_model_symbols(const struct limpet_model *model, uint32_t module, uint64_t address,
			      const struct limpet_model_frame **ret_frames);
/* Every distinct (module, address) of the nodes, sorted by module and address: to be sealed. */
size_t limpet_model_addresses(const struct limpet_model *model,
			      const struct limpet_model_address **ret_addresses);

/* Whether the RSS of its points is known without limpet's own part. */
static inline bool limpet_model_has_own_part(const struct limpet_model *model)
{
	for (size_t i = 0; i < model->timeline_count; i++)
		if (model->timeline[i].agent_bytes)
			return true;
	return false;
}

/* Whether a module has this file name, such as "node", also with a version or a suffix. */
bool limpet_model_has_module(const struct limpet_model *model, const char *file);

/* Memory that belongs to no allocator that was followed, in the whole capture. */
struct limpet_unfollowed limpet_model_unfollowed(const struct limpet_model *model);

/* Whether another profiler recorded it: threads, mappings and what missed blocks are unknown, and
 * so is which of several blocks of a stack and a size was freed. */
static inline bool limpet_model_is_imported(const struct limpet_model *model)
{
	return model->target->recorder[0];
}

/* A page that came without a fault that was seen, in a trace of touched pages: it never had a
 * stack. */
static inline bool limpet_model_is_unfaulted(const struct limpet_model *model, uint32_t node)
{
	return model->target->pages && node < model->node_count && model->nodes[node].owner;
}
#define LIMPET_MODEL_UNFAULTED_WORDS "(came without a fault)"

/* What one of the trace's blocks is: "block", or "page" if it is a trace of touched pages. */
static inline const char *limpet_model_block_word(const struct limpet_model *model)
{
	return model->target->pages ? "page" : "block";
}
/* What it is while it counts: of pages it is known where they are, not what uses them. */
static inline const char *limpet_model_live_word(const struct limpet_model *model)
{
	return model->target->pages ? "resident" : "live";
}
/* "attach", "run" or "pages": how the trace was made. */
static inline const char *limpet_model_mode_word(const struct limpet_model *model)
{
	return model->target->pages                     ? "pages"
	       : model->target->mode == LIMPET_MODE_RUN ? "run"
							: "attach";
}

#endif
