/* The head of the text report: target, window, losses, totals. */
#include <string.h>

#include "analyzer/model/model_losses.h"
#include "analyzer/render/report_printer.h"

/* Two figures and a word. */
#define BETWEEN (3 * LIMPET_UNITS_TEXT)

static const char *end_words(const struct limpet_trace_end *end)
{
	switch (end->end) {
	case LIMPET_END_RUNNING:
		return "still running";
	case LIMPET_END_DURATION:
		return "ended after its duration";
	case LIMPET_END_INTERRUPT:
		return "ended by interrupt";
	case LIMPET_END_STOP:
		return "ended by limpet stop";
	case LIMPET_END_TARGET_EXIT:
		return "ended as the target exited";
	case LIMPET_END_TARGET_EXEC:
		return "ended as the target executed another program";
	case LIMPET_END_TARGET_KILLED:
		return "ended as the target was killed";
	case LIMPET_END_DISK_FULL:
		return "ended as the disk was full";
	case LIMPET_END_SIZE_LIMIT:
		return "ended at the size limit";
	case LIMPET_END_COLLECTOR_LOST:
		return "the collector died";
	case LIMPET_END_COUNT:
		break;
	}
	return "ended for an unknown reason";
}

static void print_target(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_trace_target *target = model->target;

	if (target->known && target->unseen_rss_share >= 0)
		limpet_printer_row(printer, printer->options->warn, "partial",
				   "%.0f %% of RSS is out of reach: the figures are of the rest",
				   100.0 * target->unseen_rss_share);
	if (!target->known) {
		limpet_printer_row(printer, printer->options->warn, "target",
				   "unknown: the head of the trace is damaged");
		return;
	}
	limpet_printer_row(printer, "", "target", "%s (pid %u), %s%s%s", target->comm, target->pid,
			   target->executable[0] ? target->executable : "executable unknown",
			   target->allocators[0] ? ", " : "", target->allocators);
	if (target->command[0] && strcmp(target->command, target->executable) != 0 &&
	    strcmp(target->command, target->comm) != 0)
		limpet_printer_row(printer, "", "command", "%s", target->command);
	if (target->host[0])
		limpet_printer_row(printer, "", "host", "%s%s%s%s%s%s%.12s", target->host,
				   target->kernel[0] ? ", kernel " : "", target->kernel,
				   target->machine[0] ? " " : "", target->machine,
				   target->container[0] ? ", container " : "", target->container);
}

static void print_window(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_trace_target *target = model->target;
	const struct limpet_trace_end *end = model->end;

	limpet_printer_row(printer, "", "capture", "%s by %s%s%s%s, %s",
			   limpet_printer_duration(printer, model->duration_ns),
			   target->mode == LIMPET_MODE_RUN ? "run" : "attach",
			   model->sample_bytes ? ", a sample every " : "",
			   model->sample_bytes ? limpet_printer_bytes(printer, model->sample_bytes)
					       : "",
			   !model->sample_bytes    ? ""
			   : model->overload_count ? " allocated while overloaded"
						   : " allocated",
			   end_words(end));
	if (model->windowed || model->widened)
		limpet_printer_row(printer, "", "window",
				   "%s to %s: all figures below are of this time%s",
				   limpet_printer_duration(printer, model->from_ns),
				   limpet_printer_duration(printer, model->to_ns),
				   model->widened ? ", since sums are kept by the minute" : "");
	if (end->attach_stop_us >= 0 || end->detach_stop_us >= 0)
		limpet_printer_row(
			printer, "", "stopped", "%s to attach, %s to leave%s",
			end->attach_stop_us >= 0
				? limpet_printer_stop(printer, (uint64_t)end->attach_stop_us)
				: "unknown",
			end->detach_stop_us >= 0
				? limpet_printer_stop(printer, (uint64_t)end->detach_stop_us)
				: "unknown",
			end->agent_unloaded ? "" : "; the agent stayed in the target, dormant");
	if (end->agent_resident_bytes)
		limpet_printer_row(printer, "", "agent",
				   "at most %s of memory in the target, of %s mapped",
				   limpet_printer_bytes(printer, end->agent_resident_bytes),
				   limpet_printer_bytes(printer, end->agent_memory_bytes));
	else if (end->agent_memory_bytes)
		limpet_printer_row(printer, "", "agent",
				   "%s mapped in the target at most; how much of it was "
				   "resident is not known",
				   limpet_printer_bytes(printer, end->agent_memory_bytes));
}

/* Of events that were dropped: what they were, as far as that is known. */
static const char *say_kinds(char ret[3 * BETWEEN], struct limpet_printer *printer)
{
	const struct limpet_dropped *dropped = &printer->report->model->missing.dropped;
	const uint64_t maps = dropped->mmaps + dropped->munmaps;
	const size_t room = 3 * BETWEEN;
	size_t used = 0;

	ret[0] = '\0';
	if (dropped->allocations)
		used += (size_t)snprintf(ret, room, ": %s allocation%s (%s)",
					 limpet_printer_count(printer, dropped->allocations),
					 limpet_printer_plural(dropped->allocations),
					 limpet_printer_bytes(printer, dropped->allocated_bytes));
	if (dropped->frees)
		used += (size_t)snprintf(ret + used, room - used, "%s %s free%s", used ? "," : ":",
					 limpet_printer_count(printer, dropped->frees),
					 limpet_printer_plural(dropped->frees));
	if (maps)
		snprintf(ret + used, room - used, "%s %s of mmap and its like", used ? "," : ":",
			 limpet_printer_count(printer, maps));
	return ret;
}

/* Nothing is missing; and whether there is anything else that the program allocates by. */
static void print_none(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_unfollowed unfollowed = limpet_model_unfollowed(model);
	bool all = unfollowed.has_growth && !unfollowed.matters;
	const char *allocators = model->target->allocators;
	const char *where = model->compact || model->given_up_ns ? "figures" : "trace";

	if (!model->complete || model->overload_count || model->sample_bytes)
		limpet_printer_row(printer, "", "losses", "none%s",
				   !model->complete        ? " so far"
				   : model->overload_count ? " but by sampling"
							   : ": every sample is in the trace");
	else if (all)
		limpet_printer_row(printer, "", "losses", "none: every event is in the %s", where);
	else
		limpet_printer_row(printer, "", "losses", "none: every event of %s is in the %s",
				   allocators[0] ? allocators : "the allocators that were followed",
				   where);
}

/* Not a loss: nobody looked there. */
static void print_unfollowed(struct limpet_printer *printer)
{
	const struct limpet_unfollowed unfollowed = limpet_model_unfollowed(printer->report->model);
	char words[512];

	if (!unfollowed.matters)
		return;
	limpet_unfollowed_say(&unfollowed, words, sizeof(words));
	limpet_printer_row(printer, printer->options->warn, "unseen", "%s", words);
}

/* What is counted, each in a line. *said gets the losses that these lines are of. */
static void print_counts(struct limpet_printer *printer, uint64_t *said)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_trace_damage *damage = model->damage;
	const struct {
		uint64_t value;
		enum limpet_loss loss;
		const char *one, *many;
	} list[] = {
		{totals->dropped_events, LIMPET_LOSS_DROPPED, "event dropped", "events dropped"},
		{totals->unseen_calls, LIMPET_LOSS_UNSEEN, "call not recorded",
		 "calls not recorded"},
		/* Mappings that the collector's memory did not hold have no count. */
		{totals->untracked_allocations, LIMPET_LOSS_UNTRACKED,
		 "allocation beyond the collector's memory",
		 "allocations beyond the collector's memory"},
		{totals->inferred_frees, LIMPET_LOSS_INFERRED, "free not seen", "frees not seen"},
		{totals->truncated_stacks, LIMPET_LOSS_TRUNCATED, "stack cut short",
		 "stacks cut short"},
		{damage->blocks_damaged + damage->blocks_lost, LIMPET_LOSS_DAMAGED,
		 "block of the trace damaged", "blocks of the trace damaged"},
	};
	char kinds[3 * BETWEEN];

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		if (!list[i].value)
			continue;
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses",
				   "%s %s%s", limpet_printer_count(printer, list[i].value),
				   list[i].value == 1 ? list[i].one : list[i].many,
				   i ? "" : say_kinds(kinds, printer));
		*said |= LIMPET_LOSS_BIT(list[i].loss);
	}
	if (damage->truncated) {
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses",
				   "the file is cut short: what came later is missing");
		*said |= LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED);
	}
}

/* What a loss takes from the report. */
static const char *taken(const struct limpet_model_loss *loss)
{
	if (loss->incomplete)
		return "the trace is not complete";
	return LIMPET_LOSS_BIT(loss->loss) & LIMPET_LOSSES_OF_A_READER
		       ? "sites and peak are approximate"
		       : "the figures are not exact";
}

/* Each reason that no line above has said; at last what those mean that are counted. */
static void print_reasons(struct limpet_printer *printer, uint64_t *said)
{
	/* The words of a sample stand elsewhere; that it is still running, too. */
	const uint64_t elsewhere =
		LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED) |
		limpet_loss_if(printer->report->model->end->end == LIMPET_END_RUNNING,
			       LIMPET_LOSS_UNFINISHED);
	const uint64_t above = *said | elsewhere;
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_model_losses(printer->report->model, losses);
	bool incomplete = false, inexact = false, named = false;

	for (size_t i = 0; i < count; i++) {
		incomplete |=
			losses[i].incomplete && !(LIMPET_LOSS_BIT(losses[i].loss) & elsewhere);
		inexact |= losses[i].inexact && !(LIMPET_LOSS_BIT(losses[i].loss) & elsewhere);
	}
	for (size_t i = 0; i < count; i++) {
		if (above & LIMPET_LOSS_BIT(losses[i].loss))
			continue;
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses", "%s: %s",
				   taken(&losses[i]), losses[i].words);
		named |= losses[i].incomplete || !incomplete;
		*said |= LIMPET_LOSS_BIT(losses[i].loss);
	}
	if (!named && (incomplete || inexact))
		limpet_printer_row(printer, printer->options->warn, "", "%s",
				   incomplete ? "the trace is not complete"
					      : "the figures are not exact");
}

/* What is missing, or that nothing is. */
static void print_losses(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	uint64_t said = 0;

	print_counts(printer, &said);
	print_reasons(printer, &said);
	if (!said)
		print_none(printer);
	if (model->compact)
		limpet_printer_row(printer, "", "kept", "sums by the minute, no single events");
	if (model->given_up_ns)
		limpet_printer_row(printer, "", "kept", "events from %s on; of all before, sums",
				   limpet_printer_duration(printer, model->given_up_ns));
}

/* When was recorded in full and when not. */
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
			   "%s time%s, %s in all: allocations were sampled then, and "
			   "all recorded otherwise",
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

/* Of a sampled trace: how far the figures may be off, and which there are not. */
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
	limpet_printer_row(
		printer, "", "estimated", "live %s to %s in %s to %s blocks, with 95 %% confidence",
		limpet_printer_bytes(printer, ranges[LIMPET_FIGURE_LIVE_BYTES].low),
		limpet_printer_bytes(printer, ranges[LIMPET_FIGURE_LIVE_BYTES].high),
		limpet_printer_count(printer, ranges[LIMPET_FIGURE_LIVE_ALLOCATIONS].low),
		limpet_printer_count(printer, ranges[LIMPET_FIGURE_LIVE_ALLOCATIONS].high));
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

/* Of the RSS: whether limpet's own part, which each tick but those of older traces knows, is in it.
 */
static const char *say_own_part(char ret[BETWEEN], struct limpet_printer *printer, uint64_t rss)
{
	const struct limpet_trace_end *end = printer->report->model->end;
	const uint64_t most =
		end->agent_resident_bytes ? end->agent_resident_bytes : end->agent_memory_bytes;

	ret[0] = '\0';
	if (limpet_model_has_own_part(printer->report->model))
		snprintf(ret, BETWEEN, ", without limpet's own part");
	else if (most >= rss)
		snprintf(ret, BETWEEN, ", with limpet's own part");
	else if (most)
		snprintf(ret, BETWEEN, ", of which limpet up to %s",
			 limpet_printer_bytes(printer, most));
	return ret;
}

/* Memory as the kernel counts it: the last figures of the window that are known, and the highest.
 */
static void print_memory(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	uint64_t limit_bytes = model->target->cgroup_limit_bytes;
	uint64_t rss = 0, highest_rss = 0, group = 0, highest_group = 0;
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
	say_own_part(own, printer, highest_rss);
	if (!group) {
		limpet_printer_row(printer, "", "memory", "RSS %s, at most %s%s",
				   limpet_printer_bytes(printer, rss),
				   limpet_printer_bytes(printer, highest_rss), own);
		return;
	}
	limpet_printer_row(
		printer, "", "memory", "RSS %s, at most %s%s; cgroup %s, at most %s%s%s",
		limpet_printer_bytes(printer, rss), limpet_printer_bytes(printer, highest_rss), own,
		limpet_printer_bytes(printer, group), limpet_printer_bytes(printer, highest_group),
		limit_bytes ? ", limit " : "",
		limit_bytes ? limpet_printer_bytes(printer, limit_bytes) : "");
}

/* Each of several allocators. */
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
				   "%s: %s live in %s block%s, %s allocation%s, %s in all",
				   owner->name[0] ? owner->name : "other allocators",
				   limpet_printer_bytes(printer, owner->live_bytes),
				   limpet_printer_count(printer, owner->live_allocations),
				   limpet_printer_plural(owner->live_allocations),
				   limpet_printer_count(printer, owner->allocations),
				   limpet_printer_plural(owner->allocations),
				   limpet_printer_bytes(printer, owner->allocated_bytes));
		any = true;
	}
}

/* "12.0 MiB to 14.0 MiB": between what a figure lies, as it was recorded where nothing is known. */
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
		limpet_printer_row(printer, printer->options->bold, "live",
				   "recorded %s in %s block%s%s; the true figure is not known",
				   limpet_printer_bytes(printer, totals->live_bytes),
				   limpet_printer_count(printer, totals->live_allocations),
				   limpet_printer_plural(totals->live_allocations),
				   model->windowed ? " at the end of the window" : "");
		return;
	}
	limpet_printer_row(printer, printer->options->bold, "live", "%s in %s block%s%s%s",
			   between(live, printer, totals->live_bytes, &bounds->live_bytes,
				   limpet_printer_bytes),
			   between(blocks, printer, totals->live_allocations,
				   &bounds->live_allocations, limpet_printer_count),
			   limpet_printer_plural(totals->live_allocations), recorded,
			   model->windowed ? " at the end of the window" : "");
}

/* Of the heap: what it holds, and the calls. */
static void print_heap(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	uint64_t window_ns = model->to_ns > model->from_ns ? model->to_ns - model->from_ns : 0;
	char text[BETWEEN];

	/* No "0 B": of what there was before the capture nothing is known. */
	if (!printer->report->options.hidden && limpet_printer_is_empty(model)) {
		limpet_printer_say_empty(printer, model);
		return;
	}
	print_live(printer);
	if (model->windowed)
		limpet_printer_row(printer, "", "growth", "%s in the window",
				   limpet_printer_bytes_change(printer, totals->growth_bytes));
	limpet_printer_row(printer, "", "peak", "%s at %s",
			   between(text, printer, totals->peak_bytes, &model->bounds.peak_bytes,
				   limpet_printer_bytes),
			   limpet_printer_duration(printer, totals->peak_ns));
	limpet_printer_row(printer, "", "calls", "%s allocation%s (%s, %s in all), %s free%s",
			   limpet_printer_count(printer, totals->allocations),
			   limpet_printer_plural(totals->allocations),
			   limpet_printer_rate(printer, totals->allocations, window_ns),
			   limpet_printer_bytes(printer, totals->allocated_bytes),
			   limpet_printer_count(printer, totals->frees),
			   limpet_printer_plural(totals->frees));
}

static void print_totals(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	char text[BETWEEN];

	print_heap(printer);
	if (totals->temporary_allocations)
		limpet_printer_row(printer, "", "temporary",
				   "%s allocation%s (%s): freed before the next one",
				   limpet_printer_count(printer, totals->temporary_allocations),
				   limpet_printer_plural(totals->temporary_allocations),
				   limpet_printer_share(printer, totals->temporary_allocations,
							totals->allocations));
	print_owners(printer);
	print_memory(printer);
	print_ranges(printer);
	/* An allocator that is not asked what a block holds leaves their sizes unknown. */
	if (totals->foreign_frees && !model->sample_bytes)
		limpet_printer_row(
			printer, "", "foreign", "%s free%s of older blocks, %s",
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

static void print_hidden(struct limpet_printer *printer)
{
	const struct limpet_model_site *hidden = printer->report->options.hidden;

	if (!hidden)
		return;
	limpet_printer_row(printer, "", "filtered", "hides %s live of %s allocation%s, %s in all",
			   limpet_printer_bytes(printer, hidden->live_bytes),
			   limpet_printer_count(printer, hidden->allocations),
			   limpet_printer_plural(hidden->allocations),
			   limpet_printer_bytes(printer, hidden->allocated_bytes));
}

void limpet_report_head_print(struct limpet_printer *printer)
{
	print_target(printer);
	print_window(printer);
	print_hidden(printer);
	print_losses(printer);
	print_unfollowed(printer);
	print_totals(printer);
}
