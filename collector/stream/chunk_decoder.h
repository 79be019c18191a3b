/* Decodes what a thread has written into a chunk: copies it out of the shared memory, which is
 * hostile, checks the copy, and makes records for the reorder of it. Descriptions go into the tree
 * of stacks, where each record finds the node of its stack.
 *
 * Private memory, one thread's: what else the decoder uses is the caller's, and outlives it. */
#ifndef LIMPET_COLLECTOR_STREAM_CHUNK_DECODER_H
#define LIMPET_COLLECTOR_STREAM_CHUNK_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/stream/agent_clock.h"
#include "collector/stream/look_ahead.h"
#include "collector/stream/lost_stacks.h"
#include "collector/stream/reorder.h"
#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "common/wire.h"

struct limpet_chunk_decoder;

/* `reorder`: to which the records will go. `overloads`: the agent may sample for lack of room.
 * NULL: no memory. */
struct limpet_chunk_decoder *limpet_chunk_decoder_new(struct limpet_stack_tree *stacks,
						      struct limpet_look_ahead *ahead,
						      const struct limpet_reorder *reorder,
						      const struct limpet_agent_clock *clock,
						      uint32_t thread_count,
						      bool overloads) LIMPET_MUST_CHECK;
void limpet_chunk_decoder_free(struct limpet_chunk_decoder *decoder);

/* The next chunk of a thread (its index, below thread_count) begins. */
void limpet_chunk_decoder_open(struct limpet_chunk_decoder *decoder, uint32_t thread, uint32_t tid);
/* Decodes what is new in that chunk, of which so many bytes are written. Returns the number of
 * records that are whole, at most one more than a chunk has; they are valid until the next call,
 * and in the order of the thread's calls. */
size_t limpet_chunk_decoder_decode(struct limpet_chunk_decoder *decoder, uint32_t thread,
				   const struct limpet_chunk *chunk, uint32_t committed,
				   const struct limpet_numbered **ret);
/* The thread has ended. */
void limpet_chunk_decoder_end(struct limpet_chunk_decoder *decoder, uint32_t thread);

/* A limpet_record.place after all so far, which no record gets. */
uint32_t limpet_chunk_decoder_skip_place(struct limpet_chunk_decoder *decoder);

/* Records and descriptions that made no sense. */
uint64_t limpet_chunk_decoder_bad_records(const struct limpet_chunk_decoder *decoder);
/* Events whose stack was not found. */
uint64_t limpet_chunk_decoder_lost_stacks(const struct limpet_chunk_decoder *decoder,
					  enum limpet_lost_stacks why);

#endif
