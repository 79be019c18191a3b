#include "analyzer/places.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/demangle.h"
#include "analyzer/frames.h"
#include "common/plain_text.h"
#include "common/room.h"

#define MOST_ITEMS (1u << 31)

/* A number for each distinct key; also keeps the strings. */
struct entry {
	uint32_t number;
	UT_hash_handle hh;
	char key[];
};

struct run {
	uint32_t first, count; /* in `run_places` */
};

struct limpet_places_private {
	struct entry *functions, *places, *addresses, *strings;
	size_t function_room, place_room;
	struct run *runs;
	uint32_t run_count;
	size_t run_room;
	uint32_t *run_places;
	uint32_t run_place_count;
	size_t run_place_room;
	uint32_t *run_of_node; /* number + 1; 0: none */
	/* of the last stack */
	uint32_t *stack;
	enum limpet_fold_kind *kinds;
	bool *keep;
	size_t room;
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

	/* Clearing frees the table and leaves its members linked. */
	HASH_CLEAR(hh, *table);
	while (entry) {
		struct entry *next = entry->hh.next;

		free(entry);
		entry = next;
	}
}

/* One copy of each string, so that equal ones are equal pointers. NULL stays NULL. */
static int intern_string(struct limpet_places_private *private, const char *string,
			 const char **ret_string)
{
	struct entry *entry = NULL;
	int result;

	*ret_string = NULL;
	if (!string)
		return 0;
	result = find_entry(&private->strings, string, strlen(string), 0, &entry);
	if (result < 0)
		return result;
	*ret_string = entry->key;
	return 0;
}

/* Their numbers are of 32 bits. */
static int want(void *array, size_t *room, uint32_t count, size_t item_bytes)
{
	return count > MOST_ITEMS ? -ENOMEM : limpet_room_for(array, room, count, item_bytes);
}

/* ------------------------------------------------------------------ functions and lines */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int add_function(struct limpet_places *places, const struct limpet_function *function,
			uint32_t *ret_number)
{
	struct limpet_places_private *private = places->private;
	LIMPET_FREE char *key = NULL;
	struct limpet_function *added;
	struct entry *entry = NULL;
	int length, result;

	/* A unit separator: no name holds one by chance, and a crafted one only merges itself. */
	length = asprintf(&key, "%s\x1f%s", function->name,
			  function->module ? function->module : "");
	if (length < 0) {
		key = NULL;
		return -ENOMEM;
	}
	if (want(&places->functions, &private->function_room, places->function_count + 1,
		 sizeof(*places->functions)) < 0)
		return -ENOMEM;
	result = find_entry(&private->functions, key, (size_t)length, places->function_count,
			    &entry);
	if (result < 0)
		return result;
	assert(entry && places->functions);
	*ret_number = entry->number;
	added = &places->functions[entry->number];
	if (result == 1) {
		places->function_count++;
		*added = *function;
		result = intern_string(private, function->name, &added->name);
		if (result == 0)
			result = intern_string(private, function->module, &added->module);
		added->file = NULL;
		if (result < 0)
			return result;
	}
	if (!added->file)
		return intern_string(private, function->file, &added->file);
	return 0;
}

static int add_place(struct limpet_places *places, uint32_t function, const char *file,
		     uint32_t line, bool inlined, uint32_t *ret_number)
{
	struct limpet_places_private *private = places->private;
	struct {
		const char *file;
		uint32_t function, line;
		uint64_t inlined;
	} key = {NULL, function, line, inlined};
	struct entry *entry = NULL;
	int result = intern_string(private, file, &key.file);

	if (result < 0 || want(&places->places, &private->place_room, places->place_count + 1,
			       sizeof(*places->places)) < 0)
		return -ENOMEM;
	result = find_entry(&private->places, &key, sizeof(key), places->place_count, &entry);
	if (result < 0)
		return result;
	assert(entry && places->places);
	*ret_number = entry->number;
	if (result == 1)
		places->places[places->place_count++] = (struct limpet_place){
			.function = function, .line = line, .file = key.file, .inlined = inlined};
	return 0;
}

static int add_frame(struct limpet_places *places, const struct limpet_report_frame *frame,
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
		if (asprintf(&name, "%s+0x%" PRIx64, base_name(frame->module), frame->offset) < 0) {
			name = NULL;
			return -ENOMEM;
		}
		function.name = name;
	} else if (!frame->function) {
		function.name = limpet_report_nameless(frame->made);
	}
	result = add_function(places, &function, &number);
	return result < 0 ? result
			  : add_place(places, number, frame->file, frame->line, frame->inlined,
				      ret_place);
}

/* ------------------------------------------------------------------ nodes */

static int add_run(struct limpet_places *places, const struct limpet_trace_node *node)
{
	struct limpet_places_private *private = places->private;
	struct limpet_report_frame frames[LIMPET_REPORT_NODE_FRAMES_MAX];
	size_t count = limpet_report_node_frames(places->model, node, frames,
						 LIMPET_REPORT_NODE_FRAMES_MAX);
	int result = want(&private->runs, &private->run_room, private->run_count + 1,
			  sizeof(*private->runs));

	if (result == 0)
		result = want(&private->run_places, &private->run_place_room,
			      private->run_place_count + (uint32_t)count,
			      sizeof(*private->run_places));
	if (result < 0)
		return result;
	private->runs[private->run_count++] =
		(struct run){.first = private->run_place_count, .count = (uint32_t)count};
	for (size_t i = 0; i < count && result == 0; i++)
		result = add_frame(places, &frames[i],
				   &private->run_places[private->run_place_count++]);
	return result;
}

static int add_nodes(struct limpet_places *places)
{
	const struct limpet_model *model = places->model;
	struct limpet_places_private *private = places->private;

	for (uint32_t i = 1; i < model->node_count; i++) {
		const struct limpet_trace_node *node = &model->nodes[i];
		const struct {
			uint64_t address, module;
		} key = {node->address, node->module};
		struct entry *entry;
		int result;

		if (node->lost)
			continue;
		result = find_entry(&private->addresses, &key, sizeof(key), private->run_count,
				    &entry);
		if (result == 1)
			result = add_run(places, node);
		if (result < 0)
			return result;
		private->run_of_node[i] = entry->number + 1;
	}
	return 0;
}

static int add_fixed(struct limpet_places *places)
{
	static const char *const names[] = {
		[LIMPET_PLACE_UNKNOWN] = "(stack unknown)",
		[LIMPET_PLACE_CUT] = "(stack cut short)",
	};
	uint32_t number;
	int result = 0;

	for (size_t i = 0; i < LIMPET_COUNT_OF(names) && result == 0; i++) {
		const struct limpet_function function = {.name = names[i]};

		result = add_function(places, &function, &number);
		if (result == 0)
			result = add_place(places, number, NULL, 0, false, &number);
	}
	return result;
}

int limpet_places_new(const struct limpet_model *model, struct limpet_places **ret_places)
{
	struct limpet_places *places = calloc(1, sizeof(*places));
	int result = -ENOMEM;

	if (!places)
		return -ENOMEM;
	places->model = model;
	places->private = calloc(1, sizeof(*places->private));
	if (places->private)
		places->private->run_of_node =
			calloc(model->node_count + 1ul, sizeof(*places->private->run_of_node));
	if (places->private && places->private->run_of_node)
		result = add_fixed(places);
	if (result == 0)
		result = add_nodes(places);
	if (result < 0) {
		limpet_places_free(places);
		return result;
	}
	places->location_count = places->private->run_count;
	free_entries(&places->private->addresses);
	free_entries(&places->private->places);
	free_entries(&places->private->functions);
	*ret_places = places;
	return 0;
}

void limpet_places_free(struct limpet_places *places)
{
	struct limpet_places_private *private;

	if (!places)
		return;
	private = places->private;
	if (private) {
		free_entries(&private->functions);
		free_entries(&private->places);
		free_entries(&private->addresses);
		free_entries(&private->strings);
		free(private->runs);
		free(private->run_places);
		free(private->run_of_node);
		free(private->stack);
		free(private->kinds);
		free(private->keep);
		free(private);
	}
	free(places->functions);
	free(places->places);
	free(places);
}

uint32_t limpet_places_of_node(const struct limpet_places *places, uint32_t node,
			       const uint32_t **ret_list)
{
	const struct limpet_places_private *private = places->private;
	uint32_t run = node < places->model->node_count ? private->run_of_node[node] : 0;

	if (!run)
		return 0;
	*ret_list = private->run_places + private->runs[run - 1].first;
	return private->runs[run - 1].count;
}

uint32_t limpet_places_location(const struct limpet_places *places, uint32_t node)
{
	return node < places->model->node_count ? places->private->run_of_node[node] : 0;
}

/* ------------------------------------------------------------------ stacks */

static int want_stack(struct limpet_places_private *private, size_t count)
{
	size_t room = 2 * count + 256;
	uint32_t *stack;
	enum limpet_fold_kind *kinds;
	bool *keep;

	if (count <= private->room)
		return 0;
	stack = reallocarray(private->stack, room, sizeof(*stack));
	if (stack)
	private->stack = stack;
	kinds = reallocarray(private->kinds, room, sizeof(*kinds));
	if (kinds)
	private->kinds = kinds;
	keep = reallocarray(private->keep, room, sizeof(*keep));
	if (keep)
	private->keep = keep;
	if (!stack || !kinds || !keep)
		return -ENOMEM;
	private->room = room;
	return 0;
}

static bool is_jit(const struct limpet_places *places, uint32_t place)
{
	const struct limpet_function *function = &places->functions[places->places[place].function];

	return !function->named && !function->module;
}

static size_t fold(struct limpet_places *places, size_t count)
{
	struct limpet_places_private *private = places->private;
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
	private->kinds[i] = places->functions[places->places[private->stack[i]].function].kind;
	limpet_fold_stack(private->kinds, count, private->keep);
	for (size_t i = 0; i < count; i++) {
		if (!private->keep[i])
			continue;
		if (kept && is_jit(places, private->stack[i]) &&
		    is_jit(places, private->stack[kept - 1]))
			continue;
		private->stack[kept++] = private->stack[i];
	}
	return kept;
}

int limpet_places_stack(struct limpet_places *places, uint32_t node, bool full,
			struct limpet_place_stack *ret_stack)
{
	const struct limpet_model *model = places->model;
	struct limpet_places_private *private = places->private;
	bool cut = false, unknown = !node;
	size_t count = 0;
	int result = want_stack(private, 2);

	while (result == 0 && node && node < model->node_count) {
		const struct limpet_trace_node *at = &model->nodes[node];
		const uint32_t *list;
		uint32_t more = limpet_places_of_node(places, node, &list);

		cut |= at->lost || at->truncated;
		if (at->lost)
			break;
		result = want_stack(private, count + more + 2);
		for (uint32_t i = 0; i < more && result == 0; i++)
		private->stack[count++] = list[i];
		node = at->parent;
	}
	if (result < 0)
		return result;
	if (!full)
		count = fold(places, count);
	if (unknown || (!count && !cut))
	private->stack[count++] = LIMPET_PLACE_UNKNOWN;
	else if (cut) private->stack[count++] = LIMPET_PLACE_CUT;
	*ret_stack = (struct limpet_place_stack){.list = private->stack, .count = count};
	return 0;
}

char *limpet_function_name(const struct limpet_function *function, bool full)
{
	char *name = function->named && !full ? limpet_demangle_shorten(function->name)
					      : strdup(function->name);

	return name ? limpet_plain_text_clean(name) : NULL;
}
