#include "recorder/event_columns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/trace_block.h"
#include "common/trace_format.h"
#include "recorder/event_planes.h"

#define FIRST_SLOTS 4096u
/* Rows for which room is reserved in all columns at once; each may be two of the trace. */
#define ROWS_AT_ONCE 512u
/* The dictionary's slots are prefetched this many rows ahead. */
#define AHEAD 12u
/* The rows themselves, further. */
#define ROWS_AHEAD 32u

/* A slot is in use if it has the current block's tag: a new tag empties the dictionary. */
#define NUMBER_BITS 22u
#define NUMBER_MASK ((1u << NUMBER_BITS) - 1)
#define BLOCK_TAGS (1u << (32 - NUMBER_BITS))

struct pair {
	uint64_t size;
	uint32_t node;
	uint32_t number; /* in the low bits; above them the block's tag, 0: none */
};

/* The number of a thread of the capture in this block's table. */
struct local_thread {
	uint32_t block; /* in which `number` is valid */
	uint32_t number;
};

struct limpet_event_columns {
	uint32_t rows, events, pairs;
	uint64_t first_tick, last_tick;
	uint32_t tid_count;
	uint32_t last_thread;
	struct limpet_bytes ops, times, pair_nodes, pair_sizes, pair_numbers, ages, tids, switches,
		sizes, addresses, owners;
	bool keep_addresses;
	uint64_t last_address;
	uint32_t block; /* from 1 */
	uint32_t tag;   /* of the block, shifted into place: 1 to BLOCK_TAGS - 1 */
	struct local_thread *threads;
	size_t thread_capacity;
	struct pair *slots; /* the dictionary: open addressing, a power of two */
	uint32_t slot_count;
	struct limpet_event_planes *planes;
};

struct limpet_event_columns *limpet_event_columns_new(void)
{
	struct limpet_event_columns *columns = calloc(1, sizeof(*columns));

	if (!columns)
		return NULL;
	columns->block = 1;
	columns->tag = 1u << NUMBER_BITS;
	columns->slot_count = FIRST_SLOTS;
	columns->slots = calloc(columns->slot_count, sizeof(*columns->slots));
	columns->planes = limpet_event_planes_new();
	if (!columns->slots || !columns->planes) {
		limpet_event_columns_free(columns);
		return NULL;
	}
	return columns;
}

void limpet_event_columns_keep_addresses(struct limpet_event_columns *columns)
{
	columns->keep_addresses = true;
}

void limpet_event_columns_free(struct limpet_event_columns *columns)
{
	if (!columns)
		return;
	limpet_bytes_done(&columns->ops);
	limpet_bytes_done(&columns->times);
	limpet_bytes_done(&columns->pair_nodes);
	limpet_bytes_done(&columns->pair_sizes);
	limpet_bytes_done(&columns->pair_numbers);
	limpet_bytes_done(&columns->ages);
	limpet_bytes_done(&columns->tids);
	limpet_bytes_done(&columns->switches);
	limpet_bytes_done(&columns->sizes);
	limpet_bytes_done(&columns->addresses);
	limpet_bytes_done(&columns->owners);
	limpet_event_planes_free(columns->planes);
	free(columns->threads);
	free(columns->slots);
	free(columns);
}

static uint32_t home(uint32_t slot_count, uint32_t node, uint64_t size)
{
	uint64_t hash = (size + ((uint64_t)node << 32)) * 0x9E3779B97F4A7C15ull;

	return (uint32_t)(hash >> 32) & (slot_count - 1);
}

static bool is_free(const struct limpet_event_columns *columns, const struct pair *pair)
{
	return (pair->number & ~NUMBER_MASK) != columns->tag;
}

static struct pair *find_slot(const struct limpet_event_columns *columns, struct pair *slots,
			      uint32_t slot_count, uint32_t node, uint64_t size)
{
	uint32_t at = home(slot_count, node, size);

	while (!is_free(columns, &slots[at]) && (slots[at].size != size || slots[at].node != node))
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

static bool grow_slots(struct limpet_event_columns *columns)
{
	uint32_t more = columns->slot_count * 2;
	struct pair *slots = calloc(more, sizeof(*slots));

	if (!slots)
		return false;
	for (uint32_t i = 0; i < columns->slot_count; i++) {
		struct pair *pair = &columns->slots[i];

		if (!is_free(columns, pair))
			*find_slot(columns, slots, more, pair->node, pair->size) = *pair;
	}
	free(columns->slots);
	columns->slots = slots;
	columns->slot_count = more;
	return true;
}

/* Returns the pair's number in this block, or -ENOMEM. */
static int64_t find_pair(struct limpet_event_columns *columns, uint32_t node, uint64_t size)
{
	struct pair *pair = find_slot(columns, columns->slots, columns->slot_count, node, size);

	if (!is_free(columns, pair))
		return pair->number & NUMBER_MASK;
	if (columns->pairs >= columns->slot_count / 4 * 3) {
		if (columns->pairs > NUMBER_MASK / 2 || !grow_slots(columns))
			return -ENOMEM;
		pair = find_slot(columns, columns->slots, columns->slot_count, node, size);
	}
	*pair = (struct pair){.size = size, .node = node, .number = columns->tag | columns->pairs};
	limpet_bytes_put_varint(&columns->pair_nodes, node);
	limpet_bytes_put_varint(&columns->pair_sizes, size);
	return columns->pairs++;
}

/* Returns the thread's number in this block, or -ENOMEM. */
static int64_t find_thread(struct limpet_event_columns *columns, uint32_t thread, uint32_t tid)
{
	struct local_thread *local;

	if (limpet_reserve_zeroed(&columns->threads, &columns->thread_capacity, (size_t)thread + 1,
				  sizeof(*columns->threads)) < 0)
		return -ENOMEM;
	local = &columns->threads[thread];
	if (local->block != columns->block) {
		*local = (struct local_thread){.block = columns->block,
					       .number = columns->tid_count++};
		limpet_bytes_put_varint(&columns->tids, tid);
	}
	return local->number;
}

/* Properties of each kind of row. */
enum { IS_EVENT = 1, HAS_PAIR = 2, HAS_AGE = 4 };
static const uint8_t traits[16] = {
	[LIMPET_ROW_ALLOC] = IS_EVENT | HAS_PAIR,
	[LIMPET_ROW_FREE] = IS_EVENT | HAS_PAIR | HAS_AGE,
	[LIMPET_ROW_FOREIGN_FREE] = IS_EVENT,
	[LIMPET_ROW_MMAP] = IS_EVENT | HAS_PAIR,
	[LIMPET_ROW_MUNMAP] = IS_EVENT,
	[LIMPET_ROW_UNMAPPED] = HAS_PAIR | HAS_AGE,
	[LIMPET_ROW_UNTRACKED] = IS_EVENT | HAS_PAIR,
	[LIMPET_ROW_INFERRED_FREE] = HAS_PAIR | HAS_AGE,
};

/* Addresses are stored as differences, zigzag-encoded: the lowest bit is the sign. */
static void add_addresses(struct limpet_event_columns *columns,
			  const struct limpet_accounting_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		limpet_bytes_put_varint(
			&columns->addresses,
			limpet_trace_zigzag(rows[i].address - columns->last_address));
		if (rows[i].freed)
			limpet_bytes_put_varint(&columns->addresses, 0);
		columns->last_address = rows[i].address;
	}
}

static bool want_columns(struct limpet_event_columns *columns)
{
	const size_t bytes = 2 * ROWS_AT_ONCE * LIMPET_VARINT_MAX_BYTES;

	return limpet_bytes_want(&columns->ops, 2 * ROWS_AT_ONCE) &&
	       limpet_bytes_want(&columns->times, bytes) &&
	       limpet_bytes_want(&columns->pair_numbers, bytes) &&
	       limpet_bytes_want(&columns->ages, bytes) &&
	       limpet_bytes_want(&columns->sizes, bytes) &&
	       limpet_bytes_want(&columns->owners, bytes);
}

/* Positions in the columns, copied so that they stay in registers: for all that the compiler knows,
 * a store through a uint8_t pointer may change the originals. */
struct cursors {
	uint8_t *op, *time, *number, *age, *size, *owner;
};

static struct cursors take_cursors(const struct limpet_event_columns *columns)
{
	return (struct cursors){.op = columns->ops.data + columns->ops.count,
				.time = columns->times.data + columns->times.count,
				.number = columns->pair_numbers.data + columns->pair_numbers.count,
				.age = columns->ages.data + columns->ages.count,
				.size = columns->sizes.data + columns->sizes.count,
				.owner = columns->owners.data + columns->owners.count};
}

static void put_cursors_back(struct limpet_event_columns *columns, const struct cursors *cursors)
{
	columns->ops.count = (size_t)(cursors->op - columns->ops.data);
	columns->times.count = (size_t)(cursors->time - columns->times.data);
	columns->pair_numbers.count = (size_t)(cursors->number - columns->pair_numbers.data);
	columns->ages.count = (size_t)(cursors->age - columns->ages.data);
	columns->sizes.count = (size_t)(cursors->size - columns->sizes.data);
	columns->owners.count = (size_t)(cursors->owner - columns->owners.data);
}

/* Appends to columns without a cursor. Returns 0 or -ENOMEM. */
static int put_switch(struct limpet_event_columns *columns, const struct limpet_accounting_row *row)
{
	int64_t number = find_thread(columns, row->thread, row->tid);

	if (number < 0)
		return (int)number;
	limpet_bytes_put_varint(&columns->switches, (uint64_t)number);
	columns->last_thread = row->thread;
	return 0;
}

/* For a row with a pair. Returns the pair's number, or -ENOMEM. */
static inline int64_t put_pair(struct limpet_event_columns *columns, struct cursors *cursors,
			       const struct limpet_accounting_row *row)
{
	const struct pair *pair = &columns->slots[home(columns->slot_count, row->node, row->size)];
	int64_t number = pair->number & NUMBER_MASK;

	if (is_free(columns, pair) || pair->size != row->size || pair->node != row->node)
		number = find_pair(columns, row->node, row->size);
	if (number >= 0)
		cursors->number += limpet_varint_put_any(cursors->number, (uint64_t)number);
	return number;
}

/* Returns 0 or -ENOMEM. */
static inline int put_owner(struct limpet_event_columns *columns, struct cursors *cursors,
			    const struct limpet_accounting_row *row, bool has_age)
{
	int64_t number;

	if (row->owner == row->thread) {
		*cursors->owner = 0;
		cursors->owner += has_age ? 1 : 0;
		return 0;
	}
	number = find_thread(columns, row->owner, row->owner_tid);
	if (number < 0)
		return (int)number;
	cursors->owner += limpet_varint_put_any(cursors->owner, (uint64_t)number + 1);
	return 0;
}

/* The free of a block that the row before has allocated, whose pair has that number. To copy its
 * bytes from there would be slower: the load would wait for the store of each. */
static inline void put_free_at_once(struct cursors *cursors, uint64_t number)
{
	*cursors->op++ = LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY;
	*cursors->time++ = 0;
	cursors->number += limpet_varint_put_any(cursors->number, number);
	*cursors->age++ = 0;
	*cursors->owner++ = 0;
}

/* Adds 1 to ROWS_AT_ONCE rows; call want_columns() before. */
static int add_rows(struct limpet_event_columns *columns, const struct limpet_accounting_row *rows,
		    size_t count)
{
	struct cursors cursors = take_cursors(columns);
	uint64_t last_tick = columns->rows ? columns->last_tick : rows[0].tick;
	uint32_t events = 0, frees = 0;
	size_t i;
	int code = 0;

	if (!columns->rows) {
		columns->first_tick = last_tick;
		columns->last_thread = ~rows[0].thread;
	}
	for (i = 0; i < count; i++) {
		const struct limpet_accounting_row *row = &rows[i];
		uint8_t op = row->op, trait = traits[LIMPET_ROW_KIND(op)];
		int64_t number = 0;
		unsigned bytes;

		/* Another thread has written the rows, and another processor may have them. */
		if (i + ROWS_AHEAD < count)
			__builtin_prefetch(&rows[i + ROWS_AHEAD]);
		if (i + AHEAD < count)
			__builtin_prefetch(&columns->slots[home(
				columns->slot_count, rows[i + AHEAD].node, rows[i + AHEAD].size)]);
		if (row->thread != columns->last_thread) {
			code = put_switch(columns, row);
			if (code < 0)
				break;
			op |= LIMPET_ROW_SWITCH;
		}
		if (trait & HAS_PAIR)
			number = put_pair(columns, &cursors, row);
		else
			cursors.size += limpet_varint_put_any(cursors.size, row->size);
		code = number < 0 ? (int)number : 0;
		if (code < 0)
			break;
		/* Always written, but not always kept: a branch would be mispredicted. */
		bytes = limpet_varint_put_any(cursors.age, row->age_ticks);
		cursors.age += trait & HAS_AGE ? bytes : 0;
		code = put_owner(columns, &cursors, row, trait & HAS_AGE);
		if (code < 0)
			break;
		*cursors.op++ = op;
		cursors.time += limpet_varint_put(cursors.time, row->tick - last_tick);
		last_tick = row->tick;
		events += trait & IS_EVENT;
		if (row->freed && trait & HAS_PAIR) {
			put_free_at_once(&cursors, (uint64_t)number);
			frees++;
		}
	}
	put_cursors_back(columns, &cursors);
	columns->last_tick = last_tick;
	columns->rows += (uint32_t)i + frees;
	columns->events += events + frees;
	return code;
}

int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_accounting_row *rows, size_t count)
{
	while (count) {
		size_t some = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
		int code = want_columns(columns) ? add_rows(columns, rows, some) : -ENOMEM;

		if (code < 0)
			return code;
		if (columns->keep_addresses)
			add_addresses(columns, rows, some);
		rows += some;
		count -= some;
	}
	return 0;
}

static void put_column(struct limpet_bytes *content, unsigned tag,
		       const struct limpet_bytes *column)
{
	limpet_trace_put_section(content, tag, column->data, column->count);
	content->failed |= column->failed;
}

static bool put_pairs(const struct limpet_event_columns *columns, struct limpet_bytes *content)
{
	const struct limpet_event_pairs pairs = {.ops = &columns->ops,
						 .times = &columns->times,
						 .ages = &columns->ages,
						 .nodes = &columns->pair_nodes,
						 .sizes = &columns->pair_sizes,
						 .numbers = &columns->pair_numbers,
						 .rows = columns->rows,
						 .pairs = columns->pairs};

	if (limpet_event_planes_pay(&pairs)) {
		content->failed |= columns->ops.failed || columns->times.failed ||
				   columns->ages.failed || columns->pair_nodes.failed ||
				   columns->pair_sizes.failed || columns->pair_numbers.failed;
		if (!content->failed)
			limpet_event_planes_put(columns->planes, &pairs, content);
		return true;
	}
	put_column(content, LIMPET_EVENTS_PAIR_NODES, &columns->pair_nodes);
	put_column(content, LIMPET_EVENTS_PAIR_SIZES, &columns->pair_sizes);
	put_column(content, LIMPET_EVENTS_PAIRS, &columns->pair_numbers);
	put_column(content, LIMPET_EVENTS_AGES, &columns->ages);
	return false;
}

uint16_t limpet_event_columns_put(const struct limpet_event_columns *columns,
				  struct limpet_bytes *content)
{
	bool scattered;
	uint8_t counts[3 * LIMPET_VARINT_MAX_BYTES];
	size_t count = limpet_varint_put(counts, columns->rows);

	count += limpet_varint_put(counts + count, columns->events);
	count += limpet_varint_put(counts + count, columns->first_tick);
	limpet_trace_put_section(content, LIMPET_EVENTS_COUNTS, counts, count);
	put_column(content, LIMPET_EVENTS_OPS, &columns->ops);
	put_column(content, LIMPET_EVENTS_TIMES, &columns->times);
	scattered = put_pairs(columns, content);
	put_column(content, LIMPET_EVENTS_TIDS, &columns->tids);
	put_column(content, LIMPET_EVENTS_SWITCHES, &columns->switches);
	put_column(content, LIMPET_EVENTS_SIZES, &columns->sizes);
	put_column(content, LIMPET_EVENTS_OWNERS, &columns->owners);
	if (columns->keep_addresses)
		put_column(content, LIMPET_EVENTS_ADDRESSES, &columns->addresses);
	return scattered ? LIMPET_TRACE_SCATTERED_VERSION : LIMPET_TRACE_PLAIN_VERSION;
}

void limpet_event_columns_clear(struct limpet_event_columns *columns)
{
	columns->block++;
	columns->tag = columns->block % BLOCK_TAGS << NUMBER_BITS;
	if (!columns->tag) {
		memset(columns->slots, 0, columns->slot_count * sizeof(*columns->slots));
		columns->block++;
		columns->tag = 1u << NUMBER_BITS;
	}
	columns->rows = columns->events = columns->pairs = columns->tid_count = 0;
	limpet_bytes_clear(&columns->ops);
	limpet_bytes_clear(&columns->times);
	limpet_bytes_clear(&columns->pair_nodes);
	limpet_bytes_clear(&columns->pair_sizes);
	limpet_bytes_clear(&columns->pair_numbers);
	limpet_bytes_clear(&columns->ages);
	limpet_bytes_clear(&columns->tids);
	limpet_bytes_clear(&columns->switches);
	limpet_bytes_clear(&columns->sizes);
	limpet_bytes_clear(&columns->addresses);
	limpet_bytes_clear(&columns->owners);
	columns->last_address = 0;
}
