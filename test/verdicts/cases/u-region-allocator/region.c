/* A region allocator: takes chunks of 1 MiB from the kernel, hands out pieces, frees only whole
 * regions. */
#define _GNU_SOURCE
#include "region.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { CHUNK = 1 << 20 };

static size_t chunks;

static char *chunk_new(void)
{
	char *chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (chunk == MAP_FAILED)
		abort();
	chunks++;
	return chunk;
}

void *region_alloc(struct region *region, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	if (region->chunk == NULL || region->used + size > CHUNK) {
		region->chunk = chunk_new();
		region->used = 0;
	}
	region->used += size;
	return region->chunk + region->used - size;
}

size_t region_bytes(void)
{
	return chunks * CHUNK;
}
