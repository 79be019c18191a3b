#include "collector/stream/look_ahead.h"

#include <stdlib.h>

#include "collector/stream/description.h"
#include "common/wire.h"

#define RECORD_BYTES 24u
#define WIDE_BYTES 32u
/* Searches that may fail until streams are read again. */
#define MOST_IN_VAIN 64u
/* Chunks that may be opened, as a multiple of all chunks: each is opened once, and may be rewritten
 * meanwhile. */
#define BUDGET_SHARES 4u

/* How far a thread's stream was searched. */
struct place {
	uint32_t chunk, offset; /* chunk 0: not at all */
	uint64_t sequence;
	struct limpet_description_base base;
};

struct limpet_look_ahead {
	const struct limpet_segment *segment;
	struct limpet_stack_tree *tree;
	struct place *places; /* one per thread */
	uint32_t budget, in_vain;
	struct limpet_description description;
};

struct limpet_look_ahead *limpet_look_ahead_new(const struct limpet_segment *segment,
						struct limpet_stack_tree *tree)
{
	struct limpet_look_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return NULL;
	ahead->segment = segment;
	ahead->tree = tree;
	ahead->places = calloc(segment->layout.thread_count, sizeof(*ahead->places));
	if (!ahead->places) {
		free(ahead);
		return NULL;
	}
	limpet_look_ahead_begin(ahead);
	return ahead;
}

void limpet_look_ahead_free(struct limpet_look_ahead *ahead)
{
	if (!ahead)
		return;
	free(ahead->places);
	free(ahead);
}

void limpet_look_ahead_begin(struct limpet_look_ahead *ahead)
{
	ahead->budget = BUDGET_SHARES * ahead->segment->layout.chunk_count;
	ahead->in_vain = 0;
}

void limpet_look_ahead_follow(struct limpet_look_ahead *ahead, uint32_t thread, uint32_t chunk,
			      uint64_t sequence)
{
	struct place *place = &ahead->places[thread];

	if (!chunk || !place->chunk || place->sequence < sequence)
		*place = (struct place){.chunk = chunk, .sequence = sequence};
}

static bool open_chunk(struct limpet_look_ahead *ahead, uint32_t thread, uint32_t index,
		       uint64_t sequence)
{
	const struct limpet_chunk *chunk;

	if (!limpet_segment_has_chunk(ahead->segment, index) || !ahead->budget)
		return false;
	ahead->budget--;
	chunk = limpet_segment_chunk(ahead->segment, index);
	if (!limpet_segment_chunk_follows(chunk, thread, sequence))
		return false;
	ahead->places[thread] = (struct place){.chunk = index, .sequence = sequence};
	return true;
}

/* False: waits at an owner's description whose stack is not described yet. */
static bool read_descriptions(struct limpet_look_ahead *ahead, struct place *place,
			      uint32_t committed)
{
	struct limpet_description *description = &ahead->description;
	const uint8_t *data = (const uint8_t *)limpet_segment_chunk(ahead->segment, place->chunk) +
			      sizeof(struct limpet_chunk);

	if (committed > LIMPET_CHUNK_DATA_BYTES)
		committed = LIMPET_CHUNK_DATA_BYTES;
	while (place->offset + RECORD_BYTES <= committed) {
		uint32_t bytes, below;
		uint64_t head;

		limpet_shared_copy(&head, data + place->offset, sizeof(head));
		bytes = head & LIMPET_EVENT_WIDE ? WIDE_BYTES : RECORD_BYTES;
		if (LIMPET_EVENT_TYPE(head) == LIMPET_EVENT_STACK)
			bytes = limpet_description_read(data + place->offset,
							committed - place->offset, description);
		if (LIMPET_EVENT_TYPE(head) == LIMPET_EVENT_STACK && bytes) {
			below = limpet_description_below(description);
			if (below &&
			    limpet_stack_tree_find(ahead->tree, below) == LIMPET_STACK_UNSEEN)
				return false;
			(void)limpet_description_enter(description, ahead->tree, &place->base);
		}
		place->offset += bytes ? bytes : RECORD_BYTES;
	}
	return true;
}

/* Returns whether anything was read. */
static bool read_thread(struct limpet_look_ahead *ahead, uint32_t thread)
{
	const struct limpet_thread *entry = limpet_segment_thread(ahead->segment, thread);
	struct place *place = &ahead->places[thread];
	bool more = false;

	if (!place->chunk &&
	    !open_chunk(ahead, thread, __atomic_load_n(&entry->first_chunk, __ATOMIC_ACQUIRE), 0))
		return false;
	for (;;) {
		const struct limpet_chunk *chunk =
			limpet_segment_chunk(ahead->segment, place->chunk);
		/* Pairs with the agent's release of `next`, after which nothing is added here. */
		uint32_t next = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE);
		uint32_t committed = __atomic_load_n(&chunk->committed, __ATOMIC_ACQUIRE);
		uint32_t offset = place->offset;

		if (chunk->describes && !read_descriptions(ahead, place, committed))
			return more || place->offset != offset;
		more |= place->offset != offset;
		if (!open_chunk(ahead, thread, next, place->sequence + 1))
			return more;
		more = true;
	}
}

bool limpet_look_ahead_find(struct limpet_look_ahead *ahead, uint32_t number)
{
	const uint32_t threads = ahead->segment->layout.thread_count;
	bool more = ahead->in_vain < MOST_IN_VAIN;

	/* Repeated as long as anything was read: a description for which one stream waits may be in
	 * another. */
	while (more && ahead->budget) {
		ahead->budget--;
		more = false;
		for (uint32_t i = limpet_segment_next_used(ahead->segment, 0); i < threads;
		     i = limpet_segment_next_used(ahead->segment, i + 1)) {
			more |= read_thread(ahead, i);
			if (limpet_stack_tree_find(ahead->tree, number) != LIMPET_STACK_UNSEEN)
				return true;
		}
	}
	ahead->in_vain++;
	return false;
}
