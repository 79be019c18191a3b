/* Recognizes pages of V8's heap: regions at multiples of 256 KiB with a head that says where they
 * are, how large, and to which heap they belong. The head leads to the space that owns the page,
 * which has a number. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_PAGES_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "injector/proc/memory_reader.h"

#define LIMPET_V8_PAGE_BYTES ((uint64_t)256 << 10)
/* src/heap/memory-chunk.h: IN_FROM_PAGE and IN_TO_PAGE. The former hold nothing between two
 * collections. */
#define LIMPET_V8_FLAG_FROM ((uint64_t)0x8)
#define LIMPET_V8_FLAG_TO ((uint64_t)0x10)
#define LIMPET_V8_FLAGS_YOUNG (LIMPET_V8_FLAG_FROM | LIMPET_V8_FLAG_TO)

struct limpet_v8_page {
	uint64_t address, bytes; /* the latter more than a page for one large object */
	uint64_t flags;
	uint64_t heap;       /* of its isolate; 0: of objects that are never written, and shared */
	uint64_t start, end; /* the area for objects */
	uint64_t allocated_bytes; /* of it, as of the last sweep */
	uint64_t head;            /* the address of the words that say all this */
};

/* What owns pages. */
struct limpet_v8_space {
	uint64_t address; /* of the object; 0: not found */
	uint32_t id;      /* src/common/globals.h: enum AllocationSpace */
};

/* The page at this address, a multiple of LIMPET_V8_PAGE_BYTES. False: there is none. */
bool limpet_v8_page_read(const struct limpet_memory_reader *memory, uint64_t address,
			 struct limpet_v8_page *ret);
/* The space that owns it: a word of the head leads to an object that leads to the heap. */
bool limpet_v8_page_space(const struct limpet_memory_reader *memory,
			  const struct limpet_v8_page *page, struct limpet_v8_space *ret);
static inline bool limpet_v8_page_is_large(const struct limpet_v8_page *page)
{
	return page->bytes > LIMPET_V8_PAGE_BYTES;
}

/* The same as limpet_v8_page_read(), judged by copies; public for tests. Up to V8 13.0 the head
 * says everything; later ones have flags and the address of metadata elsewhere. */
#define LIMPET_V8_HEAD_WORDS 7u
bool limpet_v8_judge_head(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS],
			  struct limpet_v8_page *ret);
#define LIMPET_V8_METADATA_WORDS 10u
bool limpet_v8_judge_metadata(uint64_t address, uint64_t flags,
			      const uint64_t metadata[LIMPET_V8_METADATA_WORDS],
			      struct limpet_v8_page *ret);

#endif
