/* Arrays that grow by zeros. */
#ifndef LIMPET_RECORDER_ZEROED_ARRAY_H
#define LIMPET_RECORDER_ZEROED_ARRAY_H

#include "common/array.h"

/* As limpet_reserve(); all items that are not yet in use are zero, also the new ones. */
static inline int limpet_reserve_zeroed(void *array, size_t *capacity, size_t want,
					size_t item_bytes)
{
	const size_t old = *capacity;
	uint8_t *items;

	if (want <= old)
		return 0;
	if (limpet_reserve(array, capacity, want, item_bytes) < 0)
		return -ENOMEM;
	memcpy(&items, array, sizeof(items));
	memset(items + old * item_bytes, 0, (*capacity - old) * item_bytes);
	return 0;
}

#endif
