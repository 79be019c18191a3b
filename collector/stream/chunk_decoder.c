#include "collector/stream/chunk_decoder.h"

#include <stdlib.h>

#include "collector/stream/description.h"
#include "injector/remote/segment.h"

#define RECORD_WORDS 3u
#define RECORDS_PER_CHUNK (LIMPET_CHUNK_DATA_BYTES / (RECORD_WORDS * sizeof(uint64_t)))

/* The last event that was read in a chunk, if it is an allocation that the thread may still mark
 * LIMPET_EVENT_FREED. */
struct last_read {
	bool may_be_freed;
	uint32_t offset; /* of the record in the chunk */
	uint32_t number, time;
	uint64_t address, size;
};

/* State of decoding a thread's chunks. */
struct stream {
	uint32_t tid;
	uint32_t offset;                          /* bytes decoded of its chunk */
	uint64_t last_allocation;                 /* address; 0: freed, or unknown */
	struct limpet_description_base described; /* last in that chunk */
	struct last_read last;
};

struct limpet_chunk_decoder {
	struct limpet_stack_tree *stacks;
	struct limpet_look_ahead *ahead;
	const struct limpet_reorder *reorder;
	const struct limpet_agent_clock *clock;
	bool overloads;                        /* the agent may sample for lack of room */
	struct limpet_description description; /* the one that is being read */
	struct limpet_numbered decoded[RECORDS_PER_CHUNK + 1]; /* of the chunk that is being read */
	uint32_t place;                                        /* of the last record */
	uint64_t bad_records;
	uint64_t lost_stacks[LIMPET_LOST_STACKS]; /* events */
	uint32_t thread_count;
	struct stream streams[];
};

struct limpet_chunk_decoder *limpet_chunk_decoder_new(struct limpet_stack_tree *stacks,
						      struct limpet_look_ahead *ahead,
						      const struct limpet_reorder *reorder,
						      const struct limpet_agent_clock *clock,
						      uint32_t thread_count, bool overloads)
{
	struct limpet_chunk_decoder *decoder =
		calloc(1, sizeof(*decoder) + thread_count * sizeof(decoder->streams[0]));

	if (!decoder)
		return NULL;
	decoder->stacks = stacks;
	decoder->ahead = ahead;
	decoder->reorder = reorder;
	decoder->clock = clock;
	decoder->thread_count = thread_count;
	decoder->overloads = overloads;
	return decoder;
}

void limpet_chunk_decoder_free(struct limpet_chunk_decoder *decoder)
{
	free(decoder);
}

void limpet_chunk_decoder_open(struct limpet_chunk_decoder *decoder, uint32_t thread, uint32_t tid)
{
	struct stream *stream = &decoder->streams[thread];

	*stream = (struct stream){
		.tid = tid, .last_allocation = stream->tid == tid ? stream->last_allocation : 0};
}

void limpet_chunk_decoder_end(struct limpet_chunk_decoder *decoder, uint32_t thread)
{
	decoder->streams[thread].last_allocation = 0;
}

/* The rest of decode_record(), for records with flags and for other events. */
static bool decode_rare(const struct limpet_chunk_decoder *decoder, const uint64_t *words,
			struct limpet_record *ret)
{
	const uint32_t last = decoder->overloads ? LIMPET_EVENT_ROOM : LIMPET_EVENT_MUNMAP;
	const bool wide = words[0] & LIMPET_EVENT_WIDE, flag = words[0] & LIMPET_EVENT_SAMPLED;

	if (wide) {
		ret->size = words[2];
		ret->node = (uint32_t)words[3] & ~LIMPET_EVENT_REALLOC;
		ret->realloc = words[3] & LIMPET_EVENT_REALLOC;
	}
	ret->sampled = flag && ret->kind == LIMPET_EVENT_ALLOC;
	ret->if_reused = flag && ret->kind == LIMPET_EVENT_FREE;
	if (flag && !(ret->sampled && decoder->overloads) &&
	    !(ret->if_reused && limpet_agent_clock_has_ended(decoder->clock)))
		return false;
	if (ret->freed && (ret->kind != LIMPET_EVENT_ALLOC || ret->sampled || wide))
		return false;
	return (ret->kind >= LIMPET_EVENT_ALLOC && ret->kind <= last) ||
	       ret->kind == LIMPET_EVENT_VOID;
}

/* A record of 3 words, or 4 if it is wide. Returns whether there is such a record. */
static inline bool decode_record(const struct limpet_chunk_decoder *decoder, const uint64_t *words,
				 uint32_t tid, struct limpet_record *ret)
{
	const uint32_t type = LIMPET_EVENT_TYPE(words[0]);

	*ret = (struct limpet_record){.time = LIMPET_EVENT_TIME(words[0]),
				      .address = LIMPET_HIDDEN(words[1]),
				      .size = (uint32_t)words[2],
				      .node = (uint32_t)(words[2] >> 32) & ~LIMPET_EVENT_REALLOC,
				      .thread = tid,
				      .kind = (uint8_t)LIMPET_EVENT_KIND(words[0]),
				      .freed = type & LIMPET_EVENT_FREED,
				      .realloc = words[2] >> 63};
	return (type & ~LIMPET_EVENT_FREED) == LIMPET_EVENT_ALLOC || type == LIMPET_EVENT_FREE ||
	       decode_rare(decoder, words, ret);
}

/* To be called in the order of the thread's calls, which the counters do not keep. */
static inline void note_temporary(struct limpet_chunk_decoder *decoder, struct stream *stream,
				  struct limpet_record *record)
{
	switch (record->kind) {
	case LIMPET_EVENT_ALLOC:
		stream->last_allocation = record->freed ? 0 : record->address;
		break;
	case LIMPET_EVENT_FREE:
		if (stream->last_allocation != record->address)
			break;
		stream->last_allocation = 0;
		record->temporary = !record->realloc;
		break;
	case LIMPET_EVENT_OVERLOAD:
	case LIMPET_EVENT_ROOM:
		/* Unrecorded events may lie between an allocation and its free. */
		for (uint32_t i = 0; i < decoder->thread_count; i++)
			decoder->streams[i].last_allocation = 0;
		break;
	default:
		break;
	}
}

/* The node of a stack, by the agent's number; 0: unknown, which is counted. Number 0: the agent
 * could not describe the stack. */
static uint32_t find_stack(struct limpet_chunk_decoder *decoder, uint32_t number)
{
	uint32_t node;

	if (!number) {
		decoder->lost_stacks[LIMPET_LOST_BY_AGENT]++;
		return 0;
	}
	node = limpet_stack_tree_find(decoder->stacks, number);
	if (node == LIMPET_STACK_UNSEEN && limpet_look_ahead_find(decoder->ahead, number))
		node = limpet_stack_tree_find(decoder->stacks, number);
	if (node != LIMPET_STACK_UNSEEN && node != LIMPET_STACK_LOST)
		return node;
	decoder->lost_stacks[node == LIMPET_STACK_LOST ? LIMPET_LOST_NO_ROOM
						       : LIMPET_LOST_NOT_DESCRIBED]++;
	return 0;
}

/* Reads a description and returns its bytes; an invalid one is skipped. */
static uint32_t read_description(struct limpet_chunk_decoder *decoder, struct stream *stream,
				 const uint8_t *at, uint32_t bytes)
{
	struct limpet_description *description = &decoder->description;
	uint32_t taken = limpet_description_read(at, bytes, description), below;

	if (!taken) {
		decoder->bad_records++;
		return RECORD_WORDS * 8;
	}
	below = limpet_description_below(description);
	if (below && limpet_stack_tree_find(decoder->stacks, below) == LIMPET_STACK_UNSEEN)
		(void)limpet_look_ahead_find(decoder->ahead, below);
	if (!limpet_description_enter(description, decoder->stacks, &stream->described))
		decoder->bad_records++;
	return taken;
}

static inline void append_record(struct limpet_chunk_decoder *decoder, struct stream *stream,
				 uint32_t number, struct limpet_numbered *it)
{
	it->number = number;
	it->record.place = ++decoder->place;
	it->counter = it->record.kind <= LIMPET_EVENT_FREE
			      ? limpet_order_of_block(it->record.address)
			      : limpet_order_counter(it->record.kind, it->record.address);
	limpet_reorder_prefetch(decoder->reorder, it->counter);
	note_temporary(decoder, stream, &it->record);
}

/* The free of the block of the record that was read last, if the thread has marked that record
 * since. Only the mark is read again. Returns the number of records: 1 or 0. */
static size_t decode_mark(struct limpet_chunk_decoder *decoder, struct stream *stream,
			  const uint8_t *data, struct limpet_numbered *ret)
{
	struct last_read *last = &stream->last;
	uint64_t word;

	if (!last->may_be_freed)
		return 0;
	limpet_shared_copy(&word, data + last->offset, sizeof(word));
	if (!(word & LIMPET_EVENT_FREED))
		return 0;
	last->may_be_freed = false;
	ret->record = (struct limpet_record){.time = last->time,
					     .address = last->address,
					     .size = last->size,
					     .thread = stream->tid,
					     .kind = LIMPET_EVENT_FREE};
	append_record(decoder, stream, last->number + 1, ret);
	return 1;
}

static struct last_read last_read_of(const struct limpet_numbered *it, uint32_t offset)
{
	return (struct last_read){.may_be_freed = it->record.kind == LIMPET_EVENT_ALLOC &&
						  !it->record.freed && !it->record.sampled,
				  .offset = offset,
				  .number = it->number,
				  .time = it->record.time,
				  .address = it->record.address,
				  .size = it->record.size};
}

size_t limpet_chunk_decoder_decode(struct limpet_chunk_decoder *decoder, uint32_t thread,
				   const struct limpet_chunk *chunk, uint32_t committed,
				   const struct limpet_numbered **ret)
{
	struct stream *stream = &decoder->streams[thread];
	struct limpet_numbered *list = decoder->decoded;
	const uint8_t *data = (const uint8_t *)chunk + sizeof(struct limpet_chunk);
	const size_t marks = decode_mark(decoder, stream, data, list);
	uint64_t words[4];
	size_t count = marks;
	uint32_t at = stream->offset, last_at = 0;

	if (committed > LIMPET_CHUNK_DATA_BYTES)
		committed = LIMPET_CHUNK_DATA_BYTES;
	while (at + RECORD_WORDS * 8 <= committed) {
		struct limpet_numbered *it = &list[count];
		uint32_t bytes = RECORD_WORDS * 8;

		limpet_shared_copy(words, data + at, bytes);
		if (LIMPET_EVENT_TYPE(words[0]) == LIMPET_EVENT_STACK) {
			at += read_description(decoder, stream, data + at, committed - at);
			continue;
		}
		if (words[0] & LIMPET_EVENT_WIDE) {
			if (at + bytes + 8 > committed)
				break;
			limpet_shared_copy(&words[3], data + at + bytes, 8);
			bytes += 8;
		}
		at += bytes;
		if (!decode_record(decoder, words, stream->tid, &it->record)) {
			decoder->bad_records++;
			continue;
		}
		if ((it->record.kind == LIMPET_EVENT_ALLOC ||
		     it->record.kind == LIMPET_EVENT_MMAP) &&
		    !limpet_agent_clock_is_after_end(decoder->clock, it->record.time))
			it->record.node = find_stack(decoder, it->record.node);
		else
			it->record.node = 0;
		append_record(decoder, stream, LIMPET_EVENT_NUMBER(words[0]), it);
		last_at = at - bytes;
		count++;
	}
	stream->offset = at;
	if (count > marks)
		stream->last = last_read_of(&list[count - 1], last_at);
	*ret = list;
	return count;
}

uint32_t limpet_chunk_decoder_skip_place(struct limpet_chunk_decoder *decoder)
{
	return ++decoder->place;
}

uint64_t limpet_chunk_decoder_bad_records(const struct limpet_chunk_decoder *decoder)
{
	return decoder->bad_records;
}

uint64_t limpet_chunk_decoder_lost_stacks(const struct limpet_chunk_decoder *decoder,
					  enum limpet_lost_stacks why)
{
	return decoder->lost_stacks[why];
}
