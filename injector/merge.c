#include "injector/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256u
#define MAX_WAITING (16u << 20)
/* Records that streams have room for, together; beyond it an empty one gives its room back: each
 * may have its day, but not all of them theirs for good. */
#define ENOUGH_ROOM (4u << 20)
#define NOT_IN_HEAP UINT32_MAX

struct stream {
	struct limpet_record *records;
	size_t first, end, capacity;
	uint32_t heap_place;
};

struct limpet_merge {
	struct stream *streams;
	uint32_t stream_count;
	uint32_t *heap; /* of streams that are not empty, by their first record's time */
	uint32_t heap_count;
	size_t waiting, room;
};

int limpet_merge_new(uint32_t streams, struct limpet_merge **ret)
{
	struct limpet_merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return -ENOMEM;
	merge->stream_count = streams;
	merge->streams = calloc(streams, sizeof(*merge->streams));
	merge->heap = calloc(streams, sizeof(*merge->heap));
	if (!merge->streams || !merge->heap) {
		limpet_merge_free(merge);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < streams; i++)
		merge->streams[i].heap_place = NOT_IN_HEAP;
	*ret = merge;
	return 0;
}

void limpet_merge_free(struct limpet_merge *merge)
{
	if (!merge)
		return;
	for (uint32_t i = 0; merge->streams && i < merge->stream_count; i++)
		free(merge->streams[i].records);
	free(merge->streams);
	free(merge->heap);
	free(merge);
}

static uint64_t time_of(const struct limpet_merge *merge, uint32_t place)
{
	const struct stream *stream = &merge->streams[merge->heap[place]];

	return stream->records[stream->first].time_ns;
}

static void heap_put(struct limpet_merge *merge, uint32_t place, uint32_t stream)
{
	merge->heap[place] = stream;
	merge->streams[stream].heap_place = place;
}

static void heap_swap(struct limpet_merge *merge, uint32_t a, uint32_t b)
{
	uint32_t stream = merge->heap[a];

	heap_put(merge, a, merge->heap[b]);
	heap_put(merge, b, stream);
}

static void heap_down(struct limpet_merge *merge, uint32_t place)
{
	for (;;) {
		uint32_t least = place, child = place * 2 + 1;

		for (uint32_t i = child; i < child + 2 && i < merge->heap_count; i++)
			if (time_of(merge, i) < time_of(merge, least))
				least = i;
		if (least == place)
			return;
		heap_swap(merge, place, least);
		place = least;
	}
}

static void heap_up(struct limpet_merge *merge, uint32_t place)
{
	while (place && time_of(merge, place) < time_of(merge, (place - 1) / 2)) {
		heap_swap(merge, place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
}

static int make_room(struct limpet_merge *merge, struct stream *stream)
{
	struct limpet_record *more;
	size_t capacity;

	if (stream->end < stream->capacity)
		return 0;
	if (stream->first > stream->capacity / 2) {
		memmove(stream->records, stream->records + stream->first,
			(stream->end - stream->first) * sizeof(*stream->records));
		stream->end -= stream->first;
		stream->first = 0;
		return 0;
	}
	capacity = stream->capacity ? stream->capacity * 2 : FIRST_CAPACITY;
	if (capacity > MAX_WAITING)
		return -ENOMEM;
	more = realloc(stream->records, capacity * sizeof(*more));
	if (!more)
		return -ENOMEM;
	merge->room += capacity - stream->capacity;
	stream->records = more;
	stream->capacity = capacity;
	return 0;
}

int limpet_merge_add(struct limpet_merge *merge, uint32_t index, const struct limpet_record *record)
{
	struct stream *stream = &merge->streams[index];
	int error = make_room(merge, stream);

	if (error)
		return error;
	stream->records[stream->end++] = *record;
	merge->waiting++;
	if (stream->heap_place == NOT_IN_HEAP) {
		heap_put(merge, merge->heap_count++, index);
		heap_up(merge, merge->heap_count - 1);
	}
	return 0;
}

static void stream_empty(struct limpet_merge *merge, struct stream *stream)
{
	stream->first = stream->end = 0;
	stream->heap_place = NOT_IN_HEAP;
	if (merge->room <= ENOUGH_ROOM)
		return;
	free(stream->records);
	stream->records = NULL;
	merge->room -= stream->capacity;
	stream->capacity = 0;
}

/* The first stream may run on until another one's turn comes. */
static uint64_t next_turn(const struct limpet_merge *merge)
{
	uint64_t turn = UINT64_MAX;

	for (uint32_t i = 1; i < 3 && i < merge->heap_count; i++)
		if (time_of(merge, i) < turn)
			turn = time_of(merge, i);
	return turn;
}

size_t limpet_merge_take(struct limpet_merge *merge, uint64_t until, struct limpet_record *ret,
			 size_t max)
{
	size_t count = 0;

	while (count < max && merge->heap_count && time_of(merge, 0) <= until) {
		struct stream *stream = &merge->streams[merge->heap[0]];
		uint64_t turn = next_turn(merge), last = turn < until ? turn : until;

		do {
			ret[count++] = stream->records[stream->first++];
		} while (count < max && stream->first < stream->end &&
			 stream->records[stream->first].time_ns <= last);
		if (stream->first == stream->end) {
			stream_empty(merge, stream);
			merge->heap_count--;
			if (merge->heap_count)
				heap_put(merge, 0, merge->heap[merge->heap_count]);
		}
		if (merge->heap_count)
			heap_down(merge, 0);
	}
	merge->waiting -= count;
	return count;
}

size_t limpet_merge_waiting_all(const struct limpet_merge *merge)
{
	return merge->waiting;
}

size_t limpet_merge_waiting(const struct limpet_merge *merge, uint32_t stream)
{
	return merge->streams[stream].end - merge->streams[stream].first;
}
