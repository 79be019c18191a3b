/* A module that comes late and may go again: see loader.c. */
#include <stdlib.h>
#include <string.h>

void **plugin_allocate(unsigned count, size_t bytes);
void plugin_free(void **blocks, unsigned count);

/* The array of `count` blocks is an allocation too, made by the same function. */
__attribute__((noinline, visibility("default"))) void **plugin_allocate(unsigned count,
									size_t bytes)
{
	void **blocks = malloc(count * sizeof(*blocks));

	for (unsigned i = 0; blocks && i < count; i++) {
		blocks[i] = malloc(bytes);
		if (blocks[i])
			memset(blocks[i], 0x33, bytes);
	}
	return blocks;
}

__attribute__((noinline, visibility("default"))) void plugin_free(void **blocks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
}
