#include "collector/stream/chunk_reader.h"

#include <stdlib.h>

#include "collector/stream/chunk_decoder.h"
#include "common/wire.h"

#define CHUNKS_AT_ONCE 32u

/* State of reading a thread's chain of chunks. The positions are only in private memory. */
struct cursor {
	uint32_t chunk;     /* index, 0: none yet */
	uint64_t sequence;  /* of that chunk */
	bool broken;        /* its chain led to a chunk that is not the next one */
	uint32_t caught_up; /* the last pass in which all was read that there was */
};

struct limpet_chunk_reader {
	const struct limpet_segment
		*segment; /* has the layout; the one in the shared memory is hostile */
	struct limpet_chunk_decoder *decoder;
	struct limpet_look_ahead *ahead;
	struct limpet_reorder *reorder;
	uint32_t thread_count, chunk_count;
	struct cursor *cursors;
	uint32_t *unread; /* threads that have more than one chunk */
	uint32_t budget;  /* chunks that may still be opened: twice the number of chunks */
	uint64_t broken_chains;
	bool overloads; /* the agent may sample for lack of room */
	uint32_t pass;
	bool is_pass; /* in it, all threads were caught up with */
};

struct limpet_chunk_reader *limpet_chunk_reader_new(const struct limpet_segment *segment,
						    struct limpet_stack_tree *stacks,
						    struct limpet_look_ahead *ahead,
						    struct limpet_reorder *reorder,
						    const struct limpet_agent_clock *clock)
{
	struct limpet_chunk_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->segment = segment;
	reader->ahead = ahead;
	reader->reorder = reorder;
	reader->thread_count = segment->layout.thread_count;
	reader->chunk_count = segment->layout.chunk_count;
	reader->pass = 1;
	/* The target does not have the shared memory yet. */
	reader->overloads = segment->shm->overload_bytes != 0;
	reader->cursors = calloc(reader->thread_count, sizeof(*reader->cursors));
	reader->unread = calloc(reader->thread_count, sizeof(*reader->unread));
	reader->decoder = limpet_chunk_decoder_new(stacks, ahead, reorder, clock,
						   reader->thread_count, reader->overloads);
	if (reader->cursors && reader->unread && reader->decoder)
		return reader;
	limpet_chunk_reader_free(reader);
	return NULL;
}

void limpet_chunk_reader_free(struct limpet_chunk_reader *reader)
{
	if (!reader)
		return;
	limpet_chunk_decoder_free(reader->decoder);
	free(reader->unread);
	free(reader->cursors);
	free(reader);
}

void limpet_chunk_reader_begin(struct limpet_chunk_reader *reader)
{
	reader->budget = 2 * reader->chunk_count;
	limpet_look_ahead_begin(reader->ahead);
}

static struct limpet_chunk *chunk_at(const struct limpet_chunk_reader *reader, uint32_t index)
{
	return limpet_segment_chunk(reader->segment, index);
}

/* Gives a chunk back to the agent: pairs with the acquire in the agent's chunk_claim(). */
static void chunk_release(struct limpet_chunk_reader *reader, uint32_t index)
{
	uint64_t *map = limpet_segment_free_chunks(reader->segment);

	__atomic_fetch_or(&map[(index - 1) / 64], 1ull << ((index - 1) % 64), __ATOMIC_RELEASE);
}

static uint32_t next_used(const struct limpet_chunk_reader *reader, uint32_t from)
{
	return limpet_segment_next_used(reader->segment, from);
}

static void read_chunk(struct limpet_chunk_reader *reader, uint32_t thread, uint32_t committed)
{
	const struct limpet_chunk *chunk = chunk_at(reader, reader->cursors[thread].chunk);
	const struct limpet_numbered *list;
	const size_t count =
		limpet_chunk_decoder_decode(reader->decoder, thread, chunk, committed, &list);

	limpet_reorder_add(reader->reorder, list, count);
}

static bool open_chunk(struct limpet_chunk_reader *reader, uint32_t thread, uint32_t index,
		       uint64_t sequence)
{
	struct cursor *cursor = &reader->cursors[thread];
	const struct limpet_chunk *chunk = chunk_at(reader, index);

	if (!reader->budget)
		return false;
	reader->budget--;
	if (!limpet_segment_chunk_follows(chunk, thread, sequence)) {
		cursor->broken = true;
		reader->broken_chains++;
		return false;
	}
	cursor->chunk = index;
	cursor->sequence = sequence;
	limpet_chunk_decoder_open(reader->decoder, thread, chunk->tid);
	limpet_look_ahead_follow(reader->ahead, thread, index, sequence);
	return true;
}

/* Reads what the thread has published in its chunk; a full chunk goes back to the agent. Returns
 * whether there is another one. */
static bool read_thread(struct limpet_chunk_reader *reader, uint32_t thread)
{
	struct cursor *cursor = &reader->cursors[thread];
	struct limpet_thread *entry = limpet_segment_thread(reader->segment, thread);
	struct limpet_chunk *chunk;
	uint32_t next, old;

	if (cursor->broken)
		return false;
	if (!cursor->chunk) {
		uint32_t first = __atomic_load_n(&entry->first_chunk, __ATOMIC_ACQUIRE);

		if (!limpet_segment_has_chunk(reader->segment, first) ||
		    !open_chunk(reader, thread, first, 0))
			return false;
	}
	chunk = chunk_at(reader, cursor->chunk);
	/* Pairs with the agent's release of `next`, after which nothing is added here. */
	next = __atomic_load_n(&chunk->next, __ATOMIC_ACQUIRE);
	old = cursor->chunk;
	read_chunk(reader, thread, __atomic_load_n(&chunk->committed, __ATOMIC_ACQUIRE));
	if (!limpet_segment_has_chunk(reader->segment, next) ||
	    !open_chunk(reader, thread, next, cursor->sequence + 1))
		return false;
	chunk_release(reader, old);
	return true;
}

/* Whether there is another chunk to read. */
static bool read_on(struct limpet_chunk_reader *reader, uint32_t thread)
{
	const bool more = read_thread(reader, thread);

	if (!more)
		reader->cursors[thread].caught_up = reader->pass;
	return more;
}

/* Reads a chunk of each thread in turn, so that records for which those of one thread wait are read
 * soon after them. At most `rounds`: fast threads would keep the collector here forever. Returns
 * whether the rounds, or the budget, ended with more to read. */
static bool read_threads(struct limpet_chunk_reader *reader, uint32_t rounds)
{
	uint32_t count = 0;

	for (uint32_t i = next_used(reader, 0); i < reader->thread_count;
	     i = next_used(reader, i + 1)) {
		if (__atomic_load_n(&limpet_segment_thread(reader->segment, i)->thread_pointer,
				    __ATOMIC_ACQUIRE) &&
		    read_on(reader, i))
			reader->unread[count++] = i;
	}
	for (uint32_t round = 1; count && round < rounds; round++) {
		uint32_t left = 0;

		__atomic_fetch_add(&reader->segment->shm->beats, 1, __ATOMIC_RELAXED);
		for (uint32_t i = 0; i < count; i++)
			if (read_on(reader, reader->unread[i]))
				reader->unread[left++] = reader->unread[i];
		count = left;
	}
	limpet_reorder_flush(reader->reorder);
	reader->is_pass = reader->budget;
	for (uint32_t i = 0; i < count; i++)
		reader->is_pass &= reader->cursors[reader->unread[i]].caught_up == reader->pass;
	return count || !reader->budget;
}

bool limpet_chunk_reader_read(struct limpet_chunk_reader *reader)
{
	return read_threads(reader, CHUNKS_AT_ONCE);
}

void limpet_chunk_reader_read_all(struct limpet_chunk_reader *reader)
{
	(void)read_threads(reader, reader->chunk_count + 1);
}

void limpet_chunk_reader_end_thread(struct limpet_chunk_reader *reader, uint32_t thread)
{
	struct cursor *cursor = &reader->cursors[thread];

	while (read_thread(reader, thread))
		;
	limpet_reorder_flush(reader->reorder);
	if (cursor->chunk)
		chunk_release(reader, cursor->chunk);
	cursor->chunk = 0;
	cursor->broken = false;
	limpet_look_ahead_follow(reader->ahead, thread, LIMPET_CHUNK_NONE, 0);
	limpet_chunk_decoder_end(reader->decoder, thread);
}

void limpet_chunk_reader_announce_room(struct limpet_chunk_reader *reader)
{
	const uint64_t *map = limpet_segment_free_chunks(reader->segment);
	uint32_t free_chunks = 0;

	if (!reader->overloads)
		return;
	for (uint32_t i = 0; i < reader->chunk_count / 64; i++)
		free_chunks +=
			(uint32_t)__builtin_popcountll(__atomic_load_n(&map[i], __ATOMIC_RELAXED));
	__atomic_store_n(&reader->segment->shm->overload_below,
			 free_chunks / LIMPET_OVERLOAD_SHARE + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&reader->segment->shm->overload_room, 1, __ATOMIC_RELAXED);
}

bool limpet_chunk_reader_is_pass(const struct limpet_chunk_reader *reader)
{
	return reader->is_pass;
}

uint32_t limpet_chunk_reader_end_pass(struct limpet_chunk_reader *reader)
{
	reader->pass++;
	return limpet_chunk_decoder_skip_place(reader->decoder);
}

uint64_t limpet_chunk_reader_bad_records(const struct limpet_chunk_reader *reader)
{
	return limpet_chunk_decoder_bad_records(reader->decoder) + reader->broken_chains;
}

uint64_t limpet_chunk_reader_lost_stacks(const struct limpet_chunk_reader *reader,
					 enum limpet_lost_stacks why)
{
	return limpet_chunk_decoder_lost_stacks(reader->decoder, why);
}
