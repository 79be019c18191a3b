/* Recognizes pages of V8's heap: regions at multiples of 256 KiB with a head that says where they
 * are, how large, and to which part of the heap they belong. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_PAGES_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_PAGES_H

#include <stdint.h>

#include "injector/proc/memory_reader.h"

#define LIMPET_V8_PAGE_BYTES ((uint64_t)256 << 10)

/* The page at this address, a multiple of LIMPET_V8_PAGE_BYTES: returns its bytes, which may be
 * more for one large object; 0: there is none. *ret_owner: a static text for the part of the heap.
 */
uint64_t limpet_v8_page(const struct limpet_memory_reader *memory, uint64_t address,
			const char **ret_owner);

/* The same, judged by copies; public for tests. Up to V8 13.0 the head says everything; later ones
 * have flags and the address of metadata elsewhere. */
#define LIMPET_V8_HEAD_WORDS 6u
uint64_t limpet_v8_judge_head(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS],
			      const char **ret_owner);
#define LIMPET_V8_METADATA_WORDS 10u
uint64_t limpet_v8_judge_metadata(uint64_t address, uint64_t flags,
				  const uint64_t metadata[LIMPET_V8_METADATA_WORDS],
				  const char **ret_owner);

#endif
