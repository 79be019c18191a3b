/* Two tables for the traces of many machines in one database, RFC 4180 with a header: sites, one
 * row for each stack of functions, and points, the timeline. A row says which capture it is of. The
 * key of a site is made of names alone, so that it is the same in the next build. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/export/export_formats.h"
#include "common/base_name.h"
#include "common/bytes.h"
#include "common/labels.h"

#define COLUMNS "capture,started,program,host,labels"

/* FNV-1a. Numbers are printed in hexadecimal behind a letter: no reader takes one for a number. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_text(const char *text)
{
	return hash_bytes(UINT64_C(0xcbf29ce484222325), text, strlen(text));
}

/* ------------------------------------------------------------------ of which capture */

/* {"host":"a"}; malloc'ed. */
static char *labels_text(const char *at)
{
	json_t *object = json_object();
	struct limpet_label label;
	unsigned read = 0;
	char *text;

	while (limpet_labels_next(&at, &read, &label))
		(void)json_object_set_new(object, label.name, json_string(label.value));
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static uint64_t capture_number(const struct limpet_trace_target *target)
{
	const uint64_t numbers[] = {target->pid, target->start_ticks, target->wall_ns};

	return hash_bytes(hash_text(target->boot_id), numbers, sizeof(numbers));
}

/* The columns that both tables begin with; malloc'ed. */
static char *capture_columns(const struct limpet_trace_target *target)
{
	LIMPET_FREE char *labels = labels_text(target->labels);
	const time_t seconds = (time_t)(target->wall_ns / 1000000000);
	char *text = NULL, started[32];
	struct tm tm;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	int code = file && labels && gmtime_r(&seconds, &tm) ? 0 : -ENOMEM;

	if (code == 0) {
		strftime(started, sizeof(started), "%Y-%m-%d %H:%M:%S", &tm);
		fprintf(file, "c%016" PRIx64 ",%s,", capture_number(target),
			target->wall_ns ? started : "");
		code = limpet_export_csv_text(file, target->comm);
		fputc(',', file);
		code = code ? code : limpet_export_csv_text(file, target->host);
		fputc(',', file);
		code = code ? code : limpet_export_csv_text(file, labels);
	}
	if ((file && fclose(file)) || code) {
		free(text);
		text = NULL;
	}
	return text;
}

/* ------------------------------------------------------------------ sites */

struct row {
	uint64_t key;
	char *stack; /* names, outermost first; of the first site with the key alone */
	struct limpet_model_site figures;
};

/* Without a symbol a frame is at an offset that the next build changes: its module's name is
 * left. */
static char *frame_name(const struct limpet_function *function)
{
	LIMPET_FREE char *name = !function->named && function->module
					 ? strdup(limpet_base_name(function->module))
					 : limpet_function_name(function, false);

	return name ? limpet_export_name(name, ";", ':') : NULL;
}

/* "main;handle;malloc_or_so"; malloc'ed, or NULL. */
static char *stack_text(const struct limpet_analysis *analysis, uint32_t node)
{
	struct limpet_location_stack stack;
	struct limpet_bytes text = {0};

	if (limpet_locations_stack(analysis->locations, node, analysis->view.full, &stack))
		return NULL;
	for (size_t i = stack.count; i--;) {
		const struct limpet_location *place =
			&analysis->locations->locations[stack.list[i]];
		LIMPET_FREE char *name =
			frame_name(&analysis->locations->functions[place->function]);

		if (name)
			limpet_bytes_append(&text, name, strlen(name));
		limpet_bytes_append_byte(&text, i ? ';' : '\0');
		text.failed |= !name;
	}
	if (text.failed)
		free(LIMPET_TAKE(text.data));
	return (char *)text.data;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->figures.node < y->figures.node ? -1 : x->figures.node > y->figures.node;
}

static const char *build_id_of(const struct limpet_model *model, const char *path,
			       char text[LIMPET_EXPORT_BUILD_ID_TEXT])
{
	text[0] = '\0';
	for (uint32_t i = 1; path && i < model->module_count && !text[0]; i++)
		if (model->modules[i].path && !strcmp(model->modules[i].path, path))
			limpet_export_build_id(&model->modules[i], text);
	return text;
}

static int print_place(const struct limpet_analysis *analysis, uint32_t node, FILE *file)
{
	char build_id[LIMPET_EXPORT_BUILD_ID_TEXT];
	const struct limpet_location *place;
	const struct limpet_function *function;
	struct limpet_location_stack stack;
	LIMPET_FREE char *name = NULL;
	int code = limpet_locations_stack(analysis->locations, node, analysis->view.full, &stack);

	if (code)
		return code;
	place = &analysis->locations->locations[stack.list[0]];
	function = &analysis->locations->functions[place->function];
	name = frame_name(function);
	code = name ? limpet_export_csv_text(file, name) : -ENOMEM;
	fputc(',', file);
	code = code ? code : limpet_export_csv_text(file, place->file);
	fputc(',', file);
	if (place->line)
		fprintf(file, "%u", place->line);
	fputc(',', file);
	code = code ? code : limpet_export_csv_text(file, function->module);
	fprintf(file, ",%s,", build_id_of(analysis->model, function->module, build_id));
	return code;
}

static int print_row(const struct limpet_analysis *analysis, const char *capture,
		     const struct row *row, FILE *file)
{
	const struct limpet_model_site *figures = &row->figures;
	const struct limpet_model *model = analysis->model;
	int code;

	fprintf(file, "%s,%.3f,%d,%d,s%016" PRIx64 ",", capture, (double)model->duration_ns / 1e9,
		model->complete, model->sample_bytes != 0, row->key);
	code = print_place(analysis, figures->node, file);
	code = code ? code : limpet_export_csv_text(file, row->stack);
	fprintf(file,
		",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		"\n",
		figures->allocations, figures->allocated_bytes, figures->frees,
		figures->freed_bytes, figures->live_allocations, figures->live_bytes,
		figures->peak_bytes);
	return code;
}

/* By key, each once. Returns their number, or -ENOMEM. */
static ssize_t gather(const struct limpet_analysis *analysis, struct row *rows)
{
	const struct limpet_view *view = &analysis->view;
	size_t count = 0;

	for (size_t i = 0; i < view->site_count; i++) {
		rows[i].figures = view->sites[i];
		rows[i].stack = stack_text(analysis, view->sites[i].node);
		if (!rows[i].stack)
			return -ENOMEM;
		rows[i].key = hash_text(rows[i].stack);
	}
	qsort(rows, view->site_count, sizeof(*rows), compare_rows);
	for (size_t i = 0; i < view->site_count; i++) {
		if (count && rows[count - 1].key == rows[i].key) {
			limpet_view_add_figures(&rows[count - 1].figures, &rows[i].figures);
			free(LIMPET_TAKE(rows[i].stack));
			continue;
		}
		rows[count] = rows[i];
		if (count++ != i)
			rows[i].stack = NULL;
	}
	return (ssize_t)count;
}

static int print_sites(struct limpet_analysis *analysis, const char *capture, FILE *file)
{
	const size_t all = analysis->view.site_count;
	struct row *rows = calloc(all + 1, sizeof(*rows));
	ssize_t count = rows ? gather(analysis, rows) : -ENOMEM;
	int code = count < 0 ? (int)count : 0;

	fputs(COLUMNS ",seconds,complete,estimated,site,function,file,line,module,build_id,stack,"
		      "allocations,allocated_bytes,frees,freed_bytes,live_allocations,live_bytes,"
		      "peak_bytes\n",
	      file);
	for (ssize_t i = 0; i < count && code == 0 && !ferror(file); i++)
		code = print_row(analysis, capture, &rows[i], file);
	for (size_t i = 0; rows && i < all; i++)
		free(rows[i].stack);
	free(rows);
	return code;
}

/* ------------------------------------------------------------------ points */

static int print_points(struct limpet_analysis *analysis, const char *capture, FILE *file)
{
	const struct limpet_model *model = analysis->model;

	fputs(COLUMNS ",seconds,allocations,live_bytes,mapped_bytes,rss_bytes\n", file);
	for (size_t i = 0; i < model->timeline_count; i++) {
		const struct limpet_model_point *point = &model->timeline[i];

		fprintf(file, "%s,%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", capture,
			(double)point->time_ns / 1e9, point->allocations, point->live_bytes,
			point->mapped_bytes);
		if (point->rss_bytes)
			fprintf(file, "%" PRIu64, limpet_model_point_rss(point));
		fputc('\n', file);
	}
	return 0;
}

static int write_fleet(struct limpet_analysis *analysis, const struct limpet_export_part *part,
		       FILE *file)
{
	static int (*const tables[])(struct limpet_analysis *, const char *,
				     FILE *) = {print_sites, print_points};
	LIMPET_FREE char *capture = capture_columns(analysis->model->target);

	if (!capture)
		return -ENOMEM;
	return part->table < LIMPET_COUNT_OF(tables) ? tables[part->table](analysis, capture, file)
						     : -EINVAL;
}

const struct limpet_export_format limpet_export_fleet = {
	.name = "fleet",
	.needs = LIMPET_EXPORT_WHOLE,
	.write = write_fleet,
	.tables = (const char *const[]){"sites", "points", NULL},
};
