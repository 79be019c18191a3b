/* A library with an allocator of its own inside. */
#ifndef LIMPET_TEST_TARGETS_BUNDLE_H
#define LIMPET_TEST_TARGETS_BUNDLE_H

#include <stddef.h>

void *bundle_new(size_t bytes);
void *bundle_resize(void *block, size_t bytes);
void bundle_delete(void *block);

#endif
