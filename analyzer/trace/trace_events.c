/* The EVENTS blocks of limpet-trace(5): part of analyzer/trace/trace_reader.h. */
#include <errno.h>
#include <string.h>

#include "analyzer/trace/trace_reader.h"
#include "common/array.h"
#include "common/trace_block.h"

/* A column of a scattered block: the lowest bytes of its integers, the second ones, and the rest.
 * An absent part is all zeros. */
struct wide {
	struct limpet_cursor low, middle, rest;
};

struct limpet_trace_events {
	uint8_t *buffer;
	struct limpet_cursor ops, times, pair_numbers, ages, switches, sizes, addresses, owners;
	bool has_addresses;
	bool scattered; /* rows refer to pairs by `made` and `gone`, not by pair_numbers */
	struct wide made, gone;
	uint64_t *made_at;    /* scattered: of each pair, tick of its last row without an age, plus
			       * 1; 0: none yet */
	uint32_t pairs_known; /* different pairs in the rows so far */
	uint64_t address;
	uint32_t rows; /* not yet decoded */
	uint64_t tick;
	uint32_t *pair_nodes;
	uint64_t *pair_sizes;
	uint32_t pair_count;
	uint32_t *tids;
	uint32_t tid_count;
	uint32_t thread;     /* of the previous row */
	uint32_t node_limit; /* nodes beyond it are unknown: 0 */
	bool damaged;        /* the rows after `some` */
	struct limpet_trace_rows some;
	uint32_t next; /* index into `some` */
};

/* Integers in the rest of a column: each ends with a byte below 0x80. */
static size_t count_varints(const struct limpet_cursor *column)
{
	size_t count = 0;

	for (const uint8_t *at = column->at; at < column->end; at++)
		count += *at < 0x80;
	return count;
}

/* Sets `damaged` if none is left, or if it has more than 64 bits. */
static inline uint64_t next_wide(struct limpet_trace_events *events, struct wide *wide)
{
	uint64_t value = 0, rest;

	if (wide->low.at == wide->low.end) {
		events->damaged = true;
		return 0;
	}
	value = *wide->low.at++;
	if (wide->middle.at < wide->middle.end)
		value |= (uint64_t)*wide->middle.at++ << 8;
	if (wide->rest.at < wide->rest.end) {
		rest = limpet_cursor_varint(&wide->rest);
		events->damaged |= wide->rest.failed || rest >> 48;
		value |= rest << 16;
	}
	return value;
}

/* Each part has a byte (`rest`: a number) for each integer, or is absent. */
static bool wide_is_whole(const struct wide *wide)
{
	size_t count = limpet_cursor_left(&wide->low);
	size_t middle = limpet_cursor_left(&wide->middle), rest = count_varints(&wide->rest);

	return (!middle || middle == count) && (!rest || rest == count);
}

/* Allocates room for `count` pairs and one more. */
static int reserve_pairs(struct limpet_trace_events *events, size_t count)
{
	if (count > events->rows)
		return -EBADMSG;
	events->pair_nodes = calloc(count + 1, sizeof(*events->pair_nodes));
	events->pair_sizes = calloc(count + 1, sizeof(*events->pair_sizes));
	events->pair_count = (uint32_t)count;
	return events->pair_nodes && events->pair_sizes ? 0 : -ENOMEM;
}

static uint32_t known_node(const struct limpet_trace_events *events, uint64_t node)
{
	return node < events->node_limit ? (uint32_t)node : 0;
}

static int read_pairs(struct limpet_trace_events *events, struct limpet_cursor nodes,
		      struct limpet_cursor sizes)
{
	size_t count = count_varints(&nodes);
	int code = count == count_varints(&sizes) ? reserve_pairs(events, count) : -EBADMSG;

	if (code < 0)
		return code;
	for (size_t i = 0; i < count; i++) {
		events->pair_nodes[i] = known_node(
			events, limpet_cursor_limited(&nodes, LIMPET_TRACE_NODES_MAX - 1));
		events->pair_sizes[i] = limpet_cursor_limited(&sizes, INT64_MAX);
	}
	return nodes.failed || sizes.failed ? -EBADMSG : 0;
}

/* For each pair, `wide` has the index of its node in `list`. */
static int read_pair_nodes(struct limpet_trace_events *events, struct limpet_cursor list,
			   struct wide *wide)
{
	size_t count = count_varints(&list);
	LIMPET_FREE uint32_t *nodes = NULL;

	if (count > events->rows)
		return -EBADMSG;
	nodes = calloc(count + 1, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		nodes[i] = known_node(events,
				      limpet_cursor_limited(&list, LIMPET_TRACE_NODES_MAX - 1));
	for (uint32_t i = 0; i < events->pair_count; i++) {
		uint64_t number = next_wide(events, wide);

		events->damaged |= number >= count;
		events->pair_nodes[i] = number < count ? nodes[number] : 0;
	}
	return list.failed || events->damaged ? -EBADMSG : 0;
}

/* The second bytes of nodes and sizes, four bits each, in columns of their own. */
static int split_nibbles(struct limpet_cursor nibbles, struct wide *nodes, struct wide *sizes,
			 uint8_t **ret_bytes)
{
	const size_t count = limpet_cursor_left(&nibbles);
	uint8_t *bytes = malloc(2 * count + 1);

	*ret_bytes = bytes;
	if (!bytes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		bytes[i] = nibbles.at[i] & 15;
		bytes[count + i] = nibbles.at[i] >> 4;
	}
	nodes->middle = (struct limpet_cursor){.at = bytes, .end = bytes + count};
	sizes->middle = (struct limpet_cursor){.at = bytes + count, .end = bytes + 2 * count};
	return 0;
}

static int read_scattered_pairs(struct limpet_trace_events *events, struct limpet_cursor list,
				struct wide *nodes, struct wide *sizes)
{
	size_t count = limpet_cursor_left(&nodes->low);
	int code;

	if (count != limpet_cursor_left(&sizes->low) || !wide_is_whole(nodes) ||
	    !wide_is_whole(sizes) || !wide_is_whole(&events->made) || !wide_is_whole(&events->gone))
		return -EBADMSG;
	code = reserve_pairs(events, count);
	if (code == 0)
		code = read_pair_nodes(events, list, nodes);
	for (uint32_t i = 0; code == 0 && i < events->pair_count; i++) {
		events->pair_sizes[i] = next_wide(events, sizes);
		if (events->damaged || events->pair_sizes[i] > INT64_MAX)
			code = -EBADMSG;
	}
	return code;
}

static int read_tids(struct limpet_trace_events *events, struct limpet_cursor tids)
{
	size_t count = count_varints(&tids);

	/* A row names at most two: its own thread, and the one that allocated the block. */
	if (count / 2 > events->rows)
		return -EBADMSG;
	events->tids = calloc(count + 1, sizeof(*events->tids));
	if (!events->tids)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		events->tids[i] = (uint32_t)limpet_cursor_limited(&tids, UINT32_MAX);
	/* The entry after them, 0, is for rows before the first that names a thread. */
	events->thread = events->tid_count = (uint32_t)count;
	return tids.failed ? -EBADMSG : 0;
}

#define WIDE_COLUMNS(tag, wide) \
	[(tag)] = &(wide)->low, [(tag) + 1] = &(wide)->middle, [(tag) + 2] = &(wide)->rest

static int read_columns(struct limpet_trace_events *events, struct limpet_cursor sections)
{
	struct limpet_cursor section, counts = {0}, nodes = {0}, sizes = {0}, tids = {0};
	struct limpet_cursor list = {0}, nibbles = {0};
	struct wide wide_nodes = {0}, wide_sizes = {0};
	LIMPET_FREE uint8_t *split = NULL;
	bool has_nibbles = false;
	unsigned tag;
	int code;

	while ((tag = limpet_trace_next_section(&sections, &section))) {
		struct limpet_cursor *columns[] = {
			[LIMPET_EVENTS_COUNTS] = &counts,
			[LIMPET_EVENTS_OPS] = &events->ops,
			[LIMPET_EVENTS_TIMES] = &events->times,
			[LIMPET_EVENTS_PAIR_NODES] = &nodes,
			[LIMPET_EVENTS_PAIR_SIZES] = &sizes,
			[LIMPET_EVENTS_PAIRS] = &events->pair_numbers,
			[LIMPET_EVENTS_AGES] = &events->ages,
			[LIMPET_EVENTS_TIDS] = &tids,
			[LIMPET_EVENTS_SWITCHES] = &events->switches,
			[LIMPET_EVENTS_SIZES] = &events->sizes,
			[LIMPET_EVENTS_ADDRESSES] = &events->addresses,
			[LIMPET_EVENTS_OWNERS] = &events->owners,
			[LIMPET_EVENTS_NODES] = &list,
			WIDE_COLUMNS(LIMPET_EVENTS_WIDE_PAIR_NODES, &wide_nodes),
			WIDE_COLUMNS(LIMPET_EVENTS_WIDE_PAIR_SIZES, &wide_sizes),
			WIDE_COLUMNS(LIMPET_EVENTS_WIDE_MADE, &events->made),
			WIDE_COLUMNS(LIMPET_EVENTS_WIDE_GONE, &events->gone),
			[LIMPET_EVENTS_PAIR_NIBBLES] = &nibbles,
			[LIMPET_EVENTS_AGE_STEPS] = &events->ages,
		};

		if (tag < LIMPET_COUNT_OF(columns))
			*columns[tag] = section;
		events->scattered |= tag == LIMPET_EVENTS_NODES;
		events->has_addresses |= tag == LIMPET_EVENTS_ADDRESSES;
		has_nibbles |= tag == LIMPET_EVENTS_PAIR_NIBBLES;
	}
	events->rows = (uint32_t)limpet_cursor_limited(&counts, LIMPET_TRACE_ROWS_MAX);
	limpet_cursor_varint(&counts); /* events among the rows: for readers that only count */
	events->tick = limpet_cursor_varint(&counts);
	if (sections.failed || counts.failed || limpet_cursor_left(&events->ops) != events->rows)
		return -EBADMSG;
	code = has_nibbles ? split_nibbles(nibbles, &wide_nodes, &wide_sizes, &split) : 0;
	if (code == 0)
		code = events->scattered
			       ? read_scattered_pairs(events, list, &wide_nodes, &wide_sizes)
			       : read_pairs(events, nodes, sizes);
	if (code == 0 && events->scattered) {
		events->made_at = calloc(events->pair_count + 1ul, sizeof(*events->made_at));
		code = events->made_at ? 0 : -ENOMEM;
	}
	return code < 0 ? code : read_tids(events, tids);
}

int limpet_trace_events_open(struct limpet_trace_reader *reader, size_t block,
			     struct limpet_trace_events **ret_events)
{
	const struct limpet_trace_block *blocks;
	const struct limpet_trace_node *nodes;
	struct limpet_trace_events *events;
	struct limpet_cursor sections;
	int code;

	if (block >= limpet_trace_reader_blocks(reader, &blocks) ||
	    blocks[block].type != LIMPET_TRACE_EVENTS)
		return -EINVAL;
	events = calloc(1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	events->node_limit = limpet_trace_reader_nodes(reader, &nodes);
	code = limpet_trace_reader_load(reader, block, &events->buffer, &sections);
	if (code == 0)
		code = read_columns(events, sections);
	if (code < 0) {
		limpet_trace_events_free(events);
		return code;
	}
	*ret_events = events;
	return 0;
}

void limpet_trace_events_free(struct limpet_trace_events *events)
{
	if (!events)
		return;
	free(events->buffer);
	free(events->pair_nodes);
	free(events->pair_sizes);
	free(events->made_at);
	free(events->tids);
	free(events);
}

static bool is_event(unsigned kind)
{
	return kind != LIMPET_ROW_UNMAPPED && kind != LIMPET_ROW_INFERRED_FREE;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks > UINT64_MAX / LIMPET_TRACE_TICK_NS ? UINT64_MAX
							 : ticks * LIMPET_TRACE_TICK_NS;
}

static uint64_t any_number(struct limpet_trace_events *events, struct limpet_cursor *cursor)
{
	uint64_t number = limpet_cursor_varint(cursor);

	events->damaged |= cursor->failed;
	return number;
}

/* Nearly all numbers have one or two bytes; no branch depends on which. */
static inline uint64_t next_number(struct limpet_trace_events *events, struct limpet_cursor *cursor)
{
	const uint8_t *at = cursor->at;
	uint64_t more;

	if (cursor->end - at < 2 || (at[0] & at[1]) >= 0x80)
		return any_number(events, cursor);
	more = at[0] >> 7;
	cursor->at = at + 1 + more;
	return (at[0] & 0x7fu) | ((uint64_t)at[1] << 7 & (0 - more));
}

/* Only for a row that has one. */
static inline uint32_t next_pair(struct limpet_trace_events *events, unsigned kind)
{
	uint64_t number;

	if (events->scattered) {
		number =
			next_wide(events, limpet_row_has_age(kind) ? &events->gone : &events->made);
		events->damaged |= number > events->pairs_known;
		number = events->pairs_known - number;
		events->pairs_known += number == events->pairs_known;
	} else {
		number = next_number(events, &events->pair_numbers);
	}
	events->damaged |= number >= events->pair_count;
	return (uint32_t)number;
}

/* Of a row with a pair; `pair` may be none of the block's, which is damaged then. */
static inline uint64_t age_from(struct limpet_trace_events *events, uint64_t number, uint32_t pair)
{
	const uint64_t made_at =
		events->scattered && pair < events->pair_count ? events->made_at[pair] : 0;

	return made_at ? events->tick - (made_at - 1) + limpet_trace_unzigzag(number) : number;
}

/* Decodes row `at` of `some`; its op is already there. */
static inline void decode_row(struct limpet_trace_events *events, uint32_t at)
{
	struct limpet_trace_rows *rows = &events->some;
	const unsigned op = rows->ops[at], kind = LIMPET_ROW_KIND(op);
	uint64_t number;

	events->damaged |= kind < LIMPET_ROW_ALLOC || kind > LIMPET_ROW_INFERRED_FREE;
	events->tick += next_number(events, &events->times);
	rows->ticks[at] = events->tick;
	if (op & LIMPET_ROW_SWITCH) {
		number = next_number(events, &events->switches);
		events->damaged |= number >= events->tid_count;
		events->thread = (uint32_t)number;
	}
	rows->threads[at] = events->thread;
	if (limpet_row_has_pair(kind)) {
		rows->pairs[at] = next_pair(events, kind);
		if (events->scattered && !limpet_row_has_age(kind) &&
		    rows->pairs[at] < events->pair_count)
			events->made_at[rows->pairs[at]] = events->tick + 1;
	} else {
		rows->sizes[at] = any_number(events, &events->sizes);
		events->damaged |= rows->sizes[at] > INT64_MAX;
	}
	if (limpet_row_has_age(kind)) {
		number = next_number(events, &events->ages);
		rows->ages[at] = age_from(events, number, rows->pairs[at]);
		number = next_number(events, &events->owners);
		events->damaged |= number > events->tid_count;
		rows->owners[at] = number ? (uint32_t)number - 1 : events->thread;
	}
	if (events->has_addresses) {
		number = any_number(events, &events->addresses);
		events->address += limpet_trace_unzigzag(number);
		rows->addresses[at] = events->address;
	}
}

int limpet_trace_events_rows(struct limpet_trace_events *events,
			     const struct limpet_trace_rows **ret_rows)
{
	struct limpet_trace_rows *rows = &events->some;
	const uint32_t count =
		events->rows < LIMPET_TRACE_SOME_ROWS ? events->rows : LIMPET_TRACE_SOME_ROWS;

	rows->count = 0;
	if (events->damaged || !count)
		return events->damaged ? -EBADMSG : 0;
	memcpy(rows->ops, events->ops.at, count);
	events->ops.at += count;
	events->rows -= count;
	while (rows->count < count) {
		decode_row(events, rows->count);
		if (events->damaged)
			break;
		rows->count++;
	}
	*ret_rows = rows;
	return rows->count ? 1 : -EBADMSG;
}

uint32_t limpet_trace_events_pairs(const struct limpet_trace_events *events,
				   const uint32_t **ret_nodes, const uint64_t **ret_sizes)
{
	*ret_nodes = events->pair_nodes;
	*ret_sizes = events->pair_sizes;
	return events->pair_count;
}

uint32_t limpet_trace_events_threads(const struct limpet_trace_events *events,
				     const uint32_t **ret_tids)
{
	*ret_tids = events->tids;
	return events->tid_count + 1;
}

int limpet_trace_events_next(struct limpet_trace_events *events,
			     struct limpet_trace_event *ret_event)
{
	const struct limpet_trace_rows *rows = &events->some;
	unsigned op, kind;
	uint32_t at;

	if (events->next == rows->count) {
		int code = limpet_trace_events_rows(events, &rows);

		events->next = 0;
		if (code != 1)
			return code;
	}
	at = events->next++;
	op = rows->ops[at];
	kind = LIMPET_ROW_KIND(op);
	*ret_event = (struct limpet_trace_event){
		.time_ns = ticks_to_ns(rows->ticks[at]),
		.size = limpet_row_has_pair(kind) ? events->pair_sizes[rows->pairs[at]]
						  : rows->sizes[at],
		.address = events->has_addresses ? rows->addresses[at] : 0,
		.age_ns = limpet_row_has_age(kind) ? ticks_to_ns(rows->ages[at]) : 0,
		.node = limpet_row_has_pair(kind) ? events->pair_nodes[rows->pairs[at]] : 0,
		.tid = events->tids[rows->threads[at]],
		.kind = (uint16_t)kind,
		.temporary = op & LIMPET_ROW_TEMPORARY,
		.sampled = op & LIMPET_ROW_SAMPLED,
		.realloc = op & LIMPET_ROW_REALLOC,
		.counted = is_event(kind),
	};
	return 1;
}
