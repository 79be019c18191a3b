/* Held by memory that the program has mapped itself: an arena; shared, as `shared_memory`; a page
 * that was made read-only once it was filled, as `readonly_page`. */
#include "planted.h"

#include <sys/mman.h>

enum { ARENA_BYTES = 1 << 20 };

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

void plant(void)
{
	const int sharing = called("shared_memory") ? MAP_SHARED : MAP_PRIVATE;
	void **arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

	if (arena == MAP_FAILED)
		broken("mmap");
	for (int i = 0; i < 20; i++)
		arena[i * 6000] = make_object();
	if (called("readonly_page") && mprotect(arena, ARENA_BYTES, PROT_READ))
		broken("mprotect");
}
