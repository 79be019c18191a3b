/* Arrays for which there may be many items: by huge pages, so that touching them for the first time
 * takes little. */
#ifndef LIMPET_EXPLAIN_REACH_LARGE_ARRAY_H
#define LIMPET_EXPLAIN_REACH_LARGE_ARRAY_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LIMPET_LARGE_BYTES ((size_t)8 << 20)

static inline void limpet_large_advise(void *array, size_t bytes)
{
	const uintptr_t start = ((uintptr_t)array + 4095) & ~(uintptr_t)4095;
	const uintptr_t end = ((uintptr_t)array + bytes) & ~(uintptr_t)4095;

	if (bytes >= LIMPET_LARGE_BYTES)
		(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}
/* Of zeros, to be freed; NULL: no memory. */
static inline void *limpet_large_new(size_t count, size_t item_bytes)
{
	void *array = calloc(count, item_bytes);

	if (array)
		limpet_large_advise(array, count * item_bytes);
	return array;
}

#endif
