/* The losses in the head of the text report, or that there are none. */
#include "analyzer/text/report_printer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base_name.h"
#include "common/err.h"

/* Five figures and their words. */
#define KINDS_TEXT (9 * LIMPET_UNITS_TEXT)

/* The kinds of the dropped events, as far as they are known. */
static const char *format_kinds(char ret[KINDS_TEXT], struct limpet_printer *printer)
{
	const struct limpet_dropped *dropped = &printer->report->model->missing.dropped;
	const uint64_t maps = dropped->mmaps + dropped->munmaps;
	const size_t room = KINDS_TEXT;
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

/* Where more than half of the stacks end whose walk did not reach the thread's root, as words that
 * follow their count; "": in no one module. */
static const char *format_where_cut(char ret[KINDS_TEXT], const struct limpet_model *model)
{
	LIMPET_FREE uint32_t *stacks = calloc(model->module_count + 1, sizeof(*stacks));
	uint32_t most = 0, all = 0;

	ret[0] = '\0';
	for (uint32_t i = 1; stacks && i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];

		if (!node->truncated)
			continue;
		all++;
		if (++stacks[node->module] > stacks[most])
			most = node->module;
	}
	if (most && stacks[most] > all / 2)
		snprintf(ret, KINDS_TEXT, ", most of them in %s",
			 limpet_base_name(model->modules[most].path));
	return ret;
}

/* Nothing is missing; names the allocators if the program may have others. */
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
	else if (model->target->pages)
		limpet_printer_row(printer, "", "losses",
				   "none: every fault that the kernel reported is in the trace");
	else if (all)
		limpet_printer_row(printer, "", "losses", "none: every event is in the %s", where);
	else
		limpet_printer_row(
			printer, "", "losses", "none: every event of %s is in the %s%s%s",
			allocators[0] ? allocators : "the allocators that were followed", where,
			unfollowed.names[0] ? "; nothing of " : "", unfollowed.names);
}

/* The losses with a count, one line each. Adds them to *said. */
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
	char words[KINDS_TEXT];

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		if (!list[i].value)
			continue;
		limpet_printer_row(
			printer, printer->options->warn, *said ? "" : "losses", "%s %s%s",
			limpet_printer_count(printer, list[i].value),
			list[i].value == 1 ? list[i].one : list[i].many,
			list[i].loss == LIMPET_LOSS_DROPPED     ? format_kinds(words, printer)
			: list[i].loss == LIMPET_LOSS_TRUNCATED ? format_where_cut(words, model)
								: "");
		*said |= LIMPET_LOSS_BIT(list[i].loss);
	}
	if (damage->bad_lines) {
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses",
				   "%s line%s of the file left out, as %s no sense; the first is "
				   "line %" PRIu64,
				   limpet_printer_count(printer, damage->bad_lines),
				   limpet_printer_plural(damage->bad_lines),
				   damage->bad_lines == 1 ? "it makes" : "they make",
				   damage->first_bad_line);
		*said |= LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
	}
	if (damage->truncated && damage->lines) {
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses",
				   "the file is cut short or damaged after line %" PRIu64
				   ": what came later is missing",
				   damage->lines);
		*said |= LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED);
	} else if (damage->truncated) {
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses",
				   "the file is cut short: what came later is missing");
		*said |= LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED);
	}
}

/* What a loss means for the report. */
static const char *meaning_of(const struct limpet_model_loss *loss)
{
	if (loss->incomplete)
		return "the trace is not complete";
	return LIMPET_LOSS_BIT(loss->loss) & LIMPET_LOSSES_OF_A_READER
		       ? "sites and peak are approximate"
		       : "the figures are not exact";
}

/* Each reason without a line above; then what the counted losses mean. */
static void print_reasons(struct limpet_printer *printer, uint64_t *said)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_printer_losses(printer->report->model, losses);
	bool incomplete = false, inexact = false, named = false;

	for (size_t i = 0; i < count; i++) {
		incomplete |= losses[i].incomplete;
		inexact |= losses[i].inexact;
	}
	for (size_t i = 0; i < count; i++) {
		if (*said & LIMPET_LOSS_BIT(losses[i].loss))
			continue;
		limpet_printer_row(printer, printer->options->warn, *said ? "" : "losses", "%s: %s",
				   meaning_of(&losses[i]), losses[i].words);
		named |= losses[i].incomplete || !incomplete;
		*said |= LIMPET_LOSS_BIT(losses[i].loss);
	}
	if (!named && (incomplete || inexact))
		limpet_printer_row(printer, printer->options->warn, "", "%s",
				   incomplete ? "the trace is not complete"
					      : "the figures are not exact");
}

void limpet_report_unfollowed_print(struct limpet_printer *printer)
{
	const struct limpet_unfollowed unfollowed = limpet_model_unfollowed(printer->report->model);
	char words[512];

	if (!unfollowed.matters)
		return;
	limpet_unfollowed_format(&unfollowed, words, sizeof(words));
	limpet_printer_row(printer, printer->options->warn, "unseen", "%s", words);
}

void limpet_report_losses_print(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	uint64_t said = 0;

	print_counts(printer, &said);
	print_reasons(printer, &said);
	if (!said)
		print_none(printer);
	if (limpet_model_is_imported(model))
		limpet_printer_row(printer, "", "unknown",
				   "not in files of %s: threads, mappings (mmap), reallocations, "
				   "frees of older blocks, which pages are resident, and which of "
				   "several blocks of one stack and size was freed (lifetimes)",
				   model->target->recorder);
	if (model->compact)
		limpet_printer_row(printer, "", "kept", "sums by the minute, no single events");
	if (model->given_up_ns)
		limpet_printer_row(printer, "", "kept", "events from %s on; of all before, sums",
				   limpet_printer_duration(printer, model->given_up_ns));
}
