/* The functions of nameless_heap.c, as nameless.c calls them: through slots, like Rust. */
#ifndef LIMPET_TEST_TARGETS_NAMELESS_H
#define LIMPET_TEST_TARGETS_NAMELESS_H

#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern void *(*slot_malloc)(size_t size, size_t alignment)HIDDEN;
extern void *(*slot_zalloc)(size_t size, size_t alignment)HIDDEN;
extern void *(*slot_realloc)(void *block, size_t size, size_t alignment)HIDDEN;
extern void (*slot_free)(void *block) HIDDEN;
/* Tells of a block, and leaves it alone. */
extern size_t (*slot_usable)(const void *block) HIDDEN;
/* Of all blocks that are allocated. */
size_t heap_blocks(void) HIDDEN;

#endif
