/* The common parts of pages of figures; the rest is in html.c and html_diff.c. */
#include "analyzer/html/html_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/html/html_packed.h"
#include "analyzer/model/frame_filter.h"
#include "common/array.h"
#include "common/plain_text.h"

/* Mark the places of the parts in the template, in this order. */
static const char *const places[LIMPET_HTML_PARTS] = {"@DATA@", "@LIVES@"};

extern const char limpet_html_template[], limpet_html_template_end[];

/* ------------------------------------------------------------------ numbers for repeated values */

/* Sets the printer's error unless there was memory. */
static void check(struct limpet_html_page *page, bool done)
{
	limpet_json_check(&page->printer, done ? 0 : -ENOMEM);
}

/* -1: no text. */
static json_int_t number_of(struct limpet_html_page *page, json_t *table, const char *text)
{
	char *repaired = text ? limpet_plain_text_repair(text) : NULL;
	json_t *known = repaired ? json_object_get(table, repaired) : NULL;
	json_int_t number = -1;

	if (known) {
		number = json_integer_value(known);
	} else if (repaired) {
		number = (json_int_t)json_object_size(table);
		check(page, !json_object_set_new(table, repaired, json_integer(number)));
	} else {
		check(page, !text);
	}
	free(repaired);
	return number;
}

void limpet_html_add(struct limpet_html_page *page, json_t *array, json_t *value)
{
	check(page, !json_array_append_new(array, value));
}

static void add_column(struct limpet_html_page *page, const char *name, json_t *value)
{
	limpet_html_add(page, json_object_get(page->columns, name), value);
}

static json_int_t frame_number(struct limpet_html_page *page,
			       const struct limpet_model_frame *frame, const char *module,
			       bool allocator, bool made, uint64_t offset)
{
	json_int_t function = number_of(page, page->strings, frame->function);
	json_int_t file = number_of(page, page->strings, frame->file);
	json_int_t where = number_of(page, page->strings, module);
	char frame_key[128], hex[20];
	size_t before = json_object_size(page->frames);
	json_int_t number;

	/* The offset distinguishes only frames without a function. */
	snprintf(frame_key, sizeof(frame_key), "%lld %lld %u %d %lld %d %" PRIx64,
		 (long long)function, (long long)file, frame->line, frame->inlined,
		 (long long)where, made, function < 0 ? offset : 0);
	number = number_of(page, page->frames, frame_key);
	if (json_object_size(page->frames) == before)
		return number;
	snprintf(hex, sizeof(hex), "%" PRIx64, offset);
	add_column(page, "function", json_integer(function));
	add_column(page, "file", json_integer(file));
	add_column(page, "line", json_integer(frame->line));
	add_column(page, "module", json_integer(where));
	add_column(page, "offset", json_string(hex));
	add_column(page, "inlined", json_integer(frame->inlined));
	add_column(page, "made", json_integer(made));
	add_column(page, "kind",
		   json_integer(limpet_frame_filter_classify(frame->function, module, allocator)));
	return number;
}

static struct limpet_html_address *address_place(const struct limpet_html_page *page,
						 const struct limpet_html_address *key)
{
	const uint64_t hash =
		(key->address ^ (uint64_t)key->module << 48 ^ key->first) * 0x9e3779b97f4a7c15ull;
	size_t at = (size_t)(hash ^ hash >> 32);

	for (;; at++) {
		struct limpet_html_address *place = &page->known[at & (page->known_capacity - 1)];

		if (!place->number || (place->address == key->address &&
				       place->module == key->module && place->first == key->first))
			return place;
	}
}

static int grow_known(struct limpet_html_page *page)
{
	const size_t capacity = page->known_capacity;
	struct limpet_html_address *before = page->known, *larger;

	if (2 * json_array_size(page->addresses) < capacity)
		return 0;
	larger = calloc(capacity ? 2 * capacity : 1024, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	page->known = larger;
	page->known_capacity = capacity ? 2 * capacity : 1024;
	for (size_t i = 0; i < capacity; i++)
		if (before[i].number)
			*address_place(page, &before[i]) = before[i];
	free(before);
	return 0;
}

static json_t *frames_at(struct limpet_html_page *page, const struct limpet_model *model,
			 const struct limpet_trace_node *node)
{
	const struct limpet_trace_module *module = &model->modules[node->module];
	const struct limpet_model_frame nameless = {0}, *frames = &nameless;
	uint64_t offset = node->address - 1;
	json_t *list = json_array();
	/* JIT code is in no module, and may have names. */
	const uint32_t count = limpet_model_symbols(model, node->module, node->address, &frames);

	if (node->module)
		offset -= module->bias;
	for (uint32_t i = 0; i < count || !i; i++)
		limpet_html_add(page, list,
				json_integer(frame_number(page, count ? &frames[i] : &nameless,
							  node->module ? module->path : NULL,
							  node->module && module->allocator,
							  node->made, offset)));
	return list;
}

/* -1: no memory. */
static int32_t address_number(struct limpet_html_page *page, const struct limpet_model *model,
			      uint32_t first, const struct limpet_trace_node *node)
{
	const struct limpet_html_address key = {
		.address = node->address, .first = first, .module = node->module};
	const size_t count = json_array_size(page->addresses);
	struct limpet_html_address *place;

	check(page, count < INT32_MAX && grow_known(page) == 0);
	if (page->printer.error)
		return -1;
	place = address_place(page, &key);
	if (!place->number) {
		*place = key;
		place->number = (uint32_t)count + 1;
		limpet_html_add(page, page->addresses, frames_at(page, model, node));
	}
	return (int32_t)(place->number - 1);
}

/* ------------------------------------------------------------------ rows of numbers */

static void append_text(struct limpet_html_page *page, const char *text)
{
	limpet_bytes_append(&page->row, text, strlen(text));
}

static void append_number(struct limpet_html_page *page, int64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	do
		digits[--at] = (char)('0' + left % 10);
	while (left /= 10);
	if (number < 0)
		digits[--at] = '-';
	limpet_bytes_append(&page->row, digits + at, sizeof(digits) - at);
}

void limpet_html_row_begin(struct limpet_html_page *page)
{
	limpet_bytes_clear(&page->row);
	append_text(page, "{");
	page->row_began = false;
}

void limpet_html_row_key(struct limpet_html_page *page, const char *key)
{
	append_text(page, page->row_began ? ",\"" : "\"");
	append_text(page, key);
	append_text(page, "\":");
	page->row_began = true;
}

void limpet_html_row_value(struct limpet_html_page *page, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	check(page, text);
	if (text)
		append_text(page, text);
	free(text);
	json_decref(value);
}

void limpet_html_row_number(struct limpet_html_page *page, const char *key, int64_t number)
{
	limpet_html_row_key(page, key);
	append_number(page, number);
}

void limpet_html_row_column(struct limpet_html_page *page, const char *key)
{
	limpet_html_row_key(page, key);
	append_text(page, "[");
}

void limpet_html_row_add(struct limpet_html_page *page, int64_t number)
{
	append_number(page, number);
	append_text(page, ",");
}

void limpet_html_row_column_end(struct limpet_html_page *page)
{
	/* Replaces the last comma. */
	if (page->row.count && page->row.data[page->row.count - 1] == ',')
		page->row.count--;
	append_text(page, "]");
}

void limpet_html_row_end(struct limpet_html_page *page)
{
	append_text(page, "}");
	check(page, !page->row.failed);
	if (!page->printer.error)
		fwrite(page->row.data, 1, page->row.count, page->printer.file);
}

void limpet_html_row_item(struct limpet_html_page *page)
{
	if (!page->printer.error)
		fputs(page->printer.items++ ? ",\n" : "\n", page->printer.file);
	limpet_html_row_end(page);
}

/* ------------------------------------------------------------------ the parts */

/* Nodes of the stacks of sites. NULL: no memory. */
static bool *used_nodes(const struct limpet_model *model)
{
	bool *used = calloc(model->node_count + 1ul, sizeof(*used));

	for (size_t i = 0; used && i < model->site_count; i++)
		for (uint32_t at = model->sites[i].node; at && !used[at];
		     at = model->nodes[at].parent)
			used[at] = true;
	return used;
}

uint32_t limpet_html_add_nodes(struct limpet_html_page *page, const struct limpet_model *model)
{
	const uint32_t first = (uint32_t)page->node_count;
	LIMPET_FREE bool *used = used_nodes(model);

	check(page, used && limpet_reserve(&page->nodes, &page->node_capacity,
					   page->node_count + model->node_count,
					   sizeof(*page->nodes)) == 0);
	if (page->printer.error)
		return first;
	for (uint32_t i = 0; used && i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		bool known = used[i] && !node->lost;

		page->nodes[page->node_count++] = (struct limpet_html_node){
			.parent = known ? first + node->parent : 0,
			.address = known ? address_number(page, model, first, node) : -1};
	}
	return first;
}

/* In the order of their numbers. */
static json_t *texts(struct limpet_html_page *page)
{
	size_t count = json_object_size(page->strings);
	const char **list = calloc(count + 1, sizeof(*list)), *key;
	json_t *array = json_array(), *value;

	json_object_foreach(page->strings, key, value) if (list) list[json_integer_value(value)] =
		key;
	for (size_t i = 0; list && i < count; i++)
		limpet_html_add(page, array, json_string(list[i]));
	check(page, list);
	free(list);
	return array;
}

void limpet_html_print_stacks(struct limpet_html_page *page)
{
	if (!page->printer.error)
		fputs(",\n\"nodes\":", page->printer.file);
	limpet_html_row_begin(page);
	limpet_html_row_column(page, "parent");
	for (size_t i = 0; i < page->node_count; i++)
		limpet_html_row_add(page, page->nodes[i].parent);
	limpet_html_row_column_end(page);
	limpet_html_row_column(page, "address");
	for (size_t i = 0; i < page->node_count; i++)
		limpet_html_row_add(page, page->nodes[i].address);
	limpet_html_row_column_end(page);
	limpet_html_row_end(page);
	limpet_json_member(&page->printer, "addresses", json_incref(page->addresses));
	limpet_json_member(&page->printer, "frames", json_incref(page->columns));
	limpet_json_member(&page->printer, "strings", texts(page));
}

json_t *limpet_html_timeline(struct limpet_html_page *page, const struct limpet_model *model)
{
	json_t *at = json_array(), *live = json_array(), *mapped = json_array();
	json_t *rss = json_array(), *cgroup = json_array();

	for (size_t i = 0; i < model->timeline_count; i++) {
		const struct limpet_model_point *point = &model->timeline[i];

		limpet_html_add(page, at, limpet_json_seconds(point->time_ns));
		limpet_html_add(page, live, json_integer((json_int_t)point->live_bytes));
		limpet_html_add(page, mapped, limpet_json_known(point->mapped_bytes));
		limpet_html_add(page, rss, limpet_json_known(limpet_model_point_rss(point)));
		limpet_html_add(page, cgroup, limpet_json_known(point->cgroup_bytes));
	}
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:b}", "seconds", at, "live", live, "mapped", mapped,
			 "rss", rss, "cgroup", cgroup, "without_own_part",
			 limpet_model_has_own_part(model));
}

static void print_part(struct limpet_html_page *page, limpet_html_print_fn *print, void *context,
		       FILE *file)
{
	page->printer.file = limpet_html_packed_open(file);
	check(page, page->printer.file);
	if (!page->printer.error)
		print(page, context);
	if (page->printer.file && fclose(page->printer.file))
		check(page, ferror(file));
	page->printer.file = NULL;
}

static void print_template(struct limpet_html_page *page,
			   limpet_html_print_fn *const print[LIMPET_HTML_PARTS], void *context,
			   FILE *file)
{
	/* Assembler labels, not one object: pointers to them must not be subtracted. */
	size_t left = (uintptr_t)limpet_html_template_end - (uintptr_t)limpet_html_template;
	const char *from = limpet_html_template;

	for (unsigned i = 0; i < LIMPET_HTML_PARTS; i++) {
		const char *place = memmem(from, left, places[i], strlen(places[i]));
		const size_t before = (size_t)(place - from);

		fwrite(from, 1, before, file);
		if (print[i] && !page->printer.error)
			print_part(page, print[i], context, file);
		from = place + strlen(places[i]);
		left -= before + strlen(places[i]);
	}
	fwrite(from, 1, left, file);
}

int limpet_html_page_print(limpet_html_print_fn *const print[LIMPET_HTML_PARTS], void *context,
			   FILE *file)
{
	struct limpet_html_page page = {
		.strings = json_object(),
		.frames = json_object(),
		.addresses = json_array(),
		.columns = json_pack("{s:[],s:[],s:[],s:[],s:[],s:[],s:[],s:[]}", "function",
				     "file", "line", "module", "offset", "inlined", "made", "kind"),
	};

	check(&page, page.strings && page.frames && page.addresses && page.columns);
	print_template(&page, print, context, file);
	json_decref(page.strings);
	json_decref(page.frames);
	json_decref(page.addresses);
	free(page.known);
	free(page.nodes);
	limpet_bytes_done(&page.row);
	json_decref(page.columns);
	return page.printer.error;
}
