/* Held by a thread-local variable, while the thread lives. */
#include "planted.h"

struct cache {
	struct cache *next;
	char text[96];
};

static _Thread_local struct cache *cache;

PLANTED_FRAME static void fill_cache(void)
{
	for (int i = 0; i < 10; i++) {
		struct cache *entry = block(sizeof(*entry));

		entry->next = cache;
		cache = entry;
	}
	__asm__ volatile("" : : "r"(&cache) : "memory");
}

void plant(void)
{
	start_wiped_thread(fill_cache);
}
