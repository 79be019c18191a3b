/* What pages of figures have in common: the rest is in html.c and html_diff.c. */
#include "analyzer/render/html_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/frame_filter.h"
#include "common/plain_text.h"

/* Where the figures go in the template. */
#define PLACE "@DATA@"

extern const char limpet_html_template[], limpet_html_template_end[];

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

/* Whether there was memory for it. */
static void check(struct limpet_html_page *page, bool done)
{
	limpet_json_check(&page->printer, done ? 0 : -ENOMEM);
}

/* -1: no such text. */
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
	char look[128], hex[20];
	size_t before = json_object_size(page->frames);
	json_int_t number;

	/* An offset tells frames apart only where nothing else does. */
	snprintf(look, sizeof(look), "%lld %lld %u %d %lld %d %" PRIx64, (long long)function,
		 (long long)file, frame->line, frame->inlined, (long long)where, made,
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
	add_column(page, "made", json_integer(made));
	add_column(page, "kind",
		   json_integer(limpet_frame_filter_classify(frame->function, module, allocator)));
	return number;
}

static json_int_t address_number(struct limpet_html_page *page, const struct limpet_model *model,
				 uint32_t first, const struct limpet_trace_node *node)
{
	const struct limpet_trace_module *module = &model->modules[node->module];
	const struct limpet_model_frame nameless = {0}, *frames = &nameless;
	uint64_t offset = node->address - 1;
	json_int_t number;
	json_t *list;
	char look[64];
	size_t before = json_object_size(page->known);
	uint32_t count = 0;

	/* Modules are numbered by each model for itself. */
	snprintf(look, sizeof(look), "%u %u %" PRIx64, first, node->module, node->address);
	number = number_of(page, page->known, look);
	if (json_object_size(page->known) == before)
		return number;
	if (node->module) {
		offset -= module->bias;
		count = limpet_model_symbols(model, node->module, node->address, &frames);
	}
	list = json_array();
	for (uint32_t i = 0; i < count || !i; i++)
		limpet_html_add(page, list,
				json_integer(frame_number(page, count ? &frames[i] : &nameless,
							  node->module ? module->path : NULL,
							  node->module && module->allocator,
							  node->made, offset)));
	limpet_html_add(page, page->addresses, list);
	return number;
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
	const uint32_t first = (uint32_t)json_array_size(page->parents);
	LIMPET_FREE bool *used = used_nodes(model);

	check(page, used);
	for (uint32_t i = 0; used && i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		bool known = used[i] && !node->lost;

		limpet_html_add(page, page->parents,
				json_integer(known ? first + node->parent : 0));
		limpet_html_add(
			page, page->node_addresses,
			json_integer(known ? address_number(page, model, first, node) : -1));
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
	limpet_json_member(
		&page->printer, "nodes",
		json_pack("{s:O,s:O}", "parent", page->parents, "address", page->node_addresses));
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

int limpet_html_page_print(void (*print_data)(struct limpet_html_page *page, void *context),
			   void *context, FILE *file)
{
	const cookie_io_functions_t functions = {.write = write_escaped};
	/* Two labels of the assembler's, not two objects. */
	const size_t bytes = (uintptr_t)limpet_html_template_end - (uintptr_t)limpet_html_template;
	const char *place = memmem(limpet_html_template, bytes, PLACE, strlen(PLACE));
	const size_t before = (size_t)(place - limpet_html_template);
	struct limpet_html_page page = {
		.printer.file = fopencookie(file, "w", functions),
		.strings = json_object(),
		.frames = json_object(),
		.known = json_object(),
		.addresses = json_array(),
		.parents = json_array(),
		.node_addresses = json_array(),
		.columns = json_pack("{s:[],s:[],s:[],s:[],s:[],s:[],s:[],s:[]}", "function",
				     "file", "line", "module", "offset", "inlined", "made", "kind"),
	};

	fwrite(limpet_html_template, 1, before, file);
	check(&page, page.printer.file && page.strings && page.frames && page.known &&
			     page.addresses && page.parents && page.node_addresses && page.columns);
	if (!page.printer.error)
		print_data(&page, context);
	if (page.printer.file && fclose(page.printer.file))
		check(&page, ferror(file));
	fwrite(place + strlen(PLACE), 1, bytes - before - strlen(PLACE), file);
	json_decref(page.strings);
	json_decref(page.frames);
	json_decref(page.known);
	json_decref(page.addresses);
	json_decref(page.parents);
	json_decref(page.node_addresses);
	json_decref(page.columns);
	return page.printer.error;
}
