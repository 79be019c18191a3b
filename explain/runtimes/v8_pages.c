#include "explain/runtimes/v8_pages.h"

#include "common/err.h"

#define PAGE ((uint64_t)4096)
#define HEAD_LIMIT_BYTES ((uint64_t)16 << 10)
#define LARGE_LIMIT_BYTES ((uint64_t)16 << 30)
#define OWNER_WORDS 24u
#define SPACES_LIMIT 32u

/* ------------------------------------------------------------------ what is a page */

static bool is_area(const struct limpet_v8_page *page)
{
	const uint64_t address = page->address;

	return page->flags <= UINT32_MAX && page->start > address &&
	       page->start - address <= HEAD_LIMIT_BYTES && page->end > page->start &&
	       page->end <= address + page->bytes &&
	       address + page->bytes - page->end <= HEAD_LIMIT_BYTES;
}

/* Pages that come with the program are cut to what they hold. */
static bool judge(const struct limpet_v8_page *page, struct limpet_v8_page *ret)
{
	if (page->address % LIMPET_V8_PAGE_BYTES || page->bytes < 2 * PAGE || page->bytes % PAGE ||
	    page->bytes > LARGE_LIMIT_BYTES || page->heap % 8 || !is_area(page))
		return false;
	*ret = *page;
	return true;
}

/* node 18 and 20 (V8 10.2, 11.3): size, flags, heap, start, end, allocated. */
static struct limpet_v8_page older(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS])
{
	return (struct limpet_v8_page){.address = address,
				       .bytes = head[0],
				       .flags = head[1],
				       .heap = head[2],
				       .start = head[3],
				       .end = head[4],
				       .allocated_bytes = head[5],
				       .head = address};
}

/* node 22 (12.4): flags, the page's own address, size, heap, start, end, allocated. */
static struct limpet_v8_page newer(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS])
{
	return (struct limpet_v8_page){.address = address,
				       .bytes = head[2],
				       .flags = head[0],
				       .heap = head[3],
				       .start = head[4],
				       .end = head[5],
				       .allocated_bytes = head[6],
				       .head = address};
}

bool limpet_v8_judge_head(uint64_t address, const uint64_t head[LIMPET_V8_HEAD_WORDS],
			  struct limpet_v8_page *ret)
{
	const struct limpet_v8_page page =
		head[1] == address ? newer(address, head) : older(address, head);

	return judge(&page, ret);
}

/* node 24 (13.6): virtual table, the page's address, size, allocated, wasted, the highest that was
 * ever in use, size, end, heap, start. The first three are 0 if it belongs to no heap. */
bool limpet_v8_judge_metadata(uint64_t address, uint64_t flags,
			      const uint64_t metadata[LIMPET_V8_METADATA_WORDS],
			      struct limpet_v8_page *ret)
{
	const struct limpet_v8_page page = {.address = address,
					    .bytes = metadata[6],
					    .flags = flags,
					    .heap = metadata[8],
					    .start = metadata[9],
					    .end = metadata[7],
					    .allocated_bytes = metadata[3]};

	return metadata[1] == (page.heap ? address : 0) && judge(&page, ret);
}

/* The word there, without the tag of an object; 0: it has none. */
static uint64_t follow(const struct limpet_memory_reader *memory, uint64_t address)
{
	uint64_t word;

	return address && limpet_memory_reader_read_word(memory, address, &word) && (word & 7) == 1
		       ? word - 1
		       : 0;
}

/* A page that belongs to no heap has less of a head. Its first object has a map; the map of that
 * map is its own. */
static bool begins_with_object(const struct limpet_memory_reader *memory,
			       const struct limpet_v8_page *page)
{
	const uint64_t meta = follow(memory, follow(memory, page->start));

	return meta && follow(memory, meta) == meta;
}

static bool read_page(const struct limpet_memory_reader *memory, uint64_t address,
		      struct limpet_v8_page *ret)
{
	uint64_t head[LIMPET_V8_HEAD_WORDS], metadata[LIMPET_V8_METADATA_WORDS];

	if (limpet_memory_reader_read(memory, address, head, sizeof(head)) < 0)
		return false;
	if (limpet_v8_judge_head(address, head, ret))
		return true;
	if (head[0] > UINT32_MAX || !head[1] || head[1] % 8 ||
	    limpet_memory_reader_read(memory, head[1], metadata, sizeof(metadata)) < 0 ||
	    !limpet_v8_judge_metadata(address, head[0], metadata, ret))
		return false;
	ret->head = head[1];
	return true;
}

bool limpet_v8_page_read(const struct limpet_memory_reader *memory, uint64_t address,
			 struct limpet_v8_page *ret)
{
	struct limpet_v8_page page;

	if (!read_page(memory, address, &page) ||
	    (!page.heap && !begins_with_object(memory, &page)))
		return false;
	*ret = page;
	return true;
}

/* ------------------------------------------------------------------ what owns it */

/* src/heap/base-space.h: virtual table, heap, number, committed bytes. */
bool limpet_v8_page_space(const struct limpet_memory_reader *memory,
			  const struct limpet_v8_page *page, struct limpet_v8_space *ret)
{
	uint64_t head[OWNER_WORDS], space[4];

	if (!page->heap ||
	    limpet_memory_reader_read(memory, page->head, head, sizeof(head)) < 0)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(head); i++) {
		const uint64_t at = head[i];

		if (!at || at % 8 || at - page->address < page->bytes || at == page->heap ||
		    limpet_memory_reader_read(memory, at, space, sizeof(space)) < 0)
			continue;
		if (space[1] != page->heap || (uint32_t)space[2] >= SPACES_LIMIT || !space[0] ||
		    space[3] < page->bytes || space[3] % PAGE)
			continue;
		ret->address = at;
		ret->id = (uint32_t)space[2];
		return true;
	}
	return false;
}
