#include "explain/runtimes/v8_tally.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/runtimes/v8_lines.h"

#define FIRST_SLOTS ((size_t)1 << 12)
#define ROWS_LIMIT ((size_t)1 << 16)
#define OUTSIDE_LIMIT ((size_t)1 << 20)
/* Each property that is added gives an object another map, which leads back to the one before. */
#define BACK_POINTERS 4096u

/* src/objects/instance-type.h. */
enum { STRING_OUTSIDE = 2, STRING_ONE_BYTE = 8, STRING_WITHOUT_CHARACTERS = 16 };
#define PROTOTYPES UINT64_C(0x10001)

enum { ROW_NONE = -1, ROW_OF_FUNCTION = -2 };

/* What is counted is found by a key: of a function or constructor the address of its
 * SharedFunctionInfo; a type; or, of what is seen once, the address of what is outside. */
struct slot {
	uint64_t key; /* 0: empty */
	uint32_t row;
};
struct keys {
	struct slot *slots;
	size_t slot_count, count;
};

struct limpet_v8_tally {
	const struct limpet_v8 *v8;
	struct limpet_v8_around around;
	struct keys rows_of, outside;
	struct limpet_v8_row *rows;
	size_t count, capacity;
	struct limpet_v8_totals totals;
	int32_t first_receiver, buffer_type;
	int error;
};

/* ------------------------------------------------------------------ keys */

static int keys_init(struct keys *keys)
{
	keys->slots = calloc(FIRST_SLOTS, sizeof(*keys->slots));
	keys->slot_count = FIRST_SLOTS;
	return keys->slots ? 0 : -ENOMEM;
}

static struct slot *slot_of(const struct keys *keys, uint64_t key)
{
	size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (keys->slot_count - 1);

	while (keys->slots[at].key && keys->slots[at].key != key)
		at = (at + 1) & (keys->slot_count - 1);
	return &keys->slots[at];
}

static int grow(struct keys *keys)
{
	struct keys more = {.slot_count = keys->slot_count * 2, .count = keys->count};

	if (keys->count < keys->slot_count / 2)
		return 0;
	more.slots = calloc(more.slot_count, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (size_t i = 0; i < keys->slot_count; i++)
		if (keys->slots[i].key)
			*slot_of(&more, keys->slots[i].key) = keys->slots[i];
	free(keys->slots);
	*keys = more;
	return 0;
}

/* A slot for the key, new if its key is 0: then the caller sets it. NULL: no memory. */
static struct slot *find(struct limpet_v8_tally *tally, struct keys *keys, uint64_t key)
{
	if (grow(keys) < 0) {
		tally->error = -ENOMEM;
		return NULL;
	}
	return slot_of(keys, key);
}

/* ------------------------------------------------------------------ rows */

static uint64_t key_of(enum limpet_v8_kind kind, uint64_t number)
{
	return ((uint64_t)kind + 1) << 60 | number;
}

/* Beyond the limit there is one row for all that come. */
static struct limpet_v8_row *add_row(struct limpet_v8_tally *tally, enum limpet_v8_kind kind)
{
	struct limpet_v8_row *row;

	if (limpet_reserve(&tally->rows, &tally->capacity, tally->count + 1, sizeof(*tally->rows)) <
		    0 ||
	    !tally->rows) {
		tally->error = -ENOMEM;
		return NULL;
	}
	row = &tally->rows[tally->count++];
	memset(row, 0, sizeof(*row));
	row->kind = kind;
	row->position = -1;
	return row;
}

/* The number of the row with the key. *ret_new: it is new, and has no name yet. */
static int32_t row_of(struct limpet_v8_tally *tally, enum limpet_v8_kind kind, uint64_t number,
		      bool *ret_new)
{
	const uint64_t key = tally->count < ROWS_LIMIT ? key_of(kind, number) : key_of(kind, 0);
	struct slot *slot = find(tally, &tally->rows_of, key_of(kind, number));

	*ret_new = false;
	if (slot && !slot->key && key != key_of(kind, number))
		slot = find(tally, &tally->rows_of, key);
	if (!slot)
		return ROW_NONE;
	if (!slot->key) {
		if (!add_row(tally, kind))
			return ROW_NONE;
		slot->key = key;
		slot->row = (uint32_t)(tally->count - 1);
		tally->rows_of.count++;
		*ret_new = number && key == key_of(kind, number);
	}
	return (int32_t)slot->row;
}

static void name_row(struct limpet_v8_row *row, const char *name)
{
	snprintf(row->name, sizeof(row->name), "%s", name);
}

static void name_function(struct limpet_v8_row *row, const struct limpet_v8_function *function)
{
	name_row(row, function->name[0] ? function->name : "(anonymous)");
	memcpy(row->script, function->script, sizeof(function->script));
	row->script_address = function->script_address;
	row->position = function->start;
}

/* Of a SharedFunctionInfo. One that cannot be read now may be the next time: but its row is the
 * same, without a name. */
static int32_t row_of_function(struct limpet_v8_tally *tally, enum limpet_v8_kind kind,
			       uint64_t word)
{
	struct limpet_v8_function function;
	bool is_new;
	int32_t row = row_of(tally, kind, limpet_v8_address(word), &is_new);

	if (!is_new || limpet_v8_function_info(tally->v8, word, &function) < 0)
		return row;
	name_function(&tally->rows[row], &function);
	tally->rows[row].shared_address = limpet_v8_address(word);
	return row;
}

/* `number` is above all types. */
static int32_t row_of_name(struct limpet_v8_tally *tally, enum limpet_v8_kind kind, uint64_t number,
			   const char *name)
{
	bool is_new;
	int32_t row = row_of(tally, kind, number, &is_new);

	if (is_new)
		name_row(&tally->rows[row], name);
	return row;
}

static int32_t row_of_class(struct limpet_v8_tally *tally, enum limpet_v8_kind kind, uint16_t type)
{
	const char *class = limpet_v8_class_of(tally->v8->layout, type);
	char number[24];
	bool is_new;
	int32_t row = row_of(tally, kind, type + UINT64_C(1), &is_new);

	if (!is_new)
		return row;
	snprintf(number, sizeof(number), "type %u", type);
	name_row(&tally->rows[row], class ? class : number);
	return row;
}

/* ------------------------------------------------------------------ what an object is */

static int32_t row_of_string(struct limpet_v8_tally *tally, uint16_t type)
{
	static const char *const names[8] = {
		"characters",      "joined of two",       "outside of the heap", "part of another",
		"of another kind", "the same as another", "of another kind",     "of another kind"};

	return row_of_name(tally, LIMPET_V8_STRINGS, (type & 7u) + UINT64_C(1), names[type & 7]);
}

/* The function that constructed the objects of a map. False: none did. */
static bool find_constructor(const struct limpet_v8 *v8, uint64_t map,
			     struct limpet_v8_object *ret_function)
{
	struct limpet_v8_object object = {.address = map};

	for (unsigned i = 0; i < BACK_POINTERS; i++) {
		uint64_t word;

		if (!limpet_v8_field(v8, &object, v8->layout->map_constructor, &word) ||
		    limpet_v8_object(v8, word, &object) < 0)
			return false;
		if (object.type == v8->layout->type_map)
			continue;
		*ret_function = object;
		return limpet_v8_is_function(v8, &object);
	}
	return false;
}

/* src/objects/map.h: this bit is before the one that the constants tell. */
static bool is_prototype(const struct limpet_v8 *v8, const struct limpet_v8_map *map)
{
	const int32_t shift = v8->layout->map_dictionary_shift - 1;
	uint32_t bits;

	return shift > 0 && shift < 32 &&
	       limpet_memory_reader_read(v8->memory,
					 map->address + (uint64_t)v8->layout->map_bit_field3, &bits,
					 sizeof(bits)) == 0 &&
	       (bits >> shift & 1);
}

static int32_t row_of_instance(struct limpet_v8_tally *tally, const struct limpet_v8_map *map)
{
	struct limpet_v8_object function;
	uint64_t shared;

	/* It has the constructor whose prototype it is. */
	if (is_prototype(tally->v8, map))
		return row_of_name(tally, LIMPET_V8_INTERNAL, PROTOTYPES, "prototypes");
	if (!find_constructor(tally->v8, map->address, &function) ||
	    !limpet_v8_field(tally->v8, &function, tally->v8->layout->function_shared, &shared))
		return row_of_class(tally, LIMPET_V8_INSTANCES, map->type);
	return row_of_function(tally, LIMPET_V8_INSTANCES, shared);
}

static int32_t classify(struct limpet_v8_tally *tally, const struct limpet_v8_walked *walked)
{
	const struct limpet_v8_object object = {
		.address = walked->address, .map = walked->map->address, .type = walked->map->type};

	if (limpet_v8_is_string(tally->v8, object.type))
		return row_of_string(tally, object.type);
	if (limpet_v8_is_function(tally->v8, &object))
		return ROW_OF_FUNCTION;
	if (object.type >= tally->first_receiver)
		return row_of_instance(tally, walked->map);
	return row_of_class(tally, LIMPET_V8_INTERNAL, object.type);
}

static uint64_t field(const struct limpet_v8_walked *walked, int32_t offset)
{
	uint64_t word = 0;

	if (offset >= 0 && (uint64_t)offset + 8 <= walked->bytes &&
	    (uint64_t)offset + 8 <= walked->copied_bytes)
		memcpy(&word, walked->object + offset, sizeof(word));
	return word;
}

/* ------------------------------------------------------------------ outside of the heap */

/* What an object holds there: the memory of an array buffer, or the characters of a string, of
 * whose two words the second leads to them. */
static uint64_t find_outside(const struct limpet_v8_tally *tally,
			     const struct limpet_v8_walked *walked, uint64_t *ret_bytes)
{
	const struct limpet_v8_layout *layout = tally->v8->layout;
	const uint16_t type = walked->map->type;
	const uint64_t length = field(walked, 8) >> 32;

	if (type == tally->buffer_type) {
		*ret_bytes = field(walked, layout->buffer_byte_length);
		return field(walked, layout->buffer_backing_store);
	}
	*ret_bytes = type & STRING_ONE_BYTE ? length : length * 2;
	return limpet_v8_is_string(tally->v8, type) && (type & 7) == STRING_OUTSIDE &&
			       !(type & STRING_WITHOUT_CHARACTERS)
		       ? field(walked, 24)
		       : 0;
}

/* Each once, whoever refers to it. */
static uint64_t outside_bytes(struct limpet_v8_tally *tally, const struct limpet_v8_walked *walked)
{
	uint64_t bytes, address = find_outside(tally, walked, &bytes);
	struct slot *slot;

	if (!address || !bytes || bytes > UINT64_C(1) << 47 ||
	    tally->outside.count == OUTSIDE_LIMIT ||
	    !tally->around.is_outside(tally->around.context, address))
		return 0;
	slot = find(tally, &tally->outside, address);
	if (!slot || slot->key)
		return 0;
	slot->key = address;
	tally->outside.count++;
	return bytes;
}

void limpet_v8_tally_note(void *context, const struct limpet_v8_walked *walked)
{
	struct limpet_v8_tally *tally = context;
	const uint64_t outside = outside_bytes(tally, walked);
	int32_t row = walked->map->row;

	if (walked->map->is_free) {
		tally->totals.free_bytes += walked->bytes;
		return;
	}
	if (row == ROW_NONE)
		row = walked->map->row = classify(tally, walked);
	if (row == ROW_OF_FUNCTION)
		row = row_of_function(tally, LIMPET_V8_CLOSURES,
				      field(walked, tally->v8->layout->function_shared));
	tally->totals.count++;
	tally->totals.bytes += walked->bytes;
	tally->totals.outside_bytes += outside;
	if (row < 0)
		return;
	tally->rows[row].count++;
	tally->rows[row].bytes += walked->bytes;
	tally->rows[row].outside_bytes += outside;
}

/* ------------------------------------------------------------------ the beginning and the end */

int limpet_v8_tally_new(const struct limpet_v8 *v8, const struct limpet_v8_around *around,
			struct limpet_v8_tally **ret)
{
	struct limpet_v8_tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return -ENOMEM;
	tally->v8 = v8;
	tally->around = *around;
	tally->buffer_type = limpet_v8_type_of(v8->layout, "JSArrayBuffer");
	tally->first_receiver = INT32_MAX;
	for (size_t i = 0; i < v8->layout->type_count; i++)
		if (!strncmp(v8->layout->types[i].class, "JS", 2) &&
		    v8->layout->types[i].type < tally->first_receiver)
			tally->first_receiver = v8->layout->types[i].type;
	if (keys_init(&tally->rows_of) < 0 || keys_init(&tally->outside) < 0) {
		limpet_v8_tally_free(tally);
		return -ENOMEM;
	}
	*ret = tally;
	return 0;
}

void limpet_v8_tally_free(struct limpet_v8_tally *tally)
{
	if (!tally)
		return;
	free(tally->rows_of.slots);
	free(tally->outside.slots);
	free(tally->rows);
	free(tally);
}

int limpet_v8_row_order(const void *a, const void *b)
{
	const struct limpet_v8_row *one = a, *other = b;
	int order = (int)one->kind - (int)other->kind;

	if (!order)
		order = strcmp(one->name, other->name);
	if (!order)
		order = strcmp(one->script, other->script);
	if (!order)
		order = (one->position > other->position) - (one->position < other->position);
	return order;
}

static int by_bytes(const void *a, const void *b)
{
	const struct limpet_v8_row *one = a, *other = b;
	const uint64_t left = one->bytes + one->outside_bytes;
	const uint64_t right = other->bytes + other->outside_bytes;

	return left != right ? (left < right) - (left > right) : limpet_v8_row_order(a, b);
}

static void add(struct limpet_v8_row *to, const struct limpet_v8_row *row)
{
	to->count += row->count;
	to->bytes += row->bytes;
	to->outside_bytes += row->outside_bytes;
}

/* Rows of one function, as it is in several isolates, become one. */
static void merge(struct limpet_v8_tally *tally)
{
	size_t kept = 0;

	qsort(tally->rows, tally->count, sizeof(*tally->rows), limpet_v8_row_order);
	for (size_t i = 0; i < tally->count; i++)
		if (kept && !limpet_v8_row_order(&tally->rows[kept - 1], &tally->rows[i]))
			add(&tally->rows[kept - 1], &tally->rows[i]);
		else
			tally->rows[kept++] = tally->rows[i];
	tally->count = kept;
}

/* What is beyond the limit, in a row for each kind. */
static void cut(struct limpet_v8_tally *tally, size_t limit)
{
	struct limpet_v8_row rest[LIMPET_V8_KINDS] = {{.count = 0}};
	const size_t all = tally->count;

	if (all <= limit)
		return;
	tally->count = limit - LIMPET_V8_KINDS;
	for (size_t i = tally->count; i < all; i++)
		add(&rest[tally->rows[i].kind], &tally->rows[i]);
	for (uint32_t kind = 0; kind < LIMPET_V8_KINDS; kind++) {
		rest[kind].kind = kind;
		rest[kind].position = -1;
		if (rest[kind].count)
			tally->rows[tally->count++] = rest[kind];
	}
}

static int by_script(const void *a, const void *b)
{
	const struct limpet_v8_row *one = a, *other = b;

	return (one->script_address > other->script_address) -
	       (one->script_address < other->script_address);
}

/* Each script's text is read once. */
static void find_lines(struct limpet_v8_tally *tally)
{
	struct limpet_v8_lines lines = {0};
	uint64_t script = 0;

	qsort(tally->rows, tally->count, sizeof(*tally->rows), by_script);
	for (size_t i = 0; i < tally->count; i++) {
		struct limpet_v8_row *row = &tally->rows[i];

		if (!row->script_address)
			continue;
		if (row->script_address != script) {
			script = row->script_address;
			limpet_v8_lines_done(&lines);
			(void)!limpet_v8_lines_read(tally->v8, script, &lines);
		}
		row->line = limpet_v8_line_of(&lines, row->position);
	}
	limpet_v8_lines_done(&lines);
	qsort(tally->rows, tally->count, sizeof(*tally->rows), by_bytes);
}

/* The row is without a name if that was read from what is something else by now. */
static void confirm(const struct limpet_v8_tally *tally, struct limpet_v8_row *row)
{
	struct limpet_v8_function function;
	struct limpet_v8_row again = {.kind = row->kind, .position = -1};

	if (!row->shared_address)
		return;
	if (limpet_v8_function_info(tally->v8, row->shared_address | 1, &function) == 0)
		name_function(&again, &function);
	if (!limpet_v8_row_order(&again, row))
		return;
	memset(row->name, 0, sizeof(row->name));
	memset(row->script, 0, sizeof(row->script));
	row->script_address = 0;
	row->position = -1;
}

int limpet_v8_tally_rows(struct limpet_v8_tally *tally, size_t limit,
			 const struct limpet_v8_row **ret_rows, size_t *ret_count)
{
	if (tally->error)
		return tally->error;
	if (tally->count) {
		merge(tally);
		qsort(tally->rows, tally->count, sizeof(*tally->rows), by_bytes);
		cut(tally, limit);
		if (tally->around.forget)
			tally->around.forget(tally->around.context);
		for (size_t i = 0; i < tally->count; i++)
			confirm(tally, &tally->rows[i]);
		find_lines(tally);
	}
	*ret_rows = tally->rows;
	*ret_count = tally->count;
	return 0;
}

const struct limpet_v8_totals *limpet_v8_tally_totals(const struct limpet_v8_tally *tally)
{
	return &tally->totals;
}
