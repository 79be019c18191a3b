#include "analyzer/model/source_locations.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/model/frames.h"
#include "analyzer/symbols/demangle.h"
#include "common/array.h"
#include "common/base_name.h"
#include "common/plain_text.h"

#define MOST_ITEMS (1u << 31)

/* A number for each distinct key; also stores the strings. */
struct entry {
	uint32_t number;
	UT_hash_handle hh;
	char key[];
};

struct run {
	uint32_t first, count; /* in `run_places` */
};

struct limpet_locations_tables {
	struct entry *functions, *locations, *addresses, *strings;
	size_t function_capacity, place_capacity;
	struct run *runs;
	uint32_t run_count;
	size_t run_capacity;
	uint32_t *run_places;
	uint32_t run_place_count;
	size_t run_place_capacity;
	uint32_t *run_of_node; /* number + 1; 0: none */
	/* of the last stack */
	uint32_t *stack;
	enum limpet_frame_kind *kinds;
	bool *keep;
	size_t stack_capacity, kind_capacity, keep_capacity;
};

static int find_entry(struct entry **table, const void *key, size_t key_bytes, uint32_t next,
		      struct entry **ret_entry)
{
	struct entry *entry;

	HASH_FIND(hh, *table, key, key_bytes, entry);
	if (entry) {
		*ret_entry = entry;
		return 0;
	}
	entry = malloc(sizeof(*entry) + key_bytes + 1);
	if (!entry)
		return -ENOMEM;
	memcpy(entry->key, key, key_bytes);
	entry->key[key_bytes] = '\0';
	entry->number = next;
	HASH_ADD_KEYPTR(hh, *table, entry->key, key_bytes, entry);
	*ret_entry = entry;
	return 1;
}

static void free_entries(struct entry **table)
{
	struct entry *entry = *table;

	/* HASH_CLEAR frees the table and leaves its members linked. */
	HASH_CLEAR(hh, *table);
	while (entry) {
		struct entry *next = entry->hh.next;

		free(entry);
		entry = next;
	}
}

/* One copy of each string, so that equal ones are equal pointers. NULL stays NULL. */
static int intern_string(struct limpet_locations_tables *tables, const char *string,
			 const char **ret_string)
{
	struct entry *entry = NULL;
	int result;

	*ret_string = NULL;
	if (!string)
		return 0;
	result = find_entry(&tables->strings, string, strlen(string), 0, &entry);
	if (result < 0)
		return result;
	*ret_string = entry->key;
	return 0;
}

/* Items have numbers of 32 bits. */
static int reserve_items(void *array, size_t *capacity, uint32_t count, size_t item_bytes)
{
	return count > MOST_ITEMS ? -ENOMEM : limpet_reserve(array, capacity, count, item_bytes);
}

/* ------------------------------------------------------------------ functions and lines */

static int add_function(struct limpet_locations *locations, const struct limpet_function *function,
			uint32_t *ret_number)
{
	struct limpet_locations_tables *tables = locations->tables;
	LIMPET_FREE char *key = NULL;
	struct limpet_function *added;
	struct entry *entry = NULL;
	int length, result;

	/* A unit separator: no real name contains one, and a crafted name only merges itself. */
	length = asprintf(&key, "%s\x1f%s", function->name,
			  function->module ? function->module
			  : function->file ? function->file
					   : "");
	if (length < 0) {
		key = NULL;
		return -ENOMEM;
	}
	if (reserve_items(&locations->functions, &tables->function_capacity,
			  locations->function_count + 1, sizeof(*locations->functions)) < 0)
		return -ENOMEM;
	result = find_entry(&tables->functions, key, (size_t)length, locations->function_count,
			    &entry);
	if (result < 0)
		return result;
	assert(entry && locations->functions);
	*ret_number = entry->number;
	added = &locations->functions[entry->number];
	if (result == 1) {
		locations->function_count++;
		*added = *function;
		result = intern_string(tables, function->name, &added->name);
		if (result == 0)
			result = intern_string(tables, function->module, &added->module);
		added->file = NULL;
		if (result < 0)
			return result;
	}
	if (!added->file)
		return intern_string(tables, function->file, &added->file);
	return 0;
}

static int add_place(struct limpet_locations *locations, uint32_t function, const char *file,
		     uint32_t line, bool inlined, uint32_t *ret_number)
{
	struct limpet_locations_tables *tables = locations->tables;
	struct {
		const char *file;
		uint32_t function, line;
		uint64_t inlined;
	} key = {NULL, function, line, inlined};
	struct entry *entry = NULL;
	int result = intern_string(tables, file, &key.file);

	if (result < 0 ||
	    reserve_items(&locations->locations, &tables->place_capacity,
			  locations->location_count + 1, sizeof(*locations->locations)) < 0)
		return -ENOMEM;
	result = find_entry(&tables->locations, &key, sizeof(key), locations->location_count,
			    &entry);
	if (result < 0)
		return result;
	assert(entry && locations->locations);
	*ret_number = entry->number;
	if (result == 1)
		locations->locations[locations->location_count++] = (struct limpet_location){
			.function = function, .line = line, .file = key.file, .inlined = inlined};
	return 0;
}

static int add_frame(struct limpet_locations *locations, const struct limpet_frame *frame,
		     uint32_t *ret_place)
{
	struct limpet_function function = {.name = frame->function,
					   .module = frame->module,
					   .file = frame->file,
					   .kind = frame->kind,
					   .named = frame->function != NULL};
	LIMPET_FREE char *name = NULL;
	uint32_t number;
	int result;

	if (!frame->function && frame->module) {
		if (asprintf(&name, "%s+0x%" PRIx64, limpet_base_name(frame->module),
			     frame->offset) < 0) {
			name = NULL;
			return -ENOMEM;
		}
		function.name = name;
	} else if (!frame->function) {
		function.name = limpet_frame_nameless(frame->made);
	}
	result = add_function(locations, &function, &number);
	return result < 0 ? result
			  : add_place(locations, number, frame->file, frame->line, frame->inlined,
				      ret_place);
}

/* ------------------------------------------------------------------ nodes */

static int add_run(struct limpet_locations *locations, const struct limpet_trace_node *node)
{
	struct limpet_locations_tables *tables = locations->tables;
	struct limpet_frame frames[LIMPET_NODE_FRAMES_MAX];
	size_t count = limpet_node_frames(locations->model, node, frames, LIMPET_NODE_FRAMES_MAX);
	int result = reserve_items(&tables->runs, &tables->run_capacity, tables->run_count + 1,
				   sizeof(*tables->runs));

	if (result == 0)
		result = reserve_items(&tables->run_places, &tables->run_place_capacity,
				       tables->run_place_count + (uint32_t)count,
				       sizeof(*tables->run_places));
	if (result < 0)
		return result;
	tables->runs[tables->run_count++] =
		(struct run){.first = tables->run_place_count, .count = (uint32_t)count};
	for (size_t i = 0; i < count && result == 0; i++)
		result = add_frame(locations, &frames[i],
				   &tables->run_places[tables->run_place_count++]);
	return result;
}

static int add_nodes(struct limpet_locations *locations)
{
	const struct limpet_model *model = locations->model;
	struct limpet_locations_tables *tables = locations->tables;

	for (uint32_t i = 1; i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		const struct {
			uint64_t address, module;
		} key = {node->address, node->module};
		struct entry *entry;
		int result;

		if (node->lost)
			continue;
		result = find_entry(&tables->addresses, &key, sizeof(key), tables->run_count,
				    &entry);
		if (result == 1)
			result = add_run(locations, node);
		if (result < 0)
			return result;
		tables->run_of_node[i] = entry->number + 1;
	}
	return 0;
}

static int add_fixed(struct limpet_locations *locations)
{
	static const char *const names[] = {
		[LIMPET_LOCATION_UNKNOWN] = "(stack unknown)",
		[LIMPET_LOCATION_CUT] = "(stack cut short)",
		[LIMPET_LOCATION_UNFAULTED] = LIMPET_MODEL_UNFAULTED_WORDS,
	};
	uint32_t number;
	int result = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(names) && result == 0; i++) {
		const struct limpet_function function = {.name = names[i]};

		result = add_function(locations, &function, &number);
		if (result == 0)
			result = add_place(locations, number, NULL, 0, false, &number);
	}
	return result;
}

int limpet_locations_new(const struct limpet_model *model, struct limpet_locations **ret_locations)
{
	struct limpet_locations *locations = calloc(1, sizeof(*locations));
	int result = -ENOMEM;

	if (!locations)
		return -ENOMEM;
	locations->model = model;
	locations->tables = calloc(1, sizeof(*locations->tables));
	if (locations->tables)
		locations->tables->run_of_node =
			calloc(model->node_count + 1ul, sizeof(*locations->tables->run_of_node));
	if (locations->tables && locations->tables->run_of_node)
		result = add_fixed(locations);
	if (result == 0)
		result = add_nodes(locations);
	if (result < 0) {
		limpet_locations_free(locations);
		return result;
	}
	locations->address_count = locations->tables->run_count;
	free_entries(&locations->tables->addresses);
	free_entries(&locations->tables->locations);
	free_entries(&locations->tables->functions);
	*ret_locations = locations;
	return 0;
}

void limpet_locations_free(struct limpet_locations *locations)
{
	struct limpet_locations_tables *tables;

	if (!locations)
		return;
	tables = locations->tables;
	if (tables) {
		free_entries(&tables->functions);
		free_entries(&tables->locations);
		free_entries(&tables->addresses);
		free_entries(&tables->strings);
		free(tables->runs);
		free(tables->run_places);
		free(tables->run_of_node);
		free(tables->stack);
		free(tables->kinds);
		free(tables->keep);
		free(tables);
	}
	free(locations->functions);
	free(locations->locations);
	free(locations);
}

uint32_t limpet_locations_of_node(const struct limpet_locations *locations, uint32_t node,
				  const uint32_t **ret_list)
{
	const struct limpet_locations_tables *tables = locations->tables;
	uint32_t run = node < locations->model->node_count ? tables->run_of_node[node] : 0;

	if (!run)
		return 0;
	*ret_list = tables->run_places + tables->runs[run - 1].first;
	return tables->runs[run - 1].count;
}

uint32_t limpet_locations_address_number(const struct limpet_locations *locations, uint32_t node)
{
	return node < locations->model->node_count ? locations->tables->run_of_node[node] : 0;
}

/* ------------------------------------------------------------------ stacks */

static int reserve_stack(struct limpet_locations_tables *tables, size_t count)
{
	int code = limpet_reserve(&tables->stack, &tables->stack_capacity, count,
				  sizeof(*tables->stack));

	if (code == 0)
		code = limpet_reserve(&tables->kinds, &tables->kind_capacity, count,
				      sizeof(*tables->kinds));
	if (code == 0)
		code = limpet_reserve(&tables->keep, &tables->keep_capacity, count,
				      sizeof(*tables->keep));
	return code;
}

static bool is_jit(const struct limpet_locations *locations, uint32_t place)
{
	const struct limpet_function *function =
		&locations->functions[locations->locations[place].function];

	return !function->named && !function->module;
}

static size_t fold(struct limpet_locations *locations, size_t count)
{
	struct limpet_locations_tables *tables = locations->tables;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		tables->kinds[i] =
			locations->functions[locations->locations[tables->stack[i]].function].kind;
	limpet_frame_filter_stack(tables->kinds, count, tables->keep);
	for (size_t i = 0; i < count; i++) {
		if (!tables->keep[i])
			continue;
		if (kept && is_jit(locations, tables->stack[i]) &&
		    is_jit(locations, tables->stack[kept - 1]))
			continue;
		tables->stack[kept++] = tables->stack[i];
	}
	return kept;
}

int limpet_locations_stack(struct limpet_locations *locations, uint32_t node, bool full,
			   struct limpet_location_stack *ret_stack)
{
	const struct limpet_model *model = locations->model;
	struct limpet_locations_tables *tables = locations->tables;
	const bool unfaulted = limpet_model_is_unfaulted(model, node);
	bool cut = false, unknown = !node;
	size_t count = 0;
	int result = reserve_stack(tables, 2);

	while (result == 0 && node && node < model->node_count) {
		const struct limpet_trace_node *at = &model->nodes[node];
		const uint32_t *list;
		uint32_t more = limpet_locations_of_node(locations, node, &list);

		cut |= at->lost || at->truncated;
		if (at->lost)
			break;
		result = reserve_stack(tables, count + more + 2);
		for (uint32_t i = 0; i < more && result == 0; i++)
			tables->stack[count++] = list[i];
		node = at->parent;
	}
	if (result < 0)
		return result;
	if (!full)
		count = fold(locations, count);
	if (unfaulted && !count)
		tables->stack[count++] = LIMPET_LOCATION_UNFAULTED;
	else if (unknown || (!count && !cut))
		tables->stack[count++] = LIMPET_LOCATION_UNKNOWN;
	else if (cut)
		tables->stack[count++] = LIMPET_LOCATION_CUT;
	*ret_stack = (struct limpet_location_stack){.list = tables->stack, .count = count};
	return 0;
}

char *limpet_function_name(const struct limpet_function *function, bool full)
{
	char *name = function->named && !full ? limpet_demangle_shorten(function->name)
					      : strdup(function->name);

	return name ? limpet_plain_text_clean(name) : NULL;
}
