#include "analyzer/text/report_markdown.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/views/verdict.h"

/* ------------------------------------------------------------------ text that is no markup */

static size_t longest_run(const char *text, char of)
{
	size_t longest = 0, run = 0;

	for (; *text; text++) {
		run = *text == of ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static void print_times(char what, size_t times, FILE *file)
{
	while (times--)
		fputc(what, file);
}

/* The fence is longer than any in the text. */
void limpet_markdown_print_code(const char *text, FILE *file)
{
	const size_t run = longest_run(text, '`'), fence = run < 3 ? 3 : run + 1;
	const size_t length = strlen(text);

	print_times('`', fence, file);
	fprintf(file, "text\n%s%s", text, length && text[length - 1] != '\n' ? "\n" : "");
	print_times('`', fence, file);
	fputc('\n', file);
}

/* A name within a cell of a table: there a bar ends the cell, even in code. */
static void print_name(const char *name, FILE *file)
{
	const size_t fence = longest_run(name, '`') + 1;
	const bool apart = name[0] == '`' || (name[0] && name[strlen(name) - 1] == '`');

	print_times('`', fence, file);
	fputs(apart ? " " : "", file);
	for (; *name; name++)
		fprintf(file, *name == '|' ? "\\%c" : "%c", *name);
	fputs(apart ? " " : "", file);
	print_times('`', fence, file);
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Whether it could be markup: an underscore within a word is none. */
static bool is_mark(const char *text, const char *at)
{
	if (*at == '_')
		return at == text || !is_word(at[-1]) || !is_word(at[1]);
	return strchr("\\`*{}[]<>|~&$", *at) != NULL;
}

/* A sentence with names in it. An empty comment keeps "@name" and "#1" from calling somebody, or
 * from linking an issue. */
static void print_sentence(const char *text, FILE *file)
{
	for (const char *at = text; *at; at++) {
		if (is_mark(text, at))
			fputc('\\', file);
		fputc(*at, file);
		if ((*at == '@' || *at == '#') && isalnum((unsigned char)at[1]))
			fputs("<!-- -->", file);
	}
}

/* ------------------------------------------------------------------ the report */

/* Parts of the text report as one block. */
static void print_parts(struct limpet_printer *printer,
			void (*const parts[])(struct limpet_printer *))
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	struct limpet_printer inner = *printer;

	inner.file = open_memstream(&text, &bytes);
	if (!limpet_printer_check(printer, inner.file ? 0 : -ENOMEM))
		return;
	for (size_t i = 0; parts[i]; i++)
		parts[i](&inner);
	if (limpet_printer_check(printer, fclose(inner.file) ? -ENOMEM : inner.error))
		limpet_markdown_print_code(text + strspn(text, "\n"), printer->file);
}

static void print_heading(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_trace_target *target = model->target;

	fputs("### ", printer->file);
	if (target->known)
		print_name(target->comm, printer->file);
	else
		fputs("unknown program", printer->file);
	if (target->pid)
		fprintf(printer->file, ", pid %u", target->pid);
	fprintf(printer->file, ", %s by %s\n\n",
		limpet_printer_duration(printer, model->to_ns - model->from_ns),
		limpet_model_mode_word(model));
}

static void print_findings(struct limpet_printer *printer)
{
	const struct limpet_verdict *verdict = printer->report->options.verdict;
	const struct limpet_heap_findings *findings = verdict ? &verdict->findings : NULL;

	for (size_t i = 0; verdict && i < LIMPET_VERDICT_SENTENCES && verdict->sentences[i]; i++) {
		fputs("**", printer->file);
		print_sentence(verdict->sentences[i], printer->file);
		fputs("**\n\n", printer->file);
	}

	if (printer->report->options.filters)
		fprintf(printer->file, LIMPET_REPORT_NO_FINDINGS "\n\n",
			printer->report->options.filters);
	if (!findings || !findings->count)
		return;
	for (size_t i = 0; i < findings->count; i++) {
		fputs("- ", printer->file);
		print_sentence(findings->list[i].text, printer->file);
		fputc('\n', printer->file);
	}
	fputc('\n', printer->file);
}

/* A column of its own, where it is known. */
static void print_lost(struct limpet_printer *printer, const struct limpet_report_site *site)
{
	LIMPET_FREE char *lost =
		printer->report->leaks ? limpet_report_site_lost(printer, &site->lost) : NULL;

	if (!limpet_printer_check(printer, printer->report->leaks && !lost ? -ENOMEM : 0) || !lost)
		return;
	fputc(' ', printer->file);
	print_sentence(lost, printer->file);
	fputs(" |", printer->file);
}

static void print_row(struct limpet_printer *printer, const struct limpet_report_site *site)
{
	const enum limpet_report_sort sort = printer->report->options.sort;
	const int64_t figure = limpet_report_figure(&site->figures, sort);
	struct limpet_report_names names = {.name = NULL};

	if (limpet_printer_check(printer, limpet_report_stack_names(printer->report,
								    site->figures.node, &names))) {
		fprintf(printer->file, "| %s | %s | ", limpet_printer_figure(printer, sort, figure),
			limpet_printer_share(printer, (uint64_t)figure,
					     limpet_report_sites_total(printer->report)));
		if (names.name)
			print_name(names.name, printer->file);
		else
			fputs(limpet_report_nameless(printer->report, site->figures.node),
			      printer->file);
		if (names.via) {
			fputs(", via ", printer->file);
			print_name(names.via, printer->file);
		}
		fputs(" | ", printer->file);
		if (names.caller)
			print_name(names.caller, printer->file);
		fputs(" |", printer->file);
		print_lost(printer, site);
		fputc('\n', printer->file);
	}
	free(names.name);
	free(names.via);
	free(names.caller);
}

static void print_table(struct limpet_printer *printer)
{
	const struct limpet_report *report = printer->report;

	if (!report->site_count ||
	    (report->estimates && report->options.sort == LIMPET_REPORT_TEMPORARY))
		return;
	fprintf(printer->file, "| %s | share | function | called by |%s\n|---:|---:|---|---|%s\n",
		limpet_printer_title(report->model, report->options.sort),
		report->leaks ? " lost |" : "", report->leaks ? "---|" : "");
	for (size_t i = 0; i < report->site_count && !printer->error; i++)
		print_row(printer, &report->sites[i]);
	fputc('\n', printer->file);
}

int limpet_report_markdown_print(struct limpet_report *report, bool full, FILE *file)
{
	static void (*const lost[])(struct limpet_printer *) = {limpet_report_lost_print, NULL};
	static void (*const head[])(struct limpet_printer *) = {limpet_report_head_print, NULL};
	static void (*const rest[])(struct limpet_printer *) = {limpet_report_sites_print,
								limpet_report_maps_print,
								limpet_report_sizes_print, NULL};
	const struct limpet_report_text_options plain = {
		.full = full, .bold = "", .dim = "", .warn = "", .plain = ""};
	struct limpet_printer printer = {.file = file, .options = &plain, .report = report};

	print_heading(&printer);
	print_findings(&printer);
	if (report->leaks) {
		print_parts(&printer, lost);
		fputc('\n', file);
	}
	print_table(&printer);
	print_parts(&printer, head);
	fputs("\n<details>\n<summary>Stacks</summary>\n\n", file);
	print_parts(&printer, rest);
	fputs("\n</details>\n", file);
	return printer.error;
}
