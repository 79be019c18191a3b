/* Arrays that grow, and arrays that are sorted. */
#ifndef LIMPET_COMMON_ARRAY_H
#define LIMPET_COMMON_ARRAY_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `array` is the address of a pointer to malloc'ed items, or to NULL, with memory for *capacity
 * items. Makes room for at least `want` items. -ENOMEM: nothing is changed. */
static inline int limpet_reserve(void *array, size_t *capacity, size_t want, size_t item_bytes)
{
	size_t more = *capacity ? *capacity : 64;
	void *grown;

	if (want <= *capacity)
		return 0;
	while (more < want) {
		if (more > SIZE_MAX / 2)
			return -ENOMEM;
		more *= 2;
	}
	memcpy(&grown, array, sizeof(grown));
	grown = reallocarray(grown, more, item_bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	*capacity = more;
	return 0;
}

/* The same as limpet_reserve(), but items that are not yet in use are always zero. */
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

/* Keeps the first of each two items; returns how many. */
static inline size_t limpet_halve(void *array, size_t count, size_t item_bytes)
{
	uint8_t *items = array;

	for (size_t i = 1; 2 * i < count; i++)
		memcpy(items + i * item_bytes, items + 2 * i * item_bytes, item_bytes);
	return (count + 1) / 2;
}

/* For qsort(3): of uint64_t. */
static inline int limpet_compare_words(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* The first index of `count` for which `before`, an expression of `index`, does not hold; `count`
 * if it holds for all. It must hold for none after the first for which it does not:
 *
 *	size_t at = LIMPET_PARTITION_POINT(i, count, list[i].start < address);
 */
#define LIMPET_PARTITION_POINT(index, count, before)                                         \
	__extension__({                                                                      \
		size_t low_##index = 0, high_##index = (count);                              \
		while (low_##index < high_##index) {                                         \
			const size_t index = low_##index + (high_##index - low_##index) / 2; \
			if (before)                                                          \
				low_##index = index + 1;                                     \
			else                                                                 \
				high_##index = index;                                        \
		}                                                                            \
		(size_t) low_##index;                                                        \
	})

/* Of a list that is sorted by `field`, the entries in which it has this value: their number;
 * *ret_first is the first. The arguments are evaluated more than once. */
#define LIMPET_EQUAL_RANGE(list, count, field, value, ret_first)                         \
	__extension__({                                                                  \
		const size_t from_ =                                                     \
			LIMPET_PARTITION_POINT(i_, (count), (list)[i_].field < (value)); \
		size_t end_ = from_;                                                     \
		while (end_ < (count) && (list)[end_].field == (value))                  \
			end_++;                                                          \
		*(ret_first) = (list) ? &(list)[from_] : NULL;                           \
		end_ - from_;                                                            \
	})

#endif
