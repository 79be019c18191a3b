#include "analyzer/html.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fold.h"
#include "analyzer/plain_text.h"
#include "analyzer/report.h"
#include "analyzer/report_json.h"

/* Where the figures go in the template. */
#define PLACE "@DATA@"

extern const char limpet_html_page[], limpet_html_page_end[];

struct page {
	const struct limpet_model *model;
	const struct limpet_history *history;
	const struct limpet_findings *findings;
	FILE *out;
	json_t *strings; /* text to number */
	json_t *frames;  /* what a frame looks like, to number */
	json_t *columns; /* of the frames */
	json_t *known;   /* (module, address) to number in `addresses` */
	json_t *addresses;
	bool failed; /* no memory */
};

/* ------------------------------------------------------------------ text that ends no element
 *
 * In a script element the data could end it, or open a comment, only by '<'. */

static ssize_t write_escaped(void *cookie, const char *bytes, size_t count)
{
	FILE *out = cookie;
	size_t from = 0;

	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != '<')
			continue;
		fwrite(bytes + from, 1, i - from, out);
		fputs("\\u003c", out);
		from = i + 1;
	}
	fwrite(bytes + from, 1, count - from, out);
	return ferror(out) ? -1 : (ssize_t)count;
}

/* ------------------------------------------------------------------ numbers for what comes again
 */

/* -1: no such text. */
static json_int_t number_of(struct page *page, json_t *table, const char *text)
{
	char *repaired = text ? limpet_plain_text_repair(text) : NULL;
	json_t *known = repaired ? json_object_get(table, repaired) : NULL;
	json_int_t number = -1;

	if (known) {
		number = json_integer_value(known);
	} else if (repaired) {
		number = (json_int_t)json_object_size(table);
		page->failed |= json_object_set_new(table, repaired, json_integer(number)) < 0;
	} else {
		page->failed |= text != NULL;
	}
	free(repaired);
	return number;
}

static void add(struct page *page, json_t *array, json_t *value)
{
	page->failed |= json_array_append_new(array, value) < 0;
}

static void add_column(struct page *page, const char *name, json_t *value)
{
	add(page, json_object_get(page->columns, name), value);
}

static json_int_t frame_number(struct page *page, const struct limpet_model_frame *frame,
			       const char *module, bool allocator, uint64_t offset)
{
	json_int_t function = number_of(page, page->strings, frame->function);
	json_int_t file = number_of(page, page->strings, frame->file);
	json_int_t where = number_of(page, page->strings, module);
	char look[128], hex[20];
	size_t before = json_object_size(page->frames);
	json_int_t number;

	/* An offset tells frames apart only where nothing else does. */
	snprintf(look, sizeof(look), "%lld %lld %u %d %lld %" PRIx64, (long long)function,
		 (long long)file, frame->line, frame->inlined, (long long)where,
		 function < 0 ? offset : 0);
	number = number_of(page, page->frames, look);
	if (json_object_size(page->frames) == before)
		return number;
	snprintf(hex, sizeof(hex), "%" PRIx64, offset);
	add_column(page, "function", json_integer(function));
	add_column(page, "file", json_integer(file));
	add_column(page, "line", json_integer(frame->line));
	add_column(page, "module", json_integer(where));
	add_column(page, "offset", json_string(hex));
	add_column(page, "inlined", json_integer(frame->inlined));
	add_column(page, "kind",
		   json_integer(limpet_fold_classify(frame->function, module, allocator)));
	return number;
}

static json_int_t address_number(struct page *page, const struct limpet_trace_node *node)
{
	const struct limpet_model *model = page->model;
	const struct limpet_trace_module *module = &model->modules[node->module];
	const struct limpet_model_frame nameless = {0}, *frames = &nameless;
	uint64_t offset = node->address - 1;
	json_int_t number;
	json_t *list;
	char look[64];
	size_t before = json_object_size(page->known);
	uint32_t count = 0;

	snprintf(look, sizeof(look), "%u %" PRIx64, node->module, node->address);
	number = number_of(page, page->known, look);
	if (json_object_size(page->known) == before)
		return number;
	if (node->module) {
		offset -= module->bias;
		count = limpet_model_symbols(model, node->module, node->address, &frames);
	}
	list = json_array();
	for (uint32_t i = 0; i < count || !i; i++)
		add(page, list,
		    json_integer(frame_number(page, count ? &frames[i] : &nameless,
					      node->module ? module->path : NULL,
					      node->module && module->allocator, offset)));
	add(page, page->addresses, list);
	return number;
}

/* ------------------------------------------------------------------ the parts */

static int print_value(struct page *page, const char *key, json_t *value)
{
	int result = 0;

	if (!value || page->failed)
		result = -ENOMEM;
	fprintf(page->out, ",\n\"%s\":", key);
	if (!result && json_dumpf(value, page->out, JSON_COMPACT | JSON_ENCODE_ANY) < 0 &&
	    !ferror(page->out))
		result = -ENOMEM;
	json_decref(value);
	return result;
}

static int print_nodes(struct page *page)
{
	const struct limpet_model *model = page->model;
	json_t *parents = json_array(), *addresses = json_array();

	for (uint32_t i = 0; i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		bool known = i && !node->lost;

		add(page, parents, json_integer(known ? node->parent : 0));
		add(page, addresses, json_integer(known ? address_number(page, node) : -1));
	}
	return print_value(page, "nodes",
			   json_pack("{s:o,s:o}", "parent", parents, "address", addresses));
}

/* In the order of their numbers. */
static json_t *texts(struct page *page)
{
	size_t count = json_object_size(page->strings);
	const char **list = calloc(count + 1, sizeof(*list)), *key;
	json_t *array = json_array(), *value;

	json_object_foreach(page->strings, key, value) if (list) list[json_integer_value(value)] =
		key;
	for (size_t i = 0; list && i < count; i++)
		add(page, array, json_string(list[i]));
	page->failed |= !list;
	free(list);
	return array;
}

#define COLUMN(page, steps, count, field)                                                \
	({                                                                               \
		json_t *column_ = json_array();                                          \
                                                                                         \
		for (size_t i_ = 0; i_ < (count); i_++)                                  \
			add(page, column_, json_integer((json_int_t)(steps)[i_].field)); \
		column_;                                                                 \
	})

static int print_sites(struct page *page)
{
	const struct limpet_history *history = page->history;
	int result = 0;

	fputs(",\n\"sites\":[", page->out);
	for (size_t i = 0; !result && i < history->site_count; i++) {
		const struct limpet_history_site *site = &history->sites[i];
		const struct limpet_history_step *steps = site->steps;
		size_t count = site->count;
		json_t *value = json_pack(
			"{s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "node", (json_int_t)site->node, "peak",
			(json_int_t)site->peak_bytes, "b", COLUMN(page, steps, count, step), "a",
			COLUMN(page, steps, count, allocations), "ab",
			COLUMN(page, steps, count, allocated_bytes), "f",
			COLUMN(page, steps, count, frees), "fb",
			COLUMN(page, steps, count, freed_bytes), "t",
			COLUMN(page, steps, count, temporary));

		fputs(i ? ",\n" : "\n", page->out);
		if (!value || page->failed ||
		    (json_dumpf(value, page->out, JSON_COMPACT) < 0 && !ferror(page->out)))
			result = -ENOMEM;
		json_decref(value);
	}
	fputs("]", page->out);
	return result;
}

static json_t *sizes(struct page *page)
{
	const struct limpet_model *model = page->model;
	size_t count = page->history->step_count;
	json_t *array = json_array();

	for (size_t i = 0; i < model->size_count; i++) {
		const struct limpet_model_size *steps = &page->history->sizes[i * count];
		json_t *at = json_array();

		for (size_t step = 0; step < count; step++)
			add(page, at, json_integer((json_int_t)step));
		add(page, array,
		    json_pack("{s:I,s:I,s:o,s:o,s:o}", "from",
			      (json_int_t)model->sizes[i].from_bytes, "to",
			      (json_int_t)model->sizes[i].to_bytes, "b", at, "a",
			      COLUMN(page, steps, count, allocations), "ab",
			      COLUMN(page, steps, count, allocated_bytes)));
	}
	return array;
}

static json_t *seconds(uint64_t ns)
{
	return json_real((double)ns / 1e9);
}

static json_t *known_bytes(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *timeline(struct page *page)
{
	json_t *at = json_array(), *live = json_array(), *mapped = json_array();
	json_t *rss = json_array(), *cgroup = json_array();

	for (size_t i = 0; i < page->model->timeline_count; i++) {
		const struct limpet_model_point *point = &page->model->timeline[i];

		add(page, at, seconds(point->time_ns));
		add(page, live, json_integer((json_int_t)point->live_bytes));
		add(page, mapped, known_bytes(point->mapped_bytes));
		add(page, rss, known_bytes(point->rss_bytes));
		add(page, cgroup, known_bytes(point->cgroup_bytes));
	}
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "seconds", at, "live", live, "mapped", mapped,
			 "rss", rss, "cgroup", cgroup);
}

static json_t *edges(struct page *page)
{
	json_t *array = json_array();

	for (size_t i = 0; i <= page->history->step_count; i++)
		add(page, array, seconds(page->history->edges_ns[i]));
	return array;
}

static int print_head(struct page *page)
{
	const struct limpet_report_options options = {.capture_events = page->model->totals.events,
						      .findings = page->findings};
	struct limpet_report *report;
	int result = limpet_report_new(page->model, &options, &report);

	if (result < 0)
		return result;
	fputs("{\"format\":\"limpet-html\",\"version\":1", page->out);
	result = limpet_report_json_print_head(report, page->out);
	limpet_report_free(report);
	return result;
}

static int print_data(struct page *page)
{
	int result = print_head(page);

	if (!result)
		result = print_value(page, "buckets", edges(page));
	if (!result)
		result = print_value(page, "timeline", timeline(page));
	if (!result)
		result = print_value(page, "sizes", sizes(page));
	if (!result)
		result = print_sites(page);
	if (!result)
		result = print_nodes(page);
	if (!result)
		result = print_value(page, "addresses", json_incref(page->addresses));
	if (!result)
		result = print_value(page, "frames", json_incref(page->columns));
	if (!result)
		result = print_value(page, "strings", texts(page));
	fputs("}", page->out);
	return result;
}

int limpet_html_print(const struct limpet_model *model, const struct limpet_history *history,
		      const struct limpet_findings *findings, FILE *file)
{
	const cookie_io_functions_t functions = {.write = write_escaped};
	/* Two labels of the assembler's, not two objects. */
	const size_t bytes = (uintptr_t)limpet_html_page_end - (uintptr_t)limpet_html_page;
	const char *place = memmem(limpet_html_page, bytes, PLACE, strlen(PLACE));
	const size_t before = (size_t)(place - limpet_html_page);
	struct page page = {
		.model = model,
		.history = history,
		.findings = findings,
		.out = fopencookie(file, "w", functions),
		.strings = json_object(),
		.frames = json_object(),
		.known = json_object(),
		.addresses = json_array(),
		.columns = json_pack("{s:[],s:[],s:[],s:[],s:[],s:[],s:[]}", "function", "file",
				     "line", "module", "offset", "inlined", "kind"),
	};
	int result = -ENOMEM;

	fwrite(limpet_html_page, 1, before, file);
	if (page.out && page.strings && page.frames && page.known && page.addresses && page.columns)
		result = print_data(&page);
	if (page.out && fclose(page.out) && !ferror(file))
		result = -ENOMEM;
	fwrite(place + strlen(PLACE), 1, bytes - before - strlen(PLACE), file);
	json_decref(page.strings);
	json_decref(page.frames);
	json_decref(page.known);
	json_decref(page.addresses);
	json_decref(page.columns);
	return result;
}
