#include "analyzer/report_text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/demangle.h"
#include "analyzer/plain_text.h"
#include "common/units.h"

/* Frames shown of one site unless all are asked for. */
#define FRAMES_SHOWN 12
/* Mappings shown: the heap is the matter of the report. */
#define MAPS_SHOWN 3
#define BAR_COLUMNS 24

struct text {
	FILE *file;
	const struct limpet_report_text_options *options;
	struct limpet_report *report;
	char units[8][LIMPET_UNITS_TEXT]; /* taken in turns, so that one line can show several */
	unsigned next;
};

static char *slot(struct text *t)
{
	return t->units[t->next++ % LIMPET_COUNT_OF(t->units)];
}

static const char *bytes(struct text *t, uint64_t value)
{
	return limpet_units_format_bytes(slot(t), value);
}

static const char *count(struct text *t, uint64_t value)
{
	return limpet_units_format_count(slot(t), value);
}

static const char *duration(struct text *t, uint64_t ns)
{
	return limpet_units_format_duration(slot(t), ns);
}

static const char *rate(struct text *t, uint64_t value, uint64_t ns)
{
	double per_second = ns ? (double)value * 1e9 / (double)ns : 0;

	return limpet_units_format_rate(slot(t), per_second < 1e18 ? (uint64_t)per_second : 0);
}

static const char *s_of(uint64_t value)
{
	return value == 1 ? "" : "s";
}

/* A share of a whole as "66 %"; "" where there is none to speak of. */
static const char *share(struct text *t, uint64_t part, uint64_t whole)
{
	char *out = slot(t);
	double percent = whole ? 100.0 * (double)part / (double)whole : 0;

	if (!whole || percent > 100.0)
		out[0] = '\0';
	else if (percent > 0 && percent < 1)
		snprintf(out, LIMPET_UNITS_TEXT, "<1 %%");
	else
		snprintf(out, LIMPET_UNITS_TEXT, "%.0f %%", percent);
	return out;
}

/* ------------------------------------------------------------------ words and lines */

/* Cuts `text` in place to `columns`, with "..." for what is gone: at the end, or at the start where
 * the end says more (paths). */
static void cut(char *text, size_t columns, bool at_start)
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

/* Formats one line, makes it harmless, cuts it to the width and prints it in `style`. */
__attribute__((format(printf, 3, 4))) static int line(struct text *t, const char *style,
						      const char *format, ...)
{
	LIMPET_FREE char *out = NULL;
	va_list args;
	int length;

	va_start(args, format);
	length = vasprintf(&out, format, args);
	va_end(args);
	if (length < 0) {
		out = NULL;
		return -ENOMEM;
	}
	limpet_plain_text_clean(out);
	if (t->options->width)
		cut(out, t->options->width, false);
	fprintf(t->file, "%s%s%s\n", style, out, style[0] ? t->options->plain : "");
	return 0;
}

static void blank(struct text *t)
{
	fputc('\n', t->file);
}

/* ------------------------------------------------------------------ head */

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

static int print_target(struct text *t)
{
	const struct limpet_model *model = t->report->model;
	const struct limpet_trace_target *target = model->target;
	int result = 0;

	if (target->known && target->unseen_rss_share >= 0)
		result = line(
			t, t->options->warn,
			"partial   %.0f %% of RSS is out of reach: the figures are of the rest",
			100.0 * target->unseen_rss_share);
	if (result)
		return result;
	if (!target->known)
		return line(t, t->options->warn,
			    "target    unknown: the head of the trace is damaged");
	result = line(t, "", "target    %s (pid %u), %s%s%s", target->comm, target->pid,
		      target->executable[0] ? target->executable : "executable unknown",
		      target->allocators[0] ? ", " : "", target->allocators);
	if (!result && target->command[0] && strcmp(target->command, target->executable) != 0 &&
	    strcmp(target->command, target->comm) != 0)
		result = line(t, "", "command   %s", target->command);
	return result;
}

static int print_window(struct text *t)
{
	const struct limpet_model *model = t->report->model;
	const struct limpet_trace_target *target = model->target;
	const struct limpet_trace_end *end = model->end;
	int result;

	result = line(t, "", "capture   %s by %s%s%s%s, %s", duration(t, model->duration_ns),
		      target->mode == LIMPET_MODE_RUN ? "run" : "attach",
		      target->known && target->sample_bytes ? ", one event in " : "",
		      target->known && target->sample_bytes ? bytes(t, target->sample_bytes) : "",
		      target->known && target->sample_bytes ? " sampled" : "", end_words(end));
	if (!result && model->windowed)
		result = line(t, "", "window    %s to %s: all figures below are of this time",
			      duration(t, model->from_ns), duration(t, model->to_ns));
	if (!result && (end->attach_stop_us >= 0 || end->detach_stop_us >= 0))
		result = line(
			t, "", "stopped   %s to attach, %s to leave%s",
			end->attach_stop_us >= 0 ? duration(t, (uint64_t)end->attach_stop_us * 1000)
						 : "unknown",
			end->detach_stop_us >= 0 ? duration(t, (uint64_t)end->detach_stop_us * 1000)
						 : "unknown",
			end->agent_unloaded ? "" : "; the agent stayed in the target, dormant");
	return result;
}

/* What is missing, or that nothing is. */
static int print_losses(struct text *t)
{
	const struct limpet_model *model = t->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_trace_damage *damage = model->damage;
	const struct {
		uint64_t value;
		const char *one, *many;
	} list[] = {
		{totals->dropped_events, "event dropped", "events dropped"},
		{totals->unseen_calls, "call not recorded", "calls not recorded"},
		{totals->untracked_allocations, "allocation beyond the collector's memory",
		 "allocations beyond the collector's memory"},
		{totals->inferred_frees, "free not seen", "frees not seen"},
		{totals->truncated_stacks, "stack cut short", "stacks cut short"},
		{damage->blocks_damaged + damage->blocks_lost, "block of the trace damaged",
		 "blocks of the trace damaged"},
	};
	bool any = false;
	int result = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(list) && !result; i++) {
		if (!list[i].value)
			continue;
		result = line(t, t->options->warn, "%-9s %s %s", any ? "" : "losses",
			      count(t, list[i].value),
			      list[i].value == 1 ? list[i].one : list[i].many);
		any = true;
	}
	if (!result && damage->truncated) {
		result = line(t, t->options->warn,
			      "%-9s the file is cut short: what came later is missing",
			      any ? "" : "losses");
		any = true;
	}
	if (!result && !model->exact) {
		result = line(t, t->options->warn, "%-9s sites and peak are approximate",
			      any ? "" : "losses");
		any = true;
	}
	if (!result && !model->complete && model->end->end != LIMPET_END_RUNNING)
		return line(t, t->options->warn, "%-9s the trace is not complete",
			    any ? "" : "losses");
	if (!result && !any)
		result = line(t, "", "losses    none%s",
			      model->complete ? ": every event is in the trace" : " so far");
	return result;
}

static int print_totals(struct text *t)
{
	const struct limpet_model *model = t->report->model;
	const struct limpet_model_totals *totals = &model->totals;
	uint64_t window_ns = model->to_ns > model->from_ns ? model->to_ns - model->from_ns : 0;
	int result;

	result = line(t, t->options->bold, "live      %s in %s block%s%s",
		      bytes(t, totals->live_bytes), count(t, totals->live_allocations),
		      s_of(totals->live_allocations),
		      model->windowed ? " at the end of the window" : "");
	if (!result && model->windowed)
		result = line(t, "", "growth    %s in the window",
			      limpet_units_format_bytes_change(slot(t), totals->growth_bytes));
	if (!result)
		result = line(t, "", "peak      %s at %s", bytes(t, totals->peak_bytes),
			      duration(t, totals->peak_ns));
	if (!result)
		result = line(t, "", "calls     %s allocation%s (%s, %s in all), %s free%s",
			      count(t, totals->allocations), s_of(totals->allocations),
			      rate(t, totals->allocations, window_ns),
			      bytes(t, totals->allocated_bytes), count(t, totals->frees),
			      s_of(totals->frees));
	if (!result && totals->temporary_allocations)
		result = line(t, "", "temporary %s allocation%s (%s): freed before the next one",
			      count(t, totals->temporary_allocations),
			      s_of(totals->temporary_allocations),
			      share(t, totals->temporary_allocations, totals->allocations));
	if (!result && totals->foreign_frees)
		result = line(t, "", "foreign   %s free%s of older blocks, %s",
			      count(t, totals->foreign_frees), s_of(totals->foreign_frees),
			      bytes(t, totals->foreign_freed_bytes));
	if (!result && totals->mmaps)
		result = line(t, "", "mapped    %s by %s mmap call%s, %s still mapped",
			      bytes(t, totals->mmap_bytes), count(t, totals->mmaps),
			      s_of(totals->mmaps), bytes(t, totals->mapped_bytes));
	return result;
}

/* ------------------------------------------------------------------ stacks */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What a frame is called; malloc'ed. */
static char *frame_name(const struct limpet_report_frame *frame, bool full)
{
	char *out = NULL;

	if (frame->function && !full)
		out = limpet_demangle_shorten(frame->function);
	else if (frame->function)
		out = strdup(frame->function);
	else if (asprintf(&out, frame->module ? "%s+0x%" PRIx64 : "%s 0x%" PRIx64,
			  frame->module ? base_name(frame->module) : "[jit]", frame->offset) < 0)
		out = NULL;
	return out ? limpet_plain_text_clean(out) : NULL;
}

/* Where it is: file and line, or the module's name; malloc'ed. */
static char *frame_place(const struct limpet_report_frame *frame)
{
	char *out = NULL;
	int n = 0;

	if (frame->file)
		n = asprintf(&out, "%s:%u", frame->file, frame->line);
	else if (frame->function && frame->module)
		n = asprintf(&out, "%s", base_name(frame->module));
	else
		n = asprintf(&out, "%s", "");
	return n < 0 ? NULL : limpet_plain_text_clean(out);
}

/* "      name  place"; where there is a width, the name keeps at least half of it. Of both the end
 * says more than the start: scopes and folders go first. */
static int print_frame(struct text *t, const struct limpet_report_frame *frame, const char *indent,
		       const char *note)
{
	LIMPET_FREE char *name = frame_name(frame, t->options->full);
	LIMPET_FREE char *place = frame_place(frame);
	size_t room = t->options->width ? t->options->width - strlen(indent) : 0;
	size_t note_columns = strlen(note);

	if (!name || !place)
		return -ENOMEM;
	if (room) {
		size_t columns = limpet_plain_text_columns(place);
		size_t most;

		room = room > note_columns ? room - note_columns : 0;
		if (columns > room / 2) {
			size_t left = limpet_plain_text_columns(name) + 2;

			/* A long place may use what a short name leaves. */
			most = left < room / 2 ? room - left : room / 2;
			cut(place, most, true);
			columns = limpet_plain_text_columns(place);
		}
		cut(name, room - (columns ? columns + 2 : 0), true);
	}
	fprintf(t->file, "%s%s%s", indent, name, note);
	if (place[0])
		fprintf(t->file, "  %s%s%s", t->options->dim, place,
			t->options->dim[0] ? t->options->plain : "");
	fputc('\n', t->file);
	return 0;
}

/* The shown frames; a run of JIT frames is one line. */
static int print_stack(struct text *t, const struct limpet_report_stack *stack, const bool *keep,
		       const char *indent)
{
	size_t shown = 0, rest = 0;
	int result = 0;

	for (size_t i = 0; i < stack->count && !result; i++) {
		char note[40] = "";
		size_t run = 0, at = i;

		if (!keep[i])
			continue;
		while (!t->options->full && !stack->frames[i].module && i + 1 < stack->count &&
		       keep[i + 1] && !stack->frames[i + 1].module) {
			run++;
			i++;
		}
		if (!t->options->full && shown >= FRAMES_SHOWN) {
			rest += 1 + run;
			continue;
		}
		if (run)
			snprintf(note, sizeof(note), " and %zu more", run);
		else if (t->options->full && stack->frames[at].inlined)
			snprintf(note, sizeof(note), " (inlined)");
		result = print_frame(t, &stack->frames[at], indent, note);
		shown++;
	}
	if (!result && rest)
		result = line(t, t->options->dim, "%s... %zu more frame%s", indent, rest,
			      s_of(rest));
	if (!result && stack->truncated)
		result = line(t, t->options->dim, "%s(the stack was cut short here)", indent);
	if (!result && stack->lost)
		result = line(t, t->options->dim, "%s(the rest stood in a damaged block)", indent);
	return result;
}

static int print_heading(struct text *t, const char *figures, char *name, const char *via)
{
	if (t->options->width) {
		size_t taken = strlen(figures) + 2;

		if (via)
			taken += strlen(" (via )") + limpet_plain_text_columns(via);
		/* Too long a `via` is cut off at the end of the line. */
		if (taken + 8 < t->options->width)
			cut(name, t->options->width - taken, true);
	}
	return line(t, t->options->bold, "%s  %s%s%s%s", figures, name, via ? " (via " : "",
		    via ? via : "", via ? ")" : "");
}

/* `figures` is the head of the entry, before the name of its function. */
static int print_entry(struct text *t, uint32_t node, const char *figures, const char *detail)
{
	static const char indent[] = "      ";
	LIMPET_FREE enum limpet_fold_kind *kinds = NULL;
	LIMPET_FREE bool *keep = NULL;
	LIMPET_FREE char *via = NULL;
	LIMPET_FREE char *name = NULL;
	struct limpet_report_stack stack;
	struct limpet_fold fold;
	int result = limpet_report_expand(t->report, node, &stack);

	if (result)
		return result;
	if (!stack.count) {
		result = line(t, t->options->bold, "%s  (stack unknown)", figures);
		return result ? result : line(t, t->options->dim, "%s%s", indent, detail);
	}
	kinds = calloc(stack.count, sizeof(*kinds));
	keep = calloc(stack.count, sizeof(*keep));
	if (!kinds || !keep)
		return -ENOMEM;
	for (size_t i = 0; i < stack.count; i++)
		kinds[i] = stack.frames[i].kind;
	fold = limpet_fold_stack(kinds, stack.count, keep);
	/* The library's function that the program called says what the memory is for; malloc does
	 * not. */
	if (fold.via != SIZE_MAX && kinds[fold.via] == LIMPET_FOLD_LIBRARY &&
	    stack.frames[fold.via].function)
		via = frame_name(&stack.frames[fold.via], false);
	if (t->options->full)
		memset(keep, true, stack.count);
	name = frame_name(&stack.frames[fold.first], false);
	if (!name)
		return -ENOMEM;
	result = print_heading(t, figures, name, via);
	if (!result)
		result = line(t, t->options->dim, "%s%s", indent, detail);
	return result ? result : print_stack(t, &stack, keep, indent);
}

/* ------------------------------------------------------------------ sites */

static const char *const sort_titles[LIMPET_REPORT_SORT_COUNT] = {
	"bytes held at the peak", "live bytes", "allocations", "bytes allocated",
	"temporary allocations",  "growth",
};

static bool sort_counts(enum limpet_report_sort sort)
{
	return sort == LIMPET_REPORT_ALLOCATIONS || sort == LIMPET_REPORT_TEMPORARY;
}

static uint64_t sort_total(const struct limpet_report *report)
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
	case LIMPET_REPORT_GROWTH: /* some sites shrink: there is no whole to be a part of */
	case LIMPET_REPORT_SORT_COUNT:
		break;
	}
	return 0;
}

/* What the line of figures does not say yet. */
static int site_detail(struct text *t, const struct limpet_report_site *site, char **ret_detail)
{
	const struct limpet_model_site *figures = &site->figures;
	enum limpet_report_sort sort = t->report->options.sort;
	char stacks[48] = "";

	if (site->stacks > 1)
		snprintf(stacks, sizeof(stacks), "; %zu stacks", site->stacks);
	if (sort == LIMPET_REPORT_LIVE || sort == LIMPET_REPORT_GROWTH)
		return asprintf(ret_detail, "%s of %s block%s live, %s allocated; %s at peak%s",
				count(t, figures->live_allocations), count(t, figures->allocations),
				s_of(figures->allocations), bytes(t, figures->allocated_bytes),
				bytes(t, figures->peak_bytes), stacks);
	if (sort == LIMPET_REPORT_PEAK)
		return asprintf(ret_detail, "in %s block%s; %s allocation%s, %s; live %s%s",
				count(t, figures->peak_allocations),
				s_of(figures->peak_allocations), count(t, figures->allocations),
				s_of(figures->allocations), bytes(t, figures->allocated_bytes),
				bytes(t, figures->live_bytes), stacks);
	return asprintf(ret_detail, "%s allocation%s, %s; %s temporary; live %s%s",
			count(t, figures->allocations), s_of(figures->allocations),
			bytes(t, figures->allocated_bytes),
			count(t, figures->temporary_allocations), bytes(t, figures->live_bytes),
			stacks);
}

static int print_site(struct text *t, size_t number, const struct limpet_report_site *site)
{
	enum limpet_report_sort sort = t->report->options.sort;
	int64_t figure = limpet_report_figure(&site->figures, sort);
	LIMPET_FREE char *detail = NULL;
	const char *amount;
	char figures[96];

	if (sort == LIMPET_REPORT_GROWTH)
		amount = limpet_units_format_bytes_change(slot(t), figure);
	else if (sort_counts(sort))
		amount = count(t, (uint64_t)figure);
	else
		amount = bytes(t, (uint64_t)figure);
	snprintf(figures, sizeof(figures), "%3zu  %10s  %5s", number, amount,
		 share(t, (uint64_t)figure, sort_total(t->report)));
	if (site_detail(t, site, &detail) < 0) {
		detail = NULL;
		return -ENOMEM;
	}
	return print_entry(t, site->figures.node, figures, detail);
}

static int print_sites(struct text *t)
{
	const struct limpet_report *report = t->report;
	enum limpet_report_sort sort = report->options.sort;
	uint64_t total = sort_total(report);
	int result;

	assert(sort < LIMPET_REPORT_SORT_COUNT);
	blank(t);
	if (!report->all_sites)
		return line(t, t->options->bold, "No site has any %s.", sort_titles[sort]);
	result = line(t, t->options->bold, "Top %zu of %zu site%s by %s%s%s%s%s",
		      report->site_count, report->all_sites, s_of(report->all_sites),
		      sort_titles[sort], total ? ": " : "",
		      total ? share(t, report->shown_figure, total) : "", total ? " of " : "",
		      !total              ? ""
		      : sort_counts(sort) ? count(t, total)
					  : bytes(t, total));
	for (size_t i = 0; i < report->site_count && !result && !ferror(t->file); i++) {
		blank(t);
		result = print_site(t, i + 1, &report->sites[i]);
	}
	return result;
}

static int print_maps(struct text *t)
{
	const struct limpet_report *report = t->report;
	size_t shown = 0;
	int result = 0;

	if (!report->map_count || !report->maps[0].figures.mapped_bytes)
		return 0;
	blank(t);
	result = line(t, t->options->bold, "Mapped by mmap and not unmapped: %s",
		      bytes(t, report->model->totals.mapped_bytes));
	for (size_t i = 0; i < report->map_count && shown < MAPS_SHOWN && !result; i++) {
		const struct limpet_model_map_site *site = &report->maps[i].figures;
		char figures[96], detail[160];

		if (!site->mapped_bytes)
			break;
		snprintf(figures, sizeof(figures), "%3zu  %10s  %5s", i + 1,
			 bytes(t, site->mapped_bytes),
			 share(t, site->mapped_bytes, report->model->totals.mapped_bytes));
		snprintf(detail, sizeof(detail), "%s mmap call%s, %s in all", count(t, site->mmaps),
			 s_of(site->mmaps), bytes(t, site->mmap_bytes));
		blank(t);
		result = print_entry(t, site->node, figures, detail);
		shown++;
	}
	return result;
}

/* ------------------------------------------------------------------ sizes */

static int print_sizes(struct text *t)
{
	const struct limpet_model *model = t->report->model;
	uint64_t most = 0;
	int result;

	if (!model->size_count)
		return 0;
	for (size_t i = 0; i < model->size_count; i++) {
		if (model->sizes[i].allocations > most)
			most = model->sizes[i].allocations;
	}
	blank(t);
	result = line(t, t->options->bold, "Sizes of allocations");
	if (!result)
		result = line(t, t->options->dim, "%10s %10s  %8s  %5s  %10s", "from", "below",
			      "calls", "", "bytes");
	for (size_t i = 0; i < model->size_count && !result; i++) {
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
		result = line(
			t, "", "%10s %10s  %8s  %5s  %10s  %s", bytes(t, size->from_bytes),
			bytes(t, size->to_bytes < UINT64_MAX ? size->to_bytes + 1 : UINT64_MAX),
			count(t, size->allocations),
			share(t, size->allocations, model->totals.allocations),
			bytes(t, size->allocated_bytes), bar);
	}
	return result;
}

int limpet_report_text_print(struct limpet_report *report,
			     const struct limpet_report_text_options *options, FILE *file)
{
	struct text text = {.file = file, .options = options, .report = report};
	static int (*const parts[])(struct text *) = {print_target, print_window, print_losses,
						      print_totals, print_sites,  print_maps,
						      print_sizes};
	int result = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(parts) && !result && !ferror(file); i++)
		result = parts[i](&text);
	return result;
}
