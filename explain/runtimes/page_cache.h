/* Reads memory by whole pages, and keeps them for a moment: objects that refer to each other often
 * lie on few pages. What is kept is one reading: to read again, forget it first. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_PAGE_CACHE_H
#define LIMPET_EXPLAIN_RUNTIMES_PAGE_CACHE_H

#include <stdint.h>

#include "injector/proc/memory_reader.h"

#define LIMPET_PAGE_CACHE_PAGES 64u
#define LIMPET_PAGE_CACHE_BYTES 4096u
struct limpet_page_cache {
	struct limpet_memory_reader reader;
	const struct limpet_memory_reader *of;
	uint64_t pages[LIMPET_PAGE_CACHE_PAGES]; /* addresses; 0: none */
	uint8_t bytes[LIMPET_PAGE_CACHE_PAGES][LIMPET_PAGE_CACHE_BYTES];
};

/* `of` must outlive it. */
void limpet_page_cache_init(struct limpet_page_cache *cache, const struct limpet_memory_reader *of);
void limpet_page_cache_forget(struct limpet_page_cache *cache);

#endif
