/* A plugin that is bound to an allocator of its own (names_alias.c), though the program has
 * another. */
#include "test/targets/target.h"

void *deep_make(size_t bytes);
void *deep_grow(void *block, size_t bytes);
void deep_drop(void *block);

TARGET_FRAME void *deep_make(size_t bytes)
{
	void *block = malloc(bytes);

	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME void *deep_grow(void *block, size_t bytes)
{
	block = realloc(block, bytes);
	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME void deep_drop(void *block)
{
	free(block);
	TARGET_KEEP_FRAME();
}
