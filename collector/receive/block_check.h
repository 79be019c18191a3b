/* Checks a streamed trace block by block, as it arrives: hostile input. A block is passed on only
 * if it is whole: its mark and its frame have the right checksums and lengths, and its number is
 * above those before. What a frame has inside is for readers of the trace. */
#ifndef LIMPET_COLLECTOR_RECEIVE_BLOCK_CHECK_H
#define LIMPET_COLLECTOR_RECEIVE_BLOCK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/err.h"
#include "common/trace_block.h"

/* Zero-initialised is the beginning of a stream. */
struct limpet_block_check {
	struct limpet_bytes block; /* of the current block, what arrived */
	struct limpet_trace_mark mark;
	bool has_mark;
	uint64_t expected; /* the least number that the next block may have */
	bool ended;        /* there was an END */
};

void limpet_block_check_done(struct limpet_block_check *check);

/* How many bytes of the current block are missing, as far as known: at least 1. */
size_t limpet_block_check_wants(const struct limpet_block_check *check);
/* Adds at most that many. 1: the block is whole, and to be passed on before the next call; 0: more
 * is wanted; -EBADMSG: it is no block of a trace, and `ret_why` says why; -EPROTONOSUPPORT, the
 * same; -ENOMEM. */
int limpet_block_check_add(struct limpet_block_check *check, const uint8_t *bytes, size_t count,
			   const char **ret_why) LIMPET_MUST_CHECK;
/* The block was passed on. */
void limpet_block_check_next(struct limpet_block_check *check);

/* COMM.PID.HOST, of the HEADER that is the current block. 0, -EBADMSG or -ENOMEM. */
#define LIMPET_BLOCK_STEM_BYTES 192
int limpet_block_check_stem(const struct limpet_block_check *check,
			    char ret_stem[LIMPET_BLOCK_STEM_BYTES]) LIMPET_MUST_CHECK;

#endif
