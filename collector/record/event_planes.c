#include "collector/record/event_planes.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/trace_block.h"
#include "common/trace_format.h"

/* With fewer pairs per row, pairs and sequences of pairs recur so often that columns of their
 * numbers are shorter. Measured on the scenes of test/bench/bench_collector.c: with one pair in 64
 * rows, one scene grew by an eighth; with one in four, scenes that could shrink did not. */
#define ROWS_PER_PAIR 16u
#define PAIRS_LEAST 1024u
/* With fewer allocations of pairs that were there before, to list such a pair again is shorter than
 * to refer to it, and leaves the column of references empty. In a trace of blocks of a thousand
 * stacks and a thousand sizes one in 25 is such a one, and that column took a sixteenth of it. */
#define ROWS_PER_REPEAT 16u

/* What is known of a pair of the ordinary columns. */
struct known {
	uint64_t made_at; /* tick of its last row without an age, plus 1; 0: none */
	uint32_t number;  /* where it was listed last */
	uint32_t node;
	uint64_t size;
};

/* Numbers, and room for one byte of each. */
struct wide {
	uint64_t *values;
	uint8_t *bytes;
	size_t count, capacity, byte_capacity;
	struct limpet_bytes rest;
};

struct limpet_event_planes {
	struct wide pair_nodes, pair_sizes, made, gone;
	struct limpet_bytes nodes, age_steps;
	struct known *known;
	size_t known_capacity;
	bool recur;             /* too many pairs of the last block did, to list them again */
	uint32_t *node_numbers; /* of each node in `nodes`, from 1; 0: not in it */
	size_t node_capacity;
	uint32_t *listed; /* the nodes in `nodes` */
	size_t listed_count, listed_capacity;
};

struct limpet_event_planes *limpet_event_planes_new(void)
{
	return calloc(1, sizeof(struct limpet_event_planes));
}

static void wide_done(struct wide *wide)
{
	free(wide->values);
	free(wide->bytes);
	limpet_bytes_done(&wide->rest);
}

void limpet_event_planes_free(struct limpet_event_planes *planes)
{
	if (!planes)
		return;
	wide_done(&planes->pair_nodes);
	wide_done(&planes->pair_sizes);
	wide_done(&planes->made);
	wide_done(&planes->gone);
	limpet_bytes_done(&planes->nodes);
	limpet_bytes_done(&planes->age_steps);
	free(planes->known);
	free(planes->node_numbers);
	free(planes->listed);
	free(planes);
}

bool limpet_event_planes_pay(const struct limpet_event_pairs *pairs)
{
	return pairs->pairs >= PAIRS_LEAST && pairs->pairs > pairs->rows / ROWS_PER_PAIR;
}

/* Empties it and reserves room for `count` numbers. */
static bool wide_begin(struct wide *wide, size_t count)
{
	wide->count = 0;
	limpet_bytes_clear(&wide->rest);
	return limpet_reserve(&wide->values, &wide->capacity, count + 1, sizeof(*wide->values)) ==
		       0 &&
	       limpet_reserve(&wide->bytes, &wide->byte_capacity, count + 1, 1) == 0;
}

static void append_plane(struct wide *wide, struct limpet_bytes *content, unsigned tag,
			 unsigned shift)
{
	const uint64_t *values = wide->values;
	uint8_t *bytes = wide->bytes;

	for (size_t i = 0; i < wide->count; i++)
		bytes[i] = (uint8_t)(values[i] >> shift);
	limpet_trace_section_append(content, tag, bytes, wide->count);
}

/* All bits that any of its numbers has. */
static uint64_t bits_of(const struct wide *wide)
{
	uint64_t all = 0;

	for (size_t i = 0; i < wide->count; i++)
		all |= wide->values[i];
	return all;
}

/* Three sections, from `tag` on: the lowest bytes, the second bytes, the rest. The second and the
 * third are left out if no value reaches them. */
static void wide_append(struct wide *wide, struct limpet_bytes *content, unsigned tag)
{
	const uint64_t all = bits_of(wide);

	append_plane(wide, content, tag, 0);
	if (all >> 8)
		append_plane(wide, content, tag + 1, 8);
	if (!(all >> 16))
		return;
	for (size_t i = 0; i < wide->count; i++)
		limpet_bytes_append_varint(&wide->rest, wide->values[i] >> 16);
	limpet_trace_section_append(content, tag + 2, wide->rest.data, wide->rest.count);
	content->failed |= wide->rest.failed;
}

/* Decodes a number of a column that this process has encoded: there is nothing to check. */
static inline uint64_t next_number(const uint8_t **at)
{
	uint64_t value = *(*at)++;

	if (value < 0x80)
		return value;
	value &= 0x7f;
	for (unsigned shift = 7;; shift += 7) {
		uint8_t byte = *(*at)++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
}

static void clear_nodes(struct limpet_event_planes *planes)
{
	for (size_t i = 0; i < planes->listed_count; i++)
		planes->node_numbers[planes->listed[i]] = 0;
	planes->listed_count = 0;
	limpet_bytes_clear(&planes->nodes);
}

/* Returns the number, from 1, or 0 without memory. */
static __attribute__((noinline)) uint32_t list_node(struct limpet_event_planes *planes,
						    uint32_t node)
{
	if (limpet_reserve_zeroed(&planes->node_numbers, &planes->node_capacity, (size_t)node + 1,
				  sizeof(*planes->node_numbers)) < 0 ||
	    limpet_reserve(&planes->listed, &planes->listed_capacity, planes->listed_count + 1,
			   sizeof(*planes->listed)) < 0)
		return 0;
	planes->listed[planes->listed_count++] = node;
	limpet_bytes_append_varint(&planes->nodes, node);
	return planes->node_numbers[node] = (uint32_t)planes->listed_count;
}

/* Returns the node's number, from 0, in the block's list of nodes. Without memory, sets
 * `nodes.failed`. */
static inline uint32_t find_node(struct limpet_event_planes *planes, uint32_t node)
{
	uint32_t number = node < planes->node_capacity ? planes->node_numbers[node] : 0;

	if (!number)
		number = list_node(planes, node);
	if (!number) {
		planes->nodes.failed = true;
		return 0;
	}
	return number - 1;
}

static void read_pairs(struct limpet_event_planes *planes, const struct limpet_event_pairs *pairs)
{
	const uint8_t *nodes = pairs->nodes->data, *sizes = pairs->sizes->data;

	clear_nodes(planes);
	for (uint32_t i = 0; i < pairs->pairs; i++)
		planes->known[i] = (struct known){
			.node = find_node(planes, (uint32_t)next_number(&nodes)),
			.size = next_number(&sizes),
		};
}

/* A column of a few different bytes is full of sequences that occur twice by chance, which zstd
 * writes as matches, longer than the bytes: the second bytes of nodes and sizes share one. */
static void append_pair_columns(struct limpet_event_planes *planes, struct limpet_bytes *content)
{
	struct wide *nodes = &planes->pair_nodes, *sizes = &planes->pair_sizes;

	if ((bits_of(nodes) | bits_of(sizes)) >> 12) {
		wide_append(nodes, content, LIMPET_EVENTS_WIDE_PAIR_NODES);
		wide_append(sizes, content, LIMPET_EVENTS_WIDE_PAIR_SIZES);
		return;
	}
	append_plane(nodes, content, LIMPET_EVENTS_WIDE_PAIR_NODES, 0);
	append_plane(sizes, content, LIMPET_EVENTS_WIDE_PAIR_SIZES, 0);
	for (size_t i = 0; i < nodes->count; i++)
		nodes->bytes[i] = (uint8_t)(nodes->values[i] >> 8 | (sizes->values[i] >> 8) << 4);
	limpet_trace_section_append(content, LIMPET_EVENTS_PAIR_NIBBLES, nodes->bytes,
				    nodes->count);
}

/* Columns of the ordinary block that are read from front to back. */
struct columns {
	const uint8_t *times, *ages;
	uint64_t tick;
};

/* For a row with a pair. A block that was allocated in these rows has the age that its pair tells,
 * unless that was allocated again since. */
static inline uint8_t *add_age(struct known *known, bool aged, struct columns *columns, uint8_t *to)
{
	const uint64_t made_at = known->made_at;
	uint64_t age;

	if (!aged) {
		known->made_at = columns->tick + 1;
		return to;
	}
	age = next_number(&columns->ages);
	if (made_at)
		age = limpet_trace_zigzag(age - (columns->tick - (made_at - 1)));
	return to + limpet_varint_encode_any(to, age);
}

/* Whether a row has an age is practically random in some programs: no branch depends on it that can
 * be avoided. */
static void add_rows(struct limpet_event_planes *planes, const struct limpet_event_pairs *pairs)
{
	uint64_t *made = planes->made.values, *gone = planes->gone.values;
	uint64_t *nodes = planes->pair_nodes.values, *sizes = planes->pair_sizes.values;
	const uint8_t *numbers = pairs->numbers->data, *ops = pairs->ops->data;
	struct columns columns = {.times = pairs->times->data, .ages = pairs->ages->data};
	uint8_t *step = planes->age_steps.data;
	uint32_t seen = 0, listed = 0, repeats = 0;

	for (uint32_t i = 0; i < pairs->rows; i++) {
		unsigned kind = LIMPET_ROW_KIND(ops[i]), aged;
		struct known *known;
		uint32_t number;
		bool is_new;

		columns.tick += next_number(&columns.times);
		if (!limpet_row_has_pair(kind))
			continue;
		aged = (unsigned)limpet_row_has_age(kind);
		number = (uint32_t)next_number(&numbers);
		known = &planes->known[number];
		is_new = number == seen;
		seen += is_new;
		repeats += !is_new & !aged;
		is_new |= !aged & !planes->recur;
		/* Always written, but not always kept. */
		nodes[listed] = known->node;
		sizes[listed] = known->size;
		known->number = is_new ? listed : known->number;
		*made = *gone = listed - known->number;
		listed += is_new;
		made += !aged;
		gone += aged;
		step = add_age(known, aged, &columns, step);
	}
	planes->pair_nodes.count = planes->pair_sizes.count = listed;
	planes->made.count = (size_t)(made - planes->made.values);
	planes->gone.count = (size_t)(gone - planes->gone.values);
	planes->age_steps.count = (size_t)(step - planes->age_steps.data);
	planes->recur = repeats > planes->made.count / ROWS_PER_REPEAT;
}

/* Empties all columns and reserves room for them. */
static bool begin(struct limpet_event_planes *planes, const struct limpet_event_pairs *pairs)
{
	limpet_bytes_clear(&planes->age_steps);
	return wide_begin(&planes->pair_nodes, pairs->rows) &&
	       wide_begin(&planes->pair_sizes, pairs->rows) &&
	       wide_begin(&planes->made, pairs->rows) && wide_begin(&planes->gone, pairs->rows) &&
	       limpet_reserve(&planes->known, &planes->known_capacity, pairs->pairs + 1ul,
			      sizeof(*planes->known)) == 0 &&
	       limpet_bytes_reserve(&planes->age_steps,
				    (pairs->rows + 1ul) * LIMPET_VARINT_MAX_BYTES);
}

void limpet_event_planes_append(struct limpet_event_planes *planes,
				const struct limpet_event_pairs *pairs,
				struct limpet_bytes *content)
{
	if (!begin(planes, pairs)) {
		content->failed = true;
		return;
	}
	read_pairs(planes, pairs);
	add_rows(planes, pairs);
	limpet_trace_section_append(content, LIMPET_EVENTS_NODES, planes->nodes.data,
				    planes->nodes.count);
	content->failed |= planes->nodes.failed;
	append_pair_columns(planes, content);
	wide_append(&planes->made, content, LIMPET_EVENTS_WIDE_MADE);
	wide_append(&planes->gone, content, LIMPET_EVENTS_WIDE_GONE);
	limpet_trace_section_append(content, LIMPET_EVENTS_AGE_STEPS, planes->age_steps.data,
				    planes->age_steps.count);
}
