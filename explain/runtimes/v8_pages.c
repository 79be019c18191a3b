#include "explain/runtimes/v8_pages.h"

#include <stdbool.h>

#define PAGE ((uint64_t)4096)
#define HEAD_LIMIT_BYTES ((uint64_t)16 << 10)
#define LARGE_LIMIT_BYTES ((uint64_t)16 << 30)
/* IN_FROM_PAGE and IN_TO_PAGE of src/heap/memory-chunk.h. */
#define YOUNG_FLAGS ((uint64_t)0x18)

/* What every version has, though not in the same place. */
struct page {
	uint64_t size, flags, heap;
	uint64_t start, end; /* of the area for objects */
};

static uint64_t judge(uint64_t address, const struct page *page, const char **ret_owner)
{
	if (address % LIMPET_V8_PAGE_BYTES || page->size < LIMPET_V8_PAGE_BYTES ||
	    page->size % PAGE || page->size > LARGE_LIMIT_BYTES || !page->heap || page->heap % 8 ||
	    page->flags > UINT32_MAX)
		return 0;
	if (page->start <= address || page->start - address > HEAD_LIMIT_BYTES ||
	    page->end <= page->start || page->end > address + page->size ||
	    address + page->size - page->end > HEAD_LIMIT_BYTES)
		return 0;
	if (page->size > LIMPET_V8_PAGE_BYTES)
		*ret_owner = "V8: large objects";
	else
		*ret_owner =
			page->flags & YOUNG_FLAGS ? "V8: young generation" : "V8: old generation";
	return page->size;
}

/* node 18 and 20 (V8 10.2, 11.3): size, flags, heap, start, end. node 22 (12.4): flags, the page's
 * own address, size, heap, start, end. */
uint64_t limpet_v8_judge_head(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS],
			      const char **ret_owner)
{
	const struct page older = {.size = head[0],
				   .flags = head[1],
				   .heap = head[2],
				   .start = head[3],
				   .end = head[4]};
	const struct page newer = {.size = head[2],
				   .flags = head[0],
				   .heap = head[3],
				   .start = head[4],
				   .end = head[5]};

	return head[1] == address ? judge(address, &newer, ret_owner)
				  : judge(address, &older, ret_owner);
}

/* node 24 (13.6): virtual table, the page's address, size, three amounts, size, end, heap, start.
 */
uint64_t limpet_v8_judge_metadata(uint64_t address, uint64_t flags,
				  const uint64_t metadata[LIMPET_V8_METADATA_WORDS],
				  const char **ret_owner)
{
	const struct page page = {.size = metadata[2],
				  .flags = flags,
				  .heap = metadata[8],
				  .start = metadata[9],
				  .end = metadata[7]};

	return metadata[1] == address ? judge(address, &page, ret_owner) : 0;
}

uint64_t limpet_v8_page(const struct limpet_memory_reader *memory, uint64_t address,
			const char **ret_owner)
{
	uint64_t head[LIMPET_V8_HEAD_WORDS], metadata[LIMPET_V8_METADATA_WORDS], bytes;

	if (limpet_memory_reader_read(memory, address, head, sizeof(head)) < 0)
		return 0;
	bytes = limpet_v8_judge_head(address, head, ret_owner);
	if (bytes || head[0] > UINT32_MAX || !head[1] || head[1] % 8 ||
	    limpet_memory_reader_read(memory, head[1], metadata, sizeof(metadata)) < 0)
		return bytes;
	return limpet_v8_judge_metadata(address, head[0], metadata, ret_owner);
}
