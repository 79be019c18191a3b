#include "analyzer/export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export_formats.h"
#include "analyzer/text/report_printer.h"
#include "common/plain_text.h"

#define LIMPET_EXPORT_LIST 128

#define WORD(name) #name,
const char *const limpet_export_words[] = {LIMPET_EXPORT_FORMATS(WORD) NULL};

const struct limpet_export_format *limpet_export_format(size_t index)
{
#define FORMAT(name) &limpet_export_##name,
	static const struct limpet_export_format *const formats[] = {LIMPET_EXPORT_FORMATS(FORMAT)};

	return index < LIMPET_COUNT_OF(formats) ? formats[index] : NULL;
}

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

/* "pprof, folded and massif": the formats that need none of that. */
static void list_others(unsigned needs, char ret[LIMPET_EXPORT_LIST])
{
	const struct limpet_export_format *format, *last = NULL;
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; (format = limpet_export_format(i)); i++)
		last = format->needs & needs ? last : format;
	for (size_t i = 0; (format = limpet_export_format(i)) && used < LIMPET_EXPORT_LIST; i++)
		if (!(format->needs & needs))
			used += (size_t)snprintf(ret + used, LIMPET_EXPORT_LIST - used, "%s%s",
						 !used            ? ""
						 : format == last ? " and "
								  : ", ",
						 format->name);
}

/* A part was asked for, of a format that shows all. */
static int refuse_part(struct limpet_err *err, const struct limpet_export_format *format,
		       unsigned needs, const char *all, const char *part)
{
	char others[LIMPET_EXPORT_LIST];

	list_others(needs, others);
	limpet_err_set(err, -ENOTSUP, "%s always contains %s", format->name, all);
	limpet_err_hint(err, "%s can be limited to %s", others, part);
	return -ENOTSUP;
}

static int refuse(struct limpet_err *err, int code, const char *why, const char *hint)
{
	limpet_err_set(err, code, "%s", why);
	limpet_err_hint(err, "%s", hint);
	return code;
}

static int check(const struct limpet_analysis *analysis, const struct limpet_export_format *format,
		 struct limpet_err *err)
{
	const bool events = format->needs & LIMPET_EXPORT_EVENTS;
	const bool whole = format->needs & LIMPET_EXPORT_WHOLE;
	const struct limpet_model *model = analysis->model;

	if (whole && analysis->narrowed)
		return refuse(err, -ENOTSUP, "what was discarded cannot be filtered by thread",
			      "filter by function:, file: or module: instead");
	if (whole && model->windowed)
		return refuse_part(err, format, LIMPET_EXPORT_WHOLE, "the whole capture",
				   "a window");
	if (events && model->born)
		return refuse_part(err, format, LIMPET_EXPORT_EVENTS, "all blocks",
				   "blocks that were allocated in a part of the time");
	if (events && analysis->replay)
		return refuse_part(err, format, LIMPET_EXPORT_EVENTS, "every thread", "threads");
	if (events && model->compact)
		return refuse(err, -ENODATA, "the trace contains only sums, no single events",
			      "capture without --compact to keep events");
	if ((format->needs & LIMPET_EXPORT_BEGINNING) && model->given_up_ns)
		return refuse(err, -ENODATA, "the oldest events were discarded (--max-size)",
			      "csv contains those that were kept");
	if ((format->needs & LIMPET_EXPORT_EXACT) && model->sample_bytes)
		return refuse(err, -ENOTSUP, "heaptrack's format has no samples",
			      "pprof, folded, massif and callgrind contain the estimates");
	if ((format->needs & LIMPET_EXPORT_SORTED) &&
	    analysis->view.sort == LIMPET_REPORT_TEMPORARY && model->sample_bytes)
		return refuse(err, -ENOTSUP, "samples do not say which allocations are temporary",
			      "--sort allocations, or another figure");
	return 0;
}

int limpet_export(struct limpet_analysis *analysis, const struct limpet_export_format *format,
		  unsigned table, FILE *file, struct limpet_err *err)
{
	const struct limpet_replay_options selection = {.kept = analysis->kept,
							.filter = analysis->filter};
	struct limpet_history *history = NULL;
	int code = check(analysis, format, err);

	if (code >= 0 && (format->needs & LIMPET_EXPORT_HISTORY))
		code = limpet_history_build(analysis->reader, analysis->model,
					    LIMPET_EXPORT_MOMENTS,
					    analysis->filtered ? &selection : NULL, &history, err);
	if (code < 0)
		return code;
	code = format->write(
		analysis, &(struct limpet_export_part){.table = table, .history = history}, file);
	limpet_history_free(history);
	if (code < 0 && !err->message[0])
		limpet_err_set(err, code, "cannot export: %s", strerror(-code));
	return code;
}
