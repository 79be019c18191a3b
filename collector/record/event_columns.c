#include "collector/record/event_columns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "collector/record/event_planes.h"
#include "common/array.h"
#include "common/trace_block.h"
#include "common/trace_format.h"

#define FIRST_SLOTS 4096u
/* Rows for which room is reserved in all columns at once; each may be two of the trace. */
#define ROWS_AT_ONCE 512u
/* How much memory a column keeps for the next block. */
#define KEEP_BYTES (4u << 20)
/* The dictionary's slots are prefetched this many rows ahead. */
#define AHEAD 12u

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
	struct limpet_event_block to;
	uint64_t last_tick;
	uint32_t tid_count;
	uint32_t last_thread;
	bool keep_addresses;
	uint64_t last_address;
	uint32_t block; /* from 1 */
	uint32_t tag;   /* of the block, shifted into place: 1 to BLOCK_TAGS - 1 */
	struct local_thread *threads;
	size_t thread_capacity;
	struct pair *slots; /* the dictionary: open addressing, a power of two */
	uint32_t slot_count;
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
	if (!columns->slots) {
		limpet_event_columns_free(columns);
		return NULL;
	}
	return columns;
}

void limpet_event_columns_keep_addresses(struct limpet_event_columns *columns)
{
	columns->keep_addresses = true;
}

void limpet_event_block_done(struct limpet_event_block *block)
{
	limpet_bytes_done(&block->ops);
	limpet_bytes_done(&block->times);
	limpet_bytes_done(&block->pair_nodes);
	limpet_bytes_done(&block->pair_sizes);
	limpet_bytes_done(&block->pair_numbers);
	limpet_bytes_done(&block->ages);
	limpet_bytes_done(&block->tids);
	limpet_bytes_done(&block->switches);
	limpet_bytes_done(&block->sizes);
	limpet_bytes_done(&block->addresses);
	limpet_bytes_done(&block->owners);
}

void limpet_event_columns_free(struct limpet_event_columns *columns)
{
	if (!columns)
		return;
	limpet_event_block_done(&columns->to);
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
	if (columns->to.pairs >= columns->slot_count / 4 * 3) {
		if (columns->to.pairs > NUMBER_MASK / 2 || !grow_slots(columns))
			return -ENOMEM;
		pair = find_slot(columns, columns->slots, columns->slot_count, node, size);
	}
	*pair = (struct pair){
		.size = size, .node = node, .number = columns->tag | columns->to.pairs};
	limpet_bytes_append_varint(&columns->to.pair_nodes, node);
	limpet_bytes_append_varint(&columns->to.pair_sizes, size);
	return columns->to.pairs++;
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
		limpet_bytes_append_varint(&columns->to.tids, tid);
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
		limpet_bytes_append_varint(
			&columns->to.addresses,
			limpet_trace_zigzag(rows[i].address - columns->last_address));
		if (rows[i].freed)
			limpet_bytes_append_varint(&columns->to.addresses, 0);
		columns->last_address = rows[i].address;
	}
}

static bool reserve_columns(struct limpet_event_columns *columns)
{
	const size_t bytes = 2 * ROWS_AT_ONCE * LIMPET_VARINT_MAX_BYTES;

	return limpet_bytes_reserve(&columns->to.ops, 2 * ROWS_AT_ONCE) &&
	       limpet_bytes_reserve(&columns->to.times, bytes) &&
	       limpet_bytes_reserve(&columns->to.pair_numbers, bytes) &&
	       limpet_bytes_reserve(&columns->to.ages, bytes) &&
	       limpet_bytes_reserve(&columns->to.sizes, bytes) &&
	       limpet_bytes_reserve(&columns->to.owners, bytes);
}

/* Positions in the columns, copied so that they stay in registers: for all that the compiler knows,
 * a store through a uint8_t pointer may change the originals. */
struct cursors {
	uint8_t *op, *time, *number, *age, *size, *owner;
};

static struct cursors load_cursors(const struct limpet_event_columns *columns)
{
	return (struct cursors){.op = columns->to.ops.data + columns->to.ops.count,
				.time = columns->to.times.data + columns->to.times.count,
				.number = columns->to.pair_numbers.data +
					  columns->to.pair_numbers.count,
				.age = columns->to.ages.data + columns->to.ages.count,
				.size = columns->to.sizes.data + columns->to.sizes.count,
				.owner = columns->to.owners.data + columns->to.owners.count};
}

static void store_cursors(struct limpet_event_columns *columns, const struct cursors *cursors)
{
	columns->to.ops.count = (size_t)(cursors->op - columns->to.ops.data);
	columns->to.times.count = (size_t)(cursors->time - columns->to.times.data);
	columns->to.pair_numbers.count = (size_t)(cursors->number - columns->to.pair_numbers.data);
	columns->to.ages.count = (size_t)(cursors->age - columns->to.ages.data);
	columns->to.sizes.count = (size_t)(cursors->size - columns->to.sizes.data);
	columns->to.owners.count = (size_t)(cursors->owner - columns->to.owners.data);
}

/* Appends to columns without a cursor. Returns 0 or -ENOMEM. */
static int append_switch(struct limpet_event_columns *columns,
			 const struct limpet_accounting_row *row)
{
	int64_t number = find_thread(columns, row->thread, row->tid);

	if (number < 0)
		return (int)number;
	limpet_bytes_append_varint(&columns->to.switches, (uint64_t)number);
	columns->last_thread = row->thread;
	return 0;
}

/* For a row with a pair. Returns the pair's number, or -ENOMEM. */
static inline int64_t append_pair(struct limpet_event_columns *columns, struct cursors *cursors,
				  const struct limpet_accounting_row *row)
{
	const struct pair *pair = &columns->slots[home(columns->slot_count, row->node, row->size)];
	int64_t number = pair->number & NUMBER_MASK;

	if (is_free(columns, pair) || pair->size != row->size || pair->node != row->node)
		number = find_pair(columns, row->node, row->size);
	if (number >= 0)
		cursors->number += limpet_varint_encode_any(cursors->number, (uint64_t)number);
	return number;
}

/* Returns 0 or -ENOMEM. */
static inline int append_owner(struct limpet_event_columns *columns, struct cursors *cursors,
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
	cursors->owner += limpet_varint_encode_any(cursors->owner, (uint64_t)number + 1);
	return 0;
}

/* The free of a block that the row before has allocated, whose pair has that number. To copy its
 * bytes from there would be slower: the load would wait for the store of each. */
static inline void append_temporary_free(struct cursors *cursors, uint64_t number)
{
	*cursors->op++ = LIMPET_ROW_FREE | LIMPET_ROW_TEMPORARY;
	*cursors->time++ = 0;
	cursors->number += limpet_varint_encode_any(cursors->number, number);
	*cursors->age++ = 0;
	*cursors->owner++ = 0;
}

/* Adds 1 to ROWS_AT_ONCE rows; call reserve_columns() before. */
static int add_rows(struct limpet_event_columns *columns, const struct limpet_accounting_row *rows,
		    size_t count)
{
	struct cursors cursors = load_cursors(columns);
	uint64_t last_tick = columns->to.rows ? columns->last_tick : rows[0].tick;
	uint32_t events = 0, frees = 0;
	size_t i;
	int code = 0;

	if (!columns->to.rows) {
		columns->to.first_tick = last_tick;
		columns->last_thread = ~rows[0].thread;
	}
	for (i = 0; i < count; i++) {
		const struct limpet_accounting_row *row = &rows[i];
		uint8_t op = row->op, trait = traits[LIMPET_ROW_KIND(op)];
		int64_t number = 0;
		unsigned bytes;

		if (i + AHEAD < count)
			__builtin_prefetch(&columns->slots[home(
				columns->slot_count, rows[i + AHEAD].node, rows[i + AHEAD].size)]);
		if (row->thread != columns->last_thread) {
			code = append_switch(columns, row);
			if (code < 0)
				break;
			op |= LIMPET_ROW_SWITCH;
		}
		if (trait & HAS_PAIR)
			number = append_pair(columns, &cursors, row);
		else
			cursors.size += limpet_varint_encode_any(cursors.size, row->size);
		code = number < 0 ? (int)number : 0;
		if (code < 0)
			break;
		/* Always written, but not always kept: a branch would be mispredicted. */
		bytes = limpet_varint_encode_any(cursors.age, row->age_ticks);
		cursors.age += trait & HAS_AGE ? bytes : 0;
		code = append_owner(columns, &cursors, row, trait & HAS_AGE);
		if (code < 0)
			break;
		*cursors.op++ = op;
		cursors.time += limpet_varint_encode(cursors.time, row->tick - last_tick);
		last_tick = row->tick;
		events += trait & IS_EVENT;
		if (row->freed && trait & HAS_PAIR) {
			append_temporary_free(&cursors, (uint64_t)number);
			frees++;
		}
	}
	store_cursors(columns, &cursors);
	columns->last_tick = last_tick;
	columns->to.rows += (uint32_t)i + frees;
	columns->to.events += events + frees;
	return code;
}

int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_accounting_row *rows, size_t count)
{
	while (count) {
		size_t some = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;
		int code = reserve_columns(columns) ? add_rows(columns, rows, some) : -ENOMEM;

		if (code < 0)
			return code;
		if (columns->keep_addresses)
			add_addresses(columns, rows, some);
		rows += some;
		count -= some;
	}
	return 0;
}

static void append_column(struct limpet_bytes *content, unsigned tag,
			  const struct limpet_bytes *column)
{
	limpet_trace_section_append(content, tag, column->data, column->count);
	content->failed |= column->failed;
}

static void append_pairs(const struct limpet_event_block *block, struct limpet_event_planes *planes,
			 struct limpet_bytes *content)
{
	const struct limpet_event_pairs pairs = {.ops = &block->ops,
						 .times = &block->times,
						 .ages = &block->ages,
						 .nodes = &block->pair_nodes,
						 .sizes = &block->pair_sizes,
						 .numbers = &block->pair_numbers,
						 .rows = block->rows,
						 .pairs = block->pairs};

	if (limpet_event_planes_pay(&pairs)) {
		content->failed |= block->ops.failed || block->times.failed || block->ages.failed ||
				   block->pair_nodes.failed || block->pair_sizes.failed ||
				   block->pair_numbers.failed;
		if (!content->failed)
			limpet_event_planes_append(planes, &pairs, content);
		return;
	}
	append_column(content, LIMPET_EVENTS_PAIR_NODES, &block->pair_nodes);
	append_column(content, LIMPET_EVENTS_PAIR_SIZES, &block->pair_sizes);
	append_column(content, LIMPET_EVENTS_PAIRS, &block->pair_numbers);
	append_column(content, LIMPET_EVENTS_AGES, &block->ages);
}

void limpet_event_block_append(const struct limpet_event_block *block,
			       struct limpet_event_planes *planes, struct limpet_bytes *content)
{
	uint8_t counts[3 * LIMPET_VARINT_MAX_BYTES];
	size_t count = limpet_varint_encode(counts, block->rows);

	count += limpet_varint_encode(counts + count, block->events);
	count += limpet_varint_encode(counts + count, block->first_tick);
	limpet_trace_section_append(content, LIMPET_EVENTS_COUNTS, counts, count);
	append_column(content, LIMPET_EVENTS_OPS, &block->ops);
	append_column(content, LIMPET_EVENTS_TIMES, &block->times);
	append_pairs(block, planes, content);
	append_column(content, LIMPET_EVENTS_TIDS, &block->tids);
	append_column(content, LIMPET_EVENTS_SWITCHES, &block->switches);
	append_column(content, LIMPET_EVENTS_SIZES, &block->sizes);
	append_column(content, LIMPET_EVENTS_OWNERS, &block->owners);
	/* None, unless they are kept; or there was no memory for the first one. */
	if (block->addresses.count || block->addresses.failed)
		append_column(content, LIMPET_EVENTS_ADDRESSES, &block->addresses);
}

static void empty(struct limpet_bytes *column)
{
	if (column->room > KEEP_BYTES)
		limpet_bytes_done(column);
	limpet_bytes_clear(column);
}

static void clear_block(struct limpet_event_block *block)
{
	block->rows = block->events = block->pairs = 0;
	empty(&block->ops);
	empty(&block->times);
	empty(&block->pair_nodes);
	empty(&block->pair_sizes);
	empty(&block->pair_numbers);
	empty(&block->ages);
	empty(&block->tids);
	empty(&block->switches);
	empty(&block->sizes);
	empty(&block->addresses);
	empty(&block->owners);
}

void limpet_event_columns_swap(struct limpet_event_columns *columns,
			       struct limpet_event_block *block)
{
	const struct limpet_event_block full = columns->to;

	clear_block(block);
	columns->to = *block;
	*block = full;
	columns->block++;
	columns->tag = columns->block % BLOCK_TAGS << NUMBER_BITS;
	if (!columns->tag) {
		memset(columns->slots, 0, columns->slot_count * sizeof(*columns->slots));
		columns->block++;
		columns->tag = 1u << NUMBER_BITS;
	}
	columns->tid_count = 0;
	columns->last_address = 0;
}
