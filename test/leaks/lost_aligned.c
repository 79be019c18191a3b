/* Aligned blocks, half of them lost; also larger than the threshold of mmap. */
#include "planted.h"

#include <stdlib.h>

void *kept_pages[10];

PLANTED_FRAME static void *make_page(size_t bytes)
{
	void *page;

	if (posix_memalign(&page, 4096, bytes))
		broken("posix_memalign");
	__asm__ volatile("" : : "r"(page) : "memory");
	for (size_t i = 0; i < bytes / sizeof(void *); i++)
		((void **)page)[i] = NULL;
	return page;
}

void plant(void)
{
	for (int i = 0; i < 10; i++) {
		kept_pages[i] = make_page(i < 9 ? 4088 : 262144);
		make_page(i < 9 ? 4088 : 262144);
	}
}
