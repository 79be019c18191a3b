#include "explain/jemalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/page_map.h"

/* include/jemalloc/internal/rtree.h with addresses of 48 bits and pages of 4 KiB: a root of 2^18
 * pointers, one for each GiB, to leaves of 2^18 entries, one for each page. Entry: size class in
 * the highest 16 bits, address of the extent's structure, a multiple of 128, flags. The flags
 * repeat what the structure says; up to 5.2 there is only the first of them, and the structure's
 * bits are elsewhere. */
#define PAGE ((uint64_t)4096)
#define LEVEL_BITS 18u
#define LEVEL_WORDS ((size_t)1 << LEVEL_BITS)
#define LEVEL_MASK ((uint64_t)LEVEL_WORDS - 1)
#define ROOT_BYTES ((uint64_t)8 << LEVEL_BITS)
#define LEAF_SHIFT 30u
#define ENTRY_FLAGS ((uint64_t)127)
#define ENTRY_SLAB ((uint64_t)1)
#define ENTRY_HEAD ((uint64_t)2)
#define ENTRY_STATE_SHIFT 2u
#define ENTRY_CLASS_SHIFT 48u
/* Some entry has one of these: memory from the system begins with a head. */
#define ENTRY_NEW_FLAGS (ENTRY_HEAD | BITS_STATE_MASK << ENTRY_STATE_SHIFT)
/* edata.h: the first words are bits, address, and size with a serial number in its low bits. */
#define BITS_SLAB ((uint64_t)1 << 12)
#define BITS_STATE_SHIFT 17u
#define BITS_STATE_MASK ((uint64_t)7)
#define BITS_CLASS_SHIFT 20u
#define BITS_CLASS_MASK ((uint64_t)255)
#define BITS_FREE_SHIFT 28u
#define BITS_FREE_MASK ((uint64_t)1023)
#define BITS_HEAD_SHIFT 44u
#define CLASS_NONE 232u
enum { STATE_ACTIVE = 0, STATE_RETAINED = 3 };
#define EXTENT_LIMIT_BYTES ((uint64_t)1 << 40)
#define EXTENTS_LIMIT ((size_t)8 << 20)
/* How the root is found: it explains most of these pages, and the best one is taken. Of those with
 * which mappings begin it has to explain one at least: there extents begin, which have an entry
 * there. */
#define SAMPLES_NEEDED 3u
#define SAMPLES_FIRST 4u
#define BACKWARDS 16u /* 32 MiB */
#define SEARCH_READS ((uint64_t)512 << 10)
#define NEIGHBOURS 8u
#define ENTRIES_AT_ONCE 512u /* a page of them */
#define TRIED_LEAST 1024u    /* before a tree is given up */
#define TRIES 3u             /* of an entry whose extent is changing */
#define USER_BITS 47         /* of an address of a process */
/* One leaf covers a GiB. */
#define LEAF_SLOTS ((size_t)1 << 17)

void limpet_jemalloc_done(struct limpet_jemalloc *jemalloc)
{
	free(jemalloc->list);
	*jemalloc = (struct limpet_jemalloc){0};
}

const struct limpet_jemalloc_extent *limpet_jemalloc_find(const struct limpet_jemalloc *jemalloc,
							  uint64_t address)
{
	const struct limpet_jemalloc_extent *list = jemalloc->list;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, jemalloc->count, list[i].start <= address);

	return above && address < list[above - 1].end ? &list[above - 1] : NULL;
}

/* ------------------------------------------------------------------ one entry */

uint64_t limpet_jemalloc_extent_address(uint64_t entry)
{
	return (uint64_t)((int64_t)(entry << 16) >> 16) & ~ENTRY_FLAGS;
}

/* sc.h: 8 bytes, multiples of 16 up to 128, then four classes for each power of two. */
static uint64_t class_bytes(uint64_t class)
{
	uint64_t group, base;

	if (class <= 8)
		return class ? 16 * class : 8;
	group = (class - 9) / 4;
	base = (uint64_t)128 << group;
	return base + ((class - 9) % 4 + 1) * (base / 4);
}

/* In the midst of a slab no entry says that it is a head. The size class and whether it is a slab
 * are kept in step only in entries of blocks' first pages and of slabs. */
static bool agree(uint64_t entry, uint64_t bits, bool is_first)
{
	const uint64_t state = bits >> BITS_STATE_SHIFT & BITS_STATE_MASK;
	const uint64_t class = bits >> BITS_CLASS_SHIFT & BITS_CLASS_MASK;
	const bool is_slab = entry & ENTRY_SLAB, is_head = entry & ENTRY_HEAD;

	if (state != (entry >> ENTRY_STATE_SHIFT & BITS_STATE_MASK))
		return false;
	if (is_head != (bits >> BITS_HEAD_SHIFT & 1) && (is_head || is_first || !is_slab))
		return false;
	if (state != STATE_ACTIVE || (!is_first && !(bits & BITS_SLAB)))
		return true;
	return class == CLASS_NONE ||
	       (class == entry >> ENTRY_CLASS_SHIFT && is_slab == !!(bits & BITS_SLAB));
}

bool limpet_jemalloc_judge(uint64_t entry, uint64_t page,
			   const uint64_t words[LIMPET_JEMALLOC_WORDS],
			   struct limpet_jemalloc_extent *ret_extent)
{
	const uint64_t bits = words[0], start = words[1] & ~(PAGE - 1),
		       bytes = words[2] & ~(PAGE - 1);
	const uint64_t state = bits >> BITS_STATE_SHIFT & BITS_STATE_MASK;
	const uint64_t class = bits >> BITS_CLASS_SHIFT & BITS_CLASS_MASK;
	uint64_t free_bytes = 0, block_bytes = class_bytes(class);
	uint32_t blocks = 1;

	if (!start || !bytes || bytes > EXTENT_LIMIT_BYTES || start > UINT64_MAX - bytes ||
	    page < start || page - start >= bytes || state > STATE_RETAINED ||
	    !agree(entry, bits, page == start))
		return false;
	if (state == STATE_ACTIVE && bits & BITS_SLAB) {
		if (class > 40)
			return false;
		free_bytes = (bits >> BITS_FREE_SHIFT & BITS_FREE_MASK) * class_bytes(class);
		if (free_bytes > bytes)
			return false;
		blocks = (uint32_t)((bytes - free_bytes) / block_bytes);
	}
	/* A large block has an extent of its own, which may be a page longer. */
	if (state != STATE_ACTIVE || class != entry >> ENTRY_CLASS_SHIFT || block_bytes > bytes)
		block_bytes = blocks = 0;
	*ret_extent = (struct limpet_jemalloc_extent){.start = start,
						      .end = start + bytes,
						      .in_use = state == STATE_ACTIVE,
						      .retained = state == STATE_RETAINED,
						      .free_bytes = free_bytes,
						      .block_bytes = block_bytes,
						      .blocks = blocks};
	return true;
}

/* An entry of a page, and where it is. */
struct place {
	uint64_t entry, page, address;
};

/* 0; 1: it leads to none; -ETIME. */
static int read_words(const struct limpet_memory_reader *memory, const struct place *place,
		      struct limpet_jemalloc_extent *ret_extent)
{
	uint64_t words[LIMPET_JEMALLOC_WORDS];
	const uint64_t address = limpet_jemalloc_extent_address(place->entry);
	int error = address ? limpet_memory_reader_read(memory, address, words, sizeof(words)) : 1;

	if (error)
		return error == -ETIME ? error : 1;
	return !limpet_jemalloc_judge(place->entry, place->page, words, ret_extent);
}

/* Again if the entry has changed since it was read: the program runs. */
static int read_extent(const struct limpet_memory_reader *memory, const struct place *place,
		       struct limpet_jemalloc_extent *ret_extent)
{
	struct place again = *place;
	int result = read_words(memory, place, ret_extent);

	if (result != 1 ||
	    limpet_memory_reader_read(memory, place->address, &again.entry, sizeof(again.entry)) ||
	    again.entry == place->entry)
		return result;
	return read_words(memory, &again, ret_extent);
}

/* ------------------------------------------------------------------ the root */

static bool is_of(const struct limpet_memory_reader *memory, const struct place *place,
		  uint64_t page)
{
	struct limpet_jemalloc_extent extent;

	return place->entry && read_extent(memory, place, &extent) == 0 && page >= extent.start &&
	       page < extent.end;
}

/* Whether the leaf has an entry for this page, of an extent that contains it. */
static bool explains(const struct limpet_memory_reader *memory, uint64_t leaf, uint64_t page)
{
	struct place place = {.page = page, .address = leaf + 8 * (page / PAGE & LEVEL_MASK)};

	return limpet_memory_reader_read(memory, place.address, &place.entry,
					 sizeof(place.entry)) == 0 &&
	       is_of(memory, &place, page);
}

/* The same for a page in the midst of an extent that is no slab: the last entry before counts. */
static bool explains_midst(const struct limpet_memory_reader *memory, uint64_t leaf, uint64_t page)
{
	const uint64_t base = page >> LEAF_SHIFT << LEAF_SHIFT;
	uint64_t entries[ENTRIES_AT_ONCE];
	size_t end = (page / PAGE & LEVEL_MASK) + 1;

	for (unsigned tries = 0; end && tries < BACKWARDS; tries++) {
		const size_t count = end < ENTRIES_AT_ONCE ? end : ENTRIES_AT_ONCE;

		end -= count;
		if (limpet_memory_reader_read(memory, leaf + 8 * end, entries, 8 * count) < 0)
			continue;
		for (size_t i = count; i-- > 0;)
			if (entries[i])
				return is_of(memory,
					     &(struct place){.entry = entries[i],
							     .page = base + (end + i) * PAGE,
							     .address = leaf + 8 * (end + i)},
					     page);
	}
	return false;
}

static bool may_be_leaf(const struct limpet_page_map_search *search, uint64_t leaf)
{
	const struct limpet_map *map;

	if (!leaf || leaf % 64)
		return false;
	map = limpet_proc_maps_find(search->maps, leaf);
	return map && limpet_map_is_anonymous(map) && map->perms[1] == 'w' &&
	       ROOT_BYTES <= map->end - leaf;
}

/* The words around it lead to leaves, too, or nowhere. A table of pointers to blocks differs: they
 * are closer to each other than leaves are. */
static bool may_be_of_root(const struct limpet_page_map_search *search, const uint64_t *data,
			   size_t words, size_t at)
{
	if (!may_be_leaf(search, data[at]))
		return false;
	for (size_t i = at > NEIGHBOURS ? at - NEIGHBOURS : 0; i < words && i <= at + NEIGHBOURS;
	     i++) {
		const uint64_t apart = data[i] < data[at] ? data[at] - data[i] : data[i] - data[at];

		if (i != at && data[i] && (apart < ROOT_BYTES || !may_be_leaf(search, data[i])))
			return false;
	}
	return true;
}

/* The beginnings of mappings of the samples, and the first samples themselves. */
struct firsts {
	uint64_t list[LIMPET_SAMPLES];
	size_t count;
};

static void choose_firsts(const struct limpet_maps *maps, const struct limpet_samples *samples,
			  struct firsts *ret)
{
	const uint64_t *list = samples->list;

	ret->count = 0;
	for (size_t i = 0; i < samples->count && ret->count + 1 < LIMPET_SAMPLES; i++) {
		const struct limpet_map *map = limpet_proc_maps_find(maps, list[i]);
		const bool is_new = map &&
				    (!ret->count || ret->list[ret->count - 1] != map->start) &&
				    map->start >> LEAF_SHIFT == list[0] >> LEAF_SHIFT;

		if (is_new)
			ret->list[ret->count++] = map->start;
		else if (i < SAMPLES_FIRST)
			ret->list[ret->count++] = list[i];
	}
}

static unsigned count_explained(const struct limpet_page_map_search *search, uint64_t leaf)
{
	const struct firsts *firsts = search->context;
	unsigned explained = 0;

	for (size_t i = 0; i < firsts->count; i++)
		explained += explains(search->memory, leaf, firsts->list[i]);
	for (size_t i = 0; i < search->samples->count && explained; i++)
		explained += explains_midst(search->memory, leaf, search->samples->list[i]);
	return explained;
}

static const struct limpet_page_map_kind kind = {
	.root_bytes = ROOT_BYTES,
	.root_shift = LEAF_SHIFT,
	.least = SAMPLES_NEEDED,
	.reads = SEARCH_READS,
	.may_be_of_root = may_be_of_root,
	.explained = count_explained,
};

/* ------------------------------------------------------------------ all extents */

struct tree {
	struct limpet_page_map_reader reader;
	struct limpet_jemalloc *jemalloc;
	uint64_t *leaves; /* that were read: a set by open addressing, 0: none */
	size_t leaf_count;
	size_t tried, right; /* entries, and those that lead to an extent */
	bool is_new;         /* one of the latter has a flag that 5.2 does not have */
	uint64_t leaf, base; /* that is read; the first page */
};

/* All entries of jemalloc's lead to extents, but for those that change meanwhile. */
static bool is_none(const struct tree *tree)
{
	return tree->tried >= TRIED_LEAST && tree->right < tree->tried / 2;
}

/* Once all of it is read, or as much as there was time for. */
static bool was_none(const struct tree *tree)
{
	return 2 * tree->right < tree->tried || (tree->right && !tree->is_new);
}

/* False: it is in the set already, or there is no room. */
static bool is_new_leaf(struct tree *tree, uint64_t leaf)
{
	size_t slot = (size_t)(leaf / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % LEAF_SLOTS;

	while (tree->leaves[slot] && tree->leaves[slot] != leaf)
		slot = (slot + 1) % LEAF_SLOTS;
	if (tree->leaves[slot] == leaf)
		return false;
	if (tree->leaf_count >= LEAF_SLOTS / 2) {
		tree->jemalloc->missed = true;
		return false;
	}
	tree->leaves[slot] = leaf;
	tree->leaf_count++;
	return true;
}

static int add_extent(struct limpet_jemalloc *jemalloc, const struct limpet_jemalloc_extent *extent)
{
	struct limpet_jemalloc_extent *last =
		jemalloc->count ? &jemalloc->list[jemalloc->count - 1] : NULL;

	/* They change meanwhile: what overlaps is of another moment. Of a free one a part was taken
	 * since it was read. */
	if (last && extent->start < last->end) {
		if (last->in_use || !extent->in_use) {
			jemalloc->missed |= extent->in_use;
			return 0;
		}
		last->end = extent->start;
	}
	if (jemalloc->count >= EXTENTS_LIMIT) {
		jemalloc->is_cut = true;
		return 0;
	}
	if (limpet_reserve(&jemalloc->list, &jemalloc->capacity, jemalloc->count + 1,
			   sizeof(*jemalloc->list)) < 0 ||
	    !jemalloc->list)
		return -ENOMEM;
	jemalloc->list[jemalloc->count++] = *extent;
	return 0;
}

/* Of a page that no extent has yet, or none any more. */
static bool is_empty(uint64_t entry)
{
	return !entry || entry == (uint64_t)CLASS_NONE << ENTRY_CLASS_SHIFT;
}

/* What the entry leads to by now. A state in transition, or words that do not match yet, last for
 * some instructions of the program; or for as long as it is kept from going on. 0; 1: it was
 * changing each time; 2: there is no entry any more; -ETIME. */
static int read_settled(const struct limpet_memory_reader *memory, struct place *place,
			struct limpet_jemalloc_extent *ret_extent)
{
	for (unsigned tries = 1;; tries++) {
		int error, result = read_words(memory, place, ret_extent);

		if (result != 1 || tries == TRIES)
			return result;
		error = limpet_memory_reader_read(memory, place->address, &place->entry,
						  sizeof(place->entry));
		if (error)
			return error == -ETIME ? error : 1;
		if (is_empty(place->entry))
			return 2;
	}
}

/* The extent that the entry at this place leads to. */
static int visit_entry(struct tree *tree, struct place *place)
{
	struct limpet_jemalloc *jemalloc = tree->jemalloc;
	struct limpet_jemalloc_extent extent;
	const int result = read_settled(tree->reader.memory, place, &extent);

	jemalloc->is_cut |= result == -ETIME;
	jemalloc->missed |= result == 1;
	tree->tried += result != -ETIME;
	if (result)
		return 0;
	tree->right++;
	tree->is_new |= (place->entry & ENTRY_NEW_FLAGS) != 0;
	if (extent.start == place->page)
		return add_extent(jemalloc, &extent);
	/* Its first page's entry was not there yet when that was read. */
	jemalloc->missed |=
		extent.in_use &&
		(!jemalloc->count || jemalloc->list[jemalloc->count - 1].start != extent.start);
	return 0;
}

/* Entries of a leaf's pages. An extent's first page has one, and its last, and all of a slab's. */
static int64_t visit_leaf(void *context, const uint64_t *entries, size_t count, size_t first)
{
	struct tree *tree = context;
	uint64_t before = 0;
	int error = 0;

	for (size_t i = 0; i < count && !error && !tree->jemalloc->is_cut && !is_none(tree); i++) {
		const uint64_t address = limpet_jemalloc_extent_address(entries[i]);
		struct place place = {.entry = entries[i],
				      .page = tree->base + (first + i) * PAGE,
				      .address = tree->leaf + 8 * (first + i)};

		if (is_empty(entries[i]) || address == before)
			continue;
		before = address;
		error = visit_entry(tree, &place);
	}
	return error || !is_none(tree) ? error : LIMPET_PAGE_MAP_END;
}

static int64_t visit_root(void *context, const uint64_t *leaves, size_t count, size_t first)
{
	struct tree *tree = context;
	int error = 0;

	for (size_t i = 0; i < count && !error && !tree->jemalloc->is_cut && !is_none(tree); i++) {
		if (!leaves[i] || leaves[i] % 64 || leaves[i] >> USER_BITS ||
		    !is_new_leaf(tree, leaves[i]))
			continue;
		tree->leaf = leaves[i];
		tree->base = (uint64_t)(first + i) << LEAF_SHIFT;
		error = limpet_page_map_read(&tree->reader, leaves[i], LEVEL_WORDS, visit_leaf,
					     tree);
	}
	return error || !is_none(tree) ? error : LIMPET_PAGE_MAP_END;
}

int limpet_jemalloc_read_tree(const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			      uint64_t root, struct limpet_jemalloc *jemalloc)
{
	LIMPET_FREE uint64_t *leaves = calloc(LEAF_SLOTS, sizeof(*leaves));
	struct tree tree = {.reader = {memory, pages, &jemalloc->is_cut, &jemalloc->missed},
			    .jemalloc = jemalloc,
			    .leaves = leaves};
	int error =
		leaves ? limpet_page_map_read(&tree.reader, root, LEVEL_WORDS, visit_root, &tree)
		       : -ENOMEM;

	/* It was something else that explained a few samples. */
	if (!error && was_none(&tree)) {
		const bool is_cut = jemalloc->is_cut;

		limpet_jemalloc_done(jemalloc);
		jemalloc->is_cut = is_cut;
	}
	return error;
}

int limpet_jemalloc_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			 struct limpet_pages *pages, const struct limpet_memory_ranges *ranges,
			 struct limpet_jemalloc *jemalloc)
{
	struct firsts firsts;
	struct limpet_samples samples;
	const struct limpet_page_map_search search = {&kind, memory, maps, &samples, &firsts};
	int error;

	limpet_samples_choose(ranges, &samples);
	choose_firsts(maps, &samples, &firsts);
	error = limpet_page_map_find(&search, pages, &jemalloc->root, &jemalloc->is_cut);
	return error || !jemalloc->root
		       ? error
		       : limpet_jemalloc_read_tree(memory, pages, jemalloc->root, jemalloc);
}
