/* One entry of the text report: figures, function, stack. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/report_printer.h"
#include "analyzer/views/recursion.h"
#include "common/base_name.h"
#include "common/plain_text.h"

/* A frame's name; malloc'ed. */
static char *frame_name(const struct limpet_frame *frame, bool full)
{
	char *out = NULL;

	if (frame->function && !full)
		out = limpet_demangle_shorten(frame->function);
	else if (frame->function)
		out = strdup(frame->function);
	else if (asprintf(&out, frame->module ? "%s+0x%" PRIx64 : "%s 0x%" PRIx64,
			  frame->module ? limpet_base_name(frame->module)
					: limpet_frame_nameless(frame->made),
			  frame->offset) < 0)
		out = NULL;
	return out ? limpet_plain_text_clean(out) : NULL;
}

/* A frame's place: file and line, or the module's name unless it is the program itself;
 * malloc'ed. */
static char *frame_place(const struct limpet_printer *printer, const struct limpet_frame *frame)
{
	const char *program = printer->report->model->target->executable;
	char *out = NULL;
	int n = 0;

	if (frame->file && frame->line)
		n = asprintf(&out, "%s:%u", frame->file, frame->line);
	else if (frame->file)
		n = asprintf(&out, "%s", frame->file);
	else if (frame->function && frame->module && strcmp(frame->module, program) != 0)
		n = asprintf(&out, "%s", limpet_base_name(frame->module));
	else
		n = asprintf(&out, "%s", "");
	return n < 0 ? NULL : limpet_plain_text_clean(out);
}

/* " name place"; with a width, the name has at least half of it. Both are cut at the start (scopes,
 * directories): the end says more. */
static void print_frame(struct limpet_printer *printer, const struct limpet_frame *frame,
			const char *indent, const char *note)
{
	LIMPET_FREE char *name = frame_name(frame, printer->options->full);
	LIMPET_FREE char *place = frame_place(printer, frame);
	size_t room = printer->options->width ? printer->options->width - strlen(indent) : 0;
	size_t note_columns = strlen(note);

	if (!limpet_printer_check(printer, name && place ? 0 : -ENOMEM) || !name || !place)
		return;
	if (room) {
		size_t columns = limpet_plain_text_columns(place);
		size_t most;

		room = room > note_columns ? room - note_columns : 0;
		if (columns > room / 2) {
			size_t left = limpet_plain_text_columns(name) + 2;

			/* A long place may use what a short name leaves. */
			most = left < room / 2 ? room - left : room / 2;
			limpet_printer_cut(place, most, true);
			columns = limpet_plain_text_columns(place);
		}
		limpet_printer_cut(name, room - (columns ? columns + 2 : 0), true);
	}
	fprintf(printer->file, "%s%s%s", indent, name, note);
	if (place[0])
		fprintf(printer->file, "  %s%s%s", printer->options->dim, place,
			printer->options->dim[0] ? printer->options->plain : "");
	fputc('\n', printer->file);
}

/* In code that the program generated, without a name. */
static bool is_unnamed(const struct limpet_frame *frame)
{
	return !frame->module && !frame->function;
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Recursion: the same call, as it is shown. */
static bool is_repeated(const struct limpet_frame *a, const struct limpet_frame *b)
{
	return a->function && is_same_text(a->function, b->function) &&
	       is_same_text(a->module, b->module) && is_same_text(a->file, b->file) &&
	       a->line == b->line && a->inlined == b->inlined;
}

/* The shown frames, innermost first. */
struct shown {
	const struct limpet_frame **list;
	size_t count;
};

static bool is_same(const void *context, size_t a, size_t b)
{
	const struct shown *shown = context;

	return is_repeated(shown->list[a], shown->list[b]);
}

/* How many frames from `at` on have no name: they are one line. */
static size_t unnamed_at(const struct shown *shown, size_t at)
{
	size_t run = 0;

	while (at + run < shown->count && is_unnamed(shown->list[at + run]))
		run++;
	return run;
}

static void print_run(struct limpet_printer *printer, const struct limpet_frame *frame, size_t run,
		      const char *indent)
{
	char note[40] = "";

	if (run > 1 && is_unnamed(frame))
		snprintf(note, sizeof(note), " and %zu more", run - 1);
	else if (run > 1)
		snprintf(note, sizeof(note), " x%zu%s", run, frame->inlined ? " (inlined)" : "");
	else if (frame->inlined)
		snprintf(note, sizeof(note), " (inlined)");
	print_frame(printer, frame, indent, note);
}

/* Prints what begins at `at`, unless `full` as one line, or as the lines of a series that is
 * repeated. Returns how many frames that was, and adds the lines. */
static size_t print_part(struct limpet_printer *printer, const struct shown *shown, size_t at,
			 const char *indent, size_t *lines)
{
	struct limpet_recursion series = {1, 1};
	const size_t unnamed = printer->options->full ? 0 : unnamed_at(shown, at);

	if (unnamed > 1)
		series.times = unnamed;
	else if (!printer->options->full)
		series = limpet_recursion_at(at, shown->count, is_same, shown);
	*lines += series.length;
	if (series.length == 1) {
		print_run(printer, shown->list[at], series.times, indent);
		return series.times;
	}
	for (size_t i = 0; i < series.length; i++)
		print_run(printer, shown->list[at + i], 1, indent);
	limpet_printer_line(printer, printer->options->dim, "%s(these %zu frames x%zu)", indent,
			    series.length, series.times);
	return series.length * series.times;
}

static void print_stack(struct limpet_printer *printer, const struct limpet_report_stack *stack,
			const bool *keep, const char *indent, size_t limit)
{
	LIMPET_FREE const struct limpet_frame **list = calloc(stack->count + 1, sizeof(*list));
	struct shown shown = {.list = list};
	size_t at = 0, lines = 0;

	if (!limpet_printer_check(printer, list ? 0 : -ENOMEM))
		return;
	for (size_t i = 0; i < stack->count; i++)
		if (keep[i])
			list[shown.count++] = &stack->frames[i];
	while (at < shown.count && (printer->options->full || lines < limit))
		at += print_part(printer, &shown, at, indent, &lines);
	if (at < shown.count)
		limpet_printer_line(printer, printer->options->dim, "%s... %zu more frame%s",
				    indent, shown.count - at,
				    limpet_printer_plural(shown.count - at));
	if (stack->truncated)
		limpet_printer_line(printer, printer->options->dim,
				    "%s(the stack was cut short here)", indent);
	if (stack->lost)
		limpet_printer_line(printer, printer->options->dim,
				    "%s(the rest stood in a damaged block)", indent);
}

static void print_heading(struct limpet_printer *printer, const char *figures, char *name,
			  const char *via)
{
	if (printer->options->width) {
		size_t taken = strlen(figures) + 2;

		if (via)
			taken += strlen(" (via )") + limpet_plain_text_columns(via);
		/* A `via` that is too long is cut off at the end of the line. */
		if (taken + 8 < printer->options->width)
			limpet_printer_cut(name, printer->options->width - taken, true);
	}
	limpet_printer_line(printer, printer->options->bold, "%s  %s%s%s%s", figures, name,
			    via ? " (via " : "", via ? via : "", via ? ")" : "");
}

/* A stack without the frames that say nothing, and the names of its heading. Begins as all zeros.
 */
struct named_stack {
	struct limpet_report_stack stack;
	bool *keep; /* of each frame */
	size_t first;
	char *name, *via; /* `via` NULL: none */
};

static void named_stack_done(struct named_stack *named)
{
	free(named->keep);
	free(named->name);
	free(named->via);
}

static int fold_stack(struct named_stack *named, bool full)
{
	const struct limpet_report_stack *stack = &named->stack;
	LIMPET_FREE enum limpet_frame_kind *kinds = calloc(stack->count, sizeof(*kinds));
	struct limpet_frame_filter fold;

	named->keep = calloc(stack->count, sizeof(*named->keep));
	if (!kinds || !named->keep)
		return -ENOMEM;
	for (size_t i = 0; i < stack->count; i++)
		kinds[i] = stack->frames[i].kind;
	fold = limpet_frame_filter_stack(kinds, stack->count, named->keep);
	/* The library's function that the program called says what the memory is for; malloc does
	 * not. */
	if (fold.via != SIZE_MAX && kinds[fold.via] == LIMPET_FRAME_LIBRARY &&
	    stack->frames[fold.via].function)
		named->via = frame_name(&stack->frames[fold.via], false);
	if (full)
		memset(named->keep, true, stack->count);
	named->first = fold.first;
	named->name = frame_name(&stack->frames[fold.first], false);
	return named->name ? 0 : -ENOMEM;
}

/* Without a name: the stack is unknown. */
static int name_stack(struct limpet_report *report, uint32_t node, bool full,
		      struct named_stack *ret)
{
	const int error = limpet_report_expand(report, node, &ret->stack);

	return error || !ret->stack.count ? error : fold_stack(ret, full);
}

const char *limpet_report_nameless(const struct limpet_report *report, uint32_t node)
{
	return limpet_model_is_unfaulted(report->model, node) ? LIMPET_MODEL_UNFAULTED_WORDS
							      : "(stack unknown)";
}

void limpet_report_stack_print(struct limpet_printer *printer, uint32_t node, const char *figures,
			       const char *detail, size_t frames)
{
	static const char indent[] = "      ";
	struct named_stack named = {.name = NULL};

	if (limpet_printer_check(
		    printer, name_stack(printer->report, node, printer->options->full, &named))) {
		if (named.name)
			print_heading(printer, figures, named.name, named.via);
		else
			limpet_printer_line(printer, printer->options->bold, "%s  %s", figures,
					    limpet_report_nameless(printer->report, node));
		limpet_printer_wrap(printer, printer->options->dim, sizeof(indent) - 1, "%s%s",
				    indent, detail);
		if (named.name)
			print_stack(printer, &named.stack, named.keep, indent, frames);
	}
	named_stack_done(&named);
}

int limpet_report_stack_names(struct limpet_report *report, uint32_t node,
			      struct limpet_report_names *ret)
{
	struct named_stack named = {.name = NULL};
	int error = name_stack(report, node, false, &named);

	for (size_t i = named.first + 1; !error && i < named.stack.count; i++)
		if (named.keep[i]) {
			ret->caller = frame_name(&named.stack.frames[i], false);
			error = ret->caller ? 0 : -ENOMEM;
			break;
		}
	ret->name = LIMPET_TAKE(named.name);
	ret->via = LIMPET_TAKE(named.via);
	named_stack_done(&named);
	return error;
}
