#include "analyzer/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/plain_text.h"

const char *const limpet_export_words[LIMPET_EXPORT_COUNT + 1] = {
	"heaptrack", "pprof", "folded", "massif", "callgrind", "csv", NULL};
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

int limpet_export(struct limpet_heap *heap, enum limpet_export_format format, unsigned table,
		  FILE *file, struct limpet_err *err)
{
	const bool events = format == LIMPET_EXPORT_HEAPTRACK || format == LIMPET_EXPORT_CSV;
	int code = -EINVAL;

	if (events && heap->model->windowed)
		return limpet_err_set(err, -ENOTSUP,
				      "%s holds the whole capture, no part of its time",
				      limpet_export_words[format]);
	if (events && heap->replay)
		return limpet_err_set(err, -ENOTSUP, "%s holds every thread",
				      limpet_export_words[format]);
	if (events && heap->model->compact)
		return limpet_err_set(err, -ENODATA,
				      "the trace holds sums alone, no single events");
	if (format == LIMPET_EXPORT_HEAPTRACK && heap->model->given_up_ns)
		return limpet_err_set(err, -ENODATA,
				      "the oldest events were given up (--max-size)");
	if (format == LIMPET_EXPORT_HEAPTRACK && heap->model->sample_bytes)
		return limpet_err_set(err, -ENOTSUP, "heaptrack knows no samples");
	switch (format) {
	case LIMPET_EXPORT_HEAPTRACK:
		code = limpet_export_heaptrack(heap, file);
		break;
	case LIMPET_EXPORT_PPROF:
		code = limpet_export_pprof(heap, file);
		break;
	case LIMPET_EXPORT_FOLDED:
		code = limpet_export_folded(heap, file);
		break;
	case LIMPET_EXPORT_MASSIF:
		code = limpet_export_massif(heap, file);
		break;
	case LIMPET_EXPORT_CALLGRIND:
		code = limpet_export_callgrind(heap, file);
		break;
	case LIMPET_EXPORT_CSV:
		code = limpet_export_csv(heap, table, file);
		break;
	case LIMPET_EXPORT_COUNT:
		break;
	}
	if (code < 0)
		limpet_err_set(err, code, "cannot export: %s", strerror(-code));
	return code;
}
