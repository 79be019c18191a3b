/* Reads the chunks that the target's threads publish in shared memory, hands their records on to
 * the reorder, and gives full chunks back to the agent.
 *
 * The shared memory is hostile: which thread owns which chunk, and how much of it was read, is kept
 * in private memory. One thread; never blocks. All that is passed to limpet_chunk_reader_new() must
 * outlive the reader. */
#ifndef LIMPET_COLLECTOR_STREAM_CHUNK_READER_H
#define LIMPET_COLLECTOR_STREAM_CHUNK_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/stream/agent_clock.h"
#include "collector/stream/look_ahead.h"
#include "collector/stream/lost_stacks.h"
#include "collector/stream/reorder.h"
#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "injector/remote/segment.h"

struct limpet_chunk_reader;

/* Call before the target has the shared memory. NULL: no memory. */
struct limpet_chunk_reader *limpet_chunk_reader_new(
	const struct limpet_segment *segment, struct limpet_stack_tree *stacks,
	struct limpet_look_ahead *ahead, struct limpet_reorder *reorder,
	const struct limpet_agent_clock *clock) LIMPET_MUST_CHECK;
void limpet_chunk_reader_free(struct limpet_chunk_reader *reader);

/* Call before chunks are read: until the next call, what a malicious target can cause is
 * bounded. */
void limpet_chunk_reader_begin(struct limpet_chunk_reader *reader);
/* Reads a limited number of chunks of each thread; returns whether there is more to read. */
bool limpet_chunk_reader_read(struct limpet_chunk_reader *reader);
/* Call when no thread writes any more: reads everything. */
void limpet_chunk_reader_read_all(struct limpet_chunk_reader *reader);
/* The thread has ended: reads the rest of what it has written, and frees its last chunk. */
void limpet_chunk_reader_end_thread(struct limpet_chunk_reader *reader, uint32_t thread);
/* Everything is read: an agent that samples for lack of room may stop. It starts again when most of
 * the chunks that are free now are taken; these may not be all chunks, since each thread keeps
 * one. */
void limpet_chunk_reader_announce_room(struct limpet_chunk_reader *reader);

/* Whether each thread was, at some moment since the last pass ended, read up to where it was. */
bool limpet_chunk_reader_is_pass(const struct limpet_chunk_reader *reader);
/* Ends the pass. See limpet_chunk_decoder_skip_place(). */
uint32_t limpet_chunk_reader_end_pass(struct limpet_chunk_reader *reader);

/* Records, descriptions and heads of chunks that made no sense. */
uint64_t limpet_chunk_reader_bad_records(const struct limpet_chunk_reader *reader);
/* Events whose stack was not found. */
uint64_t limpet_chunk_reader_lost_stacks(const struct limpet_chunk_reader *reader,
					 enum limpet_lost_stacks why);

#endif
