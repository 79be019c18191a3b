#include "analyzer/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "analyzer/text/report_printer.h"
#include "common/plain_text.h"

const char *const limpet_export_words[LIMPET_EXPORT_COUNT + 1] = {
	"heaptrack", "pprof", "folded", "massif", "callgrind", "csv", "perfetto", "firefox", NULL};
const char *const limpet_export_tables[] = {"events", "stacks", "frames", NULL};

char *limpet_export_name(const char *name, const char *reserved, char instead)
{
	char *copy = strdup(name);

	if (!copy)
		return NULL;
	limpet_plain_text_clean(copy);
	for (char *at = copy; *at; at++)
		if (strchr(reserved, *at))
			*at = instead;
	return copy;
}

char *limpet_export_title(const struct limpet_model *model, const char *subject)
{
	const struct limpet_report_text_options options = {.bold = ""};
	struct limpet_printer printer = {.options = &options};
	LIMPET_FREE char *text = NULL;
	char born[LIMPET_PRINTER_BIRTHS];

	if (!model->born)
		return limpet_plain_text_repair(subject);
	if (asprintf(&text, "%s, only %s", subject,
		     limpet_printer_format_births(&printer, model, born)) < 0) {
		text = NULL;
		return NULL;
	}
	return limpet_plain_text_repair(text);
}

void limpet_export_build_id(const struct limpet_trace_module *module,
			    char ret_text[LIMPET_EXPORT_BUILD_ID_TEXT])
{
	ret_text[0] = '\0';
	for (uint32_t i = 0; i < module->build_id_bytes && i < LIMPET_EXPORT_BUILD_ID_BYTES; i++)
		snprintf(ret_text + 2ul * i, 3, "%02x", module->build_id[i]);
}

static int refuse(struct limpet_err *err, int code, const char *why, const char *hint)
{
	limpet_err_set(err, code, "%s", why);
	limpet_err_hint(err, "%s", hint);
	return code;
}

static int check(const struct limpet_analysis *analysis, enum limpet_export_format format,
		 struct limpet_err *err)
{
	const bool events = format == LIMPET_EXPORT_HEAPTRACK || format == LIMPET_EXPORT_CSV;
	const bool whole =
		events || format == LIMPET_EXPORT_PERFETTO || format == LIMPET_EXPORT_FIREFOX;
	const struct limpet_model *model = analysis->model;

	if (whole && analysis->narrowed)
		return refuse(err, -ENOTSUP, "what was discarded cannot be filtered by thread",
			      "filter by function:, file: or module: instead");
	if (whole && model->windowed)
		return refuse(err, -ENOTSUP,
			      "heaptrack, csv, perfetto and firefox always contain the whole "
			      "capture",
			      "pprof, folded, massif and callgrind can be limited to a window");
	if (events && model->born)
		return refuse(err, -ENOTSUP, "heaptrack and csv always contain all blocks",
			      "pprof, folded, massif and callgrind can be limited to blocks that "
			      "were allocated in a part of the time");
	if (events && analysis->replay)
		return refuse(err, -ENOTSUP, "heaptrack and csv always contain every thread",
			      "pprof, folded, massif and callgrind can be limited to threads");
	if (events && model->compact)
		return refuse(err, -ENODATA, "the trace contains only sums, no single events",
			      "capture without --compact to keep events");
	if (format == LIMPET_EXPORT_HEAPTRACK && model->given_up_ns)
		return refuse(err, -ENODATA, "the oldest events were discarded (--max-size)",
			      "csv contains those that were kept");
	if (format == LIMPET_EXPORT_HEAPTRACK && model->sample_bytes)
		return refuse(err, -ENOTSUP, "heaptrack's format has no samples",
			      "pprof, folded, massif and callgrind contain the estimates");
	if (format == LIMPET_EXPORT_FOLDED && analysis->view.sort == LIMPET_REPORT_TEMPORARY &&
	    model->sample_bytes)
		return refuse(err, -ENOTSUP, "samples do not say which allocations are temporary",
			      "--sort allocations, or another figure");
	return 0;
}

/* Those that show figures over time. */
static int export_history(struct limpet_analysis *analysis, enum limpet_export_format format,
			  FILE *file, struct limpet_err *err)
{
	const struct limpet_replay_options selection = {.kept = analysis->kept,
							.filter = analysis->filter};
	struct limpet_history *history;
	int code = limpet_history_build(analysis->reader, analysis->model, LIMPET_EXPORT_MOMENTS,
					analysis->filtered ? &selection : NULL, &history, err);

	if (code < 0)
		return code;
	code = format == LIMPET_EXPORT_PERFETTO ? limpet_export_perfetto(analysis, history, file)
						: limpet_export_firefox(analysis, history, file);
	limpet_history_free(history);
	return code;
}

int limpet_export(struct limpet_analysis *analysis, enum limpet_export_format format,
		  unsigned table, FILE *file, struct limpet_err *err)
{
	int code = check(analysis, format, err);

	if (code < 0)
		return code;
	code = -EINVAL;
	switch (format) {
	case LIMPET_EXPORT_HEAPTRACK:
		code = limpet_export_heaptrack(analysis, file);
		break;
	case LIMPET_EXPORT_PPROF:
		code = limpet_export_pprof(analysis, file);
		break;
	case LIMPET_EXPORT_FOLDED:
		code = limpet_export_folded(analysis, file);
		break;
	case LIMPET_EXPORT_MASSIF:
		code = limpet_export_massif(analysis, file);
		break;
	case LIMPET_EXPORT_CALLGRIND:
		code = limpet_export_callgrind(analysis, file);
		break;
	case LIMPET_EXPORT_CSV:
		code = limpet_export_csv(analysis, table, file);
		break;
	case LIMPET_EXPORT_PERFETTO:
	case LIMPET_EXPORT_FIREFOX:
		code = export_history(analysis, format, file, err);
		break;
	case LIMPET_EXPORT_COUNT:
		break;
	}
	if (code < 0 && !err->message[0])
		limpet_err_set(err, code, "cannot export: %s", strerror(-code));
	return code;
}
