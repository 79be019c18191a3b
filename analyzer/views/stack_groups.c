/* A group is a sequence of shown frames. It is built from the root outwards, so that each node
 * costs one look-up: (group of the parent, item that this node adds) -> group. What the frames at
 * an address add is computed once per address. */
#include "analyzer/views/stack_groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/model/frames.h"
#include "common/array.h"
#include "common/number_table.h"

/* A frame as it is shown: function, file and line, or module and offset. */
struct item {
	uint32_t number;
	UT_hash_handle hh;
	char key[];
};
/* Items with a meaning of their own. */
enum { ITEM_NONE = 0, ITEM_JIT = 1, ITEM_UNKNOWN = 2, ITEM_FIRST = 3 };

/* A frame at a place. */
struct step {
	uint32_t item;
	uint32_t name; /* item of a library's function by its name alone, or 0 */
	uint8_t code;  /* in no module, without a name: ITEM_JIT, ITEM_UNKNOWN */
	bool program;
};
/* The frames of all nodes of one address. */
struct place {
	uint32_t count;
	struct step steps[]; /* innermost first */
};

/* The group of a node, and what its children need to know of it. */
struct node_group {
	uint32_t number;
	uint32_t via; /* item of the library's function that the innermost shown frame called, or 0
		       */
	uint8_t code; /* of the innermost shown frame: ITEM_JIT, ITEM_UNKNOWN, or 0 */
	bool shown;   /* the innermost frame is a shown one */
	bool whole;   /* no frame of the program so far: all frames are shown */
};

struct work {
	const struct limpet_model *model;
	struct limpet_frame frames[LIMPET_NODE_FRAMES_MAX];
	struct item *items;
	uint32_t item_count;
	struct limpet_number_table addresses, place_numbers, groups;
	struct place **places; /* by number */
	size_t place_capacity;
};

/* 0: no memory. */
static uint32_t intern_item(struct work *work, const struct limpet_frame *frame)
{
	LIMPET_FREE char *key = NULL;
	struct item *item;
	int length;

	/* Unit separators: no name holds one by chance, and a crafted one only merges itself. */
	if (frame->function)
		length = asprintf(&key, "%s\x1f%s\x1f%u", frame->function,
				  frame->file ? frame->file : "", frame->line);
	else
		length = asprintf(&key, "\x1f%s\x1f%llx", frame->module ? frame->module : "",
				  (unsigned long long)frame->offset);
	if (length < 0) {
		key = NULL;
		return 0;
	}
	HASH_FIND(hh, work->items, key, (size_t)length, item);
	if (!item) {
		item = malloc(sizeof(*item) + (size_t)length + 1);
		if (!item)
			return 0;
		memcpy(item->key, key, (size_t)length + 1);
		item->number = ITEM_FIRST + work->item_count++;
		HASH_ADD_KEYPTR(hh, work->items, item->key, (size_t)length, item);
	}
	return item->number;
}

static bool fill_step(struct work *work, const struct limpet_frame *frame, struct step *step)
{
	const struct limpet_frame name = {.function = frame->function};

	*step = (struct step){
		.item = intern_item(work, frame),
		.code = frame->module || frame->function ? ITEM_NONE
			: frame->made                    ? ITEM_JIT
							 : ITEM_UNKNOWN,
		.program = frame->kind == LIMPET_FRAME_PROGRAM,
	};
	if (!step->item || frame->kind != LIMPET_FRAME_LIBRARY || !frame->function)
		return step->item;
	step->name = intern_item(work, &name);
	return step->name;
}

static struct place *new_place(struct work *work, const struct limpet_trace_node *node)
{
	const size_t count =
		limpet_node_frames(work->model, node, work->frames, LIMPET_NODE_FRAMES_MAX);
	struct place *place = malloc(sizeof(*place) + count * sizeof(*place->steps));

	if (!place)
		return NULL;
	place->count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		if (!fill_step(work, &work->frames[i], &place->steps[i])) {
			free(place);
			return NULL;
		}
	return place;
}

/* NULL: no memory. */
static const struct place *find_place(struct work *work, const struct limpet_trace_node *node)
{
	const uint64_t code = (uint64_t)node->module << 1 | node->made;
	const uint32_t address = limpet_number_table_of(&work->addresses, node->address);
	const uint32_t number =
		address ? limpet_number_table_of(&work->place_numbers, code << 32 | address) : 0;

	if (!number || limpet_reserve_zeroed(&work->places, &work->place_capacity,
					     (size_t)number + 1, sizeof(*work->places)) < 0)
		return NULL;
	if (!work->places[number])
		work->places[number] = new_place(work, node);
	return work->places[number];
}

/* 0: no memory. */
static uint32_t intern_group(struct work *work, uint32_t parent, uint32_t item)
{
	return limpet_number_table_of(&work->groups, (uint64_t)parent << 32 | item);
}

/* The frame next to the program's innermost: `strdup` and `getline` called at one line are two
 * entries, since the heading says which; malloc and operator new are not distinguished. */
static void add_via(const struct step *step, struct node_group *group)
{
	if (group->shown)
		group->via = step->name;
	group->shown = false;
}

/* `group` is that of the parent. */
static int add_place(struct work *work, const struct place *place, struct node_group *group)
{
	for (uint32_t i = place->count; i-- > 0;) {
		const struct step *step = &place->steps[i];

		if (!group->whole && !step->program) {
			add_via(step, group);
			continue;
		}
		group->via = ITEM_NONE;
		group->shown = true;
		/* JIT code without names moves and multiplies: a run of it looks like one frame. */
		if (step->code && !group->whole && group->code == step->code)
			continue;
		group->number = intern_group(work, group->number,
					     step->code && !group->whole ? step->code : step->item);
		if (!group->number)
			return -ENOMEM;
		group->code = step->code;
	}
	return 0;
}

/* A stack without a frame of the program is shown whole. */
static int group_node(struct work *work, const struct limpet_trace_node *node, bool full,
		      const struct node_group *parent, struct node_group *group)
{
	const struct place *place = find_place(work, node);
	int result = 0;

	if (!place)
		return -ENOMEM;
	*group = (struct node_group){0};
	if (!parent->whole)
		*group = *parent;
	if (!full)
		result = add_place(work, place, group);
	if (result || group->number)
		return result;
	*group = *parent;
	group->whole = true;
	return add_place(work, place, group);
}

static int find_groups(struct work *work, bool full, struct node_group *groups, uint32_t *of_node)
{
	for (uint32_t i = 1; i < work->model->node_count; i++) {
		const struct limpet_trace_node *node = &work->model->nodes[i];
		int result;

		groups[i] = groups[node->parent];
		if (node->lost)
			continue;
		result = group_node(work, node, full, &groups[node->parent], &groups[i]);
		if (result)
			return result;
		of_node[i] = groups[i].number;
		if (!groups[i].whole && groups[i].via)
			of_node[i] = intern_group(work, of_node[i], groups[i].via);
		if (!of_node[i])
			return -ENOMEM;
	}
	return 0;
}

static void free_work(struct work *work)
{
	struct item *item = work->items;

	for (size_t i = 0; i < work->place_capacity; i++)
		free(work->places[i]);
	free(work->places);
	/* Clearing frees the table and leaves its members linked. */
	HASH_CLEAR(hh, work->items);
	while (item) {
		struct item *next = item->hh.next;

		free(item);
		item = next;
	}
	limpet_number_table_done(&work->addresses);
	limpet_number_table_done(&work->place_numbers);
	limpet_number_table_done(&work->groups);
	free(work);
}

int limpet_stack_groups_init(struct limpet_stack_groups *groups, const struct limpet_model *model,
			     bool full)
{
	LIMPET_FREE struct node_group *node_groups =
		calloc((size_t)model->node_count + 1, sizeof(*node_groups));
	struct work *work = calloc(1, sizeof(*work));
	int result = -ENOMEM;

	*groups = (struct limpet_stack_groups){0};
	if (!work)
		return -ENOMEM;
	work->model = model;
	groups->of_node = calloc((size_t)model->node_count + 1, sizeof(*groups->of_node));
	if (node_groups && groups->of_node)
		result = find_groups(work, full, node_groups, groups->of_node);
	groups->count = work->groups.count;
	free_work(work);
	if (result)
		limpet_stack_groups_done(groups);
	return result;
}

void limpet_stack_groups_done(struct limpet_stack_groups *groups)
{
	free(groups->of_node);
	*groups = (struct limpet_stack_groups){0};
}
