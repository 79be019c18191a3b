#include "analyzer/text/report_text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/views/verdict.h"
#include "common/plain_text.h"

/* Frames shown of a stack unless all are requested. */
#define FRAMES_SHOWN 12
/* Mappings shown, and their frames: few, since the report is about the heap. */
#define MAPS_SHOWN 3
#define MAP_FRAMES_SHOWN 4
#define BAR_COLUMNS 24

const char limpet_report_not_temporary[] = "Samples do not say which allocations are temporary.";

uint64_t limpet_report_sites_total(const struct limpet_report *report)
{
	const struct limpet_model_totals *totals = &report->model->totals;

	switch (report->options.sort) {
	case LIMPET_REPORT_PEAK:
		return totals->peak_bytes;
	case LIMPET_REPORT_LIVE:
		return totals->live_bytes;
	case LIMPET_REPORT_ALLOCATIONS:
		return totals->allocations;
	case LIMPET_REPORT_ALLOCATED:
		return totals->allocated_bytes;
	case LIMPET_REPORT_TEMPORARY:
		return totals->temporary_allocations;
	case LIMPET_REPORT_GROWTH: /* some sites shrink: there is no whole */
	case LIMPET_REPORT_SORT_COUNT:
		break;
	}
	return 0;
}

/* The figures that are not in the site's heading. */
static int site_detail(struct limpet_printer *printer, const struct limpet_report_site *site,
		       char **ret_detail)
{
	const struct limpet_model_site *figures = &site->figures;
	enum limpet_report_sort sort = printer->report->options.sort;
	const char *block = limpet_model_block_word(printer->report->model);
	char stacks[48] = "";

	if (site->stacks > 1)
		snprintf(stacks, sizeof(stacks), "; %zu stacks", site->stacks);
	/* In a window, resident pages may be older than it. */
	if (printer->report->model->target->pages)
		return asprintf(ret_detail,
				printer->report->model->windowed
					? "%s resident; %s page%s touched in the window, %s; %s at "
					  "peak%s"
					: "%s of %s page%s resident, %s touched; %s at peak%s",
				limpet_printer_count(printer, figures->live_allocations),
				limpet_printer_count(printer, figures->allocations),
				limpet_printer_plural(figures->allocations),
				limpet_printer_bytes(printer, figures->allocated_bytes),
				limpet_printer_bytes(printer, figures->peak_bytes), stacks);
	/* In a window, live blocks may be older than it. */
	if (printer->report->model->windowed &&
	    (sort == LIMPET_REPORT_LIVE || sort == LIMPET_REPORT_GROWTH))
		return asprintf(ret_detail,
				"%s %s%s live; %s allocation%s in the window, %s; %s at peak%s",
				limpet_printer_count(printer, figures->live_allocations), block,
				limpet_printer_plural(figures->live_allocations),
				limpet_printer_count(printer, figures->allocations),
				limpet_printer_plural(figures->allocations),
				limpet_printer_bytes(printer, figures->allocated_bytes),
				limpet_printer_bytes(printer, figures->peak_bytes), stacks);
	if (sort == LIMPET_REPORT_LIVE || sort == LIMPET_REPORT_GROWTH)
		return asprintf(ret_detail, "%s of %s %s%s live, %s allocated; %s at peak%s",
				limpet_printer_count(printer, figures->live_allocations),
				limpet_printer_count(printer, figures->allocations), block,
				limpet_printer_plural(figures->allocations),
				limpet_printer_bytes(printer, figures->allocated_bytes),
				limpet_printer_bytes(printer, figures->peak_bytes), stacks);
	if (sort == LIMPET_REPORT_PEAK)
		return asprintf(ret_detail, "in %s %s%s; %s allocation%s, %s; live %s%s",
				limpet_printer_count(printer, figures->peak_allocations), block,
				limpet_printer_plural(figures->peak_allocations),
				limpet_printer_count(printer, figures->allocations),
				limpet_printer_plural(figures->allocations),
				limpet_printer_bytes(printer, figures->allocated_bytes),
				limpet_printer_bytes(printer, figures->live_bytes), stacks);
	return asprintf(ret_detail, "%s allocation%s, %s;%s%s%s live %s%s",
			limpet_printer_count(printer, figures->allocations),
			limpet_printer_plural(figures->allocations),
			limpet_printer_bytes(printer, figures->allocated_bytes),
			printer->report->estimates ? "" : " ",
			printer->report->estimates
				? ""
				: limpet_printer_count(printer, figures->temporary_allocations),
			printer->report->estimates ? "" : " temporary;",
			limpet_printer_bytes(printer, figures->live_bytes), stacks);
}

/* For a sampled trace: the range of the site's figure. */
static int add_range(struct limpet_printer *printer, const struct limpet_report_site *site,
		     char **detail)
{
	const struct limpet_report *report = printer->report;
	enum limpet_report_sort sort = report->options.sort;
	enum limpet_model_figure figure = sort == LIMPET_REPORT_LIVE ? LIMPET_FIGURE_LIVE_BYTES
					  : sort == LIMPET_REPORT_ALLOCATIONS
						  ? LIMPET_FIGURE_ALLOCATIONS
						  : LIMPET_FIGURE_ALLOCATED_BYTES;
	LIMPET_FREE char *before = *detail;
	struct limpet_model_range range;
	const char *low, *high;

	range = limpet_model_estimates_range(&report->estimates[site->estimates], figure,
					     report->model->sample_bytes);
	low = limpet_printer_figure(printer, sort, (int64_t)range.low);
	high = limpet_printer_figure(printer, sort, (int64_t)range.high);
	*detail = NULL;
	if (sort == LIMPET_REPORT_PEAK || sort == LIMPET_REPORT_GROWTH)
		return asprintf(detail, "estimated; %s", before);
	if (range.low == range.high)
		return asprintf(detail, "at least %s; %s", low, before);
	return asprintf(detail, "estimated: %s to %s; %s", low, high, before);
}

static int add_lost(struct limpet_printer *printer, const struct limpet_report_site *site,
		    char **detail)
{
	LIMPET_FREE char *lost = limpet_report_site_lost(printer, &site->lost);
	LIMPET_FREE char *before = *detail;

	*detail = NULL;
	return lost ? asprintf(detail, "%s%s%s", before, lost[0] ? "; " : "", lost) : -1;
}

static void print_site(struct limpet_printer *printer, size_t number,
		       const struct limpet_report_site *site)
{
	enum limpet_report_sort sort = printer->report->options.sort;
	int64_t figure = limpet_report_figure(&site->figures, sort);
	LIMPET_FREE char *detail = NULL;
	char figures[96];

	snprintf(figures, sizeof(figures), "%3zu  %10s  %5s", number,
		 limpet_printer_figure(printer, sort, figure),
		 limpet_printer_share(printer, (uint64_t)figure,
				      limpet_report_sites_total(printer->report)));
	if (site_detail(printer, site, &detail) < 0 ||
	    (printer->report->estimates && add_range(printer, site, &detail) < 0) ||
	    add_lost(printer, site, &detail) < 0) {
		detail = NULL;
		limpet_printer_check(printer, -ENOMEM);
		return;
	}
	limpet_report_stack_print(printer, site->figures.node, figures, detail, FRAMES_SHOWN);
}

void limpet_report_sites_print(struct limpet_printer *printer)
{
	const struct limpet_report *report = printer->report;
	enum limpet_report_sort sort = report->options.sort;
	uint64_t total = limpet_report_sites_total(report);

	assert(sort < LIMPET_REPORT_SORT_COUNT);
	/* Findings say it, too. */
	if (report->model->target->pages && !report->options.verdict)
		limpet_printer_row(printer, "", "stacks", "%s", limpet_printer_first_touch);
	limpet_printer_blank(printer);
	if (report->estimates && sort == LIMPET_REPORT_TEMPORARY) {
		limpet_printer_line(printer, printer->options->bold, "%s",
				    limpet_report_not_temporary);
		return;
	}
	if (!report->all_sites) {
		limpet_printer_line(printer, printer->options->bold, "No site has any %s%s.",
				    limpet_printer_title(report->model, sort),
				    report->model->totals.allocated_bytes
					    ? "; `--sort allocated` lists all that allocated"
					    : "");
		return;
	}
	limpet_printer_line(printer, printer->options->bold, "Top %zu of %zu site%s by %s%s%s%s%s",
			    report->site_count, report->all_sites,
			    limpet_printer_plural(report->all_sites),
			    limpet_printer_title(report->model, sort), total ? ": " : "",
			    total ? limpet_printer_share(printer, report->shown_figure, total) : "",
			    total ? " of " : "",
			    total ? limpet_printer_figure(printer, sort, (int64_t)total) : "");
	for (size_t i = 0; i < report->site_count && !printer->error && !ferror(printer->file);
	     i++) {
		limpet_printer_blank(printer);
		print_site(printer, i + 1, &report->sites[i]);
	}
}

void limpet_report_maps_print(struct limpet_printer *printer)
{
	const struct limpet_report *report = printer->report;
	size_t shown = 0;

	if (!report->map_count || !report->maps[0].figures.mapped_bytes)
		return;
	limpet_printer_blank(printer);
	limpet_printer_line(printer, printer->options->bold, "Mapped by mmap and not unmapped: %s",
			    limpet_printer_bytes(printer, report->model->totals.mapped_bytes));
	for (size_t i = 0; i < report->map_count && shown < MAPS_SHOWN; i++) {
		const struct limpet_model_map_site *site = &report->maps[i].figures;
		char figures[96], detail[160];

		if (!site->mapped_bytes)
			break;
		snprintf(figures, sizeof(figures), "%3zu  %10s  %5s", i + 1,
			 limpet_printer_bytes(printer, site->mapped_bytes),
			 limpet_printer_share(printer, site->mapped_bytes,
					      report->model->totals.mapped_bytes));
		snprintf(detail, sizeof(detail), "%s mmap call%s, %s in all",
			 limpet_printer_count(printer, site->mmaps),
			 limpet_printer_plural(site->mmaps),
			 limpet_printer_bytes(printer, site->mmap_bytes));
		limpet_printer_blank(printer);
		limpet_report_stack_print(printer, site->node, figures, detail, MAP_FRAMES_SHOWN);
		shown++;
	}
}

/* ------------------------------------------------------------------ sizes */

void limpet_report_sizes_print(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	uint64_t most = 0;

	/* Pages have one size. */
	if (!model->size_count || model->target->pages)
		return;
	for (size_t i = 0; i < model->size_count; i++) {
		if (model->sizes[i].allocations > most)
			most = model->sizes[i].allocations;
	}
	limpet_printer_blank(printer);
	limpet_printer_line(printer, printer->options->bold, "Sizes of allocations");
	limpet_printer_line(printer, printer->options->dim, "%10s %10s  %8s  %5s  %10s", "from",
			    "below", "calls", "", "bytes");
	for (size_t i = 0; i < model->size_count; i++) {
		const struct limpet_model_size *size = &model->sizes[i];
		unsigned columns =
			most ? (unsigned)(BAR_COLUMNS * ((double)size->allocations / (double)most) +
					  0.5)
			     : 0;
		char bar[BAR_COLUMNS + 1];

		if (columns > BAR_COLUMNS)
			columns = BAR_COLUMNS;
		if (!columns && size->allocations)
			columns = 1;
		memset(bar, '#', columns);
		bar[columns] = '\0';
		limpet_printer_line(
			printer, "", "%10s %10s  %8s  %5s  %10s  %s",
			limpet_printer_bytes(printer, size->from_bytes),
			limpet_printer_bytes(printer, size->to_bytes < UINT64_MAX
							      ? size->to_bytes + 1
							      : UINT64_MAX),
			limpet_printer_count(printer, size->allocations),
			limpet_printer_share(printer, size->allocations, model->totals.allocations),
			limpet_printer_bytes(printer, size->allocated_bytes), bar);
	}
}

/* ------------------------------------------------------------------ findings */

static void print_verdict(struct limpet_printer *printer)
{
	const struct limpet_verdict *verdict = printer->report->options.verdict;

	if (!verdict)
		return;
	limpet_printer_line(printer, printer->options->bold, "Verdict");
	for (size_t i = 0; i < LIMPET_VERDICT_SENTENCES && verdict->sentences[i]; i++)
		limpet_printer_wrap(printer, "", 2, "- %s", verdict->sentences[i]);
	if (printer->options->full && verdict->about.evidence)
		limpet_printer_wrap(printer, printer->options->dim, 2, "  %s",
				    verdict->about.evidence);
	limpet_printer_blank(printer);
}

static void print_finding(struct limpet_printer *printer, const struct limpet_heap_finding *finding)
{
	limpet_printer_wrap(printer, "", 2, "- %s", finding->text);
	if (printer->options->full && finding->evidence)
		limpet_printer_wrap(printer, printer->options->dim, 4, "  %s", finding->evidence);
}

static void print_findings(struct limpet_printer *printer)
{
	const struct limpet_verdict *verdict = printer->report->options.verdict;
	const struct limpet_heap_findings *findings = verdict ? &verdict->findings : NULL;

	if (printer->report->options.filters) {
		limpet_printer_wrap(printer, printer->options->dim, 0, LIMPET_REPORT_NO_FINDINGS,
				    printer->report->options.filters);
		limpet_printer_blank(printer);
	}
	if (!findings || !findings->count)
		return;
	limpet_printer_line(printer, printer->options->bold, "Findings");
	for (size_t i = 0; i < findings->count; i++)
		print_finding(printer, &findings->list[i]);
	limpet_printer_blank(printer);
}

static void print_lost(struct limpet_printer *printer)
{
	limpet_report_lost_print(printer);
	if (printer->report->leaks)
		limpet_printer_blank(printer);
}

int limpet_report_text_print(struct limpet_report *report,
			     const struct limpet_report_text_options *options, FILE *file)
{
	struct limpet_printer printer = {.file = file, .options = options, .report = report};
	static void (*const parts[])(struct limpet_printer *) = {
		print_verdict,
		print_findings,
		print_lost,
		limpet_report_head_print,
		limpet_report_sites_print,
		limpet_report_maps_print,
		limpet_report_sizes_print,
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(parts) && !ferror(file); i++)
		parts[i](&printer);
	return printer.error;
}
