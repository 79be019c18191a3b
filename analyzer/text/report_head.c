/* The head of the text report: target and window; the rest is in report_losses.c and
 * report_totals.c. */
#include <errno.h>
#include <string.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/views/nameless_modules.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "common/labels.h"

static const char *const end_words[LIMPET_END_COUNT] = {
	[LIMPET_END_RUNNING] = "still running",
	[LIMPET_END_DURATION] = "ended after its duration",
	[LIMPET_END_INTERRUPT] = "ended by interrupt",
	[LIMPET_END_STOP] = "ended by limpet stop",
	[LIMPET_END_TARGET_EXIT] = "ended when the target exited",
	[LIMPET_END_TARGET_EXEC] = "ended when the target executed another program",
	[LIMPET_END_TARGET_KILLED] = "ended when the target was killed",
	[LIMPET_END_DISK_FULL] = "ended because the disk was full, or could not be written",
	[LIMPET_END_SIZE_LIMIT] = "ended at the size limit",
	[LIMPET_END_COLLECTOR_LOST] = "the collector died",
	[LIMPET_END_UNKNOWN] = "how it ended is not recorded",
};

static void print_labels(struct limpet_printer *printer, const char *at)
{
	char text[LIMPET_LABELS_MAX * (LIMPET_LABEL_MAX_BYTES + 2) + 1] = "";
	struct limpet_label label;
	unsigned read = 0;
	size_t used = 0;

	while (limpet_labels_next(&at, &read, &label))
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s",
					 used ? ", " : "", label.name, label.value);
	if (used)
		limpet_printer_row(printer, "", "labels", "%s", text);
}

static void print_target(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_trace_target *target = model->target;

	/* Of a program that was started the share was measured when it held nothing yet. */
	if (target->known && target->unseen_rss_share >= 0 && target->mode == LIMPET_MODE_RUN)
		limpet_printer_row(printer, printer->options->warn, "partial",
				   "an allocator is out of reach: the figures are of the rest");
	else if (target->known && target->unseen_rss_share >= 0)
		limpet_printer_row(printer, printer->options->warn, "partial",
				   "%.0f %% of RSS is out of reach: the figures are of the rest",
				   100.0 * target->unseen_rss_share);
	if (!target->known) {
		limpet_printer_row(printer, printer->options->warn, "target",
				   "unknown: the head of the trace is damaged");
		limpet_report_unfollowed_print(printer);
		return;
	}
	if (limpet_model_is_imported(model))
		limpet_printer_row(printer, "", "target", "%s, recorded by %s", target->comm,
				   target->recorder);
	else
		limpet_printer_row(
			printer, "", "target", "%s (pid %u), %s%s%s", target->comm, target->pid,
			target->executable[0] ? target->executable : "executable unknown",
			target->allocators[0] ? ", " : "", target->allocators);
	limpet_report_unfollowed_print(printer);
	if (target->command[0] && strcmp(target->command, target->executable) != 0 &&
	    strcmp(target->command, target->comm) != 0)
		limpet_printer_row(printer, "", "command", "%s", target->command);
	if (target->host[0])
		limpet_printer_row(printer, "", "host", "%s%s%s%s%s%s%.12s", target->host,
				   target->kernel[0] ? ", kernel " : "", target->kernel,
				   target->machine[0] ? " " : "", target->machine,
				   target->container[0] ? ", container " : "", target->container);
	print_labels(printer, target->labels);
}

/* From a program that has ended there was nothing to detach. */
static const char *detach_stop(struct limpet_printer *printer, const struct limpet_trace_end *end)
{
	if (end->detach_stop_us >= 0)
		return limpet_printer_stop(printer, (uint64_t)end->detach_stop_us);
	switch (end->end) {
	case LIMPET_END_TARGET_EXIT:
	case LIMPET_END_TARGET_EXEC:
	case LIMPET_END_TARGET_KILLED:
		return "none";
	default:
		return "unknown";
	}
}

static void print_window(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const struct limpet_trace_end *end = model->end;
	char from[LIMPET_PRINTER_MOMENT], to[LIMPET_PRINTER_MOMENT];

	limpet_printer_row(
		printer, "", "capture", "%s by %s%s%s%s, %s",
		limpet_printer_duration(printer, model->duration_ns), limpet_model_mode_word(model),
		model->sample_bytes ? ", a sample every " : "",
		model->sample_bytes ? limpet_printer_bytes(printer, model->sample_bytes) : "",
		!model->sample_bytes    ? ""
		: model->overload_count ? " allocated while overloaded"
					: " allocated",
		(unsigned)end->end < LIMPET_END_COUNT ? end_words[end->end]
						      : "ended for an unknown reason");
	if (model->windowed || model->widened)
		limpet_printer_row(printer, "", "window",
				   "%s to %s: all figures below are of this time%s",
				   limpet_printer_moment(printer, model, model->from_ns, from),
				   limpet_printer_moment(printer, model, model->to_ns, to),
				   model->widened ? ", since sums are kept by the minute" : "");
	if (end->attach_stop_us >= 0 || end->detach_stop_us >= 0)
		limpet_printer_row(
			printer, "", "stopped", "%s at attach, %s at detach%s",
			end->attach_stop_us >= 0
				? limpet_printer_stop(printer, (uint64_t)end->attach_stop_us)
				: "unknown",
			detach_stop(printer, end),
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

/* Files that come in packages, whose debug information does, too. */
static bool is_packaged(const char *path)
{
	static const char *const directories[] = {"/usr/", "/lib", "/bin/", "/sbin/"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(directories); i++)
		if (limpet_begins(path, directories[i]))
			return !limpet_begins(path, "/usr/local/");
	return false;
}

/* Without a build-id no debug information is known to be the module's. */
static const char *remedy_of(const struct limpet_model *model,
			     const struct limpet_trace_module *module)
{
	static const char packages[] =
		": install the debug symbols (packages -dbgsym or -debuginfo) or set "
		"DEBUGINFOD_URLS, and run `limpet seal`";
	static const char files[] = ": `limpet seal --debug-dir DIR` adds them from debug files";
	static const char now[] = ": install the debug symbols (packages -dbgsym or -debuginfo)";

	if (!module->build_id_bytes)
		return "";
	if (is_packaged(module->path))
		return model->names_looked_up ? now : packages;
	return model->names_looked_up ? "" : files;
}

static void print_nameless(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	const enum limpet_report_sort sort = printer->report->options.sort;
	const char *word = sort == LIMPET_REPORT_PEAK ? "at the peak"
			   : sort == LIMPET_REPORT_LIVE || sort == LIMPET_REPORT_GROWTH
				   ? limpet_model_live_word(model)
				   : "allocated";
	struct limpet_nameless found;

	if (!limpet_printer_check(printer, limpet_nameless_find(model, sort, &found)))
		return;
	for (size_t i = 0; i < found.count; i++) {
		const struct limpet_trace_module *module = &model->modules[found.list[i].module];
		const char *remedy = remedy_of(model, module);

		/* Several that have the same are told it once. */
		if (i + 1 < found.count &&
		    remedy == remedy_of(model, &model->modules[found.list[i + 1].module]))
			remedy = "";

		limpet_printer_row(printer, "", i ? "" : "no names", "for %s (%s of %s %s)%s",
				   limpet_base_name(module->path),
				   limpet_printer_bytes(printer, found.list[i].bytes),
				   limpet_printer_bytes(printer, found.all_bytes), word, remedy);
	}
}

/* Marks that the row shows. */
#define MARKS_SHOWN 20u

static void print_marks(struct limpet_printer *printer)
{
	const struct limpet_model *model = printer->report->model;
	LIMPET_FREE char *list = NULL;
	size_t bytes = 0;
	FILE *text;

	if (!model->mark_count)
		return;
	text = open_memstream(&list, &bytes);
	if (!limpet_printer_check(printer, text ? 0 : -ENOMEM))
		return;
	for (size_t i = 0; i < model->mark_count && i < MARKS_SHOWN; i++)
		fprintf(text, "%s%s %s", i ? ", " : "", model->marks[i].name,
			limpet_printer_time(printer, model->marks[i].time_ns));
	if (model->mark_count > MARKS_SHOWN)
		fprintf(text, " and %zu more", model->mark_count - MARKS_SHOWN);
	if (limpet_printer_check(printer, fclose(text) ? -ENOMEM : 0))
		limpet_printer_row(printer, "", "marks", "%s", list);
}

static bool is_blank(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;

	return limpet_printer_is_empty(model) && !totals->frees && !totals->mmaps &&
	       !totals->mapped_bytes;
}

static void print_hidden(struct limpet_printer *printer)
{
	const struct limpet_model_site *hidden = printer->report->options.hidden;

	if (!hidden)
		return;
	limpet_printer_row(printer, "", "filtered", "%shides %s %s of %s %s%s, %s in all",
			   is_blank(printer->report->model) ? "nothing matches: " : "",
			   limpet_printer_bytes(printer, hidden->live_bytes),
			   limpet_model_live_word(printer->report->model),
			   limpet_printer_count(printer, hidden->allocations),
			   printer->report->model->target->pages ? "new page" : "allocation",
			   limpet_printer_plural(hidden->allocations),
			   limpet_printer_bytes(printer, hidden->allocated_bytes));
}

void limpet_report_head_print(struct limpet_printer *printer)
{
	print_target(printer);
	print_window(printer);
	limpet_printer_names(printer, printer->report->model);
	print_marks(printer);
	limpet_printer_births(printer, printer->report->model);
	print_hidden(printer);
	limpet_report_losses_print(printer);
	limpet_report_totals_print(printer);
	print_nameless(printer);
}
