/* Held by a page that was made read-only once it was filled. */
#include "planted.h"

#include <sys/mman.h>

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

void plant(void)
{
	void **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		broken("mmap");
	for (int i = 0; i < 20; i++)
		page[i] = make_object();
	if (mprotect(page, 4096, PROT_READ))
		broken("mprotect");
}
