#include "analyzer/model/model_bounds.h"

void limpet_model_bounds_set_missing(struct limpet_model_missing *missing,
				     const struct limpet_trace_period *period)
{
	*missing = (struct limpet_model_missing){
		.dropped = period->dropped,
		.dropped_events = period->dropped_events,
		.unseen_calls = period->unseen_calls,
		.untracked_allocations = period->totals.counts.untracked,
		.untracked_bytes = period->totals.counts.untracked_bytes,
		.inferred_frees = period->totals.inferred_frees,
		.late_inferred_frees = period->inferred_frees,
		.late_inferred_bytes = period->inferred_bytes,
		.losses = period->losses,
	};
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The figures of a trace may be anything: results saturate. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Dropped events of unknown kind. */
static uint64_t of_no_kind(const struct limpet_model_missing *missing)
{
	const struct limpet_dropped *dropped = &missing->dropped;

	return minus(missing->dropped_events, plus(plus(dropped->allocations, dropped->frees),
						   plus(dropped->mmaps, dropped->munmaps)));
}

/* No block is larger. For a window, the sizes before it are not known. */
static uint64_t largest_block(const struct limpet_model *model)
{
	if (!model->size_count || model->from_ns)
		return UINT64_MAX;
	return model->sizes[model->size_count - 1].to_bytes;
}

static bool is_window(const struct limpet_model *model)
{
	return model->from_ns || model->to_ns < model->duration_ns;
}

/* Whether the bounds know all losses, aside from `aside`. Any other loss may include events that
 * were not counted. */
static bool are_counted(const struct limpet_model *model, uint64_t aside)
{
	const uint64_t known =
		LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED) | LIMPET_LOSS_BIT(LIMPET_LOSS_UNSEEN) |
		LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED) | LIMPET_LOSS_BIT(LIMPET_LOSS_INFERRED);

	return limpet_losses_exact(model->losses & ~(known | aside));
}

/* Touched pages whose stacks are lost are found by the last scan, which a capture takes unless the
 * program ended before: only whose they are is unknown then, and how many there were before. */
static bool scanned_last(const struct limpet_model *model)
{
	const enum limpet_end end = model->end->end;

	return model->target->pages && model->to_ns >= model->duration_ns &&
	       (end == LIMPET_END_DURATION || end == LIMPET_END_INTERRUPT ||
		end == LIMPET_END_STOP);
}

struct missed {
	uint64_t calls;              /* of unknown kind */
	uint64_t frees, freed_bytes; /* at most, of blocks in the accounting */
	uint64_t still_frees,
		still_bytes; /* of these, blocks that are live in the accounting at the end */
	uint64_t allocations, allocated_bytes;
	bool frees_known, allocations_known; /* there are no more than these */
};

static struct missed find_missed(const struct limpet_model *model)
{
	const struct limpet_model_missing *missing = &model->missing;
	const struct limpet_dropped *dropped = &missing->dropped;
	const uint64_t calls = plus(of_no_kind(missing), missing->unseen_calls);
	const uint64_t unsized = plus(calls, dropped->unsized_frees);
	/* For a window, a block whose free is inferred may be live at its end. */
	const bool takes_off = !is_window(model);
	const uint64_t off = takes_off ? missing->late_inferred_frees : 0;
	struct missed missed = {
		.calls = calls,
		.frees = plus(dropped->frees, calls),
		.allocations = plus(dropped->allocations, missing->untracked_allocations),
		.allocated_bytes = plus(dropped->allocated_bytes, missing->untracked_bytes),
		.allocations_known = !calls,
	};

	missed.freed_bytes = least(
		plus(dropped->freed_bytes, times(unsized, unsized ? largest_block(model) : 0)),
		times(missed.frees, largest_block(model)));
	missed.still_frees = minus(missed.frees, off);
	/* If the size of one is unknown, so is which of them was inferred. */
	missed.still_bytes =
		!missed.still_frees ? 0
		: unsized           ? missed.freed_bytes
			  : minus(missed.freed_bytes, takes_off ? missing->late_inferred_bytes : 0);
	missed.still_bytes =
		least(missed.still_bytes, times(missed.still_frees, largest_block(model)));
	/* Otherwise more frees were missed than were counted. */
	missed.frees_known = missing->inferred_frees <= missing->late_inferred_frees &&
			     missing->late_inferred_frees <= missed.frees;
	return missed;
}

static struct limpet_model_bound bound_of(uint64_t is, uint64_t less, uint64_t more, bool has_min,
					  bool has_max)
{
	return (struct limpet_model_bound){.min = minus(is, less),
					   .max = plus(is, more),
					   .has_min = has_min,
					   .has_max = has_max};
}

/* Mappings beyond the collector's memory have no count. */
static struct limpet_model_bound bound_mapped(const struct limpet_model *model,
					      const struct missed *missed)
{
	const struct limpet_dropped *dropped = &model->missing.dropped;
	const bool untracked = model->losses & LIMPET_LOSS_BIT(LIMPET_LOSS_UNTRACKED);

	return bound_of(model->totals.mapped_bytes,
			missed->calls ? UINT64_MAX : dropped->munmap_bytes, dropped->mmap_bytes,
			true, !missed->calls && !untracked);
}

/* By how much the peak may be less and more than the recorded one, since the order of threads is
 * not known. */
struct unordered {
	uint64_t less, more;
};

/* For a window it is only known that its peak is no lower than where the window begins and ends,
 * and no higher than the capture's. */
static struct unordered find_unordered(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_trace_end *end = model->end;
	const uint64_t peak = totals->peak_bytes, live = totals->live_bytes;
	const uint64_t at_edge =
		totals->growth_bytes < 0 ? plus(live, -(uint64_t)totals->growth_bytes) : live;

	if (!end->has_peak || model->sample_bytes)
		return (struct unordered){0, 0};
	return (struct unordered){
		.less = minus(peak, is_window(model) ? at_edge : end->peak_min),
		.more = minus(end->peak_max, peak),
	};
}

void limpet_model_bounds_find(struct limpet_model *model, bool whole)
{
	const uint64_t stacks =
		limpet_loss_if(whole && scanned_last(model), LIMPET_LOSS_STACKS) & model->losses;
	const struct limpet_model_totals *totals = &model->totals;
	const struct missed missed = find_missed(model);
	const struct unordered order = find_unordered(model);
	struct limpet_model_bounds *bounds = &model->bounds;

	*bounds = (struct limpet_model_bounds){.unseen_frees = missed.still_frees};
	if (!are_counted(model, stacks))
		return;
	bounds->live_bytes =
		bound_of(totals->live_bytes, missed.still_bytes, missed.allocated_bytes,
			 missed.frees_known, missed.allocations_known);
	bounds->live_allocations =
		bound_of(totals->live_allocations, missed.still_frees, missed.allocations,
			 missed.frees_known, missed.allocations_known);
	bounds->mapped_bytes = bound_mapped(model, &missed);
	/* What a part of the stacks held at the peak depends on when it was. */
	if (stacks || (!whole && (order.less || order.more)))
		return;
	bounds->peak_bytes = bound_of(totals->peak_bytes, plus(order.less, missed.freed_bytes),
				      plus(order.more, missed.allocated_bytes), missed.frees_known,
				      missed.allocations_known);
}
