/* Keeps a trace below a bound: gives up its oldest events for the newest.
 *
 * What is given up becomes a GAP in place; the inside of the GAP becomes a hole. While it is
 * written, the file therefore grows in length, but not in disk space; at the end it is compacted.
 * EVENTS, PERIOD and SUMS blocks can be given up, if they precede a SUMS block that stays.
 * Everything that stays is readable at any moment. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_RING_H
#define LIMPET_COLLECTOR_RECORD_TRACE_RING_H

#include <stddef.h>
#include <stdint.h>

struct limpet_trace_ring;

/* `fd` is borrowed: a new, empty file, locked by its writer. NULL and errno: EOPNOTSUPP if the file
 * system does not support holes, ENOMEM. */
struct limpet_trace_ring *limpet_trace_ring_new(int fd, uint64_t max_bytes);
void limpet_trace_ring_free(struct limpet_trace_ring *ring);

/* Records that a block was written at the end of the file. 0 or -ENOMEM. */
int limpet_trace_ring_wrote(struct limpet_trace_ring *ring, unsigned type, uint32_t sequence,
			    uint64_t bytes);
/* Call before `bytes` are written at the end. 0; -EFBIG: nothing is left to give up; or the error
 * of the file. */
int limpet_trace_ring_make_room(struct limpet_trace_ring *ring, uint64_t bytes);
/* Bytes between SUMS blocks: limits how much is given up at once. */
uint64_t limpet_trace_ring_step(uint64_t max_bytes);
/* Compacts the file and truncates it; does nothing if the file does not end where the last block
 * did. Returns its length, or -errno: then the file is as readable as before. */
int64_t limpet_trace_ring_squeeze(struct limpet_trace_ring *ring, uint64_t file_bytes);

#endif
