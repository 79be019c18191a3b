#include "injector/event_columns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/trace_block.h"
#include "common/trace_format.h"

#define FIRST_SLOTS 4096u

struct pair {
	uint64_t size;
	uint32_t node;
	uint32_t number; /* + 1; 0: free slot */
};

/* Where a thread of the capture stands in this block's table. */
struct local_thread {
	uint32_t block; /* the figure below is of that block */
	uint32_t number;
};

struct limpet_event_columns {
	uint32_t rows, events, pairs;
	uint64_t first_tick, last_tick;
	uint32_t tid_count;
	uint32_t last_thread;
	struct limpet_bytes ops, times, pair_nodes, pair_sizes, pair_numbers, ages, tids, switches,
		sizes;
	uint32_t block; /* from 1 */
	struct local_thread *threads;
	size_t thread_room;
	struct pair *slots; /* the dictionary: open addressing, a power of two */
	uint32_t slot_count;
};

struct limpet_event_columns *limpet_event_columns_new(void)
{
	struct limpet_event_columns *columns = calloc(1, sizeof(*columns));

	if (!columns)
		return NULL;
	columns->block = 1;
	columns->slot_count = FIRST_SLOTS;
	columns->slots = calloc(columns->slot_count, sizeof(*columns->slots));
	if (!columns->slots) {
		limpet_event_columns_free(columns);
		return NULL;
	}
	return columns;
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
	free(columns->threads);
	free(columns->slots);
	free(columns);
}

static struct pair *find_slot(struct pair *slots, uint32_t slot_count, uint32_t node, uint64_t size)
{
	uint64_t hash = (size + ((uint64_t)node << 32)) * 0x9E3779B97F4A7C15ull;
	uint32_t at = (uint32_t)(hash >> 32) & (slot_count - 1);

	while (slots[at].number && (slots[at].size != size || slots[at].node != node))
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

		if (pair->number)
			*find_slot(slots, more, pair->node, pair->size) = *pair;
	}
	free(columns->slots);
	columns->slots = slots;
	columns->slot_count = more;
	return true;
}

/* Answers the pair's number in this block, or -ENOMEM. */
static int64_t find_pair(struct limpet_event_columns *columns, uint32_t node, uint64_t size)
{
	struct pair *pair = find_slot(columns->slots, columns->slot_count, node, size);

	if (pair->number)
		return pair->number - 1;
	if (columns->pairs >= columns->slot_count / 4 * 3) {
		if (!grow_slots(columns))
			return -ENOMEM;
		pair = find_slot(columns->slots, columns->slot_count, node, size);
	}
	*pair = (struct pair){.size = size, .node = node, .number = ++columns->pairs};
	limpet_bytes_put_varint(&columns->pair_nodes, node);
	limpet_bytes_put_varint(&columns->pair_sizes, size);
	return pair->number - 1;
}

/* Answers the thread's number in this block, or -ENOMEM. */
static int64_t find_thread(struct limpet_event_columns *columns, uint32_t thread, uint32_t tid)
{
	struct local_thread *local;

	if (thread >= columns->thread_room) {
		size_t room = columns->thread_room ? columns->thread_room : 64;
		struct local_thread *threads;

		while (room <= thread)
			room *= 2;
		threads = reallocarray(columns->threads, room, sizeof(*threads));
		if (!threads)
			return -ENOMEM;
		memset(threads + columns->thread_room, 0,
		       (room - columns->thread_room) * sizeof(*threads));
		columns->threads = threads;
		columns->thread_room = room;
	}
	local = &columns->threads[thread];
	if (local->block != columns->block) {
		*local = (struct local_thread){.block = columns->block,
					       .number = columns->tid_count++};
		limpet_bytes_put_varint(&columns->tids, tid);
	}
	return local->number;
}

static bool is_event(uint8_t kind)
{
	return kind != LIMPET_ROW_UNMAPPED && kind != LIMPET_ROW_INFERRED_FREE;
}

static bool has_age(uint8_t kind)
{
	return kind == LIMPET_ROW_FREE || kind == LIMPET_ROW_UNMAPPED ||
	       kind == LIMPET_ROW_INFERRED_FREE;
}

static bool has_pair(uint8_t kind)
{
	return kind != LIMPET_ROW_FOREIGN_FREE && kind != LIMPET_ROW_MUNMAP;
}

int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_event_row *row)
{
	uint8_t kind = LIMPET_ROW_KIND(row->op), op = row->op;

	if (columns->rows == 0)
		columns->first_tick = columns->last_tick = row->tick;
	if (columns->rows == 0 || row->thread != columns->last_thread) {
		int64_t number = find_thread(columns, row->thread, row->tid);

		if (number < 0)
			return (int)number;
		op |= LIMPET_ROW_SWITCH;
		limpet_bytes_put_varint(&columns->switches, (uint64_t)number);
		columns->last_thread = row->thread;
	}
	if (has_pair(kind)) {
		int64_t number = find_pair(columns, row->node, row->size);

		if (number < 0)
			return (int)number;
		limpet_bytes_put_varint(&columns->pair_numbers, (uint64_t)number);
	} else {
		limpet_bytes_put_varint(&columns->sizes, row->size);
	}
	if (has_age(kind))
		limpet_bytes_put_varint(&columns->ages, row->age_ticks);
	limpet_bytes_put_byte(&columns->ops, op);
	limpet_bytes_put_varint(&columns->times, row->tick - columns->last_tick);
	columns->last_tick = row->tick;
	columns->rows++;
	columns->events += is_event(kind);
	return 0;
}

uint32_t limpet_event_columns_rows(const struct limpet_event_columns *columns)
{
	return columns->rows;
}

static void put_column(struct limpet_bytes *content, unsigned tag,
		       const struct limpet_bytes *column)
{
	limpet_trace_put_section(content, tag, column->data, column->count);
	content->failed |= column->failed;
}

void limpet_event_columns_put(const struct limpet_event_columns *columns,
			      struct limpet_bytes *content)
{
	uint8_t counts[3 * LIMPET_VARINT_MAX_BYTES];
	size_t count = limpet_varint_put(counts, columns->rows);

	count += limpet_varint_put(counts + count, columns->events);
	count += limpet_varint_put(counts + count, columns->first_tick);
	limpet_trace_put_section(content, LIMPET_EVENTS_COUNTS, counts, count);
	put_column(content, LIMPET_EVENTS_OPS, &columns->ops);
	put_column(content, LIMPET_EVENTS_TIMES, &columns->times);
	put_column(content, LIMPET_EVENTS_PAIR_NODES, &columns->pair_nodes);
	put_column(content, LIMPET_EVENTS_PAIR_SIZES, &columns->pair_sizes);
	put_column(content, LIMPET_EVENTS_PAIRS, &columns->pair_numbers);
	put_column(content, LIMPET_EVENTS_AGES, &columns->ages);
	put_column(content, LIMPET_EVENTS_TIDS, &columns->tids);
	put_column(content, LIMPET_EVENTS_SWITCHES, &columns->switches);
	put_column(content, LIMPET_EVENTS_SIZES, &columns->sizes);
}

void limpet_event_columns_clear(struct limpet_event_columns *columns)
{
	memset(columns->slots, 0, columns->slot_count * sizeof(*columns->slots));
	columns->block++;
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
}
