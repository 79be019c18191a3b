/* What a search for lost blocks found, in the text report. */
#include <errno.h>
#include <stdlib.h>

#include "analyzer/text/report_printer.h"
#include "common/plain_text.h"

/* Sites shown of those that lost blocks, unless all are requested. */
#define LOSERS_SHOWN 5u

static void print_state(struct limpet_printer *printer, FILE *text, uint64_t blocks,
			const char *words)
{
	if (blocks)
		fprintf(text, "; %s %s", limpet_printer_count(printer, blocks), words);
}

static void print_total(struct limpet_printer *printer, FILE *text)
{
	const struct limpet_leak_counts *counts = printer->report->leaks;
	const struct limpet_lost total = limpet_lost_total(counts);
	const bool one = total.lost.blocks == 1;

	if (total.lost.blocks)
		fprintf(text, "%s block%s, %s %s %slost: nothing points to %s any more",
			limpet_printer_count(printer, total.lost.blocks), one ? "" : "s",
			limpet_printer_bytes(printer, total.lost.bytes), one ? "is" : "are",
			total.is_probable ? "probably " : "", one ? "it" : "them");
	else if (total.judged.blocks)
		fprintf(text, "No block is lost: pointers lead to all %s that %s",
			limpet_printer_count(printer, total.judged.blocks),
			counts->unjudged ? "were judged" : "are live");
	else
		fputs("No block is lost: none was judged", text);
	print_state(printer, text, counts->amounts.of[LIMPET_LEAK_STACK_ONLY].blocks,
		    "held from stacks alone");
	print_state(printer, text, counts->amounts.of[LIMPET_LEAK_POSSIBLY].blocks,
		    "by pointers into their midst alone");
	print_state(printer, text, counts->unjudged, "not judged");
}

/* "grow (via strdup), called by main" */
static int print_name(struct limpet_report *report, uint32_t node, FILE *text)
{
	struct limpet_report_names names = {.name = NULL};
	const int error = limpet_report_stack_names(report, node, &names);

	if (!error)
		fprintf(text, "%s%s%s%s%s%s", names.name ?: limpet_report_nameless(report, node),
			names.via ? " (via " : "", names.via ?: "", names.via ? ")" : "",
			names.caller ? ", called by " : "", names.caller ?: "");
	free(names.name);
	free(names.via);
	free(names.caller);
	return error;
}

static void print_loser(struct limpet_printer *printer, const struct limpet_report_site *site)
{
	LIMPET_FREE char *name = NULL;
	size_t length;
	FILE *text = open_memstream(&name, &length);
	int error = text ? print_name(printer->report, site->figures.node, text) : -ENOMEM;

	if (text && fclose(text))
		error = -ENOMEM;
	if (limpet_printer_check(printer, error))
		limpet_printer_line(printer, "", "  %10s  %8s of %-8s  %s",
				    limpet_printer_bytes(printer, site->lost.lost.bytes),
				    limpet_printer_count(printer, site->lost.lost.blocks),
				    limpet_printer_count(printer, site->lost.judged.blocks), name);
}

void limpet_report_lost_print(struct limpet_printer *printer)
{
	const struct limpet_report *report = printer->report;
	const size_t shown = printer->options->full || report->loser_count < LOSERS_SHOWN
				     ? report->loser_count
				     : LOSERS_SHOWN;
	LIMPET_FREE char *total = NULL;
	size_t length;
	FILE *text;

	if (!report->leaks)
		return;
	text = open_memstream(&total, &length);
	if (text)
		print_total(printer, text);
	if (!limpet_printer_check(printer, !text || fclose(text) ? -ENOMEM : 0))
		return;
	limpet_printer_line(printer, printer->options->bold, "Lost");
	limpet_printer_wrap(printer, "", 2, "- %s.", total);
	if (shown)
		limpet_printer_line(printer, printer->options->dim, "  %10s  %-20s  %s", "bytes",
				    "lost of live blocks", "site");
	for (size_t i = 0; i < shown; i++)
		print_loser(printer, &report->losers[i]);
	if (shown < report->loser_count)
		limpet_printer_line(printer, printer->options->dim, "  ... %zu more: --full",
				    report->loser_count - shown);
}

/* If most are lost, who holds the others matters less. */
char *limpet_report_site_lost(struct limpet_printer *printer, const struct limpet_lost *lost)
{
	const char *holder = lost->held && !limpet_lost_is_most(lost) ? lost->held->holder : NULL;
	char words[64] = "";
	char *text;

	if (lost->lost.blocks)
		snprintf(words, sizeof(words), "%s of %s %slost",
			 limpet_printer_count(printer, lost->lost.blocks),
			 limpet_printer_count(printer, lost->judged.blocks),
			 lost->is_probable ? "probably " : "");
	if (asprintf(&text, "%s%s%s%s", words, words[0] && holder ? "; " : "",
		     holder ? "held by " : "", holder ?: "") < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}
