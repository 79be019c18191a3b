#include "test/targets/bundle.h"

#include <stdlib.h>

#include "test/targets/target.h"

TARGET_FRAME void *bundle_new(size_t bytes)
{
	void *block = bytes % 2 ? malloc(bytes) : calloc(2, bytes / 2);

	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME void *bundle_resize(void *block, size_t bytes)
{
	block = realloc(block, bytes);
	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME void bundle_delete(void *block)
{
	free(block);
	TARGET_KEEP_FRAME();
}
