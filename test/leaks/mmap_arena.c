/* Held by an arena that the program has mapped itself. */
#include "planted.h"

#include <sys/mman.h>

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

void plant(void)
{
	void **arena =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (arena == MAP_FAILED)
		broken("mmap");
	for (int i = 0; i < 20; i++)
		arena[i * 6000] = make_object();
}
