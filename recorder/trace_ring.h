/* Keeps a trace below a bound: gives up its oldest events for the newest.
 *
 * What is given up becomes a GAP in place, whose inside goes back to the file system (a hole). The
 * file therefore grows in length while it is written, not in what it takes from the disk; at the
 * end what is left moves together. EVENTS, PERIOD and SUMS blocks can be given up: those before a
 * SUMS block that stays. At no moment is anything that stays not readable. One thread. */
#ifndef LIMPET_RECORDER_TRACE_RING_H
#define LIMPET_RECORDER_TRACE_RING_H

#include <stddef.h>
#include <stdint.h>

struct limpet_trace_ring;

/* `fd` is borrowed: a new, empty file, locked by its writer. NULL and errno: EOPNOTSUPP where the
 * file system makes no holes, ENOMEM. */
struct limpet_trace_ring *limpet_trace_ring_new(int fd, uint64_t max_bytes);
void limpet_trace_ring_free(struct limpet_trace_ring *ring);

/* A block was written at the end of the file. 0 or -ENOMEM. */
int limpet_trace_ring_wrote(struct limpet_trace_ring *ring, unsigned type, uint32_t sequence,
			    uint64_t bytes);
/* Before so many bytes are written at the end. 0; -EFBIG: there is nothing left to give up; the
 * error of the file. */
int limpet_trace_ring_make_room(struct limpet_trace_ring *ring, uint64_t bytes);
/* Bytes between SUMS blocks, so that what is given up at once is not too much. */
uint64_t limpet_trace_ring_step(uint64_t max_bytes);
/* Moves what is left together, and cuts the file there; does nothing if the file does not end where
 * the last block did. Answers its length, or -errno: then it is as readable as before. */
int64_t limpet_trace_ring_squeeze(struct limpet_trace_ring *ring, uint64_t file_bytes);

#endif
