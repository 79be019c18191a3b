/* Held by shared memory. */
#include "planted.h"

#include <sys/mman.h>

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

void plant(void)
{
	void **shared =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		broken("mmap");
	for (int i = 0; i < 20; i++)
		shared[i * 6000] = make_object();
}
