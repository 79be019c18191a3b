#include <stddef.h>

struct region {
	char *chunk;
	size_t used;
};

void *region_alloc(struct region *region, size_t size);
size_t region_bytes(void);
