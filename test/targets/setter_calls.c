/* Variables that begin as malloc and free, and are set to other functions, as many libraries let
 * their users do; and calls of calloc and free, which are bound when they are first made. A part of
 * setter, and of its plugin, which sets them in its constructor. */
#include "test/targets/setter_calls.h"
#include "test/targets/target.h"

enum { OWN_BLOCKS = 64, OWN_BYTES = 256 };

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;
static char blocks[OWN_BLOCKS][OWN_BYTES];
static unsigned next;

static void *own_take(size_t bytes)
{
	if (bytes > OWN_BYTES)
		target_broken("%zu bytes", bytes);
	return blocks[next++ % OWN_BLOCKS];
}

static void own_give(void *block)
{
	if ((char *)block < blocks[0] || (char *)block >= blocks[OWN_BLOCKS])
		target_broken("%p is none of its own blocks", block);
}

__attribute__((constructor)) static void set(void)
{
	take = own_take;
	give = own_give;
}

TARGET_FRAME void setter_free(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *volatile block = calloc(1, 100);

		free(block);
	}
}

TARGET_FRAME void setter_take(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *block = take(100);

		TARGET_KEEP_FRAME();
		give(block);
	}
}
