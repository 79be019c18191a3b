/* The totals in the head of the text report: live blocks, calls, and memory outside of the heap. */
#include "analyzer/text/report_printer.h"

/* Two figures and a word. */
#define BETWEEN (3 * LIMPET_UNITS_TEXT)

/* When allocations were sampled. */
static void print_overloads(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const size_t listed = 3;
	uint64_t all_ns = 0;

	if (!model->overload_count)
		return;
	for (size_t i = 0; i < model->overload_count; i++)
		all_ns += model->overloads[i].to_ns - model->overloads[i].from_ns;
	limpet_printer_row(printer, printer->options->warn, "overload",
			   "%s time%s, at least %s in all: allocations were sampled then",
			   limpet_printer_count(printer, model->overload_count),
			   limpet_printer_plural(model->overload_count),
			   limpet_printer_duration(printer, all_ns));
	for (size_t i = 0; i < model->overload_count && i < listed; i++)
		limpet_printer_row(printer, "", "", "%s to %s%s",
				   limpet_printer_duration(printer, model->overloads[i].from_ns),
				   limpet_printer_duration(printer, model->overloads[i].to_ns),
				   i + 1 == listed && i + 1 < model->overload_count ? ", and so on"
										    : "");
}

/* If nothing that is live was sampled by chance, the interval has no width: nothing is known of
 * what was not sampled. */
static void print_live_range(struct limpet_printer *printer, const struct limpet_model_range *bytes,
			     const struct limpet_model_range *blocks)
{
	if (bytes->low == bytes->high)
		limpet_printer_row(
			printer, "", "estimated",
			"live at least %s in %s block%s: what was not sampled is unknown",
			limpet_printer_bytes(printer, bytes->low),
			limpet_printer_count(printer, blocks->low),
			limpet_printer_plural(blocks->low));
	else
		limpet_printer_row(printer, "", "estimated",
				   "live %s to %s in %s to %s blocks, with 95 %% confidence",
				   limpet_printer_bytes(printer, bytes->low),
				   limpet_printer_bytes(printer, bytes->high),
				   limpet_printer_count(printer, blocks->low),
				   limpet_printer_count(printer, blocks->high));
}

/* For a sampled trace: the ranges of the figures, and those that it lacks. */
static void print_ranges(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	struct limpet_model_range ranges[LIMPET_FIGURE_COUNT];

	if (!model->sample_bytes)
		return;
	print_overloads(printer);
	for (unsigned i = 0; i < LIMPET_FIGURE_COUNT; i++)
		ranges[i] = limpet_model_estimates_range(
			&model->estimates, (enum limpet_model_figure)i, model->sample_bytes);
	print_live_range(printer, &ranges[LIMPET_FIGURE_LIVE_BYTES],
			 &ranges[LIMPET_FIGURE_LIVE_ALLOCATIONS]);
	limpet_printer_row(
		printer, "", "", "allocated %s to %s by %s to %s calls, from %s recorded",
		limpet_printer_bytes(printer, ranges[LIMPET_FIGURE_ALLOCATED_BYTES].low),
		limpet_printer_bytes(printer, ranges[LIMPET_FIGURE_ALLOCATED_BYTES].high),
		limpet_printer_count(printer, ranges[LIMPET_FIGURE_ALLOCATIONS].low),
		limpet_printer_count(printer, ranges[LIMPET_FIGURE_ALLOCATIONS].high),
		limpet_printer_count(printer, model->estimates.allocations.samples));
	limpet_printer_row(
		printer, "", "", "of sizes that a site shows no sample of, it may have %s more",
		limpet_printer_bytes(printer,
				     (uint64_t)limpet_estimate_unseen(
					     limpet_estimate_most_bytes(model->sample_bytes))));
	limpet_printer_row(printer, "", "",
			   "frees of older blocks and temporary "
			   "allocations are not counted");
}

/* Whether the RSS includes limpet's own part, which each tick has, unless it could not be read. */
static const char *format_own_part(char ret[BETWEEN], struct limpet_printer *printer, uint64_t rss)
{
	const struct limpet_trace_end *end = printer->report->model->end;
	const uint64_t most =
		end->agent_resident_bytes ? end->agent_resident_bytes : end->agent_memory_bytes;

	ret[0] = '\0';
	if (limpet_model_is_imported(printer->report->model))
		snprintf(ret, BETWEEN, ", with %.16s's own part",
			 printer->report->model->target->recorder);
	else if (limpet_model_has_own_part(printer->report->model))
		snprintf(ret, BETWEEN, ", without limpet's own part");
	else if (most >= rss)
		snprintf(ret, BETWEEN, ", with limpet's own part");
	else if (most)
		snprintf(ret, BETWEEN, ", of which limpet up to %s",
			 limpet_printer_bytes(printer, most));
	return ret;
}

/* Memory as the kernel counts it: the last known figures of the window, and the highest. */
static void print_memory(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	uint64_t limit_bytes = model->target->cgroup_limit_bytes;
	uint64_t rss = 0, highest_rss = 0, group = 0, highest_group = 0;
	/* Live bytes have their peak between: it may be higher. */
	const char *often = model->target->compact ? " at the ends of minutes" : "";
	char own[BETWEEN];

	for (size_t i = 0; i < model->timeline_count; i++) {
		const struct limpet_model_point *point = &model->timeline[i];
		const uint64_t point_rss = limpet_model_point_rss(point);

		rss = point_rss ? point_rss : rss;
		group = point->cgroup_bytes ? point->cgroup_bytes : group;
		if (point_rss > highest_rss)
			highest_rss = point_rss;
		if (point->cgroup_bytes > highest_group)
			highest_group = point->cgroup_bytes;
	}
	if (!rss)
		return;
	format_own_part(own, printer, highest_rss);
	if (!group) {
		limpet_printer_row(printer, "", "memory", "RSS %s, at most %s%s%s",
				   limpet_printer_bytes(printer, rss),
				   limpet_printer_bytes(printer, highest_rss), often, own);
		return;
	}
	limpet_printer_row(
		printer, "", "memory", "RSS %s, at most %s%s%s; cgroup %s, at most %s%s%s",
		limpet_printer_bytes(printer, rss), limpet_printer_bytes(printer, highest_rss),
		often, own, limpet_printer_bytes(printer, group),
		limpet_printer_bytes(printer, highest_group), limit_bytes ? ", limit " : "",
		limit_bytes ? limpet_printer_bytes(printer, limit_bytes) : "");
}

/* Each allocator, if there are several. */
static void print_owners(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	bool any = false;

	for (uint32_t i = 1; i <= model->owner_count; i++) {
		/* The others come last. */
		const struct limpet_model_owner *owner = &model->owners[i % model->owner_count];

		if (!owner->allocations && !owner->live_allocations)
			continue;
		limpet_printer_row(printer, "", any ? "" : "of these",
				   "%s: %s %s in %s %s%s, %s %s%s, %s in all",
				   owner->name[0]         ? owner->name
				   : model->target->pages ? "came by faults"
							  : "other allocators",
				   limpet_printer_bytes(printer, owner->live_bytes),
				   limpet_model_live_word(model),
				   limpet_printer_count(printer, owner->live_allocations),
				   limpet_model_block_word(model),
				   limpet_printer_plural(owner->live_allocations),
				   limpet_printer_count(printer, owner->allocations),
				   model->target->pages ? "came" : "allocation",
				   model->target->pages ? ""
							: limpet_printer_plural(owner->allocations),
				   limpet_printer_bytes(printer, owner->allocated_bytes));
		any = true;
	}
}

/* "12.0 MiB to 14.0 MiB": a figure's bounds, or its recorded value if they are unknown. */
static const char *between(char ret[BETWEEN], struct limpet_printer *printer, uint64_t value,
			   const struct limpet_model_bound *bound,
			   const char *(*say)(struct limpet_printer *printer, uint64_t value))
{
	if (bound->has_min && bound->has_max && bound->min == bound->max)
		snprintf(ret, BETWEEN, "%s", say(printer, value));
	else if (bound->has_min && bound->has_max)
		snprintf(ret, BETWEEN, "%s to %s", say(printer, bound->min),
			 say(printer, bound->max));
	else if (bound->has_min)
		snprintf(ret, BETWEEN, "at least %s", say(printer, bound->min));
	else if (bound->has_max)
		snprintf(ret, BETWEEN, "at most %s", say(printer, bound->max));
	else
		snprintf(ret, BETWEEN, "%s", say(printer, value));
	return ret;
}

static bool is_certain(const struct limpet_model_bound *bound)
{
	return bound->has_min && bound->has_max && bound->min == bound->max;
}

static bool is_unbound(const struct limpet_model_bound *bound)
{
	return !bound->has_min && !bound->has_max;
}

static void print_live(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_model_bounds *bounds = &model->bounds;
	char live[BETWEEN], blocks[BETWEEN], recorded[BETWEEN] = "";

	if (!limpet_losses_exact(model->losses & ~LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED)) &&
	    !(is_certain(&bounds->live_bytes) && is_certain(&bounds->live_allocations)))
		snprintf(recorded, sizeof(recorded), "; %s in %s recorded",
			 limpet_printer_bytes(printer, totals->live_bytes),
			 limpet_printer_count(printer, totals->live_allocations));
	if (recorded[0] && is_unbound(&bounds->live_bytes) &&
	    is_unbound(&bounds->live_allocations)) {
		limpet_printer_row(printer, printer->options->bold, limpet_model_live_word(model),
				   "recorded %s in %s %s%s%s; the true figure is not known",
				   limpet_printer_bytes(printer, totals->live_bytes),
				   limpet_printer_count(printer, totals->live_allocations),
				   limpet_model_block_word(model),
				   limpet_printer_plural(totals->live_allocations),
				   model->windowed ? " at the end of the window" : "");
		return;
	}
	limpet_printer_row(
		printer, printer->options->bold, limpet_model_live_word(model), "%s in %s %s%s%s%s",
		between(live, printer, totals->live_bytes, &bounds->live_bytes,
			limpet_printer_bytes),
		between(blocks, printer, totals->live_allocations, &bounds->live_allocations,
			limpet_printer_count),
		limpet_model_block_word(model), limpet_printer_plural(totals->live_allocations),
		recorded, model->windowed ? " at the end of the window" : "");
}

/* Pages that were touched, and the sum of what is known of the change of RSS beside the change
 * itself. */
static void print_pages(struct limpet_printer *printer, uint64_t window_ns)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_model_point *first = NULL, *last = NULL;
	const int64_t pages = (int64_t)totals->live_bytes - (int64_t)totals->foreign_freed_bytes;
	int64_t change;

	limpet_printer_row(printer, "", "pages", "%s touched (%s, %s in all), %s returned",
			   limpet_printer_count(printer, totals->allocations),
			   limpet_printer_rate(printer, totals->allocations, window_ns),
			   limpet_printer_bytes(printer, totals->allocated_bytes),
			   limpet_printer_count(printer, totals->frees));
	/* RSS is of all stacks. */
	if (printer->report->options.hidden)
		return;
	for (size_t i = 0; i < model->timeline_count && !model->windowed; i++) {
		if (!model->timeline[i].rss_bytes)
			continue;
		first = first ? first : &model->timeline[i];
		last = &model->timeline[i];
	}
	if (!first || first == last)
		return;
	change = (int64_t)last->rss_bytes - (int64_t)first->rss_bytes;
	limpet_printer_row(
		printer, "", "growth",
		"RSS %s: these pages %s, older ones that were returned %s, files and "
		"what is not known %s",
		limpet_printer_bytes_change(printer, change),
		limpet_printer_bytes_change(printer, (int64_t)totals->live_bytes),
		limpet_printer_bytes_change(printer, -(int64_t)totals->foreign_freed_bytes),
		limpet_printer_bytes_change(printer, change - pages));
}

/* The part of the window in which the blocks that are counted can have been allocated. */
static uint64_t allocating_ns(const struct limpet_model *model)
{
	const uint64_t from_ns = model->born && model->born_from_ns > model->from_ns
					 ? model->born_from_ns
					 : model->from_ns;
	const uint64_t to_ns =
		model->born && model->born_to_ns < model->to_ns ? model->born_to_ns : model->to_ns;

	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* The heap: live blocks, peak and calls. */
static void print_heap(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	const uint64_t window_ns = allocating_ns(model);
	struct limpet_model_bound peak = model->bounds.peak_bytes;
	char text[BETWEEN], reallocs[64] = "";

	/* Not "0 B": nothing is known of blocks from before the capture. */
	if (!printer->report->options.hidden && limpet_printer_is_empty(model)) {
		limpet_printer_print_empty(printer, model);
		return;
	}
	print_live(printer);
	if (model->windowed)
		limpet_printer_row(printer, "", "growth", "%s in the window",
				   limpet_printer_bytes_change(printer, totals->growth_bytes));
	/* As good as known, if only the order of threads is not. */
	if (model->exact && peak.max - peak.min <= totals->peak_bytes / 100)
		peak.has_min = peak.has_max = false;
	/* It may be less than what is live: the other blocks decide when it was. */
	limpet_printer_row(printer, "", "peak", "%s at %s%s",
			   between(text, printer, totals->peak_bytes, &peak, limpet_printer_bytes),
			   limpet_printer_duration(printer, totals->peak_ns),
			   printer->report->options.hidden ? ", the peak of the whole heap" : "");
	if (model->target->pages) {
		print_pages(printer, window_ns);
		return;
	}
	if (totals->reallocations)
		snprintf(reallocs, sizeof(reallocs), " (%s by realloc)",
			 limpet_printer_count(printer, totals->reallocations));
	limpet_printer_row(printer, "", "calls", "%s allocation%s (%s, %s in all), %s free%s%s",
			   limpet_printer_count(printer, totals->allocations),
			   limpet_printer_plural(totals->allocations),
			   limpet_printer_rate(printer, totals->allocations, window_ns),
			   limpet_printer_bytes(printer, totals->allocated_bytes),
			   limpet_printer_count(printer, totals->frees),
			   limpet_printer_plural(totals->frees), reallocs);
}

void limpet_report_totals_print(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	char text[BETWEEN];

	print_heap(printer);
	if (totals->temporary_allocations && !model->target->pages)
		limpet_printer_row(printer, "", "temporary",
				   "%s allocation%s (%s): freed before the next one",
				   limpet_printer_count(printer, totals->temporary_allocations),
				   limpet_printer_plural(totals->temporary_allocations),
				   limpet_printer_share(printer, totals->temporary_allocations,
							totals->allocations));
	print_owners(printer);
	print_memory(printer);
	print_ranges(printer);
	/* Sizes are unknown if limpet does not ask the allocator for a block's size. */
	if (totals->foreign_frees && !model->sample_bytes)
		limpet_printer_row(
			printer, "", "foreign",
			model->target->pages ? "%s older page%s returned, %s"
					     : "%s free%s of older blocks, %s",
			limpet_printer_count(printer, totals->foreign_frees),
			limpet_printer_plural(totals->foreign_frees),
			totals->foreign_freed_bytes
				? limpet_printer_bytes(printer, totals->foreign_freed_bytes)
				: "whose sizes are not known");
	if (totals->mmaps)
		limpet_printer_row(printer, "", "mapped", "%s by %s mmap call%s, %s still mapped",
				   limpet_printer_bytes(printer, totals->mmap_bytes),
				   limpet_printer_count(printer, totals->mmaps),
				   limpet_printer_plural(totals->mmaps),
				   between(text, printer, totals->mapped_bytes,
					   &model->bounds.mapped_bytes, limpet_printer_bytes));
}
