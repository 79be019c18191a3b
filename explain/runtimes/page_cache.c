#include "explain/runtimes/page_cache.h"

#include <string.h>

/* A longer text, as a script's text, is read past the cache. */
#define CACHED_BYTES 1024u

static int find_page(struct limpet_page_cache *cache, uint64_t page, const uint8_t **ret)
{
	const uint64_t at = (page / LIMPET_PAGE_CACHE_BYTES ^ page >> 18) % LIMPET_PAGE_CACHE_PAGES;
	int error;

	*ret = cache->bytes[at];
	if (cache->pages[at] == page)
		return 0;
	cache->pages[at] = 0;
	error = limpet_memory_reader_read(cache->of, page, cache->bytes[at],
					  LIMPET_PAGE_CACHE_BYTES);
	if (!error)
		cache->pages[at] = page;
	return error;
}

static int read_cached(void *context, uint64_t address, void *ret, size_t bytes)
{
	struct limpet_page_cache *cache = context;
	size_t done = 0;

	if (bytes > CACHED_BYTES || address < LIMPET_PAGE_CACHE_BYTES ||
	    address > UINT64_MAX - bytes)
		return limpet_memory_reader_read(cache->of, address, ret, bytes);
	while (done < bytes) {
		const uint64_t at = address + done, offset = at % LIMPET_PAGE_CACHE_BYTES;
		const size_t left = LIMPET_PAGE_CACHE_BYTES - offset;
		const size_t some = left < bytes - done ? left : bytes - done;
		const uint8_t *page;
		int error = find_page(cache, at - offset, &page);

		if (error)
			return error;
		memcpy((uint8_t *)ret + done, page + offset, some);
		done += some;
	}
	return 0;
}

static bool is_spent(void *context)
{
	const struct limpet_page_cache *cache = context;

	return limpet_memory_reader_is_spent(cache->of);
}

void limpet_page_cache_init(struct limpet_page_cache *cache, const struct limpet_memory_reader *of)
{
	cache->reader = (struct limpet_memory_reader){read_cached, is_spent, cache};
	cache->of = of;
	limpet_page_cache_forget(cache);
}

void limpet_page_cache_forget(struct limpet_page_cache *cache)
{
	memset(cache->pages, 0, sizeof(cache->pages));
}
