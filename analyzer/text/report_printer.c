#include "analyzer/text/report_printer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/plain_text.h"

const char limpet_printer_first_touch[] =
	"a page counts for the stack that touched it first: another function may keep it";

const char *limpet_printer_title(const struct limpet_model *model, enum limpet_report_sort sort)
{
	static const char *const of_blocks[LIMPET_REPORT_SORT_COUNT] = {
		"bytes held at the peak", "live bytes", "allocations", "bytes allocated",
		"temporary allocations",  "growth",
	};
	static const char *const of_pages[LIMPET_REPORT_SORT_COUNT] = {
		"pages resident at the peak",
		"resident pages first touched",
		"new pages touched",
		"bytes of new pages touched",
		"temporary pages",
		"growth",
	};

	return (model->target->pages ? of_pages : of_blocks)[sort];
}

static char *slot(struct limpet_printer *printer)
{
	return printer->units[printer->next++ % LIMPET_COUNT_OF(printer->units)];
}

const char *limpet_printer_bytes(struct limpet_printer *printer, uint64_t value)
{
	return limpet_units_format_bytes(slot(printer), value);
}

const char *limpet_printer_pid(struct limpet_printer *printer, const struct limpet_model *model)
{
	char *text = slot(printer);

	text[0] = '\0';
	if (model->target->pid)
		snprintf(text, LIMPET_UNITS_TEXT, " (pid %u)", model->target->pid);
	return text;
}

const char *limpet_printer_bytes_change(struct limpet_printer *printer, int64_t value)
{
	return limpet_units_format_bytes_change(slot(printer), value);
}

const char *limpet_printer_count(struct limpet_printer *printer, uint64_t value)
{
	return limpet_units_format_count(slot(printer), value);
}

const char *limpet_printer_figure(struct limpet_printer *printer, enum limpet_report_sort sort,
				  int64_t figure)
{
	if (sort == LIMPET_REPORT_GROWTH)
		return limpet_printer_bytes_change(printer, figure);
	if (sort == LIMPET_REPORT_ALLOCATIONS || sort == LIMPET_REPORT_TEMPORARY)
		return limpet_printer_count(printer, (uint64_t)figure);
	return limpet_printer_bytes(printer, (uint64_t)figure);
}

const char *limpet_printer_duration(struct limpet_printer *printer, uint64_t ns)
{
	return limpet_units_format_duration(slot(printer), ns);
}

const char *limpet_printer_time(struct limpet_printer *printer, uint64_t ns)
{
	return limpet_units_format_time(slot(printer), ns);
}

const char *limpet_printer_stop(struct limpet_printer *printer, uint64_t us)
{
	char *out = slot(printer);

	if (us >= 1000000)
		return limpet_units_format_duration(out, us * 1000);
	snprintf(out, LIMPET_UNITS_TEXT, "%.2f ms", (double)us / 1000);
	return out;
}

const char *limpet_printer_rate(struct limpet_printer *printer, uint64_t value, uint64_t ns)
{
	double per_second = ns ? (double)value * 1e9 / (double)ns : 0;

	return limpet_units_format_rate(slot(printer),
					per_second < 1e18 ? (uint64_t)per_second : 0);
}

const char *limpet_printer_plural(uint64_t value)
{
	return value == 1 ? "" : "s";
}

bool limpet_printer_is_empty(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;

	return !totals->allocations && !totals->live_allocations && !totals->peak_bytes;
}

void limpet_printer_print_empty(struct limpet_printer *printer, const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	char frees[64] = "", mmaps[64] = "", munmaps[64] = "";

	if (totals->foreign_frees)
		snprintf(frees, sizeof(frees),
			 model->target->pages ? ", %s older page%s returned"
					      : ", %s free%s of older blocks",
			 limpet_printer_count(printer, totals->foreign_frees),
			 limpet_printer_plural(totals->foreign_frees));
	if (totals->mmaps)
		snprintf(mmaps, sizeof(mmaps), ", %s mmap call%s",
			 limpet_printer_count(printer, totals->mmaps),
			 limpet_printer_plural(totals->mmaps));
	if (totals->munmaps)
		snprintf(munmaps, sizeof(munmaps), ", %s munmap call%s",
			 limpet_printer_count(printer, totals->munmaps),
			 limpet_printer_plural(totals->munmaps));
	limpet_printer_line(printer, printer->options->bold, "%s%s%s%s%s",
			    model->target->pages ? "pages     no new page was touched"
						 : "calls     no allocation was seen",
			    frees, mmaps, munmaps,
			    totals->events || model->target->pages ? "" : ", nor any other call");
}

size_t limpet_printer_losses(const struct limpet_model *model,
			     struct limpet_model_loss ret[LIMPET_LOSS_COUNT])
{
	const uint64_t elsewhere =
		LIMPET_LOSS_BIT(LIMPET_LOSS_SAMPLED) |
		limpet_loss_if(model->end->end == LIMPET_END_RUNNING, LIMPET_LOSS_UNFINISHED);
	const size_t all = limpet_model_losses(model, ret);
	size_t count = 0;

	for (size_t i = 0; i < all; i++)
		if (!(LIMPET_LOSS_BIT(ret[i].loss) & elsewhere))
			ret[count++] = ret[i];
	return count;
}

const char *limpet_printer_share(struct limpet_printer *printer, uint64_t part, uint64_t whole)
{
	char *out = slot(printer);
	double percent = whole ? 100.0 * (double)part / (double)whole : 0;

	if (!whole || percent > 100.0)
		out[0] = '\0';
	else if (percent > 0 && percent < 1)
		snprintf(out, LIMPET_UNITS_TEXT, "<1 %%");
	else
		snprintf(out, LIMPET_UNITS_TEXT, "%.0f %%", percent);
	return out;
}

void limpet_printer_cut(char *text, size_t columns, bool at_start)
{
	size_t have = limpet_plain_text_columns(text);
	char *p = text;

	if (have <= columns)
		return;
	if (columns <= 3) {
		text[0] = '\0';
		return;
	}
	if (at_start) {
		for (size_t drop = have - (columns - 3); drop && *p; drop--) {
			p++;
			while (((unsigned char)*p & 0xc0) == 0x80)
				p++;
		}
		memmove(text + 3, p, strlen(p) + 1);
		memcpy(text, "...", 3);
		return;
	}
	for (size_t keep = columns - 3; keep && *p; keep--) {
		p++;
		while (((unsigned char)*p & 0xc0) == 0x80)
			p++;
	}
	memcpy(p, "...", 4);
}

/* Like vasprintf(), but the text is harmless. NULL after any error. */
__attribute__((format(printf, 2, 0))) static char *format_text(struct limpet_printer *printer,
							       const char *format, va_list args)
{
	char *out = NULL;

	if (printer->error)
		return NULL;
	if (!limpet_printer_check(printer, vasprintf(&out, format, args) < 0 ? -ENOMEM : 0))
		return NULL;
	return limpet_plain_text_clean(out);
}

void limpet_printer_line(struct limpet_printer *printer, const char *style, const char *format, ...)
{
	LIMPET_FREE char *out = NULL;
	va_list args;

	va_start(args, format);
	out = format_text(printer, format, args);
	va_end(args);
	if (!out)
		return;
	if (printer->options->width)
		limpet_printer_cut(out, printer->options->width, false);
	fprintf(printer->file, "%s%s%s\n", style, out, style[0] ? printer->options->plain : "");
}

/* The last space from byte `from` on at which the line fits, else the first; NULL: the line fits,
 * or cannot be broken. */
static char *line_end(char *line, size_t from, size_t width)
{
	char *end = NULL, *at = line + (strlen(line) < from ? strlen(line) : from);

	if (limpet_plain_text_columns(line) <= width)
		return NULL;
	for (; (at = strchr(at, ' ')); at++) {
		/* A figure stays with its unit. */
		if (at > line && at[-1] >= '0' && at[-1] <= '9')
			continue;
		*at = '\0';
		if (!end || limpet_plain_text_columns(line) <= width)
			end = at;
		*at = ' ';
	}
	return end;
}

void limpet_printer_wrap(struct limpet_printer *printer, const char *style, unsigned indent,
			 const char *format, ...)
{
	const size_t width = printer->options->width ? printer->options->width : SIZE_MAX;
	LIMPET_FREE char *text = NULL;
	char *line;
	va_list args;

	va_start(args, format);
	text = format_text(printer, format, args);
	va_end(args);
	for (line = text; line;) {
		const bool first = line == text;
		char *end = line_end(line, first ? indent : 0,
				     first || width < indent ? width : width - indent);

		if (end)
			*end = '\0';
		limpet_printer_line(printer, style, "%*s%s", first ? 0 : (int)indent, "", line);
		line = end ? end + 1 : NULL;
	}
}

void limpet_printer_row(struct limpet_printer *printer, const char *style, const char *word,
			const char *format, ...)
{
	LIMPET_FREE char *text = NULL;
	va_list args;

	va_start(args, format);
	text = format_text(printer, format, args);
	va_end(args);
	if (text)
		limpet_printer_wrap(printer, style, 10, "%-9s %s", word, text);
}

void limpet_printer_blank(struct limpet_printer *printer)
{
	if (!printer->error)
		fputc('\n', printer->file);
}

const char *limpet_printer_moment(struct limpet_printer *printer, const struct limpet_model *model,
				  uint64_t time_ns, char ret[LIMPET_PRINTER_MOMENT])
{
	const char *text = limpet_printer_time(printer, time_ns);

	for (size_t i = 0; i < model->mark_count; i++)
		if (model->marks[i].time_ns == time_ns) {
			snprintf(ret, LIMPET_PRINTER_MOMENT, "%s (%s)", model->marks[i].name, text);
			return ret;
		}
	snprintf(ret, LIMPET_PRINTER_MOMENT, "%s", text);
	return ret;
}

bool limpet_printer_format_names(const struct limpet_model *model, char ret[LIMPET_PRINTER_NAMES])
{
	static const char words[] = "from the files as they are now: the capture still runs";

	if (!model->names_looked_up)
		return false;
	if (model->names_left)
		snprintf(ret, LIMPET_PRINTER_NAMES, "%s; no time for %zu address%s", words,
			 model->names_left, model->names_left == 1 ? "" : "es");
	else
		snprintf(ret, LIMPET_PRINTER_NAMES, "%s", words);
	return true;
}

void limpet_printer_names(struct limpet_printer *printer, const struct limpet_model *model)
{
	char words[LIMPET_PRINTER_NAMES];

	if (limpet_printer_format_names(model, words))
		limpet_printer_row(printer, "", "names", "%s", words);
	else if (model->end->end != LIMPET_END_RUNNING && !model->symbols_complete)
		limpet_printer_row(printer, "", "names",
				   model->sealed ? "some were not looked up: limpet seal adds them"
						 : "not looked up: limpet seal adds them");
}

const char *limpet_printer_format_births(struct limpet_printer *printer,
					 const struct limpet_model *model,
					 char ret[LIMPET_PRINTER_BIRTHS])
{
	char from[LIMPET_PRINTER_MOMENT] = "the start", to[LIMPET_PRINTER_MOMENT] = "the end";

	if (model->born_from_ns)
		limpet_printer_moment(printer, model, model->born_from_ns, from);
	if (model->born_to_ns != UINT64_MAX)
		limpet_printer_moment(printer, model, model->born_to_ns, to);
	snprintf(ret, LIMPET_PRINTER_BIRTHS, "%ss %s between %s and %s",
		 limpet_model_block_word(model),
		 model->target->pages ? "first touched" : "allocated", from, to);
	return ret;
}

void limpet_printer_births(struct limpet_printer *printer, const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	const bool whole = model->to_ns >= model->duration_ns;
	const char *block = limpet_model_block_word(model);
	char born[LIMPET_PRINTER_BIRTHS], end[LIMPET_PRINTER_MOMENT] = "the end";

	if (!model->born)
		return;
	if (!whole)
		limpet_printer_moment(printer, model, model->to_ns, end);
	limpet_printer_row(printer, "", "born", "%s, %s in %s %s%s still %s at %s",
			   limpet_printer_format_births(printer, model, born),
			   limpet_printer_bytes(printer, totals->live_bytes),
			   limpet_printer_count(printer, totals->live_allocations), block,
			   limpet_printer_plural(totals->live_allocations),
			   limpet_model_live_word(model), end);
}
