/* Whether the kernel may have lost records of a ring without having said so: it tells what it lost
 * only with the next record that has room, and there may be none. Pure. */
#ifndef LIMPET_COLLECTOR_PAGES_RING_ROOM_H
#define LIMPET_COLLECTOR_PAGES_RING_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as all zeros. */
struct limpet_ring_room {
	bool was_full;
	uint64_t full_at; /* where the next record begins, if one came */
};

/* The ring of `bytes` bytes was read up to `tail` until now, when the kernel has written up to
 * `head`: a record of `most_bytes` may have found no room meanwhile. */
static inline void limpet_ring_room_check(struct limpet_ring_room *room, uint64_t bytes,
					  uint64_t most_bytes, uint64_t tail, uint64_t head)
{
	/* The kernel leaves a byte free. */
	if (head - tail + most_bytes < bytes)
		return;
	room->was_full = true;
	room->full_at = head;
}

/* Whether something may be untold, once all is read up to `at`: a record that came afterwards would
 * have told. */
static inline bool limpet_ring_room_is_unsure(const struct limpet_ring_room *room, uint64_t at)
{
	return room->was_full && at <= room->full_at;
}

#endif
