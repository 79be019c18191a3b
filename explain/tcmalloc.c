#include "explain/tcmalloc.h"

#include "explain/page_map.h"

/* tcmalloc/pagemap.h, PageMap3 with addresses of 48 bits and pages of 8 KiB: a root of 2^11
 * pointers, in the program's data, to nodes of 2^12 pointers to leaves. A leaf covers 32 MiB: it
 * has the size class of each of its pages, of one byte or two, then for each page the address of
 * its span's structure, in newer releases with the size class in the highest 16 bits. */
#define PAGE_SHIFT 13u
#define LEAF_BITS 12u
#define LEAF_SHIFT (PAGE_SHIFT + LEAF_BITS)
#define LEAF_BYTES ((uint64_t)1 << LEAF_SHIFT)
#define NODE_BITS 12u
#define ROOT_SHIFT (LEAF_SHIFT + NODE_BITS)
#define ROOT_WORDS ((size_t)1 << (48 - ROOT_SHIFT))
#define NODE_WORDS ((size_t)1 << NODE_BITS)
#define LEAF_MASK (((uint64_t)1 << LEAF_BITS) - 1)
#define NODE_MASK ((uint64_t)NODE_WORDS - 1)
#define ADDRESS_MASK (((uint64_t)1 << 48) - 1)
/* tcmalloc/span.h: one of the structure's words begins with the number of the first page, of 35
 * bits. Which one differs between releases. */
#define SPAN_WORDS 6u
#define NUMBER_MASK (((uint64_t)1 << (48 - PAGE_SHIFT)) - 1)
#define SAMPLES_NEEDED 3u
#define SPANS_NEEDED 2u
#define SEARCH_READS ((uint64_t)512 << 10)
/* A word of the root covers 128 GiB: of its neighbours most are 0. */
#define NEIGHBOURS 8u
#define NEIGHBOURS_USED 4u
#define RANGES_LIMIT ((size_t)1 << 16)
#define TABLES_LIMIT 64u

void limpet_tcmalloc_done(struct limpet_tcmalloc *tcmalloc)
{
	limpet_heap_ranges_done(&tcmalloc->ranges);
	*tcmalloc = (struct limpet_tcmalloc){0};
}

/* ------------------------------------------------------------------ one page */

/* The structure of the span to which a page belongs, by its number; 0: none. */
static uint64_t span_of(const struct limpet_memory_reader *memory, uint64_t leaf,
			unsigned class_bytes, uint64_t number)
{
	const uint64_t at = leaf + (uint64_t)class_bytes * NODE_WORDS + 8 * (number & LEAF_MASK);
	uint64_t entry;

	return limpet_memory_reader_read_word(memory, at, &entry) ? entry & ADDRESS_MASK : 0;
}

/* The first page of a span is within the same leaf for all but the largest spans. */
static bool explains(const struct limpet_memory_reader *memory, uint64_t leaf, unsigned class_bytes,
		     uint64_t number, uint64_t *ret_span)
{
	const uint64_t span = span_of(memory, leaf, class_bytes, number);
	uint64_t words[SPAN_WORDS];

	if (!span || span % 8 || limpet_memory_reader_read(memory, span, words, sizeof(words)) < 0)
		return false;
	for (unsigned i = 0; i < SPAN_WORDS; i++) {
		const uint64_t first = words[i] & NUMBER_MASK;

		if (first > number || first >> LEAF_BITS != number >> LEAF_BITS ||
		    (first != number && span_of(memory, leaf, class_bytes, first) != span))
			continue;
		*ret_span = span;
		return true;
	}
	return false;
}

bool limpet_tcmalloc_explains(const struct limpet_memory_reader *memory, uint64_t node,
			      uint64_t address, uint64_t *ret_span)
{
	uint64_t leaf;

	if (!limpet_memory_reader_read_word(memory, node + 8 * (address >> LEAF_SHIFT & NODE_MASK),
					    &leaf) ||
	    !leaf || leaf % 8)
		return false;
	return explains(memory, leaf, 1, address >> PAGE_SHIFT, ret_span) ||
	       explains(memory, leaf, 2, address >> PAGE_SHIFT, ret_span);
}

/* ------------------------------------------------------------------ the root */

static bool may_be_table(const struct limpet_maps *maps, uint64_t address)
{
	const struct limpet_map *map;

	if (!address || address % 8)
		return false;
	map = limpet_proc_maps_find(maps, address);
	return map && limpet_map_is_anonymous(map) && map->perms[1] == 'w' && map->perms[3] == 'p';
}

/* How many samples, of at least two spans. */
static unsigned count_explained(const struct limpet_page_map_search *search, uint64_t node)
{
	uint64_t spans[LIMPET_SAMPLES];
	unsigned explained = 0, different = 0;

	for (size_t i = 0; i < search->samples->count; i++) {
		if (!limpet_tcmalloc_explains(search->memory, node, search->samples->list[i],
					      &spans[explained]))
			continue;
		different += !explained || spans[explained] != spans[explained - 1];
		explained++;
	}
	return different >= SPANS_NEEDED ? explained : 0;
}

static bool may_be_of_root(const struct limpet_page_map_search *search, const uint64_t *data,
			   size_t words, size_t at)
{
	const size_t from = at > NEIGHBOURS ? at - NEIGHBOURS : 0;
	unsigned used = 0;

	if (data[at] % 8)
		return false;
	for (size_t i = from; i < words && i <= at + NEIGHBOURS; i++)
		used += data[i] != 0;
	return used <= 1 + NEIGHBOURS_USED && may_be_table(search->maps, data[at]);
}

static const struct limpet_page_map_kind kind = {
	.root_bytes = 8 * ROOT_WORDS,
	.root_shift = ROOT_SHIFT,
	.least = SAMPLES_NEEDED,
	.reads = SEARCH_READS,
	.may_be_of_root = may_be_of_root,
	.explained = count_explained,
};

/* ------------------------------------------------------------------ all that it covers */

struct tree {
	struct limpet_page_map_reader reader;
	const struct limpet_maps *maps;
	struct limpet_tcmalloc *tcmalloc;
	uint64_t base; /* of what the node covers that is read */
	struct limpet_heap_range tables[TABLES_LIMIT];
	size_t table_count;
};

static int add_range(struct limpet_tcmalloc *tcmalloc, const struct limpet_heap_range *range)
{
	struct limpet_heap_ranges *ranges = &tcmalloc->ranges;
	struct limpet_heap_range *last = ranges->count ? &ranges->list[ranges->count - 1] : NULL;

	if (last && last->end == range->start && last->is_table == range->is_table) {
		last->end = range->end;
		return 0;
	}
	if (ranges->count >= RANGES_LIMIT) {
		tcmalloc->is_cut = true;
		return 0;
	}
	return limpet_heap_ranges_add(ranges, range->start, range->end, range->is_table);
}

/* The whole mapping: tcmalloc's arena for its own data, in a region of its own. */
static void note_table(struct tree *tree, uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(tree->maps, address);

	if (!map || map->start % LIMPET_TCMALLOC_ALIGN_BYTES ||
	    map->end % LIMPET_TCMALLOC_ALIGN_BYTES)
		return;
	for (size_t i = 0; i < tree->table_count; i++)
		if (tree->tables[i].start == map->start)
			return;
	if (tree->table_count < TABLES_LIMIT)
		tree->tables[tree->table_count++] = (struct limpet_heap_range){
			.start = map->start, .end = map->end, .is_table = true};
}

static int64_t visit_node(void *context, const uint64_t *leaves, size_t count, size_t first)
{
	struct tree *tree = context;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		const uint64_t start = tree->base + (first + i) * LEAF_BYTES;

		if (!may_be_table(tree->maps, leaves[i]))
			continue;
		note_table(tree, leaves[i]);
		error = add_range(
			tree->tcmalloc,
			&(struct limpet_heap_range){.start = start, .end = start + LEAF_BYTES});
	}
	return error;
}

static int64_t visit_root(void *context, const uint64_t *nodes, size_t count, size_t first)
{
	struct tree *tree = context;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		if (!may_be_table(tree->maps, nodes[i]))
			continue;
		note_table(tree, nodes[i]);
		tree->base = (uint64_t)(first + i) << ROOT_SHIFT;
		error = limpet_page_map_read(&tree->reader, nodes[i], NODE_WORDS, visit_node, tree);
	}
	return error;
}

/* In what the tree covers no table is expected: the former is sure. */
static int add_tables(struct tree *tree)
{
	const size_t covered = tree->tcmalloc->ranges.count;
	int error = 0;

	for (size_t i = 0; i < tree->table_count && !error; i++) {
		bool overlaps = false;

		for (size_t k = 0; k < covered; k++)
			overlaps |= tree->tables[i].start < tree->tcmalloc->ranges.list[k].end &&
				    tree->tcmalloc->ranges.list[k].start < tree->tables[i].end;
		if (!overlaps)
			error = add_range(tree->tcmalloc, &tree->tables[i]);
	}
	limpet_heap_ranges_sort(&tree->tcmalloc->ranges);
	return error;
}

int limpet_tcmalloc_read_tree(const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, uint64_t root,
			      struct limpet_tcmalloc *tcmalloc)
{
	bool missed = false;
	struct tree tree = {.reader = {memory, NULL, &tcmalloc->is_cut, &missed},
			    .maps = maps,
			    .tcmalloc = tcmalloc};
	int error = limpet_page_map_read(&tree.reader, root, ROOT_WORDS, visit_root, &tree);

	return error ? error : add_tables(&tree);
}

int limpet_tcmalloc_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			 struct limpet_pages *pages, const struct limpet_memory_ranges *ranges,
			 struct limpet_tcmalloc *tcmalloc)
{
	struct limpet_samples samples;
	const struct limpet_page_map_search search = {&kind, memory, maps, &samples, NULL};
	uint64_t root;
	int error;

	limpet_samples_choose(ranges, &samples);
	error = limpet_page_map_find(&search, pages, &root, &tcmalloc->is_cut);
	return error || !root ? error : limpet_tcmalloc_read_tree(memory, maps, root, tcmalloc);
}
